// SPDX-License-Identifier: Apache-2.0
// A layer 3 switch with the PID-Delay law on every port (docs/design/law.md). Gains, target, interval and bounds are
// run-time data of the table `aqm`; nothing of them is here. p4/README.md lists tables, counters, registers and the digest.
#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/l3.p4"
#include "include/aqm_ingress.p4"
#include "include/aqm_egress.p4"

// instance_type of a copy made by a multicast group
const bit<32> REPLICATED = 5;

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    L3() l3;
    AqmIngress() aqm_ingress;

    apply {
        l3.apply(hdr, meta, standard_metadata);
        // Copies to many ports pass every queue unasked: they are few, and one verdict could not serve them all.
        if (standard_metadata.egress_spec != DROP_PORT) {
            aqm_ingress.apply(hdr, meta, standard_metadata);
        }
    }
}

control WeirEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(PORTS, CounterType.packets_and_bytes) forwarded;
    AqmEgress() aqm_egress;

    apply {
        aqm_egress.apply(meta, standard_metadata);
        if (standard_metadata.instance_type == REPLICATED
            && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata); // a flooded frame does not go back
        } else {
            forwarded.count((bit<32>)standard_metadata.egress_port);
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
