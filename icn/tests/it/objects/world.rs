// SPDX-License-Identifier: Apache-2.0
//! A publisher, a link with a queue, and what is behind it: a switch that merges Interests, or a segment where each
//! packet reaches all; then subscribers who lose packets each on its own. All in simulated time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::{Duration, Instant};
use weir_icn::names::Name;
use weir_icn::objects::cache::Cache;
use weir_icn::objects::object::lines::Answer;
use weir_icn::objects::object::manifest::Manifest;
use weir_icn::objects::object::sign::{Purpose, SigningKey, is_signed};
use weir_icn::objects::publisher::{Content, Index, ObjectId, Publisher};
use weir_icn::objects::subscriber::{Fetch, Outcome, Segments, Settings, Store};
use weir_icn::packet::{HEADER_BYTES, Header, Kind, flags, time_of};

/// Bytes that a packet has on a link besides its payload: Ethernet's header, and ours.
const OVERHEAD_BYTES: u64 = 14 + HEADER_BYTES as u64;

pub struct Memory {
    pub bytes: Vec<u8>,
}

impl Content for Memory {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
        Ok(())
    }
}

/// Output of a subscriber: at places, or one behind the other.
pub struct Disk {
    pub bytes: Vec<u8>,
    pub ordered: bool,
    pub room: usize,
}

impl Store for Disk {
    fn write(&mut self, segment: u32, content: &[u8]) -> Result<(), String> {
        let at = if self.ordered { self.bytes.len() } else { segment as usize * 1440 };
        if at + content.len() > self.room {
            return Err("no space left on device".to_owned());
        }
        if self.bytes.len() < at + content.len() {
            self.bytes.resize(at + content.len(), 0);
        }
        self.bytes[at..at + content.len()].copy_from_slice(content);
        Ok(())
    }

    fn read(&mut self, segment: u32, bytes: usize) -> Option<Vec<u8>> {
        Some(self.bytes.get(segment as usize * 1440..)?.get(..bytes)?.to_vec())
    }
}

/// A subscriber's attachment, and its request.
#[derive(Clone)]
pub struct Member {
    pub starts: Duration,
    pub leaves: Option<Duration>,
    pub loss: f64,
    /// Bits a second from the switch to it.
    pub rate: f64,
    pub ordered: bool,
    pub room: usize,
    pub partial: Option<(Segments, Vec<u8>)>,
    /// Delay of its new keys against others'.
    pub keys_late: Duration,
}

impl Default for Member {
    fn default() -> Self {
        Member {
            starts: Duration::ZERO,
            leaves: None,
            loss: 0.0,
            rate: 1e9,
            ordered: false,
            room: usize::MAX,
            partial: None,
            keys_late: Duration::ZERO,
        }
    }
}

pub struct Subscriber {
    pub member: Member,
    pub fetch: Option<Fetch>,
    pub disk: Disk,
    pub done: Option<Duration>,
    pub manifest: Option<Manifest>,
    free_at: u64,
    timer: u64,
}

/// The network.
pub struct Setup {
    /// Bits a second from the publisher to the switch.
    pub rate: f64,
    /// One way, from the publisher to the switch; and from there to each subscriber.
    pub delays: (Duration, Duration),
    /// The publisher's queue: bytes it holds, and bytes above which it marks.
    pub buffer: u64,
    pub mark_above: u64,
    pub broadcast: bool,
    pub cache_bytes: u64,
    /// The publisher has repair symbols.
    pub repair: bool,
    pub beta: f64,
    /// A gap shows a loss, and not the timer alone.
    pub gaps: bool,
    /// When the publisher's link begins to stand still, how long it does, and how often.
    pub stalls: Option<(Duration, Duration, Duration)>,
    pub seed: u64,
    /// Until when the publisher answers.
    pub vanishes: Option<Duration>,
    /// Of all Data, this share is met by a forged one before it.
    pub forged: f64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            rate: 20e6,
            delays: (Duration::from_millis(5), Duration::from_millis(5)),
            buffer: 250_000,
            mark_above: 37_500,
            broadcast: false,
            cache_bytes: 0,
            repair: false,
            beta: 8.0,
            gaps: true,
            stalls: None,
            seed: 1,
            vanishes: None,
            forged: 0.0,
        }
    }
}

