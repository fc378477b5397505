// SPDX-License-Identifier: Apache-2.0
// The program of forward.json: routes, counters, a register, a meter, a clone, checksums, a digest, a hash.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<3> flags;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> sum;
    bit<32> src;
    bit<32> dst;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct seen_t {
    bit<48> src;
    bit<9> port;
}

struct metadata {
    @field_list(1) bit<8> mark;
    bit<2> color;
    bit<32> flow;
    bit<32> cell;
    bool routed;
}

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind, s.ingress_port) {
            (0x800, 9w0 &&& 9w0x100): ipv4;
            default: accept;
        }
    }
    state ipv4 {
        b.extract(hdr.ipv4);
        verify(hdr.ipv4.ihl >= 5, error.HeaderTooShort);
        transition accept;
    }
}

control V(inout headers hdr, inout metadata m) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) ports;
    direct_counter(CounterType.packets) routes_counter;
    register<bit<32>>(8) cells;
    meter(4, MeterType.packets) rates;
    action drop() {
        mark_to_drop(s);
    }
    action route(bit<48> dst, bit<9> port) {
        routes_counter.count();
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = dst;
        s.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        m.routed = true;
    }
    table routes {
        key = {
            hdr.ipv4.dst: lpm;
        }
        actions = {
            route;
            drop;
            NoAction;
        }
        counters = routes_counter;
        default_action = drop();
        size = 64;
    }
    action mark(bit<8> value) {
        m.mark = value;
    }
    table marks {
        key = {
            hdr.ipv4.tos: ternary;
            hdr.ipv4.ttl: range;
        }
        actions = {
            mark;
            @defaultonly NoAction;
        }
        const entries = {
            (8w4 &&& 8w4, 2 .. 10): mark(7);
            (_, 3): mark(9);
        }
        const default_action = NoAction();
    }
    apply {
        ports.count((bit<32>) s.ingress_port);
        if (hdr.ipv4.isValid() && s.checksum_error == 0 && s.parser_error == error.NoError) {
            if (routes.apply().hit) {
                marks.apply();
            }
            hash(m.flow, HashAlgorithm.crc16, 32w0, { hdr.ipv4.src, hdr.ipv4.dst }, 32w8);
            cells.read(m.cell, m.flow);
            m.cell = m.cell + 1;
            cells.write(m.flow, m.cell);
            rates.execute_meter(32w1, m.color);
            if (m.mark == 7) {
                clone_preserving_field_list(CloneType.I2E, 5, 1);
                digest<seen_t>(1, { hdr.ethernet.src, s.ingress_port });
            }
        } else {
            drop();
        }
    }
}

control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 1) {
            hdr.ethernet.kind = 0x9000 | (bit<16>) m.mark;
        }
    }
}

control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out b, in headers hdr) {
    apply {
        b.emit(hdr.ethernet);
        b.emit(hdr.ipv4);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
