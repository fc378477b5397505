# SPDX-License-Identifier: Apache-2.0
"""The coupled law: its vectors are what the golden model says, its widths hold, and it does what the page says."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import VECTORS

from weir import coupled, coupled_vectors
from weir.coupled import (
    DEFAULT,
    P_ONE_Q32,
    RAMP_MOST_US,
    RANGES,
    Coupling,
    decide_low,
    follow_q40,
    mark_probability_q32,
)
from weir.law import TAU_MAX_US, U32_MAX, U_ONE_Q40, Verdict, WidthError

couplings = st.builds(Coupling, **{name: st.integers(least, most) for name, (least, most) in RANGES.items()})
u_q40s = st.integers(0, U_ONE_Q40)
u32s = st.integers(0, U32_MAX)


def test_the_committed_files_equal_the_model() -> None:
    for name, text in (("decide", coupled_vectors.generate_decide()), ("follow", coupled_vectors.generate_follow())):
        same = (VECTORS / "coupled" / f"{name}.jsonl").read_text(encoding="utf-8") == text
        assert same, "out of date: `./run generate`"


def test_every_verdict_and_both_ends_of_the_probability_occur() -> None:
    lines = [json.loads(line) for line in coupled_vectors.generate_decide().splitlines()]
    decided = [line for line in lines if line["op"] == "decide_low"]
    assert {line["verdict"] for line in decided} == set(map(int, Verdict))
    assert {0, P_ONE_Q32} <= {line["p_q32"] for line in decided}


@given(couplings, u_q40s, u32s, u32s, u32s, u32s)
def test_no_input_leaves_a_width(coupling: Coupling, u_q40: int, tau_us: int, floor_us: int, a: int, b: int) -> None:
    verdict = decide_low(coupling, u_q40, tau_us, floor_us, a, b)
    p_q32 = mark_probability_q32(coupling, u_q40, tau_us, floor_us)
    assert 0 <= p_q32 <= P_ONE_Q32
    overload = coupled.coupled_q32(coupling, u_q40) >= P_ONE_Q32
    assert (verdict == Verdict.DROP) <= overload
    assert overload <= (p_q32 == P_ONE_Q32)


@given(couplings, u_q40s, st.integers(0, TAU_MAX_US - 1), u32s)
def test_more_delay_or_more_u_never_lowers_it(coupling: Coupling, u_q40: int, tau_us: int, floor_us: int) -> None:
    here = mark_probability_q32(coupling, u_q40, tau_us, floor_us)
    assert mark_probability_q32(coupling, u_q40, tau_us + 1, floor_us) >= here
    assert mark_probability_q32(coupling, min(u_q40 + 2**8, U_ONE_Q40), tau_us, floor_us) >= here


def test_k_times_u_where_the_queue_is_short() -> None:
    assert mark_probability_q32(DEFAULT, U_ONE_Q40 // 10, 0, 0) == pytest.approx(0.2 * P_ONE_Q32, abs=2)


def test_the_ramp_begins_at_the_larger_of_its_least_delay_and_the_floor() -> None:
    ramp = {tau_us: mark_probability_q32(DEFAULT, 0, tau_us, 0) for tau_us in (800, 801, 1000, 1200, 1201)}
    assert ramp[800] == 0 < ramp[801]
    assert ramp[1000] == pytest.approx(P_ONE_Q32 / 2, rel=1e-6)
    assert ramp[1200] == pytest.approx(P_ONE_Q32, rel=1e-6)
    assert ramp[1201] == P_ONE_Q32
    assert mark_probability_q32(DEFAULT, 0, 2422, 2422) == 0 < mark_probability_q32(DEFAULT, 0, 2423, 2422)


def test_a_ramp_of_one_microsecond_is_a_step() -> None:
    step = replace(DEFAULT, ramp_slope_q32_per_us=coupled.slope_q32_per_us(1))
    assert [mark_probability_q32(step, 0, tau_us, 0) for tau_us in (800, 801)] == [0, P_ONE_Q32]


def test_overload_drops_as_in_the_classic_band_and_marks_the_rest() -> None:
    half_q40, half_q32 = U_ONE_Q40 // 2, P_ONE_Q32 // 2
    assert decide_low(DEFAULT, half_q40 - 2**8, 0, 0, half_q32 - 2, 0) == Verdict.MARK
    assert decide_low(DEFAULT, half_q40, 0, 0, half_q32 - 1, half_q32 - 1) == Verdict.DROP
    assert decide_low(DEFAULT, half_q40, 0, 0, half_q32, 0) == Verdict.MARK
    assert decide_low(DEFAULT, half_q40, 0, 0, 0, half_q32) == Verdict.MARK


def test_a_ramps_width_survives_its_slope() -> None:
    for ramp_us in range(1, RAMP_MOST_US + 1):
        assert round(P_ONE_Q32 / coupled.slope_q32_per_us(ramp_us)) == ramp_us
    with pytest.raises(ValueError, match="ramp_us = 0: must be 1"):
        coupled.slope_q32_per_us(0)


@pytest.mark.parametrize("name", RANGES)
def test_a_parameter_out_of_range_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = {RANGES[name][1] + 1}: must be"):
        replace(DEFAULT, **{name: RANGES[name][1] + 1})


def test_an_input_that_is_no_number_of_its_width_is_found() -> None:
    with pytest.raises(WidthError, match="tau_l_us"):
        mark_probability_q32(DEFAULT, 0, 2**32, 0)


@given(u_q40s, u_q40s, st.booleans(), st.booleans())
def test_r_stays_within_its_width_and_is_monotonic(r_q40: int, u_q40: int, active: bool, missed: bool) -> None:
    here = follow_q40(r_q40, u_q40, active, missed)
    assert 0 <= here <= U_ONE_Q40
    assert follow_q40(r_q40, min(u_q40 + 2**20, U_ONE_Q40), active, missed) >= here


@pytest.mark.parametrize(("mean", "swing"), [(0.01, 1.0), (0.05, 0.5), (0.2, 1.0)])
def test_r_is_the_root_mean_square_of_u(mean: float, swing: float) -> None:
    r_q40, course, squares = 0, [], []
    for step in range(40_000):
        u = mean * (1 + swing * (1 if step // 50 % 2 else -1))
        r_q40 = follow_q40(r_q40, round(u * U_ONE_Q40), True, False)
        if step >= 20_000:
            course.append((r_q40 / U_ONE_Q40) ** 2)
            squares.append(u * u)
    assert sum(course) == pytest.approx(sum(squares), rel=0.01)


def test_r_fades_without_traffic_in_c_and_is_u_after_a_pause() -> None:
    r_q40 = U_ONE_Q40 // 10
    assert follow_q40(r_q40, 0, False, True) == 0
    for _ in range(200):
        r_q40 = follow_q40(r_q40, 0, False, False)
    assert r_q40 < U_ONE_Q40 // 250