enum Event {
    /// At the switch, from a subscriber.
    Up(usize, Header),
    /// At the publisher.
    Asked(Header),
    /// At the switch, from the publisher.
    Down(Header, Vec<u8>),
    /// At a subscriber.
    Arrived(usize, Header, Vec<u8>),
    /// At a subscriber, another's Interest.
    Overheard(usize, Header),
    /// At a subscriber, over QUIC.
    Told(usize, Answer),
    Start(usize),
    Leave(usize),
    Timer(usize, u64),
    Rekey,
    Live,
    Cache,
}

struct Pending {
    ports: Vec<usize>,
    forwarded: u64,
    lifetime: u64,
}

pub struct World {
    pub setup: Setup,
    start: Instant,
    pub now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    queue: HashMap<u64, Event>,
    count: u64,
    random: fastrand::Rng,
    pub publisher: Publisher,
    pub object: ObjectId,
    key: [u8; 32],
    pub subscribers: Vec<Subscriber>,
    pit: HashMap<(u64, u32), Pending>,
    cache: Cache,
    free_at: u64,
    pub sent_bytes: u64,
    pub sent_data: u64,
    /// Packets seen on the wire: for replays.
    seen: Vec<(Header, Vec<u8>)>,
    /// Bytes of a live stream that are still to come, and how many every 10 ms.
    pub live: Vec<u8>,
    pub live_bytes: usize,
}

fn ns(d: Duration) -> u64 {
    d.as_nanos() as u64
}

pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

fn publisher(seed: u64, broadcast: bool) -> (Publisher, [u8; 32]) {
    let key = SigningKey::generate().unwrap();
    let public = key.public();
    let mut random = fastrand::Rng::with_seed(seed);
    let draw = move || {
        let mut secret = [0; 32];
        random.fill(&mut secret);
        Ok(secret)
    };
    (Publisher::new(Name::new("/weir/files").unwrap(), key, 1 << 20, broadcast, draw, || 1), public)
}

pub fn name() -> Name {
    Name::new("/weir/files/film").unwrap()
}

impl World {
    /// A publisher of these bytes.
    pub fn file(content: &[u8], setup: Setup, members: Vec<Member>) -> World {
        let mut world = World::empty(setup, members);
        let memory = Memory { bytes: content.to_vec() };
        let mut index = Index::new(content.len() as u64).unwrap();
        while !index.step(&memory, 100).unwrap() {}
        world.object = world.publisher.offer(&name(), index.finish(), Box::new(memory), world.start).unwrap();
        world
    }

    /// A publisher of a stream of these bytes, so many every 10 ms.
    pub fn live(content: &[u8], each: usize, setup: Setup, members: Vec<Member>) -> World {
        let mut world = World::empty(setup, members);
        world.object = world.publisher.offer_live(&name(), 1 << 20, world.start).unwrap();
        (world.live, world.live_bytes) = (content.to_vec(), each);
        world.at(0, Event::Live);
        world
    }

    fn empty(setup: Setup, members: Vec<Member>) -> World {
        let (mut publisher, key) = publisher(setup.seed, setup.broadcast);
        if setup.repair {
            publisher = publisher.with_repair();
        }
        let mut world = World {
            start: Instant::now(),
            now: 0,
            events: BinaryHeap::new(),
            queue: HashMap::new(),
            count: 0,
            random: fastrand::Rng::with_seed(setup.seed),
            publisher,
            object: 0,
            key,
            subscribers: Vec::new(),
            pit: HashMap::new(),
            cache: Cache::new(setup.cache_bytes),
            free_at: 0,
            sent_bytes: 0,
            sent_data: 0,
            seen: Vec::new(),
            live: Vec::new(),
            live_bytes: 0,
            setup,
        };
        for (i, member) in members.into_iter().enumerate() {
            world.at(ns(member.starts), Event::Start(i));
            if let Some(leaves) = member.leaves {
                world.at(ns(leaves), Event::Leave(i));
            }
            let bytes = member.partial.as_ref().map_or_else(Vec::new, |(_, bytes)| bytes.clone());
            let disk = Disk { bytes, ordered: member.ordered, room: member.room };
            let subscriber = Subscriber { member, fetch: None, disk, done: None, manifest: None, free_at: 0, timer: 0 };
            world.subscribers.push(subscriber);
        }
        world
    }

