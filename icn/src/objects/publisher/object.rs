// SPDX-License-Identifier: Apache-2.0
//! One object at its publisher.

use super::live::{Gap, Live};
use super::{Content, REKEY_EVERY, REKEYS_FILE, REKEYS_LIVE, WAITING_BLOCKS, block_begin, is_recent, place};
use crate::names::Name;
use crate::objects::object::keys::{GroupKey, KeyRing};
use crate::objects::object::layout::{CHILDREN, Item, Layout};
use crate::objects::object::names::{LevelNames, is_last};
use crate::objects::object::repair::Repair;
use crate::objects::object::sign::Signature;
use crate::objects::object::tree::{Tree, hash};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Where its content is.
pub enum Body {
    /// In a file.
    File {
        /// Layout.
        layout: Layout,
        /// Its hashes.
        tree: Tree,
        /// The file.
        content: Box<dyn Content>,
    },
    /// In memory, as far as it is kept.
    Live(Live),
}

/// Why there is no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The object has no such segment.
    Never,
    /// It has none yet.
    Yet,
    /// The file is no longer what it was.
    Changed,
    /// It would cost too much now.
    Busy,
}

/// The object.
pub struct Object {
    pub name: Name,
    pub manifest: String,
    pub signature: Signature,
    /// When it was signed, in seconds since 1970.
    pub issued_s: u64,
    pub names: LevelNames,
    pub keys: KeyRing,
    pub body: Body,
    pub repair: Option<Repair>,
    pub members: u64,
    /// A member left, and there was no new key since.
    pub left: bool,
    rekeyed: Instant,
    /// New keys that it could have had at once, then.
    rekeys: f64,
    pub asked: Instant,
    /// The highest segment of content that was asked for of late, and when.
    pub foremost: Option<(u32, Instant)>,
    /// Live: what was asked for before it was there, and until when someone waits for it.
    pub waiting: BTreeMap<Item, Instant>,
}

impl Object {
    pub fn new(
        name: Name,
        manifest: String,
        signature: Signature,
        names: LevelNames,
        keys: KeyRing,
        body: Body,
        now: Instant,
    ) -> Object {
        Object {
            name,
            manifest,
            signature,
            issued_s: 0,
            names,
            keys,
            members: 0,
            left: false,
            rekeyed: now,
            rekeys: if matches!(body, Body::Live(_)) { REKEYS_LIVE.0 } else { REKEYS_FILE.0 },
            asked: now,
            foremost: None,
            body,
            repair: None,
            waiting: BTreeMap::new(),
        }
    }

    pub fn is_live(&self) -> bool {
        matches!(self.body, Body::Live(_))
    }

    /// Layout of a file.
    pub fn layout(&self) -> Option<Layout> {
        match &self.body {
            Body::File { layout, .. } => Some(*layout),
            Body::Live(_) => None,
        }
    }

    pub fn tree_bytes(&self) -> u64 {
        match &self.body {
            Body::File { tree, .. } => tree.bytes(),
            Body::Live(_) => 0,
        }
    }

    fn rekeys(&self) -> (f64, Duration) {
        if self.is_live() { REKEYS_LIVE } else { REKEYS_FILE }
    }

    /// When it may have a new key.
    pub fn rekey_at(&self) -> Instant {
        let lacks = (1.0 - self.rekeys).max(0.0);
        self.rekeyed + self.rekeys().1.mul_f64(lacks).max(REKEY_EVERY)
    }

    /// It gets one.
    pub fn pay_rekey(&mut self, now: Instant) {
        let (most, each) = self.rekeys();
        let earned = now.saturating_duration_since(self.rekeyed).as_secs_f64() / each.as_secs_f64();
        self.rekeys = ((self.rekeys + earned).min(most) - 1.0).max(0.0);
        (self.rekeyed, self.left) = (now, false);
    }

