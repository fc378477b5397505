// SPDX-License-Identifier: Apache-2.0
//! Sending: datagrams collected and handed to one `sendmmsg`, runs of equal length joined by GSO.

use super::address::from_std;
use super::control::{CONTROL_BYTES, Control, ControlWriter};
use super::socket::UdpSocket;
use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::ops::Range;
use std::ptr;
use weir_core::connection::{Codepoint, PacketSink};
use weir_core::scone;
use weir_core::transport::MAX_PAYLOAD_BYTES;

/// Datagrams in one call to `sendmmsg` at most.
const SEND_BATCH: usize = 64;
/// Limits of the kernel on one GSO send: segments, and bytes below the largest UDP payload.
pub(super) const GSO_SEGMENTS: usize = 64;
const GSO_BYTES: usize = 65507;

#[derive(Debug, Clone, Copy)]
struct Queued {
    at: usize,
    len: usize,
    from: SocketAddr,
    to: SocketAddr,
    /// TOS or traffic class byte, where it is not the socket's.
    tos: Option<u8>,
    /// First of a GSO send: elements of the network that write throughput advice read no later one.
    leads: bool,
}

/// A datagram that the kernel refused because the link does not carry its size (EMSGSIZE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Local address that it was to leave from.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// UDP payload, in bytes.
    pub len: usize,
}

/// Datagrams of a run that the kernel refused as a whole. They are sent one by one, which shows whether their size or
/// the segmentation was wrong.
#[derive(Debug, Default)]
struct Alone {
    /// The first datagram behind them.
    end: usize,
    too_large: bool,
}

/// Datagrams collected for one socket: as many as one GSO send can carry, end to end in one piece of memory.
pub struct SendBatch {
    bytes: Vec<u8>,
    used: usize,
    queued: Vec<Queued>,
    /// Datagrams that the kernel refused; they count as lost on the way.
    pub dropped: u64,
    /// The last reason for that.
    pub error: Option<io::Error>,
    /// Those refused for their size until they are taken, or the first of them.
    pub too_large: Vec<TooLarge>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    iovs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Default for SendBatch {
    fn default() -> Self {
        // SAFETY: all zeros are valid values of these plain C structures.
        let (name, iov, header) = unsafe { (zeroed(), zeroed(), zeroed()) };
        SendBatch {
            bytes: vec![0; GSO_BYTES + MAX_PAYLOAD_BYTES],
            used: 0,
            queued: Vec::with_capacity(SEND_BATCH),
            dropped: 0,
            error: None,
            too_large: Vec::new(),
            names: vec![name; SEND_BATCH],
            controls: vec![Control([0; CONTROL_BYTES]); SEND_BATCH],
            iovs: vec![iov; SEND_BATCH],
            headers: vec![header; SEND_BATCH],
        }
    }
}

impl SendBatch {
    /// Takes datagrams for `socket`; they leave when the batch is full and at [`SendBatch::flush`].
    pub fn to<'a>(&'a mut self, socket: &'a mut UdpSocket) -> Outgoing<'a> {
        Outgoing { batch: self, socket }
    }

    /// Room for the next datagram, whichever socket it will be for; the same room until it is committed.
    pub fn slot(&mut self) -> &mut [u8] {
        &mut self.bytes[self.used..][..MAX_PAYLOAD_BYTES]
    }

    /// Sends datagrams of any size that UDP has, which lie end to end in `bytes`: `datagrams` has the length and the
    /// TOS or traffic class byte of each. Datagrams collected before leave first.
    ///
    /// # Panics
    /// `bytes` is shorter than all of them.
    pub fn send_all(
        &mut self,
        socket: &mut UdpSocket,
        bytes: &[u8],
        datagrams: impl IntoIterator<Item = (usize, u8)>,
        from: SocketAddr,
        to: SocketAddr,
    ) {
        self.flush(socket);
        let mut at = 0;
        for (len, tos) in datagrams {
            self.queued.push(Queued { at, len, from, to, tos: Some(tos), leads: false });
            at += len;
        }
        self.send(socket, &bytes[..at]);
    }

    fn add(&mut self, socket: &mut UdpSocket, queued: Queued) {
        let len = queued.len;
        self.queued.push(queued);
        self.used += len;
        // The next one is likely as long as this one, and would not go out with the others.
        if self.queued.len() == SEND_BATCH || self.used + len > GSO_BYTES {
            self.flush(socket);
        }
    }

    /// Sends the collected datagrams.
    pub fn flush(&mut self, socket: &mut UdpSocket) {
        let bytes = std::mem::take(&mut self.bytes);
        self.send(socket, &bytes);
        self.bytes = bytes;
        self.used = 0;
    }

    /// Sends the queued datagrams, whose positions are in `bytes`.
    fn send(&mut self, socket: &mut UdpSocket, bytes: &[u8]) {
        let mut first = 0;
        let mut alone = Alone::default();
        while first < self.queued.len() {
            first += self.send_from(socket, bytes, first, &mut alone);
            if alone.end > 0 && first >= alone.end {
                // Each left by itself, so the route's device can't segment: go on without.
                socket.gso &= alone.too_large;
                alone = Alone::default();
            }
        }
        self.queued.clear();
    }

