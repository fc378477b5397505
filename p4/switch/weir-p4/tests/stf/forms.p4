// SPDX-License-Identifier: Apache-2.0
// Forms that programs of others use: integers for types made by `type`, counters and meters made in a table's
// property, names and comments over several lines, types that controllers see as strings.
#include <core.p4>
#include <v1model.p4>
#define A_NAME_THAT_DOES_NOT_FIT_A_\
LINE 7 // a comment goes on behind a backslash \
#error not a directive

@p4runtime_translation("", string)
type bit<8> vrf_t;
@p4runtime_translation("", 32)
type bit<16> hop_t;
type hop_t alias_t;
type int<8> delta_t;

const vrf_t DEFAULT_VRF = 0;
const alias_t OTHER = 0x1234;
const delta_t BACK = -1;

struct route_t { vrf_t vrf; hop_t hop; }
header h_t { vrf_t vrf; hop_t hop; bit<8> last; }
struct headers_t { h_t h; }
struct meta_t { route_t r; }

hop_t next(in vrf_t vrf) {
    if (vrf == DEFAULT_VRF) { return 1; }
    return vrf == 2 ? (hop_t)0x22 : 3;
}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition select(h.h.vrf) { 9: other; default: accept; }
    }
    state other { h.h.hop = 0x99; transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(hop_t hop) { h.h.hop = hop; }
    action none() {}
    table by_vrf {
        key = { h.h.vrf: exact; }
        actions = { set; none; }
        const entries = { 4: set(0x44); 5: none(); }
        default_action = set(A_NAME_THAT_DOES_NOT_FIT_A_LINE);
        @name("hits") counters = direct_counter(CounterType.packets);
        meters = direct_meter<bit<2>>(MeterType.packets);
    }
    table by_hop {
        key = { h.h.hop: ternary; }
        actions = { none; }
        counters = direct_counter(CounterType.bytes);
    }
    apply {
        s.egress_spec = 1;
        m.r = { 6, 0x66 };
        if (h.h.hop == 0) {
            h.h.hop = next(h.h.vrf);
        } else if (h.h.hop != (hop_t)OTHER) {
            by_vrf.apply();
            by_hop.apply();
        } else {
            h.h.vrf = m.r.vrf;
            h.h.hop = m.r.hop;
            h.h.last = (bit<8>)(int<8>)BACK;
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
