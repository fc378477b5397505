// SPDX-License-Identifier: Apache-2.0
//! Who is a member of what, on which streams. A member that moved comes back on another connection, while nothing was
//! heard yet of the end of the earlier one: it is one member all the time.
//!
//! Each stream that asked holds a place until it is over or refused. Places are bounded, in all and of one source.

use crate::commands::group::{Leave, MemberId};
use crate::objects::object::lines::Token;
use crate::objects::publisher::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::server::admission::Source;

/// Streams of members, and of those who wait to be one, at once.
const MOST: usize = 16_384;
/// Of these, those of one source: members of four edge servers, or a subscriber on each of the connections that it may have
/// and some for those who move.
const MOST_OF_SOURCE: usize = 2048;

/// Why a stream has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All have.
    #[error("the publisher has {MOST} subscribers, as many as it takes; try again later")]
    All,
    /// The source has.
    #[error("{MOST_OF_SOURCE} subscribers come from your address, as many as the publisher takes from one")]
    Source,
}

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

#[derive(Debug)]
struct Place {
    source: Source,
    member: Option<Key>,
}

/// All members, and the places of their streams.
#[derive(Debug, Default)]
pub struct Members {
    places: BTreeMap<MemberId, Place>,
    of_source: BTreeMap<Source, usize>,
    members: BTreeMap<Key, Member>,
}

impl Members {
    /// A stream asks for an object (if it is offered already) with this token. Where there is no place for it, one who is a
    /// member on another stream gives up the place of the earliest of these: it has moved. Which one that was.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn enter(
        &mut self,
        stream: MemberId,
        source: Source,
        object: Option<ObjectId>,
        token: Option<Token>,
    ) -> Result<Option<MemberId>, Full> {
        let key = object.zip(token).map(|(object, token)| (object, Who::Token(token)));
        let member = key.and_then(|key| self.members.get_key_value(&key));
        let earlier = member.and_then(|(key, m)| Some((*key, *m.streams.first()?)));
        let of_source = self.of_source.get(&source).copied().unwrap_or(0);
        let (full, helps) = match () {
            () if of_source >= MOST_OF_SOURCE => {
                let same = earlier.is_some_and(|(_, e)| self.places.get(&e).is_some_and(|p| p.source == source));
                (Some(Full::Source), same)
            }
            () if self.places.len() >= MOST => (Some(Full::All), true),
            () => (None, false),
        };
        let earlier = match (full, earlier.filter(|_| helps)) {
            (None, _) => None,
            (Some(full), None) => return Err(full),
            (Some(_), Some(earlier)) => Some(earlier),
        };
        if let Some((key, old)) = earlier {
            self.give_up_place(old);
            if let Some(member) = self.members.get_mut(&key) {
                member.streams.remove(&old);
                member.streams.insert(stream);
            }
        }
        *self.of_source.entry(source).or_default() += 1;
        self.places.insert(stream, Place { source, member: earlier.map(|(key, _)| key) });
        Ok(earlier.map(|(_, old)| old))
    }

    fn give_up_place(&mut self, stream: MemberId) -> Option<Place> {
        let place = self.places.remove(&stream)?;
        if let Some(count) = self.of_source.get_mut(&place.source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&place.source);
            }
        }
        Some(place)
    }

    /// Since which epoch this one is a member already, on another stream.
    pub fn since(&self, object: ObjectId, token: Option<Token>) -> Option<u16> {
        self.members.get(&(object, Who::Token(token?))).map(|m| m.since)
    }

    /// A stream that has a place is a member's; `since` is the first epoch that it was told the key of.
    pub fn add(&mut self, stream: MemberId, object: ObjectId, token: Option<Token>, since: u16) {
        let Some(place) = self.places.get_mut(&stream) else { return };
        let key = (object, token.map_or(Who::Stream(stream), Who::Token));
        // It came back for what is another object now, whose group nobody needs to leave.
        if let Some(old) = place.member.replace(key).filter(|old| *old != key)
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
        let key = self.give_up_place(stream)?.member?;
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

    /// How many members there are.
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
        let most = MOST_OF_SOURCE as u64;
        for stream in 0..most {
            members.join((stream / 64, stream % 64 * 4), 5, None, 1);
        }
        let enter = |members: &mut Members, stream, from| members.enter(stream, from, Some(5), WHO);
        assert_eq!(enter(&mut members, (99, 0), source(1)), Err(Full::Source));
        assert!(Full::Source.to_string().starts_with("2048 subscribers come from your address"));
        // Others have theirs: as many as there are in all.
        for i in 0..MOST as u64 - most {
            assert_eq!(enter(&mut members, (100 + i, 0), source(2 + (i / most) as u8)), Ok(None));
        }
        assert_eq!(enter(&mut members, (1 << 40, 0), source(99)), Err(Full::All));
        assert!(Full::All.to_string().contains("16384 subscribers"));
        assert_eq!(members.count(), MOST_OF_SOURCE);
        // Whoever leaves makes room, or is refused.
        assert_eq!(members.end((0, 0), Leave::Said), Some(5));
        assert_eq!((members.end((100, 0), Leave::Silent), members.end((100, 0), Leave::Silent)), (None, None));
        assert_eq!(enter(&mut members, (99, 0), source(1)), Ok(None));
        assert_eq!(enter(&mut members, (99, 4), source(1)), Err(Full::Source));
        assert_eq!(enter(&mut members, (1 << 40, 0), source(99)), Ok(None));
        assert_eq!(enter(&mut members, (1 << 40, 4), source(99)), Err(Full::All));
        for stream in members.places.keys().copied().collect::<Vec<_>>() {
            members.end(stream, Leave::Silent);
        }
        assert!(members.places.is_empty() && members.of_source.is_empty() && members.members.is_empty());
    }

    #[test]
    fn a_member_that_moves_takes_the_place_that_it_had() {
        let mut members = Members::default();
        members.join((1, 0), 5, WHO, 3);
        for i in 1..MOST_OF_SOURCE as u64 {
            members.join((9, 4 * i), 5, None, 3);
        }
        assert_eq!(members.enter((2, 0), source(1), Some(6), WHO), Err(Full::Source));
        assert_eq!(members.enter((2, 0), source(1), Some(5), WHO), Ok(Some((1, 0))));
        members.add((2, 0), 5, WHO, 3);
        // What is heard of the earlier stream's end says nothing of the member.
        assert_eq!((members.end((1, 0), Leave::Said), members.since(5, WHO)), (None, Some(3)));
        assert_eq!((members.count(), members.places.len()), (MOST_OF_SOURCE, MOST_OF_SOURCE));
        // It comes back once more, for a file that has changed meanwhile.
        assert_eq!(members.enter((3, 0), source(1), Some(5), WHO), Ok(Some((2, 0))));
        members.add((3, 0), 7, WHO, 3);
        assert_eq!((members.since(5, WHO), members.since(7, WHO)), (None, Some(3)));
        assert_eq!(members.end((3, 0), Leave::Silent), Some(7));
        assert_eq!(members.count(), MOST_OF_SOURCE - 1);
    }
}
