// SPDX-License-Identifier: Apache-2.0
//! The driver: the thread that owns a client's sockets and sessions. Programs reach it through [`Remote`].

use crate::config::Config;
use crate::connection_state::{ConnectionState, Phase, Status};
use crate::error::{Error, ErrorKind, outcome_of};
use crate::flow::{Flow, INTERFACES, Reactor};
use crate::notifier;
use crate::streamed::Queue;
use crate::target::Target;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;
use weir_core::client::{Outcome, SessionConfig};
use weir_io::fault::Fault;
use weir_io::wait::{Signals, Wakeup};

/// Token of the wake-up in the wait.
const WAKE: u64 = u64::MAX;

/// BoringSSL's `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// A connection to be opened.
struct Opening {
    target: Target,
    state: Arc<ConnectionState>,
}

/// Connections to be opened.
#[derive(Default)]
struct Openings {
    queue: VecDeque<Opening>,
    /// There is no driver any more.
    is_lost: bool,
}

/// The programs' end of the driver.
pub struct Remote {
    wakeup: Arc<Wakeup>,
    openings: Mutex<Openings>,
    is_stopped: AtomicBool,
}

impl Remote {
    /// Wakes the driver.
    pub fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    /// Opens a connection.
    pub fn open(&self, target: Target, state: Arc<ConnectionState>) {
        let mut openings = self.lock();
        if openings.is_lost {
            drop(openings);
            return state.report(Phase::Ended(Error::lost()));
        }
        openings.queue.push_back(Opening { target, state });
        drop(openings);
        self.wakeup.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Openings> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver was lost.
    fn lose(&self) {
        let mut openings = self.lock();
        openings.is_lost = true;
        let queue = std::mem::take(&mut openings.queue);
        drop(openings);
        queue.into_iter().for_each(|opening| opening.state.report(Phase::Ended(Error::lost())));
    }
}

/// The driver's thread, which ends when this is dropped.
pub struct DriverThread {
    /// Its programs' end.
    pub remote: Arc<Remote>,
    thread: Option<JoinHandle<()>>,
}

impl DriverThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// A file or a path of the configuration can't be used, or the system has no resources.
    pub fn start(config: Config) -> Result<DriverThread, Error> {
        let io = |e: std::io::Error| Error::new(ErrorKind::Io, e.to_string());
        let wakeup = Arc::new(Wakeup::new().map_err(io)?);
        let is_stopped = AtomicBool::new(false);
        let remote = Arc::new(Remote { wakeup, openings: Mutex::default(), is_stopped });
        let (sender, receiver) = mpsc::sync_channel(1);
        let mine = Arc::clone(&remote);
        let run = move || {
            notifier::this_thread_never_waits();
            match Driver::new(&config, mine) {
                Ok(mut driver) => {
                    let _ = sender.send(Ok(()));
                    // A strategy, a congestion control or an observer of the program may panic.
                    if catch_unwind(AssertUnwindSafe(|| driver.run())).is_err() {
                        driver.lose();
                    }
                }
                Err(fault) => drop(sender.send(Err(Error::from(fault)))),
            }
        };
        let thread = Builder::new().name("weir-quic".to_owned()).spawn(run).map_err(io)?;
        let driver = DriverThread { remote, thread: Some(thread) };
        receiver.recv().map_err(|_| Error::new(ErrorKind::Io, "the thread of the client ended"))??;
        Ok(driver)
    }
}

impl Drop for DriverThread {
    fn drop(&mut self) {
        self.remote.is_stopped.store(true, Ordering::Release);
        self.remote.wakeup.wake();
        // An observer may have held the last handle.
        if let Some(thread) = self.thread.take().filter(|t| t.thread().id() != std::thread::current().id()) {
            // It has ended also if it panicked.
            let _ = thread.join();
        }
    }
}

struct Driver {
    remote: Arc<Remote>,
    reactor: Reactor,
    connections: BTreeMap<usize, Arc<ConnectionState>>,
    next: usize,
    config: Config,
    is_stopping: bool,
}

impl Driver {
    fn new(config: &Config, remote: Arc<Remote>) -> Result<Driver, Fault> {
        // Should that fail, signals reach this thread as they reach any other.
        let _ = Signals::leave_to_others();
        let (context, monitor) = config.context()?;
        context.waiter.add(remote.wakeup.fd(), WAKE).map_err(Fault::io("epoll"))?;
        let reactor = Reactor::new(context, monitor);
        let config = config.clone();
        Ok(Driver { remote, reactor, connections: BTreeMap::new(), next: 0, config, is_stopping: false })
    }

