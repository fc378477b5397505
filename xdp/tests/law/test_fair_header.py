# SPDX-License-Identifier: Apache-2.0
"""The C header of the fair share against its vectors, and against the golden model for any input."""

import ctypes
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_build import HERE
from test_bands_header import U32, U64, CParams, members

from weir import fair
from weir.bands import Kind
from weir.bands_vectors import TUNED
from weir.fair import FLOWS_MOST_Q16, Fair
from weir.fair_vectors import LAW_PARAMS
from weir.law import U32_MAX

VECTORS = HERE.parents[2] / "tests" / "vectors" / "fair" / "share.jsonl"


class CFair(ctypes.Structure):
    _fields_ = [("fair_last_us", U64), ("flows_q16", U64), ("passed_bytes", U32), ("reserved", U32)]


class CResults(ctypes.Structure):
    _fields_ = [("fair_bytes", U32), ("kind", U32), ("policed", U32), ("spared", U32)]


class Library:
    """`law_shared.c`, built."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        self._run, self.passed = library.fair_run, library.fair_passed
        self._run.argtypes = [
            ctypes.POINTER(CFair), ctypes.POINTER(CParams), U32, U32, U64, U64, U32, U32, ctypes.POINTER(CResults),
        ]  # fmt: skip
        self.passed.argtypes = [ctypes.POINTER(CFair), U64]

    def arrival(self, state: CFair, params: CParams, *inputs: int) -> dict[str, int]:
        """inputs: kind, flow_bytes, now_us, len_bytes, tau_us, rand."""
        results = CResults()
        self._run(state, params, *inputs, results)
        return members(results)


@pytest.fixture(scope="session")
def library(law_library: Path) -> Library:
    return Library(law_library)


def test_the_vectors(library: Library) -> None:
    seen = {"policed": 0, "spared": 0, "fair_arrival": 0}
    for number, line in enumerate(VECTORS.read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        op = said.pop("op")
        inputs = {key: said.pop(key) for key in list(said) if key.startswith("in_")}
        if op == "params":
            said.pop("case")
            params, state = CParams(**(asdict(TUNED) | {key: said.pop(key) for key in LAW_PARAMS})), CFair()
        elif op == "fair_arrival":
            found = library.arrival(state, params, *inputs.values())
            assert found | members(state) == said, f"line {number}"
            seen["fair_arrival"] += 1
            seen["policed"] += found["policed"]
            seen["spared"] += found["spared"]
        else:
            library.passed(state, inputs["in_len_bytes"])
            assert state.passed_bytes == said["passed_bytes"], f"line {number}"
    assert seen["fair_arrival"] > 1000
    assert seen["policed"] > 20
    assert seen["spared"] > 100


U32S = st.one_of(st.integers(0, U32_MAX), st.integers(0, 100_000))


@given(
    st.builds(Fair, U32S, st.integers(0, FLOWS_MOST_Q16), st.integers(0, 2**64 - 1)),
    st.sampled_from([kind for kind in Kind if kind != Kind.AHEAD]),
    U32S,
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**22)),
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2000)),
    st.integers(0, 60_000),
    st.integers(0, U32_MAX),
    st.sampled_from([0, TUNED.delay_limit_us]),
)
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_agree(
    library: Library, state: Fair, kind: Kind, flow_bytes: int, step_us: int, len_bytes: int, tau_us: int, rand: int,
    limit_us: int,
) -> None:  # fmt: skip
    now_us, params = (state.fair_last_us + step_us) % 2**64, replace(TUNED, delay_limit_us=limit_us)
    in_c = CFair(state.fair_last_us, state.flows_q16, state.passed_bytes, 0)
    found = library.arrival(in_c, CParams(**asdict(params)), kind, flow_bytes, now_us, len_bytes, tau_us, rand)
    fair_bytes = fair.arrival(state, params, kind, flow_bytes, now_us, len_bytes)
    by_share = fair.kind_by_share(kind, flow_bytes, fair_bytes)
    assert found == {
        "fair_bytes": fair_bytes, "kind": by_share, "spared": fair.is_spared(by_share, params, tau_us),
        "policed": fair.is_policed(params, flow_bytes, fair_bytes, tau_us, rand),
    }  # fmt: skip
    assert members(in_c) == asdict(state)
