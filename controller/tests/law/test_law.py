# SPDX-License-Identifier: Apache-2.0
"""Properties of the law, checked on the golden model for any input; and the paper's equations in floats beside it."""

import math
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weir import law
from weir.law import (
    ALWAYS,
    P_ONE_Q32,
    RANGES,
    TAU_MAX_US,
    U32_MAX,
    U_ONE_Q40,
    Flow,
    Params,
    Rate,
    Share,
    Size,
    Spacing,
    State,
    Verdict,
)
from weir.resources import PROFILES
from weir.settings import load
from weir.vectors import PLAIN

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
    no_i_run=u32,
    started=st.integers(0, 1),
    u_ecn_q40=st.integers(0, U_ONE_Q40),
)
spacings = st.builds(Spacing, sum_q32=st.integers(0, 2**36 - 1))
OFF = {
    "space_least_q16": 0,
    "space_most_q16": 0,
    "delay_bound_slope_q40_per_us": 0,
    "delay_limit_us": 0,
    "share_least_q16": 0,
    "ecn_weight_shift": 0,
    "ecn_drop_us": 0,
}
RFC_SPACED = replace(PLAIN, space_least_q16=55706, space_most_q16=557056)


@given(any_params, states, st.lists(st.tuples(st.one_of(u64, st.integers(0, 10**8)), u32), max_size=20))
@settings(deadline=None)
def test_u_stays_a_probability_and_nothing_wraps(parameters: Params, state: State, steps: list) -> None:
    """The model raises WidthError if an intermediate leaves its width."""
    now_us = state.last_us
    for gap_us, tau_us in steps:
        now_us = (now_us + gap_us) % 2**64
        law.update(state, parameters, now_us, tau_us)
        assert 0 <= state.u_q40 <= U_ONE_Q40
        assert 0 <= state.u_ecn_q40 <= U_ONE_Q40
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
    low = law.decide(State(u_q40=min(one, other)), Spacing(), parameters, backlog, tau_us, ect, rand_a, rand_b)
    high = law.decide(State(u_q40=max(one, other)), Spacing(), parameters, backlog, tau_us, ect, rand_a, rand_b)
    assert low <= high


@given(any_params, states, u64, u32, u32)
def test_verdict_at_the_ends_of_u(parameters: Params, state: State, backlog_bytes: int, a: int, b: int) -> None:
    parameters = replace(parameters, delay_bound_slope_q40_per_us=0, delay_limit_us=0)
    full, late_us = max(backlog_bytes, parameters.min_backlog_bytes), parameters.min_delay_us
    assert law.decide(replace(state, u_q40=0), Spacing(), parameters, full, late_us, False, a, b) == Verdict.PASS
    always = replace(state, u_q40=U_ONE_Q40)
    assert law.decide(always, Spacing(), parameters, full, late_us, False, a, b) == Verdict.DROP
    if late_us:
        assert law.decide(always, Spacing(), parameters, full, late_us - 1, False, a, b) == Verdict.PASS


@given(any_params, states, spacings, u64, u32, st.booleans(), u32, u32)
def test_with_everything_new_off_the_verdict_is_that_of_two_numbers(
    parameters: Params, state: State, spacing: Spacing, backlog: int, tau_us: int, ect: bool, rand_a: int, rand_b: int
) -> None:
    """U against one random number, or against two where it is squared; the bound for ECN against U itself."""
    off = replace(parameters, **OFF)
    u_q32 = state.u_q40 >> 8
    wanted = Verdict.MARK if ect and 0 < off.ecn_bound_q32 >= u_q32 else Verdict.DROP
    if rand_a >= u_q32 or (off.squared and rand_b >= u_q32):
        wanted = Verdict.PASS
    if backlog < off.min_backlog_bytes:
        wanted = Verdict.PASS
    if tau_us < off.min_delay_us and wanted == Verdict.DROP:
        wanted = Verdict.PASS
    assert law.decide(state, spacing, off, backlog, tau_us, ect, rand_a, rand_b) == wanted


@given(any_params, spacings, st.lists(st.tuples(states, u64, u32, st.booleans(), u32, u32), max_size=20))
def test_the_sum_stays_below_its_greatest_limit(parameters: Params, spacing: Spacing, packets: list) -> None:
    """After any packets, also under other limits; the model raises WidthError if the addition leaves its width."""
    before_q32 = spacing.sum_q32
    for state, backlog, tau_us, ect, rand_a, rand_b in packets:
        verdict = law.decide(state, spacing, parameters, backlog, tau_us, ect, rand_a, rand_b)
        assert 0 <= spacing.sum_q32 < 2**36
        if parameters.space_most_q16 and verdict != Verdict.PASS:
            assert spacing.sum_q32 == 0
        if not parameters.space_most_q16:
            assert spacing.sum_q32 in (0, before_q32)


