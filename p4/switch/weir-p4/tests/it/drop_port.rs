// SPDX-License-Identifier: Apache-2.0
//! The drop port is chosen by the switch, not by the program.
use std::path::Path;
use std::sync::Arc;
use weir_p4::bytecode::program::Program;
use weir_p4::v1model::{Arriving, DROP_PORT, EgressOut, IngressOut, Notes, Switch};

const INGRESS_MARKS: u8 = 5;
const TO_PORT_511: u8 = 7;
const EGRESS_MARKS: u8 = 10;

fn copies() -> Arc<Program> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stf/copies.p4");
    let text = std::fs::read_to_string(&path).expect("the program can be read");
    Arc::new(weir_p4::compile("copies.p4", &text, &[]).unwrap_or_else(|d| panic!("{d:?}")))
}

/// The port that a packet with this first byte leaves by, and the drops in ingress and in egress.
fn send(program: &Arc<Program>, drop_port: u32, what: u8) -> (Option<u32>, u32, u32) {
    let mut s = Switch::new(program.clone(), 1);
    s.drop_port = drop_port;
    let (mut notes, mut before, mut after) = (Notes::default(), IngressOut::default(), EgressOut::default());
    let packet = s.packet(&[what, 0, 0, 0]);
    s.ingress(Arriving::new(packet, 3), 1000, &mut notes, &mut before);
    let mut left_by = None;
    for q in before.queued {
        s.egress(q, 1001, &mut notes, &mut after);
        left_by = after.sent.take().map(|x| x.port);
    }
    (left_by, notes.ingress_drops, notes.egress_drops)
}

#[test]
fn mark_to_drop_writes_the_switch_s_own() {
    let program = copies();
    for drop_port in [DROP_PORT, 400, 0] {
        assert_eq!(send(&program, drop_port, INGRESS_MARKS), (None, 1, 0), "drop port {drop_port}, in ingress");
        assert_eq!(send(&program, drop_port, EGRESS_MARKS), (None, 0, 1), "drop port {drop_port}, in egress");
        assert_eq!(send(&program, drop_port, 0), (Some(1), 0, 0), "drop port {drop_port}, not marked");
    }
}

#[test]
fn port_511_drops_only_where_it_is_the_drop_port() {
    let program = copies();
    assert_eq!(send(&program, DROP_PORT, TO_PORT_511), (None, 1, 0));
    assert_eq!(send(&program, 400, TO_PORT_511), (Some(511), 0, 0));
}
