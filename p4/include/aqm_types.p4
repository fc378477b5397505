// SPDX-License-Identifier: Apache-2.0
// State of a packet from ingress to egress, for the AQM. A program's `metadata_t` has it as a member.
#ifndef WEIR_AQM_TYPES_P4
#define WEIR_AQM_TYPES_P4

#include "coupled_types.p4"
#include "flow_bands_types.p4"
#include "law_types.p4"

// The action that the table `aqm` has for the port.
enum bit<2> aqm_mode_t {
    NONE = 0,
    PID_DELAY = 1,
    FIXED = 2
}

// Where the law has the delay from: the last packet's own time in the queue, or (1) Cao Eq. 1. Packets of a queue with
// flow queues don't leave in the order in which they came, so FLOWS is Eq. 1 with a backlog that is counted
// (aqm_egress.p4).
const bit<2> DELAY_SOJOURN = 0;
const bit<2> DELAY_FLOWS = 2;

// Packets in the high, bytes in the low 48 bits, so that one register access reads or writes both and they are of the
// same moment. Bytes carry into packets after 2^48 (280 TB); the difference of two pairs is right in both for less
// than that.
typedef bit<96> pair_t;

// The parameters that the table `aqm` has for the port.
struct aqm_config_t {
    aqm_mode_t mode;
    bit<2> delay_source;
    bit<32> digest_interval_us;
    bit<33> fixed_u_q32;
    law_params_t law;
    // The port has two bands of flows, and the law has band B.
    bit<1> has_bands;
    flow_bands_t bands;
}

// Key of a packet's flow. Addresses of 32 bits stand in the low bits; ports: both, 0 where there are none.
struct aqm_flow_t {
    bit<128> src;
    bit<128> dst;
    bit<8> protocol;
    bit<32> ports;
}

struct aqm_metadata_t {
    // The packet is counted in `aqm_enqueued`; `enqueued` is that pair with the packet itself in it.
    bit<1> stamped;
    pair_t enqueued;
    // Its length in ingress: BMv2's packet_length has changed by egress when a tag was added or removed.
    bit<32> len_bytes;
    // The packet goes into band A, which is neither in `aqm_enqueued` nor the law's.
    bit<1> ahead;
    // `ahead_enqueued` with this packet in it.
    bit<48> ahead_enqueued;
    aqm_config_t config;
#ifdef WEIR_L4S
    // The port has two bands, and the packet goes into band L.
    bit<1> coupled;
    bit<1> low;
    coupling_t coupling;
#endif
}

#endif
