// SPDX-License-Identifier: Apache-2.0
//! Values on the wire: P4Runtime's byte strings (8.4) and `P4Data` (8.5).
use super::error::{At, Fail, Res, invalid};
use crate::p4runtime::proto::p4::v1::{self as p4v1, P4Data, p4_data::Data};
use num_bigint::BigUint;
use tonic::Code;
use weir_p4::p4info::P4Info;
use weir_p4::p4info::proto::p4_bitstring_like_type_spec::TypeSpec as BitSpec;
use weir_p4::p4info::proto::p4_data_type_spec::TypeSpec;
use weir_p4::p4info::proto::p4_new_type_spec::Representation;
use weir_p4::p4info::proto::p4_new_type_translation::SdnType;
use weir_p4::p4info::proto::{P4BitstringLikeTypeSpec, P4DataTypeSpec};
use weir_p4::value::Val;

fn too_wide(bytes: &[u8], width: u32) -> Fail {
    let hex: String = bytes.iter().take(20).map(|b| format!("{b:02x}")).collect();
    let dots = if bytes.len() > 20 { "..." } else { "" };
    Fail::new(Code::OutOfRange, format!("value 0x{hex}{dots} does not fit {width} bits"))
}

fn empty() -> Fail {
    Fail::new(Code::OutOfRange, "value is empty; zero is the one byte 00")
}

/// An unsigned number of at most `width` bits; zeros in front are accepted, any number of them.
pub fn value(bytes: &[u8], width: u32) -> Res<Val> {
    if bytes.is_empty() {
        return Err(empty());
    }
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let significant = &bytes[zeros..];
    let v = if significant.len() <= 16 {
        Val::S(significant.iter().fold(0, |v, b| (v << 8) | u128::from(*b)))
    } else if significant.len() > width.div_ceil(8) as usize {
        return Err(too_wide(bytes, width));
    } else {
        Val::from_big(BigUint::from_bytes_be(significant))
    };
    if v.bits() > width {
        return Err(too_wide(bytes, width));
    }
    Ok(v)
}

/// A number in two's complement; copies of the sign in front are accepted. Kept as the low `width` bits.
fn signed_value(bytes: &[u8], width: u32) -> Res<Val> {
    let Some(first) = bytes.first() else { return Err(empty()) };
    let negative = first & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    let spare = bytes.iter().take_while(|b| **b == fill).count().min(bytes.len() - 1);
    let wide = (bytes.len() - spare + 1) as u32 * 8;
    let mut raw = vec![fill];
    raw.extend_from_slice(&bytes[spare..]);
    let v = Val::from_big(BigUint::from_bytes_be(&raw));
    let low = v.clone().mask(width);
    let back = if wide > width { low.clone().sign_extend(width.max(1), wide) } else { v.clone() };
    if back != v {
        return Err(too_wide(bytes, width));
    }
    Ok(if wide > width { low } else { v.sign_extend(wide, width) })
}

/// The shortest string for an unsigned number.
pub fn canonical(v: &Val) -> Vec<u8> {
    v.bytes(v.bits().max(1))
}

/// The shortest string for a number in two's complement of `width` bits.
fn canonical_signed(v: &Val, width: u32) -> Vec<u8> {
    let whole = width.div_ceil(8).max(1) * 8;
    let bytes = v.clone().sign_extend(width, whole).bytes(whole);
    let mut from = 0;
    while from + 1 < bytes.len() {
        let spare = if bytes[from + 1] & 0x80 == 0 { 0 } else { 0xff };
        if bytes[from] != spare {
            break;
        }
        from += 1;
    }
    bytes[from..].to_vec()
}

/// A `TypeSpec` with its names looked up: the form of its `P4Data`.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    Bits(u32),
    Int(u32),
    Bool,
    Enum(Vec<String>),
    Error(Vec<String>),
    /// A serializable enumeration of so many bits.
    EnumValue(u32),
    Struct(Vec<(String, Layout)>),
    Tuple(Vec<Layout>),
    Header(Vec<(String, Layout)>),
}

/// Bits of an enumeration or error in the state.
const INDEX_BITS: u32 = 32;

