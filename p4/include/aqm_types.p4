// SPDX-License-Identifier: Apache-2.0
// State of a packet from ingress to egress, for the AQM. A program's `metadata_t` has it as a member.
#ifndef WEIR_AQM_TYPES_P4
#define WEIR_AQM_TYPES_P4

#include "coupled_types.p4"
#include "flow_bands_types.p4"
#include "law_types.p4"

// The action that the table `aqm` had for the packet. Packets for several ports are not looked up.
enum bit<2> aqm_mode_t {
    NOT_ASKED = 0,
    NONE = 1,
    PID_DELAY = 2,
    FIXED = 3
}

// Effects that the law may have on a packet. A mark tells its sender (ECT or CE, RFC 3168).
enum bit<2> aqm_effects_t {
    NONE = 0,
    DROP = 2,
    DROP_OR_MARK = 3
}

// Where the law has the delay from: the last packet's own time in the queue, or (1) Cao Eq. 1. Packets of a queue with
// flow queues don't leave in the order in which they came, so FLOWS is Eq. 1 with a backlog that is counted
// (aqm_egress.p4).
const bit<2> DELAY_SOJOURN = 0;
const bit<2> DELAY_FLOWS = 2;

// Parameters of the law for the egress half (LAW_PACK_STEP, LAW_PACK_PACKET).
typedef bit<296> step_params_t;
typedef bit<35> packet_params_t;

// Packets in the high, bytes in the low 48 bits, so that one register access reads or writes both and they are of the
// same moment. Bytes carry into packets after 2^48 (280 TB); the difference of two pairs is right in both for less
// than that.
typedef bit<96> pair_t;

// One message an interval and port, sent by the first packet after it. Counts are totals modulo their width.
struct aqm_state_t {
    bit<16> port;
    bit<48> now_us;
    // Sojourn of the packet that left the queue last.
    bit<32> delay_us;
    bit<64> u_q40;
    bit<48> backlog_bytes;
    // To drain 2^dq_shift bytes; 0 unknown.
    bit<32> dq_time_q8_us;
    bit<8> row;
    bit<48> enqueued_packets;
    bit<48> enqueued_bytes;
    bit<48> tail_dropped_packets;
    bit<48> tail_dropped_bytes;
    bit<64> aqm_dropped_packets;
    bit<64> aqm_marked_packets;
}

// A packet's state from ingress to egress, and values that both halves and all actions share: BMv2 clears each field of
// the program for each packet.
struct aqm_metadata_t {
    // Set by the caller: the egress port, the packet's counter in `law_flows`, effects of the law.
    bit<32> port;
    bit<32> flow;
    aqm_effects_t effects;
    // The caller must set CE in the packet.
    bit<1> mark;
    aqm_mode_t mode;
    // `aqm_enqueued` with the packet itself in it.
    pair_t enqueued;
    // Its length in ingress: BMv2's packet_length has changed by egress when a tag was added or removed.
    bit<32> len_bytes;
    // The packet goes into band A, which is neither in `aqm_enqueued` nor the law's.
    bit<1> ahead;
    // `ahead_enqueued` with this packet in it.
    bit<48> ahead_enqueued;
#ifdef WEIR_L4S
    // The port has two bands, and the packet goes into band L.
    bit<1> coupled;
    bit<1> low;
    coupling_t coupling;
    // The packet's cell of registers of queues, and that of the other band.
    bit<32> queue;
    bit<32> other;
    bit<64> other_bytes;
#endif
    // A digest is due.
    bit<1> report;
    bit<64> reported_us;
    pair_t drained;
    pair_t pair;
    bit<64> backlog_bytes;
    bit<32> tau_us;
    bit<32> dq_time_q8_us;
    bit<32> dq_count_bytes;
    bit<1> dq_on;
    bit<64> dq_start_us;
    packet_params_t packet_params;
    step_params_t step_params;
    law_state_t s;
    bit<64> sum_q32;
    bit<64> counted;
    bit<64> counted_last_us;
    bit<64> share_mean_q6;
    bit<64> packets;
    bit<32> rand_a;
    bit<32> rand_b;
    law_verdict_t verdict;
    bit<96> budget;
    bit<64> budget_last_us;
    bit<48> ahead_left;
}

#endif
