// SPDX-License-Identifier: Apache-2.0
#include <core.p4>

header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { h_t h; }
struct meta_t {  }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    
    state start { pkt.extract(hdr.h); transition accept; }
    
}
control VC(inout headers_t hdr, inout meta_t meta) { apply {  } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    
    apply {  }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    
    apply {  }
}
control UC(inout headers_t hdr, inout meta_t meta) { apply {  } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), VC(), I(), E(), UC(), D()) main;
