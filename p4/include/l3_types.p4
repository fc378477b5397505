// SPDX-License-Identifier: Apache-2.0
// State of a packet in L3 (l3.p4). A program's `metadata_t` has it as the member `l3`.
#ifndef WEIR_L3_TYPES_P4
#define WEIR_L3_TYPES_P4

struct l3_metadata_t {
    bit<16> next_hop;
    // A route, not the table for other frames, has chosen the next hop, or the packet was marked: the IPv4 checksum must be
    // computed again.
    bit<1> ip_changed;
    // Source and destination port; 0: none.
    bit<32> ports;
}

#endif
