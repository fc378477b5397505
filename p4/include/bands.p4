// SPDX-License-Identifier: Apache-2.0
// Two coupled bands on a port (docs/design/coupled.md), for programs that define WEIR_L4S: which packets go into band L,
// which is served first, and which of them are marked as they leave. C is left to aqm_ingress.p4 and aqm_egress.p4.
#ifndef WEIR_BANDS_P4
#define WEIR_BANDS_P4

#include "aqm.p4"
#include "coupled.p4"

// Before AqmIngress. scalable: the packet is IP and carries ECT(1) or CE (RFC 9332 2.5).
control BandIngress(in bool scalable, inout aqm_metadata_t meta, inout standard_metadata_t standard_metadata) {
    action one_band() {
        meta.coupled = 0;
    }

    action coupled(
        bit<20> coupling_q16,
        bit<24> ramp_least_us,
        bit<33> ramp_slope_q32_per_us,
        bit<24> floor_bytes)
    {
        meta.coupled = 1;
        meta.coupling.coupling_q16 = coupling_q16;
        meta.coupling.ramp_least_us = ramp_least_us;
        meta.coupling.ramp_slope_q32_per_us = ramp_slope_q32_per_us;
        meta.coupling.floor_bytes = floor_bytes;
    }

    table coupling {
        key = {
            standard_metadata.egress_spec: exact @name("egress_port");
        }
        actions = {
            one_band;
            coupled;
        }
        default_action = one_band();
        size = 512;
    }

    apply {
        coupling.apply();
        meta.queue = meta.port;
        meta.other = PORTS + meta.port;
        if (meta.coupled == 1 && scalable) {
            meta.low = 1;
            meta.effects = aqm_effects_t.NONE; // of the law in C
            meta.queue = PORTS + meta.port;
            meta.other = meta.port;
            standard_metadata.priority = PRIORITY_FIRST;
        }
    }
}

// Behind AqmEgress. mark: the caller must set CE in the packet.
control BandEgress(out bool mark, inout aqm_metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) low_marks;

    apply {
        mark = false;
        if (meta.low == 1 && meta.mode != aqm_mode_t.NOT_ASKED) {
            bit<32> port = (bit<32>)standard_metadata.egress_port;
            bit<32> queue = PORTS + port;
            bit<64> r_q40 = 0;
            bit<32> floor_us = 0;
            bit<32> rand_a;
            bit<32> rand_b;
            bit<64> p_q32;
            law_verdict_t verdict;
            if (meta.mode == aqm_mode_t.PID_DELAY) {
                bit<32> dq_time_q8_us;
                coupled_r_q40.read(r_q40, port);
                law_dq_time_q8_us.read(dq_time_q8_us, queue);
                floor_us = law_tau(dq_time_q8_us, LAW_DQ_SHIFT(meta.packet_params), (bit<64>)meta.coupling.floor_bytes);
            } else if (meta.mode == aqm_mode_t.FIXED) {
                r_q40 = meta.s.u_q40;
            }
            random(rand_a, 0, 0xffffffff);
            random(rand_b, 0, 0xffffffff);
            coupled_decide(meta.coupling, r_q40, standard_metadata.deq_timedelta, floor_us, rand_a, rand_b, p_q32,
                verdict);
            // Packets to be dropped were dropped before the queue.
            if (verdict != law_verdict_t.PASS) {
                bit<64> packets;
                low_marks.count(port);
                aqm_marked_packets.read(packets, queue);
                aqm_marked_packets.write(queue, packets + 1);
                mark = true;
            }
        }
    }
}

#endif