    /// Sends from datagram `first` on; returns how many datagrams are done with, at least one unless a run is to be sent
    /// otherwise.
    fn send_from(&mut self, socket: &mut UdpSocket, bytes: &[u8], first: usize, alone: &mut Alone) -> usize {
        let mut messages = 0;
        let mut lengths = [0usize; SEND_BATCH];
        let mut i = first;
        while i < self.queued.len() && messages < SEND_BATCH {
            if alone.end > 0 && i >= alone.end {
                break;
            }
            let run = self.run_length(i, socket.gso && alone.end == 0);
            self.describe(messages, bytes, i..i + run, socket);
            lengths[messages] = run;
            messages += 1;
            i += run;
        }
        let sent = loop {
            // SAFETY: `describe` made each header point at `bytes` and buffers of `self` with their true lengths.
            let n = unsafe { libc::sendmmsg(socket.fd(), self.headers.as_mut_ptr(), messages as _, 0) };
            if n >= 0 {
                break n as usize;
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EINTR) => continue,
                // The route's device can't checksum: go on without.
                Some(libc::EIO) if lengths[0] > 1 => {
                    socket.gso = false;
                    return 0;
                }
                // It can't segment, or the size of a segment is above the link's MTU (EINVAL or EMSGSIZE, by kernel).
                Some(libc::EINVAL | libc::EMSGSIZE) if lengths[0] > 1 => {
                    *alone = Alone { end: first + lengths[0], too_large: false };
                    return 0;
                }
                errno => {
                    if errno == Some(libc::EMSGSIZE) {
                        let Queued { from, to, len, .. } = self.queued[first];
                        if self.too_large.len() < SEND_BATCH {
                            self.too_large.push(TooLarge { from, to, len });
                        }
                        alone.too_large = true;
                    }
                    self.dropped += lengths[0] as u64;
                    self.error = Some(e);
                    return lengths[0];
                }
            }
        };
        lengths[..sent].iter().sum()
    }

    /// Datagrams from `i` on that one message can carry: equal in length but for a shorter last one, one destination.
    fn run_length(&self, i: usize, gso: bool) -> usize {
        let head = self.queued[i];
        if !gso {
            return 1;
        }
        let mut total = head.len;
        let mut n = 1;
        for q in &self.queued[i + 1..] {
            let fits = total + q.len <= GSO_BYTES && n < GSO_SEGMENTS && q.len <= head.len;
            if !fits || q.leads || q.len == 0 || q.to != head.to || q.from != head.from || q.tos != head.tos {
                break;
            }
            total += q.len;
            n += 1;
            if q.len < head.len {
                break;
            }
        }
        n
    }

    /// Fills header number `message` for these datagrams, whose places are in `bytes`.
    fn describe(&mut self, message: usize, bytes: &[u8], run: Range<usize>, socket: &UdpSocket) {
        let (q, last) = (self.queued[run.start], self.queued[run.end - 1]);
        let iov = &mut self.iovs[message];
        // The kernel only reads the data to send.
        iov.iov_base = bytes[q.at..].as_ptr().cast_mut().cast();
        iov.iov_len = last.at + last.len - q.at;
        let h = &mut self.headers[message].msg_hdr;
        h.msg_iov = iov;
        h.msg_iovlen = 1;
        h.msg_name = ptr::null_mut();
        h.msg_namelen = 0;
        if !socket.connected {
            let (name, len) = from_std(q.to);
            self.names[message] = name;
            h.msg_name = ptr::from_mut(&mut self.names[message]).cast();
            h.msg_namelen = len;
        }
        let mut control = ControlWriter::new(&mut self.controls[message]);
        if run.len() > 1 {
            control.segment(q.len as u16);
        }
        if !socket.connected && socket.local.ip().is_unspecified() && !q.from.ip().is_unspecified() {
            control.source(q.from.ip());
        }
        if let Some(tos) = q.tos {
            control.tos(is_v6(q.to), tos);
        }
        let control_bytes = control.used_bytes();
        h.msg_controllen = control_bytes as _;
        h.msg_control = if control_bytes > 0 { self.controls[message].0.as_mut_ptr().cast() } else { ptr::null_mut() };
    }
}

/// Whether packets to this address are IPv6; those to a v4-mapped one, from a dual-stack socket, are IPv4.
fn is_v6(to: SocketAddr) -> bool {
    matches!(to, SocketAddr::V6(to) if to.ip().to_ipv4_mapped().is_none())
}

/// A batch on its way out of one socket.
pub struct Outgoing<'a> {
    batch: &'a mut SendBatch,
    socket: &'a mut UdpSocket,
}

impl PacketSink for Outgoing<'_> {
    fn slot(&mut self) -> &mut [u8] {
        self.batch.slot()
    }

    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr, ecn: Codepoint) {
        let tos = (ecn != Codepoint::NotEct).then_some(ecn as u8);
        let at = self.batch.used;
        let leads = scone::begins(&self.batch.bytes[at..at + len]);
        self.batch.add(self.socket, Queued { at, len, from, to, tos, leads });
    }
}
