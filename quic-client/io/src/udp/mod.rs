// SPDX-License-Identifier: Apache-2.0
//! UDP sockets that send and receive in batches: `sendmmsg` and `recvmmsg`, with GSO and GRO where wanted, the ECN bits
//! of received datagrams, and on a wildcard address the address a datagram was sent to.
//!
//! Receiving never blocks. Sending blocks while the socket's buffer is full: the sender is then paced by its own host, and
//! nothing is lost before the link.

mod address;
pub(crate) mod control;
mod receive;
mod send;
mod socket;
#[cfg(test)]
mod tests;

pub use receive::{Meta, RecvBatch};
pub use send::{Outgoing, SendBatch, TooLarge};
pub use socket::{Offload, SocketOptions, UdpSocket};
