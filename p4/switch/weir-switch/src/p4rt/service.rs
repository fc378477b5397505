// SPDX-License-Identifier: Apache-2.0
//! The six calls of the P4Runtime service.
use super::config::Config;
use super::digests::{Digests, List};
use super::fail::{batch_status, denied, invalid, not_found, precondition, unimplemented, At, Fail, Res};
use super::pb::p4::v1::{
    self as pb, get_forwarding_pipeline_config_request::ResponseType, p4_runtime_server::P4Runtime,
    set_forwarding_pipeline_config_request::Action, stream_error, stream_message_request::Update as Ask,
    stream_message_response::Update as Tell, write_request::Atomicity, StreamMessageRequest, StreamMessageResponse,
};
use super::read::{Item, Reader, PIECE};
use super::roles::{Notices, Roles, StreamId};
use super::write::{Book, Writer};
use super::{packets, ServeConfig, API_VERSION};
use crate::device::{Device, Event};
use crate::handle::{Gone, Handle};
use prost::bytes::Bytes;
use prost::Message as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, Notify, Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};
use weir_p4::interp::DigestData;
use weir_p4::runtime::State;

/// Open streams at most.
const MAX_STREAMS: usize = 128;
/// Messages that wait for a controller to take them at most.
const QUEUE: usize = 1024;
/// Places in that queue kept for what is not packets or digests.
const KEPT_FREE: usize = 64;
/// Updates applied without a packet in between, unless the batch must be atomic.
const UPDATES_AT_ONCE: usize = 500;
/// Entities read without a packet in between.
const ENTITIES_AT_ONCE: usize = 4 * PIECE;
/// A response is cut where it becomes larger: clients take 4 MB by default.
const RESPONSE_BYTES: usize = 1 << 20;

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
    handle: Handle,
    hub: Mutex<Hub>,
    pipelines: tokio::sync::Mutex<Pipelines>,
    /// What `pipelines` has running, for the pump, which must not wait for a write.
    current: Mutex<Option<Arc<Live>>>,
    digests: Mutex<Digests>,
    digests_changed: Notify,
    /// One compilation at a time.
    compiler: Semaphore,
    start: Instant,
}

