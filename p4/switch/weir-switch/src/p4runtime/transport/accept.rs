// SPDX-License-Identifier: Apache-2.0
//! Connections to the server. One that can't be taken for want of descriptors or memory stays where it is, so asking for
//! it again at once would keep a core busy.
use super::allowance::{Allowance, Earned, SENT_BYTES_PER_BYTE};
use crate::p4runtime::lock::lock;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::Connected;
use tracing::{error, warn};

const PAUSE: Duration = Duration::from_millis(100);

/// Connections of `inner`; after an error, which is logged, the next is accepted after [`PAUSE`].
pub struct AcceptBackoff<S> {
    inner: S,
    pause: Option<Pin<Box<Sleep>>>,
    /// The last connection was not accepted, which has been logged.
    failing: bool,
}

impl<S> AcceptBackoff<S> {
    pub fn new(inner: S) -> AcceptBackoff<S> {
        AcceptBackoff { inner, pause: None, failing: false }
    }
}

impl<T, S: Stream<Item = Result<T>> + Unpin> Stream for AcceptBackoff<S> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            match Pin::new(&mut self.inner).poll_next(cx) {
                // The client closed the connection before it was accepted.
                Poll::Ready(Some(Err(e)))
                    if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
                Poll::Ready(Some(Err(e))) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        error!("P4Runtime: no further connection can be taken, tried again until one can: {e}");
                    }
                    self.pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
                }
                Poll::Ready(Some(Ok(connection))) => {
                    if std::mem::take(&mut self.failing) {
                        warn!("P4Runtime: connections are taken again");
                    }
                    return Poll::Ready(Some(Ok(connection)));
                }
                other => return other,
            }
        }
    }
}

/// Open connections and their usage: selects one to close when there are too many.
#[derive(Default)]
struct ConnectionSlots {
    list: BTreeMap<u64, Arc<Usage>>,
    /// Of the last connection.
    last_id: u64,
}

/// Usage of a connection.
#[derive(Debug, Default)]
pub struct Usage {
    /// Requests that were received completely and are not answered to the end.
    in_flight: AtomicUsize,
    /// Rises with each connection, request and piece of one, over all connections.
    clock: Arc<AtomicU64>,
    /// The clock at the last of these.
    last: AtomicU64,
    /// Bytes that requests let it send.
    pub earned: Earned,
    /// Dropped to end the connection.
    open: Mutex<Option<oneshot::Sender<()>>>,
}

impl Usage {
    fn new(clock: &Arc<AtomicU64>, open: oneshot::Sender<()>) -> Usage {
        let usage = Usage { clock: clock.clone(), open: Mutex::new(Some(open)), ..Default::default() };
        usage.touch();
        usage
    }

    /// Ends the connection, with all that waits to be sent on it.
    pub fn end(&self) {
        lock(&self.open).take();
    }

