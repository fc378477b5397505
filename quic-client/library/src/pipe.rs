// SPDX-License-Identifier: Apache-2.0
//! [`Pipe`]: the state of one request between the program's threads and the driver's.
//!
//! Each direction holds at most [`MOST_BYTES`]. An answer that the program does not read stays in the transport beyond
//! that, where the receive window bounds it.

use crate::error::Error;
use crate::notifier::{Notifier, may_wait};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes held in each direction at most, and one part beyond them.
pub const MOST_BYTES: usize = 256 * 1024;
/// HTTP datagrams held in each direction at most; others are dropped, as the network drops them.
const MOST_DATAGRAMS: usize = 64;

/// State of a request.
#[derive(Default)]
pub struct State {
    /// Parts of the request's body that were not sent yet.
    pub up: VecDeque<Bytes>,
    up_bytes: usize,
    /// The request's body ends behind them.
    pub up_end: bool,
    /// The server wants no more of it.
    pub up_refused: bool,
    /// The driver found nothing to send.
    pub is_dry: bool,
    /// Status and header fields of the answer, until they are taken.
    pub head: Option<(StatusCode, HeaderMap)>,
    /// The head came in.
    pub is_answered: bool,
    down: BytesMut,
    /// The buffer of the answer was full.
    pub is_starved: bool,
    /// Header fields after the answer.
    pub trailers: Option<HeaderMap>,
    /// The server's side has ended.
    pub is_finished: bool,
    /// The request has ended.
    pub end: Option<Result<(), Error>>,
    /// The program needs no answer.
    pub is_cancelled: bool,
    datagrams_up: VecDeque<Bytes>,
    datagrams_down: VecDeque<Bytes>,
    /// Tasks that wait for the answer, for space in the buffer of the body, and for a datagram.
    wakers: [Vec<Waker>; 3],
    /// The driver has something to do.
    kick: bool,
}

/// Part of a request that a task waits for.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// The answer.
    Answer = 0,
    /// Space in the buffer of the body.
    Body = 1,
    /// A datagram.
    Datagram = 2,
}

/// A request's state, with those who wait for it.
pub struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
    notifier: Arc<Notifier>,
}

impl State {
    /// Bytes of the answer that can be taken.
    pub fn room(&self) -> usize {
        MOST_BYTES.saturating_sub(self.down.len())
    }

    /// Takes a part of the answer.
    pub fn push_down(&mut self, part: &[u8]) {
        self.down.extend_from_slice(part);
    }

    /// The next part of the request's body.
    pub fn pop_up(&mut self) -> Option<Bytes> {
        let part = self.up.pop_front()?;
        self.up_bytes -= part.len();
        Some(part)
    }

    /// A datagram of the server.
    pub fn push_datagram(&mut self, payload: &[u8]) {
        if self.datagrams_down.len() < MOST_DATAGRAMS {
            self.datagrams_down.push_back(Bytes::copy_from_slice(payload));
        }
    }

    /// The next datagram to be sent.
    pub fn pop_datagram(&mut self) -> Option<Bytes> {
        self.datagrams_up.pop_front()
    }

    /// Status and header fields of the answer, or why there is none.
    pub fn take_head(&mut self) -> Option<Result<(StatusCode, HeaderMap), Error>> {
        match (self.head.take(), &self.end) {
            (Some(head), _) => Some(Ok(head)),
            (None, Some(end)) => Some(Err(end.clone().err().unwrap_or_else(Error::closed))),
            (None, None) => None,
        }
    }

    /// The next part of the answer, at most `most` bytes; none at its end.
    pub fn read(&mut self, most: usize) -> Option<Result<Option<Bytes>, Error>> {
        if self.down.is_empty() {
            if let Some(end) = &self.end {
                return Some(end.clone().map(|()| None));
            }
            return self.is_finished.then_some(Ok(None));
        }
        let part = self.down.split_to(self.down.len().min(most)).freeze();
        self.kick |= self.is_starved && self.down.len() <= MOST_BYTES / 2;
        Some(Ok(Some(part)))
    }

    /// Adds `part` to the request's body, unless the buffer is full. `Ok(false)`: the server has stopped reading.
    pub fn write(&mut self, part: &Bytes) -> Option<Result<bool, Error>> {
        if let Some(end) = &self.end {
            return Some(end.clone().and(Ok(false)));
        }
        if self.up_refused {
            return Some(Ok(false));
        }
        if self.up_bytes >= MOST_BYTES {
            return None;
        }
        self.up_bytes += part.len();
        self.up.push_back(part.clone());
        self.kick |= self.is_dry;
        Some(Ok(true))
    }

    /// The request's body is complete.
    pub fn finish(&mut self) {
        self.up_end = true;
        self.kick |= self.is_dry;
    }

    /// Ends the request, unless it has ended.
    pub fn cancel(&mut self) {
        self.is_cancelled = true;
        self.kick = self.end.is_none();
    }

