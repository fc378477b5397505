// SPDX-License-Identifier: Apache-2.0
//! Match fields and priorities of table entries and value sets: from messages to the interpreter's keys and back.
use super::bytes::canonical;
use super::error::{At, Res, invalid, unimplemented};
use super::strings::{Look, field, named, number, refused, told};
use crate::p4runtime::proto::p4::v1::{self as pb, FieldMatch, field_match::FieldMatchType as M};
use std::sync::Arc;
use weir_p4::bytecode::program::needs_priority;
use weir_p4::bytecode::program::{self as ir, Key, KeyMatch, MatchKind, Program};
use weir_p4::p4info::proto::{self, match_field::MatchType, table::IdleTimeoutBehavior};
use weir_p4::p4info::strings::Strings;
use weir_p4::p4info::{self as info, Preambled, match_type};
use weir_p4::value::Val;

fn prefix_mask(width: u32, len: u32) -> Val {
    Val::all_ones(len).shl((width - len) as usize, width)
}

/// Match of a field that is left out; `None` when it must not be left out.
fn any(kind: MatchKind, width: u32, signed: bool) -> Option<KeyMatch> {
    match kind {
        MatchKind::Exact | MatchKind::Selector => None,
        MatchKind::Lpm => Some(KeyMatch::Lpm(Val::S(0), 0)),
        MatchKind::Ternary => Some(KeyMatch::Ternary(Val::S(0), Val::S(0))),
        MatchKind::Range => {
            let (low, high) = weir_p4::value::range(width, signed);
            Some(KeyMatch::Range(Val::from_int(&low, width), Val::from_int(&high, width)))
        }
        MatchKind::Optional => Some(KeyMatch::Optional(None)),
    }
}

/// One field (9.1.1).
fn key(kind: MatchKind, width: u32, signed: bool, strings: Option<&Arc<Strings>>, m: &M, look: Look) -> Res<KeyMatch> {
    let omit = |what: &str| Err(invalid(format!("{what} matches everything; leave the field out instead")));
    match (kind, m) {
        (MatchKind::Exact, M::Exact(m)) => Ok(KeyMatch::Exact(named(&m.value, width, strings, look)?)),
        (MatchKind::Lpm, M::Lpm(m)) => {
            let v = field(&m.value, width, "value")?;
            let len = match u32::try_from(m.prefix_len) {
                Ok(0) => return omit("prefix length 0"),
                Ok(n) if n <= width => n,
                Ok(n) => return Err(invalid(format!("prefix length {n} is above {width}"))),
                Err(_) => return Err(invalid(format!("prefix length {} is negative", m.prefix_len))),
            };
            if v.clone().and(prefix_mask(width, len)) != v {
                return Err(invalid(format!("value has bits set outside its prefix of {len} bits")));
            }
            Ok(KeyMatch::Lpm(v, len))
        }
        (MatchKind::Ternary, M::Ternary(m)) => {
            let (v, mask) = (field(&m.value, width, "value")?, field(&m.mask, width, "mask")?);
            if mask.is_zero() {
                return omit("mask 0");
            }
            if v.clone().and(mask.clone()) != v {
                return Err(invalid("value has bits set outside its mask"));
            }
            Ok(KeyMatch::Ternary(v, mask))
        }
        (MatchKind::Range, M::Range(m)) => {
            let (low, high) = (field(&m.low, width, "low")?, field(&m.high, width, "high")?);
            if low.to_int(width, signed) > high.to_int(width, signed) {
                return Err(invalid("low is above high"));
            }
            let range = KeyMatch::Range(low, high);
            if Some(&range) == any(kind, width, signed).as_ref() {
                return omit("the whole range");
            }
            Ok(range)
        }
        (MatchKind::Optional, M::Optional(m)) => Ok(KeyMatch::Optional(Some(named(&m.value, width, strings, look)?))),
        (kind, m) => {
            let given = match m {
                M::Exact(_) => "exact",
                M::Ternary(_) => "ternary",
                M::Lpm(_) => "lpm",
                M::Range(_) => "range",
                M::Optional(_) => "optional",
                M::Other(_) => "other",
            };
            let wanted = format!("{kind:?}").to_lowercase();
            Err(invalid(format!("the match is {given}, the field's is {wanted}")))
        }
    }
}

