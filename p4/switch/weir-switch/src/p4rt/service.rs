// SPDX-License-Identifier: Apache-2.0
//! The six calls of the P4Runtime service.
use super::admit::Place;
use super::answer::{self, Answer, Reading, Stopped};
use super::config::Config;
use super::digests::{Digests, List};
use super::fail::{
    At, Fail, Res, Room, batch_status, denied, exhausted, invalid, not_found, precondition, unimplemented,
};
use super::pb::p4::v1::{
    self as pb, StreamMessageRequest, StreamMessageResponse, get_forwarding_pipeline_config_request::ResponseType,
    p4_runtime_server::P4Runtime, set_forwarding_pipeline_config_request::Action, stream_error,
    stream_message_request::Update as Ask, stream_message_response::Update as Tell, write_request::Atomicity,
};
use super::read::{Item, Reader};
use super::roles::{Notices, Roles, StreamId};
use super::write::{Book, Writer};
use super::{API_VERSION, ServeConfig, lock, packets};
use crate::device::{Device, Event};
use crate::handle::{Gone, Handle};
use prost::Message as _;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock, RwLockWriteGuard, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};
use weir_p4::exec::DigestData;
use weir_p4::exec::State;
use weir_p4::v1model::Switch;

/// Open streams at most.
const MAX_STREAMS: usize = 128;
/// Messages that wait for a controller to take them at most.
const QUEUE: usize = 1024;
/// Places in that queue kept for what is not packets or digests.
const KEPT_FREE: usize = 64;
/// Updates applied without a packet in between, unless the batch must be atomic.
const UPDATES_AT_ONCE: usize = 64;
/// The largest atomic batch: packets wait for all of it.
const MAX_ATOMIC: usize = 4096;
/// Requests in one Read, and Reads under way.
const MAX_READ_ENTITIES: usize = 4096;
const MAX_READS: usize = 32;
/// A response is cut where it becomes larger: clients take 4 MB by default, and each that is under way has some.
const RESPONSE_BYTES: usize = 64 << 10;
/// A reader may take nothing for so long, and when a change waits for it, it has so long for all that is left.
const READER_PATIENCE: Duration = Duration::from_secs(5);
const READER_HASTE: Duration = Duration::from_secs(2);

/// The running program as the server knows it.
struct Live {
    generation: u64,
    config: Arc<Config>,
    /// Only jobs on the packet thread use it, one after the other: it never waits.
    book: Arc<Mutex<Book>>,
}

/// Verified and saved; written to and read, not yet running (13, COMMIT).
struct Saved {
    config: Arc<Config>,
    state: State,
    book: Book,
}

/// Held by whoever writes, reads or replaces a program.
struct Pipelines {
    live: Option<Arc<Live>>,
    saved: Option<Box<Saved>>,
}

/// Controllers' streams.
struct Hub {
    roles: Roles,
    out: BTreeMap<StreamId, mpsc::Sender<Result<StreamMessageResponse, Status>>>,
    next: StreamId,
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
    /// What `pipelines` has running, for the pump, which must not wait for a write.
    current: Mutex<Option<Arc<Live>>>,
    digests: Mutex<Digests>,
    digests_changed: Notify,
    /// One compilation at a time.
    compiler: Semaphore,
    start: Instant,
}

fn gone(_: Gone) -> Status {
    Status::unavailable("the switch has ended")
}

fn no_program() -> Fail {
    precondition("there is no program yet; set one by SetForwardingPipelineConfig")
}

impl Hub {
    fn send(&mut self, id: StreamId, message: Tell) {
        let message = StreamMessageResponse { update: Some(message) };
        let Some(out) = self.out.get(&id) else { return };
        if out.try_send(Ok(message)).is_err() {
            // It has not read for so long that its queue is full, or it has gone: its stream ends here.
            self.out.remove(&id);
        }
    }

    fn tell(&mut self, notices: Notices) {
        for (id, m) in notices {
            self.send(id, Tell::Arbitration(m));
        }
    }

    /// Packets and digests are for primaries; who does not read in time loses them.
    fn tell_primaries(&mut self, message: Tell) {
        let primaries: Vec<StreamId> = self.roles.primaries().collect();
        for id in primaries {
            if self.out.get(&id).is_some_and(|out| out.capacity() > KEPT_FREE) {
                self.send(id, message.clone());
            }
        }
    }

