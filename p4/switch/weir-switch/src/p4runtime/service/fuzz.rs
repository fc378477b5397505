// SPDX-License-Identifier: Apache-2.0
//! Messages without a server between, for fuzzers.
use crate::device::Device;
use crate::p4runtime::controller_state::ControllerState;
use crate::p4runtime::pipeline::{Config, STATE_BYTES};
use crate::p4runtime::proto::p4::v1 as pb;
use crate::p4runtime::read::{Item, Reader};
use crate::p4runtime::write::Writer;
use prost::Message as _;
use prost::bytes::Bytes;

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
