// SPDX-License-Identifier: Apache-2.0
// Behaviour of `for` where compilers differ: each case is worked out by hand from P4_16's text in the script beside it.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> what; bit<8> a; bit<8> b; bit<8> r; }
header item_t { bit<8> v; }
struct headers_t { h_t h; item_t[3] items; item_t gone; }
struct meta_t {}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition select(h.h.what) { 8: items; default: accept; }
    }
    state items { b.extract(h.items.next); b.extract(h.items.next); b.extract(h.items.next); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> n = 0;
    apply {
        s.egress_spec = 1;
        switch (h.h.what) {
            // Two variables: both begin once, before the first turn, and live through all of them.
            1: { for (bit<8> i = 0, bit<8> j = i; i < 4; i = i + 1) { j = j + 5; n = n + j; } }
            // The bounds are read once.
            2: { for (bit<8> i in h.h.a .. h.h.b) { n = n + i; h.h.b = 9; } }
            // The values of a list too.
            3: { for (bit<8> i in (list<bit<8>>){ 1, h.h.a, h.h.b }) { n = n + i; h.h.a = 100; h.h.b = 200; } }
            // The variable may be written: the next turn of a range or list takes the next value all the same.
            4: { for (bit<8> i in 1 .. 4) { i = i + 10; n = n + i; } }
            // In the form of three parts the condition sees the body's writes.
            5: { for (bit<8> i = 0; i < h.h.b; i = i + 1) { i = i + 1; h.h.b = h.h.b - 1; n = n + 1; } }
            // `continue` runs the update, `break` does not.
            6: {
                bit<8> i = 0;
                for (; i < 10; i = i + 1) {
                    if (i == 3) { continue; }
                    if (i == 6) { break; }
                    n = n + i;
                }
                h.h.a = i;
            }
            // A range up to the type's largest value ends; one that begins above its end is empty.
            7: {
                for (bit<8> i in 254 .. 255) { n = n + 1; }
                for (bit<8> i in h.h.a .. h.h.b) { n = n + 100; }
            }
            // The elements of a stack.
            8: { for (item_t x in h.items) { n = n + x.v; } }
            // The variable hides another one, which is untouched.
            9: {
                bit<8> i = 7;
                for (bit<8> i in 1 .. 3) { n = n + i; }
                h.h.a = i;
            }
            // Fields of a header that is not there read as zero, also those written meanwhile.
            10: {
                n = h.gone.v;
                h.gone.v = 5;
                if (!h.gone.isValid() && h.items[1].v == 0) { n = n + 1; }
            }
        }
        h.h.r = n;
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
