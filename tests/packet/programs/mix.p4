// SPDX-License-Identifier: Apache-2.0
// Much of v1model in one packet: its fields go through arithmetic, hashes, every kind of table, an action selector,
// registers, counters, a header stack, a varbit, clones and groups, and what came of each is written into it.
// For test_p4_differential.py, which asks two targets the same.
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHER_TYPE_MIX = 0x88b5;
const bit<16> ETHER_TYPE_MARKER = 0x88b6;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header mix_t {
    bit<32> a;
    bit<32> b;
    bit<16> c;
    bit<8> d;
    bit<8> e;
    bit<4> blocks; // of 4 bytes, in `tail`
    bit<4> group;
}

header tail_t {
    varbit<480> bytes;
}

header item_t {
    bit<1> more;
    bit<7> value;
}

header result_t {
    bit<32> sum;
    bit<32> saturated_sum;
    bit<32> saturated_difference;
    bit<32> product;
    bit<32> left;
    bit<32> right;
    bit<32> signed_right;
    bit<32> signed_saturated;
    bit<8> orders;
    bit<40> joined;
    bit<32> crc32;
    bit<16> crc16;
    bit<16> csum16;
    bit<16> xor16;
    bit<32> identity;
    bit<32> hash_in_range;
    bit<16> by_ternary;
    bit<16> by_range;
    bit<16> by_optional;
    bit<16> by_lpm;
    bit<16> by_selector;
    bit<16> by_switch;
    bit<32> remembered;
    bit<8> items;
    bit<8> parser_error;
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<16> rid;
    bit<32> instance_type;
    bit<32> packet_length;
}

struct headers_t {
    ethernet_t ethernet;
    result_t result;
    mix_t mix;
    item_t[4] items;
    tail_t tail;
}

struct metadata_t {
    bit<16> chosen;
}

parser MixParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_MIX: mix;
            default: accept;
        }
    }
    state mix {
        packet.extract(hdr.mix);
        transition select(hdr.mix.e, hdr.mix.d) {
            (0 .. 0x3f, _): tail;
            (_, 0x80 &&& 0xc0): accept;
            default: items;
        }
    }
    state items {
        packet.extract(hdr.items.next);
        transition select(hdr.items.last.more) {
            1: items;
            0: tail;
        }
    }
    state tail {
        packet.extract(hdr.tail, (bit<32>)hdr.mix.blocks << 5);
        transition accept;
    }
}

control MixVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MixIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(256, CounterType.packets_and_bytes) by_d;
    direct_counter(CounterType.packets_and_bytes) ternary_hits;
    register<bit<32>>(256) memory;
    action_selector(HashAlgorithm.crc16, 64, 10) profile;

    action choose(bit<16> value, bit<9> port) {
        meta.chosen = value;
        standard.egress_spec = port;
    }
    action pass() {
        meta.chosen = 0xffff;
    }
    action refuse() {
        mark_to_drop(standard);
    }

    table ternary_table {
        key = {
            hdr.mix.a: ternary;
            hdr.mix.c: ternary;
        }
        actions = {
            choose;
            pass;
            refuse;
        }
        default_action = pass();
        counters = ternary_hits;
    }
    table range_table {
        key = {
            hdr.mix.c: range;
            hdr.mix.d: exact;
        }
        actions = {
            choose;
            pass;
        }
        default_action = pass();
    }
    table optional_table {
        key = {
            hdr.mix.d: optional;
            hdr.mix.e: optional;
        }
        actions = {
            choose;
            pass;
        }
        default_action = pass();
    }
    table lpm_table {
        key = {
            hdr.mix.e: exact;
            hdr.mix.b: lpm;
        }
        actions = {
            choose;
            pass;
        }
        default_action = pass();
    }
    table selector_table {
        key = {
            hdr.mix.e: exact;
            hdr.mix.a: selector;
            hdr.mix.c: selector;
        }
        actions = {
            choose;
            pass;
        }
        implementation = profile;
    }

    table constant_table {
        key = {
            hdr.mix.d: ternary;
            hdr.mix.c: range;
        }
        actions = {
            choose;
            pass;
        }
        const entries = {
            (0x10 &&& 0xf0, 0 .. 0x7fff): choose(0x11, 2);
            (0x10 &&& 0x70, _): pass();
            (_, 0x8000 .. 0xffff): choose(0x12, 3);
        }
        default_action = pass();
    }

    apply {
        if (hdr.ethernet.ether_type == ETHER_TYPE_MARKER) {
            standard.egress_spec = (bit<9>)hdr.ethernet.dst[7:0];
            return;
        }
        if (!hdr.mix.isValid()) {
            mark_to_drop(standard);
            return;
        }
        bit<32> a = hdr.mix.a;
        bit<32> b = hdr.mix.b;
        hdr.result.setValid();
        hdr.result.sum = a + b;
        hdr.result.saturated_sum = a |+| b;
        hdr.result.saturated_difference = a |-| b;
        hdr.result.product = a * b;
        hdr.result.left = a << hdr.mix.d;
        hdr.result.right = a >> hdr.mix.d;
        hdr.result.signed_right = (bit<32>)((int<32>)a >> hdr.mix.d);
        hdr.result.signed_saturated = (bit<32>)((int<32>)a |-| (int<32>)b);
        hdr.result.orders = (a < b ? 4w1 : 4w0) ++ ((int<32>)a < (int<32>)b ? 4w1 : 4w0);
        hdr.result.joined = a[27:4] ++ ~hdr.mix.c;
        hash(hdr.result.crc32, HashAlgorithm.crc32, 32w0, { a, b, hdr.mix.c }, 64w0x100000000);
        hash(hdr.result.crc16, HashAlgorithm.crc16, 16w0, { a, hdr.mix.d }, 32w0x10000);
        hash(hdr.result.csum16, HashAlgorithm.csum16, 16w0, { a, b, hdr.mix.c }, 32w0x10000);
        hash(hdr.result.xor16, HashAlgorithm.xor16, 16w0, { a, b, hdr.mix.c }, 32w0x10000);
        hash(hdr.result.identity, HashAlgorithm.identity, 32w0, { b }, 64w0x100000000);
        hash(hdr.result.hash_in_range, HashAlgorithm.crc32, 32w100, { b, a }, 64w37);
        hdr.result.parser_error = standard.parser_error == error.NoError ? 8w0
            : (standard.parser_error == error.PacketTooShort ? 8w1 : 8w2);
        hdr.result.items = 0;
        if (hdr.items[0].isValid()) {
            hdr.result.items = hdr.result.items + 1 + ((bit<8>)hdr.items[0].value << 1);
        }
        if (hdr.items[3].isValid()) {
            hdr.result.items = hdr.result.items ^ 0x80;
            hdr.items.pop_front(2);
        } else if (hdr.items[1].isValid()) {
            hdr.items.push_front(1);
            hdr.items[0].setValid();
            hdr.items[0].more = 1;
            hdr.items[0].value = 0x55;
        }

        standard.egress_spec = 1;
        ternary_table.apply();
        hdr.result.by_ternary = meta.chosen;
        range_table.apply();
        hdr.result.by_range = meta.chosen;
        optional_table.apply();
        hdr.result.by_optional = meta.chosen;
        if (!lpm_table.apply().hit) {
            meta.chosen = 0xeeee;
        }
        hdr.result.by_lpm = meta.chosen;
        selector_table.apply();
        hdr.result.by_selector = meta.chosen;
        switch (constant_table.apply().action_run) {
            choose: { hdr.result.by_switch = 1; }
            default: { hdr.result.by_switch = 2; }
        }

        bit<32> index = (bit<32>)hdr.mix.d;
        by_d.count(index);
        memory.read(hdr.result.remembered, index);
        memory.write(index, hdr.result.remembered + a);

        if (hdr.mix.e[1:0] == 3) {
            clone(CloneType.I2E, 5);
        }
        if (hdr.mix.group > 8) {
            standard.mcast_grp = (bit<16>)hdr.mix.group;
        }
    }
}

control MixEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (!hdr.result.isValid() && hdr.mix.isValid()) {
            hdr.result.setValid(); // a clone is as it came
            hdr.result.sum = 0x636c6f6e;
        }
        if (hdr.result.isValid()) {
            hdr.result.ingress_port = (bit<16>)standard.ingress_port;
            hdr.result.egress_port = (bit<16>)standard.egress_port;
            hdr.result.rid = standard.egress_rid;
            hdr.result.instance_type = standard.instance_type;
            hdr.result.packet_length = standard.packet_length;
        }
    }
}

control MixCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MixDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MixParser(), MixVerify(), MixIngress(), MixEgress(), MixCompute(), MixDeparser()) main;
