// SPDX-License-Identifier: Apache-2.0
//! `weir-icn edge`: a server of a publisher's groups near the subscribers.

mod sharing;

use super::group::{
    Client, ClientEvent, Leave, MemberId, Quota, QuotaLimits, RECONNECT, Server, ServerEvent, Target, Trust,
};
use super::identity::Serving;
use super::options::{complain, resolve, to_json, trust};
use crate::objects::object::lines::{Answer, Request};
use clap::Args;
use sharing::{Act, Sharing};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_core::backoff::Backoff;
use weir_core::text::printable;
use weir_io::fault::Fault;
use weir_io::random;
use weir_io::tls;
use weir_io::wait::{Signals, Waiter};

/// Hands on a publisher's manifests and keys to subscribers near it
///
///   weir-icn edge --of 192.0.2.1:4434 --ca weir-server-ca.pem --listen 198.51.100.1:4434 --ticket-keys tickets
///
/// Requests of subscribers are passed to the publisher, and its answers back. Many subscribers share a connection to
/// the publisher, and a manifest comes from there once. Manifests are signed by the publisher, and subscribers check
/// that: against the key of weir-icn get --publisher, else against the one that they accepted for the name before
/// (get --known-publishers). A subscriber that has neither accepts the first key that it gets, and trusts this server
/// for that. This server knows the group keys that it hands on. Several of them with the same --ticket-keys accept each
/// other's tickets: a subscriber that comes from one to the other asks in its first packets. It needs no interface for
/// packets by name.
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
    /// Subscribers taken from one IPv4 address, or the /64 of an IPv6 one, of the 500 in all. More where one address is that
    /// of many: of another edge server that asks here, or of a NAT
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=MOST_MEMBERS as i64), value_name = "N",
        help_heading = "Limits")]
    most_from_one: u16,
    #[command(flatten)]
    serving: Serving,
}

const DOWN: u64 = 0;
const UP: u64 = 1;
const SIGNAL: u64 = 2;
/// Members at once.
const MOST_MEMBERS: usize = 500;
/// Members that share a connection to the publisher, which takes 64 streams of each at once.
const MEMBERS_OF_UPLINK: usize = 50;
/// Interval at which known manifests age. One is requested again after at most twice that.
const AGE_EVERY: Duration = Duration::from_secs(1800);
const UNREACHABLE: &str = "the publisher can't be reached from this edge server";

/// A connection to the publisher. `asks`: the members of its requests, by number.
struct Uplink {
    client: Client,
    asks: BTreeMap<u64, MemberId>,
}

struct Loop<'a> {
    of: Vec<Target>,
    trust: Trust<'a>,
    group: Server,
    uplinks: BTreeMap<u64, Uplink>,
    /// The uplink of each member, and the number of what it asks for there.
    members: BTreeMap<MemberId, (u64, u64)>,
    quota: Quota,
    /// Waits before another connection to the publisher after one that was given up, and the end of the present wait.
    backoff: Backoff,
    reachable_at: Option<Instant>,
    sharing: Sharing<MemberId>,
    age_at: Instant,
    /// Last number given to an uplink or a request.
    numbers: u64,
    waiter: Waiter,
    handed_on: u64,
}