/// Declaration of one field of a key.
pub struct Shape<'a> {
    pub field: &'a proto::MatchField,
    /// For a type that is a string to controllers.
    pub strings: Option<&'a Arc<Strings>>,
    pub kind: MatchKind,
    pub width: u32,
    pub signed: bool,
}

pub fn table_shapes<'a>(program: &'a Program, t: &'a info::Table) -> impl Iterator<Item = Shape<'a>> + Clone {
    let keys = program.tables[t.ir_index].keys.iter().filter(|k: &&Key| k.kind != MatchKind::Selector);
    t.match_fields.iter().zip(keys).map(|(field, k)| {
        let strings = program.info.strings(&field.type_name);
        Shape { field, strings, kind: k.kind, width: k.width, signed: k.signed }
    })
}

pub fn set_shapes<'a>(program: &'a Program, v: &'a info::ValueSet) -> impl Iterator<Item = Shape<'a>> + Clone {
    v.r#match.iter().zip(&program.value_sets[v.ir_index].widths).map(|(field, width)| {
        let kind = match match_type(field) {
            MatchType::Exact | MatchType::Unspecified => MatchKind::Exact,
            MatchType::Lpm => MatchKind::Lpm,
            MatchType::Ternary => MatchKind::Ternary,
            MatchType::Range => MatchKind::Range,
            MatchType::Optional => MatchKind::Optional,
        };
        Shape { field, strings: None, kind, width: *width, signed: false }
    })
}

/// The whole key in the order of its declaration.
pub fn keys<'a>(
    shapes: impl Iterator<Item = Shape<'a>> + Clone,
    given: &[FieldMatch],
    owner: &str,
) -> Res<Vec<KeyMatch>> {
    keys_by(shapes, given, owner, &mut number)
}

/// As [`keys`], without assigning numbers: `None` when a string in it stands for no number, so that no entry has this
/// key. The string gets none by it.
pub fn keys_if_known<'a>(
    shapes: impl Iterator<Item = Shape<'a>> + Clone,
    given: &[FieldMatch],
    owner: &str,
) -> Res<Option<Vec<KeyMatch>>> {
    let mut all_known = true;
    let mut look = |s: &Strings, bytes: &[u8]| {
        let known = s.known_number(bytes).map_err(refused)?;
        all_known &= known.is_some();
        Ok(known.unwrap_or(Val::S(0)))
    };
    let keys = keys_by(shapes, given, owner, &mut look)?;
    Ok(all_known.then_some(keys))
}

fn keys_by<'a>(
    shapes: impl Iterator<Item = Shape<'a>> + Clone,
    given: &[FieldMatch],
    owner: &str,
    look: Look,
) -> Res<Vec<KeyMatch>> {
    let shapes: Vec<Shape> = shapes.collect();
    let mut out: Vec<Option<KeyMatch>> = vec![None; shapes.len()];
    for (i, m) in given.iter().enumerate() {
        let Some(at) = shapes.iter().position(|s| s.field.id == m.field_id) else {
            return Err(
                invalid(format!("{owner} has no match field {}", m.field_id)).under(format!("match[{i}].field_id"))
            );
        };
        let s = &shapes[at];
        let place = || format!("match[{i}] ({})", s.field.name);
        if out[at].is_some() {
            return Err(invalid(format!("field {} is given twice", m.field_id)).under(place()));
        }
        let Some(m) = &m.field_match_type else {
            return Err(invalid("no kind of match is set").under(place()));
        };
        out[at] = Some(key(s.kind, s.width, s.signed, s.strings, m, look).at(place)?);
    }
    let missing =
        |s: &Shape| invalid(format!("field {} ({}) is missing; an exact match needs it", s.field.id, s.field.name));
    let whole = out.into_iter().zip(&shapes);
    whole.map(|(m, s)| m.or_else(|| any(s.kind, s.width, s.signed)).ok_or_else(|| missing(s).under("match"))).collect()
}

