// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct meta_t { bit<8> v; }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control Read(inout meta_t m, register<bit<8>> r) { apply { r.read(m.v, 0); } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    register<bit<8>>(1) a;
    register<bit<8>>(1) b;
    Read() one;
    apply { one.apply(m, a); one.apply(m, b); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