    /// A stream is over; true when its role has lost its primary by it.
    fn close(&mut self, id: StreamId) -> bool {
        self.out.remove(&id);
        let was_primary = self.roles.is_primary(id) == Some(true);
        let notices = self.roles.leave(id);
        self.tell(notices);
        was_primary
    }
}

/// Ends a stream's part in arbitration however its task ends.
struct Session {
    service: Arc<Service>,
    id: StreamId,
}

impl Drop for Session {
    fn drop(&mut self) {
        if lock(&self.service.hub).close(self.id) {
            lock(&self.service.digests).forget();
        }
    }
}

impl Service {
    pub fn new(config: &ServeConfig, handle: Handle, initial: Option<(u64, Config)>) -> Service {
        let live = initial.map(|(generation, config)| {
            let book = Arc::new(Mutex::new(Book::new(&config)));
            Arc::new(Live { generation, config: Arc::new(config), book })
        });
        Service {
            device_id: config.device_id,
            cpu_port: config.cpu_port,
            max_state_bytes: config.max_state_bytes,
            handle,
            hub: Mutex::new(Hub { roles: Roles::new(config.device_id), out: BTreeMap::new(), next: 0 }),
            pipelines: Arc::new(RwLock::new(Pipelines { live: live.clone(), saved: None })),
            changes_wait: AtomicUsize::new(0),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            looking: tokio::sync::Mutex::new(()),
            current: Mutex::new(live),
            digests: Mutex::new(Digests::default()),
            digests_changed: Notify::new(),
            compiler: Semaphore::new(1),
            start: Instant::now(),
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

    /// For whoever changes something: reads that are under way end first, each of them soon.
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

    // Write.

    async fn write(&self, r: pb::WriteRequest, room: Room) -> Result<(), Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        // Who may not write holds up nobody: readers hurry for a change that waits.
        self.primary(&r.role, r.role_id, &r.election_id).map_err(|e| e.status())?;
        // Whoever becomes primary waits for this, so a request that was let in is finished under its primary.
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
            let mut w = Writer::new(&saved.config, &mut saved.state, &mut saved.book, 0);
            let results = if atomic { w.all(&r.updates) } else { w.each(&r.updates, 0) };
            return batch_status("updates", &results, room);
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
                let mut book = lock(&live.book);
                let mut w = Writer::new(&live.config, &mut p.switch.state, &mut book, now_us);
                let updates = &updates[from..updates.len().min(from + step)];
                Some(if atomic { w.all(updates) } else { w.each(updates, from) })
            };
            let some = self.handle.call(job).await.map_err(gone)?;
            results.extend(some.ok_or_else(|| Status::aborted("the program was replaced meanwhile"))?);
        }
        if digests {
            self.take_digest_settings(&live);
        }
        batch_status("updates", &results, room)
    }

    /// The pump goes by what the controller has written.
    fn take_digest_settings(&self, live: &Live) {
        let book = lock(&live.book);
        let mut digests = lock(&self.digests);
        for at in 0..live.config.digests.len() {
            digests.set(at, book.digests.get(&at).copied());
        }
        self.digests_changed.notify_one();
    }

    // Read.

    async fn read(self: Arc<Self>, r: pb::ReadRequest, room: Room) -> Result<Reading, Status> {
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
            let mut filling = Filling { answer, response: pb::ReadResponse::default(), bytes: 0, hurry: None, room };
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
        // What is asked for twice is answered once, and its result is the same.
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
        Ok(batch_status("requests", &results, filling.room))
    }

    /// Answers one request: what is wrong with it, or why the Read ends here.
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
    async fn look<R: Send + 'static>(
        &self,
        pipelines: &Pipelines,
        f: impl FnOnce(&Reader) -> R + Send + 'static,
    ) -> Result<R, Status> {
        if let Some(saved) = &pipelines.saved {
            // Others have their turn between two pieces.
            tokio::task::yield_now().await;
            return Ok(f(&Reader { config: &saved.config, state: &saved.state, book: &saved.book }));
        }
        let Some(live) = pipelines.live.clone() else { return Err(no_program().status()) };
        let _one = self.looking.lock().await;
        let job = move |d: &mut Device| {
            let p = d.pipeline.as_ref().filter(|p| p.generation == live.generation)?;
            let book = lock(&live.book);
            Some(f(&Reader { config: &live.config, state: &p.switch.state, book: &book }))
        };
        let result = self.handle.call(job).await.map_err(gone)?;
        result.ok_or_else(|| Status::aborted("the program was replaced meanwhile"))
    }

    // Pipelines.

    async fn set(self: Arc<Self>, r: pb::SetForwardingPipelineConfigRequest) -> Result<(), Status> {
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
            return self.commit(&mut pipelines, saved.config, saved.book, Some(saved.state)).await;
        }
        let Some(config) = r.config else { return Err(invalid("is unset").under("config").status()) };
        let config = Arc::new(self.verify(config).await?);
        if action == Action::Verify {
            return Ok(());
        }
        let mut pipelines = self.change().await;
        // Another may have become primary while the program was compiled.
        primary()?;
        let book = Book::new(&config);
        if action == Action::VerifyAndSave {
            // `random` begins when the program runs: commit gives it the device's seed.
            let program = config.program.clone();
            let state = tokio::task::spawn_blocking(move || State::new(&program, 0)).await;
            let state = state.map_err(|e| Status::internal(format!("the program could not be saved: {e}")))?;
            pipelines.saved = Some(Box::new(Saved { config, state, book }));
            return Ok(());
        }
        pipelines.saved = None;
        self.commit(&mut pipelines, config, book, None).await
    }

    async fn verify(&self, config: pb::ForwardingPipelineConfig) -> Result<Config, Status> {
        let _turn = self.compiler.acquire().await.map_err(|e| Status::internal(e.to_string()))?;
        let limit = self.max_state_bytes;
        let work = tokio::task::spawn_blocking(move || Config::verify(config, limit));
        match work.await {
            Ok(result) => result.map_err(|e| e.status()),
            Err(e) => Err(Status::internal(format!("the compiler failed on this program: {e}"))),
        }
    }

    async fn commit(
        &self,
        pipelines: &mut Pipelines,
        config: Arc<Config>,
        book: Book,
        state: Option<State>,
    ) -> Result<(), Status> {
        let program = config.program.clone();
        let seed = self.handle.call(|d| d.seed()).await.map_err(gone)?;
        // Its arrays may be large, so that packets must not wait for them to be made, nor for the old ones to be given
        // back.
        let make = move || {
            let mut switch = Switch::new(program, seed);
            // What was written since the program was saved.
            if let Some(mut state) = state {
                state.continue_random(&switch.state);
                switch.state = state;
            }
            switch
        };
        let failed = |e| Status::internal(format!("the program could not be put in: {e}"));
        let switch = tokio::task::spawn_blocking(make).await.map_err(failed)?;
        let (generation, old) = self.handle.call(move |d| d.install(switch)).await.map_err(gone)?;
        tokio::task::spawn_blocking(move || drop(old));
        let live = Arc::new(Live { generation, config, book: Arc::new(Mutex::new(book)) });
        *lock(&self.digests) = Digests::default();
        self.take_digest_settings(&live);
        *lock(&self.current) = Some(live.clone());
        pipelines.live = Some(live);
        Ok(())
    }

    async fn get(
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

    // Streams.

    fn open(&self) -> Result<(StreamId, mpsc::Receiver<Result<StreamMessageResponse, Status>>), Status> {
        let mut hub = lock(&self.hub);
        if hub.out.len() >= MAX_STREAMS {
            return Err(Status::resource_exhausted(format!("{MAX_STREAMS} streams are open, the most there can be")));
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        hub.next += 1;
        let id = hub.next;
        hub.out.insert(id, sender);
        Ok((id, receiver))
    }

    /// Serves a stream until its controller ends it or an error does.
    async fn stream(self: Arc<Self>, id: StreamId, mut input: Streaming<StreamMessageRequest>) {
        let session = Session { service: self.clone(), id };
        // An error here is the connection's end.
        while let Ok(Some(m)) = input.message().await {
            if let Err(e) = self.message(id, m).await {
                if let Some(out) = lock(&self.hub).out.get(&id) {
                    // With the queue full it has not read for long, and goes without the reason.
                    let _ = out.try_send(Err(e.status()));
                }
                break;
            }
            if !lock(&self.hub).out.contains_key(&id) {
                break;
            }
        }
        drop(session);
    }

    /// A message of a controller. An error ends its stream.
    async fn message(&self, id: StreamId, m: StreamMessageRequest) -> Res<()> {
        let error = match m.update {
            Some(Ask::Arbitration(a)) => {
                // In-flight requests of the primary so far are finished first.
                let _quiet = self.change().await;
                let mut hub = lock(&self.hub);
                let notices = hub.roles.arbitrate(id, &a).at(|| "arbitration")?;
                if notices.len() > 1 {
                    lock(&self.digests).forget();
                }
                hub.tell(notices);
                return Ok(());
            }
            Some(Ask::Packet(p)) => match self.packet_out(id, &p).await {
                Ok(()) => return Ok(()),
                Err(e) => {
                    let details = pb::PacketOutError { packet_out: Some(p) };
                    (e, stream_error::Details::PacketOut(details))
                }
            },
            Some(Ask::DigestAck(a)) => match self.digest_ack(id, &a) {
                Ok(()) => return Ok(()),
                Err(e) => {
                    let details = pb::DigestListAckError { digest_list_ack: Some(a) };
                    (e, stream_error::Details::DigestListAck(details))
                }
            },
            Some(Ask::Other(other)) => {
                let details = pb::StreamOtherError { other: Some(other) };
                (unimplemented("no other messages are known").under("other"), stream_error::Details::Other(details))
            }
            None => {
                let details = pb::StreamOtherError { other: None };
                (invalid("is unset").under("update"), stream_error::Details::Other(details))
            }
        };
        let (e, details) = error;
        let message = pb::StreamError {
            canonical_code: e.code as i32,
            message: e.to_string(),
            details: Some(details),
            ..Default::default()
        };
        lock(&self.hub).send(id, Tell::Error(message));
        Ok(())
    }

    fn is_primary(&self, id: StreamId) -> Res<()> {
        match lock(&self.hub).roles.is_primary(id) {
            Some(true) => Ok(()),
            Some(false) => Err(denied("only its role's primary may send this")),
            None => Err(denied("an arbitration update must come first")),
        }
    }

    async fn packet_out(&self, id: StreamId, p: &pb::PacketOut) -> Res<()> {
        self.is_primary(id)?;
        if self.cpu_port.is_none() {
            return Err(precondition("the switch has no CPU port; start it with --cpu-port"));
        }
        let Some(live) = lock(&self.current).clone() else { return Err(no_program()) };
        let frame = packets::packet_out(&live.config.program.info, p).at(|| "packet")?;
        let inject = self.handle.call(move |d| d.inject(frame)).await;
        inject.map_err(|e| Fail::new(Code::Unavailable, e.to_string()))
    }

    fn digest_ack(&self, id: StreamId, a: &pb::DigestListAck) -> Res<()> {
        self.is_primary(id)?;
        let Some(live) = lock(&self.current).clone() else { return Err(no_program()) };
        let list = &live.config.program.info.digests;
        let Some(at) = list.iter().position(|d| d.preamble.id == a.digest_id) else {
            let m = format!("the program has no digest with id 0x{:08x}", a.digest_id);
            return Err(invalid(m).under("digest_ack.digest_id"));
        };
        // A list that has timed out is none the controller could know of.
        lock(&self.digests).acknowledge(at, a.list_id);
        Ok(())
    }

    /// Passes on what the switch tells, until it ends.
    pub async fn pump(self: Arc<Self>, mut events: mpsc::Receiver<Event>) {
        loop {
            let next = lock(&self.digests).next_ns();
            let wait = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep(std::time::Duration::from_nanos(at.saturating_sub(self.now_ns()))).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.event(event).await,
                    None => return,
                },
                () = wait => {}
                () = self.digests_changed.notified() => {}
            }
            let due = lock(&self.digests).due(self.now_ns());
            due.into_iter().for_each(|list| self.send_digests(list));
        }
    }

    /// The program of that generation, unless it was replaced.
    async fn live(&self, generation: u64) -> Option<Arc<Live>> {
        let newer = |l: &Option<Arc<Live>>| l.as_ref().is_none_or(|l| l.generation < generation);
        if newer(&lock(&self.current)) {
            // It is being put in at this moment.
            let _put_in = self.pipelines.read().await;
        }
        lock(&self.current).clone().filter(|l| l.generation == generation)
    }

    async fn event(&self, event: Event) {
        match event {
            Event::PacketIn { generation, bytes } => {
                let Some(live) = self.live(generation).await else { return };
                if let Some(m) = packets::packet_in(&live.config.program.info, bytes) {
                    lock(&self.hub).tell_primaries(Tell::Packet(m));
                }
            }
            Event::Digest { generation, data: DigestData { digest, values, .. }, .. } => {
                let Some(live) = self.live(generation).await else { return };
                let at = live.config.program.info.digests.iter().position(|d| d.ir_index == digest);
                let full = at.and_then(|at| lock(&self.digests).push(at, values, self.now_ns()));
                full.into_iter().for_each(|list| self.send_digests(list));
            }
            // P4Runtime has no message for it.
            Event::PortStatus { .. } => {}
        }
    }

    fn send_digests(&self, list: List) {
        let Some(live) = lock(&self.current).clone() else { return };
        let Some(layout) = live.config.digests.get(list.digest) else { return };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = pb::DigestList {
            digest_id: live.config.program.info.digests[list.digest].preamble.id,
            list_id: list.list_id,
            data: list.messages.into_iter().map(|values| layout.encode(&mut values.into_iter())).collect(),
            timestamp: since_epoch.as_nanos() as i64,
        };
        lock(&self.hub).tell_primaries(Tell::Digest(message));
    }
}

