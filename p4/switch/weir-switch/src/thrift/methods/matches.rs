// SPDX-License-Identifier: Apache-2.0
//! Match keys, priorities, actions and handles: from Thrift to the interpreter and back.
use crate::p4runtime::{Reader, Writer};
use crate::thrift::arguments::Fields;
use crate::thrift::failure::{Failure, declared, table as code};
use crate::thrift::output::Output;
use num_bigint::BigUint;
use thrift::protocol::TType;
use weir_p4::bytecode::program::{
    ActionCall, ActionParam, Key, KeyMatch, MatchKind, Program, Table, TableAction, needs_priority,
};
use weir_p4::exec::{EntryAction, EntryId, Member, TableState, place_of};
use weir_p4::value::Val;

/// Bits of a handle that are the entry's place; the others count its uses, as in BMv2.
const PLACE_BITS: u32 = 24;

/// Index of a table.
pub fn table(program: &Program, name: &str) -> Result<usize, Failure> {
    let at = program.tables.iter().position(|t| t.name == name);
    at.map_or_else(|| declared(code::INVALID_TABLE_NAME, format!("there is no table {name}")), Ok)
}

/// Index of an action profile.
pub fn profile(program: &Program, name: &str) -> Result<usize, Failure> {
    let at = program.profiles.iter().position(|p| p.name == name);
    at.map_or_else(|| declared(code::INVALID_ACTION_PROFILE_NAME, format!("there is no action profile {name}")), Ok)
}

/// Whether a table's actions are its own, members of a profile, or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Direct,
    Members,
    Groups,
}

/// Index of a table of this kind; one with groups also has members.
pub fn table_of(program: &Program, name: &str, kind: Kind) -> Result<usize, Failure> {
    let at = table(program, name)?;
    let profile = program.tables[at].profile.map(|p| &program.profiles[p]);
    let fits = match kind {
        Kind::Direct => profile.is_none(),
        Kind::Members => profile.is_some(),
        Kind::Groups => profile.is_some_and(|p| p.selector.is_some()),
    };
    if fits { Ok(at) } else { declared(code::WRONG_TABLE_TYPE, format!("table {name} is of another type")) }
}

fn number(bytes: &[u8]) -> Val {
    Val::from_big(BigUint::from_bytes_be(bytes))
}

/// A value that fits a key.
fn fitting(bytes: &[u8], k: &Key) -> Result<Val, Failure> {
    let v = number(bytes);
    match v.bits() > k.width {
        true => declared(code::BAD_MATCH_KEY, format!("a value of key {} does not fit {} bits", k.name, k.width)),
        false => Ok(v),
    }
}

/// The keys of an entry, selectors left out. Bits outside a prefix or mask are cleared, as BMv2 ignores them.
pub fn keys(t: &Table, params: &[&Fields]) -> Result<Vec<KeyMatch>, Failure> {
    let wanted: Vec<&Key> = t.keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
    if wanted.len() != params.len() {
        let m = format!("table {} has {} keys, not {}", t.name, wanted.len(), params.len());
        return declared(code::BAD_MATCH_KEY, m);
    }
    wanted.into_iter().zip(params).map(|(k, p)| key(k, p)).collect()
}

