// SPDX-License-Identifier: Apache-2.0
//! The publisher: answers Interests for the objects it offers, and has a group of members for each.

mod index;
mod live;
mod object;
mod repair;
#[cfg(test)]
mod tests;

pub use index::{Index, Indexed};
use live::Block;
pub use live::Live;
use object::{Body, Missing, Object};
use repair::Repairs;

use super::lru::Lru;
use super::object::keys::{GroupKey, KeyRing};
use super::object::layout::{CHILDREN, Item, Layout, REPAIR, SEGMENT_BYTES};
use super::object::lines::{ANY_VERSION, Answer};
use super::object::manifest::{Manifest, hex, version_of};
use super::object::names::LevelNames;
use super::object::repair::Repair;
use super::object::seal::Secret;
use super::object::sign::{Purpose, SigningKey};
use crate::names::{Name, NameError};
use crate::packet::{Header, Kind, flags, nack, time_of};
use crate::refusals::Refusals;
use boring::error::ErrorStack;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Members that leave within this time cost one new key together.
const REKEY_EVERY: Duration = Duration::from_secs(1);
/// Anyone can come and leave again: so many new keys at once, then one more in each of these times. Caches and members
/// keep 64, and there are 2^15. A file's content is the same under each of them, and a member that comes back gets it.
const REKEYS_LIVE: (f64, Duration) = (32.0, Duration::from_secs(15));
const REKEYS_FILE: (f64, Duration) = (4.0, Duration::from_secs(60));
/// Objects offered at once; without members the one that was asked for least recently goes.
pub const MOST_OBJECTS: usize = 1024;
/// Hashes held at once, in bytes: files of 11 GB together.
const MOST_TREE_BYTES: u64 = 256 << 20;
/// Limit of Interests ahead of a live stream, in blocks: subscribers ask for no more than 2,048 segments ahead.
const WAITING_BLOCKS: u32 = 2048 / CHILDREN as u32 + 1;
/// A group's first epoch is one of these, so that there is room for as many behind it.
const FIRST_EPOCHS: u16 = 1 << 15;
/// A live stream goes on as another one in time: some keys are left for those who still fetch its end.
const LAST_EPOCH: u16 = u16::MAX - 16;
/// A manifest that was signed longer ago than this is signed anew for the next member: subscribers refuse old ones.
const REISSUE_S: u64 = 3600;
/// Where a group is, is the highest segment that was asked for no longer ago than this.
const RECENTLY: Duration = Duration::from_millis(500);

/// For names and segments that there never were. Right subscribers ask for such only when a file was replaced, and need
/// eight Nacks to believe it.
const FILE_REFUSALS: Refusals = Refusals::new(256.0, 100.0);
/// For segments of live streams: right subscribers ask for lost segments when they fell behind.
const LIVE_REFUSALS: Refusals = Refusals::new(1024.0, 1000.0);

/// Of Interests that ask past all memories (flag `FRESH`): each is sealed anew, and on a bridge no switch has a quota for them. Beyond,
/// they are answered as others are.
const FRESH: Refusals = Refusals::new(256.0, 100.0);

/// No subscriber asks again sooner. A stranger's lifetime may be shorter.
const LEAST_LIFETIME: Duration = Duration::from_millis(10);

/// Where a file's content comes from.
pub trait Content {
    /// Reads from this place until `buffer` is full.
    ///
    /// # Errors
    /// It can't be read, or ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()>;
}

