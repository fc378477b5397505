# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of SCONE, tests/vectors/scone/advice.jsonl; `weir.vectors` writes them.

Deterministic: the committed file equals what this prints. The format is in tests/vectors/README.md.
"""

import json
from random import Random

from . import scone
from .scone import GREATEST, UNKNOWN, Rewrites


def packet(signal: int, destination: bytes = b"", source: bytes = b"", behind: bytes = b"\x40") -> bytes:
    """A UDP payload that begins with a SCONE packet."""
    version = scone.VERSIONS[signal & 1].to_bytes(4, "big")
    ids = b"".join(bytes([len(cid)]) + cid for cid in (destination, source))
    return bytes([0xC0 | signal >> 1]) + version + ids + behind


def payloads(random: Random) -> list[bytes]:
    """SCONE packets of all lengths, whole and cut short, and similar ones."""
    whole = [
        packet(signal, random.randbytes(destination), random.randbytes(source), random.randbytes(behind))
        for signal, destination, source, behind in (
            (0, 0, 0, 1), (1, 8, 0, 20), (38, 8, 0, 1200), (126, 20, 20, 40), (127, 16, 0, 1), (127, 255, 255, 3),
            (127, 8, 8, 0),
        )
    ]  # fmt: skip
    short = packet(UNKNOWN, b"12345678", b"abcd")
    twice = packet(UNKNOWN, b"12345678", b"", packet(UNKNOWN, b"12345678"))
    others = [
        bytes([0x40]) + short[1:],  # a short header
        bytes([0x80]) + short[1:],  # the reserved bit is free (RFC 9287)
        *(short[:at] + bytes([short[at] ^ 1]) + short[at + 1 :] for at in range(1, 5)),
        b"", twice,
    ]  # fmt: skip
    return whole + [short[:length] for length in range(len(short) + 1)] + others


def generate() -> str:
    """The text of the vector file."""
    random = Random(9287)
    lines: list[dict[str, object]] = []
    for signal in range(GREATEST + 1):
        rate = scone.rate_bit_s(signal)
        lines.append({"op": "rate", "in_signal": signal, "rate_bit_s": rate})
        lines += [{"op": "signal", "in_rate_bit_s": bit_s, "signal": scone.signal_of(bit_s)}
                  for bit_s in (rate - 1, rate, rate + 1)]  # fmt: skip
    for rate in (0, 2**64 - 1, *(random.getrandbits(random.randrange(1, 64)) for _ in range(100))):
        lines.append({"op": "signal", "in_rate_bit_s": rate, "signal": scone.signal_of(rate)})
    for payload in payloads(random):
        length = scone.packet_bytes(payload)
        line: dict[str, object] = {"op": "packet", "in_payload": payload[:600].hex(), "bytes": length}
        if length:
            line["signal"] = scone.signal_in(payload)
            line["advised"] = [scone.advised(payload, signal)[:2].hex() for signal in (0, 37, 38, 126)]
        lines.append(line)
    now_ns, rewrites = 0, Rewrites()
    for _ in range(200):
        now_ns += random.choice((0, 10**9, 5 * 10**9, 10**10, 7 * 10**10))
        allowed = rewrites.allow(now_ns)
        lines.append({"op": "rewrite", "in_now_ns": now_ns, "allowed": int(allowed), "next_ns": rewrites.next_ns})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
