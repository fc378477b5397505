// SPDX-License-Identifier: Apache-2.0
#include "headers.p4"

const bit<16> ALL_PORTS = 1;
const bit<32> MONITOR = 5;
const bit<32> INGRESS_CLONE = 1;

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action flood() {
        standard_metadata.mcast_grp = ALL_PORTS;
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table stations {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = {
            forward;
            flood;
        }
        default_action = flood();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            clone(CloneType.I2E, MONITOR);
        }
        stations.apply();
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        bool is_clone = standard_metadata.instance_type == INGRESS_CLONE;
        if (!is_clone && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