fn key(k: &Key, p: &Fields) -> Result<KeyMatch, Failure> {
    let wrong = |what: &str| declared(code::BAD_MATCH_KEY, format!("key {}: {what}", k.name));
    // BmMatchParamType, whose struct is the field of the next id but one.
    let kind = p.i32(1)?;
    let given = p.fields(i16::try_from(kind).unwrap_or(-2).saturating_add(2))?;
    Ok(match (k.kind, kind) {
        (MatchKind::Exact, 0) => KeyMatch::Exact(fitting(given.bytes(1)?, k)?),
        (MatchKind::Exact, 3) => KeyMatch::Exact(Val::from(u128::from(given.bool(1)?))),
        (MatchKind::Optional, 0) => KeyMatch::Optional(Some(fitting(given.bytes(1)?, k)?)),
        (MatchKind::Lpm, 1) => {
            let length = u32::try_from(given.i32(2)?).ok().filter(|n| *n <= k.width);
            let Some(length) = length else { return wrong("the length of the prefix is above the key's width") };
            let mask = Val::all_ones(length).shl((k.width - length) as usize, k.width);
            KeyMatch::Lpm(fitting(given.bytes(1)?, k)?.and(mask), length)
        }
        (MatchKind::Ternary, 2) => {
            let mask = fitting(given.bytes(2)?, k)?;
            KeyMatch::Ternary(fitting(given.bytes(1)?, k)?.and(mask.clone()), mask)
        }
        (MatchKind::Optional, 2) => match fitting(given.bytes(2)?, k)? {
            mask if mask.is_zero() => KeyMatch::Optional(None),
            mask if mask == Val::all_ones(k.width) => KeyMatch::Optional(Some(fitting(given.bytes(1)?, k)?)),
            _ => return wrong("the mask of an optional key has all bits or none"),
        },
        (MatchKind::Range, 4) => {
            let (low, high) = (fitting(given.bytes(1)?, k)?, fitting(given.bytes(2)?, k)?);
            if low.to_int(k.width, k.signed) > high.to_int(k.width, k.signed) {
                return wrong("the ends of the range are reversed");
            }
            KeyMatch::Range(low, high)
        }
        _ => return wrong("the kind of match is another"),
    })
}

fn key_element(out: &mut Output, k: &Key, m: &KeyMatch) {
    let ones = || Val::all_ones(k.width).bytes(k.width);
    let none = || Val::default().bytes(k.width);
    let (kind, first, second) = match m {
        KeyMatch::Exact(v) => (0, v.bytes(k.width), None),
        KeyMatch::Lpm(v, _) => (1, v.bytes(k.width), None),
        KeyMatch::Ternary(v, mask) => (2, v.bytes(k.width), Some(mask.bytes(k.width))),
        KeyMatch::Optional(Some(v)) => (2, v.bytes(k.width), Some(ones())),
        KeyMatch::Optional(None) => (2, none(), Some(none())),
        KeyMatch::Range(low, high) => (4, low.bytes(k.width), Some(high.bytes(k.width))),
    };
    out.element(|out| {
        out.i32(1, kind);
        out.nested(kind as i16 + 2, |out| {
            out.bytes_field(1, &first);
            if let KeyMatch::Lpm(_, length) = m {
                out.i32(2, *length as i32);
            }
            if let Some(second) = &second {
                out.bytes_field(2, second);
            }
        });
    });
}

/// The rank of an entry's priority: in Thrift the smallest priority wins, and BMv2 gives a priority of P4Runtime as the
/// largest number minus it.
pub fn rank(t: &Table, options: &Fields) -> i64 {
    let priority = i64::from(options.i32(1).unwrap_or(0));
    match needs_priority(t) {
        false => 0,
        true if t.largest_priority_wins => i64::from(i32::MAX) - priority,
        true => -priority,
    }
}

/// The priority of a rank; -1 where the table has none.
fn priority(t: &Table, rank: i64) -> i32 {
    let priority = match needs_priority(t) {
        false => -1,
        true if t.largest_priority_wins => i64::from(i32::MAX) - rank,
        true => -rank,
    };
    i32::try_from(priority).unwrap_or(i32::MAX)
}

fn action_data(a: &TableAction, given: &[&[u8]]) -> Result<Vec<Val>, Failure> {
    if given.len() != a.params.len() {
        let m = format!("action {} has {} parameters, not {}", a.name, a.params.len(), given.len());
        return declared(code::BAD_ACTION_DATA, m);
    }
    let fits = |(p, bytes): (&ActionParam, &&[u8])| match number(bytes) {
        v if v.bits() > p.width => {
            let m = format!("parameter {} of action {} has {} bits", p.name, a.name, p.width);
            declared(code::BAD_ACTION_DATA, m)
        }
        v => Ok(v),
    };
    a.params.iter().zip(given).map(fits).collect()
}

/// An action of a table with its data.
pub fn call(t: &Table, name: &str, data: &[&[u8]]) -> Result<ActionCall, Failure> {
    let Some(action) = t.actions.iter().position(|a| a.name == name) else {
        return declared(code::INVALID_ACTION_NAME, format!("table {} has no action {name}", t.name));
    };
    Ok(ActionCall { action, args: action_data(&t.actions[action], data)? })
}

