// SPDX-License-Identifier: Apache-2.0
//! Fetching one object: what to ask next, and when to ask again. [`arrivals`] takes in what comes, [`mending`] makes
//! what was lost from repair symbols.

mod arrivals;
mod mending;
mod types;

use super::asks::{Ask, Asks};
use super::buffered::Buffered;
use super::leader_election::LeaderElection;
use super::order::Segments;
use super::repairs::Repairs;
use super::shape::Shape;
use super::window::{self, Window};
use crate::names::NameError;
use crate::objects::object::keys::{GroupKey, KeyRing};
use crate::objects::object::layout::{CHILDREN, Item, Layout, REPAIR};
use crate::objects::object::manifest::Manifest;
use crate::objects::object::names::LevelNames;
use crate::packet::{Header, SEGMENTS_PER_INTEREST, flags, grouped, lifetime_of};
use crate::response::ResponseTime;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

pub use types::{Counts, Outcome, Settings, Store};

/// No segment is asked for again sooner: a busy host answers late.
const LEAST_AGAIN: Duration = Duration::from_millis(10);
/// Nor later.
const MOST_AGAIN: Duration = Duration::from_secs(8);
/// In order: how far the fetching may be ahead of what is given on.
const REACH: u32 = 2048;
/// The longest response time is that of the last one to two of these.
const SLOWEST_FOR: Duration = Duration::from_secs(2);
/// Rate of leaving Interests, over a window in a response time.
const PACE: f64 = 2.0;
/// Asks of this long may leave at once.
const BURST: Duration = Duration::from_millis(1);
/// So many Nacks in a row, over this time, are believed that there is no such thing: one alone may be forged or old.
const REFUSALS: u32 = 8;
const REFUSED_FOR: Duration = Duration::from_secs(3);
/// So many segments may be out when another's Interest is joined.
const MOST_JOINED: usize = 2048;
/// So many Nacks for a segment of a live stream, over this time, are believed that it is lost, if nothing of its block
/// came.
const GONE: u8 = 3;
const GONE_FOR: Duration = Duration::from_secs(1);

/// Whether a segment is asked for again, and when it was last.
enum Again {
    No,
    Yes(Option<Instant>),
    /// It is a repair symbol, in place of segments that were asked for.
    Instead,
}

/// One object being fetched.
#[derive(Debug)]
pub struct Fetch {
    settings: Settings,
    names: LevelNames,
    shape: Shape,
    layout: Option<Layout>,
    keys: KeyRing,
    have: Segments,
    /// All that ever were.
    checked: u64,
    /// Segments of an earlier run that are not checked again yet.
    claimed: Segments,
    /// Segments to ask for again, and when each was asked for last, if a switch may still wait for that.
    again: BTreeMap<Item, Option<Instant>>,
    fresh: HashSet<Item>,
    repairs: Option<Repairs>,
    nodes: VecDeque<Item>,
    cursor: u32,
    /// Where the foremost of the group was, and when; and how many segments it goes on in a response time.
    foremost: Option<(Instant, u32)>,
    pace: u32,
    /// In order: what is right but not its turn, and whose turn it is.
    ready: BTreeMap<u32, Vec<u8>>,
    next: u32,
    asks: Asks,
    window: Window,
    election: LeaderElection,
    /// Asks that may leave now, when they were earned, and whether others wait.
    tokens: f64,
    earned: Instant,
    starved: bool,
    /// New segments wait for another subscriber to ask for them.
    held_back: bool,
    /// All is out or here: what is lost has no gap behind it.
    ending: bool,
    response: ResponseTime,
    /// The longest response time of late: answers that another's Interest or a cache shortens come before others that
    /// were asked sooner.
    slowest: [Duration; 2],
    slowest_since: Instant,
    silences: u32,
    buffered: Buffered,
    /// Since when all that came had a key that is not here.
    keyless_since: Option<Instant>,
    heard: Instant,
    progress: Instant,
    /// Value of `counts.wrong` then.
    wrong_before: u64,
    refusals: u32,
    refused_since: Option<Instant>,
    gone: HashMap<Item, u8>,
    gone_since: Option<Instant>,
    outcome: Option<Outcome>,
    /// Counters so far.
    pub counts: Counts,
}

