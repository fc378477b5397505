// SPDX-License-Identifier: Apache-2.0
// Headers of Ethernet and IP packets. A program declares `headers_t` with those that it reads.
#ifndef WEIR_HEADERS_P4
#define WEIR_HEADERS_P4

#include "ethernet.p4"

const bit<16> ETHER_TYPE_VLAN = 0x8100;
const bit<16> ETHER_TYPE_IPV4 = 0x0800;
const bit<16> ETHER_TYPE_IPV6 = 0x86dd;

const bit<8> IP_PROTOCOL_TCP = 6;
const bit<8> IP_PROTOCOL_UDP = 17;
const bit<8> IP_PROTOCOL_DCCP = 33;
const bit<8> IP_PROTOCOL_ICMPV6 = 58;
const bit<8> IP_PROTOCOL_SCTP = 132;
const bit<8> IP_PROTOCOL_UDPLITE = 136;

const bit<32> ETHERNET_BYTES = 14;
const bit<32> VLAN_BYTES = 4;
const bit<32> IPV6_BYTES = 40;
// Source and destination, at the begin of each header that has them.
const bit<32> PORTS_BYTES = 4;

// RFC 3168 5
const bit<2> ECN_CE = 3;

error {
    // Version or header length that no IP header has.
    BadIpHeader
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

#endif
