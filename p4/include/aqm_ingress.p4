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

// Band of a packet on a port with two bands of flows. Its flow's counter is `counted` and `counted_last_us`; band B has a
// delay of `tau_us`.
control FlowBand(
    in bit<32> port,
    in aqm_config_t config,
    in bit<64> now_us,
    in bit<32> len_bytes,
    in bit<32> tau_us,
    inout bit<64> counted,
    inout bit<64> counted_last_us,
    inout bit<64> share_mean_q6,
    out band_kind_t kind)
{
    BandArrival() arrival;

    apply {
        band_flow_t f;
        band_budget_t budget;
        bit<96> bytes;
        bands_budget.read(bytes, port);
        bands_budget_last_us.read(budget.budget_last_us, port);
        budget.ahead_bytes = bytes[95:64];
        budget.new_bytes = bytes[63:32];
        budget.bulk_bytes = bytes[31:0];
        f.flow_large_tick = counted[63:48];
        f.flow_until_tick = counted[47:32];
        f.flow_bytes = counted[31:0];
        f.flow_last_us = counted_last_us;
        arrival.apply(f, share_mean_q6, budget, config.bands, config.law.interval_us, config.law.share_least_q16,
            config.law.share_shift, now_us, (bit<64>)len_bytes, tau_us, kind);
        counted = f.flow_large_tick ++ f.flow_until_tick ++ f.flow_bytes;
        counted_last_us = f.flow_last_us;
        bands_budget.write(port, budget.ahead_bytes ++ budget.new_bytes ++ budget.bulk_bytes);
        bands_budget_last_us.write(port, budget.budget_last_us);
    }
}

// The limit of band A on a packet of `len_bytes`, which is counted unless it is dropped. While none leaves one each
// STUCK_US passes: those that are counted may have been lost elsewhere.
control AheadLimit(
    in bit<32> port,
    in aqm_config_t config,
    in bit<64> now_us,
    in bit<32> len_bytes,
    in bool controlled,
    out bit<48> enqueued,
    out law_verdict_t verdict)
{
    LawTau() tau;

    apply {
        bit<48> drained;
        verdict = law_verdict_t.PASS;
        ahead_enqueued.read(enqueued, port);
        ahead_drained.read(drained, port);
        bit<64> backlog_bytes = (bit<64>)(enqueued - drained);
        if (controlled && backlog_bytes >= (bit<64>)config.law.min_backlog_bytes) { // before the cost of the rest
            bit<32> dq_time_q8_us;
            bit<32> tau_us;
            law_dq_time_q8_us.read(dq_time_q8_us, port);
            tau.apply(dq_time_q8_us, config.law.dq_shift, backlog_bytes, tau_us);
            if (ahead_is_late(config.law.min_backlog_bytes, config.law.delay_limit_us, backlog_bytes, tau_us)) {
                bit<96> met;
                ahead_late.read(met, port);
                if (met[95:48] != drained) {
                    verdict = law_verdict_t.DROP;
                    ahead_late.write(port, drained ++ now_us[47:0]);
                } else if (now_us[47:0] - met[47:0] < (bit<48>)STUCK_US) {
                    verdict = law_verdict_t.DROP;
                } else {
                    ahead_late.write(port, drained ++ now_us[47:0]);
                }
            }
        }
        if (verdict == law_verdict_t.PASS) {
            enqueued = enqueued + (bit<48>)len_bytes;
            ahead_enqueued.write(port, enqueued);
        }
    }
}