/// The fields as a controller would have written them.
pub fn key_messages<'a>(shapes: impl Iterator<Item = Shape<'a>>, keys: &[KeyMatch]) -> Vec<FieldMatch> {
    let one = |(s, k): (Shape, &KeyMatch)| {
        if any(s.kind, s.width, s.signed).as_ref() == Some(k) {
            return None;
        }
        let kind = match k {
            KeyMatch::Exact(v) => M::Exact(pb::field_match::Exact { value: told(v, s.strings) }),
            KeyMatch::Lpm(_, 0) => return None,
            KeyMatch::Lpm(v, n) => M::Lpm(pb::field_match::Lpm { value: canonical(v), prefix_len: *n as i32 }),
            KeyMatch::Ternary(v, mask) => {
                M::Ternary(pb::field_match::Ternary { value: canonical(v), mask: canonical(mask) })
            }
            KeyMatch::Range(low, high) => {
                M::Range(pb::field_match::Range { low: canonical(low), high: canonical(high) })
            }
            KeyMatch::Optional(Some(v)) => M::Optional(pb::field_match::Optional { value: told(v, s.strings) }),
            KeyMatch::Optional(None) => return None,
        };
        Some(FieldMatch { field_id: s.field.id, field_match_type: Some(kind) })
    };
    shapes.zip(keys).filter_map(one).collect()
}

/// A member of a value set: value and mask of each field.
pub fn set_member(keys: &[KeyMatch], widths: &[u32]) -> Res<Vec<(Val, Val)>> {
    let one = |(k, w): (&KeyMatch, &u32)| match k {
        KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => Ok((v.clone(), Val::all_ones(*w))),
        KeyMatch::Lpm(v, n) => Ok((v.clone(), prefix_mask(*w, *n))),
        KeyMatch::Ternary(v, mask) => Ok((v.clone(), mask.clone())),
        KeyMatch::Optional(None) => Ok((Val::S(0), Val::S(0))),
        KeyMatch::Range(..) => Err(unimplemented("match: ranges in value sets are not supported")),
    };
    keys.iter().zip(widths).map(one).collect()
}

/// The rank of an entry with this priority, which some tables need and others must not have. The largest rank wins;
/// where the program says that the smallest priority does, the rank is minus the priority.
pub fn rank(ir: &ir::Table, given: i32) -> Res<i64> {
    match (needs_priority(ir), given) {
        (true, 1..) | (false, 0) if ir.largest_priority_wins => Ok(i64::from(given)),
        (true, 1..) | (false, 0) => Ok(-i64::from(given)),
        (true, _) => {
            Err(invalid(format!("{given} is not above 0; table {} has ternary, range or optional fields", ir.name))
                .under("priority"))
        }
        (false, _) => {
            let e = invalid(format!("must be unset; table {} has no ternary, range or optional fields", ir.name));
            Err(e.under("priority"))
        }
    }
}

/// The priority of an entry of this rank, as controllers see it.
pub fn priority_message(rank: i64) -> i32 {
    i32::try_from(rank.abs()).unwrap_or(i32::MAX)
}

/// Idle fields of an entry's message are for tables that support them, and not for default entries (9.1.7).
pub fn idle_fields(t: &info::Table, e: &pb::TableEntry) -> Res<()> {
    let fields =
        [(e.idle_timeout_ns != 0, "idle_timeout_ns"), (e.time_since_last_hit.is_some(), "time_since_last_hit")];
    let Some((_, field)) = fields.into_iter().find(|(set, _)| *set) else { return Ok(()) };
    if e.is_default_action {
        return Err(invalid("must be unset for the default entry").under(field));
    }
    if t.idle_timeout_behavior() != IdleTimeoutBehavior::NotifyControl {
        return Err(invalid(format!("must be unset; table {} has no idle timeouts", t.name())).under(field));
    }
    Ok(())
}
