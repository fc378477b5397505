// SPDX-License-Identifier: Apache-2.0
// The first byte selects the packet's fate: clone, resubmit, recirculate, multicast, drop, truncate.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

header cmd_t { bit<8> what; bit<8> note; bit<8> rounds; bit<8> kind; }
struct headers_t { cmd_t c; }
struct meta_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.c); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        switch (h.c.what) {
            1: {
                m.kept = 0xaa; m.lost = 0xbb;
                clone_preserving_field_list(CloneType.I2E, 5, 1);
                h.c.note = 0x11;
            }
            2: {
                if (sm.instance_type == 0) {
                    m.kept = 0x77; m.lost = 0x88;
                    h.c.note = 0x99;
                    resubmit_preserving_field_list(1);
                } else { h.c.rounds = m.kept + m.lost; }
            }
            4: { sm.mcast_grp = 9; }
            5: { mark_to_drop(sm); }
            6: { truncate(2); }
            7:
            8: { sm.egress_spec = 511; }
            9: { sm.mcast_grp = 9; mark_to_drop(sm); }
            default: { }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        h.c.kind = (bit<8>)sm.instance_type;
        if (sm.instance_type == 1) { h.c.rounds = m.kept + m.lost; }
        if (sm.instance_type == 5) { h.c.note = (bit<8>)sm.egress_rid; }
        if (h.c.what == 3 && h.c.rounds < 3) {
            h.c.rounds = h.c.rounds + 1;
            recirculate_preserving_field_list(0);
        }
        if (h.c.what == 10 && sm.instance_type == 0) {
            h.c.note = 0x33;
            clone(CloneType.E2E, 5);
            mark_to_drop(sm);
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.c); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