/// An answer that is being made, in messages of about [`RESPONSE_BYTES`].
struct Filling {
    answer: Answer,
    response: pb::ReadResponse,
    bytes: usize,
    /// A change waits: the time by which all must be done.
    hurry: Option<tokio::time::Instant>,
    room: Room,
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

    /// Sends what has been gathered.
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

/// The service as tonic calls it.
pub struct Server(pub Arc<Service>);

/// Runs a change to its end even when its caller goes away meanwhile; it keeps its place as long.
async fn whole<T: Send + 'static>(
    place: Option<Place>,
    f: impl std::future::Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let kept = async move {
        let result = f.await;
        drop(place);
        result
    };
    tokio::spawn(kept).await.unwrap_or_else(|e| Err(Status::internal(format!("the request failed: {e}"))))
}

#[tonic::async_trait]
impl P4Runtime for Server {
    type ReadStream = Reading;
    type StreamChannelStream = ReceiverStream<Result<StreamMessageResponse, Status>>;

    async fn write(&self, request: Request<pb::WriteRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let service = self.0.clone();
        let room = Room::of(request.metadata());
        let place = request.extensions().get().cloned();
        whole(place, async move { service.write(request.into_inner(), room).await }).await?;
        Ok(Response::new(pb::WriteResponse {}))
    }

