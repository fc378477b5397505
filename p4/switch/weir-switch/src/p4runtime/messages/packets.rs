// SPDX-License-Identifier: Apache-2.0
//! Frames to and from controllers: their metadata is a header in front (P4Runtime 15.1, `@controller_header`).
use super::bytes::value;
use super::error::{At, Res, invalid};
use super::strings::{number, told};
use crate::p4runtime::proto::p4::v1::{PacketIn, PacketMetadata, PacketOut};
use tonic::Code;
use weir_p4::p4info::{ControllerHeader, P4Info, Preambled};
use weir_p4::value::{BitWriter, Val, read_bits};

fn header<'a>(info: &'a P4Info, name: &str) -> Option<&'a ControllerHeader> {
    info.controller_packet_metadata.iter().find(|c| c.name() == name)
}

/// A frame from the CPU port as a message; `None` when it is shorter than its header.
pub fn packet_in(info: &P4Info, mut frame: Vec<u8>) -> Option<PacketIn> {
    let Some(h) = header(info, "packet_in") else {
        return Some(PacketIn { payload: frame, metadata: Vec::new() });
    };
    let bytes = h.bits.div_ceil(8) as usize;
    if frame.len() < bytes {
        return None;
    }
    let metadata = h.message.metadata.iter().zip(&h.fields).map(|(m, f)| PacketMetadata {
        metadata_id: m.id,
        value: told(&read_bits(&frame, f.offset_bits as usize, f.bits), info.strings(&m.type_name)),
    });
    let metadata = metadata.collect();
    frame.drain(..bytes);
    Some(PacketIn { payload: frame, metadata })
}

/// A controller's packet as the frame that comes in on the CPU port.
pub fn packet_out(info: &P4Info, p: &PacketOut) -> Res<Vec<u8>> {
    let h = header(info, "packet_out");
    let fields: Vec<_> = h.into_iter().flat_map(|h| h.message.metadata.iter().zip(&h.fields)).collect();
    let mut values: Vec<Option<Val>> = vec![None; fields.len()];
    for (i, m) in p.metadata.iter().enumerate() {
        let Some(at) = fields.iter().position(|(f, _)| f.id == m.metadata_id) else {
            let e = invalid(format!("the program's packet_out header has no field {}", m.metadata_id));
            return Err(e.under(format!("metadata[{i}].metadata_id")));
        };
        let (field, bits) = (fields[at].0, fields[at].1.bits);
        let place = || format!("metadata[{i}] ({})", field.name);
        if values[at].is_some() {
            return Err(invalid("is there twice").under(place()));
        }
        let v = match info.strings(&field.type_name) {
            Some(s) => number(s, &m.value),
            None => value(&m.value, bits).map_err(|e| e.with_code(Code::InvalidArgument)),
        };
        values[at] = Some(v.at(place)?);
    }
    let mut w = BitWriter::default();
    for ((m, place), v) in fields.iter().zip(values) {
        let Some(v) = v else {
            return Err(invalid(format!("field {} ({}) is missing", m.id, m.name)).under("metadata"));
        };
        pad(&mut w, place.offset_bits);
        w.push(&v, place.bits);
    }
    pad(&mut w, h.map_or(0, |h| h.bits));
    let mut frame = w.bytes;
    frame.extend_from_slice(&p.payload);
    Ok(frame)
}

/// Fields that controllers don't see are zero.
fn pad(w: &mut BitWriter, to_bits: u32) {
    let missing = to_bits.saturating_sub(w.bits as u32);
    if missing > 0 {
        w.push(&Val::S(0), missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_p4::p4info::HeaderField;
    use weir_p4::p4info::proto::{ControllerPacketMetadata, Preamble, controller_packet_metadata::Metadata};

    fn info(name: &str) -> P4Info {
        // As of a type that is translated to 32 bits for controllers.
        let field = |id, name: &str| Metadata { id, name: name.into(), bitwidth: 32, ..Default::default() };
        let message = ControllerPacketMetadata {
            preamble: Some(Preamble { name: name.into(), ..Default::default() }),
            metadata: vec![field(1, "port"), field(2, "reason")],
        };
        let fields = vec![HeaderField { offset_bits: 0, bits: 9 }, HeaderField { offset_bits: 12, bits: 4 }];
        let header = ControllerHeader { message, fields, bits: 16 };
        P4Info { controller_packet_metadata: vec![header], ..Default::default() }
    }

    #[test]
    fn metadata_go_in_front_and_come_back() {
        let metadata = vec![
            PacketMetadata { metadata_id: 2, value: vec![0xa] },
            PacketMetadata { metadata_id: 1, value: vec![0, 1, 3] },
        ];
        let out = PacketOut { payload: vec![0xde, 0xad].into(), metadata };
        let frame = packet_out(&info("packet_out"), &out).unwrap();
        // 9 bits 0x103, 3 hidden, 4 bits 0xa.
        assert_eq!(frame, [0x81, 0x8a, 0xde, 0xad]);
        let back = packet_in(&info("packet_in"), frame).unwrap();
        assert_eq!(back.payload, [0xde, 0xad]);
        let values: Vec<_> = back.metadata.iter().map(|m| (m.metadata_id, m.value.clone())).collect();
        assert_eq!(values, [(1, vec![1, 3]), (2, vec![0xa])]);
    }

    #[test]
    fn a_frame_shorter_than_its_header_is_none() {
        assert_eq!(packet_in(&info("packet_in"), vec![1]), None);
        assert_eq!(packet_in(&P4Info::default(), vec![1]).unwrap().payload, [1]);
    }

    #[test]
    fn wrong_metadata_are_named() {
        let m = |metadata_id, value: &[u8]| PacketMetadata { metadata_id, value: value.to_vec() };
        let cases = [
            (vec![m(1, &[1])], "metadata: field 2 (reason) is missing"),
            (vec![m(7, &[1])], "metadata[0].metadata_id: the program's packet_out header has no field 7"),
            (vec![m(1, &[1]), m(1, &[1])], "metadata[1] (port): is there twice"),
            (vec![m(1, &[4, 0])], "metadata[0] (port): value 0x0400 does not fit 9 bits"),
        ];
        for (metadata, wanted) in cases {
            let e = packet_out(&info("packet_out"), &PacketOut { metadata, ..Default::default() }).unwrap_err();
            assert_eq!((e.code, e.to_string().as_str()), (Code::InvalidArgument, wanted));
        }
    }
}
