// SPDX-License-Identifier: Apache-2.0
//! The subscriber's side: one server of the group at a time, on which it asks for objects. When the way
//! to it is dead it goes on from another address, or by another connection, at the same server or the next. When the host has
//! moved, whichever of its servers answers first.

use super::config;
use super::link::{Link, Shift};
use super::race::{Race, Winner};
use crate::names::Name;
use crate::objects::object::lines::{Answer, LineError, Request, Token};
use boring::x509::X509;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_core::backoff::{Backoff, Schedule};
use weir_io::fault::{CONNECT, Fault};
use weir_io::interfaces::Monitor;
use weir_io::tls;

/// An object that is asked for first is answered within this time, or the servers can't be reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A connection is up within this time, or the next server is tried; after each round twice as long.
const TRY_FOR: Duration = Duration::from_secs(2);
const MOST_DOUBLINGS: u32 = 2;
/// Waits before a server that was up is connected to again. A connection that lived for as long as the cap begins them anew.
pub const RECONNECT: Schedule = Schedule { first: Duration::from_millis(250), cap: Duration::from_secs(30) };
/// After so many probe timeouts in a row without an answer a connection is dead. ...
const DEAD_PROBES: usize = 3;
/// ... Where there is no other server to ask it has more time, since another connection there would take the same way: a
/// handshake is several packets, and each that a full link drops costs a second. Five are 31 times the first timeout.
const DEAD_PROBES_ALONE: usize = 5;
/// At the start the next address of a server is tried beside the first after so long (RFC 8305 5).
const START_BESIDE: Duration = Duration::from_millis(250);
/// While the system refuses to send, addresses are looked at so often; and a doubt is looked into no more often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// BoringSSL's code for accepted early data (`ssl_early_data_accepted`).
const ACCEPTED: u32 = 2;

/// A server of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host, as in its certificate.
    pub host: String,
    /// Where it is.
    pub to: SocketAddr,
}

/// Whom to believe.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// Certificates to trust, in place of the system's.
    pub ca: Option<&'a Path>,
    /// Any certificate will do.
    pub insecure: bool,
}

/// A server's answer, or a change of the connection to it.
#[derive(Debug)]
pub enum ClientEvent {
    /// A line, to what was asked for by this number.
    Answer(u64, Answer),
    /// A line that is not understood: what is wrong with it.
    Wrong(u64, LineError),
    /// There is no connection, and this was not answered in time; the request is dropped.
    Unanswered(u64),
    /// There is no connection for now; others are tried.
    Lost(Fault),
    /// There is one again.
    Back(Back),
    /// No server can be reached, and nothing was ever answered that would be worth waiting for; it tries no longer. A
    /// running fetch by name goes on instead, with `Lost`.
    Closed(Fault),
}

/// A connection that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Back {
    /// At which server.
    pub server: SocketAddr,
    /// The same connection goes on from another address.
    pub migrated: bool,
    /// The handshake went on from an earlier one's ticket.
    pub resumed: bool,
    /// The requests travelled with the first packets.
    pub early_data: bool,
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClientCounts {
    /// Connections that were dead.
    pub lost: u64,
    /// Times that a connection went on from another address.
    pub migrated: u64,
    /// Connections after the first.
    pub reconnected: u64,
    /// Of these, with an earlier one's ticket.
    pub resumed: u64,
    /// Of these, whose request travelled with the first packets.
    pub early_data: u64,
}

impl ClientCounts {
    /// This one is up, and not the first.
    fn another(&mut self, link: &Link) -> Back {
        let resumed = link.quic().is_resumed();
        let early_data = resumed && link.quic().early_data_reason() == ACCEPTED;
        self.reconnected += 1;
        self.resumed += u64::from(resumed);
        self.early_data += u64::from(early_data);
        Back { server: link.to(), migrated: false, resumed, early_data }
    }
}

/// State that a later connection may go on from.
struct Ticket {
    session: Vec<u8>,
    certificate: Option<Vec<u8>>,
}