    /// Adds a datagram; it is dropped if too many wait.
    pub fn send_datagram(&mut self, payload: Bytes) {
        if self.datagrams_up.len() < MOST_DATAGRAMS {
            self.datagrams_up.push_back(payload);
            self.kick = true;
        }
    }

    /// The next datagram of the server; none after the request's end.
    pub fn receive_datagram(&mut self) -> Option<Result<Option<Bytes>, Error>> {
        match (self.datagrams_down.pop_front(), &self.end) {
            (Some(payload), _) => Some(Ok(Some(payload))),
            (None, Some(end)) => Some(end.clone().map(|()| None)),
            (None, None) => None,
        }
    }
}

impl Pipe {
    /// Of a request on the connection of a notifier, with its body: complete, or to be written.
    pub fn new(notifier: Arc<Notifier>, body: Option<Bytes>, up_end: bool) -> Pipe {
        let mut state = State { up_end, ..State::default() };
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            state.up_bytes = body.len();
            state.up.push_back(body);
        }
        Pipe { state: Mutex::new(state), changed: Condvar::new(), notifier }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver's access: those who wait are woken.
    pub fn driver<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        let wakers = state.wakers.each_mut().map(std::mem::take);
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().flatten().for_each(Waker::wake);
        result
    }

    /// The driver's access without a change.
    pub fn peek<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock())
    }

    /// The program's access: the driver is woken if it has something to do.
    pub fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = act(&mut state);
        let kick = std::mem::take(&mut state.kick);
        drop(state);
        if kick {
            self.notifier.notify();
        }
        result
    }

    /// Waits until `ready` gives something.
    ///
    /// # Errors
    /// Of `ready`, or the calling thread is the one that would have to be waited for.
    pub fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<Result<T, Error>>) -> Result<T, Error> {
        let mut state = self.lock();
        let result = loop {
            if let Some(result) = ready(&mut state) {
                break result;
            }
            may_wait()?;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let kick = std::mem::take(&mut state.kick);
        drop(state);
        if kick {
            self.notifier.notify();
        }
        result
    }

    /// The result of `ready`, if it has one; else the task is woken after the next change.
    pub fn poll<T>(&self, cx: &mut Context<'_>, side: Side, ready: impl FnOnce(&mut State) -> Option<T>) -> Poll<T> {
        self.act(|state| match ready(state) {
            Some(result) => Poll::Ready(result),
            None => {
                // Tasks may share a body or its datagrams.
                let wakers = &mut state.wakers[side as usize];
                if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    #[test]
    fn a_full_body_waits_and_its_end_follows() {
        let mut state = State::default();
        let part = Bytes::from(vec![1; MOST_BYTES]);
        assert_eq!(state.write(&part), Some(Ok(true)));
        assert_eq!(state.write(&part), None);
        assert_eq!(state.pop_up().map(|part| part.len()), Some(MOST_BYTES));
        assert_eq!(state.write(&part), Some(Ok(true)));
        state.up_refused = true;
        assert_eq!(state.write(&part), Some(Ok(false)));
        state.end = Some(Err(Error::closed()));
        assert_eq!(state.write(&part).unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }

    #[test]
    fn an_answer_is_read_to_its_end_before_an_error() {
        let mut state = State::default();
        assert_eq!(state.read(1), None);
        state.push_down(b"ab");
        state.end = Some(Err(Error::new(ErrorKind::Incomplete, "cut off")));
        assert_eq!(state.read(1), Some(Ok(Some(Bytes::from_static(b"a")))));
        assert_eq!(state.read(9), Some(Ok(Some(Bytes::from_static(b"b")))));
        assert_eq!(state.read(9).unwrap().unwrap_err().kind(), ErrorKind::Incomplete);
    }

    #[test]
    fn datagrams_are_bounded() {
        let mut state = State::default();
        (0..1000).for_each(|_| state.push_datagram(b"x"));
        (0..1000).for_each(|_| state.send_datagram(Bytes::from_static(b"y")));
        assert_eq!((state.datagrams_down.len(), state.datagrams_up.len()), (MOST_DATAGRAMS, MOST_DATAGRAMS));
    }

    proptest! {
        // All bytes arrive once and in order, and no more than the limit is held.
        #[test]
        fn answers_pass(parts in prop::collection::vec((1usize..200_000, 1usize..100_000), 1..40)) {
            let (mut state, mut pushed, mut read) = (State::default(), 0u64, 0u64);
            for (offered, most) in parts {
                let n = offered.min(state.room());
                let part: Vec<u8> = (pushed..pushed + n as u64).map(|i| (i % 251) as u8).collect();
                state.push_down(&part);
                pushed += n as u64;
                prop_assert!(state.down.len() <= MOST_BYTES);
                if let Some(Ok(Some(part))) = state.read(most) {
                    for byte in part {
                        prop_assert_eq!(byte, (read % 251) as u8);
                        read += 1;
                    }
                }
            }
            prop_assert!(read <= pushed);
        }
    }
}