/// Why an object can't be offered.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// Its name is too long for the suffix in packets.
    #[error("{0}")]
    Name(#[from] NameError),
    /// Other objects with members fill the memory.
    #[error("the publisher offers as much as it has memory for; try again later")]
    Busy,
    /// The TLS library failed.
    #[error("the TLS library failed: {0}")]
    Tls(#[from] ErrorStack),
    /// It has no form in JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments asked for.
    pub asked: u64,
    /// Data sent.
    pub data: u64,
    /// Their payloads, in bytes.
    pub data_bytes: u64,
    /// Of these, those that were sealed before.
    pub sealed_before: u64,
    /// Of these, repair symbols.
    pub repair: u64,
    /// Blocks that repair symbols were made of, each time counted.
    pub encoded: u64,
    /// Segments not sent because they had just been, on a broadcast segment.
    pub just_sent: u64,
    /// Interests for what is not there yet.
    pub waiting: u64,
    /// Nacks sent.
    pub nacks: u64,
    /// Nacks not sent, because there were too many.
    pub nacks_withheld: u64,
    /// Keys drawn because members left.
    pub rekeys: u64,
    /// Objects taken back because their file is no longer what it was.
    pub changed: u64,
}

/// A number for each object that is offered.
pub type ObjectId = u64;

/// A sealed segment, ready to send.
#[derive(Debug)]
struct Sealed {
    header: Header,
    payload: Vec<u8>,
    sent: Option<Instant>,
}

/// The publisher.
pub struct Publisher {
    name: Name,
    key: SigningKey,
    objects: BTreeMap<ObjectId, Object>,
    by_name: HashMap<Name, ObjectId>,
    by_packets: HashMap<u64, (ObjectId, u8)>,
    next_id: ObjectId,
    sealed: Lru<(u64, u32), Sealed>,
    refusals: Refusals,
    live_refusals: Refusals,
    fresh: Refusals,
    broadcast: bool,
    /// Of files that are offered from now on; `None`: no repair symbols.
    repairs: Option<Repairs>,
    draw: Box<dyn FnMut() -> Result<[u8; 32], ErrorStack>>,
    clock: Box<dyn Fn() -> u64>,
    /// Counters so far.
    pub counts: Counts,
}

/// Packet to send: a header and its payload.
pub type Packet = (Header, Vec<u8>);

impl Publisher {
    /// Offers nothing yet. It answers for `name` and what is below it. `sealed_bytes` is for segments that are kept sealed, `draw` gives 32 bytes that nobody can
    /// predict, `clock` the seconds since 1970. On a `broadcast` segment, where each packet reaches all, a segment that was just sent is not sent again.
    pub fn new(
        name: Name,
        key: SigningKey,
        sealed_bytes: u64,
        broadcast: bool,
        draw: impl FnMut() -> Result<[u8; 32], ErrorStack> + 'static,
        clock: impl Fn() -> u64 + 'static,
    ) -> Publisher {
        Publisher {
            name,
            key,
            objects: BTreeMap::new(),
            by_name: HashMap::new(),
            by_packets: HashMap::new(),
            next_id: 0,
            sealed: Lru::new(sealed_bytes),
            refusals: FILE_REFUSALS,
            live_refusals: LIVE_REFUSALS,
            fresh: FRESH,
            broadcast,
            repairs: None,
            draw: Box::new(draw),
            clock: Box::new(clock),
            counts: Counts::default(),
        }
    }

    /// Offers repair symbols for the files that it offers from now on.
    #[must_use]
    pub fn with_repair(self) -> Publisher {
        Publisher { repairs: Some(Repairs::default()), ..self }
    }

    /// The object of this name, if it is offered.
    pub fn find(&self, name: &Name) -> Option<ObjectId> {
        self.by_name.get(name).copied()
    }

    /// Offers a file whose hashes were taken. An earlier object of its name is no longer offered, unless its content is
    /// the same: then only the place it is read from changes, and members and keys stay.
    ///
    /// # Errors
    /// The limit is reached, or the name is too long.
    pub fn offer(
        &mut self,
        name: &Name,
        indexed: Indexed,
        content: Box<dyn Content>,
        now: Instant,
    ) -> Result<ObjectId, OfferError> {
        let Indexed { layout, tree, sha256 } = indexed;
        let mut manifest = Manifest {
            name: name.clone(),
            version: version_of(&sha256),
            layout: Some(layout),
            top: tree.top().to_vec(),
            publisher: self.key.public(),
            repair: self.repairs.as_ref().and_then(|_| Repair::offered(layout)),
            issued_s: Some((self.clock)()),
        };
        if let Some(old) = self.find(name) {
            if let Some(object) = self.objects.get_mut(&old) {
                if object.manifest == (Manifest { issued_s: Some(object.issued_s), ..manifest.clone() }.text()?) {
                    object.body = Body::File { layout, tree, content };
                    object.asked = now;
                    return Ok(old);
                }
                // Later than the one it replaces, also where the clock was set back.
                manifest.issued_s = manifest.issued_s.max(Some(object.issued_s.saturating_add(1)));
            }
            self.withdraw(old);
        }
        self.make_room(tree.bytes())?;
        self.add(manifest, layout.levels, Body::File { layout, tree, content }, now)
    }

    /// Offers a live stream, which keeps at most `history_bytes` of what was.
    ///
    /// # Errors
    /// As for [`Publisher::offer`].
    pub fn offer_live(&mut self, name: &Name, history_bytes: u64, now: Instant) -> Result<ObjectId, OfferError> {
        let random = (self.draw)()?;
        let manifest = Manifest {
            name: name.clone(),
            version: hex(&random[..8]),
            layout: None,
            top: Vec::new(),
            publisher: self.key.public(),
            repair: None,
            issued_s: Some((self.clock)()),
        };
        self.add(manifest, 2, Body::Live(Live::new(history_bytes)), now)
    }

    fn add(&mut self, manifest: Manifest, levels: u8, body: Body, now: Instant) -> Result<ObjectId, OfferError> {
        let mut names = LevelNames::new(&manifest.name, &manifest.version, levels)?;
        if manifest.repair.is_some() {
            names = names.with_repair()?;
        }
        let text = manifest.text()?;
        let signature = self.key.sign(Purpose::Manifest, text.as_bytes())?;
        let mut keys = KeyRing::new(names.clone());
        // Not the same number each time: caches may have what an earlier run sealed with another secret.
        let random = (self.draw)()?;
        let epoch = u16::from_be_bytes([random[0], random[1]]) % FIRST_EPOCHS + 1;
        keys.add(GroupKey { epoch, first_segment: 0, secret: Secret((self.draw)()?) })?;
        let id = self.next_id;
        self.next_id += 1;
        for (level, name) in names.iter() {
            self.by_packets.insert(name.hash(), (id, level));
        }
        self.by_name.insert(manifest.name.clone(), id);
        let mut object = Object::new(manifest.name, text, signature, names, keys, body, now);
        object.repair = manifest.repair;
        object.issued_s = manifest.issued_s.unwrap_or(0);
        self.objects.insert(id, object);
        Ok(id)
    }

    /// Takes objects back that nobody is a member of, until there is room for another.
    fn make_room(&mut self, tree_bytes: u64) -> Result<(), OfferError> {
        loop {
            let held: u64 = self.objects.values().map(Object::tree_bytes).sum();
            if self.objects.len() < MOST_OBJECTS && held + tree_bytes <= MOST_TREE_BYTES {
                return Ok(());
            }
            let idle = self.objects.iter().filter(|(_, o)| o.members == 0 && !o.is_live());
            let oldest = idle.min_by_key(|(_, o)| o.asked).map(|(id, _)| *id).ok_or(OfferError::Busy)?;
            self.withdraw(oldest);
        }
    }

    /// Offers an object no longer.
    pub fn withdraw(&mut self, id: ObjectId) {
        let Some(object) = self.objects.remove(&id) else { return };
        for (_, name) in object.names.iter() {
            self.by_packets.remove(&name.hash());
        }
        // Offered again, the same names are sealed with another secret.
        self.sealed.remove_where(|(name, _)| object.names.level(*name).is_some());
        if let Some(repairs) = &mut self.repairs {
            repairs.forget(id);
        }
        if self.by_name.get(&object.name) == Some(&id) {
            self.by_name.remove(&object.name);
        }
    }

    /// Someone becomes a member; returns its answer.
    pub fn join(&mut self, id: ObjectId, now: Instant) -> Option<Answer> {
        self.enter(id);
        self.tell(id, None, None, now)
    }

    /// A group has a member more.
    pub fn enter(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.members += 1;
        }
    }

    /// Answer for a member. One that has the manifest of this version gets the keys alone, and one that was a member
    /// before gets all of them from the epoch on with which it began.
    pub fn tell(&mut self, id: ObjectId, have: Option<&str>, since: Option<u16>, now: Instant) -> Option<Answer> {
        let object = self.objects.get_mut(&id)?;
        object.asked = now;
        let begin = object.begin(now);
        let first = since.unwrap_or_else(|| object.keys.for_segment(begin).map_or(0, |k| k.epoch));
        // Of a live stream nobody gets keys for what was before; a file's segments are the same in all epochs.
        let keys = object.keys.all().filter(|k| !object.is_live() || k.epoch >= first).collect();
        if have == Some(ANY_VERSION) {
            return Some(Answer::Begin { version: object.names.version().to_owned(), begin, keys });
        }
        if have.is_some_and(|version| object.names.is_of(version)) {
            return Some(Answer::Keys(keys));
        }
        self.reissue(id);
        let object = self.objects.get(&id)?;
        Some(Answer::Welcome { manifest: object.manifest.clone(), signature: object.signature, begin, keys })
    }

    /// Signs a manifest anew whose time is long past. If the TLS library fails, the earlier one stays.
    fn reissue(&mut self, id: ObjectId) {
        let now_s = (self.clock)();
        let Some(object) = self.objects.get_mut(&id).filter(|o| o.issued_s.saturating_add(REISSUE_S) <= now_s) else {
            return;
        };
        let Ok(manifest) = Manifest::parse(&object.manifest) else { return };
        let Ok(text) = (Manifest { issued_s: Some(now_s), ..manifest }).text() else { return };
        if let Ok(signature) = self.key.sign(Purpose::Manifest, text.as_bytes()) {
            (object.manifest, object.signature, object.issued_s) = (text, signature, now_s);
        }
    }

    /// A member leaves: what is sealed from soon on it can't open.
    pub fn leave(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.members = object.members.saturating_sub(1);
            object.left = true;
        }
    }

    /// When [`Publisher::rekey`] has something to do.
    pub fn next_rekey(&self) -> Option<Instant> {
        self.objects.values().filter(|o| o.left).map(Object::rekey_at).min()
    }

    /// Draws new keys for groups that members left. Returns the answers for the members of each; an object whose epochs
    /// are used up is taken back.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn rekey(&mut self, now: Instant) -> Result<Vec<(ObjectId, Answer)>, ErrorStack> {
        let mut told = Vec::new();
        let due = |o: &Object| o.left && o.rekey_at() <= now;
        let ids: Vec<_> = self.objects.iter().filter(|(_, o)| due(o)).map(|(id, _)| *id).collect();
        for id in ids {
            let secret = Secret((self.draw)()?);
            let Some(object) = self.objects.get_mut(&id) else { continue };
            object.pay_rekey(now);
            let Some(epoch) = object.keys.latest().and_then(|k| k.epoch.checked_add(1)) else {
                self.withdraw(id);
                let why = "its keys are used up: ask for it again";
                told.push((id, Answer::Error(why.to_owned())));
                continue;
            };
            let key = GroupKey { epoch, first_segment: object.next_segment(), secret };
            object.keys.add(key)?;
            self.counts.rekeys += 1;
            told.push((id, Answer::Keys(vec![key])));
        }
        Ok(told)
    }

    /// An Interest came. Adds the packets to send for it.
    pub fn interest(&mut self, header: &Header, now: Instant, out: &mut Vec<Packet>) {
        if header.kind != Kind::Interest {
            return;
        }
        let Some(&(id, level)) = self.by_packets.get(&header.name) else {
            // On a bridge all hear it: another host may have what this one has not.
            if !self.name.covers(header.prefix) {
                return;
            }
            for segment in header.segments() {
                self.counts.asked += 1;
                self.refuse(header, segment, nack::NO_SUCH_NAME, false, now, out);
            }
            return;
        };
        for segment in header.segments() {
            self.counts.asked += 1;
            let item = Item { level, segment };
            match self.segment(id, item, header, now) {
                Given::Packet(packet) => out.push(packet),
                Given::Nack(code) => {
                    let live = self.objects.get(&id).is_some_and(Object::is_live);
                    self.refuse(header, segment, code, live, now, out);
                }
                Given::Later => self.counts.waiting += 1,
                Given::JustSent => self.counts.just_sent += 1,
            }
        }
    }

    /// Answers with a Nack, unless there were too many of late.
    fn refuse(&mut self, header: &Header, segment: u32, code: u8, live: bool, now: Instant, out: &mut Vec<Packet>) {
        let refusals = if live { &mut self.live_refusals } else { &mut self.refusals };
        if refusals.one_more(now) {
            self.counts.nacks += 1;
            out.push((Header::nack(header, segment, code), Vec::new()));
        } else {
            self.counts.nacks_withheld += 1;
        }
    }

    fn segment(&mut self, id: ObjectId, item: Item, interest: &Header, now: Instant) -> Given {
        let Some(object) = self.objects.get_mut(&id) else { return Given::Nack(nack::NO_SUCH_NAME) };
        object.asked = now;
        let ahead = if item.level == 0 && object.may_have(item) { object.ahead(item.segment, now) } else { 0 };
        let Some(key) = object.key_of(item) else { return Given::Nack(nack::BUSY) };
        // A subscriber that got something wrong asks past all caches, and past this one.
        let fresh = interest.has(flags::FRESH) && self.fresh.one_more(now);
        if !fresh
            && let Some(sealed) = self.sealed.get(&(interest.name, item.segment))
            && sealed.header.epoch == key.epoch
        {
            // Less than a response time ago: that is an eighth of a lifetime, with the default beta.
            let time = time_of(interest.lifetime).max(LEAST_LIFETIME) / 10;
            let just = sealed.sent.is_some_and(|sent| now.saturating_duration_since(sent) < time);
            if self.broadcast && just {
                return Given::JustSent;
            }
            sealed.sent = Some(now);
            self.counts.data += 1;
            self.counts.data_bytes += sealed.payload.len() as u64;
            self.counts.repair += u64::from(item.level == REPAIR);
            self.counts.sealed_before += 1;
            return Given::Packet((Header { lifetime: ahead, ..sealed.header }, sealed.payload.clone()));
        }
        let content = match (item.level, &mut self.repairs) {
            (REPAIR, Some(repairs)) => repairs.symbol(id, object, item.segment, &mut self.counts, now),
            _ => object.content(item),
        };
        let content = match content {
            Ok(content) => content,
            Err(Missing::Yet) if object.is_near(item) => {
                object.wait(item, now + time_of(interest.lifetime) * 2);
                return Given::Later;
            }
            Err(Missing::Busy) => return Given::Nack(nack::BUSY),
            Err(Missing::Never | Missing::Yet) => return Given::Nack(nack::NO_SUCH_SEGMENT),
            Err(Missing::Changed) => {
                self.counts.changed += 1;
                self.withdraw(id);
                return Given::Nack(nack::NO_SUCH_NAME);
            }
        };
        match self.seal(id, item, key.epoch, &content, Some(now)) {
            Some((header, payload)) => Given::Packet((Header { lifetime: ahead, ..header }, payload)),
            None => Given::Nack(nack::BUSY),
        }
    }

    fn seal(&mut self, id: ObjectId, item: Item, epoch: u16, content: &[u8], now: Option<Instant>) -> Option<Packet> {
        let object = self.objects.get_mut(&id)?;
        let name = object.names.of(item.level)?;
        let last = if object.is_last(item) { flags::LAST } else { 0 };
        let header = Header { epoch, ..Header::data(name, item.segment, flags::ECT | last) };
        let payload = object.keys.seal(item.level, &header, content).ok()??;
        self.counts.data += 1;
        self.counts.data_bytes += payload.len() as u64;
        self.counts.repair += u64::from(item.level == REPAIR);
        let sealed = Sealed { header, payload: payload.clone(), sent: now };
        self.sealed.insert((header.name, item.segment), sealed, payload.len() as u64);
        Some((header, payload))
    }

    /// A live stream goes on with these bytes. Returns the packets for waiting Interests, and the number of bytes
    /// taken: not all if its numbers are used up, which ends it.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn push(
        &mut self,
        id: ObjectId,
        bytes: &[u8],
        now: Instant,
        out: &mut Vec<Packet>,
    ) -> Result<usize, ErrorStack> {
        let mut taken = 0;
        while taken < bytes.len()
            && let Some(Object { body: Body::Live(live), .. }) = self.objects.get_mut(&id)
            && !live.has_ended()
        {
            let (more, full) = live.push(&bytes[taken..], now);
            taken += more;
            if full {
                self.cut(id, now, out)?;
            }
        }
        Ok(taken)
    }

    /// Whether a live stream must go on as another one: it has ended, or its numbers or its keys are used up.
    pub fn is_used_up(&self, id: ObjectId) -> bool {
        match self.objects.get(&id) {
            Some(Object { body: Body::Live(live), keys, .. }) => {
                live.has_ended() || keys.latest().is_none_or(|key| key.epoch > LAST_EPOCH)
            }
            _ => true,
        }
    }

    /// When [`Publisher::flush`] has something to do for a live stream.
    pub fn next_flush(&self, id: ObjectId) -> Option<Instant> {
        match &self.objects.get(&id)?.body {
            Body::Live(live) => live.next_flush(),
            Body::File { .. } => None,
        }
    }

    /// Sends what waits for a segment or a block to be full, if it has waited for long enough, or at the `end`.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn flush(&mut self, id: ObjectId, now: Instant, end: bool, out: &mut Vec<Packet>) -> Result<(), ErrorStack> {
        if !end && self.next_flush(id).is_none_or(|at| at > now) {
            return Ok(());
        }
        if let Some(Object { body: Body::Live(live), .. }) = self.objects.get(&id)
            && live.has_begun_segment()
        {
            self.cut(id, now, out)?;
        }
        self.close_block(id, now, out, false)?;
        if end { self.close_block(id, now, out, true) } else { Ok(()) }
    }

    /// Ends the segment that is being filled.
    fn cut(&mut self, id: ObjectId, now: Instant, out: &mut Vec<Packet>) -> Result<(), ErrorStack> {
        let Some(Object { body: Body::Live(live), .. }) = self.objects.get_mut(&id) else { return Ok(()) };
        let Some((segment, full)) = live.cut(now) else { return Ok(()) };
        self.serve_waiting(id, Item { level: 0, segment }, now, out);
        if full { self.close_block(id, now, out, false) } else { Ok(()) }
    }

    /// Signs the block that is being filled. One without segments is closed at the end alone, which it says.
    fn close_block(&mut self, id: ObjectId, now: Instant, out: &mut Vec<Packet>, end: bool) -> Result<(), ErrorStack> {
        let Some(object) = self.objects.get_mut(&id) else { return Ok(()) };
        let Some(name) = object.names.of(1).map(|n| n.text().to_owned()) else { return Ok(()) };
        let Body::Live(live) = &mut object.body else { return Ok(()) };
        let key = &self.key;
        let block = live.close(end, |segment, hashes| Block::signed(key, &name, segment, hashes))?;
        if let Some(segment) = block {
            object.forget_waiting(segment);
            self.serve_waiting(id, Item { level: 1, segment }, now, out);
        }
        match self.objects.get(&id).map(|o| &o.body) {
            Some(Body::Live(live)) if live.is_full() && !live.has_ended() => self.close_block(id, now, out, true),
            _ => Ok(()),
        }
    }

    fn serve_waiting(&mut self, id: ObjectId, item: Item, now: Instant, out: &mut Vec<Packet>) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        if object.waiting.remove(&item).is_none_or(|until| until < now) {
            return;
        }
        let (Some(key), Ok(content)) = (object.key_of(item), object.content(item)) else { return };
        out.extend(self.seal(id, item, key.epoch, &content, None));
    }
}

/// Answer to an Interest.
enum Given {
    Packet(Packet),
    Nack(u8),
    Later,
    JustSent,
}

/// The segment of content at which a block of 40 begins.
fn block_begin(block: u32) -> u32 {
    block.saturating_mul(CHILDREN as u32)
}

/// Whether this is a segment of content of an object of this shape, and where it stands in the file.
fn place(layout: Layout, item: Item) -> Option<(u64, usize)> {
    let bytes = layout.segment_bytes(item).filter(|_| item.level == 0)?;
    Some((u64::from(item.segment) * SEGMENT_BYTES as u64, bytes))
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("objects", &self.objects.len()).field("counts", &self.counts).finish()
    }
}

/// The time within which an Interest shows where a group is.
fn is_recent(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) < RECENTLY
}
