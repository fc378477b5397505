// SPDX-License-Identifier: Apache-2.0
//! The sending half of the ports: frames are gathered and sent in batches.
use super::capture::{Pcap, capture_frame};
use crate::device::Sink;
use crate::system;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::OwnedFd;
use tracing::warn;

/// Frames kept for one port before they are sent.
const TX_BATCH: usize = 64;

/// Frames for a port that its interface did not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendDrops {
    /// The interface was down or away.
    pub down: u64,
    /// Longer than its MTU allows.
    pub too_long: u64,
    /// Its own queue was full.
    pub queue_full: u64,
    /// Anything else, logged the first time.
    pub other: u64,
}

/// One port's.
pub struct Sender {
    pub port: u32,
    pub name: String,
    /// None while the interface is down or away.
    pub socket: Option<OwnedFd>,
    /// Frames that wait for [`Senders::flush`], one after the other.
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
    pub drops: SendDrops,
    pub capture: Option<Pcap>,
    warned: bool,
}

/// The ports' sending half.
#[derive(Default)]
pub struct Senders {
    pub(super) senders: Vec<Sender>,
    /// Sender of each port number.
    by_port: Vec<Option<usize>>,
    /// Senders with frames that wait.
    waiting: Vec<usize>,
    /// Frames for ports without an interface.
    pub no_interface: u64,
    /// The time since the epoch that goes with captured frames.
    pub captured_ns: u64,
}

impl Sink for Senders {
    fn frame(&mut self, port: u32, bytes: &[u8]) {
        let Some(at) = self.by_port.get(port as usize).copied().flatten() else {
            self.no_interface += 1;
            return;
        };
        let sender = &mut self.senders[at];
        capture_frame(&mut sender.capture, &sender.name, bytes, self.captured_ns);
        if sender.frames.is_empty() {
            self.waiting.push(at);
        }
        let start = sender.bytes.len();
        sender.bytes.extend_from_slice(bytes);
        sender.frames.push(start..sender.bytes.len());
        if sender.frames.len() == TX_BATCH {
            sender.flush();
        }
    }
}

impl Senders {
    /// Adds a port, which has no socket yet.
    pub fn add(&mut self, port: u32, name: String, capture: Option<Pcap>) {
        self.by_port.resize(self.by_port.len().max(port as usize + 1), None);
        self.by_port[port as usize] = Some(self.senders.len());
        self.senders.push(Sender {
            port,
            name,
            socket: None,
            bytes: Vec::new(),
            frames: Vec::new(),
            drops: SendDrops::default(),
            capture,
            warned: false,
        });
    }

    /// Sends the waiting frames.
    pub fn flush(&mut self) {
        for at in self.waiting.drain(..) {
            self.senders[at].flush();
        }
    }
}

impl Sender {
    fn flush(&mut self) {
        let mut at = 0;
        while at < self.frames.len() {
            let left = (self.frames.len() - at) as u64;
            let Some(socket) = &self.socket else {
                self.drops.down += left;
                break;
            };
            match system::send_batch(socket, &self.bytes, &self.frames[at..]) {
                Ok(n) => at += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => match e.raw_os_error() {
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.drops.down += left;
                        break;
                    }
                    Some(libc::EAGAIN) => {
                        self.drops.queue_full += left;
                        break;
                    }
                    Some(libc::ENOBUFS) => {
                        self.drops.queue_full += 1;
                        at += 1;
                    }
                    Some(libc::EMSGSIZE) => {
                        self.drops.too_long += 1;
                        at += 1;
                    }
                    _ => {
                        self.drops.other += 1;
                        if !std::mem::replace(&mut self.warned, true) {
                            let length = self.frames[at].len();
                            warn!("port {}: interface {}: {length} bytes not sent: {e}", self.port, self.name);
                        }
                        at += 1;
                    }
                },
            }
        }
        self.frames.clear();
        self.bytes.clear();
    }
}
