// SPDX-License-Identifier: Apache-2.0
//! Members of each object, with their streams. A member that moved comes back on another connection, while nothing was
//! heard yet of the end of the earlier one: it is one member all the time.

use crate::commands::group::{Leave, MemberId, Quota, QuotaExceeded, QuotaLimits};
use crate::objects::object::lines::Token;
use crate::objects::publisher::{MOST_OBJECTS, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::server::admission::Source;

/// Of one source there are members of four edge servers, or a subscriber on each of the connections that it may have and some
/// for those who move.
const LIMITS: QuotaLimits = QuotaLimits { who: "the publisher", most: 16_384, most_of_source: 2048 };

/// Objects of which one source, which may be an edge server, has members: a quarter of those that are offered at once, so
/// that one address can't keep others from theirs.
const OBJECTS_OF_SOURCE: usize = MOST_OBJECTS / 4;

/// By what a member is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Token(Token),
    /// It did not say: it is what its stream is.
    Stream(MemberId),
}

/// One who is a member of an object's group.
type Key = (ObjectId, Who);

#[derive(Debug)]
struct Member {
    /// The first epoch that it has a key for.
    since: u16,
    streams: BTreeSet<MemberId>,
}

/// All members, and the places of their streams.
#[derive(Debug)]
pub struct Members {
    quota: Quota,
    streams: BTreeMap<MemberId, Place>,
    members: BTreeMap<Key, Member>,
    /// Streams of each source that are members' of each object.
    objects: BTreeMap<Source, BTreeMap<ObjectId, usize>>,
}

/// A stream that has a place.
#[derive(Debug)]
struct Place {
    source: Source,
    member: Option<Key>,
}

impl Default for Members {
    fn default() -> Members {
        Members {
            quota: Quota::new(LIMITS),
            streams: BTreeMap::new(),
            members: BTreeMap::new(),
            objects: BTreeMap::new(),
        }
    }
}