def _gaps(parameters: Params, u_q40: int, hits: int, random: Random) -> list[int]:
    state, spacing, gaps, gap = State(u_q40=u_q40), Spacing(), [], 0
    while len(gaps) < hits:
        gap += 1
        drawn = (random.getrandbits(32), random.getrandbits(32))
        if law.decide(state, spacing, parameters, 10**6, 10**5, False, *drawn) != Verdict.PASS:
            gaps.append(gap)
            gap = 0
    return gaps


@pytest.mark.parametrize(("least", "most"), [(0.85, 8.5), (0.5, 2.0), (0.0, 3.0), (1.0, 1.0)])
@pytest.mark.parametrize("u", [0.1, 0.3, 0.8])
def test_hits_are_as_far_apart_as_computed(least: float, most: float, u: float) -> None:
    """The page's formula, at a constant p = U^2: every gap within its limits, the mean within five standard errors."""
    limits = {"space_least_q16": round(least * 65536), "space_most_q16": round(most * 65536)}
    gaps = _gaps(replace(PLAIN, **limits), round(u * 2**40), 2000, Random(7))
    p = ((round(u * 2**40) >> 9) ** 2 >> 30) / 2**32
    first, last = (
        max(math.ceil(limits["space_least_q16"] / 65536 / p), 1),
        math.ceil(limits["space_most_q16"] / 65536 / p),
    )
    assert first <= min(gaps)
    assert max(gaps) <= last
    wanted = first + (1 - p) * (1 - (1 - p) ** (last - first)) / p
    assert sum(gaps) / len(gaps) == pytest.approx(wanted, abs=5 * (1 / p) / len(gaps) ** 0.5)


def test_spaced_hits_vary_less_than_independent_ones() -> None:
    """At about equal mean distance."""
    spaced, independent = _gaps(RFC_SPACED, 2**38, 1000, Random(1)), _gaps(PLAIN, 2**38, 1000, Random(1))
    share = [
        math.sqrt(sum((gap - sum(gaps) / len(gaps)) ** 2 for gap in gaps) / len(gaps)) / (sum(gaps) / len(gaps))
        for gaps in (spaced, independent)
    ]
    assert share[0] < 0.65 * share[1]


@given(any_params, states, spacings, u64, u32, u32, u32)
def test_beyond_the_bound_in_time_nothing_but_the_backlog_holds_a_hit_back(
    parameters: Params, state: State, spacing: Spacing, backlog: int, tau_us: int, rand_a: int, rand_b: int
) -> None:
    """On a steep slope, 256 us above the bound, whatever U and the sum are."""
    bound_us = max(parameters.delay_bound_us, 1)
    parameters = replace(parameters, delay_bound_us=bound_us, delay_bound_slope_q40_per_us=U32_MAX)
    parameters = replace(parameters, delay_guard_bytes=0, share_least_q16=0)
    late_us = min(max(tau_us, parameters.delay_bound_us + 257), U32_MAX)
    full = max(backlog, parameters.min_backlog_bytes)
    assert law.decide(state, spacing, parameters, full, late_us, False, rand_a, rand_b) == Verdict.DROP
    if parameters.min_backlog_bytes:
        short = parameters.min_backlog_bytes - 1
        assert law.decide(state, spacing, parameters, short, late_us, False, rand_a, rand_b) == Verdict.PASS


@given(any_params, u32, u32)
def test_the_excess_grows_with_the_delay_from_the_bound_on(parameters: Params, one: int, other: int) -> None:
    """For any flow, on a backlog above the guard; below it there is none."""
    for size in Size:
        low, high = (law.excess_q32(parameters, 2**33, tau_us, size) for tau_us in sorted((one, other)))
        assert 0 <= low <= high <= P_ONE_Q32
        unlimited = replace(parameters, delay_limit_us=0)
        assert law.excess_q32(unlimited, 2**33, parameters.delay_bound_us, size) == 0
        if parameters.delay_guard_bytes:
            guard = 2**parameters.dq_shift + parameters.delay_guard_bytes
            assert law.excess_q32(parameters, guard - 1, max(one, other), size) == 0


SHARED = replace(
    TUNED,
    space_least_q16=65536,
    space_most_q16=2 * 65536,
    delay_bound_us=18750,
    delay_bound_slope_q40_per_us=U32_MAX,
    delay_limit_us=26250,
    delay_guard_bytes=1514,
    share_least_q16=65536,
)


