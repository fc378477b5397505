// SPDX-License-Identifier: Apache-2.0
// Input of the law from an IP packet, and its mark. `headers_t` and `metadata_t` are as for parser.p4.
#ifndef WEIR_IP_LAW_P4
#define WEIR_IP_LAW_P4

#include "headers.p4"
#include "l3_types.p4"
#include "aqm_types.p4"

// ecn_capable: its sender reacts to marks. Other packets are one flow.
control IpFlow(in headers_t hdr, in metadata_t meta, out bool is_ip, out bool ecn_capable, out aqm_flow_t flow) {
    apply {
        if (hdr.ipv4.isValid()) {
            is_ip = true;
            ecn_capable = hdr.ipv4.ecn != ECN_NOT_ECT;
            flow = { (bit<128>)hdr.ipv4.src, (bit<128>)hdr.ipv4.dst, hdr.ipv4.protocol, meta.l3.ports };
        } else if (hdr.ipv6.isValid()) {
            is_ip = true;
            ecn_capable = hdr.ipv6.ecn != ECN_NOT_ECT;
            flow = { hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, meta.l3.ports };
        } else {
            is_ip = false;
            ecn_capable = false;
            flow = { 0, 0, 0, 0 };
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
