# SPDX-License-Identifier: Apache-2.0
"""Step response and oscillation of a queue over time.

Pure: arrays in, numbers out. Figures that a run has nothing to measure by are None.

A step is a change of the link, or a group of flows that starts or stops, after the warm-up. A step's phase lasts to the
next step or the run's end. A rate that follows a file is no step: it never stands still.

Settling time is that of the control literature, the time after which the output stays within a band, made fit for a
queue whose steady state is noisy. The output is the queue's delay and what the link carries, both as means over the
half second that follows. They are within the band while the delay is at most one and a half times the reference target
(for all disciplines alike, so that one that stands still at a high delay has not settled) and the link carries at least
nine tenths of the capacity in force (a queue that is empty because the senders were driven off is not under control
either; scenarios with steps have long flows that fill the link). Settled is the queue at the first moment from which on
it is within the band for a whole second and for nine tenths of the rest of the phase. Where there is no such moment the
settling time is the phase's length, and the step counts as not settled.

Overshoot is how far the delay, as means over a fifth of a second, comes above the reference target between the step and
the time when it has settled or should have, whichever is later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weirlab.lab.rates import Capacity

BIN_S = 0.05
SMOOTH_S = 0.5
PEAK_S = 0.2
BAND_TARGETS = 1.5
BAND_USE = 0.9
HOLD_S = 1.0
STAY_SHARE = 0.9
LIMIT_S = 2.0
LIMIT_ROUND_TRIPS = 10
TOGETHER_S = 0.1  # steps closer than this are one
FCT_LAST_S = 5.0  # short transfers that begin so late are not counted: too many of them could not have ended
SPECTRUM_BIN_S = 0.02
SPECTRUM_LEAST_S = 8.0  # of measured time; with less there is no telling a swing from noise
SEGMENT_MOST_S = 16.0
LEAST_CYCLES = 4  # a segment of the spectrum has so many of the slowest swing looked for
FLOOR_OCTAVES = 1.5
STEPS_PER_OCTAVE = 24
PEAK_MOST_HZ = 10.0


@dataclass(frozen=True)
class Step:
    """One step and its phase, in s from the run's start; `limit_s` is its limit for settling."""

    at_s: float
    end_s: float
    limit_s: float


@dataclass(frozen=True)
class Response:
    """Response to a step."""

    settling_s: float
    settled: bool
    in_time: bool
    overshoot_ms: float


@dataclass(frozen=True)
class Peak:
    """The highest peak of a spectrum over its floor: how many times the floor, where, and the root mean square of the
    part above the floor there."""

    ratio: float
    hz: float
    rms_ms: float


def steps_of(spec: Mapping[str, Any]) -> list[Step]:
    """A run's steps after warm-up whose phase is long enough (HOLD_S) to see anything settle."""
    begin_s, end_s = spec["warmup_s"], spec["duration_s"]
    times = [change["at_s"] for change in spec.get("changes", ())]
    times += [flow[key] for flow in spec["flows"] for key in ("start_s", "stop_s")]
    at: list[float] = []
    for time_s in sorted(times):
        if max(begin_s, TOGETHER_S) <= time_s < end_s and not (at and time_s - at[-1] <= TOGETHER_S):
            at.append(time_s)
    return [
        Step(first, last, max(LIMIT_S, LIMIT_ROUND_TRIPS * round_trip_s(spec, first)))
        for first, last in pairwise([*at, end_s])
        if last - first >= HOLD_S
    ]


def round_trip_s(spec: Mapping[str, Any], at_s: float) -> float:
    """The longest round trip of a flow with nobody in its way, at that time."""
    delay_ms = spec["link"]["bottleneck"]["delay_ms"]
    for change in sorted(spec.get("changes", ()), key=lambda change: change["at_s"]):
        if change["at_s"] <= at_s and change.get("delay_ms") is not None:
            delay_ms = change["delay_ms"]
    extra_ms = max((flow.get("extra_rtt_ms", 0.0) for flow in spec["flows"]), default=0.0)
    return (2 * (delay_ms + spec["link"]["access"]["delay_ms"]) + extra_ms) / 1e3


def capacity_bits(spec: Mapping[str, Any], begin_s: float, end_s: float) -> float:
    """Capacity of the bottleneck between two times, its rate changing as in the scenario."""
    if rates := spec["link"].get("line", spec["link"]["bottleneck"]).get("rates"):
        return Capacity(rates, spec["duration_s"]).bits(begin_s, end_s)
    rate_mbit_s, bits, at_s = spec["link"]["bottleneck"]["rate_mbit_s"], 0.0, begin_s
    for change in sorted(spec.get("changes", ()), key=lambda change: change["at_s"]):
        if change.get("rate_mbit_s") is not None:
            until_s = min(max(change["at_s"], at_s), end_s)
            bits += rate_mbit_s * 1e6 * (until_s - at_s)
            rate_mbit_s, at_s = change["rate_mbit_s"], until_s
    return bits + rate_mbit_s * 1e6 * (end_s - at_s)


