// SPDX-License-Identifier: Apache-2.0
//! One manifest for all members of an object at an edge server: the first asks the publisher for it, the others for
//! keys alone, and get the manifest from here. Pure: requests and answers are returned as [`Act`]s.

use crate::objects::object::keys::GroupKey;
use crate::objects::object::lines::{ANY_VERSION, Answer, Request};
use crate::objects::object::manifest::Manifest;
use crate::objects::object::sign::Signature;
use std::collections::BTreeMap;

/// Keys that are kept for a member while there is no manifest to send with them: as many as a group has at once.
const MOST_KEPT_KEYS: usize = 64;

/// Action for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act<M> {
    /// Ask the publisher for this member. An earlier request for it is not wanted any longer.
    Ask(M, Request),
    /// Answer a member.
    Tell(M, Answer),
}

/// Answers that a member has had.
#[derive(Debug)]
enum State {
    /// It asks in its own words, for the manifest or with one that it has.
    Asks,
    /// It is to get the manifest from here.
    Spared,
    /// The publisher has answered; the manifest of this version is to come.
    Waits { version: String, begin: u32, keys: Vec<GroupKey> },
    /// It is a member; of this version, if that was sent from here.
    Joined(Option<String>),
}

#[derive(Debug)]
struct Member {
    request: Request,
    state: State,
}

#[derive(Debug)]
struct Signed {
    /// Since before the last [`Sharing::age`].
    is_old: bool,
    version: String,
    manifest: String,
    signature: Signature,
}

impl Signed {
    fn welcome(&self, begin: u32, keys: Vec<GroupKey>) -> Answer {
        Answer::Welcome { manifest: self.manifest.clone(), signature: self.signature, begin, keys }
    }
}

/// State of an object.
#[derive(Debug)]
struct Shared<M> {
    signed: Option<Signed>,
    /// Member for which the publisher is asked for the manifest.
    asker: Option<M>,
}

/// All members, and their common state. An object's state goes with its last member.
#[derive(Debug)]
pub struct Sharing<M> {
    members: BTreeMap<M, Member>,
    objects: BTreeMap<String, Shared<M>>,
}

impl<M> Default for Sharing<M> {
    fn default() -> Sharing<M> {
        Sharing { members: BTreeMap::new(), objects: BTreeMap::new() }
    }
}

impl<M: Copy + Ord> Sharing<M> {
    /// One more wants to be a member.
    pub fn get(&mut self, member: M, request: Request) -> Vec<Act<M>> {
        let shared = self.objects.entry(request.get.clone()).or_insert(Shared { signed: None, asker: None });
        let mut asked = request.clone();
        let state = if request.have.is_some() {
            State::Asks
        } else if shared.signed.is_some() || shared.asker.is_some() {
            asked.have = Some(ANY_VERSION.to_owned());
            State::Spared
        } else {
            shared.asker = Some(member);
            State::Asks
        };
        self.members.insert(member, Member { request, state });
        vec![Act::Ask(member, asked)]
    }

    /// To be called from time to time: a manifest that was here the time before is forgotten, and the next member asks for it.
    /// Subscribers refuse old ones, and its publisher signs it anew.
    pub fn age(&mut self) {
        for shared in self.objects.values_mut() {
            shared.signed.take_if(|signed| std::mem::replace(&mut signed.is_old, true));
        }
    }

    /// The first of those who ask for the same object as the same member.
    pub fn same(&self, request: &Request) -> Option<M> {
        request.member?;
        let same = |m: &Member| m.request.member == request.member && m.request.get == request.get;
        self.members.iter().find(|(_, m)| same(m)).map(|(id, _)| *id)
    }

    /// The publisher answered this for a member. An error is its last answer.
    pub fn answer(&mut self, member: M, answer: Answer) -> Vec<Act<M>> {
        let Some(found) = self.members.get_mut(&member) else { return Vec::new() };
        let name = found.request.get.clone();
        let Some(shared) = self.objects.get_mut(&name) else { return Vec::new() };
        match answer {
            Answer::Error(why) => {
                let mut acts = vec![Act::Tell(member, Answer::Error(why))];
                acts.extend(self.left(member));
                acts
            }
            Answer::Begin { version, begin, keys } if found.request.have.is_none() => {
                match (&found.state, &shared.signed) {
                    // The connection to the publisher is another one.
                    (State::Joined(Some(told)), _) if *told == version => vec![Act::Tell(member, Answer::Keys(keys))],
                    (_, Some(signed)) if signed.version == version => {
                        found.state = State::Joined(Some(version));
                        vec![Act::Tell(member, signed.welcome(begin, keys))]
                    }
                    _ => {
                        found.state = State::Waits { version, begin, keys };
                        self.find_asker(&name)
                    }
                }
            }
            Answer::Keys(new) if matches!(found.state, State::Waits { .. }) => {
                if let State::Waits { keys, .. } = &mut found.state {
                    keys.extend(new);
                    let more = keys.len().saturating_sub(MOST_KEPT_KEYS);
                    keys.drain(..more);
                }
                Vec::new()
            }
            Answer::Welcome { manifest, signature, begin, keys } => {
                let version = Manifest::parse(&manifest).ok().filter(|m| m.name.text() == name).map(|m| m.version);
                found.state = State::Joined(version.clone());
                if shared.asker == Some(member) {
                    shared.asker = None;
                }
                if let Some(version) = version {
                    shared.signed = Some(Signed { is_old: false, version, manifest: manifest.clone(), signature });
                }
                let mut acts = vec![Act::Tell(member, Answer::Welcome { manifest, signature, begin, keys })];
                acts.extend(self.tell_those_who_wait(&name));
                acts.extend(self.find_asker(&name));
                acts
            }
            other => {
                if !matches!(found.state, State::Joined(_)) {
                    found.state = State::Joined(None);
                }
                vec![Act::Tell(member, other)]
            }
        }
    }