    /// Where a new member begins: with the group, so that one packet serves all.
    pub fn begin(&self, now: Instant) -> u32 {
        match &self.body {
            Body::Live(live) => live.begin(),
            Body::File { .. } => self.recent(now).unwrap_or(0),
        }
    }

    fn recent(&self, now: Instant) -> Option<u32> {
        self.foremost.filter(|(_, then)| is_recent(*then, now)).map(|(segment, _)| segment)
    }

    /// A segment of content is asked for: how far ahead of it another was asked for of late.
    pub fn ahead(&mut self, segment: u32, now: Instant) -> u16 {
        let foremost = self.recent(now).unwrap_or(segment);
        if segment >= foremost {
            self.foremost = Some((segment, now));
        }
        u16::try_from(foremost.saturating_sub(segment)).unwrap_or(u16::MAX)
    }

    /// The first segment that a new key seals.
    pub fn next_segment(&self) -> u32 {
        match &self.body {
            Body::Live(live) => live.next_segment(),
            Body::File { .. } => 0,
        }
    }

    /// The key that seals this segment.
    pub fn key_of(&self, item: Item) -> Option<GroupKey> {
        match &self.body {
            Body::File { .. } => self.keys.latest(),
            Body::Live(_) if item.level == 0 => self.keys.for_segment(item.segment),
            Body::Live(_) => self.keys.for_segment(block_begin(item.segment)),
        }
    }

    /// Whether nothing of this level is behind this segment.
    pub fn is_last(&self, item: Item) -> bool {
        match &self.body {
            Body::File { layout, .. } => is_last(*layout, item),
            Body::Live(live) => live.has_ended() && item.level == 1 && item.segment == live.begin() / CHILDREN as u32,
        }
    }

    /// Content of a segment.
    ///
    /// # Errors
    /// It is not there.
    pub fn content(&self, item: Item) -> Result<Vec<u8>, Missing> {
        match &self.body {
            Body::File { tree, .. } if item.level > 0 => tree.segment(item).map(<[u8]>::to_vec).ok_or(Missing::Never),
            Body::File { layout, tree, content } => {
                let (offset, bytes) = place(*layout, item).ok_or(Missing::Never)?;
                let mut buffer = vec![0; bytes];
                // Content that members could not verify is not sealed: the file was written to, or its disk fails.
                let read = content.read_at(offset, &mut buffer);
                match read.is_ok() && tree.of(item) == Some(&hash(0, &buffer)) {
                    true => Ok(buffer),
                    false => Err(Missing::Changed),
                }
            }
            Body::Live(live) => {
                let found = if item.level == 0 { live.segment(item.segment) } else { live.hashes(item.segment) };
                found.map_err(|gap| if gap == Gap::Yet { Missing::Yet } else { Missing::Never })
            }
        }
    }

    /// Whether it has this segment, or will soon. Interests beyond are no evidence about the group.
    pub fn may_have(&self, item: Item) -> bool {
        match &self.body {
            Body::File { layout, .. } => layout.segment_bytes(item).is_some(),
            Body::Live(_) => self.is_near(item),
        }
    }

    /// Live: whether a segment that is not there yet will come soon. So what waits is bounded.
    pub fn is_near(&self, item: Item) -> bool {
        let block = if item.level == 0 { item.segment / CHILDREN as u32 } else { item.segment };
        block <= (self.next_segment() / CHILDREN as u32).saturating_add(WAITING_BLOCKS)
    }

    /// Live: someone waits for a segment that is not there yet. As in a switch the longest time counts.
    pub fn wait(&mut self, item: Item, until: Instant) {
        let waits = self.waiting.entry(item).or_insert(until);
        *waits = until.max(*waits);
    }

    /// Nobody waits any longer for what a closed block does not have.
    pub fn forget_waiting(&mut self, block: u32) {
        let item = |segment| Item { level: 0, segment };
        let range = item(block_begin(block))..item(block_begin(block.saturating_add(1)));
        self.waiting.retain(|waiting, _| !range.contains(waiting));
    }
}
