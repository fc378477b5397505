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
    action make() { hdr.t.setValid(); }
    apply {
        hdr.t.setInvalid();
        hdr.h.a = hdr.t.a;
        hdr.t.setInvalid();
        if (hdr.t.isValid()) { hdr.h.a = hdr.t.a; }
        hdr.t = hdr.h;
        hdr.h.a = hdr.t.a;
        hdr.t.setInvalid();
        make();
        hdr.h.a = hdr.t.a;
        hdr.t.setInvalid();
        hdr.t.setValid();
        hdr.h.a = hdr.t.a;
        if (hdr.h.b == 1) { hdr.t.setInvalid(); }
        hdr.h.a = hdr.t.a;
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control UC(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), VC(), I(), E(), UC(), D()) main;
