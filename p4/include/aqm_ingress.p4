// SPDX-License-Identifier: Apache-2.0
// The AQM's first half: decides over each packet before it joins its queue (a drop after the queue would waste the time
// the packet was given on the line), counts what joins, and reports the port's state.
#ifndef WEIR_AQM_INGRESS_P4
#define WEIR_AQM_INGRESS_P4

#include "aqm.p4"
#ifdef WEIR_L4S
#include "coupled.p4"
#endif
#include "flow_bands.p4"
#include "law.p4"

// A queue from which nothing came for so long has lost its packets elsewhere: slower than 12 kbit/s no line is.
const bit<64> STUCK_US = 1048576;

// Steps 1 and 2 of the verdict for most packets: U is 0 and the delay within both bounds. They pass, and `sum_q32` is 0.
bool law_is_quiet(in bit<64> u_q40, in bit<24> delay_bound_us, in bit<24> delay_limit_us, in bit<32> tau_us) {
    return u_q40 == 0 && (delay_limit_us == 0 || tau_us < (bit<32>)delay_limit_us)
        && (delay_bound_us == 0 || tau_us <= (bit<32>)delay_bound_us);
}

// Time after which changed parameters reach egress, as a shift.
#define AQM_PACK_SHIFT 14
#define AQM_TICK ((bit<16>)(standard_metadata.ingress_global_timestamp >> AQM_PACK_SHIFT) + 1)

#define AQM_DIGEST_DUE(digest_interval_us) (digest_interval_us != 0 \
    && standard_metadata.ingress_global_timestamp - meta.reported_us[47:0] >= (bit<48>)digest_interval_us)

#ifdef WEIR_L4S
// Adds what band L counts to what is reported of a port: sums, the larger delay, the rate of the line.
control BothBands(in bit<32> low, inout aqm_state_t state) {
    apply {
        pair_t enqueued;
        pair_t drained;
        pair_t dequeued;
        bit<32> delay_us;
        bit<64> packets;
        aqm_dequeued.read(dequeued, low); // in the order of the caller
        aqm_drained.read(drained, low);
        aqm_enqueued.read(enqueued, low);
        pair_t lost = drained - dequeued;
        pair_t waiting = enqueued - drained;
        state.backlog_bytes = state.backlog_bytes + waiting[47:0];
        state.enqueued_packets = state.enqueued_packets + enqueued[95:48];
        state.enqueued_bytes = state.enqueued_bytes + enqueued[47:0];
        state.tail_dropped_packets = state.tail_dropped_packets + lost[95:48];
        state.tail_dropped_bytes = state.tail_dropped_bytes + lost[47:0];
        aqm_sojourn_us.read(delay_us, low);
        if (delay_us > state.delay_us) {
            state.delay_us = delay_us;
        }
        law_dq_time_q8_us.read(state.dq_time_q8_us, low);
        aqm_dropped_packets.read(packets, low);
        state.aqm_dropped_packets = state.aqm_dropped_packets + packets;
        aqm_marked_packets.read(packets, low);
        state.aqm_marked_packets = state.aqm_marked_packets + packets;
    }
}
#endif

// The work for a packet is in the actions of the table `aqm`, because on BMv2 a conditional with a statement behind it
// costs four times as much in `apply` as in an action, and an action's own parameters cost nothing to read
// (docs/notebook/2026-11-law-cost.md).
control AqmIngress(inout aqm_metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) aqm_drops;
    counter(PORTS, CounterType.packets_and_bytes) aqm_marks;
    // Packets of band A, also those beyond its limit.
    counter(PORTS, CounterType.packets_and_bytes) aqm_ahead;
    // Packets of new flows beyond the budget of band A, dropped because band B had a queue; `aqm_drops` has them too.
    counter(PORTS, CounterType.packets_and_bytes) aqm_refused;
#ifdef WEIR_L4S
    BothBands() total;
