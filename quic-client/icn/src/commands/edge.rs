// SPDX-License-Identifier: Apache-2.0
//! `weir-icn edge`: a server of a publisher's groups near the subscribers.

use super::group::{Client, ClientEvent, Leave, MemberId, Server, ServerEvent, Target, Trust};
use super::identity::Serving;
use super::options::{complain, resolve, to_json, trust};
use crate::objects::object::lines::{Answer, Request};
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use weir_core::text::printable;
use weir_io::fault::Fault;
use weir_io::tls;
use weir_io::wait::{Signals, Waiter};

/// Hands on a publisher's manifests and keys to subscribers near it.
///
///   weir-icn edge --of 192.0.2.1:4434 --ca weir-server-ca.pem --listen 198.51.100.1:4434 --ticket-keys tickets
///
/// What a subscriber asks for here, it asks the publisher for, and hands on what it answers. Manifests are signed by the
/// publisher, so subscribers need not believe this server; but it knows the keys that it hands on. Several of them with the
/// same --ticket-keys accept each other's tickets: a subscriber that comes from one to the other asks in its first packets.
/// It needs no interface for packets by name.
///
/// Prints "listening ADDRESS:PORT" when it is ready. SIGINT and SIGTERM end it with exit code 0 and one line of JSON that says
/// what it did. Exit codes: 2 usage; 8 a file or an address can't be used.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Options {
    /// The publisher's UDP address and port, or another edge server's. Repeatable: the one to ask first before the others
    #[arg(long, required = true, value_name = "HOST:PORT")]
    of: Vec<String>,
    /// PEM file with the certificates to trust there, in place of the system's
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    ca: Option<PathBuf>,
    /// Accept any certificate there: for tests
    #[arg(long, conflicts_with = "ca", help_heading = "Trust")]
    insecure: bool,
    #[command(flatten)]
    serving: Serving,
}

const DOWN: u64 = 0;
const UP: u64 = 1;
const SIGNAL: u64 = 2;
/// Members at once: a publisher takes 512 connections of one address.
const MOST_MEMBERS: usize = 500;

struct Loop<'a> {
    of: Vec<Target>,
    trust: Trust<'a>,
    group: Server,
    /// Each member's own connection to the publisher, on which it is the same member.
    members: BTreeMap<MemberId, Client>,
    waiter: Waiter,
    handed_on: u64,
}

/// Runs it until a signal ends it.
///
/// # Errors
/// What can't be used.
pub fn run(options: &Options) -> Result<u8, Fault> {
    let of = options.of.iter().map(|of| resolve("--of", of)).collect::<Result<Vec<_>, _>>()?;
    let identity = options.serving.identity()?;
    let group = Server::open(options.serving.listen, options.serving.tickets()?, || tls::server(&identity))?;
    // A file that can't be read, or should not be here, is said now, not when the first subscriber comes.
    let trust = trust(options.ca.as_deref(), options.insecure);
    tls::client(trust.ca)?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    waiter.add(group.fd(), DOWN).and_then(|()| waiter.add(signals.fd(), SIGNAL)).map_err(Fault::io("epoll"))?;
    let mut out = std::io::stdout();
    let said = writeln!(out, "listening {}", group.local()).and_then(|()| out.flush());
    said.map_err(Fault::io("standard output"))?;
    let mut this = Loop { of, trust, group, members: BTreeMap::new(), waiter, handed_on: 0 };
    let mut ready = Vec::new();
    loop {
        let ups = this.members.values().filter_map(Client::deadline).min();
        let deadline = [this.group.deadline(), ups].into_iter().flatten().min();
        this.waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
        this.turn(Instant::now())?;
        if ready.contains(&SIGNAL) && signals.take().is_some() {
            this.group.close();
            let report = serde_json::json!({
                "members": this.members.len(), "connections": this.group.connections(), "group": this.group.counts,
                "handed_on": this.handed_on,
            });
            writeln!(out, "{}", to_json(&report)?).map_err(Fault::io("standard output"))?;
            return Ok(0);
        }
    }
}

impl Loop<'_> {
    fn turn(&mut self, now: Instant) -> Result<(), Fault> {
        self.group.receive(now)?;
        self.serve(now)?;
        for (member, client) in &mut self.members {
            for event in client.turn(now)? {
                let answer = match event {
                    ClientEvent::Answer(answer) => answer,
                    ClientEvent::Wrong(e) => Answer::Error(e.to_string()),
                    ClientEvent::Closed(fault) => {
                        complain(&fault.text);
                        Answer::Error("the publisher can't be reached from this edge server".to_owned())
                    }
                    // The subscriber has keys meanwhile, and gets those that are new when there is a connection again.
                    ClientEvent::Lost(fault) => {
                        complain(&fault.text);
                        continue;
                    }
                    ClientEvent::Back(_) => continue,
                };
                self.handed_on += 1;
                self.group.tell(*member, &answer)?;
            }
            for fd in client.new_fds() {
                self.waiter.add(fd, UP).map_err(Fault::io("epoll"))?;
            }
        }
        // What was said in this turn leaves with it.
        self.serve(now)
    }

    /// What subscribers did.
    fn serve(&mut self, now: Instant) -> Result<(), Fault> {
        for event in self.group.turn(now)? {
            match event {
                ServerEvent::Get(member, _, request) => self.get(member, request, now)?,
                ServerEvent::Left(member, how) => {
                    // Of one that was not heard any longer nothing is said: it may be a member elsewhere.
                    if let Some(mut client) = self.members.remove(&member)
                        && how == Leave::Said
                    {
                        client.leave();
                        client.turn(now)?;
                        client.close();
                    }
                }
            }
        }
        Ok(())
    }

    fn get(&mut self, member: MemberId, request: Request, now: Instant) -> Result<(), Fault> {
        if self.members.len() >= MOST_MEMBERS {
            let why = "this edge server has as many subscribers as it takes; try again later";
            return self.group.tell(member, &Answer::Error(why.to_owned()));
        }
        let made = Client::connect(self.of.clone(), self.trust, now);
        let mut client = match made {
            Ok(client) => client,
            Err(fault) => {
                complain(&printable(&fault.text));
                let why = "the publisher can't be reached from this edge server";
                return self.group.tell(member, &Answer::Error(why.to_owned()));
            }
        };
        client.ask(request, now)?;
        self.members.insert(member, client);
        Ok(())
    }
}
