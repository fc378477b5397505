// SPDX-License-Identifier: Apache-2.0
//! The group channel: lines over QUIC between a publisher and its subscribers, on plain UDP. It is small: a manifest, some
//! keys. So there is one datagram a system call.

mod admission;
mod client;
mod early;
mod link;
mod quota;
mod race;
mod server;
pub(crate) mod tickets;

pub use client::{Client, ClientCounts, ClientEvent, RECONNECT, Target, Trust};
pub use quota::{Quota, QuotaExceeded, QuotaLimits};
pub use server::{Leave, MemberId, Server, ServerEvent};
pub use tickets::TicketSecret;

use crate::objects::object::lines::ALPN;
use boring::ssl::SslContextBuilder;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use weir_io::fault::Fault;
use weir_io::random;

/// Length of our connection IDs, in bytes.
const CID_BYTES: usize = 16;
/// A connection on which nothing is heard for so long is over, and its members have left.
const IDLE: Duration = Duration::from_secs(20);
/// A subscriber says that it is there each time.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Connection IDs that each side has of the other: who moves takes another one (RFC 9000 9.5).
const SPARE_IDS: u64 = 4;
/// The code with which a stream is reset whose member was not heard any more (an edge server's; QUIC's own timer ends
/// all others).
const SILENT: u64 = 1;
/// The code with which a stream is stopped that broke the protocol.
const FAULT: u64 = 2;
/// The code with which a stream is reset whose member does not read.
const SLOW: u64 = 3;
/// UDP payloads sent: what every path carries (RFC 9000 14), since none is probed for more.
const PAYLOAD_BYTES: usize = 1200;
/// UDP payloads taken, also from peers that send larger ones.
const RECEIVED_PAYLOAD_BYTES: usize = 1350;
/// Limit of datagrams per iteration: others are served too.
const DATAGRAMS_A_TURN: usize = 64;

fn config(ctx: SslContextBuilder) -> Result<quiche::Config, Fault> {
    let quic = "QUIC library";
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).map_err(Fault::internal(quic))?;
    config.set_application_protos(&[ALPN]).map_err(Fault::internal(quic))?;
    config.set_max_idle_timeout(IDLE.as_millis() as u64);
    config.set_max_send_udp_payload_size(PAYLOAD_BYTES);
    config.set_max_recv_udp_payload_size(RECEIVED_PAYLOAD_BYTES);
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(1 << 18);
    config.set_initial_max_stream_data_bidi_remote(1 << 14);
    config.set_initial_max_streams_bidi(64);
    config.set_active_connection_id_limit(SPARE_IDS);
    Ok(config)
}

/// Gives the peer as many connection IDs as it takes; the new ones.
fn spare_ids(quic: &mut quiche::Connection) -> Result<Vec<Vec<u8>>, Fault> {
    let mut made = Vec::new();
    while quic.is_established() && quic.scids_left() > 0 {
        let id = random::bytes::<CID_BYTES>()?;
        let reset_token = u128::from_be_bytes(random::bytes()?);
        if quic.new_scid(&quiche::ConnectionId::from_ref(&id), reset_token, false).is_err() {
            break;
        }
        made.push(id.to_vec());
    }
    Ok(made)
}

/// Takes in the datagrams that wait, up to a number.
fn receive(socket: &UdpSocket, mut take: impl FnMut(&mut [u8], SocketAddr)) -> Result<(), Fault> {
    let mut buffer = [0; 1 << 16];
    for _ in 0..DATAGRAMS_A_TURN {
        match socket.recv_from(&mut buffer) {
            Ok((n, from)) => take(&mut buffer[..n], from),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            // The network's error for an earlier datagram: the connection's own timers notice.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Fault::io("the QUIC socket")(e)),
        }
    }
    Ok(())
}

/// Sends all that a connection has to send. Datagrams that the system rejects are lost like any packet.
fn send(socket: &UdpSocket, quic: &mut quiche::Connection) {
    let mut buffer = [0; PAYLOAD_BYTES];
    while let Ok((n, info)) = quic.send(&mut buffer) {
        let _ = socket.send_to(&buffer[..n], info.to);
    }
}

/// The same from a socket with this address, for connections that had another before. Whether the system took all of it.
fn send_from(socket: &UdpSocket, local: SocketAddr, quic: &mut quiche::Connection) -> bool {
    let mut buffer = [0; PAYLOAD_BYTES];
    let mut taken = true;
    while let Ok((n, info)) = quic.send(&mut buffer) {
        // Packets for an earlier address have no path any more.
        if info.from == local
            && let Err(e) = socket.send(&buffer[..n])
        {
            // A refusal that an earlier datagram met, and a full queue, are no fault of the address.
            use io::ErrorKind::{ConnectionRefused, WouldBlock};
            taken &= matches!(e.kind(), ConnectionRefused | WouldBlock);
        }
    }
    taken
}

/// Bytes still to be written to a stream.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    fin: bool,
}

impl Outgoing {
    fn write(&mut self, quic: &mut quiche::Connection, stream: u64) {
        if self.bytes.is_empty() && !self.fin {
            return;
        }
        if let Ok(n) = quic.stream_send(stream, &self.bytes, self.fin) {
            self.bytes.drain(..n);
            if self.bytes.is_empty() {
                self.fin = false;
            }
        }
    }
}
