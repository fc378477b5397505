// SPDX-License-Identifier: Apache-2.0
// Arithmetic of all kinds, wide values, unions, stacks, subparsers, subcontrols, generics, loops, const entries.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<16> a; bit<16> b; bit<16> r; }
header wide_t { bit<256> w; }
header item_t { bit<7> v; bit<1> last; }
header s_t { int<8> x; }
header l_t { bit<16> y; }
header_union u_t { s_t s; l_t l; }
struct headers_t { op_t o; wide_t w; item_t[4] items; u_t u; }
struct pair_t<T> { T x; T y; }
struct meta_t { bit<16> t; }
enum bit<8> Op { ADD = 1, SUB = 2, SAT = 3, MUL = 4, SHL = 5, WIDE = 6, STACK = 7, UNION = 8, LOOP = 9, HASH = 10,
                 SIGNED = 11, ENTRY = 12 }
typedef bit<16> word_t;
const word_t ONE = 1;

T chosen<T>(in bool first, in T a, in T b) { if (first) { return a; } return b; }
word_t swap_sum(inout word_t a, inout word_t b) { word_t t = a; a = b; b = t; return a + b; }

parser Items(packet_in b, out item_t[4] items) {
    state start {
        b.extract(items.next);
        transition select(items.last.last) { 1: accept; default: start; }
    }
}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Items() sub;
    state start {
        b.extract(h.o);
        transition select(h.o.op, h.o.a) {
            (Op.WIDE, _): wide;
            (Op.STACK, _): stack;
            (Op.UNION, 0 .. 9): short;
            (Op.UNION, 0x8000 &&& 0x8000): long;
            (_, _): accept;
        }
    }
    state wide { b.extract(h.w); transition accept; }
    state stack { sub.apply(b, h.items); transition accept; }
    state short { b.extract(h.u.s); transition accept; }
    state long { b.extract(h.u.l); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control Twice(inout word_t x)(word_t step) {
    apply { x = x + step; x = x + step; }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    Twice(3) by_three;
    Twice(step = 5) by_five;
    action set(word_t v) { h.o.r = v; }
    table t {
        key = { h.o.a: ternary; h.o.b: range; }
        actions = { set; NoAction; }
        const entries = {
            (0x0100 &&& 0xff00, 0 .. 10): set(1);
            (0x0100 &&& 0xff00, _): set(2);
            (_, 7): set(3);
        }
        default_action = set(9);
    }
    apply {
        sm.egress_spec = 1;
        switch (h.o.op) {
            1: { h.o.r = h.o.a + h.o.b; }
            2: { h.o.r = h.o.a - h.o.b; }
            3: { h.o.r = h.o.a |+| h.o.b; h.o.a = h.o.a |-| h.o.b; }
            4: { h.o.r = h.o.a * h.o.b; }
            5: { h.o.r = (h.o.a << h.o.b) ^ (h.o.a >> 1); }
            6: {
                h.w.w = (h.w.w + 1) ^ (bit<256>)(h.o.a ++ h.o.b) << 128;
                h.o.r = h.w.w[255:240];
            }
            7: {
                h.items.push_front(1);
                h.items[0] = { 0x55, 0 };
                h.o.r[7:0] = (bit<8>)h.items[1].v;
            }
            8: {
                if (h.u.s.isValid()) { h.u.s.x = -h.u.s.x; h.o.r = (word_t)(bit<8>)(h.u.s.x >> 1); }
                else if (h.u.l.isValid()) { h.u.s = { 7 }; }
            }
            9: {
                word_t n = 0;
                for (bit<8> i = 0; i < 10; i = i + 1) { if (i == 3) { continue; } if (i == 8) { break; } n = n + (word_t)i; }
                for (word_t j in 1 .. 3) { n = n + j; }
                by_three.apply(n);
                by_five.apply(n);
                h.o.r = n;
            }
            10: {
                hash(h.o.r, HashAlgorithm.crc16, 16w0, { h.o.a, h.o.b }, 17w0x10000);
            }
            11: {
                pair_t<int<8>> p = { x = (int<8>)(bit<8>)h.o.a, y = (int<8>)(bit<8>)h.o.b };
                h.o.r = p.x < p.y ? 16w1 : 0;
                h.o.a = chosen(h.o.a > h.o.b, h.o.a, h.o.b) + swap_sum(h.o.a, h.o.b);
            }
            12: { t.apply(); }
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
