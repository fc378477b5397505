// SPDX-License-Identifier: Apache-2.0
//! Receiving: as many datagrams as one `recvmmsg` gives, trains that GRO has joined taken apart again.

use super::address::to_std;
use super::control::{CONTROL_BYTES, Control, read_control};
use super::socket::{Offload, UdpSocket};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::ptr;
use weir_core::transport::MAX_PAYLOAD_BYTES;

/// Datagrams in one call to `recvmmsg` at most, and GRO trains, which take 64 KiB each.
pub(super) const RECV_BATCH: usize = 32;
pub(super) const GRO_BATCH: usize = 4;
/// Room for one incoming datagram, in bytes, and for a train with GRO.
const RECV_SLOT_BYTES: usize = MAX_PAYLOAD_BYTES;
const GRO_SLOT_BYTES: usize = 65536;

/// Metadata of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Sender's address.
    pub from: SocketAddr,
    /// The address it was sent to.
    pub to: SocketAddr,
    /// TOS or traffic class byte.
    pub tos: u8,
}

/// Buffers for receiving.
pub struct RecvBatch {
    slot: usize,
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    iovs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl RecvBatch {
    /// Buffers for sockets opened with this choice of offload.
    pub fn new(offload: Offload) -> RecvBatch {
        let (slot, count) =
            if offload == Offload::Off { (RECV_SLOT_BYTES, RECV_BATCH) } else { (GRO_SLOT_BYTES, GRO_BATCH) };
        Self::with(slot, count)
    }

    /// Buffers for datagrams of any size from senders of any kind: as many as the batch of plain ones, each with room
    /// for a train. For sockets with any choice of offload.
    pub fn roomy() -> RecvBatch {
        Self::with(GRO_SLOT_BYTES, RECV_BATCH)
    }

    fn with(slot: usize, count: usize) -> RecvBatch {
        // SAFETY: all zeros are valid values of these plain C structures.
        let (name, iov, header) = unsafe { (zeroed(), zeroed(), zeroed()) };
        RecvBatch {
            slot,
            bytes: vec![0; slot * count],
            names: vec![name; count],
            controls: vec![Control([0; CONTROL_BYTES]); count],
            iovs: vec![iov; count],
            headers: vec![header; count],
        }
    }

    /// Hands the datagrams that wait at `socket` to `take`, datagram by datagram: as much as one system call gives, so
    /// that a socket that is never empty leaves time for everything else. The descriptor stays readable while anything
    /// is left. An error of the socket (a connected one reports that its peer's port is closed) comes after the
    /// datagrams received before it. Whether there may be more.
    pub fn receive(&mut self, socket: &UdpSocket, mut take: impl FnMut(&mut [u8], Meta)) -> io::Result<bool> {
        let count = self.headers.len();
        loop {
            for i in 0..count {
                self.iovs[i].iov_base = self.bytes[i * self.slot..].as_mut_ptr().cast();
                self.iovs[i].iov_len = self.slot;
                let h = &mut self.headers[i].msg_hdr;
                h.msg_name = ptr::from_mut(&mut self.names[i]).cast();
                h.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
                h.msg_iov = &mut self.iovs[i];
                h.msg_iovlen = 1;
                h.msg_control = self.controls[i].0.as_mut_ptr().cast();
                h.msg_controllen = CONTROL_BYTES as _;
            }
            // SAFETY: every header points at buffers of `self` with their true lengths.
            let n = unsafe {
                let flags = libc::MSG_DONTWAIT;
                libc::recvmmsg(socket.fd(), self.headers.as_mut_ptr(), count as _, flags as _, ptr::null_mut())
            };
            if n < 0 {
                let e = io::Error::last_os_error();
                match e.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(e),
                }
            }
            for i in 0..n as usize {
                let h = &self.headers[i];
                let Some(from) = to_std(&self.names[i]) else { continue };
                let control = &self.controls[i].0;
                let got = read_control(&control[..CONTROL_BYTES.min(h.msg_hdr.msg_controllen)]);
                let to = got.to.map_or(socket.local, |ip| SocketAddr::new(ip, socket.local.port()));
                let len = h.msg_len as usize;
                let whole = &mut self.bytes[i * self.slot..i * self.slot + len];
                for datagram in whole.chunks_mut(got.segment_bytes.unwrap_or(len).max(1)) {
                    take(datagram, Meta { from, to, tos: got.tos });
                }
            }
            return Ok(n as usize == count);
        }
    }
}
