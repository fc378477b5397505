// SPDX-License-Identifier: Apache-2.0
// Registers of a port, shared by both halves of the AQM. Each has one writer, the ingress or the egress half, because
// BMv2 runs the two in different threads and locks no longer than one action; the other half only reads.
#ifndef WEIR_AQM_P4
#define WEIR_AQM_P4

#include "aqm_types.p4"

const bit<32> PORTS = 512;
// One queue a port, by the port's number; with L4S two, and that of band L is by PORTS more.
#ifdef WEIR_L4S
const bit<32> QUEUES = 1024;
#else
const bit<32> QUEUES = 512;
#endif
// Counters of flows, which the ports share: thousands for each would be more than can be read at one go.
const bit<32> FLOWS = 8192;
// The queue of the band that is served first: L of coupled bands, A of bands of flows. Others have the lowest priority, 0.
const bit<3> PRIORITY_FIRST = 1;
// The egress_spec that drops, as mark_to_drop sets it.
const bit<9> DROP_PORT = 511;

// Written by ingress.
// Packets handed to the queue, those lost at its tail included.
register<pair_t>(QUEUES) aqm_enqueued;
register<bit<64>>(QUEUES) aqm_dropped_packets;
// Those of band L are marked, and counted, by egress.
register<bit<64>>(QUEUES) aqm_marked_packets;
// Time of the last digest in the low 48 bits, and one more than that of `law_step_params`, >> 14, in the high ones.
register<bit<64>>(PORTS) aqm_digest_us;
// Parameters of the table `aqm` for the egress half: an action's parameters, copied to each packet, would be a third of the
// program's cost on BMv2.
register<step_params_t>(PORTS) law_step_params;
register<packet_params_t>(PORTS) law_packet_params;
// State left by the law's verdicts.
register<bit<64>>(PORTS) law_sum_q32;
// Bytes sent by each flow: flow_large_tick and flow_until_tick in the high 16 bits each (0 without bands of flows), and
// flow_bytes; and flow_last_us.
register<bit<64>>(FLOWS) law_flows;
register<bit<64>>(FLOWS) law_flows_last_us;
register<bit<64>>(PORTS) law_share_mean_q6;
// Budget of band A: ahead_bytes in the high, new_bytes in the next, bulk_bytes in the low 32 bits; and budget_last_us.
register<bit<96>>(PORTS) bands_budget;
register<bit<64>>(PORTS) bands_budget_last_us;
// Bytes handed to band A.
register<bit<48>>(PORTS) ahead_enqueued;
// `ahead_drained` as the last packet beyond A's limit saw it first, and that time in the low 48 bits.
register<bit<96>>(PORTS) ahead_late;

// Written by egress. Drained position of the queue, in terms of `aqm_enqueued`: enqueued - drained is the backlog.
register<pair_t>(QUEUES) aqm_drained;
// Drained position of band A, in terms of `ahead_enqueued`.
register<bit<48>>(PORTS) ahead_drained;
// Packets that came out of the queue: drained - dequeued is what was lost at the tail.
register<pair_t>(QUEUES) aqm_dequeued;
// Time in the queue of the packet that left it last.
register<bit<32>>(QUEUES) aqm_sojourn_us;
#ifdef WEIR_L4S
// When it left.
register<bit<48>>(QUEUES) aqm_left_us;
#endif

// Of the queue; in the cells of band L, and with bands of flows, of the line, which both bands share.
register<bit<32>>(QUEUES) law_dq_time_q8_us;
register<bit<32>>(QUEUES) law_dq_count_bytes;
register<bit<64>>(QUEUES) law_dq_start_us;
register<bit<1>>(QUEUES) law_dq_on;

register<bit<64>>(PORTS) law_u_q40;
#ifdef WEIR_L4S
// Root mean square of U.
register<bit<64>>(PORTS) coupled_r_q40;
#endif
register<bit<64>>(PORTS) law_last_us;
register<bit<64>>(PORTS) law_o1_us;
register<bit<64>>(PORTS) law_o2_us;
register<bit<32>>(PORTS) law_no_i_run;
register<bit<1>>(PORTS) law_started;
register<bit<8>>(PORTS) law_row;
register<bit<64>>(PORTS) law_u_ecn_q40;

// Parameters of the law as a number: those of a step, and those of each packet.
#define LAW_PACK_STEP(p) \
    (p.target_us ++ p.kp_q40_per_us ++ p.ki_q40_per_us ++ p.kd_q40_per_us ++ p.z1_q16 ++ p.z2_q16 ++ p.z3_q16 ++ p.m1_us \
        ++ p.m2_us ++ p.integral_drop_max ++ p.idle_halflife_us ++ p.ecn_weight_shift)
#define LAW_PACK_PACKET(p, delay_source) (delay_source ++ p.dq_shift ++ p.dq_weight_shift ++ p.interval_us)

// Sets `p`, a law_params_t, for a step.
#define LAW_UNPACK(p, step, packet) \
    LAW_CLEAR_PARAMS(p) \
    p.ecn_weight_shift = step[3:0]; \
    p.idle_halflife_us = step[35:4]; \
    p.integral_drop_max = step[67:36]; \
    p.m2_us = step[91:68]; \
    p.m1_us = step[115:92]; \
    p.z3_q16 = step[135:116]; \
    p.z2_q16 = step[155:136]; \
    p.z1_q16 = step[175:156]; \
    p.kd_q40_per_us = step[207:176]; \
    p.ki_q40_per_us = step[239:208]; \
    p.kp_q40_per_us = step[271:240]; \
    p.target_us = step[295:272]; \
    p.interval_us = LAW_INTERVAL_US(packet); \
    p.dq_shift = LAW_DQ_SHIFT(packet);

#define LAW_INTERVAL_US(packet) packet[23:0]
#define LAW_DQ_WEIGHT_SHIFT(packet) packet[27:24]
#define LAW_DQ_SHIFT(packet) packet[32:28]
#define LAW_DELAY_SOURCE(packet) packet[34:33]

// A packet's cell of the registers of queues.
#ifdef WEIR_L4S
#define AQM_QUEUE meta.queue
#else
#define AQM_QUEUE meta.port
#endif

#endif