/// Runs it until a signal ends it.
///
/// # Errors
/// An option or file can't be used.
pub fn run(options: &Options) -> Result<u8, Fault> {
    let of = options.of.iter().map(|of| resolve("--of", of)).collect::<Result<Vec<_>, _>>()?.concat();
    let identity = options.serving.identity()?;
    let group = Server::open(options.serving.listen, options.serving.tickets()?, || tls::server(&identity))?;
    // A file that can't be read, or should not be here, is reported now, not when the first subscriber comes.
    let trust = trust(options.ca.as_deref(), options.insecure);
    tls::client(trust.ca, "--")?;
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    waiter.add(group.fd(), DOWN).and_then(|()| waiter.add(signals.fd(), SIGNAL)).map_err(Fault::io("epoll"))?;
    let mut this = Loop {
        of,
        trust,
        group,
        uplinks: BTreeMap::new(),
        members: BTreeMap::new(),
        quota: Quota::new(QuotaLimits {
            who: "this edge server",
            most: MOST_MEMBERS,
            most_of_source: options.most_from_one.into(),
        }),
        backoff: Backoff::new(RECONNECT),
        reachable_at: None,
        sharing: Sharing::default(),
        age_at: Instant::now() + AGE_EVERY,
        numbers: 0,
        waiter,
        handed_on: 0,
    };
    // The first subscriber need not wait for a handshake. Without a way now, there may be one when he comes.
    let _ = this.uplink(Instant::now())?;
    let mut out = std::io::stdout();
    let said = writeln!(out, "listening {}", this.group.local()).and_then(|()| out.flush());
    said.map_err(Fault::io("standard output"))?;
    let mut ready = Vec::new();
    loop {
        let ups = this.uplinks.values().filter_map(|up| up.client.deadline()).min();
        let deadline = [this.group.deadline(), ups].into_iter().flatten().min();
        this.waiter.wait(Instant::now(), deadline, &mut ready).map_err(Fault::io("epoll"))?;
        this.turn(Instant::now())?;
        if ready.contains(&SIGNAL) && signals.take().is_some() {
            this.group.close();
            let report = serde_json::json!({
                "members": this.members.len(), "connections": this.group.connections(), "group": this.group.counts,
                "uplinks": this.uplinks.len(), "handed_on": this.handed_on,
            });
            writeln!(out, "{}", to_json(&report)?).map_err(Fault::io("standard output"))?;
            return Ok(0);
        }
    }
}

