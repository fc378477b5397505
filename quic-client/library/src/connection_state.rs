// SPDX-License-Identifier: Apache-2.0
//! [`ConnectionState`]: the state of one connection between the program's threads and the driver's.

use crate::error::{Error, ErrorKind};
use crate::notifier::{Notifier, may_wait};
use crate::pipe::Pipe;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use weir_core::client::Head;

/// A request that was not sent yet.
pub struct Order {
    /// Its head.
    pub head: Head,
    /// Its bodies.
    pub pipe: Arc<Pipe>,
    /// Redirects that may be followed.
    pub redirects: u32,
}

/// Phase of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The handshake is under way.
    Connecting,
    /// The handshake is done.
    Up,
    /// It has ended.
    Ended(Error),
}

struct State {
    phase: Phase,
    queue: VecDeque<Order>,
    is_closed: bool,
    wakers: BTreeMap<u64, Waker>,
    next_waiter: u64,
}

/// A task that waits for a connection's phase. Its waker is forgotten when this is dropped.
pub struct Waiter<'a> {
    connection: &'a ConnectionState,
    id: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let waker = self.connection.lock().wakers.remove(&self.id);
        // A waker may hold the last reference to a task, which may hold this connection: not under the lock.
        drop(waker);
    }
}

impl Waiter<'_> {
    fn poll<T>(&self, cx: &Context<'_>, ready: impl FnOnce(&State) -> Option<T>) -> Poll<T> {
        let mut state = self.connection.lock();
        let result = ready(&state);
        let old = if result.is_none() { state.wakers.insert(self.id, cx.waker().clone()) } else { None };
        drop(state);
        drop(old);
        result.map_or(Poll::Pending, Poll::Ready)
    }

    /// The end of the handshake.
    ///
    /// # Errors
    /// It failed.
    pub fn poll_up(&self, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        self.poll(cx, ConnectionState::result)
    }

    /// The connection's end.
    pub fn poll_end(&self, cx: &Context<'_>) -> Poll<Error> {
        self.poll(cx, |state| if let Phase::Ended(e) = &state.phase { Some(e.clone()) } else { None })
    }
}

/// Observations of a connection, as of the last iteration of the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Name of the path in use; `default` if the routing table chooses.
    pub path: String,
    /// Payload of answers and uploads so far, in bytes.
    pub bytes: u64,
    /// Migrations so far.
    pub switches: u64,
    /// The connection was resumed by a session ticket.
    pub is_resumed: bool,
    /// Early data was accepted.
    pub is_early_data_accepted: bool,
    /// The server takes no more requests (GOAWAY); those under way go on.
    pub is_going_away: bool,
}

/// State of one connection.
pub struct ConnectionState {
    state: Mutex<State>,
    changed: Condvar,
    status: Mutex<Status>,
    notifier: Arc<Notifier>,
    authority: String,
    most_waiting: usize,
}

impl ConnectionState {
    /// Of a connection whose handshake begins.
    pub fn new(notifier: Arc<Notifier>, authority: String, most_waiting: usize) -> ConnectionState {
        let state = State {
            phase: Phase::Connecting,
            queue: VecDeque::new(),
            is_closed: false,
            wakers: BTreeMap::new(),
            next_waiter: 0,
        };
        ConnectionState {
            state: Mutex::new(state),
            changed: Condvar::new(),
            status: Mutex::default(),
            notifier,
            authority,
            most_waiting,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `host:port` of the server.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The call to the driver.
    pub fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The connection has ended, or too many requests wait.
    pub fn push(&self, order: Order) -> Result<(), Error> {
        let mut state = self.lock();
        if let Phase::Ended(e) = &state.phase {
            return Err(e.clone());
        }
        if state.is_closed {
            return Err(Error::closed());
        }
        if state.queue.len() >= self.most_waiting {
            let text = format!("{}: {} requests wait already", self.authority, self.most_waiting);
            return Err(Error::new(ErrorKind::Busy, text));
        }
        state.queue.push_back(order);
        drop(state);
        self.notifier.notify();
        Ok(())
    }

    /// The next request.
    pub fn pop(&self) -> Option<Order> {
        self.lock().queue.pop_front()
    }

    /// The next request, which stays.
    pub fn peek<T>(&self, look: impl FnOnce(Option<&Order>) -> T) -> T {
        look(self.lock().queue.front())
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.notifier.notify();
    }

    /// Whether the program has closed it.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// The driver reports a phase. At the end, requests that were not sent fail.
    pub fn report(&self, phase: Phase) {
        let mut state = self.lock();
        if state.phase == phase || matches!(state.phase, Phase::Ended(_)) {
            return;
        }
        let orphans = match &phase {
            Phase::Ended(_) => std::mem::take(&mut state.queue),
            _ => VecDeque::new(),
        };
        state.phase = phase.clone();
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        if let Phase::Ended(e) = phase {
            orphans.iter().for_each(|order| order.pipe.driver(|pipe| pipe.end = Some(Err(e.clone()))));
        }
        self.changed.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    fn result(state: &State) -> Option<Result<(), Error>> {
        match &state.phase {
            Phase::Connecting => None,
            Phase::Up => Some(Ok(())),
            Phase::Ended(e) => Some(Err(e.clone())),
        }
    }

    /// Waits for the end of the handshake.
    ///
    /// # Errors
    /// It failed.
    pub fn wait_up(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if let Some(result) = Self::result(&state) {
                return result;
            }
            may_wait()?;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A task that is about to wait.
    pub fn waiter(&self) -> Waiter<'_> {
        let mut state = self.lock();
        state.next_waiter += 1;
        Waiter { connection: self, id: state.next_waiter }
    }

    /// The reason of its end, if it has ended.
    pub fn ended(&self) -> Option<Error> {
        if let Phase::Ended(e) = &self.lock().phase { Some(e.clone()) } else { None }
    }

    /// Waits for its end. Does not wait on a client's own thread.
    pub fn wait_end(&self) {
        let mut state = self.lock();
        while !matches!(state.phase, Phase::Ended(_)) && may_wait().is_ok() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Observations, as of the last iteration of the driver.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The driver reports observations.
    pub fn set_status(&self, status: Status) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_io::wait::Wakeup;

    #[test]
    fn a_task_that_waits_no_more_is_forgotten() {
        let notifier = Arc::new(Notifier::new(Arc::new(Wakeup::new().unwrap())));
        let connection = ConnectionState::new(notifier, String::new(), 1);
        let cx = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let waiter = connection.waiter();
            assert!(waiter.poll_end(&cx).is_pending() && waiter.poll_up(&cx).is_pending());
            assert_eq!(connection.lock().wakers.len(), 1);
        }
        assert!(connection.lock().wakers.is_empty());
    }
}
