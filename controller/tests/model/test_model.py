# SPDX-License-Identifier: Apache-2.0
"""The fluid model, its margins and its simulation: known answers, python-control beside them, time beside frequency."""

import math
from dataclasses import replace

import control
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.model import loop
from weir.model.fluid import FORMS, Plant, growth, window_packets
from weir.model.margins import margins, of_response
from weir.model.simulate import Change, simulate
from weir.resources import PROFILES
from weir.settings import load

TUNED = load(PROFILES / "tuned.toml")
PAPER = load(PROFILES / "paper.toml")
CALM = replace(TUNED, interval_us=5000, kp=1.0, ki=0.05, kd=1.0)
"""Gains low enough for a loop with margins."""
TABLE2 = Plant(10e6, 0.102, 10)

plants = st.builds(
    Plant,
    capacity_bit_s=st.floats(1e6, 1e9),
    rtt_s=st.floats(0.005, 0.3),
    flows=st.floats(1, 100),
    cc=st.sampled_from(["reno", "cubic"]),
    drops=st.booleans(),
)


def test_hollots_pi_design_has_its_margins():
    """Hollot TAC'02: N = 60, C = 3750 packet/s, R = 0.246 s; the design by its plant without the delayed window."""
    plant = Plant(3750 * 8 * 500, 0.246, 60, packet_bytes=500, drops=False)

    def response(s):
        return -9.64e-6 * (s / 0.53 + 1) / s * plant.response(s, 0.0, "hollot") * plant.packets_s

    found = of_response(response, 0.246, 1000.0)
    assert found.phase_margin_deg == pytest.approx(75.3, abs=0.05)
    assert found.crossover_rad_s == pytest.approx(0.521, abs=0.0005)
    assert 10 ** (found.gain_margin_db / 20) == pytest.approx(8.80, abs=0.01)
    assert found.stable


@pytest.mark.parametrize("plant", [TABLE2, Plant(50e6, 0.02, 5, cc="cubic"), Plant(2e6, 0.16, 3)])
@pytest.mark.parametrize("row", [1, 5])
def test_margins_are_those_of_python_control(plant, row):
    found = margins(plant, CALM, row=row)
    omega = np.geomspace(1e-3, math.pi / loop.interval_s(plant, CALM), 6000)
    data = control.FRD(loop.open_loop(plant, CALM, 1j * omega, row=row), omega)
    gain, phase, _, at_phase, at_gain, _ = control.stability_margins(data)
    assert (found.gain_margin_db is None) == (gain == math.inf)
    assert found.phase_margin_deg == pytest.approx(phase, abs=0.05)
    assert found.crossover_rad_s == pytest.approx(at_gain, rel=1e-3)
    if gain < math.inf:
        assert found.gain_margin_db == pytest.approx(20 * math.log10(gain), abs=0.02)
        assert found.phase_crossover_rad_s == pytest.approx(at_phase, rel=1e-3)


def test_the_sampled_loop_is_that_of_python_controls_hold():
    """The sum over aliases beside an exact discretisation; the dead time a whole number of steps, then python-control
    has it exactly as well."""
    gains = replace(CALM, interval_us=13000)
    plant = replace(TABLE2, rtt_s=9 * 0.013 - 0.015, drops=False)
    point = plant.operating_point(0.015, True)
    restore, queue = 2 * point.growth_per_s / point.window_packets, 1 / point.rtt_s
    s = control.tf("s")
    by_p = -plant.flows * point.window_packets**2 / (2 * point.rtt_s**2 * plant.packets_s)
    held = control.c2d(by_p / ((s + restore) * (s + queue)), 0.013, "zoh")
    z = control.tf([1, 0], [1], 0.013)
    law = gains.kp + gains.ki / (1 - 1 / z) + gains.kd * (1 - 1 / z)
    exact = -2 * point.u * law * held / z**9
    omega = np.geomspace(0.01, 200, 50)
    ours = loop.open_loop(plant, gains, 1j * omega, form="hollot", aliases=40)
    theirs = exact(np.exp(1j * omega * 0.013))
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    np.testing.assert_allclose(loop.open_loop(plant, gains, 1j * omega, form="hollot"), theirs, rtol=5e-3)


