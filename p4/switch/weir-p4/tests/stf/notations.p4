// SPDX-License-Identifier: Apache-2.0
// Sizes of stacks behind their names, and annotations that end with their line.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

@pragma pa_container_size "ingress" hdr.h.a 8
const bit<8> ONE = 1;
@pragma bare
const bit<8> TWO = 2;
header h_t { bit<8> a; }
typedef h_t three_t[3];
struct headers_t {
    h_t first;
    @pragma not_parsed ingress
    h_t h[2];
    three_t t;
}
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.first);
        b.extract(h.h.next);
        b.extract(h.h.next);
        b.extract(h.t[2]);
        transition accept;
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    h_t mine[2];
    @pragma name ".moved"
    action move(bit<9> port) { sm.egress_spec = port; }
    @pragma stage 3
    table t {
        key = { h.first.a : exact @pragma name "which"
        ; }
        actions = { move; NoAction; }
    }
    apply {
        h_t more[2];
        mine[1] = h.h[0];
        more[0] = h.h[1];
        h.h[0].a = more[0].a + ONE;
        h.h[1].a = mine[1].a + TWO;
        t.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