    async fn read(&self, request: Request<pb::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let room = Room::of(request.metadata());
        self.0.clone().read(request.into_inner(), room).await.map(Response::new)
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<pb::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::SetForwardingPipelineConfigResponse>, Status> {
        let place = request.extensions().get().cloned();
        whole(place, self.0.clone().set(request.into_inner())).await?;
        Ok(Response::new(pb::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<pb::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::GetForwardingPipelineConfigResponse>, Status> {
        self.0.get(request.into_inner()).await.map(Response::new)
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (id, out) = self.0.open()?;
        tokio::spawn(self.0.clone().stream(id, request.into_inner()));
        Ok(Response::new(ReceiverStream::new(out)))
    }

    async fn capabilities(
        &self,
        request: Request<pb::CapabilitiesRequest>,
    ) -> Result<Response<pb::CapabilitiesResponse>, Status> {
        let id = request.into_inner().device_id;
        if id != 0 {
            self.0.device(id).map_err(|e| e.status())?;
        }
        let p4runtime_api_version = API_VERSION.to_string();
        Ok(Response::new(pb::CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}

pub fn fuzz(device: &mut Device, data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    if *kind == 2 {
        if let Ok(r) = pb::SetForwardingPipelineConfigRequest::decode(data)
            && let Ok(config) = r.config.ok_or(()).and_then(|c| Config::verify(c, super::STATE_BYTES).map_err(|_| ()))
        {
            device.set_pipeline(config.program);
        }
        return;
    }
    let now_us = device.now_us();
    let Some(p) = device.pipeline.as_mut() else { return };
    let Ok(config) = Config::new(p.switch.program.clone(), Bytes::new()) else { return };
    let mut book = Book::new(&config);
    if let Ok(w) = pb::WriteRequest::decode(data) {
        let mut writer = Writer::new(&config, &mut p.switch.state, &mut book, now_us);
        let results = if *kind == 0 { writer.each(&w.updates, 0) } else { writer.all(&w.updates) };
        assert_eq!(results.len(), w.updates.len());
    }
    if let Ok(r) = pb::ReadRequest::decode(data) {
        let reader = Reader { config: &config, state: &p.switch.state, book: &book };
        for e in &r.entities {
            let mut items: Vec<Item> = Vec::new();
            // What is refused is refused for good.
            let _ = reader.plan(e, &mut items);
            let mut out = Vec::new();
            while let Some(item) = items.pop() {
                items.extend(reader.emit(item, &mut out));
            }
        }
    }
}