    fn at(&mut self, when: u64, event: Event) {
        self.count += 1;
        self.queue.insert(self.count, event);
        self.events.push(Reverse((when.max(self.now), self.count)));
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.now)
    }

    /// Runs until all subscribers are done, or for `most`.
    pub fn run(&mut self, most: Duration) {
        while let Some(Reverse((when, id))) = self.events.pop() {
            self.now = when;
            if when > ns(most) {
                return;
            }
            let event = self.queue.remove(&id).unwrap();
            self.event(event);
            if self.subscribers.iter().all(|s| s.done.is_some() || s.member.leaves.is_some_and(|l| ns(l) <= when)) {
                return;
            }
        }
    }

    fn event(&mut self, event: Event) {
        let (near, far) = (ns(self.setup.delays.1), ns(self.setup.delays.0));
        match event {
            Event::Start(i) => {
                let now = self.instant();
                let answer = self.publisher.join(self.object, now).unwrap();
                self.at(self.now + near + far, Event::Told(i, answer));
            }
            Event::Leave(i) => {
                if self.subscribers[i].done.is_none() {
                    self.leave(i);
                }
            }
            Event::Told(i, answer) => self.told(i, answer),
            Event::Up(i, header) => self.switch_interest(i, &header),
            Event::Asked(header) => {
                if self.setup.vanishes.is_none_or(|t| self.now < ns(t)) {
                    let (now, mut out) = (self.instant(), Vec::new());
                    self.publisher.interest(&header, now, &mut out);
                    self.send(out);
                }
            }
            Event::Down(header, payload) => self.switch_down(&header, &payload),
            Event::Arrived(i, header, payload) => self.arrived(i, &header, &payload),
            Event::Overheard(i, header) => {
                let now = self.instant();
                if let Some(fetch) = &mut self.subscribers[i].fetch {
                    fetch.overheard(&header, now);
                }
            }
            Event::Timer(i, timer) => {
                if self.subscribers[i].timer == timer {
                    self.poll(i);
                }
            }
            Event::Rekey => self.rekey(),
            Event::Cache => {
                let (now, mut out) = (self.instant(), Vec::new());
                self.cache.turn(now, |h, _| out.push(*h));
                out.into_iter().for_each(|h| self.at(self.now + far, Event::Asked(h)));
            }
            Event::Live => {
                let (now, mut out) = (self.instant(), Vec::new());
                let n = self.live_bytes.min(self.live.len());
                let part: Vec<u8> = self.live.drain(..n).collect();
                self.publisher.push(self.object, &part, now, &mut out).unwrap();
                let end = self.live.is_empty();
                self.publisher.flush(self.object, now, end, &mut out).unwrap();
                self.send(out);
                if !end {
                    self.at(self.now + 10_000_000, Event::Live);
                }
            }
        }
    }

    pub fn leave(&mut self, i: usize) {
        self.subscribers[i].member.leaves.get_or_insert(Duration::from_nanos(self.now));
        self.publisher.leave(self.object);
        if let Some(at) = self.publisher.next_rekey() {
            let when = at.saturating_duration_since(self.start);
            self.at(ns(when), Event::Rekey);
        }
    }

    fn rekey(&mut self) {
        let now = self.instant();
        let delay = ns(self.setup.delays.0 + self.setup.delays.1);
        for (_, answer) in self.publisher.rekey(now).unwrap() {
            for i in 0..self.subscribers.len() {
                let s = &self.subscribers[i];
                let left = s.member.leaves.is_some_and(|l| ns(l) <= self.now);
                if s.fetch.is_some() && !left {
                    let late = ns(s.member.keys_late);
                    self.at(self.now + delay + late, Event::Told(i, answer.clone()));
                }
            }
        }
    }

    fn told(&mut self, i: usize, answer: Answer) {
        let now = self.instant();
        // Through its text, as over QUIC.
        let answer = Answer::parse(answer.line().unwrap().trim_end().as_bytes()).unwrap();
        let s = &mut self.subscribers[i];
        let keys = match answer {
            Answer::Welcome { manifest, signature, begin, keys } => {
                assert!(is_signed(&self.key, Purpose::Manifest, manifest.as_bytes(), &signature));
                let manifest = Manifest::parse(&manifest).unwrap();
                let settings = Settings {
                    beta: self.setup.beta,
                    gaps: self.setup.gaps,
                    ordered: s.member.ordered,
                    repair: true,
                    give_up: Duration::from_secs(10),
                    round_trip: (self.setup.delays.0 + self.setup.delays.1) * 2,
                    seed: self.setup.seed << 32 | i as u64,
                };
                let claimed = s.member.partial.as_ref().map_or_else(Segments::default, |(have, _)| have.clone());
                s.fetch = Some(Fetch::new(&manifest, settings, begin, claimed, now).unwrap());
                s.disk.ordered |= manifest.layout.is_none();
                s.manifest = Some(manifest);
                keys
            }
            Answer::Keys(keys) | Answer::Begin { keys, .. } => keys,
            Answer::Error(why) => panic!("{why}"),
        };
        s.fetch.as_mut().unwrap().keys(&keys, now, &mut s.disk).unwrap();
        self.poll(i);
    }

    /// Lets a subscriber act, and sets its timer.
    fn poll(&mut self, i: usize) {
        let now = self.instant();
        let s = &mut self.subscribers[i];
        let Some(fetch) = &mut s.fetch else { return };
        let mut out = Vec::new();
        let acts = s.member.leaves.is_none_or(|l| ns(l) > self.now);
        if acts {
            fetch.poll(now, &mut s.disk, &mut out);
        }
        if fetch.outcome().is_some() && s.done.is_none() {
            s.done = Some(Duration::from_nanos(self.now));
            self.leave(i);
        }
        let s = &mut self.subscribers[i];
        s.timer += 1;
        let (timer, deadline) = (s.timer, s.fetch.as_ref().filter(|_| acts).and_then(Fetch::deadline));
        let near = ns(self.setup.delays.1);
        for header in out {
            if self.setup.broadcast {
                for j in (0..self.subscribers.len()).filter(|j| *j != i) {
                    self.at(self.now + 2 * near, Event::Overheard(j, header));
                }
            }
            self.at(self.now + near, Event::Up(i, header));
        }
        if let Some(deadline) = deadline {
            let when = ns(deadline.saturating_duration_since(self.start)).max(self.now + 1000);
            self.at(when, Event::Timer(i, timer));
        }
    }

    fn switch_interest(&mut self, i: usize, header: &Header) {
        let far = ns(self.setup.delays.0);
        if self.setup.broadcast {
            self.at(self.now + far, Event::Asked(*header));
            return;
        }
        for segment in header.segments() {
            let one = Header { segment, holes: 0, ..*header };
            let lifetime = ns(time_of(header.lifetime)).max(1_000_000);
            let now = self.now;
            let entry = self.pit.entry((header.name, segment)).or_insert_with(|| Pending {
                ports: Vec::new(),
                forwarded: 0,
                lifetime: 0,
            });
            if entry.forwarded + 2 * entry.lifetime < now {
                entry.ports.clear();
            }
            let live = !entry.ports.is_empty();
            if !entry.ports.contains(&i) {
                entry.ports.push(i);
            }
            if live && now < entry.forwarded + lifetime {
                entry.lifetime = entry.lifetime.max(lifetime);
                continue;
            }
            (entry.forwarded, entry.lifetime) = (now, lifetime);
            let (instant, mut answers) = (self.instant(), Vec::new());
            if self.setup.cache_bytes > 0 {
                self.cache.interest(&one, instant, |h, p| answers.push((*h, p.to_vec())));
                if let Some(at) = self.cache.deadline() {
                    self.at(ns(at.saturating_duration_since(self.start)), Event::Cache);
                }
            } else {
                answers.push((one, Vec::new()));
            }
            for (header, payload) in answers {
                match header.kind {
                    Kind::Interest => self.at(self.now + far, Event::Asked(header)),
                    _ => self.at(self.now, Event::Down(header, payload)),
                }
            }
        }
    }

    /// The publisher's link: what has no room is dropped, what waits behind much is marked.
    fn send(&mut self, out: Vec<(Header, Vec<u8>)>) {
        for (mut header, payload) in out {
            let size = payload.len() as u64 + OVERHEAD_BYTES;
            let busy = self.carried(self.free_at).saturating_sub(self.carried(self.now));
            let waiting = (busy as f64 * self.setup.rate / 8e9) as u64;
            self.sent_bytes += size;
            self.sent_data += u64::from(header.kind == Kind::Data);
            if waiting + size > self.setup.buffer {
                continue;
            }
            if waiting > self.setup.mark_above && header.has(flags::ECT) {
                header.flags |= flags::CE;
            }
            self.free_at = self.goes_on(self.free_at.max(self.now)) + (size as f64 * 8e9 / self.setup.rate) as u64;
            self.at(self.free_at + ns(self.setup.delays.0), Event::Down(header, payload));
        }
    }

    /// For how long the publisher's link has not stood still until then.
    fn carried(&self, until: u64) -> u64 {
        let Some((first, long, every)) = self.setup.stalls else { return until };
        let Some(since) = until.checked_sub(ns(first)) else { return until };
        until - since / ns(every) * ns(long) - (since % ns(every)).min(ns(long))
    }

    /// When the publisher's link, free at this time, carries on.
    fn goes_on(&self, free_at: u64) -> u64 {
        let Some((first, long, every)) = self.setup.stalls else { return free_at };
        let Some(since) = free_at.checked_sub(ns(first)) else { return free_at };
        let into = since % ns(every);
        if into < ns(long) { free_at - into + ns(long) } else { free_at }
    }

    fn switch_down(&mut self, header: &Header, payload: &[u8]) {
        let ports: Vec<usize> = if self.setup.broadcast {
            (0..self.subscribers.len()).collect()
        } else {
            let Some(entry) = self.pit.remove(&(header.name, header.segment)) else { return };
            if self.setup.cache_bytes > 0 {
                let now = self.instant();
                self.cache.data(header, payload, now);
            }
            if entry.forwarded + 2 * entry.lifetime < self.now { Vec::new() } else { entry.ports }
        };
        if self.seen.len() < 200 {
            self.seen.push((*header, payload.to_vec()));
        }
        for i in ports {
            let s = &mut self.subscribers[i];
            let size = (payload.len() as u64 + OVERHEAD_BYTES) as f64;
            // Half a second at most waits before a slow subscriber.
            if s.free_at > self.now + 500_000_000 {
                continue;
            }
            s.free_at = s.free_at.max(self.now) + (size * 8e9 / s.member.rate) as u64;
            let when = s.free_at + ns(self.setup.delays.1);
            if self.random.f64() < self.subscribers[i].member.loss {
                continue;
            }
            if self.random.f64() < self.setup.forged {
                let (header, payload) = self.forge(header, payload);
                self.at(when, Event::Arrived(i, header, payload));
            }
            self.at(when, Event::Arrived(i, *header, payload.to_vec()));
        }
    }

    /// Something like this packet, but wrong.
    fn forge(&mut self, header: &Header, payload: &[u8]) -> (Header, Vec<u8>) {
        let (mut h, mut p) = (*header, payload.to_vec());
        let other = self.random.usize(..self.seen.len());
        match self.random.u8(..7) {
            // Bits of it changed.
            0 if !p.is_empty() => {
                let at = self.random.usize(..p.len());
                p[at] ^= 1 << self.random.u8(..8);
            }
            // Cut off.
            1 => p.truncate(self.random.usize(..=p.len())),
            // Another's content under this segment's number.
            2 => p = self.seen[other].1.clone(),
            // An epoch that is, or never was.
            3 => h.epoch = h.epoch.wrapping_sub(2).wrapping_add(self.random.u16(..4)),
            // An old packet once more.
            4 => (h, p) = self.seen[other].clone(),
            // A segment beyond the end.
            5 => h.segment = self.random.u32(..),
            // Nobody's.
            _ => p = vec![0xee; p.len()],
        }
        (h, p)
    }

    fn arrived(&mut self, i: usize, header: &Header, payload: &[u8]) {
        let now = self.instant();
        let s = &mut self.subscribers[i];
        let Some(fetch) = &mut s.fetch else { return };
        match header.kind {
            Kind::Data => fetch.data(header, payload, now, &mut s.disk),
            _ => fetch.nack(header, now, &mut s.disk),
        }
        self.poll(i);
    }

    /// Outcome of each subscriber.
    pub fn outcomes(&self) -> Vec<Option<Outcome>> {
        self.subscribers.iter().map(|s| s.fetch.as_ref().and_then(|f| f.outcome().cloned())).collect()
    }

    /// When each was done, in seconds.
    pub fn times(&self) -> Vec<f64> {
        self.subscribers.iter().map(|s| s.done.map_or(f64::INFINITY, |d| (d - s.member.starts).as_secs_f64())).collect()
    }

    /// The last of several states, for messages.
    pub fn counts(&self) -> BTreeMap<usize, String> {
        let text =
            |s: &Subscriber| s.fetch.as_ref().map_or_else(String::new, |f| format!("{:?} {:?}", f.window(), f.counts));
        self.subscribers.iter().enumerate().map(|(i, s)| (i, text(s))).collect()
    }
}