impl Fetch {
    /// Begins with a manifest whose signature was checked. `begin` is the segment to ask for first; `claimed` what an
    /// earlier run says to have.
    ///
    /// # Errors
    /// The object's name is too long to have packets.
    pub fn new(
        manifest: &Manifest,
        settings: Settings,
        begin: u32,
        claimed: Segments,
        now: Instant,
    ) -> Result<Fetch, NameError> {
        let mut names = LevelNames::new(&manifest.name, &manifest.version, Shape::levels(manifest))?;
        // Segments given on in order can't be read back, and decoding needs them.
        let repair = manifest.repair.zip(manifest.layout).filter(|_| settings.repair && !settings.ordered);
        if repair.is_some() {
            names = names.with_repair()?;
        }
        let begin = match manifest.layout {
            Some(layout) if settings.ordered || begin >= layout.content_segments() => 0,
            Some(_) => begin,
            // A block is given on as a whole.
            None => begin - begin % CHILDREN as u32,
        };
        let empty = manifest.layout.is_some_and(|l| l.bytes == 0);
        Ok(Fetch {
            settings: Settings { ordered: settings.ordered || manifest.layout.is_none(), ..settings },
            shape: Shape::new(manifest, &names),
            layout: manifest.layout,
            keys: KeyRing::new(names.clone()),
            names,
            have: Segments::default(),
            checked: 0,
            claimed,
            again: BTreeMap::new(),
            fresh: HashSet::new(),
            repairs: repair.map(|(repair, layout)| Repairs::new(repair, layout)),
            nodes: VecDeque::new(),
            cursor: begin,
            foremost: None,
            pace: 0,
            ready: BTreeMap::new(),
            next: begin,
            asks: Asks::default(),
            window: Window::new(settings.round_trip),
            election: LeaderElection::new(settings.seed),
            tokens: window::FIRST,
            earned: now,
            starved: false,
            held_back: false,
            ending: false,
            response: ResponseTime::default(),
            slowest: [settings.round_trip, Duration::ZERO],
            slowest_since: now,
            silences: 0,
            buffered: Buffered::default(),
            keyless_since: None,
            heard: now,
            progress: now,
            wrong_before: 0,
            refusals: 0,
            refused_since: None,
            gone: HashMap::new(),
            gone_since: None,
            outcome: empty.then_some(Outcome::Complete),
            counts: Counts::default(),
        })
    }

    /// Outcome, once the fetch has ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The segments of content that are there and checked; of a live stream those that are not given on yet. An earlier run's that are not checked again yet count too.
    pub fn kept(&self) -> Segments {
        Segments::from_ranges(self.have.ranges().chain(self.claimed.ranges()))
    }

    /// Number of segments of content that are there and checked.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Number of packets of data that were wrong since the last that was right.
    pub fn wrong_of_late(&self) -> u64 {
        self.counts.wrong - self.wrong_before
    }

    /// Limit and number of outstanding segments.
    pub fn window(&self) -> (usize, usize) {
        (self.window.allowed(), self.asks.len())
    }

    /// The smoothed response time, once there is one.
    pub fn response_time(&self) -> Option<Duration> {
        self.response.is_measured().then(|| self.response.smoothed())
    }

    /// For fuzzers and tests: what arrives makes it hold no more than it may.
    ///
    /// # Panics
    /// It does.
    pub fn check_budgets(&self) {
        self.buffered.check_budgets();
        if let Some(repairs) = &self.repairs {
            repairs.check_budgets();
        }
        assert!(self.asks.len() <= MOST_JOINED.max(window::MOST as usize), "{} asks", self.asks.len());
        assert!(self.ready.len() <= 2 * REACH as usize, "{} segments are ready", self.ready.len());
        let of_file = |l: Layout| (0..l.levels).map(|level| u64::from(l.segments(level))).sum();
        let most = self.layout.map_or(4 * u64::from(REACH), of_file);
        assert!(self.again.len() as u64 <= most, "{} segments to ask for again", self.again.len());
        assert!(self.fresh.len() as u64 <= most, "{} segments past caches", self.fresh.len());
    }

    /// The publisher was heard on another way: it is there, though it may have nothing to say.
    pub fn alive(&mut self, now: Instant) {
        if self.layout.is_none() {
            self.progress = now;
        }
    }

