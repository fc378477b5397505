// SPDX-License-Identifier: Apache-2.0
// Input of the law from a packet that is forwarded by name, and its mark.
#ifndef WEIR_ICN_LAW_P4
#define WEIR_ICN_LAW_P4

#include "aqm.p4"
#include "icn_types.p4"

// Data can carry a mark to those who asked. `egress_spec` is the packet's port.
control NameFlow(in headers_t hdr, inout aqm_metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        meta.port = (bit<32>)standard_metadata.egress_spec;
        meta.effects = aqm_effects_t.DROP;
        if (hdr.names.kind == KIND_DATA && (hdr.names.flags & NAMES_FLAG_ECT) != 0) {
            meta.effects = aqm_effects_t.DROP_OR_MARK;
        }
        hash(meta.flow, HashAlgorithm.crc32, 32w0,
            { standard_metadata.egress_spec, hdr.names.prefix, hdr.names.name, hdr.names.kind }, FLOWS);
    }
}

control MarkNameCe(inout headers_t hdr) {
    apply {
        hdr.names.flags = hdr.names.flags | NAMES_FLAG_CE;
    }
}

#endif
