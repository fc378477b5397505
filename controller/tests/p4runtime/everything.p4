// SPDX-License-Identifier: Apache-2.0
// One of each thing that a P4Runtime client writes to and reads from, for tests of the client against switches.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> unused;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header body_t {
    bit<32> a;
    bit<16> b;
    bit<8> c;
    bit<8> d;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    body_t body;
}

struct metadata_t {
    bit<2> color;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) types;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }

    state from_cpu {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            types: body;
            0x1234: body; // where value sets can't be written
            default: accept;
        }
    }

    state body {
        packet.extract(hdr.body);
        transition accept;
    }
}

control TestChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.bytes) rates;
    counter(16, CounterType.packets) seen;
    meter(16, MeterType.packets) limits;
    register<bit<48>>(16) last;
    action_selector(HashAlgorithm.crc16, 32w64, 32w14) choices;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port) {
        rates.read(meta.color);
        standard_metadata.egress_spec = port;
    }

    action send(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action to_cpu(bit<7> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.reason = reason;
        standard_metadata.egress_spec = CPU_PORT;
    }

    table acl {
        key = {
            hdr.ethernet.ether_type: exact @name("type");
            hdr.body.a: ternary @name("a");
            hdr.body.b: range @name("b");
            hdr.body.c: optional @name("c");
        }
        actions = {
            drop;
            to_cpu;
        }
        size = 64;
    }

    table routes {
        key = {
            hdr.body.a: lpm @name("a");
        }
        actions = {
            drop;
            forward;
        }
        default_action = drop();
        counters = hits;
        meters = rates;
        size = 64;
    }

    table spread {
        key = {
            hdr.body.d: exact @name("d");
            hdr.ethernet.src: selector;
        }
        actions = {
            drop;
            send;
        }
        implementation = choices;
        size = 64;
    }

    apply {
        bool is_sent = hdr.packet_out.isValid() && hdr.packet_out.egress_port != 0;
        if (is_sent) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
        }
        hdr.packet_out.setInvalid();
        if (!is_sent) { // from the CPU with port 0: as if it had come in at the CPU's port
            bit<32> cell = (bit<32>)standard_metadata.ingress_port & 15;
            seen.count(cell);
            limits.execute_meter(cell, meta.color);
            last.write(cell, hdr.ethernet.src);
            if (hdr.body.isValid()) {
                routes.apply();
                spread.apply();
            }
            acl.apply();
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
    }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.body);
    }
}

V1Switch(TestParser(), TestChecksum(), TestIngress(), TestEgress(), TestChecksum(), TestDeparser()) main;
