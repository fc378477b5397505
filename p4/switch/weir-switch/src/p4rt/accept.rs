// SPDX-License-Identifier: Apache-2.0
//! Connections to the server. One that can't be taken for want of descriptors or memory stays where it is, so asking for
//! it again at once would keep a core busy.
use std::future::Future;
use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;
use tokio_stream::Stream;
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
}
