// SPDX-License-Identifier: Apache-2.0
//! Bytes that a connection may send beside its requests. HTTP/2 answers each echo request (PING), SETTINGS and the like
//! before a service sees anything, and one client's flood of them would take the server's thread from all others.
use crate::p4runtime::lock::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// At once: 3800 echo requests, or TLS's handshake and the first headers.
const BURST_BYTES: u64 = 64 << 10;
/// After that: 1900 echo requests a second.
const BYTES_PER_S: u64 = 32 << 10;
/// A connection that waits reads no less at once.
const LEAST_BYTES: u64 = 1 << 10;
/// Of a request: its header, and what its client sends about the answer.
pub const REQUEST_BYTES: u64 = 256;
/// Of each piece of a request's body: the header of its frame, and TLS's.
pub const PIECE_BYTES: u64 = 48;
/// A client acknowledges what it gets; an answered echo request must not earn another.
pub const SENT_BYTES_PER_BYTE: u64 = 16;

/// Bytes that requests have earned since the connection last read, and the reader to wake for it.
#[derive(Debug, Default)]
pub struct Earned {
    bytes: AtomicU64,
    reader: Mutex<Option<Waker>>,
}

impl Earned {
    /// The connection may send so many bytes more.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(reader) = lock(&self.reader).take() {
            reader.wake();
        }
    }
}

/// Allowance of one connection.
#[derive(Debug)]
pub struct Allowance {
    bytes: u64,
    /// To which it was filled up.
    at: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { bytes: BURST_BYTES, at: Instant::now(), pause: None }
    }
}

impl Allowance {
    fn fill(&mut self, earned: &Earned) {
        let now = Instant::now();
        let more = (now - self.at).as_micros() * u128::from(BYTES_PER_S) / 1_000_000;
        if more > 0 {
            // Requests may earn more than a burst: the pieces of a large one come together.
            let more = u64::try_from(more).unwrap_or(u64::MAX).min(BURST_BYTES.saturating_sub(self.bytes));
            self.bytes += more;
            self.at = now;
        }
        self.bytes = self.bytes.saturating_add(earned.bytes.swap(0, Ordering::Relaxed));
    }

    /// Bytes that may be read now; until there are any, the task is woken later.
    pub fn poll(&mut self, earned: &Earned, cx: &mut Context<'_>) -> Poll<usize> {
        loop {
            *lock(&earned.reader) = Some(cx.waker().clone());
            self.fill(earned);
            if self.bytes >= LEAST_BYTES {
                self.pause = None;
                return Poll::Ready(usize::try_from(self.bytes).unwrap_or(usize::MAX));
            }
            let missing = Duration::from_micros((LEAST_BYTES - self.bytes) * 1_000_000 / BYTES_PER_S + 1);
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.at + missing)));
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
    }

    /// So many bytes were read.
    pub fn take(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a sender without end gets through in that time.
    async fn read_in(allowance: &mut Allowance, earned: &Earned, time: Duration) -> u64 {
        let (end, mut read) = (Instant::now() + time, 0);
        while let Ok(bytes) = tokio::time::timeout_at(end, std::future::poll_fn(|cx| allowance.poll(earned, cx))).await
        {
            allowance.take(bytes);
            read += bytes as u64;
        }
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_waits_and_requests_do_not() {
        let (mut allowance, earned) = (Allowance::default(), Earned::default());
        let second = Duration::from_secs(1);
        assert_eq!(read_in(&mut allowance, &earned, Duration::ZERO).await, BURST_BYTES);
        let flood = read_in(&mut allowance, &earned, 10 * second).await;
        assert!((9 * BYTES_PER_S..=10 * BYTES_PER_S + LEAST_BYTES).contains(&flood), "{flood}");
        // At rest it saves up one burst.
        tokio::time::sleep(1000 * second).await;
        assert_eq!(read_in(&mut allowance, &earned, Duration::ZERO).await, BURST_BYTES);
        // A body of any size earns what it takes, and ends the wait.
        earned.add(1 << 24);
        assert_eq!(read_in(&mut allowance, &earned, Duration::ZERO).await, 1 << 24);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_waits_is_woken_by_a_request() {
        let (mut allowance, earned) = (Allowance::default(), std::sync::Arc::new(Earned::default()));
        read_in(&mut allowance, &earned, Duration::ZERO).await;
        let other = earned.clone();
        tokio::spawn(async move { other.add(LEAST_BYTES) });
        let begun = Instant::now();
        std::future::poll_fn(|cx| allowance.poll(&earned, cx)).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
