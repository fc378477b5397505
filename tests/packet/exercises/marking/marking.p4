// SPDX-License-Identifier: Apache-2.0
#include "headers.p4"
#include "router.p4"

const bit<19> DEPTH_PACKETS = 4;

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.ipv4.ecn != 0 && standard_metadata.enq_qdepth >= DEPTH_PACKETS) {
            hdr.ipv4.ecn = 3;
        }
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