impl Ticket {
    /// Whether the certificate that it was given with is for this host too (RFC 8446 4.6.1).
    fn is_for(&self, host: &str) -> bool {
        let certificate = self.certificate.as_deref().and_then(|der| X509::from_der(der).ok());
        let is = |c: X509| if host.parse::<IpAddr>().is_ok() { c.check_ip_asc(host) } else { c.check_host(host) };
        certificate.is_some_and(|c| is(c).unwrap_or(false))
    }
}

/// A pending request.
struct Want {
    request: Request,
    answered: bool,
    asked: Instant,
}

/// A server answered a request.
fn taken(wants: &mut BTreeMap<u64, Want>, id: u64, answer: Result<Answer, LineError>) -> ClientEvent {
    if let Some(want) = wants.get_mut(&id) {
        want.answered = true;
    }
    match answer {
        Ok(answer) => ClientEvent::Answer(id, answer),
        Err(wrong) => ClientEvent::Wrong(id, wrong),
    }
}

/// The subscriber's side of a group.
pub struct Client {
    servers: Vec<Target>,
    /// The server that is used, or tried.
    at: usize,
    config: quiche::Config,
    insecure: bool,
    monitor: Option<Monitor>,
    link: Option<Link>,
    /// The host has moved, and was not heard since.
    race: Option<Race>,
    ticket: Option<Ticket>,
    member: Token,
    wants: BTreeMap<u64, Want>,
    /// A connection was up, and is.
    first: bool,
    up: bool,
    /// Of the present time without one: how many were tried, until when this one is, and what was wrong with the first.
    tries: u32,
    until: Instant,
    fault: Option<Fault>,
    backoff: Backoff,
    /// When the connection began, whether anything was answered on it, and since when it would be silent if nothing is.
    began: Instant,
    answered: bool,
    quiet_since: Instant,
    refused: u32,
    look: Instant,
    heard: bool,
    closed: bool,
    new_fds: Vec<RawFd>,
    /// Counters so far.
    pub counts: ClientCounts,
}

impl Client {
    /// Begins to connect to the first of these servers.
    ///
    /// # Errors
    /// There is no way to any of them, or the certificates to trust can't be read.
    pub fn connect(servers: Vec<Target>, trust: Trust, now: Instant) -> Result<Client, Fault> {
        let mut config = config(tls::client(trust.ca, "--")?)?;
        config.verify_peer(!trust.insecure);
        config.enable_early_data();
        // Without notices of addresses, only silence shows that the path is dead.
        let monitor = Monitor::new().ok();
        let mut this = Client {
            servers,
            at: 0,
            config,
            insecure: trust.insecure,
            new_fds: monitor.iter().map(Monitor::fd).collect(),
            monitor,
            link: None,
            race: None,
            ticket: None,
            member: weir_io::random::bytes()?,
            wants: BTreeMap::new(),
            first: true,
            up: false,
            tries: 0,
            until: now,
            fault: None,
            backoff: Backoff::new(RECONNECT),
            began: now,
            answered: false,
            quiet_since: now,
            refused: 0,
            look: now,
            heard: false,
            closed: false,
            counts: ClientCounts::default(),
        };
        this.attempt(now)?;
        // Further addresses of the first server are tried beside it; what stands for itself is another server.
        let host = &this.servers[0].host;
        let others: Vec<_> = (1..this.servers.len()).filter(|at| this.servers[*at].host == *host).collect();
        if !others.is_empty() {
            let delay = if this.link.is_some() { START_BESIDE } else { Duration::ZERO };
            this.race = Some(Race::new(others.into_iter(), now + delay));
        }
        match this.fault.take() {
            Some(fault) if this.link.is_none() && this.servers.len() == 1 => Err(fault),
            fault => {
                this.fault = fault;
                Ok(this)
            }
        }
    }

    /// Descriptors that are to be waited for from now on. Those of closed sockets go by themselves.
    pub fn new_fds(&mut self) -> Vec<RawFd> {
        std::mem::take(&mut self.new_fds)
    }

    /// Whether a server was heard since the last call.
    pub fn take_heard(&mut self) -> bool {
        std::mem::replace(&mut self.heard, false)
    }

    /// Whether there is no connection.
    pub fn is_lost(&self) -> bool {
        !self.up
    }

