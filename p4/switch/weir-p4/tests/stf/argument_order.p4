// SPDX-License-Identifier: Apache-2.0
// P4_16 6.8: arguments are evaluated in the order of the call, an inout argument's value is saved first, and results
// are copied out in the order of the call.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

header h_t { bit<8> test; bit<8> a; bit<8> b; bit<8> c; }
header i_t { bit<8> v; }
struct pair_t { bit<8> x; bit<8> y; }
struct headers_t { h_t h; i_t[2] s; }
struct meta_t { bit<8> p; bit<8> q; }

bit<8> add3(inout bit<8> z) { z = z + 3; return z; }
bit<8> flip(inout bit<1> z) { z = ~z; return 8w0; }
void sum(inout bit<8> x, in bit<8> y) { x = x + y; }
void both(inout bit<8> x, inout bit<8> y) { x = x | 0xA0; y = y | 0x0B; }
void set(inout bit<8> x, inout bit<8> y) { x = 0xAA; y = 0xBB; }
void halves(inout bit<4> x, in bit<8> y) { x = x + (bit<4>)y; }
T first<T>(inout T x, in bit<8> y) { return x; }
void total(inout pair_t p, in bit<8> y) { p.x = p.x + p.y + y; }
bit<8> grow(inout pair_t p) { p.y = p.y + 1; return p.y; }

parser inner(packet_in b, inout bit<8> x, in bit<8> y) { state start { x = x + y; transition accept; } }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    inner() sub;
    state start {
        b.extract(h.h);
        b.extract(h.s.next);
        b.extract(h.s.next);
        transition select(h.h.test) { 4: nested; default: accept; }
    }
    state nested { sub.apply(b, h.h.a, add3(h.h.a)); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control adder(inout bit<8> x, in bit<8> y) { apply { x = x + y; } }
control setter(out bit<8> x, inout bit<8> y) { apply { x = 0xAA; y = 0xBB; } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    adder() add;
    setter() put;
    register<bit<8>, bit<32>>(4) r;
    action act(inout bit<8> x, bit<8> y) { x = x + y; }
    action two(inout bit<8> x, inout bit<8> y) { x = 0xAA; y = 0xBB; }
    apply {
        sm.egress_spec = 1;
        bit<1> n = 0;
        pair_t p = { 1, 2 };
        switch (h.h.test) {
            1: { sum(h.h.a, add3(h.h.a)); }
            2: { act(h.h.a, add3(h.h.a)); }
            3: { add.apply(h.h.a, add3(h.h.a)); }
            5: { both(h.h.a, h.h.a); }
            6: { set(y = h.h.a, x = h.h.a); set(x = h.h.b, y = h.h.b); }
            7: { two(y = h.h.a, x = h.h.a); two(x = h.h.b, y = h.h.b); }
            8: { put.apply(y = h.h.a, x = h.h.a); put.apply(x = h.h.b, y = h.h.b); }
            9: { sum(h.s[n].v, flip(n) + 1); }
            10: { halves(h.h.a[7:4], add3(h.h.a)); }
            11: { h.h.b = first(h.h.a, add3(h.h.a)); }
            12: { total(p, grow(p)); h.h.a = p.x; h.h.b = p.y; }
            13: { sum(y = add3(h.h.a), x = h.h.a); }
            14: { r.write(0, 5); r.read(h.h.a, (bit<32>)(add3(h.h.a) - h.h.a)); }
            15: { sum(h.h.a, h.h.a + add3(h.h.a)); }
            default: { }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
