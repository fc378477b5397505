// SPDX-License-Identifier: Apache-2.0
//! Digests gathered into lists, and sent lists kept until it is acknowledged (P4Runtime 9.8). Pure: time comes in.
use std::collections::{BTreeMap, HashSet, VecDeque};
use weir_p4::value::Val;

/// One digest's settings, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub max_timeout_ns: u64,
    /// 0: no limit of its own.
    pub max_list_size: usize,
    pub ack_timeout_ns: u64,
}

/// A list is sent at this length even when the controller set no limit: a message must stay below 4 MB.
const MAX_LIST: usize = 4096;
/// Sent and unacknowledged messages kept for one digest; beyond it the oldest list is taken as acknowledged.
const MAX_KEPT: usize = 65536;

#[derive(Debug, PartialEq)]
pub struct List {
    /// Index in P4Info's digests.
    pub digest: usize,
    pub list_id: u64,
    pub messages: Vec<Vec<Val>>,
}

struct Sent {
    list_id: u64,
    at_ns: u64,
    messages: Vec<Vec<Val>>,
}

struct State {
    settings: Settings,
    waiting: Vec<Vec<Val>>,
    /// When the first of `waiting` came.
    since_ns: u64,
    last_list: u64,
    sent: VecDeque<Sent>,
    /// All of `waiting` and `sent`.
    known: HashSet<Vec<Val>>,
}

/// Only digests that a controller has enabled are in it.
#[derive(Default)]
pub struct Digests(BTreeMap<usize, State>);

impl Digests {
    /// Enables, changes or (`None`) disables a digest.
    pub fn set(&mut self, digest: usize, settings: Option<Settings>) {
        match settings {
            Some(settings) => {
                let new = || State {
                    settings,
                    waiting: Vec::new(),
                    since_ns: 0,
                    last_list: 0,
                    sent: VecDeque::new(),
                    known: HashSet::new(),
                };
                self.0.entry(digest).or_insert_with(new).settings = settings;
            }
            None => {
                self.0.remove(&digest);
            }
        }
    }

    /// A message from the data plane; a list when one is full by it.
    pub fn push(&mut self, digest: usize, message: Vec<Val>, now_ns: u64) -> Option<List> {
        let s = self.0.get_mut(&digest)?;
        s.expire(now_ns);
        if !s.known.insert(message.clone()) {
            return None;
        }
        if s.waiting.is_empty() {
            s.since_ns = now_ns;
        }
        s.waiting.push(message);
        let limit = if s.settings.max_list_size == 0 { MAX_LIST } else { s.settings.max_list_size.min(MAX_LIST) };
        let full = s.waiting.len() >= limit || s.settings.max_timeout_ns == 0;
        full.then(|| s.send(digest, now_ns))
    }

    /// Lists whose first message has waited long enough.
    pub fn due(&mut self, now_ns: u64) -> Vec<List> {
        let due = |s: &State| !s.waiting.is_empty() && now_ns >= s.since_ns.saturating_add(s.settings.max_timeout_ns);
        self.0.iter_mut().filter(|(_, s)| due(s)).map(|(i, s)| s.send(*i, now_ns)).collect()
    }

    /// When [`Digests::due`] has something to give.
    pub fn next_ns(&self) -> Option<u64> {
        let waiting = self.0.values().filter(|s| !s.waiting.is_empty());
        waiting.map(|s| s.since_ns.saturating_add(s.settings.max_timeout_ns)).min()
    }

    /// Takes all that was sent as acknowledged: another controller may be the primary now, which has seen none of it.
    pub fn forget(&mut self) {
        for s in self.0.values_mut() {
            for m in s.sent.drain(..).flat_map(|l| l.messages) {
                s.known.remove(&m);
            }
        }
    }

    /// The controller has seen a list. False: the digest is not enabled.
    pub fn acknowledge(&mut self, digest: usize, list_id: u64) -> bool {
        let Some(s) = self.0.get_mut(&digest) else { return false };
        if let Some(at) = s.sent.iter().position(|l| l.list_id == list_id)
            && let Some(list) = s.sent.remove(at)
        {
            list.messages.iter().for_each(|m| {
                s.known.remove(m);
            });
        }
        true
    }
}

