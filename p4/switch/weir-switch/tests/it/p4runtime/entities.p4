// SPDX-License-Identifier: Apache-2.0
// One of each thing that a controller reads or writes; port 255 is the CPU's.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct meta_t {
    bit<8> color;
    bit<1> special;
}

struct seen_t {
    bit<48> src;
    bit<9> port;
}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(2) specials;
    state start {
        transition select(s.ingress_port) {
            255: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        b.extract(h.packet_out);
        transition ethernet;
    }
    state ethernet {
        b.extract(h.ethernet);
        transition select(h.ethernet.type) {
            specials: special;
            default: accept;
        }
    }
    state special {
        m.special = 1;
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) route_hits;
    direct_meter<bit<8>>(MeterType.packets) acl_limit;
    counter(4, CounterType.packets_and_bytes) ports;
    meter(4, MeterType.bytes) rates;
    register<bit<32>>(1000) words;
    register<int<16>>(2) signed;
    @max_group_size(8) action_selector(HashAlgorithm.crc16, 8, 16) paths;
    action_profile(4) hops;

    action drop() {
        mark_to_drop(s);
    }
    action forward(bit<9> port) {
        s.egress_spec = port;
    }
    action copy(bit<16> group) {
        s.mcast_grp = group;
    }
    action to_cpu(bit<7> reason) {
        s.egress_spec = 255;
        h.packet_in.setValid();
        h.packet_in.ingress_port = s.ingress_port;
        h.packet_in.reason = reason;
    }
    action learn() {
        digest<seen_t>(1, { h.ethernet.src, s.ingress_port });
    }
    action mirror() {
        clone(CloneType.I2E, 7);
    }
    action metered() {
        acl_limit.read(m.color);
    }
    table route {
        key = { h.ethernet.dst: lpm; }
        actions = { forward; copy; to_cpu; learn; mirror; drop; @defaultonly NoAction; }
        default_action = drop();
        counters = route_hits;
        size = 16384;
    }
    table acl {
        key = {
            h.ethernet.src: ternary;
            h.ethernet.type: range;
            s.ingress_port: optional;
        }
        actions = { metered; drop; @tableonly learn; NoAction; }
        meters = acl_limit;
        size = 3;
    }
    table ports_in {
        key = { s.ingress_port: exact; h.ethernet.type: exact; }
        actions = { NoAction; drop; }
        const default_action = NoAction();
    }
    table balance {
        key = { h.ethernet.type: exact; h.ethernet.src: selector; }
        actions = { forward; drop; NoAction; }
        implementation = paths;
    }
    table hop {
        key = { h.ethernet.type: exact; }
        actions = { forward; drop; NoAction; }
        implementation = hops;
    }
    table fixed {
        key = { h.ethernet.type: exact; }
        actions = { NoAction; drop; }
        const entries = { 0x88cc: drop(); }
    }
    table nokey {
        actions = { NoAction; drop; }
        default_action = NoAction();
    }
    apply {
        if (h.packet_out.isValid()) {
            s.egress_spec = h.packet_out.egress_port;
            h.packet_out.setInvalid();
            return;
        }
        ports.count((bit<32>)s.ingress_port);
        rates.execute_meter<bit<8>>((bit<32>)s.ingress_port, m.color);
        bit<32> n;
        words.read(n, (bit<32>)s.ingress_port);
        words.write((bit<32>)s.ingress_port, n + 1);
        int<16> i;
        signed.read(i, 0);
        signed.write(0, i - 1);
        route.apply();
        if (m.special == 1) {
            s.egress_spec = 9;
        }
        acl.apply();
        ports_in.apply();
        balance.apply();
        hop.apply();
        fixed.apply();
        nokey.apply();
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control C(inout headers_t h, inout meta_t m) {
    apply {}
}

control D(packet_out b, in headers_t h) {
    apply {
        b.emit(h.packet_in);
        b.emit(h.ethernet);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
