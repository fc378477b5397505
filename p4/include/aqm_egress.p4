// SPDX-License-Identifier: Apache-2.0
// The AQM's second half: measures the queue by each packet that leaves it, and takes the law's step with the first one
// after each interval (docs/design/verdict.md, "Effects of the missing timer").
#ifndef WEIR_AQM_EGRESS_P4
#define WEIR_AQM_EGRESS_P4

#include "aqm.p4"
#include "law.p4"

// The departure rate of a queue, or in the cells of band L of the line.
control QueueDeparture(
    in bit<32> queue,
    in bit<5> dq_shift,
    in bit<4> dq_weight_shift,
    in bit<64> now_us,
    in bit<32> len_bytes,
    in bit<64> backlog_bytes)
{
    LawDepartureCount() count;
    LawDepartureTime() time;

    apply {
        law_rate_t r;
        bool begins;
        bool ends;
        law_dq_on.read(r.dq_on, queue);
        law_dq_count_bytes.read(r.dq_count_bytes, queue);
        count.apply(r.dq_on, r.dq_count_bytes, dq_shift, len_bytes, backlog_bytes, begins, ends);
        law_dq_on.write(queue, r.dq_on);
        law_dq_count_bytes.write(queue, r.dq_count_bytes);
        if (begins || ends) {
            law_dq_time_q8_us.read(r.dq_time_q8_us, queue);
            law_dq_start_us.read(r.dq_start_us, queue);
            time.apply(r, dq_shift, dq_weight_shift, now_us, ends);
            law_dq_time_q8_us.write(queue, r.dq_time_q8_us);
            law_dq_count_bytes.write(queue, r.dq_count_bytes);
            law_dq_start_us.write(queue, r.dq_start_us);
        }
    }
}

// Backlog of a queue whose packets leave in any order, as a packet of `len_bytes` leaves and `waiting` packets stay: bytes
// enqueued less bytes that left (`drained` before this packet). Lost packets neither left nor wait; each is counted with
// the length of this packet. The backlog is then 64 to 2048 bytes for each waiting packet. An empty queue is exact again.
control CountedBacklog(
    in bit<32> queue,
    in bit<48> waiting,
    in bit<48> len_bytes,
    in pair_t enqueued,
    in pair_t drained,
    out bit<64> backlog_bytes)
{
    apply {
        pair_t backlog = enqueued - drained - (48w1 ++ len_bytes);
        bit<48> packets = backlog[95:48];
        bit<48> bytes = backlog[47:0];
        bit<48> lost = packets - waiting;
        // Packets that are not counted wait too, and may be more than those lost.
        if (lost != 0 && lost[47:47] == 0) {
            bit<48> lost_bytes = lost * len_bytes;
            bit<48> least_bytes = waiting << 6;
            bit<48> most_bytes = waiting << 11;
            if (bytes < lost_bytes + least_bytes) {
                bytes = least_bytes;
            } else {
                bytes = bytes - lost_bytes;
                if (bytes > most_bytes) {
                    bytes = most_bytes;
                }
            }
            packets = waiting;
        }
        aqm_drained.write(queue, enqueued - (packets ++ bytes));
        backlog_bytes = (bit<64>)bytes;
    }
}

// A packet of band A: takes its part in the rate of the line, while band B waits for it.
control AheadEgress(in aqm_metadata_t meta, in standard_metadata_t standard_metadata) {
    QueueDeparture() departure;

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        pair_t enqueued;
        pair_t drained;
        bit<48> ahead = meta.ahead_enqueued;
        if (standard_metadata.deq_qdepth == 0) {
            ahead_enqueued.read(ahead, port); // as in AqmEgress
        }
        ahead_drained.write(port, ahead);
        aqm_drained.read(drained, port);
        aqm_enqueued.read(enqueued, port);
        departure.apply(port, meta.config.law.dq_shift, meta.config.law.dq_weight_shift,
            (bit<64>)standard_metadata.egress_global_timestamp, meta.len_bytes,
            (bit<64>)(enqueued - drained)[47:0]);
    }
}

