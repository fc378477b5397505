// SPDX-License-Identifier: Apache-2.0
//! SetForwardingPipelineConfig and GetForwardingPipelineConfig.
use super::{Live, Pipelines, Saved, Service, gone};
use crate::p4runtime::controller_state::ControllerState;
use crate::p4runtime::lock::lock;
use crate::p4runtime::messages::error::{invalid, not_found, unimplemented};
use crate::p4runtime::pipeline::Config;
use crate::p4runtime::proto::p4::v1::{
    self as pb, get_forwarding_pipeline_config_request::ResponseType, set_forwarding_pipeline_config_request::Action,
};
use crate::p4runtime::stream::digests::Digests;
use crate::p4runtime::transport::access::Caller;
use crate::system::return_free_memory;
use std::sync::{Arc, Mutex};
use tonic::Status;
use weir_p4::exec::State;

impl Service {
    pub(super) async fn set(
        self: Arc<Self>,
        r: pb::SetForwardingPipelineConfigRequest,
        caller: Caller,
    ) -> Result<(), Status> {
        let line = self.audit.is_on().then(|| {
            let mut line = caller.entry("SetForwardingPipelineConfig").of_role(&r.role);
            line.action = Some(Action::try_from(r.action).map_or("?", |action| action.as_str_name()));
            line.cookie = r.config.as_ref().and_then(|c| c.cookie.as_ref()).map(|c| c.cookie);
            line.program_bytes = r.config.as_ref().map_or(0, |c| c.p4_device_config.len() as u64);
            line
        });
        let result = self.put(r).await;
        if let Some(line) = line {
            self.audit.record(&line.ended(&result));
        }
        result
    }

    async fn put(&self, r: pb::SetForwardingPipelineConfigRequest) -> Result<(), Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        let primary = || self.primary(&r.role, r.role_id, &r.election_id).map_err(|e| e.status());
        primary()?;
        let action = match Action::try_from(r.action) {
            Ok(Action::Unspecified) => return Err(invalid("is unset").under("action").status()),
            Ok(Action::ReconcileAndCommit) => {
                let m = "RECONCILE_AND_COMMIT is not offered; use VERIFY_AND_COMMIT and write the entries again";
                return Err(unimplemented(m).under("action").status());
            }
            Ok(a) => a,
            Err(_) => return Err(invalid(format!("{} is no action", r.action)).under("action").status()),
        };
        if action == Action::Commit {
            if r.config.is_some() {
                return Err(invalid("must be unset with COMMIT, which takes the saved one").under("config").status());
            }
            let mut pipelines = self.change().await;
            primary()?;
            let Some(saved) = pipelines.saved.take() else {
                return Err(not_found("no configuration is saved; use VERIFY_AND_SAVE first").status());
            };
            let saved = *saved;
            return self.commit(&mut pipelines, saved.config, saved.controller, Some(saved.state)).await;
        }
        let Some(config) = r.config else { return Err(invalid("is unset").under("config").status()) };
        let config = Arc::new(self.verify(config).await?);
        if action == Action::Verify {
            return Ok(());
        }
        let mut pipelines = self.change().await;
        // Another may have become primary while the program was compiled.
        primary()?;
        if action == Action::VerifyAndSave {
            return Self::save(&mut pipelines, config).await;
        }
        pipelines.saved = None;
        let controller = ControllerState::new(&config);
        self.commit(&mut pipelines, config, controller, None).await
    }

    pub(super) async fn save(pipelines: &mut Pipelines, config: Arc<Config>) -> Result<(), Status> {
        let controller = ControllerState::new(&config);
        // `random` begins when the program runs: commit gives it the device's seed.
        let program = config.program.clone();
        let state = tokio::task::spawn_blocking(move || State::new(&program, 0)).await;
        let state = state.map_err(|e| Status::internal(format!("the program could not be saved: {e}")))?;
        pipelines.saved = Some(Box::new(Saved { config, state, controller }));
        Ok(())
    }

    pub(super) async fn verify(&self, config: pb::ForwardingPipelineConfig) -> Result<Config, Status> {
        let _turn = self.compiler.acquire().await.map_err(|e| Status::internal(e.to_string()))?;
        let limit = self.max_state_bytes;
        let work = tokio::task::spawn_blocking(move || {
            let result = Config::verify(config, limit);
            return_free_memory();
            result
        });
        match work.await {
            Ok(result) => result.map_err(|e| e.status()),
            Err(e) => Err(Status::internal(format!("the compiler failed on this program: {e}"))),
        }
    }

    pub(super) async fn commit(
        &self,
        pipelines: &mut Pipelines,
        config: Arc<Config>,
        controller: ControllerState,
        state: Option<State>,
    ) -> Result<(), Status> {
        let program = config.program.clone();
        let maker = self.handle.call(|d| d.switch_maker()).await.map_err(gone)?;
        // Packets must not wait for its native code and arrays, nor for the old ones to be given back.
        let make = move || {
            let mut switch = maker.switch(program);
            // Writes since the program was saved.
            if let Some(mut state) = state {
                state.continue_random(&switch.state);
                switch.state = state;
            }
            switch
        };
        let failed = |e| Status::internal(format!("the program could not be put in: {e}"));
        let switch = tokio::task::spawn_blocking(make).await.map_err(failed)?;
        let (generation, old) = self.handle.call(move |d| d.install(switch)).await.map_err(gone)?;
        tokio::task::spawn_blocking(move || {
            drop(old);
            return_free_memory();
        });
        let live = Arc::new(Live { generation, config, controller: Arc::new(Mutex::new(controller)) });
        *lock(&self.digests) = Digests::default();
        self.take_digest_settings(&live);
        *lock(&self.current) = Some(live.clone());
        pipelines.live = Some(live);
        // Entries that were written to the saved program.
        self.idle.expect(0);
        Ok(())
    }

    pub(super) async fn get(
        &self,
        r: pb::GetForwardingPipelineConfigRequest,
    ) -> Result<pb::GetForwardingPipelineConfigResponse, Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        let Ok(kind) = ResponseType::try_from(r.response_type) else {
            return Err(invalid(format!("{} is none", r.response_type)).under("response_type").status());
        };
        let pipelines = self.pipelines.read().await;
        // Reads and writes refer to the saved one, if there is one, so this does too.
        let saved = pipelines.saved.as_ref().map(|s| &s.config);
        let config = saved.or(pipelines.live.as_ref().map(|l| &l.config)).map(|c| {
            let mut m = pb::ForwardingPipelineConfig { cookie: c.cookie, ..Default::default() };
            if matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie) {
                m.p4info = Some(c.p4info.clone());
            }
            if matches!(kind, ResponseType::All | ResponseType::DeviceConfigAndCookie) {
                m.p4_device_config = c.device_config.clone();
            }
            m
        });
        Ok(pb::GetForwardingPipelineConfigResponse { config })
    }
}
