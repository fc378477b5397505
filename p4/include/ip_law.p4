// SPDX-License-Identifier: Apache-2.0
// Input of the law from an IP packet, and its mark. `headers_t` and `metadata_t` are as for parser.p4.
#ifndef WEIR_IP_LAW_P4
#define WEIR_IP_LAW_P4

#include "headers.p4"
#include "l3_types.p4"
#include "aqm.p4"

// Other packets are one flow. `egress_spec` is the packet's port.
control IpFlow(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (hdr.ipv4.isValid()) {
            meta.aqm.port = (bit<32>)standard_metadata.egress_spec;
            meta.aqm.effects = (aqm_effects_t)(1w1 ++ (hdr.ipv4.ecn[1:1] | hdr.ipv4.ecn[0:0]));
            hash(meta.aqm.flow, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src ++ hdr.ipv4.dst
                ++ standard_metadata.egress_spec ++ hdr.ipv4.protocol ++ meta.l3.ports }, FLOWS);
        } else if (hdr.ipv6.isValid()) {
            meta.aqm.port = (bit<32>)standard_metadata.egress_spec;
            meta.aqm.effects = (aqm_effects_t)(1w1 ++ (hdr.ipv6.ecn[1:1] | hdr.ipv6.ecn[0:0]));
            hash(meta.aqm.flow, HashAlgorithm.crc32, 32w0, { hdr.ipv6.src ++ hdr.ipv6.dst
                ++ standard_metadata.egress_spec ++ hdr.ipv6.next_header ++ meta.l3.ports }, FLOWS);
        } else {
            meta.aqm.port = (bit<32>)standard_metadata.egress_spec;
        }
    }
}

control MarkCe(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.ecn = ECN_CE;
            meta.l3.ip_changed = 1;
        } else {
            hdr.ipv6.ecn = ECN_CE;
        }
    }
}

#endif
