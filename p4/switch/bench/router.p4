// SPDX-License-Identifier: Apache-2.0
// A small router for the speed benchmark: longest prefix, next hop, TTL, checksum. Its routes are constant, so that
// every target runs the same without a controller.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len;
    bit<16> id; bit<3> flags; bit<13> frag;
    bit<8> ttl; bit<8> proto; bit<16> sum; bit<32> src; bit<32> dst;
}
struct headers_t { ethernet_t eth; ipv4_t ip; }
struct meta_t { bit<16> hop; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.kind) { 0x0800: ip; default: accept; }
    }
    state ip { b.extract(h.ip); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid(),
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, h.ip.ttl, h.ip.proto,
              h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action to(bit<16> hop) { m.hop = hop; }
    action send(bit<9> port, bit<48> src, bit<48> dst) {
        sm.egress_spec = port;
        h.eth.src = src;
        h.eth.dst = dst;
    }
    table routes {
        key = { h.ip.dst: lpm; }
        actions = { to; drop; }
        default_action = drop();
        const entries = {
            0x0a000000 &&& 0xff000000: to(1);
            0x0a000100 &&& 0xffffff00: to(2);
            0x0a000200 &&& 0xffffff00: to(1);
            0xc0a80000 &&& 0xffff0000: to(1);
        }
    }
    table next_hops {
        key = { m.hop: exact; }
        actions = { send; drop; }
        default_action = drop();
        const entries = {
            1: send(1, 0x020000000001, 0x0200000000a1);
            2: send(2, 0x020000000002, 0x0200000000a2);
        }
    }
    apply {
        if (!h.ip.isValid() || sm.checksum_error == 1 || h.ip.ttl <= 1) {
            drop();
        } else if (routes.apply().hit) {
            next_hops.apply();
            h.ip.ttl = h.ip.ttl - 1;
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid(),
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, h.ip.ttl, h.ip.proto,
              h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
