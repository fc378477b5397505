// SPDX-License-Identifier: Apache-2.0
// Forwarding by name: where Interests go, who gets Data and Nacks, and what is refused (docs/design/icn.md, "Rules of a
// switch"). Each packet ends with an egress_spec, with a group of copies, or dropped and counted.
#ifndef WEIR_ICN_INGRESS_P4
#define WEIR_ICN_INGRESS_P4

#include "ethernet.p4"
#include "icn_types.p4"
#include "icn_hash.p4"
#include "icn_pit.p4"

// Index into `names`.
enum bit<32> names_count_t {
    INTERESTS_FORWARDED = 0,
    INTERESTS_JOINED = 1,
    INTERESTS_REPEATED = 2,
    DATA_FORWARDED = 3,
    DATA_COPIES = 4,
    NACKS_FORWARDED = 5,
    NACKED_NO_ROUTE = 6,
    NACKED_FULL = 7,
    NACKED_QUOTA = 8,
    MALFORMED = 9,
    HOP_LIMIT = 10,
    DATA_UNASKED = 11,
    NACKS_UNASKED = 12,
    BAD_PORT = 13,
    DATA_FROM_ELSEWHERE = 14,
    NACKS_FROM_ELSEWHERE = 15,
    ENTRIES_DISPLACED = 16
}

const bit<32> NAMES_COUNTS = 17;
counter(NAMES_COUNTS, CounterType.packets_and_bytes) names;

// instance_type of a packet that went through the switch before
const bit<32> RECIRCULATED = 4;

// Sends a packet to the ports of a bitmap whose lowest bit is port `base`; counts nothing. alone: one port was left,
// and the packet goes there now.
control Spread(
    in bit<32> ports,
    in bit<9> base,
    out bool alone,
    inout names_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    apply {
        bit<32> left = ports;
        bit<9> first = base;
        alone = false;
        if (left[15:0] == 0) {
            left = left >> 16;
            first = first + 16;
        }
        if (left[7:0] == 0) {
            left = left >> 8;
            first = first + 8;
        }
        if ((left & (left - 1)) == 0) {
            bit<8> bits = left[7:0];
            alone = left != 0;
            if (bits[3:0] == 0) {
                bits = bits >> 4;
                first = first + 4;
            }
            if (bits[1:0] == 0) {
                bits = bits >> 2;
                first = first + 2;
            }
            if (bits[0:0] == 0) {
                first = first + 1;
            }
            if (alone) {
                standard_metadata.egress_spec = first;
            }
        } else {
            meta.stage = STAGE_TURNS;
            meta.base = first;
            meta.ports = left >> 8;
            if (left[31:8] == 0) {
                standard_metadata.mcast_grp = GROUPS + (bit<16>)left[7:0];
            } else {
                standard_metadata.mcast_grp = GROUPS_GO_ON + (bit<16>)left[7:0];
            }
        }
    }
}

