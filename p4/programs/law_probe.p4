// SPDX-License-Identifier: Apache-2.0
// A window on the law: a frame of EtherType 88B5 carries an operation, parameters, state and inputs in, and goes back
// out of the port it came by with state and outputs changed as the law says. Nothing is kept between packets, so that
// any of tests/vectors can be asked of any target. Layout: tests/packet/p4_probe.py.
#include <core.p4>
#include <v1model.p4>

#include "../include/ethernet.p4"
#include "../include/coupled.p4"
#include "../include/law.p4"

const bit<16> ETHER_TYPE_PROBE = 0x88b5; // IEEE 802: for local experiments

enum bit<8> probe_op_t {
    UPDATE = 1,
    DEPARTURE = 2,
    TAU = 3,
    DECIDE = 4,
    ARRIVAL = 5,
    DECIDE_LOW = 6,
    FOLLOW = 7
}

// Every field whole bytes, wide enough for all that the vectors hold.
header probe_t {
    probe_op_t op;
    // Parameters
    LAW_PROBE_FIELDS
    // Parameters of the coupling
    bit<32> coupling_q16;
    bit<32> ramp_least_us;
    bit<64> ramp_slope_q32_per_us;
    bit<32> floor_bytes;
    // State
    bit<64> u_q40;
    bit<64> last_us;
    bit<64> o1_us;
    bit<64> o2_us;
    bit<32> no_i_run;
    bit<8> started;
    bit<8> row;
    bit<64> u_ecn_q40;
    // Spacing
    bit<64> sum_q32;
    // Flow
    bit<32> flow_bytes;
    bit<64> flow_last_us;
    bit<64> share_mean_q6;
    // Rate
    bit<32> dq_time_q8_us;
    bit<32> dq_count_bytes;
    bit<64> dq_start_us;
    bit<8> dq_on;
    // Inputs
    bit<64> in_now_us;
    bit<32> in_tau_us;
    bit<64> in_len_bytes;
    bit<64> in_backlog_bytes;
    bit<64> in_u_q40;
    bit<64> in_r_q40;
    bit<8> in_classic_active;
    bit<8> in_missed;
    bit<32> in_floor_us;
    bit<8> in_ect;
    bit<8> in_size;
    bit<32> in_rand_a;
    bit<32> in_rand_b;
    // Outputs
    bit<8> stepped;
    bit<32> tau_us;
    bit<8> verdict;
    bit<8> size;
    bit<64> p_q32;
    bit<64> r_q40;
}

struct probe_headers_t {
    ethernet_t ethernet;
    probe_t probe;
}

struct probe_metadata_t {}

parser ProbeParser(
    packet_in packet,
    out probe_headers_t hdr,
    inout probe_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_PROBE: probe;
            default: accept;
        }
    }
    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control ProbeVerify(inout probe_headers_t hdr, inout probe_metadata_t meta) {
    apply {}
}

