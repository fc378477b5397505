// SPDX-License-Identifier: Apache-2.0
// What the switch reads of a packet, and what travels with it from ingress to egress.
#ifndef WEIR_HEADERS_P4
#define WEIR_HEADERS_P4

#include "law_types.p4"

const bit<16> ETHER_TYPE_VLAN = 0x8100;
const bit<16> ETHER_TYPE_IPV4 = 0x0800;
const bit<16> ETHER_TYPE_IPV6 = 0x86dd;

const bit<8> IP_PROTOCOL_ICMPV6 = 58;

const bit<32> ETHERNET_BYTES = 14;
const bit<32> VLAN_BYTES = 4;
const bit<32> IPV6_BYTES = 40;

// RFC 3168 5
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE = 3;

error {
    // Version or header length that no IP header has.
    BadIpHeader
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header vlan_t {
    bit<3> pcp;
    bit<1> dei;
    bit<12> vid;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> id;
    bit<3> flags;
    bit<13> frag_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
    varbit<320> options;
}

header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> payload_len;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

// Read only to tell neighbour discovery, which no router may touch.
header icmpv6_t {
    bit<8> kind;
    bit<8> code;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
    icmpv6_t icmpv6;
}

// What the table `aqm` has chosen for a port.
enum bit<2> aqm_mode_t {
    NONE = 0,
    PID_DELAY = 1,
    FIXED = 2
}

// Packets in the high, bytes in the low 48 bits, so that one register access moves both and they belong together.
// Bytes carry into packets after 2^48 (280 TB); the difference of two pairs is right in both for less than that.
typedef bit<96> pair_t;

// What the table `aqm` says about the port.
struct aqm_config_t {
    aqm_mode_t mode;
    bit<1> delay_source;
    bit<32> digest_interval_us;
    bit<33> fixed_u_q32;
    law_params_t law;
}

const bit<2> TAGGING_ADD = 1;
const bit<2> TAGGING_REMOVE = 2;

struct metadata_t {
    // A route, not the table for other frames, has chosen the next hop.
    bit<1> routed;
    bit<16> next_hop;
    // What the next hop does to the tag; 0: nothing.
    bit<2> tagging;
    // The IPv4 checksum is to be made anew.
    bit<1> ip_changed;
    // The packet is counted in `aqm_enqueued`; `enqueued` is that pair with the packet itself in it.
    bit<1> stamped;
    pair_t enqueued;
    // As it was counted there: BMv2's packet_length has tags put on and taken off in it by the time it leaves.
    bit<32> len_bytes;
    aqm_config_t aqm;
}

#endif
