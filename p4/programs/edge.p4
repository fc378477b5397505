// SPDX-License-Identifier: Apache-2.0
// A switch at the edge: routes IP as pid_delay.p4 does and forwards by name as icn.p4 does, with one PID-Delay law on
// each port for both. p4/README.md lists tables, counters, registers and the digest.
#define WEIR_NAMES
#include <core.p4>
#include <v1model.p4>

#include "../include/headers.p4"
#include "../include/l3_types.p4"
#include "../include/aqm_types.p4"
#include "../include/icn_types.p4"

struct headers_t {
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
    icmpv6_t icmpv6;
    names_t names;
}

struct metadata_t {
    l3_metadata_t l3;
    names_metadata_t names;
    aqm_metadata_t aqm;
}

#include "../include/parser.p4"
#include "../include/l3.p4"
#include "../include/ip_law.p4"
#include "../include/icn_ingress.p4"
#include "../include/icn_egress.p4"
#include "../include/icn_law.p4"
#include "../include/aqm_ingress.p4"
#include "../include/aqm_egress.p4"

// instance_type of a copy made by a multicast group
const bit<32> REPLICATED = 5;

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    L3() l3;
    Names() forward_name;
    IpFlow() ip_flow;
    NameFlow() name_flow;
    AqmIngress() aqm_ingress;
    MarkCe() mark_ce;
    MarkNameCe() mark_name_ce;

    apply {
        bool is_name = hdr.ethernet.isValid() && hdr.ethernet.ether_type == ETHER_TYPE_NAMES;
        if (is_name) {
            forward_name.apply(hdr, meta.names, standard_metadata);
        } else {
            l3.apply(hdr, meta.l3, standard_metadata);
        }
        // The AQM does not act on the copies of a multicast group: one verdict cannot serve several queues. Those of a
        // name come back one by one.
        if (standard_metadata.egress_spec != DROP_PORT && standard_metadata.mcast_grp == 0) {
            if (is_name) {
                name_flow.apply(hdr, meta.aqm, standard_metadata);
            } else {
                ip_flow.apply(hdr, meta, standard_metadata);
            }
            aqm_ingress.apply(meta.aqm, standard_metadata);
            if (meta.aqm.mark == 1) {
                if (is_name) {
                    mark_name_ce.apply(hdr);
                } else {
                    mark_ce.apply(hdr, meta);
                }
            }
        }
    }
}

control WeirEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) forwarded;
    AqmEgress(forwarded) aqm_egress;
    OtherEgress() other_egress;
    NamesEgress() names_egress;

    apply {
        if (standard_metadata.egress_port == AGAIN_PORT && meta.names.stage != STAGE_NONE) {
            names_egress.apply(hdr, meta.names, standard_metadata);
        } else {
            if (meta.aqm.mode != aqm_mode_t.NOT_ASKED) {
                aqm_egress.apply(meta.aqm, standard_metadata);
            } else {
                other_egress.apply(meta.aqm, standard_metadata);
                if (standard_metadata.instance_type == REPLICATED
                    && standard_metadata.egress_port == standard_metadata.ingress_port) {
                    mark_to_drop(standard_metadata); // a flooded frame does not go back
                } else {
                    forwarded.count(meta.aqm.port);
                }
            }
        }
    }
}

V1Switch(
    WeirParser(),
    WeirVerifyChecksum(),
    WeirIngress(),
    WeirEgress(),
    WeirComputeChecksum(),
    WeirDeparser()) main;
