// SPDX-License-Identifier: Apache-2.0
//! The socket of one port, and the frames that it has not taken yet.
use super::send_limit::SendLimit;
use super::{SendDrops, interface};
use crate::system;
use crate::traffic_manager::Count;
use std::io::{ErrorKind, Result};
use std::ops::Range;
use std::os::fd::OwnedFd;
use tracing::warn;

/// Batches in a row, none left in the kernel, after which an interface is taken to have no queue, as a veth pair.
const NO_QUEUE_BATCHES: u32 = 64;
/// Frames of a batch that counts for that.
const SIGN_FRAMES: usize = 8;

/// Frames one after the other.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
}

impl Batch {
    pub fn push(&mut self, frame: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        self.frames.push(start..self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }

    /// Takes the frames of `other` behind its own.
    fn append(&mut self, other: &Batch) {
        other.frames.iter().for_each(|frame| self.push(&other.bytes[frame.clone()]));
    }
}

/// Frames that a line takes before it has to be flushed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The interface queues nothing.
    Unlimited,
    /// Bytes of kernel memory until the socket is full; 0: frames wait for it to be writable.
    Bytes(usize),
}

impl Space {
    /// Space left after a frame. Its buffer in the kernel is estimated above its size, so that no frame is taken that the
    /// socket then rejects.
    pub fn after(self, frame_bytes: usize) -> Space {
        const HEADROOM_AND_INFO_BYTES: usize = 512;
        const SK_BUFF_BYTES: usize = 256;
        match self {
            Space::Unlimited => self,
            Space::Bytes(left) => {
                let buffer = (frame_bytes + HEADROOM_AND_INFO_BYTES).next_power_of_two() + SK_BUFF_BYTES;
                Space::Bytes(left.saturating_sub(buffer))
            }
        }
    }
}

/// One port's sending end.
pub struct Line {
    port: u32,
    name: String,
    /// None while the interface is away or can't be had.
    socket: Option<OwnedFd>,
    /// Up, with a carrier. Without one the kernel drops frames and reports them as sent.
    has_link: bool,
    /// SO_SNDBUF as the kernel has it.
    buffer_bytes: usize,
    limit: SendLimit,
    /// Batches in a row of which nothing stayed in the kernel.
    taken_at_once: u32,
    /// Frames that the socket has not taken.
    kept: Batch,
    /// Frames that the socket has taken.
    pub sent: Count,
    pub drops: SendDrops,
    warned: bool,
}

impl Line {
    /// A port that has no socket yet.
    pub fn new(port: u32, name: String) -> Line {
        Line {
            port,
            name,
            socket: None,
            has_link: true,
            buffer_bytes: 0,
            limit: SendLimit::default(),
            taken_at_once: 0,
            kept: Batch::default(),
            sent: Count::default(),
            drops: SendDrops::default(),
            warned: false,
        }
    }

    /// Sends by `socket` from now on; without one, the frames that wait are dropped.
    pub fn renew(&mut self, socket: Option<OwnedFd>) -> Result<()> {
        (self.limit, self.taken_at_once, self.has_link) = (SendLimit::default(), 0, true);
        self.buffer_bytes = match &socket {
            Some(socket) => system::set_send_buffer(socket, self.limit.bytes())?,
            None => 0,
        };
        self.socket = socket;
        if self.socket.is_none() {
            self.drops.down += self.kept.len() as u64;
            self.kept.clear();
        }
        Ok(())
    }

    /// The interface is up with a carrier, or not: then its frames are dropped.
    pub fn set_link(&mut self, has_link: bool) {
        self.has_link = has_link;
    }

    /// Whether the interface is there, up and has a carrier.
    pub fn takes_frames(&self) -> bool {
        self.has_link && self.socket.is_some()
    }

