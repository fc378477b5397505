// SPDX-License-Identifier: Apache-2.0
//! An answer on its way to a controller that may be slow, or never read: a few messages, bounded in bytes. The producer
//! waits for room; when nothing is taken for too long, waiting messages are thrown away and the answer ends with the
//! reason, so that an absent reader holds neither memory nor anything else.
use crate::p4runtime::lock::lock;
use crate::p4runtime::proto::p4::v1::ReadResponse;
use prost::Message as _;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_stream::Stream;
use tonic::Status;

/// Size limit of messages that wait for one reader.
const ROOM_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Waiting {
    messages: VecDeque<ReadResponse>,
    bytes: usize,
    /// Comes after the messages; set once no more will be put.
    end: Option<Result<(), Status>>,
    /// Number of times that the reader has taken something.
    taken: u64,
    /// The reader was closed.
    gone: bool,
    reader: Option<Waker>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Something was taken.
    room: Notify,
}

/// The end that is filled.
pub struct Answer(Arc<Shared>);

/// The end that is read.
pub struct Reading(Arc<Shared>);

/// Why an answer is not filled further.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    Gone,
    /// Nothing was taken in time.
    Stalled,
}

pub fn answer() -> (Answer, Reading) {
    let shared = Arc::new(Shared::default());
    (Answer(shared.clone()), Reading(shared))
}

impl Answer {
    /// Waits until `fits` says so.
    async fn until(
        &self,
        fits: impl Fn(&Waiting) -> bool,
        patience: Duration,
        end: Option<Instant>,
    ) -> Result<(), Stopped> {
        let mut last = None;
        let mut stalled_at = Instant::now() + patience;
        loop {
            let changed = self.0.room.notified();
            {
                let w = lock(&self.0.waiting);
                if w.gone {
                    return Err(Stopped::Gone);
                }
                if fits(&w) {
                    return Ok(());
                }
                if last.replace(w.taken) != Some(w.taken) {
                    stalled_at = Instant::now() + patience;
                }
            }
            let at = end.map_or(stalled_at, |end| end.min(stalled_at));
            timeout_at(at, changed).await.map_err(|_| Stopped::Stalled)?;
        }
    }

    /// Puts a message, once there is room; `patience` is how long the reader may take nothing, `end` when it must be in
    /// at the latest.
    pub async fn put(&self, message: ReadResponse, patience: Duration, end: Option<Instant>) -> Result<(), Stopped> {
        self.until(|w| w.bytes < ROOM_BYTES, patience, end).await?;
        let reader = {
            let mut w = lock(&self.0.waiting);
            w.bytes += message.encoded_len();
            w.messages.push_back(message);
            w.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Ends the answer, and waits until the reader has all of it.
    pub async fn finish(&self, end: Result<(), Status>, patience: Duration) -> Result<(), Stopped> {
        let reader = {
            let mut w = lock(&self.0.waiting);
            w.end = Some(end);
            w.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
        self.until(|w| w.messages.is_empty(), patience, None).await
    }

    /// Drops the queue and ends the answer with a reason.
    pub fn give_up(&self, why: Status) {
        let reader = {
            let mut w = lock(&self.0.waiting);
            w.messages = VecDeque::new();
            w.bytes = 0;
            w.end = Some(Err(why));
            w.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Stream for Reading {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut w = lock(&self.0.waiting);
        if let Some(m) = w.messages.pop_front() {
            w.bytes -= m.encoded_len();
            w.taken += 1;
            self.0.room.notify_one();
            return Poll::Ready(Some(Ok(m)));
        }
        match &mut w.end {
            Some(end) => Poll::Ready(std::mem::replace(end, Ok(())).err().map(Err)),
            None => {
                w.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut w = lock(&self.0.waiting);
        w.gone = true;
        w.messages = VecDeque::new();
        self.0.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4runtime::proto::p4::v1::{CounterEntry, Entity, entity::Entity as E};
    use tokio_stream::StreamExt as _;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// A message of about a third of the budget.
    fn message() -> ReadResponse {
        let one = Entity { entity: Some(E::CounterEntry(CounterEntry { counter_id: u32::MAX, ..Default::default() })) };
        let each = ReadResponse { entities: vec![one.clone()] }.encoded_len();
        ReadResponse { entities: vec![one; ROOM_BYTES / 3 / each] }
    }

    #[tokio::test(start_paused = true)]
    async fn all_that_is_put_is_read_and_then_the_end() {
        let (answer, reading) = answer();
        let filled = tokio::spawn(async move {
            for _ in 0..20 {
                answer.put(message(), PATIENCE, None).await.unwrap();
            }
            answer.finish(Err(Status::unknown("the end")), PATIENCE).await
        });
        let all: Vec<_> = reading.collect().await;
        assert_eq!(all.len(), 21);
        assert!(all[..20].iter().all(|r| *r.as_ref().unwrap() == message()));
        assert_eq!(all[20].as_ref().unwrap_err().message(), "the end");
        // It may be closed by then, with all its content.
        assert_ne!(filled.await.unwrap(), Err(Stopped::Stalled));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up_and_holds_nothing() {
        let (answer, mut reading) = answer();
        let mut put = 0;
        while answer.put(message(), PATIENCE, None).await.is_ok() {
            put += 1;
        }
        assert!((3..=4).contains(&put), "{put} messages of a third of the room");
        assert_eq!(answer.put(message(), PATIENCE, None).await, Err(Stopped::Stalled));
        answer.give_up(Status::aborted("too slow"));
        assert_eq!(reading.next().await.unwrap().unwrap_err().message(), "too slow");
        assert!(reading.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_has_its_time_from_message_to_message_unless_others_wait() {
        let (answer, mut reading) = answer();
        let slow = tokio::spawn(async move {
            let mut n = 0;
            while let Some(Ok(_)) = reading.next().await {
                n += 1;
                tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
            }
            n
        });
        for _ in 0..10 {
            answer.put(message(), PATIENCE, None).await.unwrap();
        }
        let soon = Some(Instant::now() + Duration::from_secs(1));
        while answer.put(message(), PATIENCE, soon).await.is_ok() {}
        answer.give_up(Status::aborted("others wait"));
        // All earlier messages but those that fit.
        assert!(slow.await.unwrap() >= 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_goes_is_noticed() {
        let (answer, reading) = answer();
        let filled = tokio::spawn(async move {
            loop {
                if let Err(e) = answer.put(message(), PATIENCE, None).await {
                    return e;
                }
            }
        });
        tokio::task::yield_now().await;
        drop(reading);
        assert_eq!(filled.await.unwrap(), Stopped::Gone);
    }
}