impl Loop<'_> {
    fn turn(&mut self, now: Instant) -> Result<(), Fault> {
        self.group.receive(now)?;
        if now >= self.age_at {
            self.age_at = now + AGE_EVERY;
            self.sharing.age();
        }
        // Messages of this iteration leave with it, on either side.
        loop {
            self.serve(now)?;
            let uplinks: Vec<u64> = self.uplinks.keys().copied().collect();
            let mut more = false;
            for id in uplinks {
                more |= self.turn_uplink(id, now)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Whether anything happened there.
    fn turn_uplink(&mut self, id: u64, now: Instant) -> Result<bool, Fault> {
        let Some(up) = self.uplinks.get_mut(&id) else { return Ok(false) };
        let events = up.client.turn(now)?;
        for fd in up.client.new_fds() {
            self.waiter.add(fd, UP).map_err(Fault::io("epoll"))?;
        }
        let more = !events.is_empty();
        for event in events {
            match event {
                ClientEvent::Answer(ask, answer) => self.answered(id, ask, answer, now)?,
                ClientEvent::Wrong(ask, e) => self.answered(id, ask, Answer::Error(e.to_string()), now)?,
                ClientEvent::Unanswered(ask) => {
                    self.answered(id, ask, Answer::Error(UNREACHABLE.to_owned()), now)?;
                }
                ClientEvent::Closed(fault) => {
                    complain(&fault.text);
                    self.wait(now)?;
                    for member in self.uplinks.remove(&id).into_iter().flat_map(|up| up.asks.into_values()) {
                        self.members.remove(&member);
                        let acts = self.sharing.answer(member, Answer::Error(UNREACHABLE.to_owned()));
                        self.act(acts, now)?;
                    }
                }
                // Subscribers have keys meanwhile, and get those that are new when there is a connection again.
                ClientEvent::Lost(fault) => complain(&fault.text),
                ClientEvent::Back(_) => {}
            }
        }
        Ok(more)
    }

    fn answered(&mut self, uplink: u64, ask: u64, answer: Answer, now: Instant) -> Result<(), Fault> {
        let Some(up) = self.uplinks.get_mut(&uplink) else { return Ok(()) };
        let Some(&member) = up.asks.get(&ask) else { return Ok(()) };
        if !matches!(answer, Answer::Error(_)) {
            self.backoff.reset();
        }
        if matches!(answer, Answer::Error(_)) {
            up.client.leave(ask);
            up.asks.remove(&ask);
            self.members.remove(&member);
        }
        let acts = self.sharing.answer(member, answer);
        self.act(acts, now)
    }

    /// Events of subscribers.
    fn serve(&mut self, now: Instant) -> Result<(), Fault> {
        for event in self.group.turn(now)? {
            match event {
                ServerEvent::Get(member, _, request) => self.get(member, request, now)?,
                ServerEvent::Left(member, how) => {
                    self.unask(member, how);
                    self.quota.give_up(member);
                    let acts = self.sharing.left(member);
                    self.act(acts, now)?;
                }
            }
        }
        Ok(())
    }

    /// One wants to be a member.
    fn get(&mut self, member: MemberId, request: Request, now: Instant) -> Result<(), Fault> {
        let Some(source) = self.group.source(member) else { return Ok(()) };
        match self.quota.take(member, source, self.sharing.same(&request)) {
            Ok(None) => {}
            Ok(Some(earlier)) => {
                self.unask(earlier, Leave::Silent);
                self.group.tell(earlier, &Answer::Error("you ask on another connection now".to_owned()))?;
                let acts = self.sharing.left(earlier);
                self.act(acts, now)?;
            }
            Err(full) => return self.group.tell(member, &Answer::Error(full.to_string())),
        }
        let acts = self.sharing.get(member, request);
        self.act(acts, now)
    }

    fn act(&mut self, acts: Vec<Act<MemberId>>, now: Instant) -> Result<(), Fault> {
        for act in acts {
            match act {
                Act::Tell(member, answer) => {
                    self.handed_on += 1;
                    if matches!(answer, Answer::Error(_)) {
                        self.quota.give_up(member);
                    }
                    self.group.tell(member, &answer)?;
                }
                Act::Ask(member, request) => {
                    // Asked again in other words, it is the same member there.
                    self.unask(member, Leave::Silent);
                    self.ask(member, request, now)?;
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, member: MemberId, mut request: Request, now: Instant) -> Result<(), Fault> {
        // Others on the same connection are not this one.
        if request.member.is_none() {
            request.member = Some(random::bytes()?);
        }
        // A fault of one member's is not that of the others on the connection.
        if let Err(e) = request.line() {
            let acts = self.sharing.answer(member, Answer::Error(e.to_string()));
            return self.act(acts, now);
        }
        let Some(id) = self.uplink(now)? else {
            let acts = self.sharing.answer(member, Answer::Error(UNREACHABLE.to_owned()));
            return self.act(acts, now);
        };
        self.numbers += 1;
        let up = self.uplinks.get_mut(&id).expect("just found");
        up.client.ask(self.numbers, request, now)?;
        up.asks.insert(self.numbers, member);
        self.members.insert(member, (id, self.numbers));
        Ok(())
    }

    /// A member is none of the publisher's any longer. Of one that was not heard any more nothing is reported: it may
    /// be a member elsewhere.
    fn unask(&mut self, member: MemberId, how: Leave) {
        let Some((id, ask)) = self.members.remove(&member) else { return };
        let Some(up) = self.uplinks.get_mut(&id) else { return };
        up.asks.remove(&ask);
        match how {
            Leave::Said => up.client.leave(ask),
            Leave::Silent => up.client.forget(ask),
        }
    }

    /// A connection to the publisher with a free stream for one more member. None: the publisher can't be reached.
    fn uplink(&mut self, now: Instant) -> Result<Option<u64>, Fault> {
        if let Some((id, _)) = self.uplinks.iter().find(|(_, up)| up.asks.len() < MEMBERS_OF_UPLINK) {
            return Ok(Some(*id));
        }
        if self.reachable_at.is_some_and(|at| now < at) {
            return Ok(None);
        }
        match Client::connect(self.of.clone(), self.trust, now) {
            Ok(client) => {
                self.numbers += 1;
                self.uplinks.insert(self.numbers, Uplink { client, asks: BTreeMap::new() });
                Ok(Some(self.numbers))
            }
            Err(fault) => {
                complain(&printable(&fault.text));
                self.wait(now)?;
                Ok(None)
            }
        }
    }

    /// The publisher can't be reached: members' requests alone make no connection for a while.
    fn wait(&mut self, now: Instant) -> Result<(), Fault> {
        self.reachable_at = Some(now + self.backoff.wait(Duration::ZERO, random::share()?));
        Ok(())
    }
}
