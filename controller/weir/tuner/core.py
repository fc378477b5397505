# SPDX-License-Identifier: Apache-2.0
"""One port's tuner: samples in, decisions out. Pure: the caller passes the time and does the writing.

A decision that carries gains is to be written at once; who can't, says so by `refused`, and the old gains are taken to
be in force. Whatever is in doubt changes nothing.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from ..dataplane.base import Sample
from ..gains import Gains
from . import design
from .decision import Decision, Effect, Settings, difference, matters, near_kept
from .design import Choice, Point
from .window import GAP_US, STEP, Faulty, Look, Stretch, Window

ASSUMED_RTT_S = 0.1
"""RFC 8033's assumption, where no round trip is given or seen."""
UNLIKE = 3.0
"""Two stretches whose share of drops differs by more than this factor met different loads."""
SETTLE_US = 1_000_000
"""After a change the flows find their new rates; what the queue does meanwhile says little of the gains."""
STRETCH_US = 3_000_000
WANTING, FULL = 0.75, 0.98
"""Between these shares of the line a queue that drops leaves it unused; below, there is nobody to use it."""
SPARE = 0.75
"""More of the target than this is not taken up for the sake of the line."""
EMPTY_SD, EMPTY_SD_LEAST = 2.2, 1.7
"""A queue whose mean delay is so many standard deviations is hardly ever empty: 99 to 99.9 % of the line are used at
2 to 2.5 (docs/design/differences.md, PID-Delay 24). Above the first there is delay to spare, below the second
line to lose."""
LOOK_HITS = 20
"""Each drop or mark is a tooth of TCP's saw."""
TARGET_STEP = 0.1
"""A target less than this share away is not worth a change."""
GATE_FACTOR_MOST = design.GATE_MOST / design.GATE
TRIAL_WAIT_US = 1_000_000
TRIAL_US = 8_000_000
"""Before and after the change alike: as many pieces of either are compared, and the window holds them (Window)."""
BETTER, ERRORS = 0.07, 2.5
"""What a trial must gain to be kept: so much, and so many standard errors of the difference of the means of pieces."""
PATIENCE_US = (10_000_000, 600_000_000)
"""Between trials that fail: the first wait, doubled each time up to the last."""
LOAD_EVERY_US = 4_000_000
"""Between changes that follow from the load alone."""
LOOK_US = 500_000
"""How often a port is thought about; each sample is looked at for its faults and its rate."""
HOLD_EVERY_US = 10_000_000
"""Doubts that follow each other are told once in this time."""
REFUSED_US = (1_000_000, 60_000_000)
LATE_US, LATE_PERIODS, DRIFT = 1_000_000, 2, 200e-6
"""A sample that comes so much later than the quickest one did (and by so many periods) tells of what has been; clocks
that drift apart by less than this don't make one late."""
LATE_MOST_US = 10_000_000


@dataclass
class _Trial:
    began_us: int
    before: Stretch
    costs_before: list[float]
    capacity_bit_s: float | None
    gains_before: Gains
    choice_before: Choice
    doomed: str | None = None


