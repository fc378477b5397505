// SPDX-License-Identifier: Apache-2.0
// Longest prefix routing with TTL, checksum, IPv4 options, a counter and a register per port.
#include <core.p4>
#include <v1model.p4>

#define ETHERTYPE_IPV4 0x0800
#define DROP(sm) mark_to_drop(sm); count_drop()

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len;
    bit<16> id; bit<3> flags; bit<13> frag;
    bit<8> ttl; bit<8> proto; bit<16> sum; bit<32> src; bit<32> dst;
    varbit<320> options;
}
struct headers_t { ethernet_t eth; ipv4_t ip; }
struct meta_t { bit<8> seen; }

error { BadVersion }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { ETHERTYPE_IPV4: ip; default: accept; }
    }
    state ip {
        verify(b.lookahead<bit<4>>() == 4, error.BadVersion);
        bit<8> first = b.lookahead<bit<8>>();
        b.extract(h.ip, ((bit<32>)first[3:0] - 5) * 32);
        transition accept;
    }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid(),
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, h.ip.ttl, h.ip.proto,
              h.ip.src, h.ip.dst, h.ip.options }, h.ip.sum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    counter(4, CounterType.packets_and_bytes) drops;
    register<bit<32>>(4) last;
    action count_drop() { drops.count(0); }
    action drop() { mark_to_drop(sm); drops.count(1); }
    action forward(bit<9> port, bit<48> mac) {
        sm.egress_spec = port;
        h.eth.src = h.eth.dst;
        h.eth.dst = mac;
        h.ip.ttl = h.ip.ttl |-| 1;
        last.write((bit<32>)port, h.ip.dst);
    }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 16;
    }
    apply {
        if (!h.ip.isValid() || sm.checksum_error == 1 || sm.parser_error != error.NoError) {
            DROP(sm);
            return;
        }
        if (!routes.apply().hit) { exit; }
        if (h.ip.ttl == 0) { mark_to_drop(sm); }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid(),
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, h.ip.ttl, h.ip.proto,
              h.ip.src, h.ip.dst, h.ip.options }, h.ip.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
