// SPDX-License-Identifier: Apache-2.0
//! Who is a member of what, on which streams. A member that moved comes back on another connection, while nothing was
//! heard yet of the end of the earlier one: it is one member all the time.

use crate::commands::group::{Leave, MemberId};
use crate::objects::object::lines::Token;
use crate::objects::publisher::ObjectId;
use std::collections::BTreeMap;

/// By what a member is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Token(Token),
    /// It did not say: it is what its stream is.
    Stream(MemberId),
}

#[derive(Debug, Clone, Copy)]
struct Membership {
    object: ObjectId,
    who: Who,
    /// The first epoch that it has a key for.
    since: u16,
}

impl Membership {
    fn is(&self, other: &Membership) -> bool {
        (self.object, self.who) == (other.object, other.who)
    }
}

/// All members, by stream.
#[derive(Debug, Default)]
pub struct Members {
    streams: BTreeMap<MemberId, Membership>,
}

impl Members {
    /// Since which epoch this one is a member already, on another stream.
    pub fn since(&self, object: ObjectId, token: Option<Token>) -> Option<u16> {
        let who = Who::Token(token?);
        self.streams.values().find(|m| m.object == object && m.who == who).map(|m| m.since)
    }

    /// A stream is a member's; `since` is the first epoch that it was told the key of.
    pub fn add(&mut self, stream: MemberId, object: ObjectId, token: Option<Token>, since: u16) {
        let who = token.map_or(Who::Stream(stream), Who::Token);
        self.streams.insert(stream, Membership { object, who, since });
    }

    /// A stream is over. The object that has a member less, if there is one: who said that it leaves has left on all its
    /// streams, and who was not heard any longer may be there on another one.
    pub fn end(&mut self, stream: MemberId, how: Leave) -> Option<ObjectId> {
        let ended = self.streams.remove(&stream)?;
        match how {
            Leave::Said => self.streams.retain(|_, m| !m.is(&ended)),
            Leave::Silent if self.streams.values().any(|m| m.is(&ended)) => return None,
            Leave::Silent => {}
        }
        Some(ended.object)
    }

    /// The streams of an object's members.
    pub fn of(&self, object: ObjectId) -> impl Iterator<Item = MemberId> {
        self.streams.iter().filter(move |(_, m)| m.object == object).map(|(stream, _)| *stream)
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        let all: Vec<_> = self.streams.values().collect();
        (0..all.len()).filter(|i| !all[..*i].iter().any(|m| m.is(all[*i]))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Option<Token> = Some([7; 16]);

    #[test]
    fn one_who_comes_back_did_not_leave() {
        let mut members = Members::default();
        members.add((1, 0), 5, WHO, 3);
        members.add((2, 0), 5, Some([8; 16]), 4);
        assert_eq!((members.since(5, WHO), members.since(6, WHO), members.since(5, None)), (Some(3), None, None));
        members.add((3, 4), 5, WHO, 3);
        assert_eq!((members.count(), members.of(5).count()), (2, 3));
        assert_eq!(members.end((1, 0), Leave::Silent), None);
        assert_eq!(members.end((1, 0), Leave::Silent), None);
        assert_eq!(members.end((3, 4), Leave::Silent), Some(5));
        assert_eq!(members.of(5).collect::<Vec<_>>(), [(2, 0)]);
    }

    #[test]
    fn one_who_says_that_it_leaves_has_left_everywhere() {
        let mut members = Members::default();
        members.add((1, 0), 5, WHO, 1);
        members.add((2, 0), 5, WHO, 1);
        members.add((2, 4), 6, WHO, 1);
        assert_eq!(members.end((2, 0), Leave::Said), Some(5));
        assert_eq!(members.end((1, 0), Leave::Silent), None);
        assert_eq!(members.count(), 1);
    }

    #[test]
    fn who_does_not_say_who_it_is_is_another_each_time() {
        let mut members = Members::default();
        members.add((1, 0), 5, None, 1);
        members.add((2, 0), 5, None, 1);
        assert_eq!(members.count(), 2);
        assert_eq!((members.end((1, 0), Leave::Silent), members.end((2, 0), Leave::Silent)), (Some(5), Some(5)));
    }
}