control ProbeIngress(
    inout probe_headers_t hdr,
    inout probe_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    LawUpdate() update;
    CoupledFollow() follow;

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(standard_metadata);
            return;
        }
        law_params_t p;
        LAW_PROBE_PARAMS(p, hdr.probe)
        if (hdr.probe.op == probe_op_t.UPDATE) {
            law_state_t s;
            s.u_q40 = hdr.probe.u_q40;
            s.last_us = hdr.probe.last_us;
            s.o1_us = (int<64>)hdr.probe.o1_us;
            s.o2_us = (int<64>)hdr.probe.o2_us;
            s.no_i_run = hdr.probe.no_i_run;
            s.started = (bit<1>)hdr.probe.started;
            s.row = hdr.probe.row;
            s.u_ecn_q40 = hdr.probe.u_ecn_q40;
            bit<1> stepped;
            update.apply(s, p, hdr.probe.in_now_us, hdr.probe.in_tau_us, stepped);
            hdr.probe.u_q40 = s.u_q40;
            hdr.probe.last_us = s.last_us;
            hdr.probe.o1_us = (bit<64>)s.o1_us;
            hdr.probe.o2_us = (bit<64>)s.o2_us;
            hdr.probe.no_i_run = s.no_i_run;
            hdr.probe.started = (bit<8>)s.started;
            hdr.probe.row = s.row;
            hdr.probe.u_ecn_q40 = s.u_ecn_q40;
            hdr.probe.stepped = (bit<8>)stepped;
        } else if (hdr.probe.op == probe_op_t.DEPARTURE) {
            law_rate_t r;
            r.dq_time_q8_us = hdr.probe.dq_time_q8_us;
            r.dq_count_bytes = hdr.probe.dq_count_bytes;
            r.dq_start_us = hdr.probe.dq_start_us;
            r.dq_on = (bit<1>)hdr.probe.dq_on;
            if (r.dq_on == 1) {
                r.dq_count_bytes = r.dq_count_bytes |+| (bit<32>)min_u64(hdr.probe.in_len_bytes, BYTES_MAX);
                if (law_departure_ends(r.dq_count_bytes, p.dq_shift)) {
                    r.dq_time_q8_us = law_departure_time(r.dq_time_q8_us, r.dq_start_us, p.dq_weight_shift,
                        hdr.probe.in_now_us);
                    r.dq_count_bytes = law_departure_rest(r.dq_count_bytes, p.dq_shift);
                    r.dq_start_us = hdr.probe.in_now_us;
                }
                if (hdr.probe.in_backlog_bytes == 0) {
                    r.dq_on = 0;
                }
            } else if (law_departure_begins(hdr.probe.in_backlog_bytes, p.dq_shift)) {
                r.dq_on = 1;
                r.dq_count_bytes = 0;
                r.dq_start_us = hdr.probe.in_now_us;
            }
            hdr.probe.dq_time_q8_us = r.dq_time_q8_us;
            hdr.probe.dq_count_bytes = r.dq_count_bytes;
            hdr.probe.dq_start_us = r.dq_start_us;
            hdr.probe.dq_on = (bit<8>)r.dq_on;
        } else if (hdr.probe.op == probe_op_t.TAU) {
            hdr.probe.tau_us = law_tau(hdr.probe.dq_time_q8_us, p.dq_shift, hdr.probe.in_backlog_bytes);
        } else if (hdr.probe.op == probe_op_t.DECIDE) {
            law_verdict_t verdict;
            law_decide(hdr.probe.u_q40, hdr.probe.u_ecn_q40, hdr.probe.sum_q32, p,
                hdr.probe.in_backlog_bytes, hdr.probe.in_tau_us, (bit<1>)hdr.probe.in_ect,
                (law_size_t)(bit<2>)hdr.probe.in_size, hdr.probe.in_rand_a, hdr.probe.in_rand_b, verdict);
            hdr.probe.verdict = (bit<8>)(bit<2>)verdict;
        } else if (hdr.probe.op == probe_op_t.ARRIVAL) {
            law_size_t size = law_size_t.SMALL;
            if (p.share_least_q16 != 0) {
                if (hdr.probe.in_now_us - hdr.probe.flow_last_us >> p.share_shift != 0) {
                    law_flow_halve(hdr.probe.flow_bytes, hdr.probe.flow_last_us, p.share_shift, hdr.probe.in_now_us);
                }
                bit<32> bytes_before = hdr.probe.flow_bytes;
                hdr.probe.flow_bytes = bytes_before |+| (bit<32>)min_u64(hdr.probe.in_len_bytes, BYTES_MAX);
                hdr.probe.share_mean_q6 = law_share_mean(hdr.probe.share_mean_q6, hdr.probe.flow_bytes);
                size = law_flow_size(bytes_before, hdr.probe.flow_bytes, hdr.probe.share_mean_q6, p.share_least_q16);
            }
            hdr.probe.size = (bit<8>)(bit<2>)size;
        } else if (hdr.probe.op == probe_op_t.DECIDE_LOW) {
            coupling_t c;
            law_verdict_t verdict;
            c.coupling_q16 = (bit<20>)hdr.probe.coupling_q16;
            c.ramp_least_us = (bit<24>)hdr.probe.ramp_least_us;
            c.ramp_slope_q32_per_us = (bit<33>)hdr.probe.ramp_slope_q32_per_us;
            c.floor_bytes = (bit<24>)hdr.probe.floor_bytes;
            coupled_decide(c, hdr.probe.in_r_q40, hdr.probe.in_tau_us, hdr.probe.in_floor_us, hdr.probe.in_rand_a,
                hdr.probe.in_rand_b, hdr.probe.p_q32, verdict);
            hdr.probe.verdict = (bit<8>)(bit<2>)verdict;
        } else if (hdr.probe.op == probe_op_t.FOLLOW) {
            bit<64> r_q40 = hdr.probe.in_r_q40;
            follow.apply(r_q40, hdr.probe.in_u_q40, hdr.probe.in_classic_active != 0, hdr.probe.in_missed != 0);
            hdr.probe.r_q40 = r_q40;
        } else {
            mark_to_drop(standard_metadata);
            return;
        }
        bit<48> asker = hdr.ethernet.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = asker;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
}

control ProbeEgress(
    inout probe_headers_t hdr,
    inout probe_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    apply {}
}

control ProbeCompute(inout probe_headers_t hdr, inout probe_metadata_t meta) {
    apply {}
}

control ProbeDeparser(packet_out packet, in probe_headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ProbeParser(), ProbeVerify(), ProbeIngress(), ProbeEgress(), ProbeCompute(), ProbeDeparser()) main;
