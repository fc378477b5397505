// SPDX-License-Identifier: Apache-2.0
//! Match fields, actions, ports and rates between messages and the interpreter's forms.
use super::bytes::{canonical, value};
use super::config::Config;
use super::fail::{At, Fail, Res, denied, invalid, not_found, unimplemented};
use super::pb::p4::v1::{self as pb, FieldMatch, field_match::FieldMatchType as M};
use std::sync::Arc;
use tonic::Code;
use weir_p4::bytecode::program::{self as ir, ActionCall, Key, KeyMatch, MatchKind, needs_priority};
use weir_p4::exec::{Member, MeterCell};
use weir_p4::p4info as info;
use weir_p4::p4info::strings::{Refused, Strings};
use weir_p4::value::Val;

pub fn hex(id: u32) -> String {
    format!("0x{id:08x}")
}

/// An id that must name an object of the program.
pub fn object<'a, T>(
    list: &'a [T],
    id: u32,
    what: &str,
    preamble: impl Fn(&T) -> &info::Preamble,
) -> Res<(usize, &'a T)> {
    if id == 0 {
        return Err(invalid(format!("{what}_id is unset")));
    }
    let found = list.iter().enumerate().find(|(_, x)| preamble(x).id == id);
    found.ok_or_else(|| {
        not_found(format!("{what}_id: the program has no {} with id {}", what.replace('_', " "), hex(id)))
    })
}

/// In keys and parameters a value that does not fit is INVALID_ARGUMENT (9.1.1, 9.1.2).
fn field(bytes: &[u8], width: u32, what: &str) -> Res<Val> {
    value(bytes, width).map_err(|e| e.with_code(Code::InvalidArgument)).at(|| what)
}

/// Gives the number that a string stands for.
type Look<'a> = &'a mut dyn FnMut(&Strings, &[u8]) -> Res<Val>;

/// As [`field`], of a type that may be a string to controllers.
fn named(bytes: &[u8], width: u32, strings: &Option<Arc<Strings>>, look: Look) -> Res<Val> {
    match strings {
        Some(s) => look(s, bytes).at(|| "value"),
        None => field(bytes, width, "value"),
    }
}

fn refused(e: Refused) -> Fail {
    match e {
        Refused::Wrong(why) => invalid(why),
        Refused::Full(why) => Fail::new(Code::ResourceExhausted, why),
    }
}

/// The number that a controller's string stands for, given out if it has none.
pub fn number(strings: &Strings, bytes: &[u8]) -> Res<Val> {
    strings.number(bytes).map_err(refused)
}

/// A value as controllers see it.
pub fn told(v: &Val, strings: &Option<Arc<Strings>>) -> Vec<u8> {
    strings.as_ref().map_or_else(|| canonical(v), |s| s.string(v))
}

fn prefix_mask(width: u32, len: u32) -> Val {
    Val::all_ones(len).shl((width - len) as usize, width)
}

/// What a field that is left out of a match means; `None` when it must not be left out.
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
fn key(kind: MatchKind, width: u32, signed: bool, strings: &Option<Arc<Strings>>, m: &M, look: Look) -> Res<KeyMatch> {
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

/// How one field of a key is declared.
pub struct Shape<'a> {
    pub field: &'a info::MatchField,
    pub kind: MatchKind,
    pub width: u32,
    pub signed: bool,
}

pub fn table_shapes<'a>(t: &'a info::Table, ir: &'a ir::Table) -> impl Iterator<Item = Shape<'a>> + Clone {
    let keys = ir.keys.iter().filter(|k: &&Key| k.kind != MatchKind::Selector);
    t.match_fields.iter().zip(keys).map(|(field, k)| Shape { field, kind: k.kind, width: k.width, signed: k.signed })
}

