// SPDX-License-Identifier: Apache-2.0
// One table with a key of each kind that takes more than a value.
#include <v1model.p4>

header h_t {
    bit<8> port;
    bit<8> tag;
    bit<8> kind;
    bit<8> result;
}

struct headers_t {
    h_t h;
}

struct meta_t {}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action mark(bit<8> value) {
        h.h.result = value;
        s.egress_spec = 1;
    }
    action drop() {
        mark_to_drop(s);
    }
    table t {
        key = {
            h.h.port: range;
            h.h.tag: ternary;
            h.h.kind: optional;
        }
        actions = { mark; drop; }
        default_action = drop();
    }
    apply {
        t.apply();
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
        b.emit(h.h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
