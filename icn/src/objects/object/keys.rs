// SPDX-License-Identifier: Apache-2.0
//! The keys of a group: one secret for each epoch.

use super::names::LevelNames;
use super::seal::{Sealer, Secret};
use crate::names::Name;
use crate::packet::Header;
use boring::error::ErrorStack;
use std::collections::BTreeMap;

/// Epochs whose keys are kept: what caches have from older ones is fetched anew.
pub const MOST_EPOCHS: usize = 64;

/// A key of a group as the publisher hands it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupKey {
    /// From 1; it stands in the packets.
    pub epoch: u16,
    /// The first segment of content that it may seal. 0 for files, whose segments are all sealed anew.
    pub first_segment: u32,
    /// The secret.
    pub secret: Secret,
}

/// Keys of the latest epochs, with what is derived from them.
#[derive(Debug)]
pub struct KeyRing {
    names: LevelNames,
    epochs: BTreeMap<u16, Epoch>,
}

#[derive(Debug)]
struct Epoch {
    key: GroupKey,
    // With their levels.
    sealers: Vec<(u8, Sealer)>,
}

impl KeyRing {
    /// Without keys, for packets of these names.
    pub fn new(names: LevelNames) -> KeyRing {
        KeyRing { names, epochs: BTreeMap::new() }
    }

    /// Adds a key; drops the oldest when there are too many. Another secret for an epoch that is there, or an epoch far
    /// from the latest, says that the publisher began anew: its earlier keys seal nothing any longer, and go.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn add(&mut self, key: GroupKey) -> Result<(), ErrorStack> {
        match self.epochs.get(&key.epoch) {
            Some(there) if there.key.secret == key.secret => return Ok(()),
            Some(_) => self.epochs.clear(),
            None if self.latest().is_some_and(|k| usize::from(k.epoch.abs_diff(key.epoch)) > MOST_EPOCHS) => {
                self.epochs.clear();
            }
            None => {}
        }
        let sealer = |(level, name): (u8, &Name)| Sealer::new(&key.secret, name.text()).map(|s| (level, s));
        let sealers = self.names.iter().map(sealer).collect::<Result<_, _>>()?;
        self.epochs.insert(key.epoch, Epoch { key, sealers });
        if self.epochs.len() > MOST_EPOCHS {
            self.epochs.pop_first();
        }
        Ok(())
    }

    /// The latest.
    pub fn latest(&self) -> Option<GroupKey> {
        self.epochs.last_key_value().map(|(_, e)| e.key)
    }

    /// All there are, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = GroupKey> {
        self.epochs.values().map(|e| e.key)
    }

    /// Whether there is a key for this epoch.
    pub fn has(&self, epoch: u16) -> bool {
        self.epochs.contains_key(&epoch)
    }

    /// The key that seals a segment of content: the latest whose first segment is not behind it.
    pub fn for_segment(&self, segment: u32) -> Option<GroupKey> {
        self.all().filter(|k| k.first_segment <= segment).last()
    }

    /// Seals content for the packet with this header, whose epoch is one there is.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn seal(&mut self, level: u8, header: &Header, content: &[u8]) -> Result<Option<Vec<u8>>, ErrorStack> {
        self.sealer(level, header.epoch).map(|s| s.seal(header, content)).transpose()
    }

    /// Opens a payload; `None` if no key that there is sealed it.
    pub fn open(&mut self, level: u8, header: &Header, payload: &[u8]) -> Option<Vec<u8>> {
        self.sealer(level, header.epoch)?.open(header, payload)
    }

    fn sealer(&mut self, level: u8, epoch: u16) -> Option<&mut Sealer> {
        let sealers = &mut self.epochs.get_mut(&epoch)?.sealers;
        sealers.iter_mut().find(|(of, _)| *of == level).map(|(_, sealer)| sealer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[(u16, u32)]) -> KeyRing {
        let names = LevelNames::new(&Name::new("/a").unwrap(), "0123456789abcdef", 3).unwrap();
        let mut ring = KeyRing::new(names);
        for &(epoch, first_segment) in keys {
            let secret = Secret([epoch as u8; 32]);
            ring.add(GroupKey { epoch, first_segment, secret }).unwrap();
        }
        ring
    }

    #[test]
    fn a_segment_has_the_key_that_was_in_force_when_it_came() {
        let ring = ring(&[(1, 0), (2, 100), (3, 200)]);
        let epoch = |segment| ring.for_segment(segment).unwrap().epoch;
        assert_eq!((epoch(0), epoch(99), epoch(100), epoch(199), epoch(u32::MAX)), (1, 1, 2, 2, 3));
    }

    #[test]
    fn what_one_epoch_seals_no_other_opens() {
        let (mut all, mut first) = (ring(&[(1, 0), (2, 0)]), ring(&[(1, 0)]));
        let mut header = Header::data(all.names.of(0).unwrap(), 5, 0);
        header.epoch = 2;
        let payload = all.seal(0, &header, b"secret").unwrap().unwrap();
        assert_eq!(all.open(0, &header, &payload).as_deref(), Some(&b"secret"[..]));
        assert_eq!(first.open(0, &header, &payload), None);
        assert_eq!(all.open(1, &header, &payload), None);
        header.epoch = 1;
        assert_eq!(all.open(0, &header, &payload), None);
    }

    #[test]
    fn a_publisher_that_began_anew_has_other_keys() {
        let mut ring = ring(&[(1, 0), (2, 0)]);
        ring.add(GroupKey { epoch: 1, first_segment: 7, secret: Secret([1; 32]) }).unwrap();
        assert_eq!(ring.all().map(|k| (k.epoch, k.first_segment)).collect::<Vec<_>>(), [(1, 0), (2, 0)]);
        ring.add(GroupKey { epoch: 1, first_segment: 0, secret: Secret([9; 32]) }).unwrap();
        assert_eq!(ring.all().map(|k| (k.epoch, k.secret)).collect::<Vec<_>>(), [(1, Secret([9; 32]))]);
        for epoch in [30_000, 7] {
            ring.add(GroupKey { epoch, first_segment: 0, secret: Secret([3; 32]) }).unwrap();
            assert_eq!(ring.all().map(|k| k.epoch).collect::<Vec<_>>(), [epoch]);
        }
    }

    #[test]
    fn old_keys_are_dropped() {
        let keys: Vec<_> = (1..=MOST_EPOCHS as u16 + 3).map(|e| (e, 0)).collect();
        let ring = ring(&keys);
        assert_eq!(ring.all().count(), MOST_EPOCHS);
        assert!(!ring.has(3) && ring.has(4));
    }
}