    /// The least round trip of the connection; 0 before there is one.
    pub fn round_trip(&self) -> Duration {
        let active = self.link.as_ref().and_then(|link| link.quic().path_stats().find(|path| path.active));
        active.map_or(Duration::ZERO, |path| path.min_rtt.unwrap_or(path.rtt))
    }

    /// When it next has something to do although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let trying = (!self.up).then_some(self.until);
        let first = self.unanswered().filter(|_| !self.up).map(|asked| asked + CONNECT_WITHIN);
        let look = self.link.as_ref().filter(|l| l.is_refused()).map(|_| self.look);
        let race = self.race.as_ref().and_then(Race::deadline);
        let link = self.link.as_ref().and_then(Link::deadline);
        [link, trying, first, look, race, self.silent_at()].into_iter().flatten().min()
    }

    /// All connections: one, or several while it is open which will go on.
    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.link.iter_mut().chain(self.race.iter_mut().flat_map(Race::links))
    }

    /// When the first was asked for of what was not answered.
    fn unanswered(&self) -> Option<Instant> {
        self.wants.values().filter(|w| !w.answered).map(|w| w.asked).min()
    }

    /// Whether the server completed the handshake and answered nothing that it was asked.
    fn is_silent(&self) -> bool {
        self.up && !self.answered && self.unanswered().is_some()
    }

    /// When other servers are asked beside one that is silent. It is not left: it may be taking an object's hashes.
    fn silent_at(&self) -> Option<Instant> {
        let asked = self.unanswered().filter(|_| self.is_silent() && self.servers.len() > 1 && self.race.is_none())?;
        Some(asked.max(self.quiet_since) + TRY_FOR)
    }

    /// Asks for an object. `id`: a number that it is known by from now on.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn get(&mut self, id: u64, name: &Name, now: Instant) -> Result<(), Fault> {
        self.ask(id, Request { get: name.text().to_owned(), member: None, have: None }, now)
    }

    /// The same in somebody's words, as the member that it says to be.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn ask(&mut self, id: u64, request: Request, now: Instant) -> Result<(), Fault> {
        let request = Request { member: request.member.or(Some(self.member)), ..request };
        for link in self.links() {
            link.ask(id, &request)?;
        }
        self.wants.insert(id, Want { request, answered: false, asked: now });
        Ok(())
    }

    /// Has this version's manifest: on another connection it needs the keys alone.
    pub fn has(&mut self, id: u64, version: &str) {
        if let Some(want) = self.wants.get_mut(&id) {
            want.request.have = Some(version.to_owned());
        }
    }

    /// Is a member no longer.
    pub fn leave(&mut self, id: u64) {
        self.wants.remove(&id);
        self.links().for_each(|link| link.leave(id));
    }

    /// Asks no longer for one who was not heard any more: he may be a member on another connection.
    pub fn forget(&mut self, id: u64) {
        self.wants.remove(&id);
        self.links().for_each(|link| link.forget(id));
    }

    /// Packets by name show that there should have been news: checks whether the path is dead.
    pub fn doubt(&mut self, now: Instant) {
        if let Some(link) = self.link.as_mut().filter(|l| l.is_up() && !l.is_moving())
            && now >= self.look
        {
            self.look = now + LOOK_EVERY;
            link.doubt(now);
        }
    }

    /// Takes in what arrived, sends what waits, and says what happened.
    ///
    /// # Errors
    /// The socket fails.
    pub fn turn(&mut self, now: Instant) -> Result<Vec<ClientEvent>, Fault> {
        let mut events = Vec::new();
        if self.closed {
            return Ok(events);
        }
        let changed = match &mut self.monitor {
            Some(monitor) => monitor.drain().map_err(Fault::io("netlink"))?,
            None => false,
        };
        if self.link.is_some() {
            self.use_link(changed, now, &mut events)?;
        }
        if self.silent_at().is_some_and(|at| at <= now) {
            let others = (1..self.servers.len()).map(|next| (self.at + next) % self.servers.len());
            self.race = Some(Race::new(others, now));
        }
        self.run_race(now, &mut events)?;
        let retry = self.link.is_none() && changed;
        if !self.up && self.unanswered().is_some_and(|asked| now >= asked + CONNECT_WITHIN) {
            let fault = self.link.as_mut().map(Link::failure).or(self.fault.take());
            self.end(fault, &mut events);
        } else if !self.up && (now >= self.until || retry) {
            self.at = (self.at + usize::from(!retry)) % self.servers.len();
            self.tries += 1;
            self.attempt(now)?;
        }
        Ok(events)
    }

    /// Unanswered requests are given up, and all of them if nothing was answered.
    fn end(&mut self, fault: Option<Fault>, events: &mut Vec<ClientEvent>) {
        if self.wants.values().any(|w| w.answered) {
            let unanswered: Vec<_> = self.wants.iter().filter(|(_, w)| !w.answered).map(|(id, _)| *id).collect();
            for id in unanswered {
                self.leave(id);
                events.push(ClientEvent::Unanswered(id));
            }
            return;
        }
        self.closed = true;
        self.link = None;
        events.push(ClientEvent::Closed(fault.unwrap_or_else(|| Fault::new(CONNECT, "no server answers"))));
    }

    fn use_link(&mut self, changed: bool, now: Instant, events: &mut Vec<ClientEvent>) -> Result<(), Fault> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let (was_moving, before) = (link.is_moving(), events.len());
        let mut take = |id, answer| events.push(taken(&mut self.wants, id, answer));
        link.turn(now, &mut take)?;
        let mut stuck = false;
        if changed || (link.is_refused() && now >= self.look) {
            self.look = now + LOOK_EVERY;
            match link.shift(now) {
                Shift::Same => {}
                Shift::Stuck => stuck = true,
                Shift::Moved => {
                    self.new_fds.push(link.fd());
                    link.turn(now, &mut take)?;
                    let others = (0..self.servers.len()).filter(|at| *at != self.at);
                    self.race = Some(Race::new(others, now));
                }
            }
        }
        self.heard |= link.take_heard();
        self.answered |= events.len() > before;
        if link.is_up() && !self.up {
            self.quiet_since = now;
            (self.up, self.tries, self.refused, self.fault) = (true, 0, 0, None);
            if !std::mem::replace(&mut self.first, false) {
                events.push(ClientEvent::Back(self.counts.another(link)));
            }
        }
        if self.up && was_moving && !link.is_moving() {
            self.counts.migrated += 1;
            let back = Back { server: link.to(), migrated: true, resumed: false, early_data: false };
            events.push(ClientEvent::Back(back));
        }
        let probes = if self.servers.len() > 1 { DEAD_PROBES } else { DEAD_PROBES_ALONE };
        if link.is_dead(now, probes) || stuck {
            self.lose(stuck || was_moving, now, events)?;
        }
        Ok(())
    }

    /// Other servers beside the one that learns the new address, until one of them answers.
    fn run_race(&mut self, now: Instant, events: &mut Vec<ClientEvent>) -> Result<(), Fault> {
        let Some(mut race) = self.race.take() else { return Ok(()) };
        let starts = self.first;
        if !starts && !self.link.as_ref().is_some_and(Link::is_moving) && !self.is_silent() {
            return Ok(());
        }
        if let Some(at) = race.due(now) {
            self.keep_ticket();
            if let Ok(link) = self.open(at, now)? {
                self.new_fds.push(race.add(at, link));
            }
        }
        let Some(Winner { at, link, said }) = race.turn(!self.wants.is_empty(), now)? else {
            if race.deadline().is_some() {
                self.race = Some(race);
            } else {
                self.quiet_since = now + self.backoff.wait(Duration::ZERO, weir_io::random::share()?);
            }
            return Ok(());
        };
        (self.at, self.heard, self.began, self.answered) = (at, true, now, !said.is_empty());
        if !starts {
            events.push(ClientEvent::Back(self.counts.another(&link)));
        }
        events.extend(said.into_iter().map(|(id, answer)| taken(&mut self.wants, id, answer)));
        if let Some(mut earlier) = self.link.replace(link) {
            // It is a member here: there it has not left, but falls silent.
            self.wants.keys().for_each(|id| earlier.forget(*id));
            earlier.turn(now, &mut |_, _| ())?;
        }
        Ok(())
    }

    /// Keeps the state that a later connection may go on from.
    fn keep_ticket(&mut self) {
        let Some(link) = &mut self.link else { return };
        if let Some(session) = link.quic().session() {
            let kept = self.ticket.take().and_then(|t| t.certificate);
            let certificate = link.quic().peer_cert().map(<[u8]>::to_vec).or(kept);
            self.ticket = Some(Ticket { session: session.to_vec(), certificate });
        }
    }

    /// The connection is dead, or was never up. `moved`: the host is elsewhere, and the server probably where it was.
    fn lose(&mut self, moved: bool, now: Instant, events: &mut Vec<ClientEvent>) -> Result<(), Fault> {
        self.keep_ticket();
        let Some(mut link) = self.link.take() else { return Ok(()) };
        let fault = link.failure();
        if !self.up {
            // Refused in the handshake. When all servers did so, it is of no use to go on asking them.
            self.refused += u32::from(link.quic().is_closed() || link.quic().is_draining());
            let all = self.refused as usize >= self.servers.len();
            self.fault.get_or_insert(fault);
            if self.unanswered().is_some() && all {
                let fault = self.fault.take();
                self.end(fault, events);
            } else if !all || moved {
                self.until = now + if moved { self.wait(now)? } else { Duration::ZERO };
            }
            return Ok(());
        }
        (self.up, self.answered) = (false, false);
        self.counts.lost += 1;
        // A server that closes soon after it was asked does not put the end of the asking off.
        if now.saturating_duration_since(self.began) >= RECONNECT.cap {
            self.wants.values_mut().for_each(|want| want.asked = now);
        }
        let wait = self.wait(now)?;
        events.push(ClientEvent::Lost(fault));
        self.tries = 0;
        if let Some((at, link)) = self.race.take().and_then(Race::first) {
            (self.at, self.link, self.until, self.began) = (at, Some(link), now + TRY_FOR, now);
            return Ok(());
        }
        if !wait.is_zero() {
            self.until = now + wait;
            return Ok(());
        }
        if !moved {
            self.at = (self.at + 1) % self.servers.len();
        }
        self.attempt(now)
    }

    /// Wait before the next connection.
    fn wait(&mut self, now: Instant) -> Result<Duration, Fault> {
        Ok(self.backoff.wait(now.saturating_duration_since(self.began), weir_io::random::share()?))
    }

    /// Begins a connection to the server whose turn it is.
    fn attempt(&mut self, now: Instant) -> Result<(), Fault> {
        // A handshake that is broken off is begun again from its first packet: only for another server's sake.
        let alone = self.servers.len() == 1;
        let round = if alone { MOST_DOUBLINGS } else { self.tries / self.servers.len() as u32 };
        self.until = now + TRY_FOR * (1 << round.min(MOST_DOUBLINGS));
        self.began = now;
        match self.open(self.at, now)? {
            Ok(link) => {
                self.new_fds.push(link.fd());
                self.link = Some(link);
            }
            Err(fault) => {
                // Nothing was begun that another attempt would break off.
                (self.link, self.until) = (None, now + TRY_FOR);
                self.fault.get_or_insert(fault);
            }
        }
        Ok(())
    }

    /// Begins a connection to a server, and asks there for all that is wanted. Within: there is no way there.
    fn open(&mut self, at: usize, now: Instant) -> Result<Result<Link, Fault>, Fault> {
        let target = &self.servers[at];
        let address: Option<IpAddr> = target.host.parse().ok();
        let name = if address.is_some() { None } else { Some(target.host.as_str()) };
        let ticket = self.ticket.as_ref().filter(|t| self.insecure || t.is_for(&target.host));
        let session = ticket.map(|t| &t.session[..]);
        let mut link = match Link::open(target.to, name, session, &mut self.config, now) {
            Ok(link) => link,
            Err(fault) => return Ok(Err(fault)),
        };
        if let Some(ip) = address.filter(|_| !self.insecure) {
            tls::expect_address(link.tls(), ip)?;
        }
        for (id, want) in &self.wants {
            link.ask(*id, &want.request)?;
        }
        // Its first packets leave now: what is asked for can travel with them.
        for _ in 0..2 {
            link.turn(now, &mut |_, _| ())?;
        }
        Ok(Ok(link))
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        if let Some(link) = &mut self.link {
            link.close();
        }
    }
}
