# SPDX-License-Identifier: Apache-2.0
"""One port's tuner: samples in, decisions out. Pure: the caller passes the time and does the writing.

A decision that carries gains is to be written at once; a failed write is reported by `refused`, and the old gains are
taken to stay. A doubtful sample changes nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..dataplane.base import Sample
from ..gains import Gains
from . import design
from .decision import Decision, Effect, Settings, difference, matters, near_kept
from .design import Point
from .window import GAP_US, STEP, Faulty, Look, Stretch, Window

ASSUMED_RTT_S = 0.1
"""RFC 8033's assumption, where no round trip is given or seen."""
SETTLE_US = 1_000_000
"""After a change the flows find their new rates; the queue's state meanwhile is no evidence about the target."""
FULL = 0.98
"""Below this share of the line no lower target is tried: the load comes and goes, or the queue runs empty already."""
SPARE_SD = 2.2
"""A queue whose mean delay is so many standard deviations is hardly ever empty: 99 to 99.9 % of the line are used at 2
to 2.5 (docs/design/differences.md, PID-Delay 24). The tuner tries to save the delay above that."""
LOOK_HITS = 20
"""Each drop or mark is a tooth of TCP's saw: from fewer neither the swing nor the loss is known."""
STEP_MOST, STEP_LEAST = 1 / 3, 0.1
"""Part of a target that is taken off at a time. A step that costs too much is seen before it costs a lot."""
GOODPUT_LEAST = 0.005
"""A lower target may leave so much more of the line unused: what can be measured in some seconds."""
SAVED_LEAST = 0.05
"""It must save so much of the delay, or it is of no use."""
LOSS_MOST = 1.5
"""And raise the loss to so many times what it was at the operator's target, at any price."""
STEP_US, STEP_SAMPLES = 3_000_000, 5
"""The load has changed where the last STEP_US (half of that after a change) say so, or so many samples in a row that
are above the operator's target."""
UNLIKE, UNUSED = 3.0, 0.02
"""The load is another, where the share of drops and marks differs by this factor, or so much more of the line is
unused."""
PATIENCE_US = (10_000_000, 600_000_000)
"""After a target was given up the one above it stays so long: at first, and doubled each time up to the last."""
LOAD_EVERY_US = 4_000_000
"""Between changes that follow from the load alone."""
LOOK_US = 500_000
"""Interval of a port's evaluation; each sample is looked at for its faults and its rate."""
HOLD_EVERY_US = 10_000_000
"""Doubts that follow each other are reported once in this time."""
REFUSED_US = (1_000_000, 60_000_000)
LATE_US, LATE_PERIODS, DRIFT = 1_000_000, 2, 200e-6
"""A sample that comes so much later than the quickest one did (and by so many periods) is of the past; clocks that
drift apart by less than this don't make one late."""
LATE_MOST_US = 10_000_000


@dataclass
class _Trial:
    began_us: int
    before: Stretch
    gains_before: Gains
    doomed: str | None = None


