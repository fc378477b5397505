// SPDX-License-Identifier: Apache-2.0
// Behaviour of p4c and BMv2 in two doubtful cases: `?:` after `?:`, and packet_length in egress when headers were added
// and removed.
#include <core.p4>
#include <v1model.p4>

header asked_t { bit<8> a; bit<8> which; bit<32> length; }
header added_t { bit<24> x; }
struct headers_t { asked_t asked; added_t added; added_t twice; }
struct meta_t {}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.asked);
        transition select(h.asked.a) { 9: more; default: accept; }
    }
    state more { b.extract(h.added); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        bool t = h.asked.a == 1;
        bool f = h.asked.a == 2;
        // from the left: (t ? t : f) ? f : t
        h.asked.which = (t ? t : f ? f : t) ? 8w1 : 8w0;
        if (h.asked.a == 9) {
            h.added.setInvalid();
            h.added.setInvalid();
        } else {
            h.added.setValid();
            h.added.setValid();
            h.added.x = 0;
            h.twice.setValid();
            h.twice.x = 0;
        }
        sm.egress_spec = 1;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        h.asked.length = sm.packet_length;
        h.twice.setInvalid();
    }
}
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
