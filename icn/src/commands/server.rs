// SPDX-License-Identifier: Apache-2.0
//! `weir-icn server`: stands beside a program that waits for QUIC connections.

use super::converter::{Converter, ConverterOptions, Datagrams, FACE, FIRST_SOCKET, Out, SIGNALS, ecn_of, name};
use super::converter::{socket_options, too_long};
use super::options::complain;
use crate::names::Name;
use crate::qvdp::Server;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use weir_io::address::socket_address;
use weir_io::fault::Fault;
use weir_io::udp::{RecvBatch, SendBatch, UdpSocket};
use weir_io::wait::Waiter;

/// Carries the datagrams of a program that waits for QUIC connections by name
///
/// Each session has a UDP port of its own towards the program, as if each were another client. Prints "serving NAME" on
/// standard output when it is ready.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir-server --listen 127.0.0.1:4433 &                        # any other QUIC server will do
  weir-icn server --interface eth1 --name /weir/web --to 127.0.0.1:4433

Switches need routes to this name and to those of the clients: see docs/use/icn.md.")]
pub(super) struct Options {
    #[command(flatten)]
    converter: ConverterOptions,
    /// The name of the server
    #[arg(long, value_parser = name, value_name = "NAME")]
    name: Name,
    /// Address and port of the program
    #[arg(long, value_parser = socket_address, value_name = "ADDR:PORT")]
    to: SocketAddr,
}

pub(super) fn run(options: Options) -> Result<u8, Fault> {
    let served = options.name.clone();
    let mut core = Server::new(options.name, options.converter.config()).map_err(too_long)?;
    let mut converter = Converter::open(&options.converter)?;
    raise_descriptor_limit();
    let mut programs = Programs::new(options.to);
    println!("serving {served}");
    io::stdout().flush()?;

    let (mut receive, mut send) = (RecvBatch::roomy(), SendBatch::default());
    let (mut datagrams, mut ready, mut ended) = (Datagrams::new(), Vec::new(), Vec::new());
    loop {
        let now = converter.wait(core.deadline(), &mut ready)?;
        let (arriving, packets) = converter.face.split();
        let mut out = Out { packets, datagrams: &mut datagrams };
        // Interests first: what the program sent meanwhile can then leave at once.
        if ready.contains(&FACE) {
            arriving.receive(&mut |header, payload| {
                ended.extend(core.packet(header, payload, now, &mut out));
            })?;
        }
        for token in ready.iter().filter(|token| **token >= FIRST_SOCKET) {
            let Some((session, socket)) = programs.sockets.get(token) else { continue };
            // An error says that the program does not listen now. QUIC's clients ask again.
            let _ = receive.receive(socket, |bytes, meta| {
                core.datagram(*session, bytes, ecn_of(meta.tos), now, &mut out);
            });
        }
        ended.extend(core.timeout(now, &mut out));
        core.turn(now, &mut out);
        out.packets.flush();
        for session in programs.give(&mut datagrams, &converter.waiter, &mut send) {
            core.fail(session);
        }
        ended.drain(..).try_for_each(|session| programs.close(session, &converter.waiter))?;
        converter.report_if_due(core.counts(), now)?;
        if ready.contains(&SIGNALS) && converter.is_asked_to_end() {
            return converter.end(core.counts());
        }
    }
}

/// The program as sessions see it: a socket for each.
struct Programs {
    to: SocketAddr,
    /// By token: session and socket.
    sockets: HashMap<u64, (u64, UdpSocket)>,
    /// By session.
    tokens: HashMap<u64, u64>,
    next: u64,
    /// A session without a socket was reported.
    complained: bool,
}

impl Programs {
    fn new(to: SocketAddr) -> Programs {
        Programs { to, sockets: HashMap::new(), tokens: HashMap::new(), next: FIRST_SOCKET, complained: false }
    }

    /// Sends an iteration's datagrams to the program. The sessions that got no socket for it: the system has no more
    /// descriptors, for example. Others go on.
    fn give(&mut self, datagrams: &mut Datagrams<u64>, waiter: &Waiter, send: &mut SendBatch) -> BTreeSet<u64> {
        let mut failed = BTreeSet::new();
        datagrams.empty(|session, bytes, each| {
            if !self.tokens.contains_key(&session)
                && let Err(e) = self.open(session, waiter)
            {
                if failed.insert(session) && !std::mem::replace(&mut self.complained, true) {
                    complain(&format!("--to {}: no socket for a session, which ends: {e}", self.to));
                }
                return;
            }
            let to = self.to;
            if let Some((_, socket)) = self.socket_of(session) {
                let local = socket.local_addr();
                send.send_all(socket, bytes, each, local, to);
            }
        });
        failed
    }

    fn socket_of(&mut self, session: u64) -> Option<&mut (u64, UdpSocket)> {
        self.sockets.get_mut(self.tokens.get(&session)?)
    }

    fn open(&mut self, session: u64, waiter: &Waiter) -> io::Result<()> {
        let any = match self.to {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::open(any, Some(self.to), &socket_options())?;
        waiter.add(socket.fd(), self.next)?;
        self.tokens.insert(session, self.next);
        self.sockets.insert(self.next, (session, socket));
        self.next += 1;
        Ok(())
    }

    fn close(&mut self, session: u64, waiter: &Waiter) -> io::Result<()> {
        match self.tokens.remove(&session).and_then(|token| self.sockets.remove(&token)) {
            Some((_, socket)) => waiter.remove(socket.fd()),
            None => Ok(()),
        }
    }
}

/// Each session needs a descriptor; the usual limit of 1024 would not do for all of them.
fn raise_descriptor_limit() {
    // SAFETY: `limit` is plain data and outlives the calls. If they fail, the limit stays as it was.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qvdp::Ecn;

    #[test]
    fn a_session_without_a_socket_ends_no_other() {
        let program = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (waiter, mut send, mut out) = (Waiter::new().unwrap(), SendBatch::default(), Datagrams::new());
        let mut programs = Programs::new(program.local_addr().unwrap());
        out.push(1, b"one", Ecn::Off);
        assert!(programs.give(&mut out, &waiter, &mut send).is_empty());
        // The system refuses to connect a socket to this address.
        let good = std::mem::replace(&mut programs.to, "255.255.255.255:1".parse().unwrap());
        out.push(2, b"two", Ecn::Off);
        out.push(2, b"three", Ecn::Off);
        assert_eq!(programs.give(&mut out, &waiter, &mut send), BTreeSet::from([2]));
        programs.to = good;
        out.push(1, b"four", Ecn::Off);
        assert!(programs.give(&mut out, &waiter, &mut send).is_empty());
        let mut buffer = [0; 9];
        for expected in [&b"one"[..], b"four"] {
            let n = program.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..n], expected);
        }
    }
}
