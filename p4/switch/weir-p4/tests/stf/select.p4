// SPDX-License-Identifier: Apache-2.0
// Errors of a parser, as the program sees them: at a select that nothing matches, by verify, for lack of bytes.
#include <core.p4>
#include <v1model.p4>

header cmd_t { bit<8> what; bit<8> why; }
header more_t { bit<32> word; }
struct headers_t { cmd_t c; more_t m; }
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.c);
        transition select(h.c.what) { 0: accept; 1: check; 2: more; }
    }
    state check { verify(h.c.why == 0, error.HeaderTooShort); transition accept; }
    state more { b.extract(h.m); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.parser_error == error.NoError) { h.c.why = 0xa; }
        if (sm.parser_error == error.NoMatch) { h.c.why = 0xb; }
        if (sm.parser_error == error.HeaderTooShort) { h.c.why = 0xc; }
        if (sm.parser_error == error.PacketTooShort) { h.c.why = 0xd; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.c); b.emit(h.m); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
