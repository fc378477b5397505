// SPDX-License-Identifier: Apache-2.0
//! One wait per iteration for the interface, the group channel, standard input and signals.

use super::Options;
use super::directory::{Directory, Opened, Stamp};
use super::hashing::{Done, Hashing};
use super::live::{Input, Part};
use super::members::Members;
use crate::commands::group::{Leave, MemberId, Server, ServerEvent};
use crate::commands::options::{complain, face, receive, to_json, unix_s};
use crate::face::{Face, PacketSocket};
use crate::names::Name;
use crate::objects::object::lines::{Answer, Request};
use crate::objects::object::manifest::hex;
use crate::objects::publisher::{Index, ObjectId, Packet, Publisher};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};
use weir_io::fault::Fault;
use weir_io::tls;
use weir_io::wait::{Signals, Waiter};

const FACE: u64 = 0;
const GROUP: u64 = 1;
const SIGNAL: u64 = 2;
const INPUT: u64 = 3;

/// After its end a live stream is there for so long, for those who are behind.
const AFTER_THE_END: Duration = Duration::from_secs(10);

struct Loop {
    face: PacketSocket,
    group: Server,
    publisher: Publisher,
    directory: Option<Directory>,
    live: Option<(ObjectId, Input)>,
    /// A live stream's name and history.
    offer: (Name, u64),
    /// Live streams that went on as others, and until when they are there.
    old: Vec<(ObjectId, Instant)>,
    ends: Option<Instant>,
    hashing: Hashing<Opened>,
    stamps: BTreeMap<Name, (ObjectId, Stamp)>,
    members: Members,
    out: Vec<Packet>,
}

/// Runs until a signal or the end of a live stream ends it.
///
/// # Errors
/// An option or file can't be used.
pub fn run(options: &Options) -> Result<u8, Fault> {
    let directory = match &options.directory {
        Some(root) => {
            let open = Directory::open(root, options.name.clone());
            Some(open.map_err(Fault::io(format!("folder {}", root.display())))?)
        }
        None => None,
    };
    let signer = options.signer()?;
    let public = hex(&signer.public());
    let identity = options.serving.identity()?;
    let face = face(&options.interface)?;
    let group = Server::open(options.serving.listen, options.serving.tickets()?, || tls::server(&identity))?;
    let draw = || {
        let mut bytes = [0; 32];
        boring::rand::rand_bytes(&mut bytes).map(|()| bytes)
    };
    let mut publisher = Publisher::new(options.name.clone(), signer, options.memory, options.broadcast, draw, unix_s);
    if options.repair {
        publisher = publisher.with_repair();
    }
    let signals = Signals::catch().map_err(Fault::io("signals"))?;
    let mut waiter = Waiter::new().map_err(Fault::io("epoll"))?;
    for (fd, token) in [(face.fd(), FACE), (group.fd(), GROUP), (signals.fd(), SIGNAL)] {
        waiter.add(fd, token).map_err(Fault::io("epoll"))?;
    }
    let live = match options.live {
        true => {
            let id = offered(&mut publisher, &(options.name.clone(), options.history), Instant::now())?;
            let input = Input::open().map_err(Fault::io("standard input"))?;
            waiter.add(input.fd(), INPUT).map_err(Fault::io("epoll"))?;
            Some((id, input))
        }
        false => None,
    };
    let mut out = std::io::stdout();
    writeln!(out, "listening {}\npublisher {public}", group.local())
        .and_then(|()| out.flush())
        .map_err(Fault::io("standard output"))?;
    let mut this = Loop {
        face,
        group,
        publisher,
        directory,
        offer: (options.name.clone(), options.history),
        old: Vec::new(),
        live,
        ends: None,
        hashing: Hashing::default(),
        stamps: BTreeMap::new(),
        members: Members::default(),
        out: Vec::new(),
    };
    let mut ready = Vec::new();
    loop {
        waiter.wait(Instant::now(), this.deadline(), &mut ready).map_err(Fault::io("epoll"))?;
        let now = Instant::now();
        let stop = ready.contains(&SIGNAL) && signals.take().is_some();
        if ready.contains(&INPUT) && this.input(now)? {
            let (_, input) = this.live.as_ref().ok_or_else(|| Fault::new(1, "no input"))?;
            waiter.remove(input.fd()).map_err(Fault::io("epoll"))?;
            this.ends = Some(now + AFTER_THE_END);
        }
        this.turn(now)?;
        if stop || this.ends.is_some_and(|end| end <= now) {
            this.group.close();
            writeln!(out, "{}", this.report()?).map_err(Fault::io("standard output"))?;
            return Ok(0);
        }
    }
}