def test_beyond_the_bound_large_flows_pay_and_beyond_the_limit_all() -> None:
    """With no probability at all; below the guard nobody does."""
    full = 2**SHARED.dq_shift + 1514
    for tau_us, backlog_bytes, wanted in (
        (18750, full, (Verdict.PASS, Verdict.PASS)),
        (19100, full, (Verdict.PASS, Verdict.DROP)),
        (26249, full, (Verdict.PASS, Verdict.DROP)),
        (26250, full, (Verdict.DROP, Verdict.DROP)),
        (26250, full - 1, (Verdict.PASS, Verdict.PASS)),
    ):
        got = tuple(
            law.decide(State(), Spacing(), SHARED, backlog_bytes, tau_us, False, U32_MAX, U32_MAX, size)
            for size in (Size.SMALL, Size.LARGE)
        )
        assert got == wanted, (tau_us, backlog_bytes)


@given(u32, u32, st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_hit_waits_for_a_large_flow_and_no_random_number_decides(a: int, b: int, packets: list[bool]) -> None:
    """At p = 1/4: due at the 4th packet since the last drop or mark, forced at the 8th."""
    spacing, since = Spacing(), 0
    for large in packets:
        since += 1
        verdict = law.decide(State(u_q40=2**39), spacing, SHARED, 10**5, 15000, False, a, b, Size(large))
        hit = since >= 8 or (since >= 4 and large)
        assert verdict == (Verdict.DROP if hit else Verdict.PASS)
        since = 0 if hit else since


flows = st.builds(Flow, flow_bytes=u32, flow_last_us=u64)


@given(any_params, flows, st.builds(Share, share_mean_q6=st.integers(0, 2**38 - 1)), st.lists(st.tuples(u64, u64)))
@settings(deadline=None)
def test_counters_and_their_mean_stay_in_range(
    parameters: Params, flow: Flow, share: Share, packets: list[tuple[int, int]]
) -> None:
    """For any times and lengths; the model raises WidthError otherwise. A flow is large from its share on, and
    new if it had nothing."""
    for now_us, len_bytes in packets:
        size = law.arrival(flow, share, parameters, now_us, len_bytes)
        assert 0 <= flow.flow_bytes <= U32_MAX
        assert 0 <= share.share_mean_q6 < 2**38
        least = parameters.share_least_q16 / 65536
        if least == 0:
            assert size == Size.SMALL
        elif size == Size.NEW:
            assert flow.flow_bytes == min(len_bytes, U32_MAX)
        else:
            assert (size == Size.LARGE) == (flow.flow_bytes * 64 >= least * share.share_mean_q6)


def test_a_new_flow_is_spared_unless_all_are_new_or_the_queue_is_long() -> None:
    """At p = 1 every other packet is dropped or marked. Where all packets are the first of their flows, every second
    is."""
    sparing, certain = replace(SHARED, ecn_drop_us=90000), State(u_q40=U_ONE_Q40)

    def verdicts(parameters: Params, tau_us: int, sizes: list[Size]) -> list[Verdict]:
        spacing = Spacing()
        return [law.decide(certain, spacing, parameters, 10**5, tau_us, False, 0, 0, size) for size in sizes]

    for tau_us in (15000, 26250, 89999):  # also beyond the bounds in time
        assert verdicts(sparing, tau_us, [Size.SMALL, Size.NEW, Size.LARGE]) == [2, 0, 2]
        assert verdicts(sparing, tau_us, [Size.NEW] * 6) == [0, 2] * 3
    assert verdicts(sparing, 90000, [Size.NEW] * 3) == [2] * 3
    assert verdicts(replace(sparing, ecn_drop_us=0), 15000, [Size.NEW] * 3) == [2] * 3


def test_a_flow_is_new_until_it_has_sent_and_after_a_silence() -> None:
    flow, share = Flow(), Share()
    assert law.arrival(flow, share, SHARED, 10**9, 60) == Size.NEW
    assert law.arrival(flow, share, SHARED, 10**9 + 1000, 60) != Size.NEW
    assert law.arrival(flow, share, SHARED, 10**9 + 10 * 2**SHARED.share_shift, 60) == Size.NEW


def test_what_a_flow_has_sent_halves_and_a_clock_gone_back_does_not_clear_it() -> None:
    flow, share = Flow(), Share()
    law.arrival(flow, share, SHARED, 10**9, 60000)
    half_us = 2**SHARED.share_shift
    law.arrival(flow, share, SHARED, 10**9 + half_us - 1, 0)
    assert flow.flow_bytes == 60000
    law.arrival(flow, share, SHARED, 10**9 + 2 * half_us, 0)
    assert flow.flow_bytes == 15000
    law.arrival(flow, share, SHARED, 10**9, 0)
    assert flow == Flow(15000, 10**9)
    law.arrival(flow, share, SHARED, 10**9 + 32 * half_us, 7)
    assert flow == Flow(7, 10**9 + 32 * half_us)


def test_the_flow_that_sends_most_is_large_and_the_others_are_not() -> None:
    """Ten flows of which one sends three times as much; of equal ones all are, at a share of 1.0 of the mean."""
    for weights, wanted in (([3] + [1] * 9, {0}), ([1] * 10, set(range(10)))):
        table, share, large, now_us = [Flow() for _ in weights], Share(), set(), 0
        for round_ in range(400):
            for number, weight in enumerate(weights):
                for _ in range(weight):
                    now_us += 1200
                    if law.arrival(table[number], share, SHARED, now_us, 1500) == Size.LARGE and round_ >= 200:
                        large.add(number)
        assert large == wanted


def test_marks_go_by_the_mean_of_a_swinging_u() -> None:
    """U swings over the bound and back. Its mean stays below, so every ECT packet is marked, not dropped; by U itself
    half of them are drops. Beyond `ecn_drop_us` they are drops all the same."""
    verdicts = {}
    for weight in (0, 6):
        parameters, state = replace(PAPER, ecn_bound_q32=2**30, ecn_weight_shift=weight, ecn_drop_us=50000), State()
        law.update(state, parameters, 0, 0)
        seen = []
        for k in range(1, 400):
            state.u_q40 = 2**38 // 10 if k % 2 else 3 * 2**37
            law.update(state, parameters, 15000 * k, 15000)
            seen.append(law.decide(state, Spacing(), parameters, 10**5, 15000, True, 0, 0))
            if weight:
                assert law.decide(state, Spacing(), parameters, 10**5, 50000, True, 0, 0) == Verdict.DROP
        verdicts[weight] = seen[200:]
    assert set(verdicts[6]) == {Verdict.MARK}
    assert set(verdicts[0]) == {Verdict.MARK, Verdict.DROP}


@pytest.mark.parametrize("tau_us", [1, 15000, 26250, 89999])
def test_marks_are_spaced_by_the_mean_whatever_the_delay_is(tau_us: int) -> None:
    """Neither the least delay nor the bounds in time count for them, and a U of 1 is no drop. Others pay as ever."""
    smooth = replace(SHARED, ecn_weight_shift=6, ecn_drop_us=90000, ecn_bound_q32=P_ONE_Q32, min_delay_us=12000)
    state, spacing = State(u_q40=U_ONE_Q40, u_ecn_q40=U_ONE_Q40 // 2), Spacing()
    packets = [law.decide(state, spacing, smooth, 10**5, tau_us, True, 0, 0, Size.LARGE) for _ in range(8)]
    assert packets == [Verdict.PASS, Verdict.PASS, Verdict.PASS, Verdict.MARK] * 2
    other = law.decide(state, spacing, smooth, 10**5, tau_us, False, 0, 0, Size.LARGE)
    assert other == (Verdict.DROP if tau_us >= 12000 else Verdict.PASS)
    assert law.decide(state, spacing, smooth, 10**5, 90000, True, 0, 0, Size.LARGE) == Verdict.DROP


@pytest.mark.parametrize("spaced", [False, True])
def test_packets_are_marked_as_often_as_others_are_dropped(spaced: bool) -> None:
    parameters = replace(RFC_SPACED if spaced else PLAIN, ecn_bound_q32=2**32)
    counts, random = [], Random(3)
    for ect in (False, True):
        state, spacing = State(u_q40=2**38, u_ecn_q40=2**38), Spacing()
        drawn = ((random.getrandbits(32), random.getrandbits(32)) for _ in range(20000))
        verdicts = [law.decide(state, spacing, parameters, 10**6, 10**5, ect, a, b) for a, b in drawn]
        assert set(verdicts) == {Verdict.PASS, Verdict.MARK if ect else Verdict.DROP}
        counts.append(sum(verdict != Verdict.PASS for verdict in verdicts))
    assert counts[1] / counts[0] == pytest.approx(1, rel=0.12)


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
        law.decide(State(), Spacing(), PAPER, 0, 0, False, 2**32, 0)


def test_a_state_starts_all_zero() -> None:
    assert not any(astuple(State()) + astuple(Rate()) + astuple(Spacing()) + astuple(Flow()) + astuple(Share()))
