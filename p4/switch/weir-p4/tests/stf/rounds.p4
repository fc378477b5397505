// SPDX-License-Identifier: Apache-2.0
// The first byte selects the treatment of a packet that goes round or is copied: the effect of `truncate` then, and
// which port the parser of a copy sees.
#include <core.p4>
#include <v1model.p4>

header cmd_t { bit<8> what; bit<8> round; bit<16> length; }
header more_t { bit<8> seen; }
struct headers_t { cmd_t c; more_t m; }
struct meta_t { @field_list(1) bit<8> kept; }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.c);
        transition select(h.c.what, sm.ingress_port) { (4, 3): more; default: accept; }
    }
    state more { b.extract(h.m); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (h.c.what == 1) {
            truncate(5);
            sm.mcast_grp = 9;
        } else if (h.c.what == 3 && sm.instance_type == 0) {
            truncate(5);
        } else if (sm.instance_type == 4) {
            h.c.length = (bit<16>)sm.packet_length;
            if (h.c.what == 4) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        if (h.c.what >= 2 && h.c.round == 0 && sm.instance_type == 0) {
            h.c.round = 1;
            if (h.c.what == 2) { truncate(5); }
            recirculate_preserving_field_list(1);
        }
        if (h.m.isValid()) { h.m.seen = h.m.seen + 1; }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.c); b.emit(h.m); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