pub fn set_shapes<'a>(v: &'a info::ValueSet, ir: &'a ir::ValueSetDecl) -> impl Iterator<Item = Shape<'a>> + Clone {
    v.match_fields.iter().zip(&ir.widths).map(|(field, width)| {
        let kind = match field.match_type {
            info::MatchType::Exact => MatchKind::Exact,
            info::MatchType::Lpm => MatchKind::Lpm,
            info::MatchType::Ternary => MatchKind::Ternary,
            info::MatchType::Range => MatchKind::Range,
            info::MatchType::Optional => MatchKind::Optional,
        };
        Shape { field, kind, width: *width, signed: false }
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

/// As [`keys`], for who only asks: `None` when a string in it stands for no number, so that no entry has this key. The
/// string gets none by it.
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
        out[at] = Some(key(s.kind, s.width, s.signed, &s.field.strings, m, look).at(place)?);
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
            KeyMatch::Exact(v) => M::Exact(pb::field_match::Exact { value: told(v, &s.field.strings) }),
            KeyMatch::Lpm(_, 0) => return None,
            KeyMatch::Lpm(v, n) => M::Lpm(pb::field_match::Lpm { value: canonical(v), prefix_len: *n as i32 }),
            KeyMatch::Ternary(v, mask) => {
                M::Ternary(pb::field_match::Ternary { value: canonical(v), mask: canonical(mask) })
            }
            KeyMatch::Range(low, high) => {
                M::Range(pb::field_match::Range { low: canonical(low), high: canonical(high) })
            }
            KeyMatch::Optional(Some(v)) => M::Optional(pb::field_match::Optional { value: told(v, &s.field.strings) }),
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

/// Arguments in the order of the action's parameters.
fn arguments(a: &info::Action, widths: &[u32], given: &[pb::action::Param]) -> Res<Vec<Val>> {
    let name = &a.preamble.name;
    let mut out: Vec<Option<Val>> = vec![None; a.params.len()];
    for (i, p) in given.iter().enumerate() {
        let Some(at) = a.params.iter().position(|x| x.id == p.param_id) else {
            let e = invalid(format!("action {name} has no parameter {}", p.param_id));
            return Err(e.under(format!("params[{i}].param_id")));
        };
        let place = || format!("params[{i}] ({})", a.params[at].name);
        if out[at].is_some() {
            return Err(invalid(format!("parameter {} is given twice", p.param_id)).under(place()));
        }
        out[at] = Some(named(&p.value, widths[at], &a.params[at].strings, &mut number).at(place)?);
    }
    let missing = |p: &info::Param| {
        invalid(format!("parameter {} ({}) of action {name} is missing", p.id, p.name)).under("params")
    };
    out.into_iter().zip(&a.params).map(|(v, p)| v.ok_or_else(|| missing(p))).collect()
}

fn action_info(config: &Config, id: u32) -> Res<&info::Action> {
    let found = config.program.info.action(id);
    found.ok_or_else(|| invalid(format!("the program has no action with id {}", hex(id))).under("action_id"))
}

/// An action of a table, for an entry or for its default.
pub fn call(config: &Config, t: &info::Table, a: &pb::Action, default: bool) -> Res<ActionCall> {
    let info = action_info(config, a.action_id)?;
    let name = &info.preamble.name;
    let Some(r) = t.action(a.action_id) else {
        return Err(invalid(format!("{name} is no action of table {}", t.preamble.name)).under("action_id"));
    };
    match (r.scope, default) {
        (info::Scope::TableOnly, true) => {
            return Err(denied(format!("{name} is for entries only, not for the default")).under("action_id"));
        }
        (info::Scope::DefaultOnly, false) => {
            return Err(denied(format!("{name} is for the default only, not for entries")).under("action_id"));
        }
        _ => {}
    }
    let ir = &config.program.tables[t.ir_index].actions[r.ir_index];
    let widths: Vec<u32> = ir.params.iter().map(|p| p.width).collect();
    Ok(ActionCall { action: r.ir_index, args: arguments(info, &widths, &a.params)? })
}

fn action_message(a: &info::Action, args: &[Val]) -> pb::Action {
    let param = |(p, v): (&info::Param, &Val)| pb::action::Param { param_id: p.id, value: told(v, &p.strings) };
    pb::Action { action_id: a.preamble.id, params: a.params.iter().zip(args).map(param).collect() }
}

pub fn call_message(config: &Config, t: &info::Table, c: &ActionCall) -> Option<pb::Action> {
    let id = t.action_refs.iter().find(|r| r.ir_index == c.action)?.id;
    Some(action_message(config.program.info.action(id)?, &c.args))
}

/// An action of an action profile.
pub fn member(config: &Config, profile: &info::ActionProfile, a: &pb::Action) -> Res<Member> {
    let info = action_info(config, a.action_id)?;
    let Some((_, body)) = profile.actions.iter().find(|(id, _)| *id == a.action_id) else {
        let (name, of) = (&info.preamble.name, &profile.preamble.name);
        return Err(invalid(format!("{name} is no action of action profile {of}")).under("action_id"));
    };
    let actions = config.program.tables.iter().flat_map(|t| &t.actions);
    let widths: Vec<u32> = match actions.into_iter().find(|x| x.body == *body) {
        Some(ir) => ir.params.iter().map(|p| p.width).collect(),
        None => info.params.iter().map(|p| p.bitwidth).collect(),
    };
    Ok(Member { body: *body, args: arguments(info, &widths, &a.params)? })
}

pub fn member_message(config: &Config, profile: &info::ActionProfile, m: &Member) -> Option<pb::Action> {
    let (id, _) = profile.actions.iter().find(|(_, body)| *body == m.body)?;
    Some(action_message(config.program.info.action(*id)?, &m.args))
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

/// Tokens per second or tokens beyond this lose digits in the meter's arithmetic.
const MAX_RATE: i64 = 1 << 50;

/// A meter's rates per second and bursts: committed, then peak.
pub type Rates = [(i64, i64); 2];

pub fn rates(c: &pb::MeterConfig) -> Res<Rates> {
    let fields = [("cir", c.cir), ("cburst", c.cburst), ("pir", c.pir), ("pburst", c.pburst)];
    for (name, v) in fields {
        if v < 0 {
            return Err(invalid(format!("{v} is negative")).under(name));
        }
        if v > MAX_RATE {
            return Err(Fail::new(Code::OutOfRange, format!("{v} is above {MAX_RATE}")).under(name));
        }
    }
    if c.eburst != 0 {
        return Err(invalid("must be unset; the meter has two rates").under("eburst"));
    }
    if c.pir < c.cir {
        return Err(invalid(format!("{} is below cir {}", c.pir, c.cir)).under("pir"));
    }
    Ok([(c.cir, c.cburst), (c.pir, c.pburst)])
}

pub fn set_rates(cell: &mut MeterCell, rates: Option<Rates>, now_us: u64) {
    match rates {
        Some([c, p]) => {
            let per_us = |(rate, burst): (i64, i64)| (rate as f64 / 1e6, burst as u64);
            cell.set(per_us(c), per_us(p), now_us);
        }
        None => *cell = MeterCell::default(),
    }
}

pub fn rates_message(cell: &MeterCell) -> Option<pb::MeterConfig> {
    let per_s = |(rate, burst): (f64, u64)| ((rate * 1e6).round() as i64, burst as i64);
    let [c, p] = cell.rates?.map(per_s);
    Some(pb::MeterConfig { cir: c.0, cburst: c.1, pir: p.0, pburst: p.1, eburst: 0 })
}

/// Packets and bytes.
pub fn counts(d: &pb::CounterData) -> Res<(u64, u64)> {
    let count = |name: &str, v: i64| u64::try_from(v).map_err(|_| invalid(format!("{v} is negative")).under(name));
    Ok((count("packet_count", d.packet_count)?, count("byte_count", d.byte_count)?))
}

pub fn counts_message((packets, bytes): (u64, u64)) -> pb::CounterData {
    pb::CounterData { packet_count: packets as i64, byte_count: bytes as i64 }
}

/// Bits of a port number in v1model.
const PORT_BITS: u32 = 9;

/// Port and instance of a replica.
pub fn replica(r: &pb::Replica) -> Res<(u32, u32)> {
    use pb::replica::PortKind;
    if !r.backup_replicas.is_empty() {
        return Err(unimplemented("backup_replicas: ports of a group are not watched"));
    }
    let port = match &r.port_kind {
        Some(PortKind::Port(bytes)) => {
            value(bytes, PORT_BITS).map_err(|e| e.with_code(Code::InvalidArgument)).at(|| "port")?.low() as u32
        }
        Some(PortKind::EgressPort(p)) if *p < 1 << PORT_BITS => *p,
        Some(PortKind::EgressPort(p)) => {
            return Err(invalid(format!("{p} does not fit {PORT_BITS} bits")).under("egress_port"));
        }
        None => return Err(invalid("is unset").under("port")),
    };
    if r.instance > 0xffff {
        return Err(invalid(format!("{} does not fit 16 bits", r.instance)).under("instance"));
    }
    Ok((port, r.instance))
}

#[cfg(test)]
mod tests {
    use super::super::read::Reader;
    use super::super::write::Book;
    use super::*;
    use weir_p4::bytecode::program::ActionCall;

    const PROGRAM: &str = "#include <v1model.p4>
        @p4runtime_translation(\"\", string)
        @p4runtime_translation_mappings({ {\"\", 0}, {\"drop\", 9}, })
        type bit<10> vrf_t;
        @p4runtime_translation(\"\", 32)
        type bit<9> port_t;
        header h_t { vrf_t vrf; vrf_t other; port_t port; bit<3> rest; }
        struct headers_t { h_t h; }
        struct meta_t { }
        parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
            state start { b.extract(h.h); transition accept; }
        }
        control V(inout headers_t h, inout meta_t m) { apply { } }
        control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
            action set(vrf_t vrf, port_t port) { h.h.vrf = vrf; h.h.port = port; }
            table t { key = { h.h.vrf: exact; h.h.other: KIND; } actions = { set; } default_action = set(9, 1); }
            apply { t.apply(); }
        }
        control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
        control C(inout headers_t h, inout meta_t m) { apply { } }
        control D(packet_out b, in headers_t h) { apply { } }
        V1Switch(P(), V(), I(), E(), C(), D()) main;";

    fn config(kind: &str) -> Res<Config> {
        let p4_device_config = PROGRAM.replace("KIND", kind).into_bytes().into();
        Config::verify(pb::ForwardingPipelineConfig { p4_device_config, ..Default::default() }, 1 << 20)
    }

    #[test]
    fn types_that_are_strings_to_controllers_are_numbers_in_tables() {
        let config = config("optional").unwrap();
        let t = &config.program.info.tables[0];
        let ir = &config.program.tables[t.ir_index];
        let exact = |id, value: &[u8]| {
            let field_match_type = Some(M::Exact(pb::field_match::Exact { value: value.to_vec() }));
            FieldMatch { field_id: id, field_match_type }
        };
        let optional = |id, value: &[u8]| {
            let field_match_type = Some(M::Optional(pb::field_match::Optional { value: value.to_vec() }));
            FieldMatch { field_id: id, field_match_type }
        };
        // A new string gets the smallest free number, one that the program fixes has its own.
        let given = [exact(1, b"blue"), optional(2, b"drop")];
        let made = keys(table_shapes(t, ir), &given, "table t").unwrap();
        assert_eq!(made, [KeyMatch::Exact(Val::S(1)), KeyMatch::Optional(Some(Val::S(9)))]);
        assert_eq!(key_messages(table_shapes(t, ir), &made), given);
        let made = keys(table_shapes(t, ir), &[exact(1, b"")], "table t").unwrap();
        assert_eq!(made, [KeyMatch::Exact(Val::S(0)), KeyMatch::Optional(None)]);
        let e = keys(table_shapes(t, ir), &[exact(1, b"1024")], "table t").unwrap_err();
        let want = "match[0] (h.h.vrf).value: 1024 is above 1023, the largest of type vrf_t";
        assert_eq!((e.code, e.to_string().as_str()), (Code::InvalidArgument, want));

        // An action's parameters have the same strings; a number of another width must fit the program's.
        let id = t.action_refs[0].id;
        let param = |param_id, value: &[u8]| pb::action::Param { param_id, value: value.to_vec() };
        let a = pb::Action { action_id: id, params: vec![param(1, b"blue"), param(2, &[1, 0])] };
        let made = call(&config, t, &a, false).unwrap();
        assert_eq!(made, ActionCall { action: 0, args: vec![Val::S(1), Val::S(0x100)] });
        assert_eq!(call_message(&config, t, &made), Some(a.clone()));
        let wide = pb::Action { params: vec![param(1, b"blue"), param(2, &[2, 0])], ..a };
        let e = call(&config, t, &wide, false).unwrap_err();
        assert!(e.to_string().contains("value 0x0200 does not fit 9 bits"), "{e}");
        // What the program itself put in is told in the same way.
        let own = call_message(&config, t, &ir.default).unwrap();
        assert_eq!(own.params, [param(1, b"drop"), param(2, &[1])]);
    }

    #[test]
    fn who_asks_for_strings_that_nobody_wrote_uses_up_none() {
        let config = config("exact").unwrap();
        let state = weir_p4::v1model::Switch::new(config.program.clone(), 1).state;
        let book = Book::new(&config);
        let reader = Reader { config: &config, state: &state, book: &book };
        let t = &config.program.info.tables[0];
        let ir = &config.program.tables[t.ir_index];
        let key = |id, value: &str| {
            let field_match_type = Some(M::Exact(pb::field_match::Exact { value: value.into() }));
            FieldMatch { field_id: id, field_match_type }
        };
        // More than the type of 10 bits has.
        for i in 0..2000 {
            let r#match = vec![key(1, &format!("none{i}")), key(2, "drop")];
            let e = pb::TableEntry { table_id: t.preamble.id, r#match, ..Default::default() };
            let mut items = Vec::new();
            reader.plan(&pb::Entity { entity: Some(pb::entity::Entity::TableEntry(e)) }, &mut items).unwrap();
            let mut found = Vec::new();
            assert!(items.into_iter().all(|item| reader.emit(item, &mut found).is_none()));
            assert_eq!(found, []);
        }
        let made = keys(table_shapes(t, ir), &[key(1, "blue"), key(2, "red")], "table t").unwrap();
        assert_eq!(made, [KeyMatch::Exact(Val::S(1)), KeyMatch::Exact(Val::S(2))]);
    }

    #[test]
    fn strings_do_not_match_by_bits() {
        let e = config("ternary").unwrap_err();
        assert_eq!(e.code, Code::Unimplemented);
        assert!(e.to_string().contains("h.h.other of I.t is translated to strings"), "{e}");
    }
}
