// SPDX-License-Identifier: Apache-2.0
// From bytes to headers and back, and the IPv4 checksum. The program declares, before it includes this file, `headers_t`
// with the members ethernet, vlan, ipv4, ipv6 and icmpv6, and `metadata_t` with a member l3 (l3_types.p4). One that
// defines WEIR_NAMES has a member names too (icn_types.p4).
#ifndef WEIR_PARSER_P4
#define WEIR_PARSER_P4

#include "headers.p4"
#include "l3_types.p4"

parser WeirParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_VLAN: vlan;
            ETHER_TYPE_IPV4: ipv4;
            ETHER_TYPE_IPV6: ipv6;
#ifdef WEIR_NAMES
            ETHER_TYPE_NAMES: name;
#endif
            default: accept;
        }
    }

#ifdef WEIR_NAMES
    state name {
        packet.extract(hdr.names);
        transition accept;
    }
#endif

    // One tag; what is in a second one is payload.
    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: ipv4;
            ETHER_TYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv4 {
        bit<8> first = packet.lookahead<bit<8>>();
        verify(first[7:4] == 4 && first[3:0] >= 5, error.BadIpHeader);
        packet.extract(hdr.ipv4, ((bit<32>)first[3:0] - 5) << 5);
        // As if it were tagged: headers with ports are longer than the ports by four bytes and more.
        bit<32> least_bytes = ETHERNET_BYTES + VLAN_BYTES + ((bit<32>)first[3:0] << 2) + PORTS_BYTES;
        meta.l3.may_have_ports = (bit<1>)(standard_metadata.packet_length >= least_bytes
            && hdr.ipv4.frag_offset == 0 && (hdr.ipv4.flags & 1) == 0);
        transition select(meta.l3.may_have_ports, hdr.ipv4.protocol) {
            (1, IP_PROTOCOL_TCP): ports;
            (1, IP_PROTOCOL_UDP): ports;
            (1, IP_PROTOCOL_DCCP): ports;
            (1, IP_PROTOCOL_SCTP): ports;
            (1, IP_PROTOCOL_UDPLITE): ports;
            default: accept;
        }
    }

    state ipv6 {
        verify(packet.lookahead<bit<4>>() == 6, error.BadIpHeader);
        packet.extract(hdr.ipv6);
        meta.l3.may_have_ports = (bit<1>)(standard_metadata.packet_length
            >= ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES + PORTS_BYTES);
        transition select(meta.l3.may_have_ports, hdr.ipv6.next_header) {
            (1, IP_PROTOCOL_TCP): ports;
            (1, IP_PROTOCOL_UDP): ports;
            (1, IP_PROTOCOL_DCCP): ports;
            (1, IP_PROTOCOL_SCTP): ports;
            (1, IP_PROTOCOL_UDPLITE): ports;
            (_, IP_PROTOCOL_ICMPV6): icmpv6;
            default: accept;
        }
    }

    // Looked at, not taken out: they stay with the payload.
    state ports {
        meta.l3.ports = packet.lookahead<bit<32>>();
        transition accept;
    }

    state icmpv6 {
        packet.extract(hdr.icmpv6);
        transition accept;
    }
}

control WeirVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.ipv4.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

// Only for what was changed: a frame passed on within layer 2 keeps the checksum it came with, right or wrong.
control WeirComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && meta.l3.ip_changed == 1,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.ipv4.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control WeirDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

#endif
