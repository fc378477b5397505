// SPDX-License-Identifier: Apache-2.0
//! Connections to the server. One that can't be taken for want of descriptors or memory stays where it is, so asking for
//! it again at once would keep a core busy.
use std::future::Future;
use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::Connected;
use tracing::{error, warn};

const PAUSE: Duration = Duration::from_millis(100);

/// Connections of `inner`; its errors are logged and waited out.
pub struct Patient<S> {
    inner: S,
    pause: Option<Pin<Box<Sleep>>>,
    /// The last connection was not taken, which has been said.
    failing: bool,
}

impl<S> Patient<S> {
    pub fn new(inner: S) -> Patient<S> {
        Patient { inner, pause: None, failing: false }
    }
}

impl<T, S: Stream<Item = Result<T>> + Unpin> Stream for Patient<S> {
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
                // The caller went away before its turn.
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

/// A connection, and its place among those that there can be.
pub struct Counted<I> {
    inner: I,
    _place: OwnedSemaphorePermit,
}

/// Connections of `inner`, so many at a time; one too many is closed at once.
pub struct Few<S> {
    inner: S,
    places: Arc<Semaphore>,
    most: usize,
    /// One too many came, which has been said.
    full: bool,
}

impl<S> Few<S> {
    pub fn new(inner: S, most: usize) -> Few<S> {
        Few { inner, places: Arc::new(Semaphore::new(most)), most, full: false }
    }
}

impl<T, S: Stream<Item = Result<T>> + Unpin> Stream for Few<S> {
    type Item = Result<Counted<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let inner = match Pin::new(&mut self.inner).poll_next(cx) {
                Poll::Ready(Some(Ok(inner))) => inner,
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Some(Err(e))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                self.full = false;
                return Poll::Ready(Some(Ok(Counted { inner, _place: place })));
            }
            if !std::mem::replace(&mut self.full, true) {
                warn!("P4Runtime: {} connections are open, the most there can be; further ones are closed", self.most);
            }
        }
    }
}

impl<I: Connected> Connected for Counted<I> {
    type ConnectInfo = I::ConnectInfo;

    fn connect_info(&self) -> I::ConnectInfo {
        self.inner.connect_info()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Counted<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, to)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Counted<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
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
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;
    use tokio_stream::StreamExt;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_can_not_be_taken_is_waited_for() {
        let out_of_files = || Err(Error::from_raw_os_error(libc::EMFILE));
        let gone = Err(Error::from(ErrorKind::ConnectionAborted));
        let list = [Ok(1), gone, Ok(2), out_of_files(), out_of_files(), Ok(3)];
        let mut taken = Patient::new(tokio_stream::iter(list));
        let start = tokio::time::Instant::now();
        let mut next = async || (taken.next().await.map(|r| r.unwrap()), start.elapsed());
        assert_eq!(next().await, (Some(1), Duration::ZERO));
        assert_eq!(next().await, (Some(2), Duration::ZERO));
        let (third, waited) = next().await;
        assert_eq!(third, Some(3));
        assert!(waited >= 2 * PAUSE, "{waited:?} of paused time");
        assert_eq!(next().await.0, None);
    }

    #[tokio::test]
    async fn one_connection_too_many_is_closed_and_places_come_free() {
        let (to, from) = tokio::sync::mpsc::unbounded_channel::<Result<u8>>();
        let mut taken = Few::new(tokio_stream::wrappers::UnboundedReceiverStream::new(from), 2);
        (1..=3).for_each(|n| to.send(Ok(n)).unwrap());
        let first = taken.next().await.unwrap().unwrap();
        let second = taken.next().await.unwrap().unwrap();
        assert_eq!((first.inner, second.inner), (1, 2));
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut taken).poll_next(cx).is_pending())).await,
            "3 is gone"
        );
        drop(first);
        to.send(Ok(4)).unwrap();
        assert_eq!(taken.next().await.unwrap().unwrap().inner, 4);
    }
}
