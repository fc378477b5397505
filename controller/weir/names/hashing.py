# SPDX-License-Identifier: Apache-2.0
"""HalfSipHash-1-3: which set of a switch's table a prefix, a name and a segment are in."""

_MASK = 0xFFFFFFFF


def half_sip_hash(key: int, message: bytes) -> int:
    """32 bits of a message under a key of 64 bits (Aumasson and Bernstein, with one round a word and three at last)."""
    v = [key & _MASK, key >> 32, 0x6C796765 ^ key & _MASK, 0x74656462 ^ key >> 32]
    whole = len(message) & ~3
    last = (len(message) & 0xFF) << 24 | int.from_bytes(message[whole:], "little")
    for word in [*(int.from_bytes(message[i : i + 4], "little") for i in range(0, whole, 4)), last]:
        v[3] ^= word
        _round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        _round(v)
    return v[1] ^ v[3]


def pit_set(key: int, prefix: int, name: int, segment: int, sets: int) -> int:
    """The number of the set; `sets` is a power of two."""
    message = prefix.to_bytes(8, "little") + name.to_bytes(8, "little") + segment.to_bytes(4, "little")
    return half_sip_hash(key, message) & sets - 1


def _round(v: list[int]) -> None:
    v[0] = v[0] + v[1] & _MASK
    v[1] = _left(v[1], 5) ^ v[0]
    v[0] = _left(v[0], 16)
    v[2] = v[2] + v[3] & _MASK
    v[3] = _left(v[3], 8) ^ v[2]
    v[0] = v[0] + v[3] & _MASK
    v[3] = _left(v[3], 7) ^ v[0]
    v[2] = v[2] + v[1] & _MASK
    v[1] = _left(v[1], 13) ^ v[2]
    v[2] = _left(v[2], 16)


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
