// SPDX-License-Identifier: Apache-2.0
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct meta_t {}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { mark_to_drop(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
