// SPDX-License-Identifier: Apache-2.0
// Two bands of flows in integers: the numbered steps are those of docs/design/flows.md, the bits are those of
// tests/vectors/bands.
//
// Pure, as law.p4: registers, clocks and hashes belong to the callers (aqm_ingress.p4, bands_probe.p4).
#ifndef WEIR_FLOW_BANDS_P4
#define WEIR_FLOW_BANDS_P4

#include "flow_bands_types.p4"
#include "fixed_point.p4"

const bit<64> BAND_NEW_BYTES = 1024;
const bit<64> BAND_FREE_BYTES = 8192;
const bit<64> BAND_HELD_MOST_TICKS = 512;

// Number of halvings since `last_us`, at most 32; moves `last_us` to the last of them (verdict.md, The share of flows,
// step 2).
void band_halvings(inout bit<64> last_us, in bit<64> now_us, in bit<5> share_shift, out bit<8> halvings) {
    bit<64> elapsed_us = now_us - last_us;
    bit<64> count = elapsed_us >> share_shift;
    halvings = 0;
    if (elapsed_us[63:63] == 1) {
        last_us = now_us;
    } else if (count > 31) {
        halvings = 32;
        last_us = now_us;
    } else if (count != 0) {
        halvings = (bit<8>)count;
        last_us = last_us + (count << share_shift);
    }
}

// Band of a packet of `len_bytes`, below 2^32, while band B has a delay of `tau_us`. `flow`: flow_large_tick and
// flow_until_tick in the high 16 bits each, and flow_bytes. `share_mean_q6`: of the counters over packets of bulk flows.
// `budget`: ahead_bytes in the high, new_bytes in the next, bulk_bytes in the low 32 bits.
void band_arrival(
    inout bit<64> flow,
    inout bit<64> flow_last_us,
    inout bit<64> share_mean_q6,
    inout bit<96> budget,
    inout bit<64> budget_last_us,
    in flow_bands_t b,
    in bit<24> interval_us,
    in bit<20> share_least_q16,
    in bit<5> share_shift,
    in bit<64> now_us,
    in bit<64> len_bytes,
    in bit<32> tau_us,
    out band_kind_t kind)
{
    bit<8> halvings;
    band_halvings(flow_last_us, now_us, share_shift, halvings); // 1
    bit<64> before = (bit<64>)flow[31:0] >> halvings;
    bit<64> bytes = before + len_bytes;
    if (bytes > BYTES_MAX) {
        bytes = BYTES_MAX;
    }

    band_halvings(budget_last_us, now_us, share_shift, halvings); // 2
    bit<64> ahead_bytes = (bit<64>)budget[95:64] >> halvings;
    bit<64> new_bytes = (bit<64>)budget[63:32] >> halvings;
    bit<64> bulk_bytes = (bit<64>)budget[31:0] >> halvings;

    bit<64> threshold = (bit<64>)b.ahead_most_bytes; // 3
    if (b.ahead_share_q16 != 0) {
        threshold = ((bit<64>)b.ahead_share_q16 * share_mean_q6) >> 22;
        if (threshold > (bit<64>)b.ahead_most_bytes) {
            threshold = (bit<64>)b.ahead_most_bytes;
        }
    }
    if (threshold < (bit<64>)b.ahead_least_bytes) {
        threshold = (bit<64>)b.ahead_least_bytes;
    }
    bool sparse = before < threshold;

    bit<64> allowed = bulk_bytes + BAND_FREE_BYTES; // 4
    bit<64> wanted = ahead_bytes + len_bytes;
    bool is_new = before < BAND_NEW_BYTES;
    if (!is_new) {
        wanted = wanted + before;
    }
    bool strange = is_new && new_bytes + len_bytes > (allowed >> 1);
    bool room = !strange && wanted <= allowed;

    bit<16> tick = now_us[25:10]; // 5
    bit<16> wait_ticks = flow[47:32] - tick;
    bit<16> large_ticks = tick - flow[63:48];
    bool held = before != 0 && wait_ticks != 0 && wait_ticks[15:15] == 0
        && large_ticks < (bit<16>)BAND_HELD_MOST_TICKS;

    if (sparse && room && !held) { // 6
        kind = band_kind_t.AHEAD;
        flow[47:32] = tick;
        ahead_bytes = ahead_bytes + len_bytes;
        if (ahead_bytes > BYTES_MAX) {
            ahead_bytes = BYTES_MAX;
        }
        if (is_new) {
            new_bytes = new_bytes + len_bytes;
            if (new_bytes > BYTES_MAX) {
                new_bytes = BYTES_MAX;
            }
        }
    } else {
        bit<64> hold_ticks = ((((bit<64>)tau_us << 1) + (bit<64>)interval_us) >> 10) + 1; // 7
        if (hold_ticks > BAND_HELD_MOST_TICKS) {
            hold_ticks = BAND_HELD_MOST_TICKS;
        }
        flow[47:32] = tick + (bit<16>)hold_ticks;
        kind = band_kind_t.SMALL;
        if (!(sparse && room)) {
            flow[63:48] = tick;
            if (sparse) {
                kind = band_kind_t.SPILLED;
                if (strange) {
                    kind = band_kind_t.STRANGER;
                }
            } else {
                share_mean_q6 = share_mean_q6 - (share_mean_q6 >> 6) + bytes; // 8
                if ((bytes << 22) >= (bit<64>)share_least_q16 * share_mean_q6) {
                    kind = band_kind_t.LARGE;
                }
            }
        }
    }
    flow[31:0] = (bit<32>)bytes;
    budget = (bit<32>)ahead_bytes ++ (bit<32>)new_bytes ++ (bit<32>)bulk_bytes;
}

// Whether a packet of band A is dropped, while A has `backlog_bytes` and with them a delay of `tau_us`.
bool ahead_is_late(
    in bit<32> min_backlog_bytes,
    in bit<24> delay_limit_us,
    in bit<64> backlog_bytes,
    in bit<32> tau_us)
{
    return delay_limit_us != 0 && tau_us >= (bit<32>)delay_limit_us && backlog_bytes >= (bit<64>)min_backlog_bytes; // 9
}

// Whether a packet of band B is dropped before the law's verdict.
bool band_refuses(in band_kind_t kind, in bit<24> target_us, in bit<32> tau_us) {
    return kind == band_kind_t.STRANGER && tau_us >= (bit<32>)(target_us >> 2); // 9
}

// `bulk_bytes` after a packet of band B that was not dropped.
bit<32> band_passed(in bit<32> bulk_bytes, in bit<64> len_bytes) {
    bit<64> bytes = BYTES_MAX; // 10
    if (len_bytes < BYTES_MAX - (bit<64>)bulk_bytes) {
        bytes = (bit<64>)bulk_bytes + len_bytes;
    }
    return (bit<32>)bytes;
}

#endif
