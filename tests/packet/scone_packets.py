# SPDX-License-Identifier: Apache-2.0
"""UDP payloads that network elements with an advice of 8 Mbit/s rewrite, and those that they leave alone."""

from weir import scone
from weir.scone_vectors import packet

QUIC = b"\x41" + b"12345678" + bytes(range(40))
SCONE = packet(scone.UNKNOWN, b"12345678", b"", QUIC)
ADVICE = scone.signal_of(8_000_000)
PAYLOADS = {
    "unknown": SCONE,
    "higher": packet(ADVICE + 1, b"12345678", b"", QUIC),
    "long-header": packet(scone.UNKNOWN, b"12345678", b"abcd", b"\xc1\0\0\0\1" + QUIC),
    "long-ids": packet(126, bytes(255), bytes(255), QUIC),
    "no-ids": packet(scone.UNKNOWN, b"", b"", b"\x40"),
    "repeated": packet(scone.UNKNOWN, b"12345678", b"", SCONE),
    "reserved-bit": bytes([SCONE[0] & ~0x40]) + SCONE[1:],
}
SHORT = packet(scone.UNKNOWN, b"12345678", b"ab")
LEFT_ALONE = {
    "lower": packet(ADVICE - 1, b"12345678", b"", QUIC),
    "equal": packet(ADVICE, b"12345678", b"", QUIC),
    "least": packet(0, b"12345678", b"", QUIC),
    "quic": QUIC,
    "quic-long-header": b"\xc1\0\0\0\1" + QUIC,
    "short-header": bytes([SCONE[0] & ~0x80]) + SCONE[1:],
    "other-version": SCONE[:4] + b"\xfc" + SCONE[5:],
    "behind": QUIC + SCONE,
    **{f"cut-{length}": SHORT[:length] for length in range(len(SHORT))},
}
