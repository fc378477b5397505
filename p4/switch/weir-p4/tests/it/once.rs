// SPDX-License-Identifier: Apache-2.0
//! Events that happen once for a packet, however often the program asks for them: its direct meter and its digest. The
//! expected values are simple_switch's.
use std::sync::Arc;
use weir_p4::bytecode::program::{ActionCall, KeyMatch, Program};
use weir_p4::exec::EntryAction;
use weir_p4::v1model::{Notes, Switch};
use weir_p4::value::Val;

/// Key 1: the meter's color is never read. Key 2: read twice, to `color`, and shown in `shown`.
const PROGRAM: &str = "
#include <core.p4>
#include <v1model.p4>
header cmd_t { bit<8> what; bit<8> color; bit<16> shown; }
struct headers_t { cmd_t c; }
struct meta_t { }
struct first_t { bit<8> v; }
struct second_t { bit<8> w; }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.c); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    direct_meter<bit<8>>(MeterType.packets) limit;
    action silent() { }
    action twice() {
        limit.read(h.c.color);
        h.c.shown[15:8] = h.c.color;
        limit.read(h.c.color);
        h.c.shown[7:0] = h.c.color;
    }
    table t {
        key = { h.c.what: exact; }
        actions = { silent; twice; @defaultonly NoAction; }
        default_action = NoAction();
        meters = limit;
    }
    apply {
        sm.egress_spec = 1;
        h.c.color = 0x55;
        t.apply();
        if (h.c.what == 9) {
            digest<first_t>(1, { h.c.what });
            digest<second_t>(1, { h.c.color });
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.c); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

fn program() -> Arc<Program> {
    Arc::new(weir_p4::compile("once.p4", PROGRAM, &[]).unwrap_or_else(|d| panic!("{d:?}")))
}

/// The bytes behind the first of each of six packets that come at one time.
fn colors(what: u8, action: &str) -> Vec<[u8; 3]> {
    let p = program();
    let mut s = Switch::new(p.clone(), 1);
    let action = p.tables[0].actions.iter().position(|a| a.name.ends_with(action)).expect("the table has this action");
    let call = EntryAction::Call(ActionCall { action, args: vec![] });
    let key = vec![KeyMatch::Exact(Val::S(what.into()))];
    let id = s.state.tables[0].insert(&p.tables[0], key, 0, call).expect("the entry is new");
    let entry = s.state.tables[0].entry_mut(id).expect("the entry is there");
    // Two packets green, two more yellow.
    entry.meter.set((1e-7, 2), (1e-7, 4), 0);
    let mut out = Vec::new();
    for _ in 0..6 {
        let sent = s.process(&[what, 0, 0, 0], 0, 1, &mut Notes::default());
        let bytes = sent[0].packet.bytes();
        out.push([bytes[1], bytes[2], bytes[3]]);
    }
    out
}

#[test]
fn two_reads_charge_a_packet_once() {
    assert_eq!(colors(2, "twice"), [[0; 3], [0; 3], [1; 3], [1; 3], [2; 3], [2; 3]]);
}

#[test]
fn an_action_that_does_not_read_is_metered_too() {
    let shown: Vec<u8> = colors(1, "silent").iter().map(|x| x[0]).collect();
    assert_eq!(shown, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn of_two_digests_the_last_is_sent() {
    let p = program();
    let mut s = Switch::new(p.clone(), 1);
    let mut notes = Notes::default();
    s.process(&[9, 0, 0, 0], 0, 1, &mut notes);
    let [digest] = &notes.digests[..] else { panic!("{:?}", notes.digests) };
    assert!(p.digests[digest.digest].name.ends_with("second_t"), "{}", p.digests[digest.digest].name);
    assert_eq!(digest.values, [Val::S(0x55)]);
}
