// SPDX-License-Identifier: Apache-2.0
header_type ethernet_t { fields { dstAddr : 48; srcAddr : 48; etherType : 16; } }
header ethernet_t ethernet;
parser start { extract(ethernet); return ingress; }
action fwd(port) { modify_field(standard_metadata.egress_spec, port); }
table t { reads { ethernet.dstAddr : exact; } actions { fwd; } }
control ingress { apply(t); }