    fn run(&mut self) {
        let mut ready = Vec::new();
        while !self.is_stopping || !self.connections.is_empty() {
            let waited = self.reactor.context.waiter.wait(Instant::now(), self.reactor.next_timer(), &mut ready);
            let now = Instant::now();
            if let Err(e) = waited {
                return self.fail(&Outcome::File(format!("epoll: {e}")), now);
            }
            for &token in &ready {
                match token {
                    WAKE => self.woken(now),
                    // Without a list of interfaces the known ones remain.
                    INTERFACES => drop(self.reactor.interfaces_changed(now)),
                    token => self.reactor.receive(token, now),
                }
            }
            while let Some((index, fired)) = self.reactor.fire_timer(now) {
                if let Err(fault) = fired {
                    self.end(index, &fault, now);
                }
            }
            while let Some(index) = self.reactor.next_touched() {
                self.serve(index, now);
            }
        }
    }

    /// The program has done something.
    fn woken(&mut self, now: Instant) {
        self.remote.wakeup.clear();
        loop {
            let opening = self.remote.lock().queue.pop_front();
            let Some(Opening { target, state }) = opening else { break };
            let index = self.next;
            self.next += 1;
            let config = SessionConfig {
                label: index as u64,
                authority: target.authority.clone(),
                idle_timeout: self.config.transport.idle_timeout,
                read_timeout: self.config.read_timeout,
                keeps_times: false,
            };
            let tasks = Queue { connection: Arc::clone(&state), most_running: self.config.most_running };
            self.reactor.insert(Flow::new(index, target, config, Box::new(tasks), now));
            self.connections.insert(index, state);
        }
        if self.remote.is_stopped.load(Ordering::Acquire) && !self.is_stopping {
            self.is_stopping = true;
            self.reactor.end_all(&Outcome::Stopped, now);
        }
        for (&index, connection) in &self.connections {
            if !connection.notifier().take() {
                continue;
            }
            if connection.is_closed()
                && let Some(flow) = self.reactor.flow_mut(index)
            {
                flow.end(&Outcome::Stopped, now);
            }
            self.reactor.touch(index);
        }
    }

    fn end(&mut self, index: usize, fault: &Fault, now: Instant) {
        if let Some(flow) = self.reactor.flow_mut(index) {
            flow.end(&outcome_of(fault), now);
        }
        self.reactor.touch(index);
    }

    fn serve(&mut self, index: usize, now: Instant) {
        let is_over = self.reactor.serve(index, now).unwrap_or_else(|fault| {
            if let Some(flow) = self.reactor.flow_mut(index) {
                flow.end(&outcome_of(&fault), now);
            }
            true
        });
        let (Some(flow), Some(state)) = (self.reactor.flow_mut(index), self.connections.get(&index)) else { return };
        if let Some(session) = &flow.session {
            state.set_status(Status {
                path: session.active_path(),
                bytes: session.bytes,
                switches: session.tally.switches,
                is_resumed: session.conn.quic.is_resumed(),
                is_early_data_accepted: session.conn.quic.early_data_reason() == EARLY_DATA_ACCEPTED,
                is_going_away: session.is_going_away(),
            });
            if session.conn.established.is_some() && session.outcome().is_none() {
                state.report(Phase::Up);
            }
        }
        if is_over {
            // An error means that a socket was not in the wait.
            let _ = self.reactor.retire(index);
            let flow = self.reactor.remove(index);
            let outcome = flow.as_ref().and_then(Flow::outcome).cloned().unwrap_or(Outcome::Stopped);
            if let Some(state) = self.connections.remove(&index) {
                state.report(Phase::Ended(Error::of(&outcome)));
            }
        }
    }

    /// Nothing can be waited for any more.
    fn fail(&mut self, outcome: &Outcome, now: Instant) {
        self.reactor.end_all(outcome, now);
        for connection in std::mem::take(&mut self.connections).into_values() {
            connection.report(Phase::Ended(Error::of(outcome)));
        }
        self.remote.lose();
    }

    /// Ends all connections after a panic. Requests end with their exchanges.
    fn lose(self) {
        let Driver { remote, reactor, connections, .. } = self;
        remote.lose();
        connections.into_values().for_each(|connection| connection.report(Phase::Ended(Error::lost())));
        // Parts of the program are dropped, too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(reactor)));
    }
}