// controlled: the law may drop or mark the packet; every other packet is only counted.
// ecn_capable: the packet's sender is told by a mark (ECT or CE, RFC 3168).
// flow: what tells its flow from others; packets that are not controlled are one flow of the bands, all members 0.
// mark: the caller must set CE in the packet.
control AqmIngress(
    in bool controlled,
    in bool ecn_capable,
    in aqm_flow_t flow,
    out bool mark,
    inout aqm_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    counter(PORTS, CounterType.packets_and_bytes) aqm_drops;
    counter(PORTS, CounterType.packets_and_bytes) aqm_marks;
    // Packets of band A, also those beyond its limit.
    counter(PORTS, CounterType.packets_and_bytes) aqm_ahead;
    // Packets of new flows beyond the budget of band A, dropped because band B had a queue; `aqm_drops` has them too.
    counter(PORTS, CounterType.packets_and_bytes) aqm_refused;
    LawDecide() decide;
    LawTau() tau;
    LawArrival() arrival;
    FlowBand() band;
    AheadLimit() ahead_limit;
#ifdef WEIR_L4S
    CoupledDecide() decide_low;
    BothBands() total;
#endif

    action no_aqm() {
        meta.config.mode = aqm_mode_t.NONE;
    }

    // For tests: drops or marks with a probability that stays; no step is taken.
    action fixed_probability(bit<33> u_q32, bit<1> squared, bit<33> ecn_bound_q32, bit<32> digest_interval_us) {
        meta.config.mode = aqm_mode_t.FIXED;
        meta.config.fixed_u_q32 = u_q32;
        meta.config.law.squared = squared;
        meta.config.law.ecn_bound_q32 = ecn_bound_q32;
        meta.config.digest_interval_us = digest_interval_us;
    }

    action pid_delay(
        LAW_ACTION_PARAMS,
        bit<2> delay_source,
        bit<32> digest_interval_us)
    {
        meta.config.mode = aqm_mode_t.PID_DELAY;
        LAW_SET_PARAMS(meta.config.law)
        meta.config.delay_source = delay_source;
        meta.config.digest_interval_us = digest_interval_us;
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
        meta.config.mode = aqm_mode_t.PID_DELAY;
        LAW_SET_PARAMS(meta.config.law)
        meta.config.delay_source = delay_source;
        meta.config.digest_interval_us = digest_interval_us;
        meta.config.has_bands = 1;
        meta.config.bands.ahead_share_q16 = ahead_share_q16;
        meta.config.bands.ahead_most_bytes = ahead_most_bytes;
        meta.config.bands.ahead_least_bytes = ahead_least_bytes;
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

        bit<32> port = (bit<32>)standard_metadata.egress_spec;
        bit<32> queue = port;
        bit<64> now_us = (bit<64>)standard_metadata.ingress_global_timestamp;
        bit<32> tau_us = 0;
        law_size_t size = law_size_t.SMALL;
        law_verdict_t verdict = law_verdict_t.PASS;
        bool refused = false;
        bool by_law = controlled;
        mark = false;
        meta.len_bytes = standard_metadata.packet_length;
#ifdef WEIR_L4S
        meta.config.has_bands = meta.coupled == 1 ? 0 : meta.config.has_bands; // it has its two bands
        queue = meta.low == 1 ? PORTS + port : port;
#endif
        // All at once: BMv2 takes as long for one more table of statements as for five of them.
        pair_t enqueued;
        pair_t drained;
        bit<48> digest_us;
        bit<64> u_q40;
        bit<64> u_ecn_q40;
        bit<64> sum_q32;
        bit<32> dq_time_q8_us;
        bit<32> sojourn_us;
        bit<32> rand_a;
        bit<32> rand_b;
        aqm_enqueued.read(enqueued, queue);
        aqm_drained.read(drained, queue);
        aqm_digest_us.read(digest_us, port);
        law_u_q40.read(u_q40, port);
        law_u_ecn_q40.read(u_ecn_q40, port);
        law_sum_q32.read(sum_q32, port);
        law_dq_time_q8_us.read(dq_time_q8_us, port);
        aqm_sojourn_us.read(sojourn_us, port);
        random(rand_a, 0, 0xffffffff);
        random(rand_b, 0, 0xffffffff);
        bit<64> backlog_bytes = (bit<64>)(enqueued - drained)[47:0];

        if (meta.config.mode == aqm_mode_t.PID_DELAY) {
            bit<32> number;
            bit<64> counted;
            bit<64> counted_last_us;
            bit<64> share_mean_q6;
            // Expected delay of this packet, which is newer than that of the last one to leave. With an empty queue it
            // need not wait, however long the last one did.
            tau.apply(dq_time_q8_us, meta.config.law.dq_shift, backlog_bytes, tau_us);
            tau_us = dq_time_q8_us == 0 && backlog_bytes != 0 ? sojourn_us : tau_us;
            hash(number, HashAlgorithm.crc32, 32w0, { port, flow.src, flow.dst, flow.protocol, flow.ports }, FLOWS);
            law_flows.read(counted, number);
            law_flows_last_us.read(counted_last_us, number);
            law_share_mean_q6.read(share_mean_q6, port);
            // Each packet counts, also those that no probability could hit.
            if (meta.config.has_bands == 1) {
                band_kind_t kind;
                band.apply(port, meta.config, now_us, standard_metadata.packet_length, tau_us, counted,
                    counted_last_us, share_mean_q6, kind);
                law_flows.write(number, counted);
                law_flows_last_us.write(number, counted_last_us);
                law_share_mean_q6.write(port, share_mean_q6);
                if (kind == band_kind_t.AHEAD) {
                    aqm_ahead.count(port);
                    meta.ahead = 1;
                    standard_metadata.priority = PRIORITY_FIRST;
                    by_law = false;
                    ahead_limit.apply(port, meta.config, now_us, standard_metadata.packet_length, controlled,
                        meta.ahead_enqueued, verdict);
                } else if (controlled && band_refuses(kind, meta.config.law.target_us, tau_us)) {
                    refused = true;
                    verdict = law_verdict_t.DROP;
                    by_law = false;
                } else if (kind != band_kind_t.SMALL) {
                    size = law_size_t.LARGE;
                }
            } else if (controlled && meta.config.law.share_least_q16 != 0) {
                law_flow_t f;
                f.flow_bytes = counted[31:0];
                f.flow_last_us = counted_last_us;
                arrival.apply(f, share_mean_q6, meta.config.law.share_least_q16, meta.config.law.share_shift,
                    now_us, standard_metadata.packet_length, size);
                law_flows.write(number, (bit<64>)f.flow_bytes);
                law_flows_last_us.write(number, f.flow_last_us);
                law_share_mean_q6.write(port, share_mean_q6);
            }
        } else {
            u_q40 = meta.config.mode == aqm_mode_t.FIXED ? (bit<64>)meta.config.fixed_u_q32 << 8 : 0;
        }

        if (by_law && (u_q40 != 0 || meta.config.law.delay_bound_us != 0
            || meta.config.law.delay_limit_us != 0 || meta.config.law.space_most_q16 != 0)) { // else no packet is hit
            // A short queue is not marked by the mean of U, which the swings of U keep above 0.
            bit<1> ect = ecn_capable && tau_us >= (bit<32>)meta.config.law.min_delay_us ? 1w1 : 0;
            decide.apply(u_q40, u_ecn_q40, sum_q32, meta.config.law, backlog_bytes, tau_us, ect, size, rand_a, rand_b,
                verdict);
        }

#ifdef WEIR_L4S
        // In overload packets of band L are dropped as those of C are. Marks are given where they leave (bands.p4).
        if (meta.low == 1 && u_q40 != 0) {
            bit<64> p_q32;
            bit<64> r_q40 = u_q40;
            if (meta.config.mode == aqm_mode_t.PID_DELAY) {
                coupled_r_q40.read(r_q40, port);
            }
            decide_low.apply(meta.coupling, r_q40, 0, 0, rand_a, rand_b, p_q32, verdict);
            if (verdict == law_verdict_t.MARK) {
                verdict = law_verdict_t.PASS;
            }
        }
#endif

        if (verdict != law_verdict_t.PASS) {
            bit<64> packets;
            // Steps are taken where packets leave. If every packet were dropped none would leave and U would stay for
            // ever: one that finds a step due and the queue empty passes, and takes the step.
            if (verdict == law_verdict_t.DROP && meta.ahead == 0 && meta.config.mode == aqm_mode_t.PID_DELAY) {
                bit<64> last_us;
                law_last_us.read(last_us, port);
                bit<64> elapsed_us = now_us - last_us;
                if (elapsed_us[63:63] == 0 && elapsed_us >= (bit<64>)meta.config.law.interval_us
                    && (backlog_bytes == 0 || elapsed_us >= STUCK_US)) {
                    verdict = law_verdict_t.PASS;
                }
            }
            if (verdict == law_verdict_t.DROP) {
                aqm_drops.count(port);
                if (refused) {
                    aqm_refused.count(port);
                }
                aqm_dropped_packets.read(packets, queue);
                aqm_dropped_packets.write(queue, packets + 1);
                law_sum_q32.write(port, sum_q32);
                mark_to_drop(standard_metadata);
            } else if (verdict == law_verdict_t.MARK) {
                aqm_marks.count(port);
                aqm_marked_packets.read(packets, port);
                aqm_marked_packets.write(port, packets + 1);
                mark = true;
            }
        }

        if (verdict != law_verdict_t.DROP && meta.ahead == 0) {
            enqueued = enqueued + (48w1 ++ (bit<48>)standard_metadata.packet_length);
            aqm_enqueued.write(queue, enqueued);
            law_sum_q32.write(port, sum_q32);
            meta.enqueued = enqueued;
            meta.stamped = 1;
            if (meta.config.has_bands == 1) {
                bit<96> bytes;
                bands_budget.read(bytes, port);
                bit<32> bulk_bytes = band_passed(bytes[31:0], (bit<64>)meta.len_bytes);
                bands_budget.write(port, bytes[95:32] ++ bulk_bytes);
            }
        }

        // True too of a clock gone back.
        if (meta.config.digest_interval_us != 0
            && (bit<48>)now_us - digest_us >= (bit<48>)meta.config.digest_interval_us) {
            aqm_state_t state;
            pair_t dequeued;
            aqm_digest_us.write(port, (bit<48>)now_us);
            // In this order: a packet that leaves meanwhile is lost until the next report, and never less than none.
            aqm_dequeued.read(dequeued, port);
            aqm_drained.read(drained, port);
            aqm_enqueued.read(enqueued, port);
            pair_t lost = drained - dequeued;
            pair_t waiting = enqueued - drained;
            state.port = (bit<16>)port;
            state.now_us = (bit<48>)now_us;
            aqm_sojourn_us.read(state.delay_us, port);
            state.u_q40 = u_q40;
            state.backlog_bytes = waiting[47:0];
            law_dq_time_q8_us.read(state.dq_time_q8_us, port);
            law_row.read(state.row, port);
            state.enqueued_packets = enqueued[95:48];
            state.enqueued_bytes = enqueued[47:0];
            state.tail_dropped_packets = lost[95:48];
            state.tail_dropped_bytes = lost[47:0];
            aqm_dropped_packets.read(state.aqm_dropped_packets, port);
            aqm_marked_packets.read(state.aqm_marked_packets, port);
#ifdef WEIR_L4S
            if (meta.coupled == 1) {
                total.apply(PORTS + port, state);
            }
#endif
            digest<aqm_state_t>(1, state);
        }
    }
}

#endif
