// SPDX-License-Identifier: Apache-2.0
//! The packet thread's end of the sending half: frames are gathered, and sent here or handed to a sending thread.
//!
//! A port whose socket takes no more is held ([`Device::hold`]): its packets wait in its own queue.
use crate::device::{Device, Sink};
use crate::ports::capture::{Pcap, capture_frame};
use crate::ports::line::{Batch, Line, Space};
use crate::ports::sending::{SendThread, SharedLine};
use crate::system;
use crate::traffic_manager::Count;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Frames kept for one port before they are sent.
const TX_BATCH: usize = 64;

/// Frames of one port in an iteration from which a thread is worth its wake-up: fewer are sent at once, so that a lone
/// frame waits for no other thread.
const HAND_OVER_FRAMES: usize = 8;

/// Frames of one port with a sending thread at most. Beyond them the packet thread sends with it, and so waits no longer than
/// if it had sent all by itself.
const HANDED_FRAMES: usize = 2 * TX_BATCH;

/// Batches of all ports with a sending thread from which the packet thread sends the frames of other ports by itself.
const THREAD_BATCHES: usize = 4;

/// Event source of a port's socket that has become writable: this and the port's place.
pub const WRITABLE: u64 = 1 << 33;

/// Frames for a port that its interface did not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendDrops {
    /// The interface was down, away or without a carrier.
    pub down: u64,
    /// Longer than its MTU allows.
    pub too_long: u64,
    /// Dropped by the interface's qdisc or by a filter there; also those that waited for it at the switch's end.
    pub queue_full: u64,
    /// Anything else, logged the first time.
    pub other: u64,
}

/// One port's.
pub struct Sender {
    pub port: u32,
    pub name: String,
    pub line: Arc<SharedLine>,
    /// Frames that wait for [`Senders::flush`].
    batch: Batch,
    /// Space of the line behind `batch`, as far as is known.
    space: Space,
    /// The socket takes no more: the port is held until it is writable.
    is_full: bool,
    /// Its socket is in the packet thread's epoll.
    is_polled: bool,
    pub capture: Option<Pcap>,
}

/// The ports' sending half.
pub struct Senders {
    pub(super) senders: Vec<Sender>,
    /// Sender of each port number.
    by_port: Vec<Option<usize>>,
    /// Senders with frames that wait.
    waiting: Vec<usize>,
    /// Senders whose `is_full` has changed.
    changed: Vec<usize>,
    threads: Vec<SendThread>,
    /// Readable when a thread has found a socket full.
    news: Arc<OwnedFd>,
    /// Frames for ports without an interface.
    pub no_interface: u64,
    /// Nanoseconds since the start.
    pub now_ns: u64,
    /// The time since the epoch that goes with captured frames.
    pub captured_ns: u64,
}

impl Sink for Senders {
    fn frame(&mut self, port: u32, bytes: &[u8]) -> bool {
        let Some(at) = self.by_port.get(port as usize).copied().flatten() else {
            self.no_interface += 1;
            return true;
        };
        let sender = &mut self.senders[at];
        capture_frame(&mut sender.capture, &sender.name, bytes, self.captured_ns);
        if sender.batch.is_empty() {
            self.waiting.push(at);
        }
        sender.batch.push(bytes);
        sender.space = sender.space.after(bytes.len());
        if sender.batch.len() >= TX_BATCH || sender.space == Space::Bytes(0) {
            self.flush_one(at);
        }
        !self.senders[at].is_full
    }

    fn refusal(&self, port: u32) -> Option<&'static str> {
        match self.by_port.get(port as usize).copied().flatten() {
            None => Some("has no interface"),
            Some(at) => (!self.senders[at].line.lock().takes_frames()).then_some("is down"),
        }
    }
}

impl Senders {
    /// No ports yet.
    ///
    /// # Errors
    /// The kernel gives no eventfd.
    pub fn new() -> Result<Senders> {
        Ok(Senders {
            senders: Vec::new(),
            by_port: Vec::new(),
            waiting: Vec::new(),
            changed: Vec::new(),
            threads: Vec::new(),
            news: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            no_interface: 0,
            now_ns: 0,
            captured_ns: 0,
        })
    }

    /// Adds a port, which has no socket yet.
    pub fn add(&mut self, port: u32, name: String, capture: Option<Pcap>) {
        self.by_port.resize(self.by_port.len().max(port as usize + 1), None);
        self.by_port[port as usize] = Some(self.senders.len());
        self.senders.push(Sender {
            port,
            line: Arc::new(SharedLine::new(Line::new(port, name.clone()))),
            name,
            batch: Batch::default(),
            space: Space::Unlimited,
            is_full: false,
            is_polled: false,
            capture,
        });
    }

