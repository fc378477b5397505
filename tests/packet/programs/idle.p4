// SPDX-License-Identifier: Apache-2.0
// A table of MAC addresses whose entries age, for test_p4_idle.py.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct meta_t {}

parser IdleParser(packet_in b, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        b.extract(hdr.ethernet);
        transition accept;
    }
}

control IdleVerify(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control IdleIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<9> port) {
        std.egress_spec = port;
    }
    table mac {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = {
            forward;
            drop;
        }
        default_action = drop();
        size = 1024;
        support_timeout = true;
    }
    apply {
        mac.apply();
    }
}

control IdleEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {}
}

control IdleCompute(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control IdleDeparser(packet_out b, in headers_t hdr) {
    apply {
        b.emit(hdr.ethernet);
    }
}

V1Switch(IdleParser(), IdleVerify(), IdleIngress(), IdleEgress(), IdleCompute(), IdleDeparser()) main;