// All other packets.
control AqmEgress(in aqm_metadata_t meta, in standard_metadata_t standard_metadata) {
    QueueDeparture() departure;
    CountedBacklog() counted;
    LawTau() tau;
    LawUpdate() update;
#ifdef WEIR_L4S
    CoupledFollow() follow;
    QueueDeparture() line_departure;
#endif

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        bit<32> queue = port;
        bit<64> now_us = (bit<64>)standard_metadata.egress_global_timestamp;
        bool is_empty = standard_metadata.deq_qdepth == 0;
        bit<64> backlog_bytes = 0;
        pair_t enqueued;

#ifdef WEIR_L4S
        bit<32> other = meta.low == 1 ? port : PORTS + port;
        queue = meta.low == 1 ? PORTS + port : port;
#endif
        // With nothing left, what else was counted as handed to the queue was lost at its tail. (Or is about to join it;
        // then it sets `drained` to the same place again.) Elsewhere packets lost at the tail stay in the backlog until
        // one that joined after them leaves.
        if (meta.stamped == 1) {
            pair_t drained;
            pair_t dequeued;
            aqm_enqueued.read(enqueued, queue);
            aqm_drained.read(drained, queue);
            aqm_dequeued.read(dequeued, queue);
            backlog_bytes = is_empty ? 0 : (bit<64>)(enqueued - meta.enqueued)[47:0];
            aqm_drained.write(queue, is_empty ? enqueued : meta.enqueued);
            aqm_dequeued.write(queue, dequeued + (48w1 ++ (bit<48>)meta.len_bytes));
            aqm_sojourn_us.write(queue, standard_metadata.deq_timedelta);
#ifdef WEIR_L4S
            aqm_left_us.write(queue, standard_metadata.egress_global_timestamp);
#endif
            if (meta.config.delay_source == DELAY_FLOWS && !is_empty) {
                counted.apply(queue, (bit<48>)standard_metadata.deq_qdepth, (bit<48>)meta.len_bytes, enqueued, drained,
                    backlog_bytes);
            }
        } else if (is_empty) {
            aqm_enqueued.read(enqueued, queue);
            aqm_drained.write(queue, enqueued);
        }

        if (meta.stamped == 1 && meta.config.mode == aqm_mode_t.PID_DELAY) {
            law_state_t s;
            law_started.read(s.started, port);
            law_last_us.read(s.last_us, port);
#ifdef WEIR_L4S
            bit<64> other_bytes = 0;
            if (meta.coupled == 1) {
                pair_t other_enqueued;
                pair_t other_drained;
                aqm_enqueued.read(other_enqueued, other);
                aqm_drained.read(other_drained, other);
                other_bytes = (bit<64>)(other_enqueued - other_drained)[47:0];
                line_departure.apply(PORTS + port, meta.config.law.dq_shift, meta.config.law.dq_weight_shift, now_us,
                    meta.len_bytes, backlog_bytes + other_bytes);
            }
            if (meta.low == 0) {
                departure.apply(port, meta.config.law.dq_shift, meta.config.law.dq_weight_shift, now_us,
                    meta.len_bytes, backlog_bytes);
            }
#else
            departure.apply(port, meta.config.law.dq_shift, meta.config.law.dq_weight_shift, now_us,
                meta.len_bytes, backlog_bytes);
#endif

            if (s.started == 0 || now_us - s.last_us >= (bit<64>)meta.config.law.interval_us) { // else no step is due
                bit<32> delay_us = standard_metadata.deq_timedelta;
                if (meta.config.delay_source != DELAY_SOJOURN) {
                    bit<32> dq_time_q8_us;
                    law_dq_time_q8_us.read(dq_time_q8_us, queue);
                    tau.apply(dq_time_q8_us, meta.config.law.dq_shift, backlog_bytes, delay_us);
                }
#ifdef WEIR_L4S
                if (meta.coupled == 1 && other_bytes != 0) {
                    bit<32> other_us;
                    if (meta.config.delay_source != DELAY_SOJOURN) {
                        bit<32> other_dq_time_q8_us;
                        law_dq_time_q8_us.read(other_dq_time_q8_us, other);
                        tau.apply(other_dq_time_q8_us, meta.config.law.dq_shift, other_bytes, other_us);
                    } else {
                        // Of the last packet to leave, or if that is longer, for how long none has left.
                        bit<48> left_us;
                        aqm_sojourn_us.read(other_us, other);
                        aqm_left_us.read(left_us, other);
                        bit<64> still_us = now_us - (bit<64>)left_us;
                        if (still_us > (bit<64>)other_us) {
                            other_us = (bit<32>)min_u64(still_us, TAU_MAX_US);
                        }
                    }
                    if (other_us > delay_us) {
                        delay_us = other_us;
                    }
                }
#endif
                bit<64> o1_us;
                bit<64> o2_us;
                bit<1> stepped;
                law_u_q40.read(s.u_q40, port);
                law_o1_us.read(o1_us, port);
                law_o2_us.read(o2_us, port);
                law_no_i_run.read(s.no_i_run, port);
                law_row.read(s.row, port);
                law_u_ecn_q40.read(s.u_ecn_q40, port);
                s.o1_us = (int<64>)o1_us;
                s.o2_us = (int<64>)o2_us;
#ifdef WEIR_L4S
                bool missed = now_us - s.last_us >= (bit<64>)meta.config.law.interval_us << 1;
#endif
                update.apply(s, meta.config.law, now_us, delay_us, stepped);
#ifdef WEIR_L4S
                if (meta.coupled == 1 && stepped == 1) {
                    bit<64> r_q40;
                    bit<48> classic_left_us;
                    bit<64> classic_bytes = meta.low == 1 ? other_bytes : backlog_bytes;
                    aqm_left_us.read(classic_left_us, port);
                    coupled_r_q40.read(r_q40, port);
                    follow.apply(r_q40, s.u_q40, classic_bytes != 0
                        || now_us - (bit<64>)classic_left_us < (bit<64>)meta.config.law.interval_us << 1, missed);
                    coupled_r_q40.write(port, r_q40);
                }
#endif
                law_started.write(port, s.started);
                law_last_us.write(port, s.last_us);
                law_u_q40.write(port, s.u_q40);
                law_o1_us.write(port, (bit<64>)s.o1_us);
                law_o2_us.write(port, (bit<64>)s.o2_us);
                law_no_i_run.write(port, s.no_i_run);
                law_row.write(port, s.row);
                law_u_ecn_q40.write(port, s.u_ecn_q40);
            }
        }
    }
}

#endif
