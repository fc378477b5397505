// SPDX-License-Identifier: Apache-2.0
//! The six calls of the P4Runtime service: `grpc` as tonic calls them, and a file for each kind of work.
pub mod control;
mod events;
mod fuzz;
mod grpc;
mod idle;
mod pipelines;
mod read;
mod stream;
mod write;

pub use fuzz::{fuzz, fuzz_config, fuzz_stream};
pub use grpc::{API_VERSION, Server};

use super::audit::Audit;
use super::controller_state::ControllerState;
use super::lock::lock;
use super::messages::error::{Fail, Res, invalid, not_found, precondition};
use super::pipeline::Config;
use super::proto::p4::v1 as pb;
use super::stream::digests::Digests;
use super::stream::hub::Hub;
use super::stream::roles::Roles;
use crate::handle::{Gone, Handle};
use idle::IdleTimer;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{Notify, RwLock, RwLockWriteGuard, Semaphore};
use tonic::Status;
use weir_p4::exec::State;

/// Reads under way at most.
const MAX_READS: usize = 32;

/// The running program as the server knows it.
struct Live {
    generation: u64,
    config: Arc<Config>,
    /// Only jobs on the packet thread use it, one after the other: it never waits.
    controller: Arc<Mutex<ControllerState>>,
}

/// Verified and saved; written to and read, not yet running (13, COMMIT).
struct Saved {
    config: Arc<Config>,
    state: State,
    controller: ControllerState,
}

/// Held while a request writes, reads or replaces a program.
struct Pipelines {
    live: Option<Arc<Live>>,
    saved: Option<Box<Saved>>,
}

pub struct Service {
    device_id: u64,
    cpu_port: Option<u32>,
    max_state_bytes: u64,
    handle: Handle,
    hub: Mutex<Hub>,
    pipelines: Arc<RwLock<Pipelines>>,
    /// Changes that wait for reads to end.
    changes_wait: AtomicUsize,
    reads: Arc<Semaphore>,
    /// One piece of a read at a time is on the packet thread, however many read.
    looking: tokio::sync::Mutex<()>,
    /// The running pipeline in `pipelines`, for the pump, which must not wait for a write.
    current: Mutex<Option<Arc<Live>>>,
    digests: Mutex<Digests>,
    digests_changed: Notify,
    idle: IdleTimer,
    /// One compilation at a time.
    compiler: Semaphore,
    start: Instant,
    audit: Arc<Audit>,
}

fn gone(_: Gone) -> Status {
    Status::unavailable("the switch has ended")
}

fn no_program() -> Fail {
    precondition("there is no program yet; set one by SetForwardingPipelineConfig")
}

impl Service {
    pub fn new(
        device_id: u64,
        cpu_port: Option<u32>,
        max_state_bytes: u64,
        handle: Handle,
        initial: Option<(u64, Config)>,
        audit: Arc<Audit>,
    ) -> Service {
        let live = initial.map(|(generation, config)| {
            let controller = Arc::new(Mutex::new(ControllerState::new(&config)));
            Arc::new(Live { generation, config: Arc::new(config), controller })
        });
        Service {
            device_id,
            cpu_port,
            max_state_bytes,
            handle,
            hub: Mutex::new(Hub { roles: Roles::new(device_id), out: BTreeMap::new(), next: 0 }),
            pipelines: Arc::new(RwLock::new(Pipelines { live: live.clone(), saved: None })),
            changes_wait: AtomicUsize::new(0),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            looking: tokio::sync::Mutex::new(()),
            current: Mutex::new(live),
            digests: Mutex::new(Digests::default()),
            digests_changed: Notify::new(),
            idle: IdleTimer::default(),
            compiler: Semaphore::new(1),
            start: Instant::now(),
            audit,
        }
    }

    fn device(&self, id: u64) -> Res<()> {
        if id == self.device_id {
            return Ok(());
        }
        Err(not_found(format!("device_id is {id}, this switch is device {}", self.device_id)))
    }

    fn primary(&self, role: &str, role_id: u64, election: &Option<pb::Uint128>) -> Res<()> {
        if role_id != 0 && role.is_empty() {
            return Err(invalid("roles go by name since P4Runtime 1.4; set role").under("role_id"));
        }
        lock(&self.hub).roles.check(role, election)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// For changes: reads that are under way end first, each of them soon.
    async fn change(&self) -> RwLockWriteGuard<'_, Pipelines> {
        struct Counted<'a>(&'a AtomicUsize);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.changes_wait.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.changes_wait);
        self.pipelines.write().await
    }

    /// The pump goes by the controller's writes.
    fn take_digest_settings(&self, live: &Live) {
        let controller = lock(&live.controller);
        let mut digests = lock(&self.digests);
        for at in 0..live.config.digests.len() {
            digests.set(at, controller.digests.get(&at).copied());
        }
        self.digests_changed.notify_one();
    }
}
