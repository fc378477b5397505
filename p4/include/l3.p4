// SPDX-License-Identifier: Apache-2.0
// Where a packet goes. Every IPv4 and IPv6 packet in a unicast frame is routed, whatever station the frame is addressed
// to; ARP, neighbour discovery, group-addressed frames and all that is not IP are passed on within layer 2 as they came.
#ifndef WEIR_L3_P4
#define WEIR_L3_P4

#include "headers.p4"
#include "l3_types.p4"

// Reason why a packet was not forwarded: the index into `dropped`. The AQM counts its drops there, not here.
enum bit<32> drop_reason_t {
    // Ends within a header.
    TRUNCATED = 0,
    // Version, header length or total length that can't be.
    BAD_IP_HEADER = 1,
    BAD_IPV4_CHECKSUM = 2,
    // TTL or hop limit of 1 or 0 on arrival.
    TTL_EXPIRED = 3,
    NO_ROUTE = 4,
    // The route names a next hop that the table `next_hop` does not have.
    NO_NEXT_HOP = 5,
    // Not IP (or not to be routed), and the table `l2_forward` says nothing about it.
    NO_L2_ENTRY = 6
}

const bit<32> DROP_REASONS = 7;

// RFC 4861 4: router and neighbour solicitation and advertisement, redirect
const bit<8> ND_FIRST = 133;
const bit<8> ND_LAST = 137;
// fe80::/10
const bit<10> LINK_LOCAL = 0x3fa;

control L3(inout headers_t hdr, inout l3_metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(DROP_REASONS, CounterType.packets_and_bytes) dropped;
    direct_counter(CounterType.packets_and_bytes) ipv4_routed;
    direct_counter(CounterType.packets_and_bytes) ipv6_routed;
    direct_counter(CounterType.packets_and_bytes) l2_passed_on;

    action drop(in drop_reason_t reason) {
        dropped.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    action no_route() {
        drop(drop_reason_t.NO_ROUTE);
    }

    action set_next_hop(bit<16> next_hop) {
        meta.next_hop = next_hop;
        meta.ip_changed = 1;
        // In the header that there is: a statement behind the table costs more on BMv2.
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
    }

    table ipv4_lpm {
        key = {
            hdr.ipv4.dst: lpm;
        }
        actions = {
            set_next_hop;
            no_route;
        }
        default_action = no_route();
        counters = ipv4_routed;
        size = 131072;
    }

    table ipv6_lpm {
        key = {
            hdr.ipv6.dst: lpm;
        }
        actions = {
            set_next_hop;
            no_route;
        }
        default_action = no_route();
        counters = ipv6_routed;
        size = 65536;
    }

    action no_next_hop() {
        drop(drop_reason_t.NO_NEXT_HOP);
    }

    // A tag, if there is one, stays as it came.
    action forward(bit<9> port, bit<48> dst_mac, bit<48> src_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst = dst_mac;
        hdr.ethernet.src = src_mac;
    }

    // The frame leaves with this tag; a tag it came with lends its priority.
    action forward_tagged(bit<9> port, bit<48> dst_mac, bit<48> src_mac, bit<12> vid) {
        forward(port, dst_mac, src_mac);
        hdr.vlan.setValid();
        hdr.vlan.vid = vid;
    }

    action forward_untagged(bit<9> port, bit<48> dst_mac, bit<48> src_mac) {
        forward(port, dst_mac, src_mac);
    }

    table next_hop {
        key = {
            meta.next_hop: exact @name("next_hop");
        }
        actions = {
            forward;
            forward_tagged;
            forward_untagged;
            no_next_hop;
        }
        default_action = no_next_hop();
        size = 4096;
    }

    action no_l2_entry() {
        drop(drop_reason_t.NO_L2_ENTRY);
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    // To every port of a multicast group but the one the frame came by. Group 0 is none.
    action flood(bit<16> group) {
        mark_to_drop(standard_metadata);
        standard_metadata.mcast_grp = group;
    }

    table l2_forward {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = {
            to_port;
            flood;
            no_l2_entry;
        }
        default_action = no_l2_entry();
        counters = l2_passed_on;
        size = 4096;
    }

    apply {
        bit<32> l3_bytes = standard_metadata.packet_length - (hdr.vlan.isValid() ? ETHERNET_BYTES + VLAN_BYTES
            : ETHERNET_BYTES);
        bool is_unicast = standard_metadata.parser_error == error.NoError && hdr.ethernet.dst[40:40] == 0;
        bool is_ipv4 = is_unicast && hdr.ipv4.isValid();
        bool is_ipv6 = is_unicast && hdr.ipv6.isValid() && hdr.ipv6.dst[127:118] != LINK_LOCAL
            && !(hdr.icmpv6.isValid() && hdr.icmpv6.kind >= ND_FIRST && hdr.icmpv6.kind <= ND_LAST);

        // The length that the IP header names is possible.
        bool fits_ipv4 = is_ipv4 && (bit<32>)hdr.ipv4.total_len <= l3_bytes
            && hdr.ipv4.total_len >= (bit<16>)hdr.ipv4.ihl << 2;
        bool fits_ipv6 = is_ipv6 && (bit<32>)hdr.ipv6.payload_len + IPV6_BYTES <= l3_bytes;

        if (fits_ipv4 && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
            ipv4_lpm.apply();
        } else if (fits_ipv6 && hdr.ipv6.hop_limit > 1) {
            ipv6_lpm.apply();
        } else if (standard_metadata.parser_error == error.BadIpHeader) {
            drop(drop_reason_t.BAD_IP_HEADER);
        } else if (standard_metadata.parser_error != error.NoError) {
            drop(drop_reason_t.TRUNCATED);
        } else if (fits_ipv4 && standard_metadata.checksum_error == 1) {
            drop(drop_reason_t.BAD_IPV4_CHECKSUM);
        } else if (fits_ipv4 || fits_ipv6) {
            drop(drop_reason_t.TTL_EXPIRED);
        } else if (is_ipv4 || is_ipv6) {
            drop(drop_reason_t.BAD_IP_HEADER);
        } else {
            l2_forward.apply();
        }

        if (meta.ip_changed == 1) {
            switch (next_hop.apply().action_run) {
                forward_tagged: {
                    if (hdr.ethernet.ether_type != ETHER_TYPE_VLAN) {
                        hdr.vlan.pcp = 0;
                        hdr.vlan.dei = 0;
                        hdr.vlan.ether_type = hdr.ethernet.ether_type;
                        hdr.ethernet.ether_type = ETHER_TYPE_VLAN;
                    }
                }
                forward_untagged: {
                    if (hdr.vlan.isValid()) {
                        hdr.ethernet.ether_type = hdr.vlan.ether_type;
                        hdr.vlan.setInvalid();
                    }
                }
            }
        }
    }
}

#endif