def binned(t_us: np.ndarray, values: np.ndarray, begin_s: float, end_s: float, bin_s: float) -> tuple[np.ndarray, ...]:
    """Mean and sum of the events in each bin between two times; the mean is 0 where nothing did: an empty queue."""
    bins = max(1, int((end_s - begin_s) / bin_s + 1e-9))
    place = np.floor((t_us / 1e6 - begin_s) / bin_s).astype(int)
    inside = (place >= 0) & (place < bins)
    sums = np.bincount(place[inside], weights=values[inside], minlength=bins)
    counts = np.bincount(place[inside], minlength=bins)
    return np.divide(sums, counts, out=np.zeros(bins), where=counts > 0), sums


def ahead(values: np.ndarray, bins: int) -> np.ndarray:
    """The mean over each value and those that follow it, `bins` in all; fewer at the end."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    first = np.arange(len(values))
    last = np.minimum(first + bins, len(values))
    return (sums[last] - sums[first]) / (last - first)


def response(delay_ms: np.ndarray, use: np.ndarray, target_ms: float, limit_s: float) -> Response:
    """Step response of a queue: its delay, and the share of the present capacity that the link carried, in each BIN_S
    of the step's phase."""
    smooth = round(SMOOTH_S / BIN_S)
    delay, use = (ahead(values, smooth) for values in (delay_ms, use))
    within = (delay <= BAND_TARGETS * target_ms) & (use >= BAND_USE)
    hold = round(HOLD_S / BIN_S)
    holds = ahead(within.astype(float), hold)[: len(within) - hold + 1] > 1 - 0.5 / hold
    rest = np.cumsum(within[::-1])[::-1] / np.arange(len(within), 0, -1)
    found = np.flatnonzero(holds & (rest[: len(holds)] >= STAY_SHARE))
    phase_s = len(delay_ms) * BIN_S
    settling_s = float(found[0] * BIN_S) if len(found) else phase_s
    transient = max(1, round(max(settling_s, limit_s) / BIN_S))
    peak_ms = float(ahead(delay_ms, round(PEAK_S / BIN_S))[:transient].max())
    in_time = bool(len(found)) and settling_s <= limit_s
    return Response(settling_s, bool(len(found)), in_time, max(0.0, peak_ms - target_ms))


def responses(
    t_us: np.ndarray, delay_us: np.ndarray, size_bytes: np.ndarray, spec: Mapping[str, Any]
) -> list[tuple[Step, Response]]:
    """A run's steps and their responses, from departures of the queue under test."""
    found = []
    for step in steps_of(spec):
        delay_ms, _ = binned(t_us, delay_us / 1e3, step.at_s, step.end_s, BIN_S)
        _, carried_bytes = binned(t_us, size_bytes, step.at_s, step.end_s, BIN_S)
        starts_s = step.at_s + BIN_S * np.arange(len(carried_bytes))
        room_bits = np.array([capacity_bits(spec, at_s, at_s + BIN_S) for at_s in starts_s])
        # A link that can carry nothing for a while is in full use.
        use = np.divide(carried_bytes * 8, room_bits, out=np.ones(len(room_bits)), where=room_bits > 0)
        found.append((step, response(delay_ms, use, spec["reference_target_ms"], step.limit_s)))
    return found


def quiet_stretch_s(spec: Mapping[str, Any]) -> tuple[float, float]:
    """The longest time after warm-up without a step in it, without the settling limit of a step."""
    steps = steps_of(spec)
    first = steps[0].at_s if steps else spec["duration_s"]
    stretches = [(spec["warmup_s"], first)]
    stretches += [(min(step.at_s + step.limit_s, step.end_s), step.end_s) for step in steps]
    return max(stretches, key=lambda stretch: stretch[1] - stretch[0])


