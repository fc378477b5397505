// SPDX-License-Identifier: Apache-2.0
//! The state that P4Runtime serves, for the command line and for another server of this process. Changes and reads exclude
//! each other as those of P4Runtime do, and mean the same program: the saved one, or else the running one.
use super::{Pipelines, Service};
use crate::device::Device;
use crate::handle::Handle;
use crate::p4runtime::audit::{Audit, Entry};
use crate::p4runtime::controller_state::ControllerState;
use crate::p4runtime::lock::lock;
use crate::p4runtime::pipeline::Config;
use crate::p4runtime::proto::p4::v1::ForwardingPipelineConfig;
use crate::p4runtime::read::Reader;
use crate::p4runtime::write::Writer;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};
use tonic::Status;
use weir_p4::bytecode::program::Program;
use weir_p4::exec::State;

/// The program a switch was started with, for controllers to read.
pub struct InitialPipeline {
    /// The program, compiled.
    pub program: Arc<Program>,
    /// As [`crate::device::Device::set_pipeline`] gave it.
    pub generation: u64,
    /// The program's text.
    pub device_config: Vec<u8>,
}

/// Why there is no state to work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No program was loaded.
    Program,
    /// The program was replaced meanwhile.
    Replaced,
    /// The switch has ended.
    Switch,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Missing::Program => "there is no program yet",
            Missing::Replaced => "the program was replaced meanwhile",
            Missing::Switch => "the switch has ended",
        })
    }
}

/// Access to programs and their state.
#[derive(Clone)]
pub struct Control(pub(in crate::p4runtime) Arc<Service>);

impl Control {
    /// For a device; `audit` is where changes are reported.
    ///
    /// # Errors
    /// When the program has something that controllers could not be served.
    pub fn new(
        (device_id, cpu_port, max_state_bytes): (u64, Option<u32>, u64),
        handle: Handle,
        initial: Option<InitialPipeline>,
        audit: Audit,
    ) -> Result<Control, String> {
        let initial = match initial {
            Some(p) => {
                let config = Config::new(p.program, p.device_config.into()).map_err(|e| e.to_string())?;
                Some((p.generation, config))
            }
            None => None,
        };
        Ok(Control(Arc::new(Service::new(device_id, cpu_port, max_state_bytes, handle, initial, Arc::new(audit)))))
    }

    pub(in crate::p4runtime) fn audit_log(&self) -> Arc<Audit> {
        self.0.audit.clone()
    }

    /// The id of the device.
    pub(crate) fn device_id(&self) -> u64 {
        self.0.device_id
    }

    /// Begins a change, which may have several steps.
    pub(crate) async fn change(&self) -> Changing<'_> {
        Changing { service: &self.0, pipelines: self.0.change().await }
    }

    /// Begins a read, which may have several steps.
    pub(crate) async fn read(&self) -> Reading<'_> {
        Reading { service: &self.0, pipelines: self.0.pipelines.read().await }
    }

    /// Runs `f` on the packet thread.
    pub(crate) async fn device<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Device) -> R + Send + 'static,
    ) -> Result<R, Missing> {
        self.0.handle.call(f).await.map_err(|_| Missing::Switch)
    }

    /// Verifies a program: P4 source or BMv2's JSON.
    pub(crate) async fn verify(&self, program: Vec<u8>) -> Result<Arc<Config>, Status> {
        let config = ForwardingPipelineConfig { p4_device_config: program.into(), ..Default::default() };
        Ok(Arc::new(self.0.verify(config).await?))
    }

    /// An entry may expire in `us`.
    pub(crate) fn expect_idle(&self, us: u64) {
        self.0.idle.expect(us);
    }

    /// Reports a change of `object` to the audit.
    pub(crate) fn audit(&self, from: SocketAddr, method: &str, object: &str, result: &Result<(), Status>) {
        if !self.0.audit.is_on() {
            return;
        }
        let mut line = Entry { from: from.to_string(), call: "Thrift", ..Entry::default() };
        let name: String = format!("{method} {object}").chars().take(160).collect();
        line.updates.insert(name.trim_end().into(), 1);
        line.failed = u64::from(result.is_err());
        self.0.audit.record(&line.ended(result));
    }
}

/// A change under way: no other change or read is.
pub struct Changing<'a> {
    service: &'a Service,
    pipelines: RwLockWriteGuard<'a, Pipelines>,
}

impl Changing<'_> {
    /// Runs `f` on the state, between two packets where the program is running.
    pub async fn step<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut Writer<'_>) -> R + Send + 'static,
    ) -> Result<R, Missing> {
        if let Some(saved) = &mut self.pipelines.saved {
            let saved = &mut **saved;
            return Ok(f(&mut Writer::new(&saved.config, &mut saved.state, &mut saved.controller, 0)));
        }
        let Some(live) = self.pipelines.live.clone() else { return Err(Missing::Program) };
        let job = move |d: &mut Device| {
            let now_us = d.now_us();
            let p = d.pipeline.as_mut().filter(|p| p.generation == live.generation)?;
            let mut controller = lock(&live.controller);
            Some(f(&mut Writer::new(&live.config, &mut p.switch.state, &mut controller, now_us)))
        };
        let result = self.service.handle.call(job).await.map_err(|_| Missing::Switch)?;
        result.ok_or(Missing::Replaced)
    }

    /// Whether a program is saved and not yet running.
    pub fn has_saved(&self) -> bool {
        self.pipelines.saved.is_some()
    }

    /// Saves a program, which further changes and reads then mean.
    pub async fn save(&mut self, config: Arc<Config>) -> Result<(), Status> {
        Service::save(&mut self.pipelines, config).await
    }

    /// Runs the saved program.
    pub async fn commit(&mut self) -> Result<(), Status> {
        let Some(saved) = self.pipelines.saved.take() else { return Ok(()) };
        let saved = *saved;
        self.service.commit(&mut self.pipelines, saved.config, saved.controller, Some(saved.state)).await
    }

    /// Runs the program with fresh state.
    pub async fn reset(&mut self) -> Result<(), Status> {
        if let Some(saved) = &mut self.pipelines.saved {
            saved.state = State::new(&saved.config.program, 0);
            saved.controller = ControllerState::new(&saved.config);
            return Ok(());
        }
        let Some(live) = self.pipelines.live.clone() else { return Ok(()) };
        let controller = ControllerState::new(&live.config);
        self.service.commit(&mut self.pipelines, live.config.clone(), controller, None).await
    }
}

/// A read under way: no change is.
pub struct Reading<'a> {
    service: &'a Service,
    pipelines: RwLockReadGuard<'a, Pipelines>,
}

impl Reading<'_> {
    /// Runs `f` on the state, between two packets where the program is running.
    pub async fn step<R: Send + 'static>(
        &self,
        f: impl FnOnce(&Reader<'_>) -> R + Send + 'static,
    ) -> Result<R, Missing> {
        if self.pipelines.saved.is_none() && self.pipelines.live.is_none() {
            return Err(Missing::Program);
        }
        self.service.look(&self.pipelines, f).await.map_err(|e| match e.code() {
            tonic::Code::Aborted => Missing::Replaced,
            _ => Missing::Switch,
        })
    }

    /// The program that requests mean.
    pub fn config(&self) -> Result<Arc<Config>, Missing> {
        let saved = self.pipelines.saved.as_ref().map(|s| s.config.clone());
        saved.or_else(|| self.pipelines.live.as_ref().map(|l| l.config.clone())).ok_or(Missing::Program)
    }
}