    /// It is in use now.
    pub fn touch(&self) {
        self.last.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Held while a request is in flight.
#[derive(Debug)]
pub struct InFlightGuard(Arc<Usage>);

impl InFlightGuard {
    pub fn on(usage: &Arc<Usage>) -> InFlightGuard {
        usage.touch();
        usage.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(usage.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionSlots {
    /// Ends the least recently used connection without a request in flight, if there is one.
    fn free(&mut self) -> bool {
        let idle = self.list.iter().filter(|(_, usage)| usage.in_flight.load(Ordering::Relaxed) == 0);
        let oldest = idle.min_by_key(|(_, usage)| usage.last.load(Ordering::Relaxed)).map(|(id, _)| *id);
        let usage = oldest.and_then(|id| self.list.remove(&id));
        usage.inspect(|usage| usage.end()).is_some()
    }
}

/// A connection with its slot.
pub struct Counted<I> {
    inner: I,
    id: u64,
    usage: Arc<Usage>,
    slots: Arc<Mutex<ConnectionSlots>>,
    /// Ready when its slot is needed for another.
    given_up: oneshot::Receiver<()>,
    allowance: Allowance,
}

impl<I> Counted<I> {
    /// An error once the connection is to end.
    fn check(&mut self, cx: &mut Context<'_>) -> Result<()> {
        match Pin::new(&mut self.given_up).poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(_) => Err(Error::new(ErrorKind::ConnectionAborted, "its place was needed for another")),
        }
    }
}

impl<I> Counted<I> {
    /// Its client may acknowledge what was sent.
    fn sent(&self, bytes: Result<usize>) -> Poll<Result<usize>> {
        if let Ok(bytes) = bytes {
            self.usage.earned.add(bytes as u64 / SENT_BYTES_PER_BYTE);
        }
        Poll::Ready(bytes)
    }
}

impl<I> Drop for Counted<I> {
    fn drop(&mut self) {
        lock(&self.slots).list.remove(&self.id);
    }
}

/// Connections of `inner`, so many at a time. For one more the least recently used one is closed, as long as there is one
/// without a request in flight: an idle connection is closed when an active one needs its slot.
pub struct ConnectionLimit<S> {
    inner: S,
    slots: Arc<Mutex<ConnectionSlots>>,
    clock: Arc<AtomicU64>,
    most: usize,
    /// The limit was reached, which has been logged.
    full: bool,
}

impl<S> ConnectionLimit<S> {
    pub fn new(inner: S, most: usize) -> ConnectionLimit<S> {
        ConnectionLimit { inner, slots: Arc::default(), clock: Arc::default(), most, full: false }
    }

    /// A slot for one more; without one the connection is closed.
    fn slot<I>(&mut self, inner: I) -> Option<Counted<I>> {
        let mut slots = lock(&self.slots);
        let full = slots.list.len() >= self.most;
        if full && !std::mem::replace(&mut self.full, true) {
            warn!(
                "P4Runtime: {} connections are open, the most there can be; for each further one the longest unused is \
                 closed",
                self.most
            );
        }
        self.full &= full;
        if full && !slots.free() {
            return None;
        }
        slots.last_id += 1;
        let (open, given_up) = oneshot::channel();
        let (id, usage) = (slots.last_id, Arc::new(Usage::new(&self.clock, open)));
        slots.list.insert(id, usage.clone());
        Some(Counted { inner, id, usage, slots: self.slots.clone(), given_up, allowance: Allowance::default() })
    }
}

impl<T, S: Stream<Item = Result<T>> + Unpin> Stream for ConnectionLimit<S> {
    type Item = Result<Counted<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let inner = match Pin::new(&mut self.inner).poll_next(cx) {
                Poll::Ready(Some(Ok(inner))) => inner,
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Some(Err(e))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            if let Some(counted) = self.slot(inner) {
                return Poll::Ready(Some(Ok(counted)));
            }
        }
    }
}

/// Connection, with its usage for the code that answers its requests.
#[derive(Clone, Debug)]
pub struct ConnectionSlot<C> {
    /// Of the connection itself.
    pub inner: C,
    pub usage: Arc<Usage>,
}

impl<I: Connected> Connected for Counted<I> {
    type ConnectInfo = ConnectionSlot<I::ConnectInfo>;

    fn connect_info(&self) -> Self::ConnectInfo {
        ConnectionSlot { inner: self.inner.connect_info(), usage: self.usage.clone() }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Counted<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        self.check(cx)?;
        let this = &mut *self;
        let most = std::task::ready!(this.allowance.poll(&this.usage.earned, cx));
        let most = most.min(to.remaining());
        let mut part = ReadBuf::new(to.initialize_unfilled_to(most));
        std::task::ready!(Pin::new(&mut this.inner).poll_read(cx, &mut part))?;
        let bytes = part.filled().len();
        to.advance(bytes);
        this.allowance.take(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Counted<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.check(cx)?;
        let sent = std::task::ready!(Pin::new(&mut self.inner).poll_write(cx, bytes));
        self.sent(sent)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.check(cx)?;
        let sent = std::task::ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, bytes));
        self.sent(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_can_not_be_taken_is_waited_for() {
        let out_of_files = || Err(Error::from_raw_os_error(libc::EMFILE));
        let gone = Err(Error::from(ErrorKind::ConnectionAborted));
        let list = [Ok(1), gone, Ok(2), out_of_files(), out_of_files(), Ok(3)];
        let mut taken = AcceptBackoff::new(tokio_stream::iter(list));
        let start = tokio::time::Instant::now();
        let mut next = async || (taken.next().await.map(|r| r.unwrap()), start.elapsed());
        assert_eq!(next().await, (Some(1), Duration::ZERO));
        assert_eq!(next().await, (Some(2), Duration::ZERO));
        let (third, waited) = next().await;
        assert_eq!(third, Some(3));
        assert!(waited >= 2 * PAUSE, "{waited:?} of paused time");
        assert_eq!(next().await.0, None);
    }

    /// The next connection, which must be there.
    async fn next(taken: &mut ConnectionLimit<impl Stream<Item = Result<u8>> + Unpin>) -> Counted<u8> {
        taken.next().await.unwrap().unwrap()
    }

    async fn is_given_up(connection: &mut Counted<u8>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(connection.check(cx).is_err())).await
    }

    #[tokio::test]
    async fn for_one_connection_too_many_the_one_least_used_goes() {
        let list = (1..=6).map(Ok);
        let mut taken = ConnectionLimit::new(tokio_stream::iter(list), 3);
        let (mut a, mut b, mut c) = (next(&mut taken).await, next(&mut taken).await, next(&mut taken).await);
        // The first has a request under way, the second had one.
        let request = InFlightGuard::on(&a.usage);
        drop(InFlightGuard::on(&b.usage));
        let mut d = next(&mut taken).await;
        let gone = async |list: [&mut Counted<u8>; 4]| {
            let mut gone = Vec::new();
            for connection in list {
                if is_given_up(connection).await {
                    gone.push(connection.inner);
                }
            }
            gone
        };
        assert_eq!(gone([&mut a, &mut b, &mut c, &mut d]).await, [3]);
        drop(c);
        let e = next(&mut taken).await;
        assert!(is_given_up(&mut b).await && !is_given_up(&mut d).await);
        // With a request on each there is nobody to give up, and one more goes itself; a place comes free.
        let requests = [InFlightGuard::on(&d.usage), InFlightGuard::on(&e.usage)];
        assert!(taken.next().await.is_none(), "6 is gone");
        drop((request, requests));
        assert_eq!(lock(&taken.slots).list.len(), 3);
        drop((a, b, d, e));
        assert_eq!(lock(&taken.slots).list.len(), 0);
    }
}
