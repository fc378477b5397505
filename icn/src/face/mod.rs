// SPDX-License-Identifier: Apache-2.0
//! A face: where packets leave and arrive. Packets only, no names and no sessions.

mod packet_socket;

pub(crate) use packet_socket::read_frame;
pub use packet_socket::{FaceError, PacketSocket, Receiving, Sending};

use crate::packet::Header;
use std::io;
use std::os::fd::RawFd;

/// Counters of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct FaceCounts {
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes from the Ethernet header on.
    pub sent_bytes: u64,
    /// Packets that the system refused to send, such as those that did not fit its queue.
    pub send_dropped_packets: u64,
    /// Packets that arrived and could be read.
    pub received_packets: u64,
    /// Their bytes from the Ethernet header on, without padding.
    pub received_bytes: u64,
    /// Frames of our EtherType that are no packets.
    pub malformed_frames: u64,
}

/// Sends and receives packets in batches. Neither ever blocks.
pub trait Face {
    /// Takes a packet, which leaves at [`Face::flush`] at the latest.
    fn push(&mut self, header: &Header, payload: &[u8]);

    /// Sends the pushed packets. Those that the system rejects are dropped and counted, as a full queue would.
    fn flush(&mut self);

    /// Hands what waits to `take`, packet by packet: as many as one system call gives. Whether there may be more.
    ///
    /// # Errors
    /// The interface was removed. One that is down is no error: it may come back.
    fn receive(&mut self, take: &mut dyn FnMut(&Header, &[u8])) -> io::Result<bool>;

    /// Its descriptor, readable when packets wait.
    fn fd(&self) -> RawFd;

    /// Counters so far.
    fn counts(&self) -> FaceCounts;
}
