// SPDX-License-Identifier: Apache-2.0
//! Messages without a server between, for fuzzers.
use crate::device::Device;
use crate::p4runtime::controller_state::ControllerState;
use crate::p4runtime::messages::packets;
use crate::p4runtime::pipeline::{Config, STATE_BYTES};
use crate::p4runtime::proto::p4::v1 as pb;
use crate::p4runtime::read::{Item, Reader};
use crate::p4runtime::stream::digests::{Digests, Settings};
use crate::p4runtime::stream::roles::{Roles, StreamId};
use crate::p4runtime::write::Writer;
use pb::stream_message_request::Update as Ask;
use prost::Message as _;
use prost::bytes::Bytes;
use std::collections::BTreeSet;
use weir_p4::value::Val;

/// Body of the fuzz target `grpc_write`: `data` is taken for a message of a controller and applied to a device without
/// a server between. The first byte says which kind of message.
pub fn fuzz(device: &mut Device, data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    if *kind == 2 {
        if let Ok(r) = pb::SetForwardingPipelineConfigRequest::decode(data)
            && let Ok(config) = r.config.ok_or(()).and_then(|c| Config::verify(c, STATE_BYTES).map_err(|_| ()))
        {
            device.set_pipeline(config.program);
        }
        return;
    }
    let now_us = device.now_us();
    let Some(p) = device.pipeline.as_mut() else { return };
    let Ok(config) = Config::new(p.switch.program.clone(), Bytes::new()) else { return };
    let mut controller = ControllerState::new(&config);
    if let Ok(w) = pb::WriteRequest::decode(data) {
        let mut writer = Writer::new(&config, &mut p.switch.state, &mut controller, now_us);
        let results = if *kind == 0 { writer.each(&w.updates, 0) } else { writer.all(&w.updates) };
        assert_eq!(results.len(), w.updates.len());
    }
    if let Ok(r) = pb::ReadRequest::decode(data) {
        let reader = Reader { config: &config, state: &p.switch.state, controller: &controller, now_us };
        for e in &r.entities {
            let mut items: Vec<Item> = Vec::new();
            // A rejected request is not tried again.
            let _ = reader.plan(e, &mut items);
            let mut out = Vec::new();
            while let Some(item) = items.pop() {
                items.extend(reader.emit(item, &mut out));
            }
        }
    }
}

/// Body of the fuzz target `grpc_stream`: `data` is messages of controllers, each with a byte for its stream and one for its
/// length in front. A role has one primary at most, packets go through the device, digests are acknowledged.
pub fn fuzz_stream(device: &mut Device, mut data: &[u8]) {
    const DEVICE: u64 = 1;
    let Some(p) = &device.pipeline else { return };
    let program = p.switch.program.clone();
    let (mut roles, mut digests, mut now_ns) = (Roles::new(DEVICE), Digests::default(), 0);
    for at in 0..program.info.digests.len() {
        digests.set(at, Some(Settings { max_timeout_ns: 5, max_list_size: 2, ack_timeout_ns: 9 }));
    }
    while let [stream, length, rest @ ..] = data {
        let (message, behind) = rest.split_at(rest.len().min(usize::from(*length)));
        (data, now_ns) = (behind, now_ns + 1);
        for at in 0..program.info.digests.len() {
            digests.push(at, vec![Val::S(u128::from(*stream))], now_ns);
        }
        let Ok(m) = pb::StreamMessageRequest::decode(message) else { continue };
        match m.update {
            Some(Ask::Arbitration(a)) => arbitrate(&mut roles, StreamId::from(stream % 4), &a),
            Some(Ask::Packet(p)) => {
                let Ok(frame) = packets::packet_out(&program.info, &p) else { continue };
                assert!(frame.ends_with(&p.payload));
                device.inject(frame);
                let mut out: Vec<(u32, Vec<u8>)> = Vec::new();
                device.poll(now_ns, &mut out);
            }
            Some(Ask::DigestAck(a)) => drop(digests.acknowledge(usize::from(stream % 4), a.list_id)),
            Some(Ask::Other(_)) | None => {}
        }
        digests.due(now_ns);
        assert!(digests.next_ns().is_none_or(|due| due > now_ns));
    }
}

fn arbitrate(roles: &mut Roles, stream: StreamId, a: &pb::MasterArbitrationUpdate) {
    let result = roles.arbitrate(stream, a);
    let primaries: Vec<StreamId> = roles.primaries().collect();
    assert_eq!(primaries.iter().collect::<BTreeSet<_>>().len(), primaries.len(), "one stream has one role");
    assert!(primaries.iter().all(|id| roles.is_primary(*id) == Some(true)));
    if result.is_err() {
        roles.leave(stream);
        assert_eq!(roles.is_primary(stream), None);
    }
}

/// Body of the fuzz target `device_config`: `data` is the program of a SetForwardingPipelineConfigRequest, as it is and as a
/// tar file whose checksums are right.
pub fn fuzz_config(data: &[u8]) {
    for program in [data.to_vec(), as_tar(data)] {
        let config = pb::ForwardingPipelineConfig { p4_device_config: program.into(), ..Default::default() };
        // Most are refused, and none does harm.
        let _ = Config::verify(config, STATE_BYTES);
    }
}

/// These bytes with the magic and the checksum of each header of a tar file.
fn as_tar(data: &[u8]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 512;
    let mut tar = data.to_vec();
    tar.resize(data.len().next_multiple_of(BLOCK_BYTES) + 2 * BLOCK_BYTES, 0);
    let (mut at, end) = (0, data.len());
    while at + BLOCK_BYTES <= end {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(&tar[at..at + BLOCK_BYTES]);
        header.as_mut_bytes()[257..265].copy_from_slice(b"ustar\x0000");
        header.set_cksum();
        tar[at..at + BLOCK_BYTES].copy_from_slice(header.as_bytes());
        let size = header.entry_size().ok().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        at = at.saturating_add(BLOCK_BYTES).saturating_add(size.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES));
    }
    tar
}
