// SPDX-License-Identifier: Apache-2.0
// The Ethernet header alone, without constants that a program may not need.
#ifndef WEIR_ETHERNET_P4
#define WEIR_ETHERNET_P4

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

#endif