    /// Further keys came.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn keys(
        &mut self,
        keys: &[GroupKey],
        now: Instant,
        store: &mut impl Store,
    ) -> Result<(), boring::error::ErrorStack> {
        for key in keys {
            self.keys.add(*key)?;
        }
        self.keyless_since = None;
        for (item, (header, payload)) in self.buffered.take_sealed() {
            if self.is_behind(item) {
                continue;
            }
            if self.keys.has(header.epoch) && self.open(item, &header, &payload, now, store) {
                // It had waited so long that it was asked for again.
                self.asks.remove(item);
                self.again.remove(&item);
                self.fresh.remove(&item);
            } else if !self.asks.has(item) {
                self.past_caches(item);
            }
        }
        Ok(())
    }

    /// When it next has something to do although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        if self.outcome.is_some() {
            return None;
        }
        let gap = self.settings.gaps.then(|| self.asks.next_gap(self.gap_after(), self.ending)).flatten();
        let give_up = Some(self.progress + self.settings.give_up);
        // A few at once cost one wake-up.
        let tokens = (window::FIRST / 2.0 - self.tokens).max(0.0);
        let paced = self.starved.then(|| self.earned + Duration::from_secs_f64(tokens / self.rate()));
        let wait = if self.held_back { self.election.waits_until(self.earned) } else { None };
        [paced, wait, self.asks.next_timer(), gap, self.buffered.next_timer(), give_up].into_iter().flatten().min()
    }

    /// Adds the Interests to send now. `store` gives the segments of an earlier run.
    pub fn poll(&mut self, now: Instant, store: &mut impl Store, out: &mut Vec<Header>) {
        if self.outcome.is_some() {
            return;
        }
        self.expire(now);
        self.mend(store);
        if self.outcome.is_some() {
            return;
        }
        let time = self.timeout();
        // By level, and whether a cache may answer: the segments, and the shortest lifetime.
        let mut batches: BTreeMap<(u8, bool, bool), (BTreeSet<u64>, Duration)> = BTreeMap::new();
        self.earn(now);
        (self.starved, self.held_back) = (false, false);
        while self.asks.len() < self.allowed(now) {
            if self.tokens < 1.0 {
                self.starved = true;
                break;
            }
            let next = self.next_item(now, store);
            self.ending = next.is_none() && self.layout.is_some() && !self.held_back;
            let Some((item, again)) = next else { break };
            self.tokens -= 1.0;
            self.counts.asked += 1;
            let is_again = !matches!(again, Again::No);
            self.counts.asked_again += u64::from(is_again);
            self.counts.repair_asked += u64::from(item.level == REPAIR);
            let unclear = matches!(again, Again::Yes(_));
            self.asks.push(Ask { item, sent: now, again_at: now + time, unclear, wrong: false });
            // A switch that still waits for the first answer forwards only what has waited for its own lifetime.
            let lifetime = match again {
                Again::Yes(Some(last)) => time.min(now.saturating_duration_since(last) * 7 / 8),
                _ => time,
            };
            let key = (item.level, self.fresh.contains(&item), is_again);
            let (segments, shortest) = batches.entry(key).or_insert((BTreeSet::new(), lifetime));
            segments.insert(u64::from(item.segment));
            *shortest = lifetime.min(*shortest);
        }
        // The highest level first: without its hashes what is below can't be checked.
        for ((level, fresh, _), (segments, lifetime)) in batches.into_iter().rev() {
            let Some(name) = self.names.of(level) else { continue };
            grouped(segments, |first, holes| {
                let flags = if fresh { flags::FRESH } else { 0 };
                let interest = Header::interest(name, first as u32, lifetime_of(lifetime));
                out.push(Header { holes, flags, ..interest });
            });
        }
        self.counts.interests += out.len() as u64;
    }

    /// Limit of outstanding segments. While Data can't be opened for want of its key, which the publisher gives on
    /// another path, there is no use in asking for more of it, and that path may need the room. One may be out: a
    /// forged epoch, or a cache of an earlier one, is found out by it.
    fn allowed(&self, now: Instant) -> usize {
        let keyless = self.keyless_since.map(|since| now.saturating_duration_since(since));
        if keyless.is_some_and(|time| time > self.longest().max(LEAST_AGAIN)) { 1 } else { self.window.allowed() }
    }

    /// Asks a second: a window is spread over a response time, so that what it fetches makes no queue by itself. Somewhat
    /// faster, or it would never be full (RFC 9002 7.7).
    fn rate(&self) -> f64 {
        PACE * self.window.allowed() as f64 / self.response.smoothed().as_secs_f64().max(1e-6)
    }

    fn earn(&mut self, now: Instant) {
        let rate = self.rate();
        let earned = rate * now.saturating_duration_since(self.earned).as_secs_f64();
        // Burst that a host that wakes late could have sent meanwhile.
        let most = (rate * BURST.as_secs_f64()).max(window::FIRST);
        self.tokens = (self.tokens + earned).min(most);
        self.earned = now;
    }

    /// After how long to ask again.
    fn timeout(&self) -> Duration {
        let time = self.response.ask_again_after(self.settings.beta).max(self.gap_after() * 2).max(LEAST_AGAIN);
        time.saturating_mul(1 << self.silences.min(10)).min(MOST_AGAIN)
    }

    /// Age from which an outstanding segment before a gap counts as lost (RFC 9002 6.1.2's factor).
    fn gap_after(&self) -> Duration {
        self.longest() * 9 / 8
    }

    /// The longest response time of late.
    fn longest(&self) -> Duration {
        self.slowest[0].max(self.slowest[1])
    }

    /// Counts what is lost, and notices silence.
    fn expire(&mut self, now: Instant) {
        if now >= self.progress + self.settings.give_up {
            self.outcome = Some(Outcome::Silent);
            return;
        }
        for item in self.buffered.late(now) {
            self.past_caches(item);
        }
        let next = self.asks.next();
        if self.settings.gaps {
            while let Some((number, ask)) = self.asks.lost(now, self.gap_after(), self.ending) {
                self.counts.lost_by_gap += 1;
                self.again(ask);
                // A live stream's hashes come when their block is full.
                if !ask.wrong && (self.layout.is_some() || ask.item.level == 0) {
                    self.lost(number, now);
                }
            }
        }
        let mut silent = false;
        while let Some((number, ask)) = self.asks.expired(now) {
            self.again(ask);
            if ask.wrong {
                continue;
            }
            self.counts.lost_by_time += 1;
            match self.heard <= ask.sent {
                true => silent = true,
                false => self.lost(number, now),
            }
        }
        if silent {
            for ask in self.asks.drain() {
                self.again(ask);
            }
            if let Some(repairs) = &mut self.repairs {
                repairs.rewind();
            }
            self.window.silent(next);
            self.silences = (self.silences + 1).min(10);
            self.counts.silences += 1;
        }
    }

    /// An ask was not answered, while later ones were.
    fn lost(&mut self, number: u64, now: Instant) {
        if self.window.lost(number, self.asks.next()) {
            self.election.resign(self.longest(), now);
        }
    }

    fn again(&mut self, ask: Ask) {
        if ask.item.level == REPAIR {
            return self.lost_symbol(ask.item);
        }
        if ask.wrong {
            self.fresh.insert(ask.item);
        }
        self.again.insert(ask.item, Some(ask.sent));
        self.entrust(ask.item);
    }

    /// Its Data were wrong, and may be in caches: it is asked for past them.
    fn past_caches(&mut self, item: Item) {
        if item.level == REPAIR {
            return self.lost_symbol(item);
        }
        self.fresh.insert(item);
        self.again.insert(item, None);
    }

    /// The next segment to ask for, and whether it was asked for before.
    fn next_item(&mut self, now: Instant, store: &mut impl Store) -> Option<(Item, Again)> {
        loop {
            while let Some(item) = self.next_again() {
                let last = self.again.remove(&item).flatten();
                if !self.is_there(item) {
                    return Some((item, Again::Yes(last)));
                }
            }
            let Some(repairs) = &mut self.repairs else { break };
            if let Some(item) = repairs.next() {
                return Some((item, Again::Instead));
            }
            if !repairs.gave_up() {
                break;
            }
        }
        loop {
            while let Some(node) = self.nodes.pop_front() {
                if !self.is_there(node) && !self.asks.has(node) {
                    return Some((node, Again::No));
                }
            }
            if self.election.waits_until(now).is_some() {
                self.held_back = true;
                return None;
            }
            let item = self.scan(store);
            // Its hash is asked for before it.
            if item.is_some_and(|item| self.queue_nodes(item)) || !self.nodes.is_empty() {
                continue;
            }
            let item = item?;
            self.cursor = self.cursor.saturating_add(1);
            return Some((item, Again::No));
        }
    }

    /// Segment to ask for again first: hashes, then content. A live stream's content waits for its block's hashes,
    /// which say whether there is such a segment.
    fn next_again(&self) -> Option<Item> {
        let hashes = self.again.range(Item { level: 1, segment: 0 }..).map(|(item, _)| item).next();
        let waits =
            |item: &Item| self.layout.is_none() && self.shape.needs(*item).is_some_and(|node| self.asks.has(node));
        hashes.or_else(|| self.again.keys().find(|item| !waits(item) && !self.is_entrusted(**item))).copied()
    }

    /// Whether a segment is here, checked or held, or is none of the object's.
    fn is_there(&self, item: Item) -> bool {
        let kept = match item.level {
            0 => self.have.contains(item.segment),
            // One that is out has to be answered, though it is no longer of use.
            REPAIR => !self.asks.has(item) && self.repairs.as_ref().is_none_or(|r| !r.wants(item.segment)),
            _ => self.shape.knows(item),
        };
        kept || !self.has(item) || self.buffered.has(item) || self.is_behind(item)
    }

    /// Whether it is behind what is given on in order.
    fn is_behind(&self, item: Item) -> bool {
        let block = self.next / CHILDREN as u32;
        self.layout.is_none() && (if item.level == 0 { item.segment < self.next } else { item.segment < block })
    }

    /// The segment of content that the cursor comes to next, and is to be asked for; behind the last one it goes on with
    /// the first that is missing. Stops early when hashes are queued that are to be asked for first.
    fn scan(&mut self, store: &mut impl Store) -> Option<Item> {
        let end = self.layout.map_or(u32::MAX, Layout::content_segments);
        let mut wrapped = false;
        loop {
            if self.cursor >= end && !self.settings.ordered && !wrapped {
                (wrapped, self.cursor) = (true, 0);
            }
            let far = self.settings.ordered && self.cursor >= self.next.saturating_add(REACH);
            if self.cursor >= end || far || self.outcome.is_some() || self.shape.is_over(self.cursor) {
                return None;
            }
            let item = Item { level: 0, segment: self.cursor };
            if let Some(last) = self.have.last_from(self.cursor) {
                self.cursor = last.saturating_add(1);
            } else if self.claimed.contains(self.cursor) {
                match self.shape.needs(item) {
                    None => self.check_claimed(item.parent().0.segment, store),
                    // A claimed segment is checked when its hashes are there.
                    Some(_) if self.queue_nodes(item) => return None,
                    Some(_) => self.cursor += 1,
                }
            } else if !self.shape.has(item) {
                // A live block that was closed early.
                self.cursor = (self.cursor / CHILDREN as u32).saturating_add(1).saturating_mul(CHILDREN as u32);
            } else if self.asks.has(item) || self.again.contains_key(&item) || self.is_there(item) {
                self.cursor += 1;
            } else {
                return Some(item);
            }
        }
    }

    /// The publisher said in Data for `segment` how far ahead another asks. It does so only if no switch could join this
    /// Interest with the other's. Then this subscriber goes on there, and fetches what it left out later: two who are
    /// near each other share what is sent.
    fn follow(&mut self, segment: u32, ahead: u16, now: Instant) {
        let window = self.window.allowed() as u32;
        let foremost = segment.saturating_add(u32::from(ahead));
        let response = self.response.smoothed();
        let (since, then) = *self.foremost.get_or_insert((now, foremost));
        let passed = now.saturating_duration_since(since);
        if passed >= response {
            self.foremost = Some((now, foremost));
            let rate = f64::from(foremost.saturating_sub(then)) / passed.as_secs_f64();
            self.pace = (0.8 * rate * response.as_secs_f64()) as u32;
        }
        if self.settings.ordered || u32::from(ahead) < SEGMENTS_PER_INTEREST || foremost <= self.cursor {
            return;
        }
        // The other's position is a response time old when the next Interest is there.
        let to = foremost.saturating_add(self.pace.max(window / 2));
        let item = Item { level: 0, segment: to };
        if self.shape.has(item) && !self.claimed.contains(to) && !self.is_there(item) && !self.asks.has(item) {
            self.cursor = to;
            self.counts.followed += 1;
        }
    }

    /// Queues the hashes that a segment needs and that are not asked for yet, the highest level first. Whether there
    /// were any.
    fn queue_nodes(&mut self, item: Item) -> bool {
        let before = self.nodes.len();
        let mut below = item;
        while let Some(node) = self.shape.needs(below) {
            let out = self.asks.has(node) || self.again.contains_key(&node) || self.buffered.has(node);
            if out || self.nodes.contains(&node) {
                break;
            }
            self.nodes.push_front(node);
            below = node;
        }
        self.nodes.len() > before
    }
}