    /// File descriptor that becomes writable.
    pub fn fd(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Frames that wait for the socket.
    pub fn waiting(&self) -> usize {
        self.kept.len()
    }

    /// Counts the frames that wait as dropped: nothing will send them any more.
    pub fn give_up(&mut self) {
        self.drops.queue_full += self.kept.len() as u64;
        self.kept.clear();
    }

    /// Sends frames behind those that wait, and keeps what the socket does not take.
    pub fn send(&mut self, batch: &Batch) -> Space {
        if !self.kept.is_empty() {
            self.kept.append(batch);
            return Space::Bytes(0);
        }
        let taken = self.transmit(batch);
        if taken < batch.len() {
            batch.frames[taken..].iter().for_each(|frame| self.kept.push(&batch.bytes[frame.clone()]));
            self.taken_at_once = 0;
            return Space::Bytes(0);
        }
        self.space(batch.len())
    }

    /// Sends the frames that wait, after the socket has become writable.
    pub fn writable(&mut self, now_ns: u64) -> Space {
        if let Some(socket) = &self.socket {
            let in_kernel_bytes = system::unsent_bytes(socket).unwrap_or(0);
            if self.limit.writable(in_kernel_bytes, now_ns) {
                self.set_limit();
            }
        }
        let kept = std::mem::take(&mut self.kept);
        self.send(&kept)
    }

    fn set_limit(&mut self) {
        if let Some(socket) = &self.socket
            && let Ok(bytes) = system::set_send_buffer(socket, self.limit.bytes())
        {
            self.buffer_bytes = bytes;
        }
    }

    /// Whether a frame that the interface has dropped is to wait for space in its queue.
    fn is_queue_full(&mut self) -> bool {
        let in_kernel_bytes = self.socket.as_ref().and_then(|s| system::unsent_bytes(s).ok()).unwrap_or(0);
        let is_full = self.limit.rejected(in_kernel_bytes);
        if is_full {
            self.set_limit();
        }
        is_full
    }

    /// Space after so many frames have been sent.
    fn space(&mut self, frames: usize) -> Space {
        let Some(socket) = &self.socket else { return Space::Unlimited };
        match system::unsent_bytes(socket).unwrap_or(0) {
            0 if self.taken_at_once >= NO_QUEUE_BATCHES => Space::Unlimited,
            in_kernel_bytes => {
                // Of a shaped interface, single frames leave at once too.
                self.taken_at_once = match in_kernel_bytes {
                    0 => self.taken_at_once + u32::from(frames >= SIGN_FRAMES),
                    _ => 0,
                };
                Space::Bytes(self.buffer_bytes.saturating_sub(in_kernel_bytes))
            }
        }
    }

    /// Sends frames, and gives the number that need no more attention: sent, or dropped and counted.
    fn transmit(&mut self, batch: &Batch) -> usize {
        let mut at = 0;
        while at < batch.frames.len() {
            let left = (batch.frames.len() - at) as u64;
            let Some(socket) = self.socket.as_ref().filter(|_| self.has_link) else {
                self.drops.down += left;
                return batch.len();
            };
            match system::send_batch(socket, &batch.bytes, &batch.frames[at..]) {
                Ok(n) => {
                    batch.frames[at..at + n].iter().for_each(|frame| self.sent.add(frame.len() as u64));
                    at += n;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => return at,
                Err(e) if interface::is_away(&e) => {
                    self.drops.down += left;
                    return batch.len();
                }
                Err(e) => {
                    match e.raw_os_error() {
                        Some(libc::ENOBUFS) if self.is_queue_full() => return at,
                        // A filter or the law of a qdisc has dropped it, as it would any other program's.
                        Some(libc::ENOBUFS) => self.drops.queue_full += 1,
                        Some(libc::EMSGSIZE) => self.drops.too_long += 1,
                        _ => {
                            self.drops.other += 1;
                            if !std::mem::replace(&mut self.warned, true) {
                                let length = batch.frames[at].len();
                                warn!("port {}: interface {}: {length} bytes not sent: {e}", self.port, self.name);
                            }
                        }
                    }
                    at += 1;
                }
            }
        }
        at
    }
}
