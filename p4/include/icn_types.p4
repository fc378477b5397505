// SPDX-License-Identifier: Apache-2.0
// Packets that are forwarded by name (docs/design/icn-formats.md, "The packet"), and their metadata in a switch. A
// program's `headers_t` has `names_t` as the member `names`, its `metadata_t` has `names_metadata_t` as `names`.
#ifndef WEIR_ICN_TYPES_P4
#define WEIR_ICN_TYPES_P4

const bit<16> ETHER_TYPE_NAMES = 0x88b5; // IEEE 802: local experimental 1

const bit<4> NAMES_VERSION = 1;
const bit<32> NAMES_BYTES = 32;
// Bytes of the Ethernet header in front.
const bit<32> NAMES_OFFSET_BYTES = 14;
// Of a payload, for an MTU of 1500.
const bit<16> NAMES_PAYLOAD_MOST_BYTES = 1468;

const bit<4> KIND_INTEREST = 1;
const bit<4> KIND_DATA = 2;
const bit<4> KIND_NACK = 3;

const bit<8> NAMES_FLAG_ECT = 1;
const bit<8> NAMES_FLAG_CE = 2;

const bit<8> NACK_NO_ROUTE = 1;
const bit<8> NACK_FULL = 2;
const bit<8> NACK_QUOTA = 3;
const bit<8> NACK_HOP_LIMIT = 64;
// Where a switch's own Nacks come from: with the asker's address a bridge would take the asker to be here.
const bit<48> NACK_SOURCE = 0x025745495201;
// An Interest with this hop limit gets to where it is going: no other of a larger one need be forwarded.
const bit<8> HOP_LIMIT_ENOUGH = 32;

// Names are forwarded on ports below this.
const bit<9> NAMED_PORTS = 32;
// Copies come back into the switch by this port, which has no interface.
const bit<9> AGAIN_PORT = 510;
// The clone session whose only port is AGAIN_PORT.
const bit<32> AGAIN_SESSION = 510;
// For eight ports at a time: GROUPS + v has a copy for each bit of v (instance 1 + bit); GROUPS_GO_ON + v has one more.
const bit<16> GROUPS = 0x4000;
const bit<16> GROUPS_GO_ON = 0x4100;
const bit<16> INSTANCE_GOES_ON = 9;

// Why a packet goes through the switch again.
const bit<3> STAGE_NONE = 0;
// On its way to AGAIN_PORT.
const bit<3> STAGE_TURNS = 1;
// An Interest for the next of its holes.
const bit<3> STAGE_HOLES = 2;
// A copy for one port.
const bit<3> STAGE_COPY = 3;
// Remaining ports.
const bit<3> STAGE_REST = 4;

header names_t {
    bit<4> version;
    bit<4> kind;
    bit<8> flags;
    bit<8> hop_limit;
    bit<8> code;
    bit<64> prefix;
    bit<64> name;
    bit<32> segment;
    bit<16> holes;
    bit<16> lifetime;
    bit<16> payload_bytes;
    bit<16> epoch;
}

// List 1 goes with clones and recirculated packets.
struct names_metadata_t {
    @field_list(1)
    bit<3> stage;
    // HOLES: the port of arrival. COPY: the port to go to.
    @field_list(1)
    bit<9> port;
    // REST: the ports left, and which port the lowest bit stands for.
    @field_list(1)
    bit<32> ports;
    @field_list(1)
    bit<9> base;
    // When the packet arrived: BMv2 gives a recirculated packet no time.
    @field_list(1)
    bit<48> now_us;
}

#endif