class Tuner:
    """A port's. `gains`: the present ones, of which ECN's bound and Z are the operator's and stay, and the target,
    which is the most that the queue is held at; `previous`: those before the last change. target_us: the operator's,
    where a tuner before this one set another."""

    def __init__(
        self, settings: Settings, device: str, port: str, gains: Gains, now_us: int, target_us: int | None = None
    ):
        self.settings, self.device, self.port = settings, device, port
        self.window = Window()
        self.stood_down = False
        self.is_lost = False
        self._took_over(gains, target_us)
        self._look = Look()
        self._looked_at: tuple[int | None, int] | None = None
        self._look_from_us = 0
        self._line_at_us: int | None = None
        self._given_up = self._given_up_us = 0
        self._no_lower_before_us = 0
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
        self._changed_now_us: int | None = None
        self._heard: tuple[int, float] | None = None
        self._late_since_us: int | None = None

    def _took_over(self, gains: Gains, target_us: int | None = None) -> None:
        self.gains = self.previous = gains
        self.base = design.held_at(gains, self.settings.target_us or target_us or gains.target_us)
        self._at_home()

    # ---- events ----

    def sample(self, sample: Sample, now_us: int) -> list[Decision | Effect]:
        """Takes a sample in and decides. `now_us`: when it came, by a clock that never goes back; the sample's own may
        be another. A sample that waited in a queue until it was old is counted and not judged on."""
        if self.stood_down:
            return []
        late_us = self._late_us(sample.t_us, now_us)
        self._now_us = now_us
        if sample.trouble:  # it is wrong about the queue
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
                self._at_home()
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
            self._given_up = self._no_lower_before_us = 0
            self._line_at_us = sample.t_us
            if self._trial is not None:  # nothing to compare with any more; the new line is designed for below
                told = self._forget_trial(sample.t_us)
            self._at_home()
        if 0 < self._not_before_us - sample.t_us <= REFUSED_US[1]:  # else of another beginning of its time
            return told
        if self._trial is not None:
            return self._judge(sample.t_us)
        wanted = self._design(point, self._target_us)
        if self.settings.phase_margin_deg is None:  # a promise is not rounded off
            wanted = near_kept(self.gains, wanted)
        if matters(self.gains, wanted):
            if not self._may_change(sample.t_us, wanted):
                return told
            first = self._changed_us is None
            reason = (
                f"{'the line carries' if first else 'the line now carries'} {point.capacity_bit_s / 1e6:.3g} Mbit/s"
            )
            asked = self.settings.phase_margin_deg
            if asked is not None and point.p > 0:
                reason += f" and {100 * point.p:.2g} % must go"
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
        """Somebody else set the gains: they are right until the operator changes them."""
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
        """The operator wants the tuner again; his setting is its start."""
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
        if self._trial is not None:  # its effect is unknown: taken back as soon as the device is there again
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
        """`decision` could not be written: the gains before it still apply."""
        self.gains = self.previous
        if self._trial is not None:
            self._target_us, self._trial = self._trial.gains_before.target_us, None
        self._not_before_us = decision.t_us + self._refused_us
        self._refused_us = min(2 * self._refused_us, REFUSED_US[1])
        return [self._say(now_us, "hold", f"not written: {why}")]

    # ---- state ----

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
        """Observes the queue from when it has settled after the last change of line or target; other gains hardly
        change how far it swings."""
        kind = self._line_at_us, self.gains.target_us
        if self._looked_at != kind:
            self._looked_at, self._look_from_us = kind, sample.t_us + SETTLE_US
            self._look.restart()
        if sample.t_us >= self._look_from_us:
            self._look.add(sample)

    def _at_home(self) -> None:
        """The operator's target again: the one below it was for another line, another load's or another's."""
        self._target_us = self.base.target_us
        self._like: Stretch | None = None
        self._home: Stretch | None = None

    def _design(self, point: Point, target_us: int) -> Gains:
        wanted = design.gains_for(point, self.base, target_us)
        if self.settings.phase_margin_deg is not None:
            wanted = design.with_margin(point, wanted, self.settings.phase_margin_deg)
        return wanted

    def _late_us(self, t_us: int, now_us: int) -> float:
        """Delay of a sample, 0 if there is none. Increments of both clocks are compared: a switch's is its own."""
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
        """The line's rate is followed as soon as may be, the load with patience: few drops show it.

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

    # ---- decisions ----

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
        """The last change has been written."""
        self._refused_us = REFUSED_US[0]

    # ---- the search for a lower target ----

    def _review(self, t_us: int, point: Point) -> list[Decision | Effect]:
        """Nothing to set: is the present lower target still one, and is there one that is lower?"""
        if self.settings.hold_target or self.settings.dry_run or self.settings.phase_margin_deg is not None:
            return []
        if not self._may_change(t_us):
            return []
        if self._like is not None and (why := self._changed_load(t_us, self._like)) is not None:
            self._at_home()
            self._give_up(t_us)
            return [self._change(t_us, "set", f"{why}; back to your target", self._near(point), point)]
        if 0 < self._no_lower_before_us - t_us <= PATIENCE_US[1]:
            return []
        seen = self._look.told(point.capacity_bit_s)
        if seen is None or seen.hits < LOOK_HITS:
            return []
        lower_us = self._lower_us(seen, point)
        if lower_us is None or self._changed_load(t_us, seen) is not None:
            self._look.restart()
            return []
        if self.gains.target_us == self.base.target_us:
            self._home = seen
        self._trial = _Trial(t_us, seen, self.gains)
        self._target_us = lower_us
        reason = (
            f"delay {seen.delay_mean_us / 1e3:.1f} ms, sd {seen.delay_sd_us / 1e3:.1f} ms, "
            f"{100 * seen.lost:.2g} % lost: more delay than is needed to keep the line in use"
        )
        return [self._change(t_us, "trial", reason, self._near(point), point)]

    def _lower_us(self, seen: Stretch, point: Point) -> int | None:
        """A target that leaves out what the queue's own swing shows to be spare; it hardly depends on the target. After
        a target that was given up, steps are smaller."""
        now_us = self.gains.target_us
        if seen.utilisation is None or seen.utilisation < FULL:
            return None
        spare_us = min(seen.delay_mean_us - SPARE_SD * seen.delay_sd_us, STEP_MOST * now_us)
        wanted_us = 100 * round((now_us - spare_us / 2**self._given_up) / 100)
        lower_us = max(wanted_us, design.target_least_us(point.capacity_bit_s, self.base))
        return lower_us if lower_us <= now_us * (1 - STEP_LEAST) else None

    def _changed_load(self, t_us: int, like: Stretch) -> str | None:
        """Whether the queue is no longer that of `like`, in words."""
        last = list(self.window.samples)[-STEP_SAMPLES:]
        if len(last) == STEP_SAMPLES and all(
            sample.delay_us > self.base.target_us and sample.t_us > self._look_from_us for sample in last
        ):
            return f"the delay stays above {self.base.target_us / 1e3:g} ms"
        recent = self.window.since(max(t_us - STEP_US, self._look_from_us), self.settings.capacity_bit_s)
        if recent is None or recent.seconds < STEP_US / 2e6:
            return None
        hits, expected = recent.hits, like.p * recent.packets
        if max(hits, expected) >= LOOK_HITS and not expected / UNLIKE <= hits <= expected * UNLIKE:
            return f"{100 * recent.p:.2g} % must go, no longer {100 * like.p:.2g} %"
        if recent.utilisation is not None and recent.utilisation < (like.utilisation or 0) - UNUSED:
            return f"{100 * recent.utilisation:.1f} % of the line used, no longer {100 * (like.utilisation or 0):.1f} %"
        return None

    def _near(self, point: Point) -> Gains:
        """The gains for the target that is wanted, with small differences left out."""
        return near_kept(self.gains, self._design(point, self._target_us))

    def _give_up(self, t_us: int) -> None:
        """A lower target had to go: each time the one above it stays for longer, unless the last time is long ago."""
        if not 0 <= t_us - self._given_up_us <= PATIENCE_US[1]:
            self._given_up = 0
        self._given_up_us = t_us
        self._no_lower_before_us = t_us + min(PATIENCE_US[0] << min(self._given_up, 10), PATIENCE_US[1])
        self._given_up = min(self._given_up + 1, 10)

    def _judge(self, t_us: int) -> list[Decision | Effect]:
        trial = self._trial
        assert trial is not None
        if not self._may_change(t_us):
            return []
        if trial.doomed is not None:
            return self._end_trial(t_us, None, trial.doomed)
        changed = self._changed_load(t_us, trial.before)
        if changed is not None:
            return self._end_trial(t_us, None, f"{changed}; back to your target", home=True)
        after = self._look.told(self.settings.capacity_bit_s or self.window.capacity_bit_s)
        if after is None or (after.hits < LOOK_HITS and after.seconds < 2 * trial.before.seconds):
            return []
        why = too_dear(trial.before, after, self.settings.loss_price)
        if why is None and self._home is not None and after.lost > LOSS_MOST * self._home.lost:
            why = f"{100 * after.lost:.2g} % lost for {100 * self._home.lost:.2g} % at your target"
        if why is not None:
            return self._end_trial(t_us, after, why)
        self._trial = None
        self._like = after
        effect = Effect(t_us, self.device, self.port, trial.began_us, "kept", trial.before, after)
        return [effect, self._say(t_us, "keep", worth(trial.before, after))]

    def _forget_trial(self, t_us: int) -> list[Decision | Effect]:
        """The present gains are not the trial's any more, or are about to be replaced: it proved nothing."""
        trial, self._trial = self._trial, None
        if trial is None:
            return []
        return [Effect(t_us, self.device, self.port, trial.began_us, "rolled-back", trial.before, None)]

    def _end_trial(self, t_us: int, after: Stretch | None, why: str, home: bool = False) -> list[Decision | Effect]:
        """Back to the gains before, exactly, or to the operator's target."""
        trial = self._trial
        assert trial is not None
        self._trial = None
        self._give_up(t_us)
        gains = trial.gains_before
        if home:
            self._at_home()
            gains = dataclasses.replace(
                gains, target_us=self.base.target_us, m1_us=self.base.m1_us, m2_us=self.base.m2_us
            )
        self._target_us = gains.target_us
        decision = self._change(t_us, "roll-back", why, gains, None)
        effect = Effect(t_us, self.device, self.port, trial.began_us, "rolled-back", trial.before, after)
        return [effect, decision]


def too_dear(before: Stretch, after: Stretch, loss_price: float) -> str | None:
    """Reason why less delay is not worth its cost, or None. loss_price: the percentage points of loss that a ms is
    worth."""
    used_before, used_after = before.utilisation or 0.0, after.utilisation or 0.0
    if used_after < used_before - GOODPUT_LEAST:
        return f"{100 * used_after:.1f} % of the line used for {100 * used_before:.1f} %"
    saved_ms = (before.delay_mean_us - after.delay_mean_us) / 1e3
    if saved_ms < SAVED_LEAST * before.delay_mean_us / 1e3:
        return f"hardly less delay ({after.delay_mean_us / 1e3:.1f} ms for {before.delay_mean_us / 1e3:.1f} ms)"
    if 100 * (after.lost - before.lost) > loss_price * saved_ms:
        return f"{worth(before, after)}: more than {loss_price:g} % a ms"
    return None


def worth(before: Stretch, after: Stretch) -> str:
    """Gain and cost of a lower target."""
    return (
        f"{(before.delay_mean_us - after.delay_mean_us) / 1e3:.1f} ms less delay for "
        f"{100 * (after.lost - before.lost):+.2g} % of the packets lost"
    )
