// SPDX-License-Identifier: Apache-2.0
// A switch that forwards by name (docs/design/icn.md), with the PID-Delay law on every port. Frames of other EtherTypes
// are dropped and counted; edge.p4 routes IP beside names. p4/README.md lists tables, counters and registers.
#include <core.p4>
#include <v1model.p4>

#include "../include/ethernet.p4"
#include "../include/aqm_types.p4"
#include "../include/icn_types.p4"

struct headers_t {
    ethernet_t ethernet;
    names_t names;
}

struct metadata_t {
    names_metadata_t names;
    aqm_metadata_t aqm;
}

#include "../include/aqm_ingress.p4"
#include "../include/aqm_egress.p4"
#include "../include/icn_ingress.p4"
#include "../include/icn_egress.p4"
#include "../include/icn_law.p4"

parser WeirParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_NAMES: name;
            default: accept;
        }
    }

    state name {
        packet.extract(hdr.names);
        transition accept;
    }
}

control WeirVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(1, CounterType.packets_and_bytes) other_frames;
    Names() forward_name;
    NameFlow() name_flow;
    AqmIngress() aqm_ingress;
    MarkNameCe() mark_name_ce;

    apply {
        if (hdr.ethernet.isValid() && hdr.ethernet.ether_type == ETHER_TYPE_NAMES) {
            forward_name.apply(hdr, meta.names, standard_metadata);
        } else {
            other_frames.count(0);
            mark_to_drop(standard_metadata);
        }
        if (standard_metadata.egress_spec != DROP_PORT && standard_metadata.mcast_grp == 0) {
            name_flow.apply(hdr, meta.aqm, standard_metadata);
            aqm_ingress.apply(meta.aqm, standard_metadata);
            if (meta.aqm.mark == 1) {
                mark_name_ce.apply(hdr);
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
                forwarded.count(meta.aqm.port);
            }
        }
    }
}

control WeirComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control WeirDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(
    WeirParser(),
    WeirVerifyChecksum(),
    WeirIngress(),
    WeirEgress(),
    WeirComputeChecksum(),
    WeirDeparser()) main;
