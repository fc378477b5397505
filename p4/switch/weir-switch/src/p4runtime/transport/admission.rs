// SPDX-License-Identifier: Apache-2.0
//! Cost limits of requests before they are decoded. A request is gathered as a whole first, in memory that all share,
//! and it must keep coming. A message of empty parts takes a hundred times its bytes once it is decoded: so each kind
//! of call has a size and a number of parts, and those that may be large are decoded few at a time, further ones wait
//! in a queue. A call without the right to it is rejected before any of it is read.
use super::accept::{InFlightGuard, Usage};
use super::access::{Access, Caller, call, usage};
use super::allowance::{PIECE_BYTES, REQUEST_BYTES};
use super::body::{BufferedMessage, ByteBudget, check_program, check_write};
use crate::p4runtime::audit::Audit;
use crate::p4runtime::proto::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use http_body::Frame;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, BoxFuture, Bytes, Service, http};
use tonic::server::NamedService;

/// The largest message of calls that ask, or that stream: a packet-out or a list of entities to read.
const ASK_BYTES: usize = 512 << 10;
/// Of Write. An update takes about 100 bytes: that is room for 4096 of them, the most in an atomic batch, with 256 bytes
/// each. Decoded it may take 70 MB, if it is made for that.
const WRITE_BYTES: usize = 1 << 20;
/// Of SetForwardingPipelineConfig: a device configuration of 16 MiB and its P4Info.
const PROGRAM_BYTES: usize = 18 << 20;
/// Of all requests that are coming or wait: of programs two, of all others 64 of the largest that ask.
const PROGRAMS_BUDGET_BYTES: usize = 2 * PROGRAM_BYTES;
const BUDGET_BYTES: usize = 64 * ASK_BYTES;
/// Writes and programs that are decoded and worked on.
const WRITES: usize = 2;
const PROGRAMS: usize = 2;
/// Programs that are being read back: each answer is one whole message of up to [`PROGRAM_BYTES`].
const PROGRAMS_BACK: usize = 8;
/// A client that has not taken a program for so long loses the connection: nothing else frees its bytes.
const TAKEN: Duration = Duration::from_secs(20);
/// A request of which nothing more comes for so long is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// So is one that is incomplete after so long: it takes bytes of the budget.
const WHOLE: Duration = Duration::from_secs(60);

/// Kept while a request is worked on, for that time, even if its client has disconnected.
#[derive(Clone)]
pub struct Place {
    _turn: Arc<OwnedSemaphorePermit>,
}

/// The service for each size of message.
pub struct Admission<S> {
    ask: P4RuntimeServer<S>,
    write: P4RuntimeServer<S>,
    program: P4RuntimeServer<S>,
    writes: Arc<Semaphore>,
    programs: Arc<Semaphore>,
    programs_back: Arc<Semaphore>,
    budget: ByteBudget,
    programs_budget: ByteBudget,
    access: Option<Arc<Access>>,
    audit: Arc<Audit>,
}

/// Limits of a kind of call.
struct Plan<S> {
    service: P4RuntimeServer<S>,
    most_bytes: usize,
    budget: ByteBudget,
    check: fn(&[u8]) -> Result<(), Status>,
    /// Waited for.
    turns: Option<Arc<Semaphore>>,
    /// For as long as the answer is being taken; without one the call is refused.
    places: Option<Arc<Semaphore>>,
    /// Whether it is a change, which has a line in the audit.
    changes: bool,
}

impl<S: P4Runtime> Admission<S> {
    /// Without `access` all who could connect may do all.
    pub fn new(server: &P4RuntimeServer<S>, access: Option<Access>, audit: Arc<Audit>) -> Admission<S> {
        let sized = |most| server.clone().max_decoding_message_size(most);
        Admission {
            ask: sized(ASK_BYTES),
            write: sized(WRITE_BYTES),
            program: sized(PROGRAM_BYTES),
            writes: Arc::new(Semaphore::new(WRITES)),
            programs: Arc::new(Semaphore::new(PROGRAMS)),
            programs_back: Arc::new(Semaphore::new(PROGRAMS_BACK)),
            budget: ByteBudget::new(BUDGET_BYTES),
            programs_budget: ByteBudget::new(PROGRAMS_BUDGET_BYTES),
            access: access.map(Arc::new),
            audit,
        }
    }