class Tuner:
    """A port's. `gains`: those in force, of which ECN's bound and Z are the operator's and stay, and the target, which
    is the most that the queue is held at; `previous`: those before the last change. target_us: the operator's, where a
    tuner before this one set another."""

    def __init__(
        self, settings: Settings, device: str, port: str, gains: Gains, now_us: int, target_us: int | None = None
    ):
        self.settings, self.device, self.port = settings, device, port
        self.window = Window()
        self.choice = Choice()
        self.stood_down = False
        self.is_lost = False
        self._took_over(gains, target_us)
        self._look = Look()
        self._looked_at: tuple[int | None, int] | None = None
        self._look_from_us = 0
        self._line_at_us: int | None = None
        self._no_lower_before_us = 0
        self._raised = self._raised_us = 0
        self._now_us = now_us
        self._rtt_s = ASSUMED_RTT_S if settings.rtt_s is None else settings.rtt_s
        self._rtt_source = "assumed" if settings.rtt_s is None else "given"
        self._changed_us: int | None = None
        self._line_bit_s: float | None = None
        self._begin_us: int | None = None
        self._mark: Sample | None = None
        self._p = 0.0
        self._look_us = 0
        self._held_us: int | None = None
        self._refused_us = REFUSED_US[0]
        self._not_before_us = 0
        self._trial: _Trial | None = None
        self._trials_failed = 0
        self._no_trial_before_us = 0
        self._seen: tuple[int, str, list[Choice]] | None = None
        self._changed_now_us: int | None = None
        self._heard: tuple[int, float] | None = None
        self._late_since_us: int | None = None

    def _took_over(self, gains: Gains, target_us: int | None = None) -> None:
        self.gains = self.previous = gains
        target_us = self.settings.target_us or target_us
        self.base = gains if target_us is None else dataclasses.replace(gains, target_us=target_us)
        self._aim_high()

    # ---- what happens ----

    def sample(self, sample: Sample, now_us: int) -> list[Decision | Effect]:
        """Takes a sample in and decides. `now_us`: when it came, by a clock that never goes back; the sample's own may
        be another. What waited in a queue until it was old is counted and not judged on."""
        if self.stood_down:
            return []
        late_us = self._late_us(sample.t_us, now_us)
        self._now_us = now_us
        if sample.trouble:  # what it says of the queue is not so
            self._begin_us = self._looked_at = None
            return self._doubt(sample.t_us, sample.trouble)
        try:
            new_capacity = self.window.add(sample)
        except Faulty as fault:
            self._begin_us = self._looked_at = None
            return self._doubt(sample.t_us, str(fault))
        if self.is_lost or len(self.window.samples) < 2:
            return []
        if late_us:
            if new_capacity:
                self._begin_us, self._p = None, 0.0
                self._aim_high()
            return self._doubt(sample.t_us, f"telemetry comes {late_us / 1e6:.1f} s late")
        if self._begin_us is None:
            self._begin_us, self._look_us, self._looked_at = sample.t_us, 0, None
        self._watch(sample)
        if new_capacity or self._mark is None or self._mark.t_us < self._begin_us:
            self._mark = sample
        elif sample.t_us < self._look_us:
            return []
        self._look_us = sample.t_us + LOOK_US
        point = self.point()
        if point is None:
            return []
        why = design.problem(point)
        if why:
            return self._doubt(sample.t_us, why)
        told: list[Decision | Effect] = []
        if new_capacity:
            self._begin_us, self._p, point = sample.t_us, 0.0, dataclasses.replace(point, p=0.0)
            self._raised = self._no_lower_before_us = 0
            self._line_at_us = sample.t_us
            if self._trial is not None:  # nothing to compare with any more; the new line is designed for below
                told = self._forget_trial(sample.t_us)
            self._aim_high()
        if 0 < self._not_before_us - sample.t_us <= REFUSED_US[1]:  # else of another beginning of its time
            return told
        if self._trial is not None:
            return self._judge(sample.t_us)
        wanted = self._design(point)
        if self.settings.phase_margin_deg is None:  # what is promised is not rounded off
            wanted = near_kept(self.gains, wanted)
        if matters(self.gains, wanted):
            if not self._may_change(sample.t_us, wanted):
                return told
            first = self._changed_us is None
            reason = (
                f"{'the line carries' if first else 'the line now carries'} {point.capacity_bit_s / 1e6:.3g} Mbit/s"
            )
            if point.p > 0:
                reason += f" and {100 * point.p:.2g} % must go"
            asked = self.settings.phase_margin_deg
            if asked is not None and not design.promises(point, wanted, asked):
                reason += f"; {asked:g} degrees can't be promised"
            return [*told, self._change(sample.t_us, "set", reason, wanted, point)]
        return told + self._review(sample.t_us, point)

    def rtt(self, rtt_us: int, source: str, now_us: int) -> None:
        """A round trip of this port's flows was seen. One that was given stands."""
        least_s, most_s = design.RTT_S
        if self.settings.rtt_s is None and least_s <= rtt_us / 1e6 <= most_s:
            self._rtt_s, self._rtt_source = rtt_us / 1e6, source

    def operator_set(self, gains: Gains, now_us: int) -> list[Decision | Effect]:
        """Somebody else set the gains: they are right until told otherwise."""
        if gains.to_params() == self.gains.to_params():
            return []
        changed = difference(self.gains, gains)
        told = self._forget_trial(now_us)
        self._took_over(gains, self.base.target_us if gains.target_us == self.gains.target_us else None)
        if self.stood_down:
            return told
        self.stood_down = True
        self.window.restart()
        reason = "an operator set these; the tuner leaves the port alone until it is restarted or gets SIGUSR1"
        return [*told, self._say(now_us, "stand-down", reason, changed)]

    def resume(self, now_us: int) -> list[Decision]:
        """The operator wants the tuner again; what he set is where it starts from."""
        if not self.stood_down:
            return []
        self.stood_down = False
        self._begin_us = None
        return [self._say(now_us, "resume", "requested; the gains in force stay until there is a reason")]

    def lost(self, now_us: int) -> list[Decision]:
        """The device does not answer."""
        if self.is_lost:
            return []
        self.is_lost = True
        self.window.restart()
        self._begin_us = None
        if self._trial is not None:  # what it did is not known: taken back as soon as the device is there again
            self._trial.doomed = self._trial.doomed or "telemetry was lost meanwhile"
        if self.stood_down:
            return []
        return [self._say(now_us, "hold", "no telemetry; the data plane goes on with the gains it has")]

    def back(self, gains: Gains, now_us: int, target_us: int | None = None) -> list[Decision | Effect]:
        """The device answers again, with these gains. target_us: the operator's, where they are a tuner's."""
        was_lost, self.is_lost = self.is_lost, False
        self.window.restart()
        self._begin_us = None
        if gains.to_params() == self.gains.to_params():
            if not was_lost or self.stood_down:
                return []
            which = "the last ones" if self._trial is None else "those of a trial, which is taken back"
            return [self._say(now_us, "resume", f"telemetry is back, and the gains are {which}")]
        told = self._forget_trial(now_us)
        self._took_over(gains, target_us)
        if self.stood_down:
            return told
        return [*told, self._say(now_us, "resume", "telemetry is back, with other gains; starting from those")]

    def refused(self, decision: Decision, why: str, now_us: int) -> list[Decision]:
        """`decision` could not be written: the gains before it are in force still."""
        self.gains = self.previous
        if self._trial is not None:
            self.choice, self._trial = self._trial.choice_before, None
        self._not_before_us = decision.t_us + self._refused_us
        self._refused_us = min(2 * self._refused_us, REFUSED_US[1])
        return [self._say(now_us, "hold", f"not written: {why}")]

    # ---- what is known ----

    def point(self) -> Point | None:
        """The operating point, None while the capacity is unknown."""
        measured = self.window.capacity_bit_s
        capacity = self.settings.capacity_bit_s or measured
        if capacity is None:
            return None
        told = self.window.share_hit(self._mark)
        if told is not None:
            self._p = told
        p = self._p
        return Point(capacity, self._rtt_s, p, self.window.packet_bytes() or 1500.0)

    def _watch(self, sample: Sample) -> None:
        """Looks at the queue from when it has settled after the last change of line or target; other gains hardly
        change how far it swings."""
        kind = self._line_at_us, self.gains.target_us
        if self._looked_at != kind:
            self._looked_at, self._look_from_us = kind, sample.t_us + SETTLE_US
            self._look.restart()
        if sample.t_us >= self._look_from_us:
            self._look.add(sample)

    def _targets_us(self) -> tuple[int, int]:
        """The least and the most that the law may be told to hold on this line."""
        wanted_us, capacity = self.base.target_us, self.settings.capacity_bit_s or self.window.capacity_bit_s
        if self.settings.hold_target or capacity is None:
            return wanted_us, wanted_us
        return design.targets_us(capacity, wanted_us)

    def _aim_high(self) -> None:
        """The most again: what was found below it was another line's or another target's."""
        most_us = self._targets_us()[1]
        self.choice = dataclasses.replace(self.choice, target_us=None if most_us == self.base.target_us else most_us)

    def _design(self, point: Point) -> Gains:
        wanted = design.gains_for(point, self.base, self.choice)
        if self.settings.phase_margin_deg is not None:
            wanted = design.with_margin(point, wanted, self.settings.phase_margin_deg)
        return wanted

    def _late_us(self, t_us: int, now_us: int) -> float:
        """How late a sample is, 0 if it is not. Increments of both clocks are compared: a switch's is its own."""
        last, behind_us = self.window.samples[-1] if self.window.samples else None, float(now_us - t_us)
        if self._heard is None or last is None or not 0 < t_us - last.t_us <= GAP_US:
            self._heard, self._late_since_us = (now_us, behind_us), None
            return 0.0
        heard_us, least_us = self._heard
        least_us += DRIFT * (now_us - heard_us)
        self._heard = now_us, min(least_us, behind_us)
        late_us = behind_us - least_us
        if late_us <= max(LATE_US, LATE_PERIODS * (t_us - last.t_us)):
            self._late_since_us = None
            return 0.0
        if self._late_since_us is None:
            self._late_since_us = now_us
        elif now_us - self._late_since_us >= LATE_MOST_US:  # no queue that empties: one of the clocks stood still
            self._heard, self._late_since_us = (now_us, behind_us), None
            return 0.0
        return late_us

    def _may_change(self, t_us: int, wanted: Gains | None = None) -> bool:
        """The line's rate is followed as soon as may be, the load with patience: it is told by few drops.

        By both clocks: samples that waited bring a minute in a moment.
        """
        if self._changed_us is None or self._changed_now_us is None:
            return True
        if self._now_us - self._changed_now_us < self.settings.at_most_every_s * 1e6:
            return False
        if t_us < self._changed_us:  # another beginning of the data plane's time
            return True
        since_us = t_us - self._changed_us
        if since_us < self.settings.at_most_every_s * 1e6:
            return False
        was_bit_s, now_bit_s = self._line_bit_s, self.window.capacity_bit_s
        if wanted is None or was_bit_s is None or now_bit_s is None:
            return True
        same_line = was_bit_s / (1 + STEP) < now_bit_s < was_bit_s * (1 + STEP)
        return not same_line or since_us >= LOAD_EVERY_US

    # ---- what is decided ----

    def _say(self, t_us: int, action: str, reason: str, changed: dict | None = None, **more: Any) -> Decision:
        return Decision(
            t_us, self.device, self.port, action, reason, changed=changed or {}, dry_run=self.settings.dry_run,
            capacity_bit_s=self.window.capacity_bit_s, rtt_ms=1e3 * self._rtt_s, rtt_source=self._rtt_source, **more,
        )  # fmt: skip

    def _change(self, t_us: int, action: str, reason: str, gains: Gains, point: Point | None) -> Decision:
        told = design.forecast(point, gains) if point is not None else design.Forecast()
        decision = dataclasses.replace(
            self._say(
                t_us, action, reason, difference(self.gains, gains), flows=told.flows, stable=told.stable,
                phase_margin_deg=told.phase_margin_deg, gain_margin_db=told.gain_margin_db, settling_s=told.settling_s,
            ),
            gains=None if self.settings.dry_run else gains,
        )  # fmt: skip
        self.previous, self.gains = (
            self.gains,
            gains,
        )  # in a dry run: what would be in force, so that nothing is told twice
        self._changed_us = self._begin_us = t_us
        self._changed_now_us = self._now_us
        self._line_bit_s = self.window.capacity_bit_s
        return decision

    def _doubt(self, t_us: int, why: str) -> list[Decision | Effect]:
        """Something is not as it should be: the last good gains stay, or come back if a trial is on."""
        if self._trial is not None:
            self._trial.doomed = self._trial.doomed or why
            return self._judge(t_us)
        if self._held_us is not None and 0 <= t_us - self._held_us < HOLD_EVERY_US:
            return []
        self._held_us = t_us
        return [self._say(t_us, "hold", f"{why}; the gains stay")]

    def written(self) -> None:
        """The last change is in force."""
        self._refused_us = REFUSED_US[0]

    # ---- trials ----

    def _review(self, t_us: int, point: Point) -> list[Decision | Effect]:
        """Nothing to set: does the queue show something that another choice might mend?"""
        if not self.settings.trials or self.settings.dry_run or self.settings.phase_margin_deg is not None:
            return []
        if self._begin_us is None or not self._may_change(t_us):
            return []
        sought = self._sought(t_us)
        if sought is not None:
            reason, self.choice = sought
            return [self._change(t_us, "set", reason, self._near(point), point)]
        if t_us - self._begin_us < SETTLE_US + STRETCH_US:
            return []
        stretch = self.window.since(t_us - STRETCH_US, self.base.target_us)
        if stretch is None or stretch.packets < 300 or stretch.p == 0:
            return []
        corrected = self._corrected(t_us, stretch)
        if corrected is not None:
            reason, self.choice = corrected
            gains = self._near(point)
            if gains != self.gains:
                return [self._change(t_us, "set", reason, gains, point)]
        if t_us < self._no_trial_before_us:
            return []
        if self._seen is None or self._seen[0] < self._begin_us:
            found = self._symptom(stretch)
            if found is None:
                self._no_trial_before_us = t_us + PATIENCE_US[0] // 10
            else:
                self._seen = t_us, *found
            return []
        seen_us, reason, choices = self._seen
        if t_us - seen_us < TRIAL_US:
            return []
        # Chance may have made it show: what the trial is compared with comes after it, and is not chosen by its looks
        self._seen = None
        stretch, costs = self._measured(seen_us, self.window.capacity_bit_s)
        if stretch is None:
            return []
        first = self._trials_failed % len(choices)
        for choice in choices[first:] + choices[:first]:
            gains = near_kept(self.gains, design.gains_for(point, self.base, choice))
            if gains != self.gains:
                break
        else:
            self._no_trial_before_us = t_us + PATIENCE_US[0]
            return []
        self._trial = _Trial(t_us, stretch, costs, self.window.capacity_bit_s, self.gains, self.choice)
        self.choice = choice
        return [self._change(t_us, "trial", reason, gains, point)]

    def _sought(self, t_us: int) -> tuple[str, Choice] | None:
        """Another target: the least that keeps the queue from running empty, by its own swing. That hardly depends on
        the target, so what is to spare can be taken off at once; never more than half of it.

        A swing is known from LOOK_HITS drops; that the queue runs empty is seen without.
        """
        looked = self._look.told(self.settings.capacity_bit_s or self.window.capacity_bit_s)
        if looked is None:
            return None
        seen, hits = looked
        if hits < LOOK_HITS and seen.delay_mean_us >= EMPTY_SD_LEAST * seen.delay_sd_us:
            return None
        self._look.restart()
        least_us, most_us = self._targets_us()
        now_us = self.gains.target_us
        mean_us, sd_us, used = seen.delay_mean_us, seen.delay_sd_us, seen.utilisation
        told = f"delay {mean_us / 1e3:.1f} ms, sd {sd_us / 1e3:.1f} ms"
        wanted_us = now_us - (mean_us - EMPTY_SD * sd_us)
        if mean_us < EMPTY_SD_LEAST * sd_us:
            wanted_us = min(wanted_us, most_us)
            if wanted_us < now_us * (1 + TARGET_STEP):
                return None
            self._no_lower(t_us)
            told += ": less than is needed to keep the line in use"
        else:
            wanted_us = max(wanted_us, least_us, now_us / 2)
            if wanted_us > now_us * (1 - TARGET_STEP) or 0 < self._no_lower_before_us - t_us <= PATIENCE_US[1]:
                return None
            if used is not None and used < FULL:
                return None
            told += ": more than is needed to keep the line in use"
        return told, dataclasses.replace(
            self.choice, target_us=min(max(100 * round(wanted_us / 100), least_us), most_us)
        )

    def _near(self, point: Point) -> Gains:
        """What the choice asks for; the gate, which is what it is about, however little it moves."""
        wanted = design.gains_for(point, self.base, self.choice)
        return dataclasses.replace(near_kept(self.gains, wanted), min_delay_share=wanted.min_delay_share)

    def _no_lower(self, t_us: int) -> None:
        """The target had to come up: each time it stays up for longer, unless the last time is long ago."""
        if not 0 <= t_us - self._raised_us <= PATIENCE_US[1]:
            self._raised = 0
        self._raised_us = t_us
        self._no_lower_before_us = t_us + min(PATIENCE_US[0] << min(self._raised, 10), PATIENCE_US[1])
        self._raised += 1

    def _corrected(self, t_us: int, stretch: Stretch) -> tuple[str, Choice] | None:
        """What is done about line left unused with delay to spare: the target as high as may be, then the gate. Where
        there is none to spare the gate comes down."""
        target_us, factor = self.base.target_us, self.choice.gate_factor
        told = f"mean delay {stretch.delay_mean_us / 1e3:.1f} of {target_us / 1e3:g} ms"
        used = stretch.utilisation
        # Of whole seconds: traffic that ended or began within these leaves the line unused too
        seconds = [one.utilisation or 0.0 for one in self.window.blocks(t_us - STRETCH_US, target_us, None)]
        wanting = min(seconds, default=0.0) >= WANTING and sum(one < FULL for one in seconds) > 1
        if used is not None and wanting and WANTING <= used < FULL and stretch.delay_mean_us < SPARE * target_us:
            most_us = self._targets_us()[1]
            if self.gains.target_us < most_us:
                self._no_lower(t_us)
                return f"{100 * used:.1f} % of the line used, {told}", dataclasses.replace(
                    self.choice, target_us=most_us
                )
            if factor < GATE_FACTOR_MOST:
                raised = dataclasses.replace(self.choice, gate_factor=GATE_FACTOR_MOST)
                return f"{100 * used:.1f} % of the line used, {told}", raised
        elif stretch.delay_mean_us > self.gains.target_us and factor > 1:
            return told, dataclasses.replace(self.choice, gate_factor=1.0)
        return None

    def _symptom(self, stretch: Stretch) -> tuple[str, list[Choice]] | None:
        """What is wrong with a stretch, and what might mend it, the likeliest first."""
        target_us, choice = self.base.target_us, self.choice

        def kp(factor: float) -> Choice:
            return dataclasses.replace(choice, kp_factor=min(max(choice.kp_factor * factor, 1 / 8), 4))

        if stretch.delay_mean_us > 1.15 * target_us:
            faster = dataclasses.replace(choice, integral_time_factor=max(choice.integral_time_factor / 2, 1 / 4))
            return f"mean delay of {stretch.delay_mean_us / 1e3:.1f} ms above the target", [faster, kp(2), kp(0.5)]
        if stretch.delay_sd_us > 0.3 * target_us:
            return f"delay swings by {stretch.delay_sd_us / 1e3:.1f} ms", [kp(2), kp(0.5)]
        return None

    def _judge(self, t_us: int) -> list[Decision | Effect]:
        trial = self._trial
        assert trial is not None
        if trial.doomed is not None:
            return self._end_trial(t_us, None, trial.doomed) if self._may_change(t_us) else []
        if t_us - trial.began_us < TRIAL_WAIT_US + TRIAL_US:
            return []
        after, costs = self._measured(trial.began_us + TRIAL_WAIT_US, trial.capacity_bit_s)
        if after is None or after.packets < 300 or min(len(costs), len(trial.costs_before)) < 4:
            return self._end_trial(t_us, None, "too few packets to tell")
        before = trial.before
        if not 1 / UNLIKE < (after.p + 1e-4) / (before.p + 1e-4) < UNLIKE:
            return self._end_trial(t_us, after, "the load changed meanwhile")
        (was, error_was), (is_now, error_is_now) = _mean(trial.costs_before), _mean(costs)
        error = math.hypot(error_was, error_is_now)
        if was - is_now >= max(BETTER * was, ERRORS * error):
            self._trial = None
            self._trials_failed = 0
            self._begin_us = t_us
            self._no_trial_before_us = t_us + PATIENCE_US[0]
            effect = Effect(t_us, self.device, self.port, trial.began_us, "kept", before, after)
            return [effect, self._say(t_us, "keep", f"better by {100 * (1 - is_now / was):.0f} %")]
        told = "worse" if is_now > was else "no better" if is_now > was * (1 - BETTER) else "no better than by chance"
        return self._end_trial(t_us, after, f"{told} ({is_now:.2f} for {was:.2f}, give or take {2 * error:.2f})")

    def _measured(self, begin_us: int, capacity_bit_s: float | None) -> tuple[Stretch | None, list[float]]:
        """The stretch from then on, and what each piece of it costs."""
        target_us = self.base.target_us
        whole = self.window.since(begin_us, target_us, capacity_bit_s)
        if whole is None:
            return None, []
        pieces = self.window.blocks(begin_us, target_us, capacity_bit_s)
        return whole, [cost(piece, target_us, whole.delay_mean_us) for piece in pieces]

    def _forget_trial(self, t_us: int) -> list[Decision | Effect]:
        """What is in force now is not the trial's any more, or is about to be replaced: it proved nothing."""
        trial, self._trial = self._trial, None
        if trial is None:
            return []
        self.choice = trial.choice_before
        return [Effect(t_us, self.device, self.port, trial.began_us, "rolled-back", trial.before, None)]

    def _end_trial(self, t_us: int, after: Stretch | None, why: str) -> list[Decision | Effect]:
        """Back to what was before, exactly."""
        trial = self._trial
        assert trial is not None
        self._trial = None
        self.choice = trial.choice_before
        self._trials_failed += 1
        wait_us = min(PATIENCE_US[0] << min(self._trials_failed - 1, 10), PATIENCE_US[1])
        self._no_trial_before_us = t_us + wait_us
        decision = self._change(t_us, "roll-back", why, trial.gains_before, None)
        effect = Effect(t_us, self.device, self.port, trial.began_us, "rolled-back", trial.before, after)
        return [effect, decision]


def _mean(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def cost(stretch: Stretch, target_us: int, around_us: float) -> float:
    """What a stretch of a port's life is worth, less is better: delay above the target, its swing, and unused line.

    Swing: the root of the mean square of what lies between the delay and `around_us`, the mean of more than this
    stretch. A percent of the line weighs as much as a swing of a third of the target; the first is within what can be
    measured.
    """
    unused = 0.0 if stretch.utilisation is None else max(0.0, 0.99 - stretch.utilisation)
    return (
        math.hypot(stretch.delay_sd_us, stretch.delay_mean_us - around_us) / target_us
        + 2 * stretch.over_us / target_us
        + 30 * unused
    )
