// SPDX-License-Identifier: Apache-2.0
// The AQM's second half: measures the queue by each packet that leaves it, and takes the law's step with the first one
// after each interval (docs/design/law.md, "What the missing timer changes").
#ifndef WEIR_AQM_EGRESS_P4
#define WEIR_AQM_EGRESS_P4

#include "aqm.p4"
#include "law.p4"

control AqmEgress(inout aqm_metadata_t meta, inout standard_metadata_t standard_metadata) {
    LawDeparture() departure;
    LawTau() tau;
    LawUpdate() update;

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        bit<64> now_us = (bit<64>)standard_metadata.egress_global_timestamp;
        bit<64> len_bytes = (bit<64>)meta.len_bytes;
        bit<64> backlog_bytes = 0;
        pair_t enqueued;

        aqm_enqueued.read(enqueued, port);
        if (standard_metadata.deq_qdepth == 0) {
            // Nothing is left: what else was counted as handed to the queue was lost at its tail. (Or is about to join
            // it; then it sets `drained` to the same place again.)
            aqm_drained.write(port, enqueued);
        } else if (meta.stamped == 1) {
            // Packets lost at the tail stay in this difference until one that joined after them leaves.
            backlog_bytes = (bit<64>)(enqueued - meta.enqueued)[47:0];
            aqm_drained.write(port, meta.enqueued);
        }

        if (meta.stamped == 1) {
            pair_t dequeued;
            aqm_dequeued.read(dequeued, port);
            aqm_dequeued.write(port, dequeued + (48w1 ++ (bit<48>)meta.len_bytes));
            aqm_sojourn_us.write(port, standard_metadata.deq_timedelta);
        }

        if (meta.stamped == 1 && meta.config.mode == aqm_mode_t.PID_DELAY) {
            law_rate_t r;
            law_dq_on.read(r.dq_on, port);
            if (r.dq_on == 1 || backlog_bytes >= 64w1 << meta.config.law.dq_shift) {
                law_dq_time_q8_us.read(r.dq_time_q8_us, port);
                law_dq_count_bytes.read(r.dq_count_bytes, port);
                law_dq_start_us.read(r.dq_start_us, port);
                departure.apply(r, meta.config.law.dq_shift, meta.config.law.dq_weight_shift, now_us, len_bytes,
                    backlog_bytes);
                law_dq_time_q8_us.write(port, r.dq_time_q8_us);
                law_dq_count_bytes.write(port, r.dq_count_bytes);
                law_dq_start_us.write(port, r.dq_start_us);
                law_dq_on.write(port, r.dq_on);
            }

            law_state_t s;
            law_started.read(s.started, port);
            law_last_us.read(s.last_us, port);
            if (s.started == 0 || now_us - s.last_us >= (bit<64>)meta.config.law.interval_us) { // else no step is due
                bit<32> delay_us = standard_metadata.deq_timedelta;
                if (meta.config.delay_source == 1) {
                    law_dq_time_q8_us.read(r.dq_time_q8_us, port);
                    tau.apply(r.dq_time_q8_us, meta.config.law.dq_shift, backlog_bytes, delay_us);
                }
                bit<64> o1_us;
                bit<64> o2_us;
                bit<1> stepped;
                law_u_q40.read(s.u_q40, port);
                law_o1_us.read(o1_us, port);
                law_o2_us.read(o2_us, port);
                law_tau_prev_us.read(s.tau_prev_us, port);
                law_burst_left_us.read(s.burst_left_us, port);
                law_no_i_run.read(s.no_i_run, port);
                law_row.read(s.row, port);
                law_u_mean_q40.read(s.u_mean_q40, port);
                law_u_ecn_q40.read(s.u_ecn_q40, port);
                s.o1_us = (int<64>)o1_us;
                s.o2_us = (int<64>)o2_us;
                update.apply(s, meta.config.law, now_us, delay_us, stepped);
                law_started.write(port, s.started);
                law_last_us.write(port, s.last_us);
                law_u_q40.write(port, s.u_q40);
                law_o1_us.write(port, (bit<64>)s.o1_us);
                law_o2_us.write(port, (bit<64>)s.o2_us);
                law_tau_prev_us.write(port, s.tau_prev_us);
                law_burst_left_us.write(port, s.burst_left_us);
                law_no_i_run.write(port, s.no_i_run);
                law_row.write(port, s.row);
                law_u_mean_q40.write(port, s.u_mean_q40);
                law_u_ecn_q40.write(port, s.u_ecn_q40);
            }
        }
    }
}

#endif