    /// Identity of the caller, if it has the right to call.
    fn caller(&self, request: &http::Request<Body>, method: &str) -> Result<Caller, Status> {
        let caller = Caller::of(request.extensions(), self.access.as_deref()).map_err(|e| e.status())?;
        let (name, right) = call(method);
        let may = caller.may(name, &[right]).map_err(|e| e.status());
        if may.is_err() && self.audit.is_on() {
            self.audit.record(&caller.entry(name).ended(&may));
        }
        may.map(|()| caller)
    }

    fn plan(&self, method: &str) -> Plan<S> {
        let ask = Plan {
            service: self.ask.clone(),
            most_bytes: ASK_BYTES,
            budget: self.budget.clone(),
            check: |_| Ok(()),
            turns: None,
            places: None,
            changes: false,
        };
        match method {
            "Write" => Plan {
                service: self.write.clone(),
                most_bytes: WRITE_BYTES,
                check: check_write,
                turns: Some(self.writes.clone()),
                changes: true,
                ..ask
            },
            "SetForwardingPipelineConfig" => Plan {
                service: self.program.clone(),
                most_bytes: PROGRAM_BYTES,
                budget: self.programs_budget.clone(),
                check: check_program,
                turns: Some(self.programs.clone()),
                changes: true,
                ..ask
            },
            "GetForwardingPipelineConfig" => Plan { places: Some(self.programs_back.clone()), ..ask },
            _ => ask,
        }
    }
}

impl<S: P4Runtime> Plan<S> {
    /// A request that is one message.
    async fn answer(mut self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let connection = usage(request.extensions()).cloned();
        let (parts, inner) = request.into_parts();
        let coming = Coming::new(inner, connection.clone());
        let whole = BufferedMessage::gather(coming, self.most_bytes, &self.budget).await?;
        (self.check)(whole.message())?;
        let in_flight = connection.as_ref().map(InFlightGuard::on);
        let place = match self.places.map(Semaphore::try_acquire_owned) {
            None => None,
            Some(Ok(place)) => Some(Arc::new(place)),
            Some(Err(_)) => {
                let m = format!("{PROGRAMS_BACK} programs are being read, the most there can be; try again");
                return Err(Status::resource_exhausted(m));
            }
        };
        if let Some((place, connection)) = place.as_ref().map(Arc::downgrade).zip(connection) {
            tokio::spawn(async move {
                tokio::time::sleep(TAKEN).await;
                if place.strong_count() > 0 {
                    connection.end();
                }
            });
        }
        let mut request = http::Request::from_parts(parts, Body::new(whole));
        if let Some(turns) = self.turns {
            // A controller that sends many at once has them answered in turn.
            let turn = turns.acquire_owned().await.map_err(|_| Status::unavailable("the switch has ended"))?;
            request.extensions_mut().insert(Place { _turn: Arc::new(turn) });
        }
        let Ok(response) = self.service.call(request).await;
        Ok(held(response, in_flight, place))
    }
}

fn held(
    response: http::Response<Body>,
    in_flight: Option<InFlightGuard>,
    place: Option<Arc<OwnedSemaphorePermit>>,
) -> http::Response<Body> {
    response.map(|inner| Body::new(Held { inner, _in_flight: in_flight, _place: place }))
}

// Derived it would ask that the service itself can be cloned; it is shared.
impl<S> Clone for Admission<S> {
    fn clone(&self) -> Self {
        Admission {
            ask: self.ask.clone(),
            write: self.write.clone(),
            program: self.program.clone(),
            writes: self.writes.clone(),
            programs: self.programs.clone(),
            programs_back: self.programs_back.clone(),
            budget: self.budget.clone(),
            programs_budget: self.programs_budget.clone(),
            access: self.access.clone(),
            audit: self.audit.clone(),
        }
    }
}

impl<S: P4Runtime> NamedService for Admission<S> {
    const NAME: &'static str = <P4RuntimeServer<S> as NamedService>::NAME;
}