/// Offers a live stream of this name and history.
fn offered(publisher: &mut Publisher, (name, history): &(Name, u64), now: Instant) -> Result<ObjectId, Fault> {
    let id = publisher.offer_live(name, *history, now);
    id.map_err(|e| Fault::new(weir_io::fault::USAGE, format!("--name {name}: {e}")))
}

/// Ends a live stream, and offers it anew.
fn renewed(
    publisher: &mut Publisher,
    id: ObjectId,
    offer: &(Name, u64),
    now: Instant,
    out: &mut Vec<Packet>,
) -> Result<ObjectId, Fault> {
    publisher.flush(id, now, true, out).map_err(Fault::internal("TLS library"))?;
    complain(&format!("{}: its numbers or keys are used up: it goes on as another stream", offer.0));
    offered(publisher, offer, now)
}

impl Loop {
    fn deadline(&self) -> Option<Instant> {
        let now = (!self.hashing.is_empty()).then(Instant::now);
        let flush = self.live.as_ref().and_then(|(id, _)| self.publisher.next_flush(*id));
        let old = self.old.first().map(|(_, until)| *until);
        [self.group.deadline(), self.publisher.next_rekey(), flush, self.ends, now, old].into_iter().flatten().min()
    }

    fn turn(&mut self, now: Instant) -> Result<(), Fault> {
        let (publisher, out) = (&mut self.publisher, &mut self.out);
        receive(&mut self.face, |header, _| publisher.interest(header, now, out))?;
        if let Some((id, _)) = &self.live {
            publisher.flush(*id, now, false, out).map_err(Fault::internal("TLS library"))?;
        }
        while let Some((id, _)) = self.old.first().filter(|(_, until)| *until <= now) {
            publisher.withdraw(*id);
            self.old.remove(0);
        }
        for (header, payload) in out.drain(..) {
            self.face.push(&header, &payload);
        }
        self.face.flush();
        self.hash(now)?;
        self.group.receive(now)?;
        for event in self.group.turn(now)? {
            match event {
                ServerEvent::Get(member, name, request) => self.get(member, &name, request, now)?,
                ServerEvent::Left(member, how) => self.left(member, how),
            }
        }
        for (id, answer) in self.publisher.rekey(now).map_err(Fault::internal("TLS library"))? {
            for member in self.members.of(id) {
                self.group.tell(member, &answer)?;
            }
        }
        // Messages of this iteration leave with it.
        for event in self.group.turn(now)? {
            match event {
                ServerEvent::Get(member, name, request) => self.get(member, &name, request, now)?,
                ServerEvent::Left(member, how) => self.left(member, how),
            }
        }
        Ok(())
    }

    /// A member's stream is over.
    fn left(&mut self, member: MemberId, how: Leave) {
        self.hashing.leave(member);
        if let Some(id) = self.members.end(member, how) {
            self.publisher.leave(id);
        }
    }

    /// Nothing comes of what a stream asked for: it holds no place any longer.
    fn refuse(&mut self, member: MemberId, why: String) -> Result<(), Fault> {
        self.left(member, Leave::Silent);
        self.group.tell(member, &Answer::Error(why))
    }

    /// Takes in what came on standard input. Whether that was the end.
    fn input(&mut self, now: Instant) -> Result<bool, Fault> {
        let Some((id, input)) = &mut self.live else { return Ok(false) };
        let mut buffer = [0; 1 << 14];
        let tls = "TLS library";
        match input.read(&mut buffer).map_err(Fault::io("standard input"))? {
            Part::Bytes(n) => {
                let mut rest = &buffer[..n];
                while !rest.is_empty() {
                    if self.publisher.is_used_up(*id) {
                        self.old.push((*id, now + AFTER_THE_END));
                        *id = renewed(&mut self.publisher, *id, &self.offer, now, &mut self.out)?;
                    }
                    let taken = self.publisher.push(*id, rest, now, &mut self.out).map_err(Fault::internal(tls))?;
                    rest = &rest[taken..];
                }
                Ok(false)
            }
            Part::Nothing => Ok(false),
            Part::End => {
                self.publisher.flush(*id, now, true, &mut self.out).map_err(Fault::internal(tls))?;
                Ok(true)
            }
        }
    }

