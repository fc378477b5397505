// SPDX-License-Identifier: Apache-2.0
// Forwards by the last byte of the destination's MAC address, and writes into the frame how long it waited.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<40> prefix;
    bit<8> port;
    bit<48> src;
    bit<16> type;
}

header wait_t {
    bit<32> number;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
}

struct headers_t {
    ethernet_t ethernet;
    wait_t wait;
}

struct meta_t {
}

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.ethernet);
        p.extract(h.wait);
        transition accept;
    }
}

control Checked(inout headers_t h, inout meta_t m) {
    apply { }
}

control Forward(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = (bit<9>)h.ethernet.port;
    }
}

control Measure(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.wait.enq_qdepth = (bit<32>)s.enq_qdepth;
        h.wait.deq_qdepth = (bit<32>)s.deq_qdepth;
        h.wait.deq_timedelta = s.deq_timedelta;
    }
}

control Summed(inout headers_t h, inout meta_t m) {
    apply { }
}

control Deparse(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(Parse(), Checked(), Forward(), Measure(), Summed(), Deparse()) main;
