# SPDX-License-Identifier: Apache-2.0
"""The C header of SCONE against its vectors, and against the golden model for any input."""

import ctypes
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_build import HERE

from weir import scone, scone_vectors

VECTORS = HERE.parents[2] / "tests" / "vectors" / "scone" / "advice.jsonl"
U32, U64 = ctypes.c_uint32, ctypes.c_uint64


class Library:
    """`law_shared.c`, built."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        self.rate, self.signal_for = library.scone_rate_bit_s, library.scone_signal_for
        self.rate.argtypes, self.rate.restype = [U32], U64
        self.signal_for.argtypes, self.signal_for.restype = [U64], U32
        self.may_rewrite = library.scone_may_rewrite
        self.may_rewrite.argtypes = [ctypes.POINTER(U64), U64]
        self._packet, self._put = library.scone_packet, library.scone_put
        self._packet.argtypes = [ctypes.c_char_p, U32, ctypes.POINTER(U32)]

    def packet(self, payload: bytes) -> tuple[int, int]:
        """Length of the SCONE packet, and its signal."""
        signal = U32()
        return self._packet(payload, len(payload), ctypes.byref(signal)), signal.value

    def put(self, payload: bytes, signal: int) -> bytes:
        buffer = ctypes.create_string_buffer(payload, len(payload))
        self._put(buffer, signal)
        return buffer.raw


@pytest.fixture(scope="session")
def library(law_library: Path) -> Library:
    return Library(law_library)


def test_the_vectors(library: Library) -> None:
    next_ns, seen = U64(), dict.fromkeys(("rate", "signal", "packet", "rewrite"), 0)
    for number, line in enumerate(VECTORS.read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        seen[said["op"]] += 1
        if said["op"] == "rate":
            assert library.rate(said["in_signal"]) == said["rate_bit_s"], f"line {number}"
        elif said["op"] == "signal":
            assert library.signal_for(said["in_rate_bit_s"]) == said["signal"], f"line {number}"
        elif said["op"] == "packet":
            payload = bytes.fromhex(said["in_payload"])
            length, signal = library.packet(payload)
            assert length == said["bytes"], f"line {number}"
            if length:
                assert signal == said["signal"]
                advised = [library.put(payload, min(new, signal))[:2].hex() for new in (0, 37, 38, 126)]
                assert advised == said["advised"], f"line {number}"
        else:
            allowed = library.may_rewrite(next_ns, said["in_now_ns"])
            assert (allowed, next_ns.value) == (said["allowed"], said["next_ns"]), f"line {number}"
    assert all(count > 20 for count in seen.values())


@given(st.one_of(st.binary(max_size=600), st.builds(
    lambda signal, *parts: scone_vectors.packet(signal, *parts), st.integers(0, 127), st.binary(max_size=255),
    st.binary(max_size=255), st.binary(max_size=4))))  # fmt: skip
@settings(max_examples=500, deadline=None)
def test_golden_model_and_c_agree(library: Library, payload: bytes) -> None:
    length, signal = library.packet(payload)
    assert length == scone.packet_bytes(payload)
    if length:
        assert signal == scone.signal_in(payload)


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=300, deadline=None)
def test_signals_of_any_rate(library: Library, rate: int) -> None:
    assert library.signal_for(rate) == scone.signal_of(rate)