impl<S: P4Runtime> Service<http::Request<Body>> for Admission<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let method = path.rsplit('/').next().unwrap_or_default();
        let caller = match self.caller(&request, method) {
            Ok(caller) => caller,
            Err(refused) => return Box::pin(std::future::ready(Ok(refused.into_http()))),
        };
        request.extensions_mut().insert(caller.clone());
        if let Some(connection) = usage(request.extensions()).cloned() {
            connection.earned.add(REQUEST_BYTES);
            request = request.map(|inner| Body::new(Earning { inner, connection }));
        }
        if method == "StreamChannel" {
            let in_flight = usage(request.extensions()).map(InFlightGuard::on);
            let answer = self.ask.call(request);
            return Box::pin(async move { answer.await.map(|response| held(response, in_flight, None)) });
        }
        let (name, _) = call(method);
        let plan = self.plan(method);
        let audit = Some(self.audit.clone()).filter(|audit| plan.changes && audit.is_on());
        Box::pin(async move {
            let answer = plan.answer(request).await;
            if let Some(audit) = audit.filter(|_| answer.is_err()) {
                audit.record(&caller.entry(name).ended(&answer));
            }
            Ok(answer.unwrap_or_else(Status::into_http))
        })
    }
}

/// An answer; until it is sent, or its client has disconnected, its request is under way.
struct Held {
    inner: Body,
    _in_flight: Option<InFlightGuard>,
    _place: Option<Arc<OwnedSemaphorePermit>>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

/// A request's body, which its connection may send.
struct Earning {
    inner: Body,
    connection: Arc<Usage>,
}

impl HttpBody for Earning {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(piece)) = &frame
            && let Some(bytes) = piece.data_ref().map(Bytes::len).filter(|bytes| *bytes > 0)
        {
            self.connection.earned.add(bytes as u64 + PIECE_BYTES);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// A request that must keep coming.
struct Coming {
    inner: Body,
    /// In use whenever something comes.
    connection: Option<Arc<Usage>>,
    pause: Option<Pin<Box<Sleep>>>,
    end: Pin<Box<Sleep>>,
}

impl Coming {
    fn new(inner: Body, connection: Option<Arc<Usage>>) -> Coming {
        Coming { inner, connection, pause: None, end: Box::pin(tokio::time::sleep(WHOLE)) }
    }
}

impl HttpBody for Coming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) {
            this.pause = None;
            this.connection.iter().for_each(|connection| connection.touch());
            return Poll::Ready(frame);
        }
        if this.end.as_mut().poll(cx).is_ready() {
            let m = format!("the request has not come whole in {} s", WHOLE.as_secs());
            return Poll::Ready(Some(Err(Status::deadline_exceeded(m))));
        }
        let pause = this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + PATIENCE)));
        match pause.as_mut().poll(cx) {
            Poll::Ready(()) => {
                let m = format!("nothing more of the request came for {} s", PATIENCE.as_secs());
                Poll::Ready(Some(Err(Status::deadline_exceeded(m))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4runtime::proto::p4::v1 as pb;
    use std::sync::Mutex;
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    use tonic::{Code, Request, Response, Streaming};

    type Answer<T> = Result<Response<T>, Status>;

    /// A service whose Writes take until somebody lets them go.
    #[derive(Default)]
    struct Slow {
        /// Places of Writes that have begun.
        begun: Mutex<Vec<Place>>,
        go_on: Notify,
    }

    struct Server(Arc<Slow>);

    #[tonic::async_trait]
    impl P4Runtime for Server {
        type ReadStream = tokio_stream::Empty<Result<pb::ReadResponse, Status>>;
        type StreamChannelStream = tokio_stream::Empty<Result<pb::StreamMessageResponse, Status>>;

        async fn write(&self, request: Request<pb::WriteRequest>) -> Answer<pb::WriteResponse> {
            let place = request.extensions().get().cloned().expect("a Write has a place");
            self.0.begun.lock().unwrap().push(place);
            self.0.go_on.notified().await;
            Ok(Response::new(pb::WriteResponse {}))
        }

        async fn read(&self, _: Request<pb::ReadRequest>) -> Answer<Self::ReadStream> {
            unreachable!()
        }

        async fn set_forwarding_pipeline_config(
            &self,
            _: Request<pb::SetForwardingPipelineConfigRequest>,
        ) -> Answer<pb::SetForwardingPipelineConfigResponse> {
            unreachable!()
        }

        async fn get_forwarding_pipeline_config(
            &self,
            _: Request<pb::GetForwardingPipelineConfigRequest>,
        ) -> Answer<pb::GetForwardingPipelineConfigResponse> {
            unreachable!()
        }

        async fn stream_channel(
            &self,
            _: Request<Streaming<pb::StreamMessageRequest>>,
        ) -> Answer<Self::StreamChannelStream> {
            unreachable!()
        }

        async fn capabilities(&self, _: Request<pb::CapabilitiesRequest>) -> Answer<pb::CapabilitiesResponse> {
            unreachable!()
        }
    }

    /// A body that comes a byte at a time, each so long after the last.
    struct Drip {
        left: Vec<u8>,
        every: Duration,
        next: Pin<Box<Sleep>>,
    }

    impl HttpBody for Drip {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            std::task::ready!(self.next.as_mut().poll(cx));
            let next = Instant::now() + self.every;
            self.next.as_mut().reset(next);
            Poll::Ready(self.left.pop().map(|byte| Ok(Frame::data(Bytes::from(vec![byte])))))
        }
    }

    /// Sends a Write; gives its status once it is answered.
    fn write(admission: &Admission<Server>, body_bytes: usize, every: Duration) -> JoinHandle<Code> {
        // An update of a kind that there is not, which takes any number of bytes; gRPC's header is in front.
        let mut message = vec![0x7a, (body_bytes - 2) as u8];
        message.resize(body_bytes, 0);
        let mut left = vec![0, 0, 0, 0, body_bytes as u8];
        left.append(&mut message);
        left.reverse();
        let body = Body::new(Drip { left, every, next: Box::pin(tokio::time::sleep(Duration::ZERO)) });
        let request = http::Request::post("/p4.v1.P4Runtime/Write").header("content-type", "application/grpc");
        let response = admission.clone().call(request.body(body).unwrap());
        tokio::spawn(async move {
            let response = response.await.unwrap();
            Status::from_header_map(response.headers()).map_or(Code::Ok, |s| s.code())
        })
    }

    /// Until every task waits for something: time stands still before.
    async fn quiet() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    fn server() -> (Arc<Slow>, Admission<Server>) {
        let slow = Arc::new(Slow::default());
        (slow.clone(), Admission::new(&P4RuntimeServer::new(Server(slow)), None, Arc::new(Audit::none())))
    }

    fn begun(slow: &Slow) -> usize {
        slow.begun.lock().unwrap().len()
    }

    #[tokio::test(start_paused = true)]
    async fn writes_above_the_number_of_places_wait_and_are_answered() {
        let (slow, admission) = server();
        let writes: Vec<_> = (0..5 * WRITES).map(|_| write(&admission, 2, Duration::ZERO)).collect();
        quiet().await;
        assert_eq!(begun(&slow), WRITES, "the others wait");
        for done in 1..=4 * WRITES {
            slow.go_on.notify_one();
            quiet().await;
            assert_eq!(begun(&slow), WRITES, "a place is held by whoever works on it, answered or not");
            slow.begun.lock().unwrap().remove(0);
            quiet().await;
            assert_eq!(begun(&slow), WRITES, "the next after {done}");
        }
        slow.go_on.notify_waiters();
        for write in writes {
            assert_eq!(write.await.unwrap(), Code::Ok);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_kept_for_the_work_when_the_client_has_gone() {
        let (slow, admission) = server();
        let gone: Vec<_> = (0..WRITES).map(|_| write(&admission, 2, Duration::ZERO)).collect();
        quiet().await;
        gone.iter().for_each(JoinHandle::abort);
        let next = write(&admission, 2, Duration::ZERO);
        quiet().await;
        assert_eq!(begun(&slow), WRITES);
        slow.begun.lock().unwrap().clear();
        quiet().await;
        assert_eq!(begun(&slow), 1);
        slow.go_on.notify_waiters();
        assert_eq!(next.await.unwrap(), Code::Ok);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_does_not_come_whole_is_given_up_and_keeps_nobody_waiting() {
        let (slow, admission) = server();
        // Each byte comes in time, the whole does not.
        let every = PATIENCE / 2;
        let slowly: Vec<_> = (0..WRITES).map(|_| write(&admission, 100, every)).collect();
        let next = write(&admission, 2, Duration::ZERO);
        quiet().await;
        assert_eq!(begun(&slow), 1, "it has its turn before those that are coming");
        slow.go_on.notify_waiters();
        assert_eq!(next.await.unwrap(), Code::Ok);
        for write in slowly {
            let answered = tokio::time::timeout(2 * WHOLE, write).await.expect("it is given up");
            assert_eq!(answered.unwrap(), Code::DeadlineExceeded);
        }
    }
}