@pytest.mark.parametrize(("signal", "late_s"), [("rate", 0.0), ("sojourn", 0.017)])
def test_what_drops_thin_at_once_is_sampled_as_a_long_sum_has_it(signal, late_s):
    gains = replace(CALM, target_us=17000)  # no whole number of steps
    heavy = replace(TABLE2, flows=60)
    period_s = loop.interval_s(heavy, gains)
    omega = np.array([0.5, 20, 300, 0.999 * math.pi / period_s])
    shifted = 1j * omega[:, None] + 2j * np.pi / period_s * np.arange(-3000, 3001)
    terms = heavy.response(shifted, 0.017) / shifted * np.exp(-shifted * late_s)
    u = heavy.operating_point(0.017, True).u
    long = np.sum(terms, axis=-1) * (1 - np.exp(-1j * omega * period_s)) / period_s
    long = -2 * u * loop.controller(gains, 1j * omega, period_s) * long
    np.testing.assert_allclose(loop.open_loop(heavy, gains, 1j * omega, signal=signal), long, rtol=3e-4)


def test_a_queue_that_drops_most_swings_with_every_step():
    """Beyond one the gain within a step turns each answer around: half the sampling frequency, bounded by U's ends."""
    heavy = Plant(10e6, 0.02, 60, cc="cubic")
    steep = replace(TUNED, interval_us=5000, kp=60.0, ki=3.0, kd=64.0, z1=1.5)
    found = margins(heavy, steep)
    assert not found.stable
    assert found.phase_crossover_rad_s == pytest.approx(math.pi / 0.005)
    u = simulate(heavy, steep, 10, [Change(2, flows=61)]).u[5000::5]
    assert np.mean(np.abs(np.diff(u))) > 0.5


@given(plants, st.floats(0.001, 0.05))
def test_the_linearisation_is_the_slope_of_the_equations(plant, target_s):
    """At s = 0: where the flows balance at a p a little higher."""
    point = plant.operating_point(target_s, False)
    if not point.fills:
        return
    higher = plant.operating_point(target_s * 1.0001, False)
    measured = (0.0001 * target_s) / (higher.p - point.p)
    s = np.array([1e-9 / point.rtt_s])  # far below 2 over rtt and window, also where windows are of 20000 packets
    assert plant.response(s, target_s)[0].real == pytest.approx(measured, rel=0.01)


@given(plants, st.floats(1e-5, 0.9))
def test_load_from_probability_is_the_load_that_needs_it(plant, p):
    inferred = Plant.from_probability(plant.capacity_bit_s, plant.rtt_s, p, cc=plant.cc, drops=plant.drops)
    assert inferred.operating_point(0.015, False).p == pytest.approx(p, rel=1e-9)


@given(st.floats(1e-6, 1.0), st.floats(0.005, 0.4), st.sampled_from(["reno", "cubic"]))
def test_window_and_growth_are_each_others_inverse(p, rtt_s, cc):
    window = window_packets(cc, rtt_s, p)
    per_s, _ = growth(cc, window, rtt_s)
    assert per_s == pytest.approx((0.3 if cc == "cubic" else 0.5) * p * window**2 / rtt_s, rel=1e-9)


def test_settling_is_that_of_the_linear_loop_in_time():
    """The linear loop stepped: C(z) by its difference equation, the fluid of Hollot's form by small steps."""
    gains = replace(CALM, interval_us=10000, kp=1.5, ki=0.05)
    found = margins(TABLE2, gains, form="hollot")
    point = TABLE2.operating_point(0.015, True)
    restore, dt = 2 * point.growth_per_s / point.window_packets, 0.0005
    dead, hold = round(point.rtt_s / dt), round(0.010 / dt)
    window = queue_s = u = 0.0
    o1 = o2 = 0.0
    past, after = [0.0] * dead, []
    for i in range(round(20 / dt)):
        if i % hold == 0:
            o = queue_s + (0.001 if i else 0.0)  # a step of the reference by -1 ms
            u += gains.kp * (o - o1) + gains.ki * o + gains.kd * (o - 2 * o1 + o2)
            o1, o2 = o, o1
            after.append(abs(o))
        past.append(2 * point.u * u)
        delayed = past[i]
        window += dt * (-restore * window - point.window_packets**2 / (2 * point.rtt_s) * delayed)
        queue_s += dt * (TABLE2.flows / point.rtt_s * window / TABLE2.packets_s - queue_s / point.rtt_s)
    assert found.stable
    # The envelope's slope, from maxima over one second each, is the slowest mode's.
    peaks = np.array([max(after[k : k + 100]) for k in range(200, 1200, 100)])
    decay = -np.polyfit(np.arange(peaks.size), np.log(peaks), 1)[0]
    assert 4 / decay == pytest.approx(found.settling_s, rel=0.1)