impl Members {
    /// A stream asks for an object (if it is offered already) with this token. Where there is no place for it, a member
    /// on another stream gives up the place of the earliest of these: it has moved. Returns that stream.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn enter(
        &mut self,
        stream: MemberId,
        source: Source,
        object: Option<ObjectId>,
        token: Option<Token>,
    ) -> Result<Option<MemberId>, QuotaExceeded> {
        let key = object.zip(token).map(|(object, token)| (object, Who::Token(token)));
        let member = key.and_then(|key| self.members.get_key_value(&key));
        let earlier = member.and_then(|(key, m)| Some((*key, *m.streams.first()?)));
        let moved = self.quota.take(stream, source, earlier.map(|(_, stream)| stream))?;
        let earlier = earlier.filter(|_| moved.is_some());
        if let Some((key, old)) = earlier {
            self.forget(old);
            if let Some(member) = self.members.get_mut(&key) {
                member.streams.remove(&old);
                member.streams.insert(stream);
            }
        }
        self.streams.insert(stream, Place { source, member: None });
        if let Some((key, _)) = earlier {
            self.hold(stream, key);
        }
        Ok(moved)
    }

    fn give_up_place(&mut self, stream: MemberId) -> Option<Key> {
        self.quota.give_up(stream);
        self.forget(stream)
    }

    /// A stream is the one of a member; the member that it was before.
    fn hold(&mut self, stream: MemberId, key: Key) -> Option<Key> {
        let place = self.streams.get_mut(&stream)?;
        let (source, old) = (place.source, place.member.replace(key));
        *self.objects.entry(source).or_default().entry(key.0).or_default() += 1;
        if let Some((object, _)) = old {
            self.release(source, object);
        }
        old
    }

    fn release(&mut self, source: Source, object: ObjectId) {
        let Some(objects) = self.objects.get_mut(&source) else { return };
        if let Some(streams) = objects.get_mut(&object) {
            *streams -= 1;
            if *streams == 0 {
                objects.remove(&object);
            }
        }
        if objects.is_empty() {
            self.objects.remove(&source);
        }
    }

    fn forget(&mut self, stream: MemberId) -> Option<Key> {
        let Place { source, member } = self.streams.remove(&stream)?;
        if let Some((object, _)) = member {
            self.release(source, object);
        }
        member
    }

    /// Whether a source has as many objects in use as it may. `object`: one that it asks for, if it is offered.
    pub fn has_its_objects(&self, source: Source, object: Option<ObjectId>, more: usize) -> bool {
        let Some(objects) = self.objects.get(&source) else { return more >= OBJECTS_OF_SOURCE };
        let known = object.is_some_and(|object| objects.contains_key(&object));
        !known && objects.len() + more >= OBJECTS_OF_SOURCE
    }

    /// Since which epoch this one is a member already, on another stream.
    pub fn since(&self, object: ObjectId, token: Option<Token>) -> Option<u16> {
        self.members.get(&(object, Who::Token(token?))).map(|m| m.since)
    }

    /// A stream that has a place is a member's; `since` is the first epoch whose key it got.
    pub fn add(&mut self, stream: MemberId, object: ObjectId, token: Option<Token>, since: u16) {
        if !self.streams.contains_key(&stream) {
            return;
        }
        let key = (object, token.map_or(Who::Stream(stream), Who::Token));
        // It came back for what is another object now, whose group nobody needs to leave.
        if let Some(old) = self.hold(stream, key).filter(|old| *old != key)
            && let Some(member) = self.members.get_mut(&old)
        {
            member.streams.remove(&stream);
            if member.streams.is_empty() {
                self.members.remove(&old);
            }
        }
        let new = || Member { since, streams: BTreeSet::new() };
        self.members.entry(key).or_insert_with(new).streams.insert(stream);
    }

    /// A stream is over, or nothing comes of what it asked for (`Silent`). The object that has a member less, if there is one: who said that it leaves has left on all its
    /// streams, and who was not heard any longer may be there on another one.
    pub fn end(&mut self, stream: MemberId, how: Leave) -> Option<ObjectId> {
        let key = self.give_up_place(stream)?;
        let member = self.members.get_mut(&key)?;
        member.streams.remove(&stream);
        if how == Leave::Silent && !member.streams.is_empty() {
            return None;
        }
        for other in self.members.remove(&key)?.streams {
            self.give_up_place(other);
        }
        Some(key.0)
    }

    /// The streams of an object's members.
    pub fn of(&self, object: ObjectId) -> impl Iterator<Item = MemberId> {
        let from = (object, Who::Token(Token::default()));
        let members = self.members.range(from..).take_while(move |((of, _), _)| *of == object);
        members.flat_map(|(_, member)| member.streams.iter().copied())
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const WHO: Option<Token> = Some([7; 16]);

    fn source(last: u8) -> Source {
        IpAddr::from([10, 0, 0, last]).into()
    }

    impl Members {
        /// A stream asks, and is a member's.
        fn join(&mut self, stream: MemberId, object: ObjectId, token: Option<Token>, since: u16) {
            self.enter(stream, source(1), None, None).unwrap();
            self.add(stream, object, token, since);
        }
    }

    #[test]
    fn one_who_comes_back_did_not_leave() {
        let mut members = Members::default();
        members.join((1, 0), 5, WHO, 3);
        members.join((2, 0), 5, Some([8; 16]), 4);
        assert_eq!((members.since(5, WHO), members.since(6, WHO), members.since(5, None)), (Some(3), None, None));
        members.join((3, 4), 5, WHO, 3);
        members.join((4, 0), 6, None, 3);
        assert_eq!((members.count(), members.of(5).count(), members.of(6).count()), (3, 3, 1));
        assert_eq!(members.end((1, 0), Leave::Silent), None);
        assert_eq!(members.end((1, 0), Leave::Silent), None);
        assert_eq!(members.end((3, 4), Leave::Silent), Some(5));
        assert_eq!(members.of(5).collect::<Vec<_>>(), [(2, 0)]);
    }

    #[test]
    fn one_who_says_that_it_leaves_has_left_everywhere() {
        let mut members = Members::default();
        members.join((1, 0), 5, WHO, 1);
        members.join((2, 0), 5, WHO, 1);
        members.join((2, 4), 6, WHO, 1);
        assert_eq!(members.end((2, 0), Leave::Said), Some(5));
        assert_eq!(members.end((1, 0), Leave::Silent), None);
        assert_eq!(members.count(), 1);
    }

    #[test]
    fn who_does_not_say_who_it_is_is_another_each_time() {
        let mut members = Members::default();
        members.join((1, 0), 5, None, 1);
        members.join((2, 0), 5, None, 1);
        assert_eq!(members.count(), 2);
        assert_eq!((members.end((1, 0), Leave::Silent), members.end((2, 0), Leave::Silent)), (Some(5), Some(5)));
    }

    #[test]
    fn one_source_has_a_part_of_all_places_and_gets_back_what_it_gives_up() {
        let mut members = Members::default();
        let most = LIMITS.most_of_source as u64;
        for stream in 0..most {
            members.join((stream / 64, stream % 64 * 4), 5, None, 1);
        }
        let enter = |members: &mut Members, stream, from| members.enter(stream, from, Some(5), WHO);
        assert_eq!(enter(&mut members, (99, 0), source(1)), Err(QuotaExceeded::Source(LIMITS)));
        assert!(QuotaExceeded::Source(LIMITS).to_string().starts_with("2048 subscribers come from your address"));
        // Others have theirs: as many as there are in all.
        for i in 0..LIMITS.most as u64 - most {
            assert_eq!(enter(&mut members, (100 + i, 0), source(2 + (i / most) as u8)), Ok(None));
        }
        assert_eq!(enter(&mut members, (1 << 40, 0), source(99)), Err(QuotaExceeded::All(LIMITS)));
        assert!(QuotaExceeded::All(LIMITS).to_string().contains("16384 subscribers"));
        assert_eq!(members.count(), LIMITS.most_of_source);
        // A stream that leaves or is rejected makes room.
        assert_eq!(members.end((0, 0), Leave::Said), Some(5));
        assert_eq!((members.end((100, 0), Leave::Silent), members.end((100, 0), Leave::Silent)), (None, None));
        assert_eq!(enter(&mut members, (99, 0), source(1)), Ok(None));
        assert_eq!(enter(&mut members, (99, 4), source(1)), Err(QuotaExceeded::Source(LIMITS)));
        assert_eq!(enter(&mut members, (1 << 40, 0), source(99)), Ok(None));
        assert_eq!(enter(&mut members, (1 << 40, 4), source(99)), Err(QuotaExceeded::All(LIMITS)));
        for stream in members.streams.keys().copied().collect::<Vec<_>>() {
            members.end(stream, Leave::Silent);
        }
        assert!(members.quota.is_empty() && members.streams.is_empty() && members.members.is_empty());
        assert!(members.objects.is_empty());
    }

    #[test]
    fn one_source_has_members_of_a_part_of_all_objects() {
        let mut members = Members::default();
        for i in 0..OBJECTS_OF_SOURCE as u64 {
            assert!(!members.has_its_objects(source(1), Some(i), 0));
            members.join((1, 4 * i), i, Some([1; 16]), 1);
        }
        let full = |members: &Members, object| members.has_its_objects(source(1), object, 0);
        assert!(full(&members, Some(5000)) && full(&members, None) && !full(&members, Some(7)));
        assert!(!members.has_its_objects(source(2), Some(5000), OBJECTS_OF_SOURCE - 1));
        assert!(members.has_its_objects(source(2), Some(5000), OBJECTS_OF_SOURCE));
        // Two streams of one object count once, until both are over.
        members.join((2, 0), 7, None, 1);
        members.end((1, 28), Leave::Said);
        assert!(full(&members, Some(5000)));
        members.end((2, 0), Leave::Silent);
        assert!(!full(&members, Some(5000)));
    }

    #[test]
    fn a_member_that_moves_takes_the_place_that_it_had() {
        let mut members = Members::default();
        members.join((1, 0), 5, WHO, 3);
        for i in 1..LIMITS.most_of_source as u64 {
            members.join((9, 4 * i), 5, None, 3);
        }
        assert_eq!(members.enter((2, 0), source(1), Some(6), WHO), Err(QuotaExceeded::Source(LIMITS)));
        assert_eq!(members.enter((2, 0), source(1), Some(5), WHO), Ok(Some((1, 0))));
        members.add((2, 0), 5, WHO, 3);
        // The end of the earlier stream is not the member's.
        assert_eq!((members.end((1, 0), Leave::Said), members.since(5, WHO)), (None, Some(3)));
        assert_eq!((members.count(), members.quota.count()), (LIMITS.most_of_source, LIMITS.most_of_source));
        // It comes back once more, for a file that has changed meanwhile.
        assert_eq!(members.enter((3, 0), source(1), Some(5), WHO), Ok(Some((2, 0))));
        members.add((3, 0), 7, WHO, 3);
        assert_eq!((members.since(5, WHO), members.since(7, WHO)), (None, Some(3)));
        assert_eq!(members.end((3, 0), Leave::Silent), Some(7));
        assert_eq!(members.count(), LIMITS.most_of_source - 1);
    }
}