#endif

    // The queue before this packet.
    action read_queue() {
        aqm_enqueued.read(meta.enqueued, AQM_QUEUE);
        aqm_drained.read(meta.drained, AQM_QUEUE);
    }

    // Expected delay of this packet, which is newer than that of the last one to leave. With an empty queue it need not
    // wait, however long the last one did.
    action read_tau(in bit<64> backlog_bytes, in bit<5> dq_shift) {
        if (backlog_bytes != 0) {
            law_dq_time_q8_us.read(meta.dq_time_q8_us, meta.port);
            if (meta.dq_time_q8_us == 0) {
                aqm_sojourn_us.read(meta.tau_us, meta.port);
            } else {
                meta.tau_us = law_tau(meta.dq_time_q8_us, dq_shift, backlog_bytes);
            }
        }
    }

    action read_flow() {
        law_flows.read(meta.counted, meta.flow);
        law_flows_last_us.read(meta.counted_last_us, meta.flow);
        law_share_mean_q6.read(meta.share_mean_q6, meta.port);
    }

    // Adds the packet to its flow's counter. Each packet counts, also those that no probability could hit.
    action count_flow(in bit<5> share_shift) {
        bit<64> now_us = (bit<64>)standard_metadata.ingress_global_timestamp;
        read_flow();
        if (now_us - meta.counted_last_us >> share_shift != 0) {
            bit<32> flow_bytes = meta.counted[31:0];
            law_flow_halve(flow_bytes, meta.counted_last_us, share_shift, now_us);
            meta.counted = (bit<64>)flow_bytes;
            law_flows_last_us.write(meta.flow, meta.counted_last_us);
        }
        meta.counted = (bit<64>)(meta.counted[31:0] |+| standard_metadata.packet_length);
        meta.share_mean_q6 = law_share_mean(meta.share_mean_q6, meta.counted[31:0]);
        law_flows.write(meta.flow, meta.counted);
        law_share_mean_q6.write(meta.port, meta.share_mean_q6);
    }

    // The verdict of the law, with the random numbers if they have an effect. `size` is known.
    action decide(in law_params_t p, in bit<64> backlog_bytes, in law_size_t size) {
        // A short queue is not marked by the mean of U, which the swings of U keep above 0.
        bit<1> ect = (bit<1>)(meta.tau_us >= (bit<32>)p.min_delay_us && meta.effects == aqm_effects_t.DROP_OR_MARK);
        law_u_ecn_q40.read(meta.s.u_ecn_q40, meta.port);
        law_sum_q32.read(meta.sum_q32, meta.port);
        if (p.space_most_q16 == 0 || p.share_least_q16 == 0) {
            random(meta.rand_a, 0, 0xffffffff);
            random(meta.rand_b, 0, 0xffffffff);
        }
        law_decide(meta.s.u_q40, meta.s.u_ecn_q40, meta.sum_q32, p, backlog_bytes, meta.tau_us, ect, size,
            meta.rand_a, meta.rand_b, meta.verdict);
        law_sum_q32.write(meta.port, meta.sum_q32);
    }

#ifdef WEIR_L4S
    // In overload packets of band L are dropped as those of C are. Marks are given where they leave (bands.p4).
    action decide_low() {
        if (meta.low == 1 && meta.s.u_q40 != 0) {
            bit<64> p_q32;
            bit<64> r_q40 = meta.s.u_q40;
            if (meta.mode == aqm_mode_t.PID_DELAY) {
                coupled_r_q40.read(r_q40, meta.port);
            }
            random(meta.rand_a, 0, 0xffffffff);
            random(meta.rand_b, 0, 0xffffffff);
            coupled_decide(meta.coupling, r_q40, 0, 0, meta.rand_a, meta.rand_b, p_q32, meta.verdict);
            if (meta.verdict == law_verdict_t.MARK) {
                meta.verdict = law_verdict_t.PASS;
            }
        }
    }