    /// Frames of interface `at` by their fate: taken by its socket, not taken, not offered to it yet.
    pub(super) fn fates(&self, at: usize) -> (Count, SendDrops, usize) {
        let sender = &self.senders[at];
        // Frames leave the sending thread's queue under this lock.
        let line = sender.line.lock();
        (line.sent, line.drops, sender.batch.len() + sender.line.handed() + line.waiting())
    }

    /// Starts so many sending threads, which share the ports.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start_threads(&mut self, threads: usize) -> Result<()> {
        for n in 0..threads.min(self.senders.len()) {
            self.threads.push(SendThread::start(n, self.news.clone())?);
        }
        Ok(())
    }

    /// Readable when a sending thread has found a socket full: see [`Senders::heard`].
    pub fn news(&self) -> &OwnedFd {
        &self.news
    }

    /// Sends the waiting frames.
    pub fn flush(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.drain(..).for_each(|at| self.flush_one(at));
        self.waiting = waiting;
    }

    fn flush_one(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        let frames = sender.batch.len();
        if frames == 0 {
            return;
        }
        let handed = sender.line.handed();
        let count = self.threads.len().max(1);
        let has_space = sender.space != Space::Bytes(0);
        let thread = self.threads.get_mut(at % count).filter(|thread| match handed {
            0 => has_space && frames >= HAND_OVER_FRAMES && thread.batches() < THREAD_BATCHES,
            _ => has_space && handed + frames <= HANDED_FRAMES,
        });
        if let Some(thread) = thread {
            thread.send(&sender.line, &mut sender.batch);
            return;
        }
        sender.space = sender.line.send(&sender.batch);
        sender.batch.clear();
        self.set_full(at);
    }

    /// Whether a port is held depends on the space of its line.
    fn set_full(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        let is_full = sender.space == Space::Bytes(0);
        if is_full != std::mem::replace(&mut sender.is_full, is_full) || is_full != sender.is_polled {
            self.changed.push(at);
        }
    }

    /// Interface `at` has a new socket, or none.
    pub(super) fn renew(&mut self, at: usize, socket: Option<OwnedFd>) -> Result<()> {
        let sender = &mut self.senders[at];
        sender.line.lock().renew(socket)?;
        // The old socket left the epoll when it was closed.
        sender.is_polled = false;
        self.writable(at);
        Ok(())
    }

    /// Interface `at` is up with a carrier, or not.
    pub(super) fn set_link(&mut self, at: usize, has_link: bool) {
        self.senders[at].line.lock().set_link(has_link);
    }

    /// Interface `at` takes frames again, as far as is known: those that wait are sent.
    pub fn writable(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        sender.space = sender.line.writable(self.now_ns);
        self.set_full(at);
    }

    /// Clears an error of interface `at`'s socket, which would wake the thread again and again.
    pub fn clear_error(&self, at: usize) {
        if let Some(socket) = self.senders[at].line.lock().fd() {
            // The next frame finds the reason, if it lasts.
            let _ = system::take_error(socket);
        }
    }

    /// Holds the ports whose sockets a thread has found full.
    pub fn heard(&mut self) {
        let _ = rustix::io::read(&self.news, &mut [0; 8]);
        for at in 0..self.senders.len() {
            let sender = &mut self.senders[at];
            if !sender.is_full && sender.line.space() == Space::Bytes(0) {
                sender.space = Space::Bytes(0);
                self.set_full(at);
            }
        }
    }

    /// Holds and releases the device's ports, and waits for sockets that are full. True: packets may leave that were held.
    ///
    /// # Errors
    /// The kernel's, of epoll.
    pub fn settle(&mut self, device: &mut Device, epoll: &OwnedFd) -> Result<bool> {
        let mut has_released = false;
        while let Some(at) = self.changed.pop() {
            let sender = &mut self.senders[at];
            if sender.is_full {
                device.hold(sender.port);
            } else {
                device.release(sender.port);
                has_released = true;
            }
            let is_polled = sender.is_full;
            if let Some(socket) = sender.line.lock().fd().filter(|_| is_polled != sender.is_polled) {
                if is_polled {
                    epoll::add(epoll, socket, EventData::new_u64(WRITABLE + at as u64), EventFlags::OUT)?;
                } else {
                    epoll::delete(epoll, socket)?;
                }
                sender.is_polled = is_polled;
            }
        }
        Ok(has_released)
    }

    /// Sends what can be sent, and counts the rest as dropped. Threads end.
    pub fn finish(&mut self) {
        self.flush();
        self.threads.drain(..).for_each(SendThread::finish);
        self.senders.iter().for_each(|sender| sender.line.lock().give_up());
    }
}

#[cfg(test)]
mod tests;
