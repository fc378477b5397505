// SPDX-License-Identifier: Apache-2.0
// A layer 3 switch with the PID-Delay law on every port (docs/design/law.md). Gains, target, interval and bounds are
// written at run time, to the table `aqm`; none is here. p4/README.md lists tables, counters, registers and the digest.
#include <core.p4>
#include <v1model.p4>

#include "../include/headers.p4"
#include "../include/l3_types.p4"
#include "../include/aqm_types.p4"
#ifdef WEIR_SCONE
#include "../include/scone_types.p4"
#endif

struct headers_t {
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
    icmpv6_t icmpv6;
#ifdef WEIR_SCONE
    scone_t scone;
#endif
}

struct metadata_t {
    l3_metadata_t l3;
    aqm_metadata_t aqm;
#ifdef WEIR_SCONE
    scone_metadata_t scone;
#endif
}

#include "../include/parser.p4"
#include "../include/l3.p4"
#include "../include/ip_law.p4"
#include "../include/aqm_ingress.p4"
#include "../include/aqm_egress.p4"
#ifdef WEIR_L4S
#include "../include/bands.p4"
#endif
#ifdef WEIR_SCONE
#include "../include/scone.p4"
#endif

// instance_type of a copy made by a multicast group
const bit<32> REPLICATED = 5;

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    L3() l3;
    IpFlow() ip_flow;
    AqmIngress() aqm_ingress;
    MarkCe() mark_ce;
#ifdef WEIR_L4S
    BandIngress() bands;
#endif
#ifdef WEIR_SCONE
    SconeAdvice() scone_advice;
#endif

    apply {
        l3.apply(hdr, meta.l3, standard_metadata);
        // The AQM does not act on the copies of a multicast group: they are few, and one verdict cannot serve several
        // queues.
        if (standard_metadata.egress_spec != DROP_PORT) {
            ip_flow.apply(hdr, meta, standard_metadata); // the law may drop or mark IP packets only
#ifdef WEIR_L4S
            // ECT(1) and CE, by the bit that they share.
            bands.apply((hdr.ipv4.isValid() && hdr.ipv4.ecn[0:0] == 1) || (hdr.ipv6.isValid() && hdr.ipv6.ecn[0:0] == 1),
                meta.aqm, standard_metadata);
#endif
            aqm_ingress.apply(meta.aqm, standard_metadata);
            if (meta.aqm.mark == 1) {
                mark_ce.apply(hdr, meta);
            }
#ifdef WEIR_SCONE
            if (standard_metadata.egress_spec != DROP_PORT) {
                scone_advice.apply(hdr.scone, meta.scone, meta.aqm.flow, standard_metadata);
            }
#endif
        }
    }
}

control WeirEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) forwarded;
    AqmEgress(forwarded) aqm_egress;
    OtherEgress() other_egress;
#ifdef WEIR_L4S
    BandEgress() bands;
    MarkCe() mark_ce;
#endif

    apply {
        if (meta.aqm.mode != aqm_mode_t.NOT_ASKED) {
            aqm_egress.apply(meta.aqm, standard_metadata);
#ifdef WEIR_L4S
            bool mark;
            bands.apply(mark, meta.aqm, standard_metadata);
            if (mark) {
                mark_ce.apply(hdr, meta);
            }
#endif
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

V1Switch(
    WeirParser(),
    WeirVerifyChecksum(),
    WeirIngress(),
    WeirEgress(),
    WeirComputeChecksum(),
    WeirDeparser()) main;