def spectral_peak(values_ms: np.ndarray, bin_s: float = SPECTRUM_BIN_S) -> Peak | None:
    """The highest peak of a course's spectrum over its floor; None where the course is too short or does not move.

    The spectrum is Welch's (Hann, linear trend taken out, segments of half the course but at most SEGMENT_MOST_S that
    overlap by three quarters). A queue's delay is red noise: its floor falls with the frequency, so each frequency's is
    the median over FLOOR_OCTAVES to either side on a logarithmic scale. Noise alone gives peaks of 2 to 5 times the
    floor, a course of 25 s; a swing that lasts gives tens and more.
    """
    if len(values_ms) * bin_s < SPECTRUM_LEAST_S or np.ptp(values_ms) < 1e-6:
        return None
    from scipy import signal  # here, because it takes longer to load than most of what is read

    segment = min(round(SEGMENT_MOST_S / bin_s), len(values_ms) // 2)
    hz, density = signal.welch(
        values_ms, fs=1 / bin_s, nperseg=segment, noverlap=segment * 3 // 4, detrend="linear", window="hann"
    )
    segment_s = segment * bin_s
    spread = 2.0**FLOOR_OCTAVES
    lowest, highest = LEAST_CYCLES / segment_s, min(PEAK_MOST_HZ, 0.5 / bin_s / spread)
    reach = round(FLOOR_OCTAVES * STEPS_PER_OCTAVE)
    grid_hz = (
        lowest
        / spread
        * 2.0 ** (np.arange(0, np.log2(highest / lowest * spread**2) * STEPS_PER_OCTAVE) / STEPS_PER_OCTAVE)
    )
    on_grid = np.exp(np.interp(np.log(grid_hz), np.log(hz[1:]), np.log(np.maximum(density[1:], 1e-12))))
    windows = np.lib.stride_tricks.sliding_window_view(on_grid, 2 * reach + 1)
    floor, middle, at_hz = np.median(windows, axis=1), on_grid[reach:-reach], grid_hz[reach:-reach]
    highest_at = int(np.argmax(middle / floor))
    peak_hz = float(at_hz[highest_at])
    near = np.abs(hz - peak_hz) <= 2 / segment_s + 1e-9
    above = np.maximum(density[near] - floor[highest_at], 0.0).sum() * (hz[1] - hz[0])
    return Peak(float(middle[highest_at] / floor[highest_at]), peak_hz, float(np.sqrt(above)))


def course_metrics(
    t_us: np.ndarray, delay_us: np.ndarray, size_bytes: np.ndarray, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """The figures of this page for one run, from departures of the queue under test."""
    found: dict[str, Any] = {}
    answers = responses(t_us, delay_us, size_bytes, spec)
    if answers:
        settling_s = [answer.settling_s for _, answer in answers]
        overshoot_ms = [answer.overshoot_ms for _, answer in answers]
        found |= {
            "steps_count": len(answers),
            "settled_share": float(np.mean([answer.in_time for _, answer in answers])),
            "settling_mean_s": float(np.mean(settling_s)),
            "settling_max_s": max(settling_s),
            "overshoot_mean_ms": float(np.mean(overshoot_ms)),
            "overshoot_max_ms": max(overshoot_ms),
        }
        for number, (step, answer) in enumerate(answers, start=1):
            found[f"step_{number}_at_s"] = step.at_s
            found[f"step_{number}_settling_s"] = answer.settling_s
            found[f"step_{number}_settled"] = int(answer.settled)
            found[f"step_{number}_overshoot_ms"] = answer.overshoot_ms
    begin_s, end_s = quiet_stretch_s(spec)
    delay_ms, _ = binned(t_us, delay_us / 1e3, begin_s, end_s, SPECTRUM_BIN_S)
    peak = spectral_peak(delay_ms)
    if peak:
        found |= {
            "spectral_peak_ratio": peak.ratio,
            "spectral_peak_hz": peak.hz,
            "spectral_peak_rms_ms": peak.rms_ms,
        }
    return found


def fct_metrics(
    bytes_each: np.ndarray, fct_us: np.ndarray, still: np.ndarray, classes: Sequence[tuple[str, float]]
) -> dict[str, Any]:
    """Completion times of short transfers, of all and by size: `classes` are names and the sizes that they go up to.

    Those `still` under way at the end count with their age then, which is less than they will take: left out, a
    discipline that holds transfers up would look the faster for it.
    """
    found: dict[str, Any] = {"fct_count": len(fct_us)}
    if len(fct_us):
        found["fct_unfinished_percent"] = 100 * float(np.mean(still))
    chosen = {"": np.ones(len(fct_us), dtype=bool)}
    above = 0.0
    for name, most_bytes in classes:
        chosen[f"{name}_"] = (bytes_each > above) & (bytes_each <= most_bytes)
        above = most_bytes
    for name, these in chosen.items():
        if these.any():
            found[f"fct_{name}mean_ms"] = float(fct_us[these].mean()) / 1e3
            found[f"fct_{name}p95_ms"] = float(np.quantile(fct_us[these], 0.95)) / 1e3
    return found
