// SPDX-License-Identifier: Apache-2.0
// Input of the law from a packet that is forwarded by name, and its mark.
#ifndef WEIR_ICN_LAW_P4
#define WEIR_ICN_LAW_P4

#include "aqm_types.p4"
#include "icn_types.p4"

// ecn_capable: Data can carry a mark to those who asked.
control NameFlow(in headers_t hdr, out bool ecn_capable, out aqm_flow_t flow) {
    apply {
        ecn_capable = hdr.names.kind == KIND_DATA && (hdr.names.flags & NAMES_FLAG_ECT) != 0;
        flow = { (bit<128>)hdr.names.prefix, (bit<128>)hdr.names.name, (bit<8>)hdr.names.kind, 0 };
    }
}

control MarkNameCe(inout headers_t hdr) {
    apply {
        hdr.names.flags = hdr.names.flags | NAMES_FLAG_CE;
    }
}

#endif