// An Interest: forwarded, joined or answered with a Nack. found: the entry of what it asks for, else a dead one of its
// set, else the one whose port pays for most, which is `found_used` entries, and of two such the older.
// quota_else: of ports that have no other.
control NamesInterest(
    inout headers_t hdr,
    in pit_entry_t found,
    in bit<32> found_used,
    in bit<48> now_us,
    in bit<24> least_lifetime_us,
    in bit<16> quota_else,
    inout standard_metadata_t standard_metadata)
{
    direct_counter(CounterType.packets_and_bytes) fib_asked;
    PitWrite() write;
    QuotaRead() quota_read;
    QuotaGiveBack() quota_give_back;

    bit<9> to = 511;
    bit<9> other_to = 511;
    bit<16> quota = quota_else;

    // Interests go to `port`, and to `other` if they came from it; 511: to none.
    action via(bit<9> port, bit<9> other) {
        to = port;
        other_to = other;
    }

    action nowhere() {
        to = 511;
    }

    table fib {
        key = {
            hdr.names.prefix: lpm @name("prefix");
        }
        actions = {
            via;
            nowhere;
        }
        default_action = nowhere();
        counters = fib_asked;
        size = 65536;
    }

    // Quota of this port: entries that nobody has answered.
    action set_quota(bit<16> port_quota) {
        quota = port_quota;
    }

    table names_quota {
        key = {
            standard_metadata.ingress_port: exact @name("port");
        }
        actions = {
            set_quota;
            NoAction;
        }
        default_action = NoAction();
        size = 32;
    }

    action drop(in names_count_t reason) {
        names.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    // Turns the Interest into this switch's answer.
    action nack(in names_count_t reason, in bit<8> code) {
        names.count((bit<32>)reason);
        hdr.ethernet.src = NACK_SOURCE;
        hdr.names.kind = KIND_NACK;
        hdr.names.flags = 0;
        hdr.names.hop_limit = NACK_HOP_LIMIT;
        hdr.names.code = code;
        hdr.names.holes = 0;
        hdr.names.lifetime = 0;
        hdr.names.payload_bytes = 0;
        hdr.names.epoch = 0;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        pit_entry_t entry = found;
        bit<32> asker = (bit<32>)1 << (bit<8>)standard_metadata.ingress_port;
        bit<24> lifetime_us = (bit<24>)hdr.names.lifetime << 8;
        if (lifetime_us < least_lifetime_us) {
            lifetime_us = least_lifetime_us;
        }

        fib.apply();
        // Both ways that lead there now.
        bit<32> ways = 0;
        if (to < NAMED_PORTS) {
            ways = (bit<32>)1 << (bit<8>)to;
        }
        if (other_to < NAMED_PORTS) {
            ways = ways | ((bit<32>)1 << (bit<8>)other_to);
        }
        if (to == standard_metadata.ingress_port) {
            to = other_to;
        }
        bit<32> to_bit = (bit<32>)1 << (bit<8>)to;
        // One that was asked itself asks on: a cache that does not have it.
        bool passes_on = entry.same == 1 && (entry.asked & asker) != 0 && (entry.asked & to_bit) == 0;
        // The one before may have been dropped at one of the next switches, where this one is not.
        bool gets_farther = false;
        if (entry.same == 1) {
            bit<8> hop_limit_before;
            pit_hop_limit.read(hop_limit_before, entry.cell);
            gets_farther = hop_limit_before < HOP_LIMIT_ENOUGH && hdr.names.hop_limit > hop_limit_before;
        }

        if (to >= NAMED_PORTS || to == standard_metadata.ingress_port) {
            nack(names_count_t.NACKED_NO_ROUTE, NACK_NO_ROUTE);
        } else if (entry.same == 1 && !passes_on && !gets_farther && entry.elapsed_us < (bit<48>)lifetime_us) {
            entry.ports = entry.ports | asker;
            if (lifetime_us > entry.lifetime_us) {
                entry.lifetime_us = lifetime_us;
            }
            write.apply(entry);
            drop(names_count_t.INTERESTS_JOINED);
        } else {
            // A port that passes an Interest on leaves the entry to its payer; all others pay for what they have
            // forwarded.
            bit<8> payer = (bit<8>)standard_metadata.ingress_port;
            quota_t used;
            if (passes_on) {
                payer = entry.payer;
            } else {
                names_quota.apply();
            }
            quota_read.apply(payer, now_us, used);
            if (entry.same == 1 && entry.payer == payer) {
                quota_give_back.apply(entry.forwarded_us, used);
            }
            bit<32> asker_used = (bit<32>)used.now + (bit<32>)used.before;
            // Where one port asks for many, as between switches: what the asker would have asked again long since.
            bool waits_long = entry.payer == payer && entry.elapsed_us >= (bit<48>)lifetime_us;
            if (entry.same == 0 && entry.live == 1 && !waits_long && found_used <= asker_used + 1) {
                nack(names_count_t.NACKED_FULL, NACK_FULL);
            } else if (asker_used >= (bit<32>)quota && !passes_on) {
                nack(names_count_t.NACKED_QUOTA, NACK_QUOTA);
            } else {
                quota_used.write((bit<32>)payer, used.epoch ++ (used.now + 1) ++ used.before);
                if (entry.same == 1) {
                    names.count((bit<32>)names_count_t.INTERESTS_REPEATED);
                    if (entry.payer != payer) {
                        quota_read.apply(entry.payer, now_us, used);
                        quota_give_back.apply(entry.forwarded_us, used);
                        quota_used.write((bit<32>)entry.payer, used.epoch ++ used.now ++ used.before);
                    }
                } else {
                    names.count((bit<32>)names_count_t.INTERESTS_FORWARDED);
                    if (entry.live == 1) {
                        names.count((bit<32>)names_count_t.ENTRIES_DISPLACED);
                    }
                    pit_prefix.write(entry.cell, hdr.names.prefix);
                    pit_name.write(entry.cell, hdr.names.name);
                    entry.segment = hdr.names.segment;
                    entry.ports = 0;
                    entry.asked = 0;
                    entry.lifetime_us = 0;
                }
                entry.ports = entry.ports | asker;
                // Interests asked on a route that leads there no more are not to answer.
                entry.asked = (entry.asked & ways) | to_bit;
                if (lifetime_us > entry.lifetime_us) {
                    entry.lifetime_us = lifetime_us;
                }
                entry.payer = payer;
                entry.forwarded_us = now_us;
                write.apply(entry);
                pit_hop_limit.write(entry.cell, hdr.names.hop_limit);
                hdr.names.hop_limit = hdr.names.hop_limit - 1;
                hdr.names.holes = 0;
                standard_metadata.egress_spec = to;
            }
        }
    }
}

// Data or a Nack. ports: those that asked for it, none if it is dropped. found: as with NamesInterest.
control NamesAnswer(
    inout headers_t hdr,
    in pit_entry_t found,
    in bit<48> now_us,
    out bit<32> ports,
    inout standard_metadata_t standard_metadata)
{
    PitWrite() write;
    QuotaRead() quota_read;
    QuotaGiveBack() quota_give_back;

    action drop(in names_count_t reason) {
        names.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    apply {
        pit_entry_t entry = found;
        bit<32> from = (bit<32>)1 << (bit<8>)standard_metadata.ingress_port;
        bool is_data = hdr.names.kind == KIND_DATA;
        ports = 0;
        if (entry.same == 0) {
            if (is_data) {
                drop(names_count_t.DATA_UNASKED);
            } else {
                drop(names_count_t.NACKS_UNASKED);
            }
        } else if ((entry.asked & from) == 0) {
            if (is_data) {
                drop(names_count_t.DATA_FROM_ELSEWHERE);
            } else {
                drop(names_count_t.NACKS_FROM_ELSEWHERE);
            }
        } else {
            quota_t used;
            quota_read.apply(entry.payer, now_us, used);
            quota_give_back.apply(entry.forwarded_us, used);
            quota_used.write((bit<32>)entry.payer, used.epoch ++ used.now ++ used.before);
            ports = entry.ports & ~from;
            entry.ports = 0;
            write.apply(entry);
            hdr.names.hop_limit = hdr.names.hop_limit - 1;
            if (is_data) {
                names.count((bit<32>)names_count_t.DATA_FORWARDED);
            } else {
                names.count((bit<32>)names_count_t.NACKS_FORWARDED);
            }
        }
    }
}

// Applied to packets of ETHER_TYPE_NAMES, `hdr.names` valid or not. Packets to be dropped have DROP_PORT as their
// egress_spec.
control Names(inout headers_t hdr, inout names_metadata_t meta, inout standard_metadata_t standard_metadata) {
    HalfSipHash() half_sip;
    PitRead() read;
    QuotaRead() quota_read;
    NamesInterest() interest;
    NamesAnswer() answer;
    Spread() spread;

    bit<32> key_low = 0;
    bit<32> key_high = 0;
    bit<24> least_lifetime_us = 0;
    bit<16> quota = 0;

    action drop(in names_count_t reason) {
        names.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    // key: of the hash that finds an entry's set; lifetime_least_us: what a shorter lifetime counts as; port_quota: of
    // ports that are not in `names_quota`.
    action set_limits(bit<32> hash_key_low, bit<32> hash_key_high, bit<24> lifetime_least_us, bit<16> port_quota) {
        key_low = hash_key_low;
        key_high = hash_key_high;
        least_lifetime_us = lifetime_least_us;
        quota = port_quota;
    }

    table names_limits {
        actions = {
            set_limits;
        }
        default_action = set_limits(0, 0, 1000, 2048);
    }

    apply {
        bool is_again = standard_metadata.instance_type == RECIRCULATED;
        bool is_malformed = true;
        // Ports that the packet is to be copied to, the lowest bit of which is port `base`.
        bit<32> ports = 0;
        bit<9> base = 0;

        if (is_again) {
            standard_metadata.ingress_port = meta.port;
            standard_metadata.ingress_global_timestamp = meta.now_us;
        } else {
            meta.port = standard_metadata.ingress_port;
            meta.now_us = standard_metadata.ingress_global_timestamp;
        }
        if (hdr.names.isValid()) {
            bit<32> least_bytes = NAMES_OFFSET_BYTES + NAMES_BYTES + (bit<32>)hdr.names.payload_bytes;
            is_malformed = standard_metadata.packet_length < least_bytes
                || hdr.names.payload_bytes > NAMES_PAYLOAD_MOST_BYTES
                || hdr.names.version != NAMES_VERSION
                || hdr.names.kind == 0 || hdr.names.kind > KIND_NACK
                || hdr.names.name == 0
                || (hdr.names.kind == KIND_INTEREST && hdr.names.lifetime == 0)
                || (hdr.names.kind == KIND_NACK && (hdr.names.code == 0 || hdr.names.payload_bytes != 0))
                || (hdr.names.holes != 0 && (hdr.names.kind != KIND_INTEREST || hdr.names.payload_bytes != 0));
        }

        if (is_again && meta.stage == STAGE_COPY) {
            standard_metadata.egress_spec = meta.port;
            if (hdr.names.kind == KIND_DATA) {
                names.count((bit<32>)names_count_t.DATA_COPIES);
            }
        } else if (is_again && meta.stage == STAGE_REST) {
            ports = meta.ports;
            base = meta.base;
        } else if (is_malformed) {
            drop(names_count_t.MALFORMED);
        } else if (standard_metadata.ingress_port >= NAMED_PORTS) {
            drop(names_count_t.BAD_PORT);
        } else if (hdr.names.hop_limit <= 1) {
            drop(names_count_t.HOP_LIMIT);
        } else {
            bit<32> hash_value;
            pit_entry_t first;
            pit_entry_t second;
            bit<32> found_used = 0;
            names_limits.apply();
            half_sip.apply(hdr.names.isValid(), key_low, key_high, hdr.names.prefix, hdr.names.name, hdr.names.segment,
                hash_value);
            bit<32> cell = hash_value & (PIT_SETS - 1);
            read.apply(cell, hdr.names.prefix, hdr.names.name, hdr.names.segment, meta.now_us, first);
            if (first.same == 0) {
                read.apply(
                    PIT_SETS + cell, hdr.names.prefix, hdr.names.name, hdr.names.segment, meta.now_us, second);
                if (second.same == 1 || (first.live == 1 && second.live == 0)) {
                    first = second;
                } else if (first.live == 1 && hdr.names.kind == KIND_INTEREST) {
                    quota_t used;
                    quota_t second_used;
                    quota_read.apply(first.payer, meta.now_us, used);
                    quota_read.apply(second.payer, meta.now_us, second_used);
                    found_used = (bit<32>)used.now + (bit<32>)used.before;
                    bit<32> other_used = (bit<32>)second_used.now + (bit<32>)second_used.before;
                    if (other_used > found_used
                        || (other_used == found_used && second.elapsed_us > first.elapsed_us)) {
                        found_used = other_used;
                        first = second;
                    }
                }
            }
            if (hdr.names.kind == KIND_INTEREST) {
                if (hdr.names.holes != 0) {
                    meta.stage = STAGE_TURNS;
                    clone_preserving_field_list(CloneType.I2E, AGAIN_SESSION, 1);
                }
                interest.apply(hdr, first, found_used, meta.now_us, least_lifetime_us, quota, standard_metadata);
            } else {
                answer.apply(hdr, first, meta.now_us, ports, standard_metadata);
            }
        }

        if (ports != 0) {
            bool alone;
            spread.apply(ports, base, alone, meta, standard_metadata);
            if (alone && hdr.names.kind == KIND_DATA) {
                names.count((bit<32>)names_count_t.DATA_COPIES);
            }
        }
    }
}

#endif
