// SPDX-License-Identifier: Apache-2.0
//! Quota of members' streams of a server: bounded in all, and of one source, so that one address can't keep all others
//! out. Pure.
//!
//! Each stream that asked holds a place until it is over or refused.

use super::MemberId;
use std::collections::BTreeMap;
use weir_core::server::admission::Source;

/// Limits of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Holders of the places, for the error.
    pub who: &'static str,
    /// Streams of members, and of those who wait to be one, at once.
    pub most: usize,
    /// Of these, those of one source.
    pub most_of_source: usize,
}

/// Why a stream has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaExceeded {
    /// All have.
    #[error("{who} has {most} subscribers, as many as it takes; try again later", who = .0.who, most = .0.most)]
    All(QuotaLimits),
    /// The source has.
    #[error(
        "{most} subscribers come from your address, as many as {who} takes from one",
        most = .0.most_of_source,
        who = .0.who
    )]
    Source(QuotaLimits),
}

/// Places in use.
#[derive(Debug)]
pub struct Quota {
    limits: QuotaLimits,
    holders: BTreeMap<MemberId, Source>,
    of_source: BTreeMap<Source, usize>,
}

impl Quota {
    /// With so many.
    pub fn new(limits: QuotaLimits) -> Quota {
        Quota { limits, holders: BTreeMap::new(), of_source: BTreeMap::new() }
    }

    /// A stream takes a place. `earlier`: another stream of the same member, if there is one: where there is no place,
    /// it has moved, and gives up that one's. Returns the stream that did so.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn take(
        &mut self,
        stream: MemberId,
        source: Source,
        earlier: Option<MemberId>,
    ) -> Result<Option<MemberId>, QuotaExceeded> {
        let (full, gives_up) = if self.of_source.get(&source).copied().unwrap_or(0) >= self.limits.most_of_source {
            (QuotaExceeded::Source(self.limits), earlier.filter(|earlier| self.holders.get(earlier) == Some(&source)))
        } else if self.holders.len() >= self.limits.most {
            (QuotaExceeded::All(self.limits), earlier.filter(|earlier| self.holders.contains_key(earlier)))
        } else {
            self.put(stream, source);
            return Ok(None);
        };
        let gives_up = gives_up.ok_or(full)?;
        self.give_up(gives_up);
        self.put(stream, source);
        Ok(Some(gives_up))
    }

    fn put(&mut self, stream: MemberId, source: Source) {
        *self.of_source.entry(source).or_default() += 1;
        self.holders.insert(stream, source);
    }

    /// A stream is over, or nothing comes of what it asked for.
    pub fn give_up(&mut self, stream: MemberId) {
        let Some(source) = self.holders.remove(&stream) else { return };
        if let Some(count) = self.of_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&source);
            }
        }
    }

    /// Whether nobody has one.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.of_source.is_empty()
    }

    /// Number of places in use.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.holders.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const LIMITS: QuotaLimits = QuotaLimits { who: "it", most: 4, most_of_source: 2 };

    fn source(last: u8) -> Source {
        IpAddr::from([10, 0, 0, last]).into()
    }

    #[test]
    fn one_source_has_a_part_of_all_and_gets_back_what_it_gives_up() {
        let mut quota = Quota::new(LIMITS);
        assert_eq!((quota.take((1, 0), source(1), None), quota.take((1, 4), source(1), None)), (Ok(None), Ok(None)));
        let full = quota.take((1, 8), source(1), None).unwrap_err();
        assert_eq!(full.to_string(), "2 subscribers come from your address, as many as it takes from one");
        // Others have theirs: as many as there are in all.
        assert_eq!((quota.take((2, 0), source(2), None), quota.take((3, 0), source(3), None)), (Ok(None), Ok(None)));
        let full = quota.take((4, 0), source(4), None).unwrap_err();
        assert_eq!(full.to_string(), "it has 4 subscribers, as many as it takes; try again later");
        quota.give_up((1, 0));
        quota.give_up((1, 0));
        assert_eq!((quota.take((1, 8), source(1), None), quota.count()), (Ok(None), 4));
        assert_eq!(quota.take((1, 12), source(1), None), Err(QuotaExceeded::Source(LIMITS)));
        [(1, 4), (1, 8), (2, 0), (3, 0)].into_iter().for_each(|stream| quota.give_up(stream));
        assert!(quota.is_empty());
    }

    #[test]
    fn who_moved_takes_the_place_that_it_had_and_no_other() {
        let mut quota = Quota::new(LIMITS);
        // Below the limit, the earlier one keeps its place: it may still be there.
        assert_eq!(quota.take((1, 0), source(1), None), Ok(None));
        assert_eq!(quota.take((2, 0), source(1), Some((1, 0))), Ok(None));
        // A full source is helped by its own alone.
        assert_eq!(quota.take((3, 0), source(2), None), Ok(None));
        assert_eq!(quota.take((4, 0), source(1), Some((3, 0))), Err(QuotaExceeded::Source(LIMITS)));
        assert_eq!(quota.take((4, 0), source(1), Some((1, 0))), Ok(Some((1, 0))));
        // A full server by anybody's who still has one.
        assert_eq!(quota.take((5, 0), source(2), None), Ok(None));
        assert_eq!(quota.take((6, 0), source(3), Some((1, 0))), Err(QuotaExceeded::All(LIMITS)));
        assert_eq!(quota.take((6, 0), source(3), Some((5, 0))), Ok(Some((5, 0))));
        assert_eq!(quota.count(), 4);
    }
}