#endif

    // Steps are taken where packets leave. If every packet were dropped none would leave and U would stay for ever: one that
    // finds a step due and the queue empty passes, and takes the step.
    action spare_for_step(in bit<64> backlog_bytes, in bit<24> interval_us) {
        law_last_us.read(meta.s.last_us, meta.port);
        bit<64> elapsed_us = (bit<64>)standard_metadata.ingress_global_timestamp - meta.s.last_us;
        if (elapsed_us[63:63] == 0 && elapsed_us >= (bit<64>)interval_us
            && (backlog_bytes == 0 || elapsed_us >= STUCK_US)) {
            meta.verdict = law_verdict_t.PASS;
        }
    }

    // Drops or marks the packet, if that is the verdict.
    action act() {
        if (meta.verdict == law_verdict_t.DROP) {
            aqm_drops.count(meta.port);
            aqm_dropped_packets.read(meta.packets, AQM_QUEUE);
            meta.packets = meta.packets + 1;
            aqm_dropped_packets.write(AQM_QUEUE, meta.packets);
            mark_to_drop(standard_metadata);
        } else if (meta.verdict == law_verdict_t.MARK) {
            aqm_marks.count(meta.port);
            aqm_marked_packets.read(meta.packets, meta.port);
            meta.packets = meta.packets + 1;
            aqm_marked_packets.write(meta.port, meta.packets);
            meta.mark = 1;
        }
    }

    action enqueue() {
        meta.enqueued = meta.enqueued + (48w1 ++ (bit<48>)standard_metadata.packet_length);
        aqm_enqueued.write(AQM_QUEUE, meta.enqueued);
        meta.len_bytes = standard_metadata.packet_length;
    }

    // A digest is due; true too of a clock gone back.
    action report(in bit<32> digest_interval_us) {
        if (AQM_DIGEST_DUE(digest_interval_us)) {
            meta.report = 1;
            meta.reported_us[47:0] = standard_metadata.ingress_global_timestamp;
            aqm_digest_us.write(meta.port, meta.reported_us);
        }
    }

    action publish(in law_params_t p, in bit<2> delay_source) {
        meta.reported_us[63:48] = AQM_TICK;
        aqm_digest_us.write(meta.port, meta.reported_us);
        // In two parts: what is assigned as a whole p4c copies to a field of its own first.
        meta.step_params[295:4] = LAW_PACK_STEP(p)[295:4];
        meta.step_params[3:0] = p.ecn_weight_shift;
        law_step_params.write(meta.port, meta.step_params);
        meta.packet_params[34:24] = LAW_PACK_PACKET(p, delay_source)[34:24];
        meta.packet_params[23:0] = p.interval_us;
        law_packet_params.write(meta.port, meta.packet_params);
    }

    // A digest, and after AQM_PACK_SHIFT parameters for egress.
    action report_or_publish(in law_params_t p, in bit<2> delay_source, in bit<32> digest_interval_us) {
        aqm_digest_us.read(meta.reported_us, meta.port);
        if (AQM_DIGEST_DUE(digest_interval_us) || meta.reported_us[63:48] != AQM_TICK) {
            report(digest_interval_us);
            if (meta.reported_us[63:48] != AQM_TICK) {
                publish(p, delay_source);
            }
        }
    }

    // Band of a packet on a port with two bands of flows: `kind`.
    action band_of_flow(in law_params_t p, in flow_bands_t b, out band_kind_t kind) {
        read_flow();
        bands_budget.read(meta.budget, meta.port);
        bands_budget_last_us.read(meta.budget_last_us, meta.port);
        band_arrival(meta.counted, meta.counted_last_us, meta.share_mean_q6, meta.budget, meta.budget_last_us, b,
            p.interval_us, p.share_least_q16, p.share_shift, (bit<64>)standard_metadata.ingress_global_timestamp,
            (bit<64>)standard_metadata.packet_length, meta.tau_us, kind);
        bands_budget.write(meta.port, meta.budget);
        bands_budget_last_us.write(meta.port, meta.budget_last_us);
        law_flows.write(meta.flow, meta.counted);
        law_flows_last_us.write(meta.flow, meta.counted_last_us);
        law_share_mean_q6.write(meta.port, meta.share_mean_q6);
    }

    // The limit of band A on a packet, which is counted unless it is dropped. While none leaves one each STUCK_US passes:
    // those that are counted may have been lost elsewhere.
    action limit_ahead(in law_params_t p) {
        bit<48> now_us = standard_metadata.ingress_global_timestamp;
        ahead_enqueued.read(meta.ahead_enqueued, meta.port);
        ahead_drained.read(meta.ahead_left, meta.port);
        bit<64> ahead_bytes = (bit<64>)(meta.ahead_enqueued - meta.ahead_left);
        if (meta.effects != aqm_effects_t.NONE && ahead_bytes >= (bit<64>)p.min_backlog_bytes) { // before the cost of the rest
            law_dq_time_q8_us.read(meta.dq_time_q8_us, meta.port);
            meta.tau_us = law_tau(meta.dq_time_q8_us, p.dq_shift, ahead_bytes);
            if (ahead_is_late(p.min_backlog_bytes, p.delay_limit_us, ahead_bytes, meta.tau_us)) {
                ahead_late.read(meta.drained, meta.port);
                if (meta.drained[95:48] != meta.ahead_left || now_us - meta.drained[47:0] < (bit<48>)STUCK_US) {
                    meta.verdict = law_verdict_t.DROP;
                }
                if (meta.drained[95:48] != meta.ahead_left || now_us - meta.drained[47:0] >= (bit<48>)STUCK_US) {
                    meta.drained[95:48] = meta.ahead_left;
                    meta.drained[47:0] = now_us;
                    ahead_late.write(meta.port, meta.drained);
                }
            }
        }
        if (meta.verdict == law_verdict_t.PASS) {
            meta.ahead_enqueued = meta.ahead_enqueued + (bit<48>)standard_metadata.packet_length;
            ahead_enqueued.write(meta.port, meta.ahead_enqueued);
            meta.len_bytes = standard_metadata.packet_length;
        }
    }

    action no_aqm() {
        meta.mode = aqm_mode_t.NONE;
        read_queue();
        enqueue();
    }

    // For tests: drops or marks with a probability that stays; no step is taken.
    action fixed_probability(bit<33> u_q32, bit<1> squared, bit<33> ecn_bound_q32, bit<32> digest_interval_us) {
        meta.mode = aqm_mode_t.FIXED;
        meta.s.u_q40 = (bit<64>)u_q32 << 8;
        read_queue();
        random(meta.rand_a, 0, 0xffffffff);
        random(meta.rand_b, 0, 0xffffffff);
        if (meta.effects != aqm_effects_t.NONE && (bit<33>)meta.rand_a < u_q32 && (squared == 0 || (bit<33>)meta.rand_b < u_q32)) {
            meta.verdict = law_verdict_t.DROP;
            if (meta.effects == aqm_effects_t.DROP_OR_MARK && u_q32 <= ecn_bound_q32) {
                meta.verdict = law_verdict_t.MARK;
            }
        }
#ifdef WEIR_L4S
        decide_low();
#endif
        act();
        if (meta.verdict != law_verdict_t.DROP) {
            enqueue();
        }
        aqm_digest_us.read(meta.reported_us, meta.port);
        report(digest_interval_us);
    }

    // The law's part in a packet, on a port without bands of flows.
    action one_band(in law_params_t p, in bit<64> backlog_bytes) {
        if (meta.effects != aqm_effects_t.NONE) {
            if (p.share_least_q16 != 0) {
                count_flow(p.share_shift);
            }
            if (law_is_quiet(meta.s.u_q40, p.delay_bound_us, p.delay_limit_us, meta.tau_us)) {
                law_sum_q32.write(meta.port, 0);
            } else if (meta.s.u_q40 == 0 || backlog_bytes >= (bit<64>)p.min_backlog_bytes) { // else no packet is hit
                // Without effect if `share_least` is 0.
                decide(p, backlog_bytes, law_flow_size(meta.counted[31:0] - standard_metadata.packet_length, meta.counted[31:0],
                    meta.share_mean_q6, p.share_least_q16));
            }
        }
    }

    action drop_or_enqueue(in bit<64> backlog_bytes, in bit<24> interval_us) {
#ifdef WEIR_L4S
        decide_low();
#endif
        if (meta.verdict == law_verdict_t.PASS) {
            enqueue();
        } else {
            if (meta.verdict == law_verdict_t.DROP) {
                spare_for_step(backlog_bytes, interval_us);
            }
            act();
            if (meta.verdict != law_verdict_t.DROP) {
                enqueue();
            }
        }
    }

    action pid_delay(
        LAW_ACTION_PARAMS,
        bit<2> delay_source,
        bit<32> digest_interval_us)
    {
        law_params_t p;
        LAW_SET_PARAMS(p)
        meta.mode = aqm_mode_t.PID_DELAY;
        read_queue();
        bit<64> backlog_bytes = (bit<64>)(meta.enqueued - meta.drained)[47:0];
        read_tau(backlog_bytes, dq_shift);
        law_u_q40.read(meta.s.u_q40, meta.port);
        one_band(p, backlog_bytes);
        drop_or_enqueue(backlog_bytes, interval_us);
        report_or_publish(p, delay_source, digest_interval_us);
    }

    // The same on a port with bands of flows.
    action two_bands(in law_params_t p, in bit<64> backlog_bytes, in flow_bands_t b) {
        band_kind_t kind;
        band_of_flow(p, b, kind);
        if (kind == band_kind_t.AHEAD) {
            aqm_ahead.count(meta.port);
            meta.ahead = 1;
            standard_metadata.priority = PRIORITY_FIRST;
            limit_ahead(p);
        } else {
            if (meta.effects != aqm_effects_t.NONE) {
                if (band_refuses(kind, p.target_us, meta.tau_us)) {
                    meta.verdict = law_verdict_t.DROP;
                } else {
                    decide(p, backlog_bytes, kind == band_kind_t.SMALL ? law_size_t.SMALL : law_size_t.LARGE);
                }
            }
            if (meta.verdict == law_verdict_t.DROP) {
                spare_for_step(backlog_bytes, p.interval_us);
            }
        }
        if (meta.verdict == law_verdict_t.DROP && meta.effects != aqm_effects_t.NONE && meta.ahead == 0) {
            if (band_refuses(kind, p.target_us, meta.tau_us)) {
                aqm_refused.count(meta.port);
            }
        }
        act();
        if (meta.verdict != law_verdict_t.DROP && meta.ahead == 0) {
            enqueue();
            bands_budget.read(meta.budget, meta.port);
            meta.budget[31:0] = band_passed(meta.budget[31:0], (bit<64>)meta.len_bytes);
            bands_budget.write(meta.port, meta.budget);
        }
    }

    // The law in band B of two bands of flows (docs/design/flows.md). The switch needs two queues a port.
    action pid_delay_bands(
        LAW_ACTION_PARAMS,
        bit<2> delay_source,
        bit<32> digest_interval_us,
        bit<20> ahead_share_q16,
        bit<32> ahead_most_bytes,
        bit<32> ahead_least_bytes)
    {
        law_params_t p;
        flow_bands_t b;
        LAW_SET_PARAMS(p)
        b.ahead_share_q16 = ahead_share_q16;
        b.ahead_most_bytes = ahead_most_bytes;
        b.ahead_least_bytes = ahead_least_bytes;
        meta.mode = aqm_mode_t.PID_DELAY;
        read_queue();
        bit<64> backlog_bytes = (bit<64>)(meta.enqueued - meta.drained)[47:0];
        read_tau(backlog_bytes, dq_shift);
        law_u_q40.read(meta.s.u_q40, meta.port);
#ifdef WEIR_L4S
        if (meta.coupled == 1) { // it has its two bands
            one_band(p, backlog_bytes);
            drop_or_enqueue(backlog_bytes, interval_us);
        } else {
            two_bands(p, backlog_bytes, b);
        }
#else
        two_bands(p, backlog_bytes, b);
#endif
        report_or_publish(p, delay_source, digest_interval_us);
    }

    table aqm {
        key = {
            standard_metadata.egress_spec: exact @name("egress_port");
        }
        actions = {
            no_aqm;
            pid_delay;
            fixed_probability;
            pid_delay_bands;
        }
        default_action = no_aqm();
        size = 512;
    }

    apply {
        aqm.apply();
        if (meta.report == 1) {
            // In this order: a packet that leaves meanwhile is lost until the next report, and never less than none.
            aqm_dequeued.read(meta.pair, meta.port);
            aqm_drained.read(meta.drained, meta.port);
            pair_t enqueued = meta.enqueued; // ingress alone writes it
#ifdef WEIR_L4S
            aqm_enqueued.read(enqueued, meta.port); // of C
#endif
            aqm_sojourn_us.read(meta.tau_us, meta.port);
            law_dq_time_q8_us.read(meta.dq_time_q8_us, meta.port);
            law_row.read(meta.s.row, meta.port);
            aqm_dropped_packets.read(meta.packets, meta.port);
            aqm_marked_packets.read(meta.counted, meta.port);
            pair_t lost = meta.drained - meta.pair;
            pair_t waiting = enqueued - meta.drained;
#ifdef WEIR_L4S
            aqm_state_t state = {
#else
            digest<aqm_state_t>(1, {
#endif
                (bit<16>)meta.port, standard_metadata.ingress_global_timestamp, meta.tau_us, meta.s.u_q40, waiting[47:0],
                meta.dq_time_q8_us, meta.s.row, enqueued[95:48], enqueued[47:0], lost[95:48], lost[47:0],
                meta.packets, meta.counted
#ifdef WEIR_L4S
            };
            if (meta.coupled == 1) {
                total.apply(PORTS + meta.port, state);
            }
            digest<aqm_state_t>(1, state);
#else
            });
#endif
        }
    }
}

#endif
