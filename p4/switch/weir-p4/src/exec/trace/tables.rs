// SPDX-License-Identifier: Apache-2.0
//! The event of a table that is applied.
use super::Tracer;
use super::json::{Object, hex};
use crate::bytecode::program::{ActionParam, KeyMatch, MatchKind, Program, Table, needs_priority};
use crate::exec::state::{Member, ProfileState};
use crate::exec::table::EntryState;
use crate::value::Val;
use std::collections::BTreeMap;

/// Members of a group that an event lists.
const MOST_OUTCOMES: usize = 64;

/// A table's lookup, and the action that it led to.
pub(crate) struct Lookup<'a> {
    pub program: &'a Program,
    pub table: usize,
    /// Values of all keys.
    pub keys: Vec<Val>,
    /// The number of the entry and the entry that matched.
    pub entry: Option<(u64, &'a EntryState)>,
    /// The group that the entry names, and the member that was chosen.
    pub group: Option<u32>,
    pub member: Option<u32>,
    pub profile: Option<&'a ProfileState>,
    /// Index of the action, values of its parameters.
    pub action: usize,
    pub args: Vec<Val>,
}

fn kind(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
        MatchKind::Selector => "selector",
    }
}

/// A match as P4 writes it.
fn pattern(m: &KeyMatch, width: u32) -> String {
    match m {
        KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => hex(v, width),
        KeyMatch::Lpm(v, n) => format!("{}/{n}", hex(v, width)),
        KeyMatch::Ternary(v, mask) => format!("{} &&& {}", hex(v, width), hex(mask, width)),
        KeyMatch::Range(a, b) => format!("{}..{}", hex(a, width), hex(b, width)),
        KeyMatch::Optional(None) => "_".into(),
    }
}

fn params(o: &mut Object, params: &[ActionParam], args: &[Val]) {
    o.object("params", |o| {
        for (p, v) in params.iter().zip(args) {
            o.text(&p.name, &hex(v, p.width));
        }
    });
}

/// A member's action.
fn member(o: &mut Object, t: &Table, id: u32, m: &Member) {
    o.number("member", u64::from(id));
    if let Some(a) = t.actions.iter().find(|a| a.body == m.body) {
        o.text("action", &a.name);
        params(o, &a.params, &m.args);
    }
}

/// All members of the group, one of which was chosen.
fn outcomes(o: &mut Object, t: &Table, group: u32, profile: &ProfileState) {
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    for id in profile.groups.get(&group).into_iter().flatten() {
        *weights.entry(*id).or_default() += 1;
    }
    if weights.len() > MOST_OUTCOMES {
        o.number("outcomes_left_out", (weights.len() - MOST_OUTCOMES) as u64);
    }
    o.list("outcomes", weights.into_iter().take(MOST_OUTCOMES), |to, (id, weight)| {
        let mut x = Object::new(to);
        if let Some(m) = profile.members.get(&id) {
            member(&mut x, t, id, m);
        }
        x.number("weight", weight);
        x.end();
    });
}

impl Tracer {
    /// A table was applied.
    pub fn table(&mut self, l: &Lookup) {
        let t = &l.program.tables[l.table];
        self.event("table", |o| {
            o.text("table", &t.name);
            o.list("keys", t.keys.iter().zip(&l.keys), |to, (k, v)| {
                let mut x = Object::new(to);
                x.text("name", &k.name);
                x.text("match", kind(k.kind));
                x.text("value", &hex(v, k.width));
                x.end();
            });
            o.flag("hit", l.entry.is_some());
            if let Some((id, e)) = l.entry {
                o.object("entry", |o| {
                    o.number("handle", id);
                    let widths = t.keys.iter().filter(|k| k.kind != MatchKind::Selector).map(|k| k.width);
                    o.texts("keys", e.keys.iter().zip(widths).map(|(m, w)| pattern(m, w)));
                    if needs_priority(t) {
                        o.number("priority", e.priority.max(0) as u64);
                    }
                    o.flag("const", e.is_const);
                });
            }
            if let Some(group) = l.group {
                o.number("group", u64::from(group));
            }
            if let Some(member) = l.member {
                o.number("member", u64::from(member));
            }
            let a = &t.actions[l.action];
            o.text("action", &a.name);
            params(o, &a.params, &l.args);
            if let (Some(group), Some(profile)) = (l.group, l.profile) {
                outcomes(o, t, group, profile);
            }
            let places = &l.program.source;
            if let Some(place) = places.tables.get(&t.name).and_then(|p| places.places.get(*p)) {
                o.text("at", &place.at);
            }
        });
    }
}
