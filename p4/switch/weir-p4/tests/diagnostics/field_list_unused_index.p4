// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
const bit<8> LIST = 1;
struct headers_t { h_t h; }
struct meta_t { @field_list(2) bit<8> x; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.h); transition accept; }
}
control VC(inout headers_t hdr, inout meta_t meta) { apply {  } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { clone_preserving_field_list(CloneType.I2E, 57, LIST); meta.x = 0x77; mark_to_drop(sm); }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { if (sm.instance_type == 1) { hdr.h.a = meta.x; } }
}
control UC(inout headers_t hdr, inout meta_t meta) { apply {  } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), VC(), I(), E(), UC(), D()) main;
