// SPDX-License-Identifier: Apache-2.0
// The AQM's second half: measures the queue by each packet that leaves it, and takes the law's step with the first one
// after each interval (docs/design/verdict.md, "Effects of the missing timer").
#ifndef WEIR_AQM_EGRESS_P4
#define WEIR_AQM_EGRESS_P4

#include "aqm.p4"
#include "law.p4"

// forwarded: counts each packet by its port.
control AqmEgress(inout aqm_metadata_t meta, in standard_metadata_t standard_metadata)(counter forwarded) {
    LawUpdate() update;
#ifdef WEIR_L4S
    CoupledFollow() follow;
#endif

    action write_start(in bit<32> cell) {
        meta.dq_start_us[47:0] = standard_metadata.egress_global_timestamp; // the rest is 0
        law_dq_start_us.write(cell, meta.dq_start_us);
    }

    // A packet's part in the departure rate of the cell's queue, or of the line.
    action depart(in bit<32> cell, in bit<64> backlog_bytes) {
        bit<64> now_us = (bit<64>)standard_metadata.egress_global_timestamp;
        bit<5> dq_shift = LAW_DQ_SHIFT(meta.packet_params);
        law_dq_on.read(meta.dq_on, cell);
        if (meta.dq_on == 1) {
            law_dq_count_bytes.read(meta.dq_count_bytes, cell);
            meta.dq_count_bytes = meta.dq_count_bytes |+| meta.len_bytes; // 2
            if (law_departure_ends(meta.dq_count_bytes, dq_shift)) {
                law_dq_time_q8_us.read(meta.dq_time_q8_us, cell);
                law_dq_start_us.read(meta.dq_start_us, cell);
                meta.dq_time_q8_us = law_departure_time(meta.dq_time_q8_us, meta.dq_start_us,
                    LAW_DQ_WEIGHT_SHIFT(meta.packet_params), now_us);
                meta.dq_count_bytes = law_departure_rest(meta.dq_count_bytes, dq_shift);
                law_dq_time_q8_us.write(cell, meta.dq_time_q8_us);
                write_start(cell);
            }
            law_dq_count_bytes.write(cell, meta.dq_count_bytes);
            if (backlog_bytes == 0) { // 4
                law_dq_on.write(cell, 0);
            }
        } else if (law_departure_begins(backlog_bytes, dq_shift)) {
            law_dq_on.write(cell, 1);
            law_dq_count_bytes.write(cell, 0);
            write_start(cell);
        }
    }

    // Backlog of a queue whose packets leave in any order, as a packet leaves and others stay: bytes enqueued less bytes that
    // left (`drained` before this packet). Lost packets neither left nor wait; each is counted with the length of this
    // packet. The backlog is then 64 to 2048 bytes for each waiting packet. An empty queue is exact again.
    action count_backlog(in bit<48> waiting) {
        bit<48> len_bytes = (bit<48>)meta.len_bytes;
        aqm_drained.read(meta.drained, AQM_QUEUE);
        meta.drained = meta.pair - meta.drained - (48w1 ++ len_bytes); // the backlog, then what left
        bit<48> packets = meta.drained[95:48];
        bit<48> bytes = meta.drained[47:0];
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
        meta.backlog_bytes = (bit<64>)bytes;
        meta.pair = meta.pair - (packets ++ bytes);
        aqm_drained.write(AQM_QUEUE, meta.pair);
    }

    // With nothing left, what else was counted as handed to the queue was lost at its tail. (Or is about to join it; then it
    // sets `drained` to the same place again.) Elsewhere packets lost at the tail stay in the backlog until one that joined
    // after them leaves.
    action leave_queue() {
        aqm_dequeued.read(meta.pair, AQM_QUEUE);
        meta.pair = meta.pair + (48w1 ++ (bit<48>)meta.len_bytes);
        aqm_dequeued.write(AQM_QUEUE, meta.pair);
        aqm_sojourn_us.write(AQM_QUEUE, standard_metadata.deq_timedelta);
#ifdef WEIR_L4S
        aqm_left_us.write(AQM_QUEUE, standard_metadata.egress_global_timestamp);
#endif
        aqm_enqueued.read(meta.pair, AQM_QUEUE);
        if (standard_metadata.deq_qdepth == 0) {
            aqm_drained.write(AQM_QUEUE, meta.pair);
        } else if (meta.mode == aqm_mode_t.PID_DELAY && LAW_DELAY_SOURCE(meta.packet_params) == DELAY_FLOWS) {
            count_backlog((bit<48>)standard_metadata.deq_qdepth);
        } else {
            meta.backlog_bytes = (bit<64>)(meta.pair - meta.enqueued)[47:0];
            aqm_drained.write(AQM_QUEUE, meta.enqueued);
        }
    }

    // A packet of band A: takes its part in the rate of the line, while band B waits for it.
    action leave_ahead() {
        if (standard_metadata.deq_qdepth == 0) {
            ahead_enqueued.read(meta.ahead_enqueued, meta.port); // as in `leave_queue`
        }
        ahead_drained.write(meta.port, meta.ahead_enqueued);
        aqm_drained.read(meta.drained, meta.port);
        aqm_enqueued.read(meta.pair, meta.port);
        meta.backlog_bytes = (bit<64>)(meta.pair - meta.drained)[47:0];
    }

    action leave() {
        forwarded.count(meta.port);
        law_packet_params.read(meta.packet_params, meta.port);
        if (meta.ahead == 1) {
            leave_ahead();
        } else {
            leave_queue();
        }
        if (meta.mode == aqm_mode_t.PID_DELAY) {
#ifdef WEIR_L4S
            meta.other_bytes = 0;
            if (meta.coupled == 1) {
                aqm_enqueued.read(meta.pair, meta.other);
                aqm_drained.read(meta.drained, meta.other);
                meta.other_bytes = (bit<64>)(meta.pair - meta.drained)[47:0];
                depart(PORTS + meta.port, meta.backlog_bytes + meta.other_bytes);
            }
            if (meta.low == 0) {
                depart(meta.port, meta.backlog_bytes);
            }
#else
            depart(meta.port, meta.backlog_bytes);
#endif
            law_last_us.read(meta.s.last_us, meta.port);
        }
    }

    apply {
        bit<64> now_us = (bit<64>)standard_metadata.egress_global_timestamp;
        leave();
        if (meta.mode == aqm_mode_t.PID_DELAY && meta.ahead == 0 // else no step is due
            && (meta.s.last_us == 0 || now_us - meta.s.last_us
                >= (bit<64>)LAW_INTERVAL_US(meta.packet_params)))
        {
            law_params_t p;
            bit<1> stepped;
#ifdef WEIR_L4S
            bit<64> before_us = meta.s.last_us;
#endif
            bit<32> delay_us = standard_metadata.deq_timedelta;
            law_step_params.read(meta.step_params, meta.port);
            LAW_UNPACK(p, meta.step_params, meta.packet_params)
            if (LAW_DELAY_SOURCE(meta.packet_params) != DELAY_SOJOURN) {
                law_dq_time_q8_us.read(meta.dq_time_q8_us, AQM_QUEUE);
                delay_us = law_tau(meta.dq_time_q8_us, p.dq_shift, meta.backlog_bytes);
            }
#ifdef WEIR_L4S
            if (meta.coupled == 1 && meta.other_bytes != 0) {
                bit<32> other_us;
                if (LAW_DELAY_SOURCE(meta.packet_params) != DELAY_SOJOURN) {
                    bit<32> other_dq_time_q8_us;
                    law_dq_time_q8_us.read(other_dq_time_q8_us, meta.other);
                    other_us = law_tau(other_dq_time_q8_us, p.dq_shift, meta.other_bytes);
                } else {
                    // Of the last packet to leave, or if that is longer, for how long none has left.
                    bit<48> left_us;
                    aqm_sojourn_us.read(other_us, meta.other);
                    aqm_left_us.read(left_us, meta.other);
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
            law_started.read(meta.s.started, meta.port);
            law_u_q40.read(meta.s.u_q40, meta.port);
            law_o1_us.read(meta.counted, meta.port);
            law_o2_us.read(meta.share_mean_q6, meta.port);
            law_no_i_run.read(meta.s.no_i_run, meta.port);
            law_row.read(meta.s.row, meta.port);
            law_u_ecn_q40.read(meta.s.u_ecn_q40, meta.port);
            meta.s.o1_us = (int<64>)meta.counted;
            meta.s.o2_us = (int<64>)meta.share_mean_q6;
            update.apply(meta.s, p, now_us, delay_us, stepped);
#ifdef WEIR_L4S
            if (meta.coupled == 1 && stepped == 1) {
                bit<64> r_q40;
                bit<48> classic_left_us;
                bit<64> classic_bytes = meta.low == 1 ? meta.other_bytes : meta.backlog_bytes;
                bool missed = now_us - before_us >= (bit<64>)p.interval_us << 1;
                aqm_left_us.read(classic_left_us, meta.port);
                coupled_r_q40.read(r_q40, meta.port);
                follow.apply(r_q40, meta.s.u_q40, classic_bytes != 0
                    || now_us - (bit<64>)classic_left_us < (bit<64>)p.interval_us << 1, missed);
                coupled_r_q40.write(meta.port, r_q40);
            }
#endif
            law_started.write(meta.port, meta.s.started);
            law_last_us.write(meta.port, meta.s.last_us);
            law_u_q40.write(meta.port, meta.s.u_q40);
            law_o1_us.write(meta.port, (bit<64>)meta.s.o1_us);
            law_o2_us.write(meta.port, (bit<64>)meta.s.o2_us);
            law_no_i_run.write(meta.port, meta.s.no_i_run);
            law_row.write(meta.port, meta.s.row);
            law_u_ecn_q40.write(meta.port, meta.s.u_ecn_q40);
        }
    }
}

// Packets that were not looked up.
control OtherEgress(inout aqm_metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        meta.port[8:0] = standard_metadata.egress_port;
        if (standard_metadata.deq_qdepth == 0) { // as in AqmEgress
            aqm_enqueued.read(meta.pair, meta.port);
            aqm_drained.write(meta.port, meta.pair);
        }
    }
}

#endif
