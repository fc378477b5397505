# SPDX-License-Identifier: Apache-2.0
"""Throughput advice: its vectors are what the golden model says, and it keeps what the draft demands."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import scone, scone_vectors
from weir.scone import GREATEST, UNKNOWN, Rewrites

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors"
SIGNALS = st.integers(0, UNKNOWN)


def test_the_vectors_are_those_of_the_golden_model() -> None:
    same = (VECTORS / "scone" / "advice.jsonl").read_text(encoding="utf-8") == scone_vectors.generate()
    assert same, "other vectors now: ./run generate"


@pytest.mark.parametrize(
    ("signal", "rate"),
    [
        (0, 100e3), (1, 112e3), (2, 126e3), (3, 141e3), (20, 1e6), (21, 1.12e6), (40, 10e6), (41, 11.2e6), (60, 100e6),
        (61, 112e6), (80, 1e9), (100, 10e9), (120, 100e9), (121, 112e9), (126, 199.5e9),
    ],
)  # fmt: skip
def test_rates_of_the_drafts_table(signal: int, rate: float) -> None:
    assert scone.rate_bit_s(signal) == pytest.approx(rate, rel=0.005)


@given(st.integers(100_000, 2**63))
def test_a_signal_is_at_most_the_rate_and_the_next_one_is_above(rate: int) -> None:
    signal = scone.signal_of(rate)
    assert scone.rate_bit_s(signal) <= rate
    assert signal == GREATEST or scone.rate_bit_s(signal + 1) > rate


@given(st.binary(max_size=600), SIGNALS)
def test_any_payload_keeps_its_length_and_all_but_the_signal(payload: bytes, signal: int) -> None:
    after = scone.advised(payload, signal)
    assert after[2:] == payload[2:]
    assert len(after) == len(payload)
    if not scone.packet_bytes(payload):
        assert after == payload


@given(SIGNALS, st.binary(max_size=255), st.binary(max_size=255), st.binary(min_size=1, max_size=40), SIGNALS)
def test_advice_only_lowers(before: int, destination: bytes, source: bytes, behind: bytes, signal: int) -> None:
    payload = scone_vectors.packet(before, destination, source, behind)
    after = scone.advised(payload, signal)
    assert scone.packet_bytes(payload) == len(payload) - len(behind)
    assert scone.signal_in(after) == min(before, signal)
    assert after[0] & 0xC0 == payload[0] & 0xC0


def folded(data: bytes) -> int:
    """Sum of 16-bit words in one's complement."""
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big") for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@given(SIGNALS, SIGNALS, st.binary(min_size=1, max_size=64))
def test_the_checksum_stays_right(before: int, signal: int, behind: bytes) -> None:
    payload = scone_vectors.packet(before, b"12345678", b"", behind)
    after = scone.advised(payload, signal)
    check = ~folded(payload) & 0xFFFF or 0xFFFF
    new = scone.checksum(check, payload[:2], after[:2])
    assert folded(after + bytes(len(after) % 2) + new.to_bytes(2, "big")) == 0xFFFF
    assert new != 0
    assert scone.checksum(0, payload[:2], after[:2]) == 0


@given(st.lists(st.integers(0, 70 * 10**9), min_size=1, max_size=200))
def test_rewrites_are_a_few_in_a_monitoring_period(steps_ns: list[int]) -> None:
    rewrites, now_ns, allowed_ns = Rewrites(), 10**12, []
    for step_ns in steps_ns:
        now_ns += step_ns
        if rewrites.allow(now_ns):
            allowed_ns.append(now_ns)
    period_ns = 67 * 10**9
    assert allowed_ns, "the first packet is rewritten"
    assert all(sum(at <= then < at + period_ns for then in allowed_ns) <= 11 for at in allowed_ns)
