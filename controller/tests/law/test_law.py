# SPDX-License-Identifier: Apache-2.0
"""What the law promises, held by the golden model for any input; and the paper's equations in floats beside it."""

import math
from dataclasses import astuple, dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weir import law
from weir.law import ALWAYS, RANGES, TAU_MAX_US, U32_MAX, U_ONE_Q40, Params, Rate, State, Verdict
from weir.resources import PROFILES
from weir.settings import load

PAPER_GAINS = load(PROFILES / "paper.toml")
PAPER = PAPER_GAINS.to_params()
TUNED = load(PROFILES / "tuned.toml").to_params()

params = st.builds(Params, **{name: st.integers(least, most) for name, (least, most) in RANGES.items()})
any_params = st.one_of(params, st.sampled_from([PAPER, TUNED]))
u32, u64 = st.integers(0, U32_MAX), st.integers(0, 2**64 - 1)
errors_us = st.integers(-(2**24) + 1, 2**24 - 1)
states = st.builds(
    State,
    u_q40=st.integers(0, U_ONE_Q40),
    last_us=u64,
    o1_us=errors_us,
    o2_us=errors_us,
    tau_prev_us=st.integers(0, TAU_MAX_US),
    burst_left_us=u32,
    no_i_run=u32,
    started=st.integers(0, 1),
)


@given(any_params, states, st.lists(st.tuples(st.one_of(u64, st.integers(0, 10**8)), u32), max_size=20))
@settings(deadline=None)
def test_u_stays_a_probability_and_nothing_wraps(parameters: Params, state: State, steps: list) -> None:
    """The model raises WidthError if an intermediate leaves its width."""
    now_us = state.last_us
    for gap_us, tau_us in steps:
        now_us = (now_us + gap_us) % 2**64
        law.update(state, parameters, now_us, tau_us)
        assert 0 <= state.u_q40 <= U_ONE_Q40
        assert abs(state.o1_us) < 2**24


@given(any_params, st.lists(st.tuples(u64, u64, st.one_of(u64, st.just(0))), max_size=30), u64)
@settings(deadline=None)
def test_the_rate_fits_for_any_times_and_bytes(parameters: Params, departures: list, backlog_bytes: int) -> None:
    rate = Rate()
    for now_us, len_bytes, left_bytes in departures:
        law.departure(rate, parameters, now_us, len_bytes, left_bytes)
        assert rate.dq_time_q8_us <= U32_MAX
    assert 0 <= law.tau_us(rate, parameters, backlog_bytes) <= TAU_MAX_US


@given(any_params, st.integers(0, U_ONE_Q40), st.integers(0, 2**63 - 1), u64)
def test_zero_error_holds(parameters: Params, u_q40: int, gap_us: int, last_us: int) -> None:
    """With o = o1 = o2 = 0 U stays, however late the step is."""
    state = State(started=1, u_q40=u_q40, last_us=last_us)
    law.update(state, parameters, (last_us + gap_us) % 2**64, parameters.target_us)
    assert (state.u_q40, state.o1_us, state.o2_us) == (u_q40, 0, 0)


@given(any_params, states, st.integers(0, TAU_MAX_US), st.integers(0, TAU_MAX_US))
@settings(deadline=None)
def test_a_longer_delay_in_the_same_row_never_lowers_u(parameters: Params, state: State, one: int, other: int) -> None:
    """Across rows it may: Algorithm 1 leaves the integral out above M1."""
    now_us = (state.last_us + parameters.interval_us) % 2**64
    low, high = replace(state, started=1), replace(state, started=1)
    law.update(low, parameters, now_us, min(one, other))
    law.update(high, parameters, now_us, max(one, other))
    assume(low.row == high.row)
    assert low.u_q40 <= high.u_q40