    /// Someone asks for an object.
    fn get(&mut self, member: MemberId, name: &Name, request: Request, now: Instant) -> Result<(), Fault> {
        let Some(source) = self.group.source(member) else { return Ok(()) };
        match self.members.enter(member, source, self.publisher.find(name), request.member) {
            Ok(None) => {}
            Ok(Some(earlier)) => {
                self.group.tell(earlier, &Answer::Error("you ask on another connection now".to_owned()))?;
            }
            Err(full) => return self.group.tell(member, &Answer::Error(full.to_string())),
        }
        if let Some((id, _)) = &mut self.live {
            // Nobody had anything to say for so long that its keys were used up.
            if self.ends.is_none() && self.publisher.is_used_up(*id) {
                self.old.push((*id, now + AFTER_THE_END));
                *id = renewed(&mut self.publisher, *id, &self.offer, now, &mut self.out)?;
            }
            let id = *id;
            return match *name == self.offer.0 {
                true => self.join(member, id, &request, now),
                false => self.refuse(member, format!("{name}: there is no such object")),
            };
        }
        let Some(directory) = &self.directory else { return Ok(()) };
        let (file, stamp) = match directory.find(name) {
            Ok(found) => found,
            Err(why) => return self.refuse(member, why),
        };
        let more = self.hashing.files_of(source);
        if self.members.has_its_objects(source, self.publisher.find(name), more) {
            let why = "your address has as many files in use as the publisher gives to one: end some first";
            return self.refuse(member, why.to_owned());
        }
        if let Some((id, offered)) = self.stamps.get(name)
            && *offered == stamp
            && self.publisher.find(name) == Some(*id)
        {
            return self.join(member, *id, &request, now);
        }
        let Some(request) = self.hashing.join(name, member, source, request) else { return Ok(()) };
        let busy = || "the publisher is busy: try again later".to_owned();
        let Some(gave_way) = self.hashing.make_place(source) else { return self.refuse(member, busy()) };
        for other in gave_way {
            self.refuse(other, busy())?;
        }
        match Index::new(stamp.bytes()) {
            Some(index) => {
                self.hashing.begin(name.clone(), index, (file, stamp), (member, source, request));
                Ok(())
            }
            None => self.refuse(member, format!("{name}: the file is too large")),
        }
    }

    fn join(&mut self, member: MemberId, id: ObjectId, request: &Request, now: Instant) -> Result<(), Fault> {
        let since = self.members.since(id, request.member);
        if since.is_none() {
            self.publisher.enter(id);
        }
        let Some(answer) = self.publisher.tell(id, request.have.as_deref(), since, now) else {
            return self.refuse(member, "it was just taken back: ask again".to_owned());
        };
        let first = match &answer {
            Answer::Welcome { keys, .. } | Answer::Begin { keys, .. } | Answer::Keys(keys) => {
                keys.first().map_or(0, |k| k.epoch)
            }
            Answer::Error(_) => 0,
        };
        self.members.add(member, id, request.member, since.unwrap_or(first));
        self.group.tell(member, &answer)
    }

    /// Takes hashes of files for a while.
    fn hash(&mut self, now: Instant) -> Result<(), Fault> {
        let Some(Done { name, content, stamp, waiting, hashes }) = self.hashing.step() else { return Ok(()) };
        let why = match hashes {
            Ok(hashes) => match self.publisher.offer(&name, hashes, Box::new(content), now) {
                Ok(id) => {
                    self.stamps.insert(name, (id, stamp));
                    for (member, request) in waiting {
                        self.join(member, id, &request, now)?;
                    }
                    return Ok(());
                }
                Err(e) => e.to_string(),
            },
            Err(e) => {
                complain(&format!("{name}: {e}"));
                "the file can't be read".to_owned()
            }
        };
        for (member, _) in waiting {
            self.refuse(member, format!("{name}: {why}"))?;
        }
        Ok(())
    }

    fn report(&self) -> Result<String, Fault> {
        to_json(&serde_json::json!({
            "members": self.members.count(),
            "connections": self.group.connections(),
            "group": self.group.counts,
            "publisher": self.publisher.counts,
            "face": self.face.counts(),
        }))
    }
}