/// Actions of a profile: those of its tables.
pub fn profile_actions(program: &Program, profile: usize) -> impl Iterator<Item = &TableAction> {
    program.tables.iter().filter(move |t| t.profile == Some(profile)).flat_map(|t| &t.actions)
}

/// A member with its action and data.
pub fn member(program: &Program, profile: usize, name: &str, data: &[&[u8]]) -> Result<Member, Failure> {
    let Some(action) = profile_actions(program, profile).find(|a| a.name == name) else {
        let m = format!("action profile {} has no action {name}", program.profiles[profile].name);
        return declared(code::INVALID_ACTION_NAME, m);
    };
    Ok(Member { body: action.body, args: action_data(action, data)? })
}

/// Name and data of an action, in two fields.
pub fn action_fields(out: &mut Output, first: i16, a: &TableAction, args: &[Val]) {
    out.bytes_field(first, a.name.as_bytes());
    out.list(first + 1, TType::String, args.len());
    args.iter().zip(&a.params).for_each(|(v, p)| out.bytes_element(&v.bytes(p.width)));
}

/// Fields of a BmActionEntry.
pub fn action_entry(out: &mut Output, r: &Reader<'_>, t: &Table, action: &EntryAction) {
    // A member has one handle at least.
    let first = |handles: &[u32]| handles.first().map_or(-1, |h| *h as i32);
    match (action, t.profile) {
        (EntryAction::Call(c), _) => {
            out.i32(1, 1);
            action_fields(out, 2, &t.actions[c.action], &c.args);
        }
        (EntryAction::Member(id), Some(p)) => {
            out.i32(1, 2);
            out.i32(4, first(r.controller.handles[p].of(*id)));
        }
        (EntryAction::Group(id), Some(p)) => {
            out.i32(1, 3);
            out.i32(5, first(r.controller.group_handles[p].of(*id)));
        }
        (_, None) => out.i32(1, 0),
    }
}

/// An entry's handle.
pub fn handle(id: EntryId) -> i32 {
    let (uses, place) = ((id >> 32) as u32, place_of(id) as u32);
    ((uses & 0xff) << PLACE_BITS | place) as i32
}

/// The entry of a handle.
pub fn entry_id(state: &TableState, handle: i32) -> Result<EntryId, Failure> {
    let place = handle as u32 as usize & ((1 << PLACE_BITS) - 1);
    let found = state.entries_in(place..place + 1).next().map(|(id, _)| id);
    match found {
        None => declared(code::INVALID_HANDLE, format!("there is no entry with handle {handle}")),
        Some(id) if self::handle(id) != handle => {
            declared(code::EXPIRED_HANDLE, format!("the entry with handle {handle} was deleted"))
        }
        Some(id) => Ok(id),
    }
}

/// As [`entry_id`], for a change of the entry by the table's own methods.
pub fn changeable(w: &Writer<'_>, table: usize, handle: i32) -> Result<EntryId, Failure> {
    let id = entry_id(&w.state.tables[table], handle)?;
    match w.state.tables[table].entry(id) {
        Some(e) if e.is_const => declared(code::IMMUTABLE_TABLE_ENTRIES, "the entry is the program's"),
        _ => Ok(id),
    }
}

/// Fields of a BmMtEntry.
pub fn entry(out: &mut Output, r: &Reader<'_>, table: usize, id: EntryId) {
    let t = &r.config.program.tables[table];
    let Some(e) = r.state.tables[table].entry(id) else { return };
    out.list(1, TType::Struct, e.keys.len());
    let wanted = t.keys.iter().filter(|k| k.kind != MatchKind::Selector);
    wanted.zip(&e.keys).for_each(|(k, m)| key_element(out, k, m));
    out.nested(2, |out| out.i32(1, priority(t, e.priority)));
    out.i32(3, handle(id));
    out.nested(4, |out| action_entry(out, r, t, &e.action));
    if let Some(idle) = r.controller.note(table, id).and_then(|n| n.idle) {
        let ms = |us: u64| i32::try_from(us / 1000).unwrap_or(i32::MAX);
        out.nested(5, |out| {
            out.i32(1, ms(idle.timeout_us()));
            out.i32(2, ms(r.state.idle_us(e, r.now_us)));
        });
    }
}
