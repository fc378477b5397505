// SPDX-License-Identifier: Apache-2.0
// Operations that a type made by `type` lacks, though integers are taken for it.
#include <v1model.p4>
type bit<8> n_t;
type error e_t;
enum n_t Members { A = 1 }
header h_t { n_t a; bit<8> b; }
struct headers_t { h_t h; }
struct meta_t {}
const n_t C1 = 8w1;
const n_t C2 = true;
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.h.a = 256;
        h.h.a = h.h.b;
        h.h.b = h.h.a;
        h.h.a = h.h.a + 1;
        if (h.h.a == h.h.b) { }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
