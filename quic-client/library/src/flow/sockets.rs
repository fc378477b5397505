// SPDX-License-Identifier: Apache-2.0
//! The sockets of a flow, one for each local path, and the choice among them for each datagram.

use crate::local_paths::LocalPath;
use std::net::{IpAddr, SocketAddr};
use weir_core::choice::PathId;
use weir_core::connection::{Codepoint, PacketSink};
use weir_core::paths::PathSpec;
use weir_io::udp::{SendBatch, UdpSocket};

/// A local path with a socket of its own.
pub struct PathSocket {
    /// Names the path within its flow.
    pub id: PathId,
    /// As requested.
    pub name: String,
    /// The address bound to.
    pub address: IpAddr,
    /// Index of the interface, if bound to one.
    pub device: Option<u32>,
    /// The address of the server that it is connected to.
    pub peer: SocketAddr,
    /// Bound, and connected.
    pub socket: UdpSocket,
    /// The address was removed, but the connection still has to move to another path.
    pub leaving: bool,
}

impl PathSocket {
    /// Whether this is the socket of that local path. An interface is known by its index: another one of the same name is
    /// another path.
    pub fn is(&self, path: &LocalPath) -> bool {
        let device = path.device.as_ref().map(|(index, _)| *index);
        !self.leaving && (&self.name, self.address, self.device) == (&path.name, path.address, device)
    }

    /// The path as the session knows it.
    pub fn spec(&self) -> PathSpec {
        PathSpec { id: self.id, name: self.name.clone(), local: self.socket.local_addr(), peer: self.peer }
    }
}

/// Sends each datagram from the socket that has its source address.
pub struct Router<'a> {
    batch: &'a mut SendBatch,
    sockets: &'a mut [PathSocket],
    /// Index of the socket that the batch is for.
    current: usize,
}

impl<'a> Router<'a> {
    /// For the sockets of one flow, at least one.
    pub fn new(batch: &'a mut SendBatch, sockets: &'a mut [PathSocket]) -> Self {
        Router { batch, sockets, current: 0 }
    }

    /// Sends the rest of the batch.
    pub fn flush(self) {
        self.batch.flush(&mut self.sockets[self.current].socket);
    }
}

impl PacketSink for Router<'_> {
    fn slot(&mut self) -> &mut [u8] {
        self.batch.slot()
    }

    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr, ecn: Codepoint) {
        if self.sockets[self.current].socket.local_addr() != from {
            // A path that was given up sends no more: the datagram is lost.
            let Some(next) = self.sockets.iter().position(|s| s.socket.local_addr() == from) else { return };
            // Rare: a probe, a migration.
            let datagram = self.batch.slot()[..len].to_vec();
            self.batch.flush(&mut self.sockets[self.current].socket);
            self.current = next;
            self.batch.slot()[..len].copy_from_slice(&datagram);
        }
        self.batch.to(&mut self.sockets[self.current].socket).commit(len, from, to, ecn);
    }
}
