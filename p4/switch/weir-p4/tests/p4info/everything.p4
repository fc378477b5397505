// SPDX-License-Identifier: Apache-2.0
// One of each kind of object a controller can know.
#include <v1model.p4>

@p4runtime_translation("example.org/port", bit<32>)
type bit<9> port_t;
@p4runtime_translation("example.org/name", string)
type bit<10> label_t;
type bit<16> vlan_t;
enum bit<8> Proto { tcp = 6, udp = 17 }

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

@controller_header("packet_in")
header packet_in_t {
    @id(3) bit<9> ingress_port;
    @hidden bit<7> pad;
    @id(1) vlan_t vlan;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

struct seen_t {
    bit<48> src;
    port_t port;
    bool first;
    Proto proto;
}

struct set_t {
    bit<16> type;
    @match(ternary) bit<8> tag;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
}

struct meta_t {
    port_t port;
    label_t label;
    @name("lane") bit<3> queue;
    bit<2> color;
    bit<48> old;
}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    @brief("frames for the processor") value_set<set_t>(4) special;
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.type, h.ethernet.dst[7:0]) {
            special: accept;
            default: accept;
        }
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    @max_group_size(8) action_selector(HashAlgorithm.crc16, 64, 16) paths;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.bytes) limit;
    @id(0x77) counter(16, CounterType.packets) ports;
    meter(8, MeterType.packets) rate;
    @brief("last address") @description("per port") register<bit<48>>(32) last;

    @brief("sends it out") action forward(@id(7) port_t port, @name("via") label_t label, bool mark) {
        s.egress_spec = (bit<9>)port;
        m.label = label;
        m.color[0:0] = (bit<1>)mark;
    }
    action drop() {
        mark_to_drop(s);
    }
    action unused() {}
    action learn() {
        digest<seen_t>(1, { h.ethernet.src, m.port, true, Proto.tcp });
    }
    @my_mark(1, "two") table route {
        key = {
            h.ethernet.dst: ternary @brief("where to");
            m.port: exact;
            m.queue: range;
            h.ethernet.isValid(): exact;
            h.ethernet.src: selector;
        }
        actions = { forward; drop; @tableonly learn; }
        default_action = forward((port_t)1, (label_t)0x3f, false);
        implementation = paths;
        counters = hits;
        size = 512;
        support_timeout = true;
    }
    @info[owner = "lab", limit = 2 * 8]
    table fixed {
        key = {
            h.ethernet.type: lpm @name("kind");
            m.label: optional;
        }
        actions = { drop; NoAction; }
        const default_action = drop();
        const entries = { (0x800 &&& 0xff00, _): NoAction(); }
        meters = limit;
    }
    @hidden table secret {
        actions = { drop; }
    }
    table in_place {
        key = { h.ethernet.type: exact; }
        actions = { NoAction; }
        @name("made_in_place") counters = direct_counter(CounterType.packets_and_bytes);
        meters = direct_meter<bit<2>>(MeterType.bytes);
    }
    table lonely {
        actions = { unused; }
    }
    apply {
        last.read(m.old, (bit<32>)s.ingress_port);
        ports.count((bit<32>)s.ingress_port);
        rate.execute_meter(0, m.color);
        route.apply();
        fixed.apply();
        in_place.apply();
        secret.apply();
        if (false) {
            lonely.apply();
        }
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
        b.emit(h.ethernet);
    }
}

@pkginfo(name = "everything", version = "1")
@pkginfo(organization = "example.org")
@brief("one of each")
V1Switch(P(), V(), I(), E(), C(), D()) main;
