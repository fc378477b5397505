// SPDX-License-Identifier: Apache-2.0
// A copy that left by AGAIN_PORT: says what it is for, and sends it through the switch again. Only for packets whose
// `stage` is not STAGE_NONE.
#ifndef WEIR_ICN_EGRESS_P4
#define WEIR_ICN_EGRESS_P4

#include "icn_types.p4"

// instance_type of a clone of an Interest with holes
const bit<32> CLONED_IN_INGRESS = 1;

control NamesEgress(inout headers_t hdr, inout names_metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type == CLONED_IN_INGRESS) {
            // On to the segment that the lowest bit asks for.
            bit<16> holes = hdr.names.holes;
            bit<32> segment = hdr.names.segment + 1;
            if (holes[7:0] == 0) {
                holes = holes >> 8;
                segment = segment + 8;
            }
            if (holes[3:0] == 0) {
                holes = holes >> 4;
                segment = segment + 4;
            }
            if (holes[1:0] == 0) {
                holes = holes >> 2;
                segment = segment + 2;
            }
            if (holes[0:0] == 0) {
                holes = holes >> 1;
                segment = segment + 1;
            }
            hdr.names.holes = holes >> 1;
            hdr.names.segment = segment;
            meta.stage = STAGE_HOLES;
        } else if (standard_metadata.egress_rid == INSTANCE_GOES_ON) {
            meta.base = meta.base + 8;
            meta.stage = STAGE_REST;
        } else {
            meta.port = meta.base + (bit<9>)standard_metadata.egress_rid - 1;
            meta.stage = STAGE_COPY;
        }
        recirculate_preserving_field_list(1);
    }
}

#endif
