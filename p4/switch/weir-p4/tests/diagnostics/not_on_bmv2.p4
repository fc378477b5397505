// SPDX-License-Identifier: Apache-2.0
// Constructs that run here and that p4c for BMv2 refuses.
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct meta_t { bit<8> v; }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    const bit<3> LAST = 0;
    action set(bit<8> v) { m.v = v; }
    table once { key = { m.v: exact; } actions = { set; NoAction; } }
    table either { key = { m.v: exact; } actions = { set; NoAction; } }
    table twice { key = { m.v: exact; } actions = { set; NoAction; } }
    apply {
        m.v[LAST:LAST] = 1;
        for (bit<8> i in 1 .. 3) { m.v = m.v + i; }
        if (m.v == 1) { either.apply(); twice.apply(); } else { either.apply(); return; }
        if (once.apply().hit) { twice.apply(); }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
