// SPDX-License-Identifier: Apache-2.0
//! Read: the pieces of an answer, between packets and no faster than the controller takes them.
use super::{MAX_READS, Pipelines, Service, gone, no_program};
use crate::device::Device;
use crate::p4runtime::lock::lock;
use crate::p4runtime::messages::error::{At, Res, StatusBudget, batch_status, exhausted};
use crate::p4runtime::proto::p4::v1 as pb;
use crate::p4runtime::read::Reader;
use crate::p4runtime::read::answer::{self, Answer, Reading, Stopped};
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::OwnedRwLockReadGuard;
use tonic::Status;

/// Requests in one Read.
const MAX_READ_ENTITIES: usize = 4096;
/// A response is cut where it becomes larger: clients take 4 MB by default, and each that is under way has some.
const RESPONSE_BYTES: usize = 64 << 10;
/// A reader may take nothing for so long, and when a change waits for it, it has so long for all that is left.
const READER_PATIENCE: Duration = Duration::from_secs(5);
const READER_HASTE: Duration = Duration::from_secs(2);

impl Service {
    pub(super) async fn read(self: Arc<Self>, r: pb::ReadRequest, budget: StatusBudget) -> Result<Reading, Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        if r.entities.len() > MAX_READ_ENTITIES {
            let m = format!("{} requests in one Read; the most are {MAX_READ_ENTITIES}", r.entities.len());
            return Err(exhausted(m).under("entities").status());
        }
        let Ok(turn) = self.reads.clone().try_acquire_owned() else {
            return Err(
                exhausted(format!("{MAX_READS} Reads are under way, the most there can be; try again")).status()
            );
        };
        let pipelines = self.pipelines.clone().read_owned().await;
        if pipelines.saved.is_none() && pipelines.live.is_none() {
            return Err(no_program().status());
        }
        let (answer, reading) = answer::answer();
        tokio::spawn(async move {
            let mut filling = Filling { answer, response: pb::ReadResponse::default(), bytes: 0, hurry: None, budget };
            let result = match self.fill(&r.entities, pipelines, &mut filling).await {
                // Others need not wait for the reader any more.
                Ok(status) => filling.answer.finish(status, READER_PATIENCE).await,
                Err(stopped) => Err(stopped),
            };
            if result == Err(Stopped::Stalled) {
                let m = "the answer was not taken in time; read again, and smaller parts of it if that is too slow";
                filling.answer.give_up(Status::aborted(m));
            }
            drop(turn);
        });
        Ok(reading)
    }

    /// Answers each request of a Read; gives the status for the end. Writes wait meanwhile (11.2).
    async fn fill(
        &self,
        requests: &[pb::Entity],
        pipelines: OwnedRwLockReadGuard<Pipelines>,
        filling: &mut Filling,
    ) -> Result<Result<(), Status>, Stopped> {
        let mut results: Vec<Res<()>> = Vec::with_capacity(requests.len());
        // Repeated requests are answered once, and have the same result.
        let mut first_at: HashMap<Vec<u8>, usize> = HashMap::new();
        for (i, request) in requests.iter().enumerate() {
            let first = *first_at.entry(request.encode_to_vec()).or_insert(i);
            if first != i {
                let mut same = results[first].clone();
                if let Err(e) = &mut same {
                    e.at = e.at.replacen(&format!("entities[{first}]"), &format!("entities[{i}]"), 1);
                }
                results.push(same);
                continue;
            }
            let result = match self.fill_one(request, &pipelines, filling).await? {
                Ok(result) => result,
                Err(status) => return Ok(Err(status)),
            };
            results.push(result.at(|| format!("entities[{i}]")));
        }
        filling.send().await?;
        Ok(batch_status("requests", &results, filling.budget))
    }

    /// Answers one request: its error, or the reason why the Read ends here.
    async fn fill_one(
        &self,
        request: &pb::Entity,
        pipelines: &Pipelines,
        filling: &mut Filling,
    ) -> Result<Result<Res<()>, Status>, Stopped> {
        let owned = request.clone();
        let plan = move |reader: &Reader| {
            let mut items = Vec::new();
            reader.plan(&owned, &mut items).map(|()| items)
        };
        let items = match self.look(pipelines, plan).await {
            Ok(Ok(items)) => items,
            Ok(Err(wrong)) => return Ok(Ok(Err(wrong))),
            Err(status) => return Ok(Err(status)),
        };
        for item in items {
            let mut found = 0;
            let (mut next, whole) = (Some(item.clone()), item);
            while let Some(item) = next {
                let piece = move |reader: &Reader| {
                    let mut out = Vec::new();
                    let left = reader.emit(item, &mut out);
                    (left, out)
                };
                let out;
                (next, out) = match self.look(pipelines, piece).await {
                    Ok(some) => some,
                    Err(status) => return Ok(Err(status)),
                };
                found += out.len();
                filling.hurry = match self.changes_wait.load(Ordering::Relaxed) {
                    0 => None,
                    _ => filling.hurry.or(Some(tokio::time::Instant::now() + READER_HASTE)),
                };
                for entity in out {
                    filling.take(entity).await?;
                }
            }
            if found == 0 {
                match self.look(pipelines, move |reader: &Reader| reader.missing(&whole)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(wrong)) => return Ok(Ok(Err(wrong))),
                    Err(status) => return Ok(Err(status)),
                }
            }
        }
        Ok(Ok(Ok(())))
    }

    /// Runs `f` on the state that reads mean: the saved program's, if there is one, else the running one's, between two
    /// packets.
    pub(super) async fn look<R: Send + 'static>(
        &self,
        pipelines: &Pipelines,
        f: impl FnOnce(&Reader) -> R + Send + 'static,
    ) -> Result<R, Status> {
        if let Some(saved) = &pipelines.saved {
            // Others have their turn between two pieces.
            tokio::task::yield_now().await;
            return Ok(f(&Reader {
                config: &saved.config,
                state: &saved.state,
                controller: &saved.controller,
                now_us: 0,
            }));
        }
        let Some(live) = pipelines.live.clone() else { return Err(no_program().status()) };
        let _one = self.looking.lock().await;
        let job = move |d: &mut Device| {
            let now_us = d.now_us();
            let p = d.pipeline.as_ref().filter(|p| p.generation == live.generation)?;
            let controller = lock(&live.controller);
            Some(f(&Reader { config: &live.config, state: &p.switch.state, controller: &controller, now_us }))
        };
        let result = self.handle.call(job).await.map_err(gone)?;
        result.ok_or_else(|| Status::aborted("the program was replaced meanwhile"))
    }
}

/// An answer that is being made, in messages of about [`RESPONSE_BYTES`].
struct Filling {
    answer: Answer,
    response: pb::ReadResponse,
    bytes: usize,
    /// A change waits: the time by which all must be done.
    hurry: Option<tokio::time::Instant>,
    budget: StatusBudget,
}

impl Filling {
    async fn take(&mut self, entity: pb::Entity) -> Result<(), Stopped> {
        self.bytes += entity.encoded_len() + 8;
        self.response.entities.push(entity);
        if self.bytes >= RESPONSE_BYTES {
            self.send().await?;
        }
        Ok(())
    }

    /// Sends the gathered entities.
    async fn send(&mut self) -> Result<(), Stopped> {
        let mut full = std::mem::take(&mut self.response);
        self.bytes = 0;
        if full.entities.is_empty() {
            return Ok(());
        }
        full.entities.shrink_to_fit();
        self.answer.put(full, READER_PATIENCE, self.hurry).await
    }
}