@given(st.integers(0, U_ONE_Q40), st.integers(1, U32_MAX), st.integers(0, 2**63), st.integers(0, 2**63))
def test_u_decays_with_idle_time(u_q40: int, halflife_us: int, one: int, other: int) -> None:
    assert law.decayed(u_q40, halflife_us, max(one, other)) <= law.decayed(u_q40, halflife_us, min(one, other))
    halvings = min(min(one, other) // halflife_us, 63)
    assert law.decayed(u_q40, halflife_us, min(one, other)) == u_q40 >> halvings


@given(any_params, st.integers(1, U32_MAX), u64, u64)
def test_tau_grows_with_the_backlog(parameters: Params, time_q8_us: int, one: int, other: int) -> None:
    rate = Rate(dq_time_q8_us=time_q8_us)
    assert law.tau_us(rate, parameters, min(one, other)) <= law.tau_us(rate, parameters, max(one, other))


@given(any_params, st.integers(0, U_ONE_Q40), st.integers(0, U_ONE_Q40), u64, u32, st.booleans(), u32, u32)
def test_a_higher_u_never_spares_a_packet(
    parameters: Params, one: int, other: int, backlog: int, tau_us: int, ect: bool, rand_a: int, rand_b: int
) -> None:
    low = law.decide(State(u_q40=min(one, other)), parameters, backlog, tau_us, ect, rand_a, rand_b)
    high = law.decide(State(u_q40=max(one, other)), parameters, backlog, tau_us, ect, rand_a, rand_b)
    assert low <= high


@given(any_params, states, u64, u32, u32)
def test_verdict_at_the_ends_of_u(parameters: Params, state: State, backlog_bytes: int, a: int, b: int) -> None:
    calm = replace(state, burst_left_us=0)
    full, late_us = max(backlog_bytes, parameters.min_backlog_bytes), parameters.min_delay_us
    assert law.decide(replace(calm, u_q40=0), parameters, full, late_us, False, a, b) == Verdict.PASS
    always = replace(calm, u_q40=U_ONE_Q40)
    assert law.decide(always, parameters, full, late_us, False, a, b) == Verdict.DROP
    if late_us:
        assert law.decide(always, parameters, full, late_us - 1, False, a, b) == Verdict.PASS


@pytest.mark.parametrize(("byte_us", "shift"), [(0.8, 14), (0.08, 14), (8, 10), (0.008, 20)])
def test_tau_reads_a_known_rate_within_one_part_in_a_thousand(byte_us: float, shift: int) -> None:
    """A line that drains full frames evenly; Cao Eq. 1 in floats is backlog / rate."""
    parameters, rate, now_us = replace(PAPER, dq_shift=shift), Rate(), 0.0
    for _ in range(60 * 2**shift // 1514 + 60):
        now_us += 1514 * byte_us
        law.departure(rate, parameters, int(now_us), 1514, 10**7)
    # One chunk is counted in whole frames: 2^s bytes take up to a frame less or more time, and w = 1 averages only two.
    frame_share = 1514 / 2**shift
    assert law.tau_us(rate, parameters, 10**6) == pytest.approx(10**6 * byte_us, rel=frame_share + 1e-3)


@dataclass
class PaperQueue:
    """Cao Eq. 2, Eq. 5 and Algorithm 1 from the paper's text, seconds and probabilities as floats."""

    u: float = 0.0
    o1: float = -PAPER_GAINS.target_us / 1e6
    o2: float = -PAPER_GAINS.target_us / 1e6

    def tick(self, tau_s: float) -> float:
        g = PAPER_GAINS
        m1, m2 = g.m1_us / 1e6, g.m2_us / 1e6
        o = tau_s - g.target_us / 1e6
        change, change_before = o - self.o1, self.o1 - self.o2
        p_and_d = g.kp * change + g.kd * (o - 2 * self.o1 + self.o2)
        integral = g.ki * o
        if abs(o) > m1:
            du = g.z1 * p_and_d
        elif abs(o) > m2:
            if o * change > 0:
                du = g.z2 * (p_and_d + integral)
            elif o * change < 0 and o * change_before > 0:
                du = g.z2 * p_and_d
            else:
                du = p_and_d + integral
        elif o * change < 0 and o * change_before < 0:
            du = g.z3 * p_and_d
        else:
            du = p_and_d + integral
        self.u = min(max(self.u + du, 0.0), 1.0)
        self.o2, self.o1 = self.o1, o
        return self.u


near_thresholds = st.sampled_from([0, 5000, 5001, 15000, 24999, 25001, 34999, 35001, 60000])


@given(st.lists(st.one_of(st.integers(0, 60000), near_thresholds), min_size=1, max_size=40))
@settings(max_examples=300, deadline=None)
def test_paper_profile_follows_the_paper_step_by_step(taus_us: list[int]) -> None:
    """Each step from the model's own state agrees with the float equations within 1e-6."""
    # At exactly M1, M2 or equal errors, floats decide by their rounding; integers decide exactly.
    assume(not any(abs(tau - 15000) in (10000, 20000) for tau in taus_us))
    assume(all(a != b for a, b in pairwise(taus_us)))
    state, now_us = State(), 10**6
    law.update(state, PAPER, now_us, 0)
    for tau_us in taus_us:
        paper = PaperQueue(u=state.u_q40 / 2**40, o1=state.o1_us / 1e6, o2=state.o2_us / 1e6)
        now_us += 15000
        assert law.update(state, PAPER, now_us, tau_us)
        assert state.u_q40 / 2**40 == pytest.approx(paper.tick(tau_us / 1e6), abs=1e-6)


def test_paper_profile_follows_the_paper_over_a_run() -> None:
    """A thousand steps of a queue that swings about its target: the two trajectories stay within 1e-6."""
    state, paper, now_us, seen = State(), PaperQueue(), 10**6, set()
    law.update(state, PAPER, now_us, 0)
    for k in range(1000):
        tau_us = max(int(15003 + 9001 * math.sin(k / 5) + 9007 * math.sin(k / 1.7)), 0)
        tau_us += 25000 if k % 200 == 199 else 0
        now_us += 15000
        law.update(state, PAPER, now_us, tau_us)
        seen.add(state.row)
        assert state.u_q40 / 2**40 == pytest.approx(paper.tick(tau_us / 1e6), abs=1e-6)
    assert seen == {1, 2, 3, 4, 5}


def test_algorithm_1_as_printed_stalls_and_a_limit_on_leaving_the_integral_out_ends_it() -> None:
    """A standing queue of 60 ms: dU is 0 for ever with Algorithm 1, and grows from step 4 when 3 are allowed."""
    for most, moves in ((ALWAYS, False), (3, True), (0, True)):
        parameters, state = replace(PAPER, integral_drop_max=most), State()
        law.update(state, parameters, 0, 0)
        for k in range(1, 7):
            law.update(state, parameters, 15000 * k, 60000)
        before = state.u_q40
        law.update(state, parameters, 15000 * 7, 60000)
        assert (state.u_q40 > before) is moves


def test_steps_keep_their_grid() -> None:
    """Packets every 1.3 ms: as many steps as whole intervals passed."""
    state, taken = State(), 0
    for k in range(10001):
        taken += law.update(state, PAPER, 1300 * k, 15000)
    assert taken == 1300 * 10000 // 15000


def test_the_burst_allowance_lasts_its_time() -> None:
    """Packets every 1.3 ms find no drop for 150 ms, and not for an interval longer."""
    parameters, state = replace(PAPER, burst_us=150_000), State()
    law.update(state, parameters, 0, 60000)
    now_us = 0
    while state.burst_left_us:
        now_us += 1300
        law.update(state, parameters, now_us, 60000)
    assert 150_000 <= now_us < 165_000


@pytest.mark.parametrize("name", sorted(RANGES))
def test_a_parameter_out_of_range_is_named(name: str) -> None:
    least, most = RANGES[name]
    for value in (least - 1, most + 1):
        with pytest.raises(ValueError, match=f"{name} = {value}: must be {least} .. {most}"):
            replace(PAPER, **{name: value})


def test_input_beyond_its_width_is_refused() -> None:
    with pytest.raises(law.WidthError, match="now_us"):
        law.update(State(), PAPER, 2**64, 0)
    with pytest.raises(law.WidthError, match="rand_a"):
        law.decide(State(), PAPER, 0, 0, False, 2**32, 0)


def test_a_state_starts_all_zero() -> None:
    assert not any(astuple(State()) + astuple(Rate()))