/// A panic while it was held has ended what was being done, not the server.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
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
            handle,
            hub: Mutex::new(Hub { roles: Roles::new(config.device_id), out: BTreeMap::new(), next: 0 }),
            pipelines: tokio::sync::Mutex::new(Pipelines { live: live.clone(), saved: None }),
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

    // Write.

    async fn write(&self, r: pb::WriteRequest) -> Result<(), Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        // Whoever becomes primary waits for this, so a request that was let in is finished under its primary.
        let mut pipelines = self.pipelines.lock().await;
        self.primary(&r.role, r.role_id, &r.election_id).map_err(|e| e.status())?;
        let atomic = match Atomicity::try_from(r.atomicity) {
            Ok(Atomicity::ContinueOnError) => false,
            // All of a batch is done between two packets, so the two are the same here.
            Ok(Atomicity::RollbackOnError | Atomicity::DataplaneAtomic) => true,
            Err(_) => return Err(invalid(format!("atomicity: {} is none", r.atomicity)).status()),
        };
        if let Some(saved) = &mut pipelines.saved {
            let saved = &mut **saved;
            let mut w = Writer::new(&saved.config, &mut saved.state, &mut saved.book, 0);
            let results = if atomic { w.all(&r.updates) } else { w.each(&r.updates, 0) };
            return batch_status("updates", &results);
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
        batch_status("updates", &results)
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

    async fn read(&self, r: pb::ReadRequest) -> Result<Vec<Result<pb::ReadResponse, Status>>, Status> {
        self.device(r.device_id).map_err(|e| e.status())?;
        let pipelines = self.pipelines.lock().await;
        let mut responses = Responses::default();
        let results = if let Some(saved) = &pipelines.saved {
            let reader = Reader { config: &saved.config, state: &saved.state, book: &saved.book };
            let (items, results) = plan(&reader, &r.entities);
            let mut entities = Vec::new();
            items.iter().for_each(|i| reader.emit(i, &mut entities));
            responses.extend(entities);
            results
        } else {
            let Some(live) = pipelines.live.clone() else { return Err(no_program().status()) };
            let requests = r.entities;
            let (items, results) = self.look(&live, move |reader| plan(reader, &requests)).await?;
            let mut items = items.into_iter().peekable();
            while items.peek().is_some() {
                let mut some = Vec::new();
                let mut weight = 0;
                while let Some(item) = items.next_if(|i| weight == 0 || weight + i.weight() <= ENTITIES_AT_ONCE) {
                    weight += item.weight();
                    some.push(item);
                }
                let emit = move |reader: &Reader| {
                    let mut out = Vec::new();
                    some.iter().for_each(|i| reader.emit(i, &mut out));
                    out
                };
                responses.extend(self.look(&live, emit).await?);
            }
            results
        };
        drop(pipelines);
        let list = responses.whole.into_iter().chain(Some(responses.last).filter(|r| !r.entities.is_empty()));
        Ok(list.map(Ok).chain(batch_status("requests", &results).err().map(Err)).collect())
    }

    /// Runs `f` on the running program's state, between two packets.
    async fn look<R: Send + 'static>(
        &self,
        live: &Arc<Live>,
        f: impl FnOnce(&Reader) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let live = live.clone();
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
            let mut pipelines = self.pipelines.lock().await;
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
        let mut pipelines = self.pipelines.lock().await;
        // Another may have become primary while the program was compiled.
        primary()?;
        let book = Book::new(&config);
        if action == Action::VerifyAndSave {
            // `random` begins when the program runs: commit gives it the device's seed.
            let state = State::new(&config.program, 0);
            pipelines.saved = Some(Box::new(Saved { config, state, book }));
            return Ok(());
        }
        pipelines.saved = None;
        self.commit(&mut pipelines, config, book, None).await
    }

    async fn verify(&self, config: pb::ForwardingPipelineConfig) -> Result<Config, Status> {
        let _turn = self.compiler.acquire().await.map_err(|e| Status::internal(e.to_string()))?;
        let work = tokio::task::spawn_blocking(move || Config::verify(config));
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
        let job = move |d: &mut Device| {
            let generation = d.set_pipeline(program);
            // What was written since the program was saved.
            if let (Some(mut state), Some(p)) = (state, d.pipeline.as_mut()) {
                state.continue_random(&p.switch.state);
                p.switch.state = state;
            }
            generation
        };
        let generation = self.handle.call(job).await.map_err(gone)?;
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
        let pipelines = self.pipelines.lock().await;
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
                let _quiet = self.pipelines.lock().await;
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
            let _put_in = self.pipelines.lock().await;
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

/// Items for all requests, and for each request whether it is valid.
fn plan(reader: &Reader, requests: &[pb::Entity]) -> (Vec<Item>, Vec<Res<()>>) {
    let mut items = Vec::new();
    let one = |(i, e): (usize, &pb::Entity)| reader.plan(e, &mut items).at(|| format!("entities[{i}]"));
    let results = requests.iter().enumerate().map(one).collect();
    (items, results)
}

/// Entities in messages of about [`RESPONSE_BYTES`].
#[derive(Default)]
struct Responses {
    whole: Vec<pb::ReadResponse>,
    last: pb::ReadResponse,
    last_bytes: usize,
}

impl Responses {
    fn extend(&mut self, entities: Vec<pb::Entity>) {
        for e in entities {
            self.last_bytes += e.encoded_len() + 8;
            self.last.entities.push(e);
            if self.last_bytes >= RESPONSE_BYTES {
                let mut full = std::mem::take(&mut self.last);
                full.entities.shrink_to_fit();
                self.whole.push(full);
                self.last_bytes = 0;
            }
        }
    }
}

/// The service as tonic calls it.
pub struct Server(pub Arc<Service>);

/// Runs a change to its end even when its caller goes away meanwhile.
async fn whole<T: Send + 'static>(
    f: impl std::future::Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    tokio::spawn(f).await.unwrap_or_else(|e| Err(Status::internal(format!("the request failed: {e}"))))
}

#[tonic::async_trait]
impl P4Runtime for Server {
    type ReadStream = tokio_stream::Iter<std::vec::IntoIter<Result<pb::ReadResponse, Status>>>;
    type StreamChannelStream = ReceiverStream<Result<StreamMessageResponse, Status>>;

    async fn write(&self, request: Request<pb::WriteRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let service = self.0.clone();
        whole(async move { service.write(request.into_inner()).await }).await?;
        Ok(Response::new(pb::WriteResponse {}))
    }

    async fn read(&self, request: Request<pb::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let responses = self.0.read(request.into_inner()).await?;
        Ok(Response::new(tokio_stream::iter(responses)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<pb::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::SetForwardingPipelineConfigResponse>, Status> {
        whole(self.0.clone().set(request.into_inner())).await?;
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
        if let Ok(r) = pb::SetForwardingPipelineConfigRequest::decode(data) {
            if let Ok(config) = r.config.ok_or(()).and_then(|c| Config::verify(c).map_err(|_| ())) {
                device.set_pipeline(config.program);
            }
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
        let (items, _) = plan(&reader, &r.entities);
        let mut out = Vec::new();
        items.iter().for_each(|i| reader.emit(i, &mut out));
    }
}