    /// A member is none any longer.
    pub fn left(&mut self, member: M) -> Vec<Act<M>> {
        let Some(Member { request, .. }) = self.members.remove(&member) else { return Vec::new() };
        if !self.members.values().any(|m| m.request.get == request.get) {
            self.objects.remove(&request.get);
            return Vec::new();
        }
        if let Some(shared) = self.objects.get_mut(&request.get).filter(|s| s.asker == Some(member)) {
            shared.asker = None;
        }
        self.find_asker(&request.get)
    }

    fn tell_those_who_wait(&mut self, name: &str) -> Vec<Act<M>> {
        let Some(signed) = self.objects.get(name).and_then(|s| s.signed.as_ref()) else { return Vec::new() };
        let mut acts = Vec::new();
        for (id, member) in self.members.iter_mut().filter(|(_, m)| m.request.get == name) {
            match &mut member.state {
                State::Waits { version, begin, keys } if *version == signed.version => {
                    acts.push(Act::Tell(*id, signed.welcome(*begin, std::mem::take(keys))));
                    member.state = State::Joined(Some(signed.version.clone()));
                }
                _ => {}
            }
        }
        acts
    }

    /// If somebody waits for a manifest and nobody asks for it, the first who waits does.
    fn find_asker(&mut self, name: &str) -> Vec<Act<M>> {
        let Some(shared) = self.objects.get_mut(name).filter(|s| s.asker.is_none()) else { return Vec::new() };
        let waits = |m: &Member| m.request.get == name && matches!(m.state, State::Waits { .. });
        let Some((id, member)) = self.members.iter_mut().find(|(_, m)| waits(m)) else { return Vec::new() };
        // The known manifest is of another version.
        (shared.signed, shared.asker, member.state) = (None, Some(*id), State::Asks);
        vec![Act::Ask(*id, member.request.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Name;
    use crate::objects::object::layout::Layout;
    use crate::objects::object::seal::Secret;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NAME: &str = "/weir/files/film";

    fn request() -> Request {
        Request { get: NAME.to_owned(), ..Request::default() }
    }

    fn spared() -> Request {
        Request { have: Some(ANY_VERSION.to_owned()), ..request() }
    }

    fn keys(epoch: u16) -> Vec<GroupKey> {
        vec![GroupKey { epoch, first_segment: 0, secret: Secret([1; 32]) }]
    }

    fn version(number: u8) -> String {
        format!("{number:016x}")
    }

    fn welcome(number: u8, begin: u32) -> Answer {
        let (name, layout) = (Name::new(NAME).unwrap(), Layout::of(1000));
        let top = vec![[7; 32]; layout.map_or(0, |l| l.hashes(l.levels)) as usize];
        let manifest =
            Manifest { name, version: version(number), layout, top, publisher: [9; 32], repair: None, issued_s: None };
        Answer::Welcome { manifest: manifest.text().unwrap(), signature: [number; 64], begin, keys: keys(1) }
    }

    fn begin(number: u8, begin: u32) -> Answer {
        Answer::Begin { version: version(number), begin, keys: keys(1) }
    }

    #[test]
    fn the_manifest_is_asked_for_once() {
        let mut sharing = Sharing::default();
        assert_eq!(sharing.get(1, request()), [Act::Ask(1, request())]);
        assert_eq!(sharing.get(2, request()), [Act::Ask(2, spared())]);
        // The answers cross.
        assert_eq!(sharing.answer(2, begin(5, 20)), []);
        assert_eq!(sharing.answer(2, Answer::Keys(keys(2))), []);
        let both = [keys(1), keys(2)].concat();
        let Answer::Welcome { manifest, signature, .. } = welcome(5, 0) else { unreachable!() };
        let told = Answer::Welcome { manifest, signature, begin: 20, keys: both };
        assert_eq!(sharing.answer(1, welcome(5, 10)), [Act::Tell(1, welcome(5, 10)), Act::Tell(2, told)]);
        sharing.get(3, request());
        assert_eq!(sharing.answer(3, begin(5, 30)), [Act::Tell(3, welcome(5, 30))]);
        assert_eq!(sharing.answer(3, Answer::Keys(keys(3))), [Act::Tell(3, Answer::Keys(keys(3)))]);
        // Repeated on another connection, it is keys.
        assert_eq!(sharing.answer(3, begin(5, 40)), [Act::Tell(3, Answer::Keys(keys(1)))]);
    }

    #[test]
    fn an_old_manifest_is_asked_for_again() {
        let mut sharing = Sharing::default();
        sharing.get(1, request());
        sharing.answer(1, welcome(5, 0));
        sharing.age();
        assert_eq!(sharing.get(2, request()), [Act::Ask(2, spared())]);
        sharing.age();
        assert_eq!(sharing.get(3, request()), [Act::Ask(3, request())]);
        // Until it is here, others wait for it.
        assert_eq!(sharing.answer(2, begin(5, 20)), []);
        assert_eq!(sharing.answer(3, welcome(5, 0)), [Act::Tell(3, welcome(5, 0)), Act::Tell(2, welcome(5, 20))]);
    }

    #[test]
    fn another_version_is_asked_for() {
        let mut sharing = Sharing::default();
        sharing.get(1, request());
        sharing.answer(1, welcome(5, 0));
        sharing.get(2, request());
        assert_eq!(sharing.answer(2, begin(6, 0)), [Act::Ask(2, request())]);
        assert_eq!(sharing.get(3, request()), [Act::Ask(3, spared())]);
        assert_eq!(sharing.answer(3, begin(6, 0)), []);
        assert_eq!(sharing.answer(2, welcome(6, 0)), [Act::Tell(2, welcome(6, 0)), Act::Tell(3, welcome(6, 0))]);
    }

    #[test]
    fn when_the_one_who_asks_goes_the_next_one_asks() {
        let mut sharing = Sharing::default();
        sharing.get(1, request());
        sharing.get(2, request());
        sharing.answer(2, begin(5, 0));
        assert_eq!(sharing.left(1), [Act::Ask(2, request())]);
        sharing.get(3, request());
        sharing.answer(3, begin(5, 0));
        let no = Answer::Error("no".to_owned());
        assert_eq!(sharing.answer(2, no.clone()), [Act::Tell(2, no), Act::Ask(3, request())]);
        assert_eq!(sharing.left(3), []);
        assert!(sharing.members.is_empty() && sharing.objects.is_empty());
    }

    #[test]
    fn who_comes_back_is_known_by_what_it_calls_itself() {
        let mut sharing = Sharing::default();
        let me = Request { member: Some([7; 16]), ..request() };
        assert_eq!(sharing.same(&me), None);
        sharing.get(1, request());
        sharing.get(2, me.clone());
        sharing.get(3, me.clone());
        assert_eq!((sharing.same(&me), sharing.same(&request())), (Some(2), None));
        assert_eq!(sharing.same(&Request { get: "/other".to_owned(), ..me }), None);
    }

    #[test]
    fn who_has_a_manifest_asks_in_his_own_words() {
        let mut sharing = Sharing::default();
        let request = Request { have: Some(version(5)), ..request() };
        assert_eq!(sharing.get(1, request.clone()), [Act::Ask(1, request)]);
        assert_eq!(sharing.answer(1, Answer::Keys(keys(1))), [Act::Tell(1, Answer::Keys(keys(1)))]);
    }

    proptest! {
        /// A publisher that answers what is asked, in any order, while members come and go and the object changes:
        /// nobody is left without an answer, and no member gets a version but the one of the keys that come with it.
        #[test]
        fn all_are_answered(steps in prop::collection::vec((0u8..8, 0u8..12), 0..200)) {
            let mut sharing = Sharing::default();
            let (mut asked, mut told) = (BTreeMap::<u8, Request>::new(), BTreeSet::<u8>::new());
            let mut number = 1;
            let mut done = |acts: Vec<Act<u8>>, asked: &mut BTreeMap<u8, Request>| {
                for act in acts {
                    match act {
                        Act::Ask(member, request) => drop(asked.insert(member, request)),
                        Act::Tell(member, Answer::Welcome { signature, manifest, .. }) => {
                            assert_eq!(Manifest::parse(&manifest).unwrap().version, version(signature[0]));
                            told.insert(member);
                        }
                        Act::Tell(..) => {}
                    }
                }
            };
            let mut here = BTreeSet::new();
            let end = (0..12).cycle().take(60).map(|member| (3, member));
            for (what, member) in steps.into_iter().chain(end) {
                match what {
                    0 if !here.contains(&member) => {
                        here.insert(member);
                        done(sharing.get(member, request()), &mut asked);
                    }
                    1 if here.remove(&member) => {
                        asked.remove(&member);
                        done(sharing.left(member), &mut asked);
                    }
                    2 => number = member + 1,
                    3.. => if let Some(request) = asked.remove(&member) {
                        let answer = if request.have.is_some() { begin(number, 0) } else { welcome(number, 0) };
                        done(sharing.answer(member, answer), &mut asked);
                    },
                    _ => {}
                }
            }
            prop_assert!(asked.is_empty(), "{asked:?}");
            for member in here {
                prop_assert!(told.contains(&member), "{member} was told nothing");
                prop_assert!(matches!(sharing.members[&member].state, State::Joined(_)));
            }
        }
    }
}
