// SPDX-License-Identifier: Apache-2.0
// Field lists by literal, named constant, enum member and expression; clone, resubmit and recirculate.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

const int NUMBER = 1;
const bit<8> WIDE = 2;
enum bit<8> list_t { AGAIN = 3, ROUND = 4 }
enum plain_t { ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX }

header cmd_t { bit<8> command; bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; }
struct headers_t { cmd_t c; }
struct inner_t { bit<8> e; }
struct meta_t {
    @field_list(NUMBER) bit<8> a;
    @field_list(WIDE, list_t.AGAIN) bit<8> b;
    @field_list(list_t.ROUND, NUMBER) bit<8> c;
    @field_list((bit<8>)NUMBER + 1, 4 + 2 - 2) bit<8> d;
    @field_list(plain_t.SIX) inner_t inner;
}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.c); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control show(inout cmd_t c, in meta_t m) {
    apply { c.a = m.a; c.b = m.b; c.c = m.c; c.d = m.d; c.e = m.inner.e; }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    show() shown;
    apply {
        sm.egress_spec = 1;
        if (sm.instance_type != 0) { shown.apply(h.c, m); return; }
        m.a = 0xa0; m.b = 0xb0; m.c = 0xc0; m.d = 0xd0; m.inner.e = 0xe0;
        switch (h.c.command) {
            1: { clone_preserving_field_list(CloneType.I2E, 5, NUMBER); mark_to_drop(sm); }
            2: { clone_preserving_field_list(CloneType.I2E, 5, WIDE); mark_to_drop(sm); }
            3: { resubmit_preserving_field_list(list_t.AGAIN); }
            6: { clone_preserving_field_list(CloneType.I2E, 5, (bit<8>)6); mark_to_drop(sm); }
            default: { }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    show() shown;
    apply {
        if (sm.instance_type == 1) { shown.apply(h.c, m); }
        if (h.c.command == 4 && h.c.c == 0) { recirculate_preserving_field_list(list_t.ROUND); }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.c); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