impl Layout {
    /// # Errors
    /// Names the type that P4Runtime has no representation for here.
    pub fn of(spec: Option<&P4DataTypeSpec>, info: &P4Info) -> Result<Layout, String> {
        let types = &info.type_info;
        let named = |kind: &str, name: &str| format!("{kind} {name} is not in the program's type information");
        let Some(spec) = spec.and_then(|s| s.type_spec.as_ref()) else { return Err(named("a type", "without name")) };
        match spec {
            TypeSpec::Bitstring(b) => Layout::bits(b),
            TypeSpec::Bool(_) => Ok(Layout::Bool),
            TypeSpec::Tuple(t) => {
                t.members.iter().map(|m| Layout::of(Some(m), info)).collect::<Result<_, _>>().map(Layout::Tuple)
            }
            TypeSpec::Struct(t) => {
                let spec = types.structs.get(&t.name).ok_or_else(|| named("struct", &t.name))?;
                let members =
                    spec.members.iter().map(|m| Ok((m.name.clone(), Layout::of(m.type_spec.as_ref(), info)?)));
                members.collect::<Result<_, String>>().map(Layout::Struct)
            }
            TypeSpec::Header(t) => {
                let spec = types.headers.get(&t.name).ok_or_else(|| named("header", &t.name))?;
                let bits = |b: &Option<_>| b.as_ref().map_or_else(|| Err(named("a field of", &t.name)), Layout::bits);
                let fields = spec.members.iter().map(|m| Ok((m.name.clone(), bits(&m.type_spec)?)));
                fields.collect::<Result<_, String>>().map(Layout::Header)
            }
            TypeSpec::Enum(t) => {
                let spec = types.enums.get(&t.name).ok_or_else(|| named("enum", &t.name))?;
                Ok(Layout::Enum(spec.members.iter().map(|m| m.name.clone()).collect()))
            }
            TypeSpec::Error(_) => {
                let spec = types.error.as_ref().ok_or_else(|| named("the list of", "errors"))?;
                Ok(Layout::Error(spec.members.clone()))
            }
            TypeSpec::SerializableEnum(t) => {
                let spec = types.serializable_enums.get(&t.name).ok_or_else(|| named("enum", &t.name))?;
                Ok(Layout::EnumValue(spec.underlying_type.as_ref().map_or(0, |t| t.bitwidth as u32)))
            }
            TypeSpec::NewType(t) => {
                let spec = types.new_types.get(&t.name).ok_or_else(|| named("type", &t.name))?;
                match &spec.representation {
                    Some(Representation::TranslatedType(x)) if matches!(x.sdn_type, Some(SdnType::SdnString(_))) => {
                        Err(format!("type {} is translated to strings ({}), which is not supported", t.name, x.uri))
                    }
                    // The number is the same on both sides, so a value that does not fit the program's bits is refused.
                    Some(Representation::TranslatedType(_)) => {
                        Ok(Layout::Bits(info.new_type_bits.get(&t.name).copied().unwrap_or(0)))
                    }
                    Some(Representation::OriginalType(spec)) => Layout::of(Some(spec), info),
                    None => Err(named("type", &t.name)),
                }
            }
            TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_) => {
                Err("unions and stacks in a register or digest are not supported".into())
            }
        }
    }

    fn bits(b: &P4BitstringLikeTypeSpec) -> Result<Layout, String> {
        match &b.type_spec {
            Some(BitSpec::Bit(b)) => Ok(Layout::Bits(b.bitwidth as u32)),
            Some(BitSpec::Int(b)) => Ok(Layout::Int(b.bitwidth as u32)),
            Some(BitSpec::Varbit(b)) => {
                Err(format!("varbit<{}> in a register or digest is not supported", b.max_bitwidth))
            }
            None => Err("bits without a width are not supported".into()),
        }
    }

    /// Widths of the values in it, in order.
    pub fn leaves(&self, out: &mut Vec<u32>) {
        match self {
            Layout::Bits(w) | Layout::Int(w) | Layout::EnumValue(w) => out.push(*w),
            Layout::Bool => out.push(1),
            Layout::Enum(_) | Layout::Error(_) => out.push(INDEX_BITS),
            Layout::Struct(members) | Layout::Header(members) => members.iter().for_each(|(_, m)| m.leaves(out)),
            Layout::Tuple(members) => members.iter().for_each(|m| m.leaves(out)),
        }
    }

    /// The next values as `P4Data`; missing ones are zero.
    pub fn encode(&self, values: &mut dyn Iterator<Item = Val>) -> P4Data {
        let mut next = || values.next().unwrap_or_default();
        let name = |names: &[String], v: &Val| names.get(v.index()).cloned().unwrap_or_default();
        let data = match self {
            Layout::Bits(_) => Data::Bitstring(canonical(&next())),
            Layout::Int(w) => Data::Bitstring(canonical_signed(&next(), *w)),
            Layout::EnumValue(_) => Data::EnumValue(canonical(&next())),
            Layout::Bool => Data::Bool(!next().is_zero()),
            Layout::Enum(names) => Data::Enum(name(names, &next())),
            Layout::Error(names) => Data::Error(name(names, &next())),
            Layout::Struct(members) => {
                let members = members.iter().map(|(_, m)| m.encode(values)).collect();
                Data::Struct(p4v1::P4StructLike { members })
            }
            Layout::Tuple(members) => {
                let members = members.iter().map(|m| m.encode(values)).collect();
                Data::Tuple(p4v1::P4StructLike { members })
            }
            Layout::Header(fields) => {
                let bitstrings = fields.iter().map(|(_, f)| match f {
                    Layout::Int(w) => canonical_signed(&values.next().unwrap_or_default(), *w),
                    _ => canonical(&values.next().unwrap_or_default()),
                });
                Data::Header(p4v1::P4Header { is_valid: true, bitstrings: bitstrings.collect() })
            }
        };
        P4Data { data: Some(data) }
    }

    fn name(&self) -> &'static str {
        match self {
            Layout::Bits(_) | Layout::Int(_) => "bitstring",
            Layout::Bool => "bool",
            Layout::Enum(_) => "enum",
            Layout::Error(_) => "error",
            Layout::EnumValue(_) => "enum_value",
            Layout::Struct(_) => "struct",
            Layout::Tuple(_) => "tuple",
            Layout::Header(_) => "header",
        }
    }

    /// The values in `data`, which must have this form.
    pub fn decode(&self, data: &P4Data, out: &mut Vec<Val>) -> Res<()> {
        let wrong = || invalid(format!("{} is needed here", self.name()));
        let index = |names: &[String], v: &String| match names.iter().position(|n| n == v) {
            Some(i) => Ok(Val::S(i as u128)),
            None => Err(invalid(format!("`{v}` is none of {}", names.join(", ")))),
        };
        let count = |found: usize, wanted: usize| {
            (found == wanted).then_some(()).ok_or_else(|| invalid(format!("{wanted} members are needed, not {found}")))
        };
        let Some(d) = &data.data else { return Err(wrong()) };
        match (self, d) {
            (Layout::Bits(w), Data::Bitstring(b)) => out.push(value(b, *w)?),
            (Layout::Int(w), Data::Bitstring(b)) => out.push(signed_value(b, *w)?),
            (Layout::EnumValue(w), Data::EnumValue(b)) => out.push(value(b, *w)?),
            (Layout::Bool, Data::Bool(b)) => out.push(Val::S(u128::from(*b))),
            (Layout::Enum(names), Data::Enum(v)) | (Layout::Error(names), Data::Error(v)) => out.push(index(names, v)?),
            (Layout::Struct(members), Data::Struct(s)) => {
                count(s.members.len(), members.len())?;
                for ((name, m), d) in members.iter().zip(&s.members) {
                    m.decode(d, out).at(|| name)?;
                }
            }
            (Layout::Tuple(members), Data::Tuple(s)) => {
                count(s.members.len(), members.len())?;
                for (i, (m, d)) in members.iter().zip(&s.members).enumerate() {
                    m.decode(d, out).at(|| format!("members[{i}]"))?;
                }
            }
            (Layout::Header(fields), Data::Header(h)) => {
                if !h.is_valid {
                    return Err(invalid("an invalid header has no value to store"));
                }
                count(h.bitstrings.len(), fields.len())?;
                for ((name, f), b) in fields.iter().zip(&h.bitstrings) {
                    let data = P4Data { data: Some(Data::Bitstring(b.clone())) };
                    f.decode(&data, out).at(|| name)?;
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_s_table_of_valid_strings() {
        let cases: [(u32, &[u8], u128); 5] = [
            (8, &[0x63], 99),
            (16, &[0, 0x63], 99),
            (16, &[0x30, 0x64], 12388),
            (12, &[0, 0, 0x63], 99),
            (16, &[0, 0x30, 0x64], 12388),
        ];
        for (w, bytes, v) in cases {
            assert_eq!(value(bytes, w).unwrap(), Val::S(v), "bit<{w}> {bytes:02x?}");
        }
        let signed: [(u32, &[u8], i32); 5] =
            [(8, &[0x63], 99), (8, &[0x9d], -99), (8, &[0xff, 0x9d], -99), (12, &[0xfd, 0x1d], -739), (16, &[0, 0], 0)];
        for (w, bytes, v) in signed {
            assert_eq!(signed_value(bytes, w).unwrap(), Val::from_int(&v.into(), w), "int<{w}> {bytes:02x?}");
        }
    }

    #[test]
    fn the_specification_s_table_of_invalid_strings() {
        let cases: [(u32, &[u8]); 6] = [
            (8, &[1, 0x63]),
            (8, &[]),
            (16, &[1, 0, 0x63]),
            (12, &[0x10, 0x63]),
            (12, &[1, 0, 0x63]),
            (12, &[0, 0x40, 0x63]),
        ];
        for (w, bytes) in cases {
            assert_eq!(value(bytes, w).unwrap_err().code, Code::OutOfRange, "bit<{w}> {bytes:02x?}");
        }
        let signed: [(u32, &[u8]); 3] = [(8, &[0, 0x9d]), (12, &[0x8d, 0x1d]), (16, &[])];
        for (w, bytes) in signed {
            assert_eq!(signed_value(bytes, w).unwrap_err().code, Code::OutOfRange, "int<{w}> {bytes:02x?}");
        }
    }

    #[test]
    fn what_is_written_is_the_shortest_form() {
        assert_eq!(canonical(&Val::S(0)), [0]);
        assert_eq!(canonical(&Val::S(0x100)), [1, 0]);
        assert_eq!(canonical_signed(&Val::from_int(&(-1).into(), 12), 12), [0xff]);
        assert_eq!(canonical_signed(&Val::from_int(&(-739).into(), 12), 12), [0xfd, 0x1d]);
        assert_eq!(canonical_signed(&Val::S(0x80), 16), [0, 0x80]);
        assert_eq!(canonical_signed(&Val::S(0), 16), [0]);
    }

    #[test]
    fn wide_values_come_back() {
        let bytes = [0xab; 40];
        let v = value(&bytes, 320).unwrap();
        assert_eq!(canonical(&v), bytes);
        assert_eq!(value(&bytes, 319).unwrap_err().code, Code::OutOfRange);
        assert_eq!(value(&vec![0xff; 1 << 20], 320).unwrap_err().code, Code::OutOfRange);
    }

    #[test]
    fn structured_data_comes_back() {
        let layout = Layout::Struct(vec![
            ("a".into(), Layout::Bits(9)),
            ("b".into(), Layout::Bool),
            ("c".into(), Layout::Enum(vec!["X".into(), "Y".into()])),
            ("d".into(), Layout::Tuple(vec![Layout::Int(12), Layout::EnumValue(4)])),
            ("e".into(), Layout::Header(vec![("f".into(), Layout::Bits(16))])),
        ]);
        let values = [1u128, 1, 1, 0xffe, 3, 0xabc].map(Val::S).to_vec();
        let data = layout.encode(&mut values.clone().into_iter());
        let mut back = Vec::new();
        layout.decode(&data, &mut back).unwrap();
        assert_eq!(back, values);
        let mut widths = Vec::new();
        layout.leaves(&mut widths);
        assert_eq!(widths, [9, 1, 32, 12, 4, 16]);
    }

    #[test]
    fn data_of_another_form_names_the_member() {
        let layout = Layout::Struct(vec![("port".into(), Layout::Bits(9))]);
        let data = P4Data {
            data: Some(Data::Struct(p4v1::P4StructLike { members: vec![P4Data { data: Some(Data::Bool(true)) }] })),
        };
        let e = layout.decode(&data, &mut Vec::new()).unwrap_err();
        assert_eq!((e.code, e.to_string().as_str()), (Code::InvalidArgument, "port: bitstring is needed here"));
    }
}
