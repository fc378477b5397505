// SPDX-License-Identifier: Apache-2.0
// From bytes to headers and back, and the IPv4 checksum. The program declares, before it includes this file, `headers_t`
// with the members ethernet, vlan, ipv4, ipv6 and icmpv6, and `metadata_t` with a member l3 (l3_types.p4). One that
// defines WEIR_NAMES has a member names too (icn_types.p4); one that defines WEIR_SCONE, a member scone in both
// (scone_types.p4).
#ifndef WEIR_PARSER_P4
#define WEIR_PARSER_P4

#include "headers.p4"
#include "l3_types.p4"
#ifdef WEIR_SCONE
#include "scone_types.p4"
#endif

parser WeirParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    // Of the IP header.
    bit<8> first;

    state start {
        packet.extract(hdr.ethernet);
#ifdef WEIR_SCONE
        meta.scone.at = ETHERNET_BYTES;
#endif
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
#ifdef WEIR_SCONE
        meta.scone.at = ETHERNET_BYTES + VLAN_BYTES;
#endif
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: ipv4;
            ETHER_TYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv4 {
        first = packet.lookahead<bit<8>>();
        verify(first >= 0x45 && first < 0x50, error.BadIpHeader); // version 4, five words and more
        packet.extract(hdr.ipv4, ((bit<32>)first[3:0] - 5) << 5);
        // As if it were tagged: headers with ports are longer than the ports by four bytes and more.
        bit<32> least_bytes = ETHERNET_BYTES + VLAN_BYTES + ((bit<32>)first[3:0] << 2) + PORTS_BYTES;
        bit<1> may_have_ports = (bit<1>)(standard_metadata.packet_length >= least_bytes
            && hdr.ipv4.frag_offset == 0 && (hdr.ipv4.flags & 1) == 0);
#ifdef WEIR_SCONE
        meta.scone.at = meta.scone.at + ((bit<32>)first[3:0] << 2);
#endif
        transition select(may_have_ports, hdr.ipv4.protocol) {
            (1, IP_PROTOCOL_TCP): ports;
#ifdef WEIR_SCONE
            (1, IP_PROTOCOL_UDP): udp;
#else
            (1, IP_PROTOCOL_UDP): ports;
#endif
            (1, IP_PROTOCOL_DCCP): ports;
            (1, IP_PROTOCOL_SCTP): ports;
            (1, IP_PROTOCOL_UDPLITE): ports;
            default: accept;
        }
    }

    state ipv6 {
        first = packet.lookahead<bit<8>>();
        verify(first[7:4] == 6, error.BadIpHeader);
        packet.extract(hdr.ipv6);
#ifdef WEIR_SCONE
        meta.scone.at = meta.scone.at + IPV6_BYTES;
#endif
        transition select(standard_metadata.packet_length, hdr.ipv6.next_header) {
            (_, IP_PROTOCOL_ICMPV6): icmpv6;
            (0 .. ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES + PORTS_BYTES - 1, _): accept;
            (_, IP_PROTOCOL_TCP): ports;
#ifdef WEIR_SCONE
            (_, IP_PROTOCOL_UDP): udp;
#else
            (_, IP_PROTOCOL_UDP): ports;
#endif
            (_, IP_PROTOCOL_DCCP): ports;
            (_, IP_PROTOCOL_SCTP): ports;
            (_, IP_PROTOCOL_UDPLITE): ports;
            default: accept;
        }
    }

    // Looked at, not taken out: they stay with the payload.
    state ports {
        meta.l3.ports = packet.lookahead<bit<32>>();
        transition accept;
    }

#ifdef WEIR_SCONE
    // Nothing is taken out of a datagram that does not begin with a whole SCONE packet: no error arises behind IP.
    state udp {
        meta.l3.ports = packet.lookahead<bit<32>>();
        meta.scone.fits = (bit<1>)(standard_metadata.packet_length >= meta.scone.at + SCONE_LEAST_BYTES);
        transition select(meta.scone.fits) {
            1: scone_head;
            default: accept;
        }
    }

    state scone_head {
        bit<112> head = packet.lookahead<bit<112>>();
        meta.scone.fits = (bit<1>)(head[47:47] == 1 && head[38:8] == SCONE_VERSION
            && (bit<32>)head[79:64] > (bit<32>)(SCONE_HEAD_BYTES + (bit<16>)head[7:0])
            && meta.scone.at + (bit<32>)head[79:64] <= standard_metadata.packet_length);
        transition select(meta.scone.fits) {
            1: scone;
            default: accept;
        }
    }

    state scone {
        bit<112> head = packet.lookahead<bit<112>>();
        packet.extract(hdr.scone, (bit<32>)head[7:0] << 3);
        bit<8> source_bytes = packet.lookahead<bit<8>>();
        meta.scone.fits = (bit<1>)((bit<32>)hdr.scone.udp_bytes
            > (bit<32>)(SCONE_HEAD_BYTES + 1) + (bit<32>)hdr.scone.destination_bytes + (bit<32>)source_bytes);
        transition accept;
    }
#endif

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
