// SPDX-License-Identifier: Apache-2.0
//! `weir-icn client`: stands beside programs that open QUIC connections.

use super::converter::{Converter, ConverterOptions, Datagrams, FACE, FIRST_SOCKET, Out, SIGNALS, ecn_of, name};
use super::converter::{socket_options, too_long};
use crate::names::Name;
use crate::qvdp::Client;
use std::io::Write;
use std::net::SocketAddr;
use weir_io::address::socket_address;
use weir_io::fault::Fault;
use weir_io::udp::{RecvBatch, SendBatch, UdpSocket};

/// Carries the datagrams of programs that open QUIC connections, which come to its UDP port, by name
///
/// Programs connect to --listen instead of the server's address, with the server's name for TLS. Prints "listening
/// ADDRESS:PORT" on standard output when it is ready.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir-icn client --interface eth1 --as /weir/hosts/phone --server /weir/web --listen 127.0.0.1:4433
  weir-client https://localhost:4433/bytes/1MB --ca ca.pem     # any other QUIC client will do

Switches need routes to both names, /weir/web and /weir/hosts/phone: see docs/use/icn.md.")]
pub(super) struct Options {
    #[command(flatten)]
    converter: ConverterOptions,
    /// Our own name, which the server's side asks for our programs' datagrams; no other host has it
    #[arg(long = "as", value_parser = name, value_name = "NAME")]
    own: Name,
    /// The name of the server
    #[arg(long, value_parser = name, value_name = "NAME")]
    server: Name,
    /// Address and port that programs connect to (port 0: any free port)
    #[arg(long, value_parser = socket_address, value_name = "ADDR:PORT")]
    listen: SocketAddr,
}

pub(super) fn run(options: Options) -> Result<u8, Fault> {
    let mut core = Client::new(options.own, options.server, options.converter.config()).map_err(too_long)?;
    let mut converter = Converter::open(&options.converter)?;
    let mut socket = UdpSocket::open(options.listen, None, &socket_options())
        .map_err(Fault::io(format!("--listen {}", options.listen)))?;
    converter.waiter.add(socket.fd(), FIRST_SOCKET)?;
    println!("listening {}", socket.local_addr());
    std::io::stdout().flush()?;

    let (mut receive, mut send) = (RecvBatch::roomy(), SendBatch::default());
    let (mut datagrams, mut ready) = (Datagrams::new(), Vec::new());
    loop {
        let now = converter.wait(core.deadline(), &mut ready)?;
        let (arriving, packets) = converter.face.split();
        let mut out = Out { packets, datagrams: &mut datagrams };
        // Interests first: what programs sent meanwhile can then leave at once.
        if ready.contains(&FACE) {
            arriving.receive(&mut |header, payload| {
                core.packet(header, payload, &mut session_number, now, &mut out);
            })?;
        }
        if ready.contains(&FIRST_SOCKET) {
            receive.receive(&socket, |bytes, meta| {
                core.datagram(meta.from, bytes, ecn_of(meta.tos), &mut session_number, now, &mut out);
            })?;
        }
        core.timeout(now, &mut out);
        core.turn(now, &mut out);
        out.packets.flush();
        let local = socket.local_addr();
        datagrams.empty(|to, bytes, each| send.send_all(&mut socket, bytes, each, local, to));
        converter.report_if_due(core.counts(), now)?;
        if ready.contains(&SIGNALS) && converter.is_asked_to_end() {
            return converter.end(core.counts());
        }
    }
}

/// Numbers of sessions must differ from those of other hosts and runs, and not be guessed from earlier ones: anyone
/// that knows one can ask for its datagrams.
fn session_number() -> u64 {
    let mut bytes = [0; 8];
    boring::rand::rand_bytes(&mut bytes).expect("without random numbers the library ends the program itself");
    u64::from_ne_bytes(bytes)
}