def test_gain_margin_is_where_the_simulation_starts_to_swing():
    """The golden law around the nonlinear fluid, M2 out of the way so that one row rules; just inside and outside."""
    steady = replace(CALM, m2_us=200_000, m1_us=300_000, min_backlog_bytes=0, z3=0.9999)
    room = 10 ** (margins(TABLE2, steady).gain_margin_db / 20)

    def swing(scale: float) -> float:
        gains = replace(steady, kp=steady.kp * scale, ki=steady.ki * scale, kd=steady.kd * scale)
        trace = simulate(TABLE2, gains, 80, [Change(5, flows=10.5)])
        return float(np.std(trace.queue_delay_s[-10_000:]))

    assert swing(0.85 * room) < 0.0002
    assert swing(1.15 * room) > 0.002


def test_a_heavy_load_stalls_the_paper_and_not_the_integral():
    """docs/design/differences.md, PID-Delay 6: the queue stands where the rows without integral hold."""
    plant = replace(TABLE2, flows=50, cc="cubic")
    stalled = simulate(plant, PAPER, 40, start="empty").queue_delay_s[-5000:]
    kept = simulate(plant, replace(PAPER, integral="keep"), 40, start="empty").queue_delay_s[-5000:]
    assert stalled.min() > 0.04
    assert kept.mean() < 0.025


@given(plants, st.integers(0, 2**31), st.sampled_from(["rate", "sojourn"]))
def test_simulation_stays_physical(plant, seed, signal):
    limit = 200.0
    changes = [Change(1, flows=5), Change(1.5, capacity_bit_s=plant.capacity_bit_s / 3, rtt_s=0.05)]
    for one in (None, seed):
        trace = simulate(plant, TUNED, 2, changes, 0.005, "empty", signal, limit, seed=one)
        assert np.all(trace.queue_delay_s >= 0)
        assert np.all(trace.queue_delay_s <= limit / plant.packets_s * 3 + 1e-9)
        assert np.all((trace.p >= 0) & (trace.p <= 1) & (trace.u >= 0) & (trace.u <= 1))
        assert np.all(trace.window_packets >= 1)
        assert np.all(trace.sent_bit_s <= plant.capacity_bit_s * 1.0001)


@pytest.mark.parametrize("kp", [20.0, 80.0, 160.0, 400.0, 1600.0])
def test_an_unstable_loop_has_no_margin_that_looks_good(kp):
    """The angle of a law far too steep has turned by more than a circle where its gain is 1."""
    plant = Plant.from_probability(10e6, 0.1, 0.01, 1500, "cubic", queue_delay_s=0.015)
    found = margins(plant, replace(TUNED, kp=kp, ki=kp / 40, kd=0.0), u=0.1)
    assert not found.stable
    assert found.gain_margin_db < 0
    assert found.phase_margin_deg is None or found.phase_margin_deg < 0
    assert found.settling_s is None
    assert found.delay_margin_s is None


def test_no_queue_no_loop():
    found = margins(replace(TABLE2, loss=0.05), TUNED)
    assert found.stable
    assert found.phase_margin_deg is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Plant(0, 0.1, 1), "capacity_bit_s = 0"),
        (lambda: Plant(1e6, math.nan, 1), "rtt_s = nan"),
        (lambda: Plant(1e6, 0.1, 1, cc="bbr"), "cc = 'bbr'"),
        (lambda: Plant(1e6, 0.1, 1, loss=1.0), "loss = 1.0"),
        (lambda: Plant.from_probability(1e6, 0.1, 0.0), "p = 0.0"),
        (lambda: margins(TABLE2, TUNED, row=6), "row = 6"),
        (lambda: margins(TABLE2, TUNED, signal="guess"), "signal = 'guess'"),
        (lambda: TABLE2.response(np.array([1j]), 0.015, "pade"), "form = 'pade'"),
        (lambda: simulate(TABLE2, TUNED, 1, start="full"), "start = 'full'"),
        (lambda: simulate(TABLE2, TUNED, 1, dt_s=0), "dt_s = 0"),
    ],
)
def test_what_is_wrong_is_named(wrong, told):
    with pytest.raises(ValueError, match=told.replace("(", r"\(")):
        wrong()


def test_forms_agree_where_dead_time_is_short():
    s = np.array([0.01j])
    marked = replace(TABLE2, drops=False)
    answers = [marked.response(s, 0.015, form)[0] for form in FORMS]
    np.testing.assert_allclose(answers, answers[0], rtol=0.01)