impl State {
    fn send(&mut self, digest: usize, now_ns: u64) -> List {
        self.last_list += 1;
        let messages = std::mem::take(&mut self.waiting);
        if self.settings.ack_timeout_ns == 0 {
            messages.iter().for_each(|m| {
                self.known.remove(m);
            });
        } else {
            self.sent.push_back(Sent { list_id: self.last_list, at_ns: now_ns, messages: messages.clone() });
        }
        List { digest, list_id: self.last_list, messages }
    }

    fn expire(&mut self, now_ns: u64) {
        loop {
            let Some(oldest) = self.sent.front() else { return };
            let old = now_ns >= oldest.at_ns.saturating_add(self.settings.ack_timeout_ns);
            if !old && self.known.len() < MAX_KEPT {
                return;
            }
            for m in self.sent.pop_front().into_iter().flat_map(|l| l.messages) {
                self.known.remove(&m);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn m(v: u128) -> Vec<Val> {
        vec![Val::S(v)]
    }

    fn enabled(max_timeout_ns: u64, max_list_size: usize, ack_timeout_ns: u64) -> Digests {
        let mut d = Digests::default();
        d.set(0, Some(Settings { max_timeout_ns, max_list_size, ack_timeout_ns }));
        d
    }

    #[test]
    fn a_list_goes_out_when_it_is_full() {
        let mut d = enabled(10 * MS, 2, MS);
        assert_eq!(d.push(0, m(1), 0), None);
        // Known already: not counted twice.
        assert_eq!(d.push(0, m(1), 0), None);
        assert_eq!(d.push(0, m(2), 0), Some(List { digest: 0, list_id: 1, messages: vec![m(1), m(2)] }));
        assert_eq!(d.next_ns(), None);
    }

    #[test]
    fn a_list_goes_out_when_its_first_message_has_waited() {
        let mut d = enabled(10 * MS, 0, MS);
        d.push(0, m(1), 5 * MS);
        d.push(0, m(2), 9 * MS);
        assert_eq!(d.next_ns(), Some(15 * MS));
        assert!(d.due(15 * MS - 1).is_empty());
        assert_eq!(d.due(15 * MS)[0].messages, [m(1), m(2)]);
    }

    #[test]
    fn the_same_message_comes_again_only_after_the_acknowledgement() {
        let mut d = enabled(0, 1, 100 * MS);
        assert_eq!(d.push(0, m(1), 0).unwrap().list_id, 1);
        assert_eq!(d.push(0, m(1), MS), None);
        assert!(d.acknowledge(0, 1));
        assert_eq!(d.push(0, m(1), 2 * MS).unwrap().list_id, 2);
    }

    #[test]
    fn or_after_the_time_out() {
        let mut d = enabled(0, 1, 100 * MS);
        d.push(0, m(1), 0).unwrap();
        assert_eq!(d.push(0, m(1), 100 * MS - 1), None);
        assert_eq!(d.push(0, m(1), 100 * MS).unwrap().list_id, 2);
    }

    #[test]
    fn without_a_time_out_nothing_is_kept() {
        let mut d = enabled(0, 1, 0);
        assert!(d.push(0, m(1), 0).is_some());
        assert!(d.push(0, m(1), 0).is_some());
    }

    #[test]
    fn a_digest_that_is_not_enabled_gives_nothing() {
        let mut d = enabled(0, 1, 0);
        assert_eq!(d.push(1, m(1), 0), None);
        assert!(!d.acknowledge(1, 1));
        d.set(0, None);
        assert_eq!(d.push(0, m(1), 0), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut d = enabled(0, 1, u64::MAX);
        for i in 0..2 * MAX_KEPT as u128 {
            assert!(d.push(0, m(i), 0).is_some());
        }
        assert!(d.0[&0].known.len() <= MAX_KEPT);
    }
}
