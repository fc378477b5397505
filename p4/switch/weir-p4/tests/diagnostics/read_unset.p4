// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; h_t t; }
struct meta_t { bit<8> x; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.h); transition accept; }
}
control VC(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    bit<8> shared;
    bit<8> never;
    action set() { shared = 1; }
    action own() {
        bit<8> o;
        hdr.h.a = o;
    }
    table t { key = { hdr.h.b: exact; } actions = { set; own; } }
    apply {
        bit<8> x;
        bit<8> y;
        bit<8> z;
        bool b;
        hdr.h.a = x;
        if (hdr.h.b == 1) { y = 1; }
        hdr.h.a = y;
        z[3:0] = 1;
        hdr.h.a = z;
        hdr.h.a = never;
        t.apply();
        hdr.h.a = shared;
        random(z, 0, 9);
        if (b) { hdr.h.b = 2; }
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control UC(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), VC(), I(), E(), UC(), D()) main;
