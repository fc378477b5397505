// SPDX-License-Identifier: Apache-2.0
// UDP and a SCONE packet of QUIC behind it (draft-ietf-scone-protocol-08, "SCONE Packet"), for programs that define
// WEIR_SCONE. A program's `headers_t` has `scone_t` as the member `scone`, its `metadata_t` has `scone_metadata_t`.
#ifndef WEIR_SCONE_TYPES_P4
#define WEIR_SCONE_TYPES_P4

// Either version without its most significant bit, which is the least significant bit of the signal.
const bit<31> SCONE_VERSION = 0x6f7dc0fd;
// UDP header and SCONE packet up to the length of the destination connection ID.
const bit<16> SCONE_HEAD_BYTES = 14;
// The least length: that head, the length of the source connection ID, and a byte of another packet.
const bit<32> SCONE_LEAST_BYTES = 16;

header scone_t {
    bit<32> ports;
    bit<16> udp_bytes;
    bit<16> checksum;
    bit<1> long_header;
    bit<1> reserved;
    bit<6> signal_high;
    bit<1> signal_low;
    bit<31> version;
    bit<8> destination_bytes;
    varbit<2040> destination;
}

struct scone_metadata_t {
    // Offset of the header behind Ethernet and tag, then of the UDP header.
    bit<32> at;
    // The frame is long enough; then: it has a SCONE packet, and another packet is behind that.
    bit<1> fits;
}

#endif
