// SPDX-License-Identifier: Apache-2.0
// Registers, counters and meters as parameters of controls, through two levels; values of no bits.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<0> none; bit<8> cell; bit<16> v; }
struct headers_t { h_t h; }
struct meta_t { bit<2> color; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control Add(inout bit<16> v, register<bit<16>> cells, in bit<8> cell) {
    bit<16> old;
    action add() { cells.read(old, (bit<32>)cell); v = v + old; }
    table always { actions = { add; } default_action = add(); }
    apply {
        always.apply();
        cells.write((bit<32>)cell, v);
    }
}
control Both(inout headers_t h, inout meta_t m, register<bit<16>> first, register<bit<16>> second, counter seen,
             meter limit) {
    Add() one;
    Add() other;
    apply {
        if (h.h.op == 1) { one.apply(h.h.v, first, h.h.cell); } else { other.apply(h.h.v, second, h.h.cell); }
        seen.count((bit<32>)h.h.cell);
        limit.execute_meter((bit<32>)h.h.cell, m.color);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    register<bit<16>>(8) a;
    register<bit<16>>(8) b;
    counter(8, CounterType.packets) c;
    meter(8, MeterType.packets) limit;
    Both() both;
    action out_by(bit<0> nothing, bit<9> port) { sm.egress_spec = port; h.h.none = nothing; }
    table by_none {
        key = { h.h.none: exact; h.h.op: exact; }
        actions = { out_by; NoAction; }
        const entries = { (0, 1): out_by(0, 1); (0, 2): out_by(0, 2); }
    }
    apply {
        both.apply(h, m, a, b, c, limit);
        h.h.none = ~h.h.none;
        h.h.v = h.h.v + (bit<16>)h.h.none + (bit<16>)(h.h.none ++ 8w0);
        by_none.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
