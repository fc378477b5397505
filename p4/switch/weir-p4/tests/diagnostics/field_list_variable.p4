// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
const bit<8> LIST = 1;
struct headers_t { h_t h; }
struct meta_t { @field_list(1) bit<8> x; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.h); transition accept; }
}
control VC(inout headers_t hdr, inout meta_t meta) { apply {  } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action again(bit<8> list) { resubmit_preserving_field_list(list); }
    table t { key = { hdr.h.a: exact; } actions = { again; } default_action = again(1); }
    apply {
        bit<8> index = LIST;
        clone_preserving_field_list(CloneType.I2E, 57, index);
        clone_preserving_field_list(CloneType.I2E, 57, LIST);
        t.apply();
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { recirculate_preserving_field_list(hdr.h.a + 1); }
}
control UC(inout headers_t hdr, inout meta_t meta) { apply {  } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), VC(), I(), E(), UC(), D()) main;
