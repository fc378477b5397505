// SPDX-License-Identifier: Apache-2.0
// Pending Interest table (PIT), and the use of it by each port. Registers, all written by ingress; no timers: an
// entry's age is seen when its set is looked at.
#ifndef WEIR_ICN_PIT_P4
#define WEIR_ICN_PIT_P4

#include "icn_types.p4"

const bit<32> PIT_SETS = 8192;
// The second way of set i is the cell PIT_SETS + i.
const bit<32> PIT_CELLS = 16384;
// No entry lives longer after its last forwarding, so that the one who pays for it still does (2^23 us, 8.4 s).
const bit<48> PIT_AGE_MOST_US = 8388608;

// These six registers are one table: a cell is one entry. The prefix belongs to it, as it says where an Interest goes:
// what is asked by another one goes elsewhere.
register<bit<64>>(PIT_CELLS) pit_prefix;
register<bit<64>>(PIT_CELLS) pit_name;
// Segment in the high 32 bits, ports that asked in the low 32. No port: no entry.
register<bit<64>>(PIT_CELLS) pit_segment_ports;
// Ports that were asked in the high 32 bits, the lifetime in us in the next 24, the port that pays in the low 8.
register<bit<64>>(PIT_CELLS) pit_asked_lifetime_payer;
// Of the last forwarding: when, and the hop limit of the Interest as it came.
register<bit<48>>(PIT_CELLS) pit_forwarded_us;
register<bit<8>>(PIT_CELLS) pit_hop_limit;

// By port. Number of an epoch in the high 32 bits, then 16 bits each: entries paid for in it, and in the one before.
register<bit<64>>(32) quota_used;

// An entry as the packet at hand finds it.
struct pit_entry_t {
    bit<32> cell;
    bit<1> live;
    // It is of this packet's prefix, name and segment.
    bit<1> same;
    bit<32> segment;
    bit<32> ports;
    bit<32> asked;
    bit<24> lifetime_us;
    bit<8> payer;
    bit<48> forwarded_us;
    // Since the last forwarding.
    bit<48> elapsed_us;
}

control PitRead(
    in bit<32> cell,
    in bit<64> prefix,
    in bit<64> name,
    in bit<32> segment,
    in bit<48> now_us,
    out pit_entry_t entry)
{
    apply {
        bit<64> segment_ports;
        entry.cell = cell;
        entry.live = 0;
        entry.same = 0;
        entry.asked = 0;
        entry.lifetime_us = 0;
        entry.payer = 0;
        entry.forwarded_us = 0;
        entry.elapsed_us = 0;
        pit_segment_ports.read(segment_ports, cell);
        entry.segment = segment_ports[63:32];
        entry.ports = segment_ports[31:0];
        if (entry.ports != 0) {
            bit<64> rest;
            pit_asked_lifetime_payer.read(rest, cell);
            pit_forwarded_us.read(entry.forwarded_us, cell);
            entry.asked = rest[63:32];
            entry.lifetime_us = rest[31:8];
            entry.payer = rest[7:0];
            entry.elapsed_us = now_us - entry.forwarded_us;
            if (entry.elapsed_us[47:47] == 1) { // a packet that was stamped earlier and came later
                entry.elapsed_us = 0;
            }
            bit<48> age_most_us = (bit<48>)entry.lifetime_us << 1;
            if (age_most_us > PIT_AGE_MOST_US) {
                age_most_us = PIT_AGE_MOST_US;
            }
            if (entry.elapsed_us <= age_most_us) {
                entry.live = 1;
                bit<64> entry_name;
                bit<64> entry_prefix;
                pit_name.read(entry_name, cell);
                pit_prefix.read(entry_prefix, cell);
                if (entry_name == name && entry.segment == segment && entry_prefix == prefix) {
                    entry.same = 1;
                }
            }
        }
    }
}

control PitWrite(in pit_entry_t entry) {
    apply {
        pit_segment_ports.write(entry.cell, entry.segment ++ entry.ports);
        pit_asked_lifetime_payer.write(entry.cell, entry.asked ++ entry.lifetime_us ++ entry.payer);
        pit_forwarded_us.write(entry.cell, entry.forwarded_us);
    }
}

// Use of a port's quota in the present epoch and the one before; brought up to `now_us`.
struct quota_t {
    bit<32> epoch;
    bit<16> now;
    bit<16> before;
}

control QuotaRead(in bit<8> port, in bit<48> now_us, out quota_t quota) {
    apply {
        bit<64> used;
        quota_used.read(used, (bit<32>)port);
        quota.epoch = used[63:32];
        quota.now = used[31:16];
        quota.before = used[15:0];
        bit<32> epoch = (bit<32>)now_us[47:23];
        if (epoch == quota.epoch + 1) {
            quota.before = quota.now;
            quota.now = 0;
            quota.epoch = epoch;
        } else if (epoch > quota.epoch) {
            quota.before = 0;
            quota.now = 0;
            quota.epoch = epoch;
        }
    }
}

// Takes out an entry paid for at `then_us`.
control QuotaGiveBack(in bit<48> then_us, inout quota_t quota) {
    apply {
        bit<32> epoch = (bit<32>)then_us[47:23];
        if (epoch == quota.epoch) {
            if (quota.now != 0) {
                quota.now = quota.now - 1;
            }
        } else if (epoch + 1 == quota.epoch) {
            if (quota.before != 0) {
                quota.before = quota.before - 1;
            }
        }
    }
}

#endif
