// SPDX-License-Identifier: Apache-2.0
// The program of labels.json: a stack, a union, an action selector, conditions in actions, wide and signed arithmetic.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header label_t {
    bit<20> label;
    bit<3> tc;
    bit<1> bottom;
    bit<8> ttl;
}

header short_t {
    bit<8> a;
}

header long_t {
    bit<16> a;
    int<16> b;
}

header options_t {
    bit<8> length;
    varbit<64> data;
}

header_union body_t {
    short_t short;
    long_t long;
}

struct headers {
    ethernet_t ethernet;
    label_t[3] labels;
    body_t body;
    options_t options;
}

struct metadata {
    bit<8> depth;
    bit<128> wide;
}

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            0x8847: label;
            default: accept;
        }
    }
    state label {
        b.extract(hdr.labels.next);
        m.depth = m.depth + 1;
        transition select(hdr.labels.last.bottom) {
            0: label;
            1: body;
        }
    }
    state body {
        transition select(b.lookahead<bit<8>>()) {
            1: short;
            2: long;
            3: options;
            default: accept;
        }
    }
    state short {
        b.extract(hdr.body.short);
        transition accept;
    }
    state long {
        b.extract(hdr.body.long);
        transition accept;
    }
    state options {
        bit<16> next = b.lookahead<bit<16>>();
        b.extract(hdr.options, ((bit<32>) next[3:0]) << 3);
        transition accept;
    }
}

control V(inout headers hdr, inout metadata m) {
    apply {
    }
}

control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action_selector(HashAlgorithm.crc32, 16, 16) paths;
    action send(bit<9> port) {
        s.egress_spec = port;
    }
    action swap(bit<9> port, bit<20> label) {
        s.egress_spec = port;
        hdr.labels[0].label = label;
        if (hdr.labels[0].ttl > 1) {
            hdr.labels[0].ttl = hdr.labels[0].ttl - 1;
        } else {
            mark_to_drop(s);
        }
    }
    table next {
        key = {
            hdr.labels[0].label: exact;
            hdr.ethernet.src: selector;
            m.depth: selector;
        }
        actions = {
            send;
            swap;
            NoAction;
        }
        implementation = paths;
        default_action = NoAction();
    }
    action pop() {
        hdr.labels.pop_front(1);
    }
    action push(bit<20> label) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = 64;
    }
    table change {
        key = {
            hdr.labels[0].tc: exact;
        }
        actions = {
            pop;
            push;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
    }
    apply {
        if (hdr.labels[0].isValid()) {
            next.apply();
            switch (change.apply().action_run) {
                pop: {
                    hdr.ethernet.dst = 1;
                }
                push: {
                    hdr.ethernet.dst = 2;
                }
                default: {
                    hdr.ethernet.dst = 3;
                }
            }
            if (hdr.body.long.isValid()) {
                m.wide = ((bit<128>) hdr.body.long.a) << 100;
                hdr.body.long.a = m.wide[115:100] |+| 0xf000;
                hdr.body.long.b = hdr.body.long.b - 5;
                if (hdr.body.long.b < -100) {
                    hdr.body.short.setValid();
                    hdr.body.short.a = 0xee;
                }
            }
        }
    }
}

control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    apply {
    }
}

control C(inout headers hdr, inout metadata m) {
    apply {
    }
}

control D(packet_out b, in headers hdr) {
    apply {
        b.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
