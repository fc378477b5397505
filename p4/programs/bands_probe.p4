// SPDX-License-Identifier: Apache-2.0
// A window on the two bands of flows, as law_probe.p4 is one on the law: a frame of EtherType 88B6 carries an operation,
// parameters, state and inputs in, and goes back out of the port it came by with state and outputs changed. Layout:
// tests/packet/p4_probe.py.
#include <core.p4>
#include <v1model.p4>

#include "../include/ethernet.p4"
#include "../include/flow_bands.p4"

const bit<16> ETHER_TYPE_PROBE = 0x88b6; // IEEE 802: for local experiments

enum bit<8> probe_op_t {
    BAND_ARRIVAL = 1,
    PASSED = 2,
    AHEAD = 3
}

// Every field whole bytes, wide enough for all that the vectors hold.
header probe_t {
    probe_op_t op;
    // Parameters
    bit<32> ahead_share_q16;
    bit<32> ahead_most_bytes;
    bit<32> ahead_least_bytes;
    bit<32> target_us;
    bit<32> interval_us;
    bit<8> share_shift;
    bit<32> share_least_q16;
    bit<32> min_backlog_bytes;
    bit<32> delay_limit_us;
    // State
    bit<32> flow_bytes;
    bit<64> flow_last_us;
    bit<16> flow_until_tick;
    bit<16> flow_large_tick;
    bit<64> share_mean_q6;
    bit<32> ahead_bytes;
    bit<32> new_bytes;
    bit<32> bulk_bytes;
    bit<64> budget_last_us;
    // Inputs
    bit<64> in_now_us;
    bit<64> in_len_bytes;
    bit<32> in_tau_us;
    bit<64> in_backlog_bytes;
    // Outputs
    bit<8> kind;
    bit<8> refused;
    bit<8> late;
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
    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(standard_metadata);
            return;
        }
        if (hdr.probe.op == probe_op_t.BAND_ARRIVAL) {
            bit<24> target_us = (bit<24>)hdr.probe.target_us;
            flow_bands_t b;
            band_kind_t kind;
            bit<64> flow = hdr.probe.flow_large_tick ++ hdr.probe.flow_until_tick ++ hdr.probe.flow_bytes;
            bit<96> budget = hdr.probe.ahead_bytes ++ hdr.probe.new_bytes ++ hdr.probe.bulk_bytes;
            b.ahead_share_q16 = (bit<20>)hdr.probe.ahead_share_q16;
            b.ahead_most_bytes = hdr.probe.ahead_most_bytes;
            b.ahead_least_bytes = hdr.probe.ahead_least_bytes;
            band_arrival(flow, hdr.probe.flow_last_us, hdr.probe.share_mean_q6, budget, hdr.probe.budget_last_us, b,
                (bit<24>)hdr.probe.interval_us, (bit<20>)hdr.probe.share_least_q16, (bit<5>)hdr.probe.share_shift,
                hdr.probe.in_now_us,
                hdr.probe.in_len_bytes > BYTES_MAX ? BYTES_MAX : hdr.probe.in_len_bytes, hdr.probe.in_tau_us, kind);
            hdr.probe.flow_large_tick = flow[63:48];
            hdr.probe.flow_until_tick = flow[47:32];
            hdr.probe.flow_bytes = flow[31:0];
            hdr.probe.ahead_bytes = budget[95:64];
            hdr.probe.new_bytes = budget[63:32];
            hdr.probe.bulk_bytes = budget[31:0];
            hdr.probe.kind = (bit<8>)(bit<3>)kind;
            hdr.probe.refused = 0;
            if (band_refuses(kind, target_us, hdr.probe.in_tau_us)) {
                hdr.probe.refused = 1;
            }
        } else if (hdr.probe.op == probe_op_t.PASSED) {
            hdr.probe.bulk_bytes = band_passed(hdr.probe.bulk_bytes, hdr.probe.in_len_bytes);
        } else if (hdr.probe.op == probe_op_t.AHEAD) {
            bit<24> delay_limit_us = (bit<24>)hdr.probe.delay_limit_us;
            hdr.probe.late = 0;
            if (ahead_is_late(hdr.probe.min_backlog_bytes, delay_limit_us, hdr.probe.in_backlog_bytes,
                hdr.probe.in_tau_us)) {
                hdr.probe.late = 1;
            }
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
