# SPDX-License-Identifier: Apache-2.0
"""The fluid in the time domain, driven by the golden law itself: every row, clamp, share and threshold of it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import law
from ..gains import Gains
from .fluid import Plant, decrease, growth
from .loop import SIGNALS

BURST_PACKETS = 2
"""A delayed acknowledgement lets two packets go at once: a queue of packets moves in steps of so many."""
_NO_RATE = 1.0
"""Packets per second below which nothing is sent; keeps divisions finite."""


@dataclass(frozen=True)
class Change:
    """At `at_s` these become otherwise; None stays. unresponsive_bit_s: traffic that yields to nothing."""

    at_s: float
    capacity_bit_s: float | None = None
    rtt_s: float | None = None
    flows: float | None = None
    unresponsive_bit_s: float | None = None


@dataclass(frozen=True)
class Trace:
    """One row each step of dt: time, queue delay (of the packet arriving now), U, drop probability, mean window, row.

    sent_bit_s: rate of departures.
    """

    t_s: np.ndarray
    queue_delay_s: np.ndarray
    u: np.ndarray
    p: np.ndarray
    window_packets: np.ndarray
    row: np.ndarray
    sent_bit_s: np.ndarray


def simulate(
    plant: Plant,
    gains: Gains,
    seconds: float,
    changes: Sequence[Change] = (),
    dt_s: float = 0.001,
    start: str = "rest",
    signal: str = "rate",
    limit_packets: float = 1000,
    least_window: float = 1.0,
    initial_window: float = 10.0,
    seed: int | None = None,
) -> Trace:
    """Run `plant` under the law for `seconds`.

    start: "rest" is the operating point, "empty" is an empty queue and windows of `initial_window`, as flows begin that
    join at a change (slow start is not modelled). seed: None is the fluid, which loses the mean; a number draws the
    losses, each of which takes its part of one flow's window, and what the law sees moves by whole bursts of packets:
    the noise a real queue has (flows are rounded then). Without the latter a high kd looks better than it is.
    Losses are felt R after they are made. A change of capacity reaches Eq. 1 through its average over 2^dq_shift bytes.
    60 s of the fluid take about a third of a second.
    """
    _check(start, signal, seconds, dt_s)
    params = gains.to_params()
    squared = bool(params.squared)
    packet_bytes, cc, part = plant.packet_bytes, plant.cc, decrease(plant.cc)
    capacity, base_rtt_s, flows, unresponsive = plant.packets_s, plant.rtt_s, plant.flows, 0.0
    drawn = random.Random(seed) if seed is not None else None
    if drawn is not None:
        flows = float(max(1, round(flows)))

    target_s = gains.target_us / 1e6
    point = plant.operating_point(target_s, squared)
    dt_us = dt_s * 1e6
    state = law.State()
    law.update(state, params, 0, 0)
    if start == "rest" and point.fills:
        window, queue, u = point.window_packets, target_s * capacity, min(point.u, 1.0)
        _rest(state, u)
    else:
        window, queue = (point.window_packets, 0.0) if start == "rest" else (initial_window, 0.0)
    own = [window] * int(flows) if drawn is not None else []

    steps = round(seconds / dt_s)
    times = np.arange(steps) * dt_s
    pending = sorted(changes, key=lambda change: change.at_s)
    reach = params.dq_weight_shift
    seconds_per_packet = 1 / capacity  # Eq. 1's average, read as known from the start
    delays, us, ps, windows, sent = ([0.0] * steps for _ in range(5))
    rtts, rows = [0.0] * steps, [0] * steps

    for i in range(steps):
        t_s = i * dt_s
        while pending and pending[0].at_s <= t_s:
            change = pending.pop(0)
            if change.capacity_bit_s is not None:
                capacity = change.capacity_bit_s / (8 * packet_bytes)
            if change.rtt_s is not None:
                base_rtt_s = change.rtt_s
            if change.unresponsive_bit_s is not None:
                unresponsive = change.unresponsive_bit_s / (8 * packet_bytes)
            if change.flows is not None:
                if drawn is not None:
                    count = max(1, round(change.flows))
                    own = own[:count] + [initial_window] * (count - len(own))
                    flows, window = float(count), sum(own) / count
                else:
                    joined = max(0.0, change.flows - flows)
                    window = (window * (change.flows - joined) + initial_window * joined) / change.flows
                    flows = change.flows

        delay_s = queue / capacity
        rtt_s = base_rtt_s + delay_s
        rtts[i], delays[i], windows[i] = rtt_s, delay_s, window

        # The law: Eq. 1's average, then a step if one is due, then the verdict's thresholds.
        keep = (1 - 2.0**-reach) ** (capacity * dt_s * packet_bytes / 2**params.dq_shift) if reach else 0.0
        seconds_per_packet = keep * seconds_per_packet + (1 - keep) / capacity
        # A sojourn is as old as it is long: of the packet that leaves now.
        tau_s = queue * seconds_per_packet if signal == "rate" else delays[max(0, i - round(delay_s / dt_s))]
        if drawn is not None:  # whole packets, the mean as it was
            seen = tau_s * capacity + BURST_PACKETS * (drawn.random() - 0.5) + 0.5
            tau_s = max(0, math.floor(seen)) / capacity
        law.update(state, params, round(i * dt_us), min(round(tau_s * 1e6), law.TAU_MAX_US))
        u = state.u_q40 / law.U_ONE_Q40
        passes = _passes(params, queue * packet_bytes, queue * seconds_per_packet * 1e6)
        p = 0.0 if passes else u * u if squared else u
        us[i], ps[i], rows[i] = u, p, state.row

        # The queue.
        offered = flows * window / rtt_s + unresponsive
        before, entering = queue, offered * (1 - p) if plant.drops else offered
        queue = max(0.0, queue + (entering - capacity) * dt_s)
        over = 0.0
        if queue > limit_packets:
            over = (queue - limit_packets) / max(entering, _NO_RATE) / dt_s
            queue = float(limit_packets)
        ps[i] = p = min(1.0, p + over)
        sent[i] = min(capacity, before / dt_s + entering) * packet_bytes * 8

        # The windows, which feel the losses of a round trip ago.
        j = i - round(rtt_s / dt_s)
        lost, was_window, was_rtt_s = (ps[j], windows[j], rtts[j]) if j >= 0 else (ps[0], windows[0], rtts[0])
        lost = min(1.0, lost + plant.loss)
        if drawn is None:
            gain = growth(cc, window, rtt_s)[0]
            loss_rate = lost * was_window / was_rtt_s
            window = max(least_window, window + (gain - part * window * loss_rate) * dt_s)
        elif lost or i % 8 == 0:
            # Growth every eighth step is fine enough for a window and eight times cheaper with many flows.
            if i % 8 == 0:
                own = [w + growth(cc, w, rtt_s)[0] * 8 * dt_s for w in own]
            expected = lost * was_window / was_rtt_s * flows * dt_s
            _lose(drawn, own, _poisson(drawn, expected), part, least_window)
            window = sum(own) / flows
    return Trace(times, *(np.array(column) for column in (delays, us, ps, windows, rows, sent)))


def _check(start: str, signal: str, seconds: float, dt_s: float) -> None:
    if start not in ("rest", "empty"):
        raise ValueError(f'start = {start!r}: must be "rest" or "empty"')
    if signal not in SIGNALS:
        raise ValueError(f"signal = {signal!r}: must be one of {', '.join(SIGNALS)}")
    if not 0 < dt_s <= 0.05 or not seconds >= dt_s:
        raise ValueError(f"dt_s = {dt_s!r}, seconds = {seconds!r}: must be above 0 .. 0.05, and at least dt_s")


def _rest(state: law.State, u: float) -> None:
    """As after a long time at the target."""
    state.u_q40 = round(u * law.U_ONE_Q40)
    state.o1_us = state.o2_us = 0


def _passes(params: law.Params, backlog_bytes: float, delay_us: float) -> bool:
    """Whether the law's thresholds let every packet through."""
    return backlog_bytes < params.min_backlog_bytes or delay_us < params.min_delay_us


def _lose(drawn: random.Random, windows: list[float], losses: int, part: float, least: float) -> None:
    """Each loss takes its part of the window of one flow, of a larger window the likelier."""
    for _ in range(losses):
        hit = drawn.choices(range(len(windows)), windows)[0]
        windows[hit] = max(least, windows[hit] * (1 - part))


def _poisson(drawn: random.Random, mean: float) -> int:
    """Knuth's way: means here are far below 30."""
    if mean <= 0:
        return 0
    edge, product, count = math.exp(-min(mean, 30.0)), drawn.random(), 0
    while product > edge:
        product *= drawn.random()
        count += 1
    return count
