# SPDX-License-Identifier: Apache-2.0
"""The C header of the coupled law against its vectors, and against the golden model for any input."""

import ctypes
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_build import HERE

from weir import coupled
from weir.coupled import RANGES, Coupling
from weir.law import U32_MAX, U_ONE_Q40

VECTORS = HERE.parents[2] / "tests" / "vectors" / "coupled"
U32, U64 = ctypes.c_uint32, ctypes.c_uint64


class CCoupling(ctypes.Structure):
    _fields_ = [
        *(("coupling_q16", U32), ("ramp_least_us", U32), ("ramp_slope_q32_per_us", U64), ("floor_bytes", U32)),
        ("reserved", U32),
    ]


class Library:
    """`law_shared.c`, built: (p_q32, verdict) of one packet of band L, and R after a step."""

    def __init__(self, path: Path):
        self.follow = ctypes.CDLL(str(path)).coupled_follow
        self.follow.restype = U64
        self.follow.argtypes = [U64, U64, ctypes.c_int, ctypes.c_int]
        self._run = ctypes.CDLL(str(path)).coupled_run
        self._run.restype = U32
        self._run.argtypes = [ctypes.POINTER(CCoupling), U64, U32, U32, U32, U32, ctypes.POINTER(U64)]

    def decide(self, members: dict[str, int], inputs: tuple[int, ...]) -> tuple[int, int]:
        p_q32 = U64()
        verdict = self._run(CCoupling(**members), *inputs, p_q32)
        return p_q32.value, verdict


@pytest.fixture(scope="session")
def library(law_library: Path) -> Library:
    return Library(law_library)


def test_the_vectors(library: Library) -> None:
    members, checked = {}, 0
    for number, line in enumerate((VECTORS / "decide.jsonl").read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        if said.pop("op") == "params":
            said.pop("case")
            members = said
            continue
        inputs = tuple(value for key, value in said.items() if key.startswith("in_"))
        assert library.decide(members, inputs) == (said["p_q32"], said["verdict"]), f"line {number}: {line}"
        checked += 1
    assert checked > 1000


@given(
    st.builds(Coupling, **{name: st.integers(least, most) for name, (least, most) in RANGES.items()}),
    st.integers(0, U_ONE_Q40),
    *[st.one_of(st.integers(0, U32_MAX), st.integers(0, 5000))] * 2,
    *[st.integers(0, U32_MAX)] * 2,
)
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_agree(
    library: Library, coupling: Coupling, r_q40: int, tau_us: int, floor_us: int, rand_a: int, rand_b: int
) -> None:
    wanted = (
        coupled.mark_probability_q32(coupling, r_q40, tau_us, floor_us),
        int(coupled.decide_low(coupling, r_q40, tau_us, floor_us, rand_a, rand_b)),
    )
    assert library.decide(asdict(coupling), (r_q40, tau_us, floor_us, rand_a, rand_b)) == wanted


def test_the_vectors_of_follow(library: Library) -> None:
    lines = [json.loads(line) for line in (VECTORS / "follow.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
    assert len(lines) > 500
    for line in lines:
        inputs = [value for key, value in line.items() if key.startswith("in_")]
        assert library.follow(*inputs) == line["r_q40"], line


@given(st.integers(0, U_ONE_Q40), st.integers(0, U_ONE_Q40), st.booleans(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_follow_alike(library: Library, r_q40: int, u_q40: int, waits: bool, missed: bool) -> None:
    assert library.follow(r_q40, u_q40, waits, missed) == coupled.follow_q40(r_q40, u_q40, waits, missed)
