# SPDX-License-Identifier: Apache-2.0
"""The golden model of throughput advice in SCONE packets (draft-ietf-scone-protocol-08): rates, the packet, the limit
on rewrites. Pure."""

from __future__ import annotations

from dataclasses import dataclass

VERSIONS = (0x6F7DC0FD, 0xEF7DC0FD)
"""Section 5: the most significant bit is the least significant bit of the signal."""
UNKNOWN = 127
GREATEST = 126
MANTISSA = tuple(round(10 ** (index / 20) * 10**9) for index in range(20))
"""10^(n/20) for n of 0 to 19, times 10^9."""
REWRITES_AT_ONCE = 4
REWRITES_EVERY_NS = 10 * 10**9
"""Draft, "Damage to Other Protocols": datagrams of a flow are rewritten a few times in a monitoring period of 67 s."""
LEAST_FLOW_BIT_S = 100_000
"""The rate of signal 0. A slower flow does not count as active."""


def rate_bit_s(signal: int) -> int:
    """Rate of a signal, 100 kbit/s * 10^(signal / 20), rounded down."""
    if not 0 <= signal <= GREATEST:
        raise ValueError(f"signal {signal}: must be 0 .. {GREATEST}")
    return int(MANTISSA[signal % 20] * 10 ** (signal // 20) // 10**4)


def signal_of(rate: int) -> int:
    """The greatest signal whose rate is at most `rate`; 0 for less than 100 kbit/s."""
    return max((signal for signal in range(GREATEST + 1) if rate_bit_s(signal) <= rate), default=0)


def packet_bytes(payload: bytes) -> int:
    """Length of the SCONE packet at the start of a UDP payload; 0 if there is none, or no other packet behind it."""
    if len(payload) < 6 or not payload[0] & 0x80 or int.from_bytes(payload[1:5], "big") not in VERSIONS:
        return 0
    source_at = 6 + payload[5]
    if source_at >= len(payload):
        return 0
    length = source_at + 1 + payload[source_at]
    return length if length < len(payload) else 0


def signal_in(payload: bytes) -> int:
    """Signal of the SCONE packet at the start of a payload."""
    return (payload[0] & 0x3F) << 1 | payload[1] >> 7


def advised(payload: bytes, signal: int) -> bytes:
    """A payload with advice: lower than that before, or as it was."""
    if not packet_bytes(payload) or signal >= signal_in(payload):
        return payload
    return bytes([payload[0] & 0xC0 | signal >> 1, payload[1] & 0x7F | (signal & 1) << 7]) + payload[2:]


def checksum(check: int, before: bytes, after: bytes) -> int:
    """UDP checksum of a datagram whose payload began with the 16-bit word `before` and begins with `after` (RFC 1624
    Eq. 3). 0 stays: there is none (RFC 768)."""
    if not check:
        return 0
    total = (~check & 0xFFFF) + (~int.from_bytes(before, "big") & 0xFFFF) + int.from_bytes(after, "big")
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


@dataclass
class Rewrites:
    """Limit on rewrites of one flow, or of flows that share it; zero at the start."""

    next_ns: int = 0

    def allow(self, now_ns: int) -> bool:
        """Whether a datagram may be rewritten now; it then counts."""
        start_ns = max(self.next_ns, now_ns)
        if start_ns - now_ns >= REWRITES_AT_ONCE * REWRITES_EVERY_NS:
            return False
        self.next_ns = start_ns + REWRITES_EVERY_NS
        return True


def active_bytes(share_shift: int) -> int:
    """Recent bytes, halved each 2^share_shift us, from which a flow counts as active."""
    return (LEAST_FLOW_BIT_S << share_shift) // 8_000_000


def share_bit_s(line_bit_s: int, flows: int) -> int:
    """Fair share of a line."""
    return line_bit_s // max(flows, 1)
