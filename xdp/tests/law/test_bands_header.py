# SPDX-License-Identifier: Apache-2.0
"""The C header of the two bands of flows against its vectors, and against the golden model for any input."""

import ctypes
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_build import HERE

from weir import bands
from weir.bands import RANGES, BandFlow, Bands, MarkedBudget
from weir.bands_vectors import LAW_PARAMS, TUNED
from weir.law import U32_MAX, Share
from weir.params import ROWS

VECTORS = HERE.parents[2] / "tests" / "vectors" / "bands" / "arrival.jsonl"
U16, U32, U64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64


class CParams(ctypes.Structure):
    _fields_ = [(row.param, U64 if row.range[1] > U32_MAX else U32) for row in ROWS.values()]


class CBands(ctypes.Structure):
    _fields_ = [("ahead_share_q16", U32), ("ahead_most_bytes", U32), ("ahead_least_bytes", U32), ("reserved", U32)]


class CFlow(ctypes.Structure):
    _fields_ = [("flow_last_us", U64), ("flow_bytes", U32), ("flow_until_tick", U16), ("flow_large_tick", U16)]


class CShare(ctypes.Structure):
    _fields_ = [("share_mean_q6", U64)]


class CBudget(ctypes.Structure):
    _fields_ = [
        ("budget_last_us", U64), ("ahead_bytes", U32), ("new_bytes", U32), ("bulk_bytes", U32), ("marked_bytes", U32),
    ]  # fmt: skip


def members(*structures: ctypes.Structure) -> dict[str, int]:
    return {
        name: getattr(structure, name) for structure in structures for name, *_ in structure._fields_
        if name != "reserved"
    }  # fmt: skip


class Library:
    """`law_shared.c`, built."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        self._run, self.passed = library.bands_run, library.bands_passed
        self._run.restype = U32
        self._run.argtypes = [
            *(ctypes.POINTER(kind) for kind in (CFlow, CShare, CBudget, CParams, CBands)), U64, U64, U32,
            ctypes.c_int, ctypes.POINTER(U32),
        ]  # fmt: skip
        self.passed.argtypes = [ctypes.POINTER(CBudget), U64]
        self.late = library.bands_late
        self.late.restype = U32
        self.late.argtypes = [ctypes.POINTER(CParams), U64, U32]

    def arrival(
        self, flow: CFlow, share: CShare, budget: CBudget, params: CParams, given: CBands, *inputs: int,
        marked: bool = False,
    ) -> tuple[int, int]:  # fmt: skip
        refused = U32()
        return self._run(flow, share, budget, params, given, *inputs, marked, refused), refused.value


@pytest.fixture(scope="session")
def library(law_library: Path) -> Library:
    return Library(law_library)


def test_the_vectors(library: Library) -> None:
    checked = 0
    for number, line in enumerate(VECTORS.read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        op = said.pop("op")
        inputs = {key: said.pop(key) for key in list(said) if key.startswith("in_")}
        if op == "params":
            said.pop("case")
            params = CParams(**(asdict(TUNED) | {key: said.pop(key) for key in LAW_PARAMS}))
            given_bands, flows, share, budget = CBands(**said), [CFlow() for _ in range(8)], CShare(), CBudget()
        elif op == "band_arrival":
            flow = flows[inputs.pop("in_flow")]
            found = library.arrival(flow, share, budget, params, given_bands, *inputs.values())
            state = members(flow, share, budget)
            assert not state.pop("marked_bytes")
            assert {"kind": found[0], "refused": found[1], **state} == said, f"line {number}"
        elif op == "ahead":
            assert library.late(params, *inputs.values()) == said["late"], f"line {number}"
        else:
            library.passed(budget, inputs["in_len_bytes"])
            assert budget.bulk_bytes == said["bulk_bytes"], f"line {number}"
        checked += 1
    assert checked > 3000


U32S = st.one_of(st.integers(0, U32_MAX), st.integers(0, 100_000))
TICKS = st.integers(0, bands.TICKS - 1)


@given(
    st.builds(Bands, **{name: st.integers(least, most) for name, (least, most) in RANGES.items()}),
    st.builds(BandFlow, U32S, st.integers(0, 2**64 - 1), TICKS, TICKS),
    st.builds(MarkedBudget, U32S, U32S, U32S, st.integers(0, 2**64 - 1), U32S),
    st.integers(0, 2**38 - 1),
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**22)),
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2000)),
    U32S,
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_agree(
    library: Library, given_bands: Bands, flow: BandFlow, budget: MarkedBudget, mean_q6: int, step_us: int,
    len_bytes: int, tau_us: int, marked: bool,
) -> None:  # fmt: skip
    now_us, share = (flow.flow_last_us + step_us) % 2**64, Share(mean_q6)
    state = CFlow(**asdict(flow)), CShare(mean_q6), CBudget(**asdict(budget))
    inputs = (now_us, len_bytes, tau_us)
    found = library.arrival(*state, CParams(**asdict(TUNED)), CBands(**asdict(given_bands)), *inputs, marked=marked)
    kind = bands.arrival(flow, share, budget, TUNED, given_bands, *inputs, marked)
    assert found == (kind, bands.is_refused(kind, TUNED, tau_us))
    assert members(*state) == {**asdict(flow), **asdict(share), **asdict(budget)}


@given(st.integers(0, 2**24 - 1), U32S, st.one_of(st.integers(0, 2**64 - 1), U32S), U32S)
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_agree_on_the_limit(
    library: Library, limit_us: int, least_bytes: int, backlog_bytes: int, tau_us: int
) -> None:
    params = replace(TUNED, delay_limit_us=limit_us, min_backlog_bytes=least_bytes)
    found = library.late(CParams(**asdict(params)), backlog_bytes, tau_us)
    assert found == bands.is_late(params, backlog_bytes, tau_us)
