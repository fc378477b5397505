// SPDX-License-Identifier: Apache-2.0
//! Write.
use super::{Service, gone, no_program};
use crate::device::Device;
use crate::p4runtime::audit::{Entry, tally};
use crate::p4runtime::lock::lock;
use crate::p4runtime::messages::error::{Res, StatusBudget, batch_status, exhausted, invalid};
use crate::p4runtime::pipeline::Config;
use crate::p4runtime::proto::p4::v1::{self as pb, write_request::Atomicity};
use crate::p4runtime::transport::access::Caller;
use crate::p4runtime::write::Writer;
use std::sync::Arc;
use tonic::Status;

/// Updates applied without a packet in between, unless the batch must be atomic.
const UPDATES_AT_ONCE: usize = 64;
/// The largest atomic batch: packets wait for all of it.
const MAX_ATOMIC: usize = 4096;

impl Service {
    pub(super) async fn write(&self, r: pb::WriteRequest, budget: StatusBudget, caller: &Caller) -> Result<(), Status> {
        let mut line = self.audit.is_on().then(|| caller.entry("Write").of_role(&r.role));
        let result = self.apply(r, budget, &mut line).await;
        if let Some(line) = line {
            self.audit.record(&line.ended(&result));
        }
        result
    }

    /// Records the results of a batch in its line of the audit.
    fn tell(line: &mut Option<Entry>, updates: &[pb::Update], config: &Config, results: &[Res<()>]) {
        if let Some(line) = line {
            line.updates = tally(updates, &config.program.info);
            line.failed = results.iter().filter(|r| r.is_err()).count() as u64;
        }
    }

    async fn apply(&self, r: pb::WriteRequest, budget: StatusBudget, line: &mut Option<Entry>) -> Result<(), Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        // A client without the right to write delays nobody: readers hurry for a change that waits.
        self.primary(&r.role, r.role_id, &r.election_id).map_err(|e| e.status())?;
        // A new primary waits for this, so an admitted request is finished under its primary.
        let mut pipelines = self.change().await;
        self.primary(&r.role, r.role_id, &r.election_id).map_err(|e| e.status())?;
        let atomic = match Atomicity::try_from(r.atomicity) {
            Ok(Atomicity::ContinueOnError) => false,
            // All of a batch is done between two packets, so the two are the same here.
            Ok(Atomicity::RollbackOnError | Atomicity::DataplaneAtomic) => true,
            Err(_) => return Err(invalid(format!("atomicity: {} is none", r.atomicity)).status()),
        };
        if atomic && r.updates.len() > MAX_ATOMIC {
            let m = format!(
                "{} updates that must be done between two packets; the most are {MAX_ATOMIC}: send fewer at a time, or \
                 with CONTINUE_ON_ERROR",
                r.updates.len()
            );
            return Err(exhausted(m).under("updates").status());
        }
        if let Some(saved) = &mut pipelines.saved {
            let saved = &mut **saved;
            let mut w = Writer::new(&saved.config, &mut saved.state, &mut saved.controller, 0);
            let results = if atomic { w.all(&r.updates) } else { w.each(&r.updates, 0) };
            Self::tell(line, &r.updates, &saved.config, &results);
            return batch_status("updates", &results, budget);
        }
        let Some(live) = pipelines.live.clone() else { return Err(no_program().status()) };
        let digests = r.updates.iter().any(|u| {
            let entity = u.entity.as_ref().and_then(|e| e.entity.as_ref());
            matches!(entity, Some(pb::entity::Entity::DigestEntry(_)))
        });
        let updates = Arc::new(r.updates);
        let mut results = Vec::with_capacity(updates.len());
        let step = if atomic { updates.len().max(1) } else { UPDATES_AT_ONCE };
        for from in (0..updates.len()).step_by(step) {
            let (live, updates) = (live.clone(), updates.clone());
            let job = move |d: &mut Device| {
                let now_us = d.now_us();
                let p = d.pipeline.as_mut().filter(|p| p.generation == live.generation)?;
                let mut controller = lock(&live.controller);
                let mut w = Writer::new(&live.config, &mut p.switch.state, &mut controller, now_us);
                let updates = &updates[from..updates.len().min(from + step)];
                Some(if atomic { w.all(updates) } else { w.each(updates, from) })
            };
            let some = self.handle.call(job).await.map_err(gone)?;
            results.extend(some.ok_or_else(|| Status::aborted("the program was replaced meanwhile"))?);
        }
        self.idle.expect_written(&updates);
        if digests {
            self.take_digest_settings(&live);
        }
        Self::tell(line, &updates, &live.config, &results);
        batch_status("updates", &results, budget)
    }
}
