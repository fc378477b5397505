# SPDX-License-Identifier: Apache-2.0
"""Gains in users' units (seconds, probabilities, microseconds), their checks, their files, and the law's integers.

A profile is a TOML file of flat `key = value` lines, so that the C loader reads it with a dozen lines of its own.
Every key must be there: a profile says all of what it means, and no default is blended in.
"""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from .law import ALWAYS, RANGES, TAU_MAX_US, U32_MAX, Z_ONE_Q16, Params

PER_SECOND_Q40_PER_US = 2**40 / 1e6
"""Parameters of 1 per second: a probability per second of delay in units of 2^-40 per microsecond."""

MIN_DELAY_SHARE_MOST = 1
"""Above the target U would rise while nothing may be dropped."""

_GAIN_LIMIT = U32_MAX / PER_SECOND_Q40_PER_US

_INTEGERS = {
    "target_us": (1, TAU_MAX_US),
    "interval_us": (1, TAU_MAX_US),
    "m1_us": (1, TAU_MAX_US),
    "m2_us": (0, TAU_MAX_US - 1),
    "burst_us": RANGES["burst_us"],
    "idle_halflife_us": RANGES["idle_halflife_us"],
    "min_backlog_bytes": RANGES["min_backlog_bytes"],
    "dq_shift": RANGES["dq_shift"],
    "dq_weight_shift": RANGES["dq_weight_shift"],
    "schedule_shift": RANGES["schedule_shift"],
    "schedule_weight_shift": RANGES["schedule_weight_shift"],
}


class GainError(ValueError):
    """Gains the law does not accept; the message names key, value and what would be right."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(key: str, value: object, right: str) -> GainError:
    return GainError(f"{key} = {value!r}: must be {right}")


@dataclass(frozen=True)
class Gains:
    """Everything a user can set about the law. Raises GainError; see docs/design/law.md for what each one does.

    kp, ki, kd: probability per second of delay (Cao Eq. 5). integral: "drop" (Algorithm 1 as printed), "keep", or for
    how many steps in a row the rows without integral may leave it out. probability: packets are dropped with U
    ("linear") or U^2 ("squared"). min_delay_share: of the target, below which delay nothing
    is dropped. ecn_bound: probability of drop below which ECT packets are marked instead.
    """

    target_us: int
    interval_us: int
    kp: float
    ki: float
    kd: float
    z1: float
    z2: float
    z3: float
    m1_us: int
    m2_us: int
    integral: str | int
    probability: str
    burst_us: int
    idle_halflife_us: int
    min_backlog_bytes: int
    min_delay_share: float
    ecn_bound: float
    dq_shift: int
    dq_weight_shift: int
    schedule_shift: int
    schedule_weight_shift: int

    def __post_init__(self) -> None:
        for key, (least, most) in _INTEGERS.items():
            value = getattr(self, key)
            if not _is_integer(value) or not least <= value <= most:
                raise _wrong(key, value, f"a whole number, {least} .. {most}")
        for key in ("kp", "ki", "kd"):
            value = getattr(self, key)
            if not _is_number(value) or not 0 <= value <= _GAIN_LIMIT:
                raise _wrong(key, value, f"a number per second, 0 .. {_GAIN_LIMIT:.0f}")
        for key in ("z1", "z2", "z3"):
            value = getattr(self, key)
            if not _is_number(value) or not 0 < value < 16:
                raise _wrong(key, value, "a number, above 0 and below 16")
        z1, z2, z3 = (round(z * Z_ONE_Q16) for z in (self.z1, self.z2, self.z3))
        order = "by 1/65536 at least (0 < z3 < 1 < z2 < z1)"
        if not 0 < z3 < Z_ONE_Q16:
            raise _wrong("z3", self.z3, f"above 0 and below 1, {order}")
        if z2 <= Z_ONE_Q16:
            raise _wrong("z2", self.z2, f"above 1, {order}")
        if not z2 < z1 <= RANGES["z1_q16"][1]:
            raise _wrong("z1", self.z1, f"above z2 = {self.z2} and below 16, {order}")
        if not self.m2_us < self.m1_us:
            raise _wrong("m2_us", self.m2_us, f"below m1_us = {self.m1_us}")
        if self.integral not in ("drop", "keep") and not (_is_integer(self.integral) and 1 <= self.integral < ALWAYS):
            raise _wrong("integral", self.integral, f'"drop", "keep", or a number of intervals, 1 .. {ALWAYS - 1}')
        if self.probability not in ("linear", "squared"):
            raise _wrong("probability", self.probability, '"linear" or "squared"')
        if not _is_number(self.min_delay_share) or not 0 <= self.min_delay_share <= MIN_DELAY_SHARE_MOST:
            raise _wrong("min_delay_share", self.min_delay_share, f"a share of target_us, 0 .. {MIN_DELAY_SHARE_MOST}")
        if not _is_number(self.ecn_bound) or not 0 <= self.ecn_bound <= 1:
            raise _wrong("ecn_bound", self.ecn_bound, "a probability, 0 .. 1")

    def to_params(self) -> Params:
        """The law's integers, rounded to nearest (halves to even, as C's rint does)."""
        squared = self.probability == "squared"
        return Params(
            target_us=self.target_us,
            interval_us=self.interval_us,
            kp_q40_per_us=round(self.kp * PER_SECOND_Q40_PER_US),
            ki_q40_per_us=round(self.ki * PER_SECOND_Q40_PER_US),
            kd_q40_per_us=round(self.kd * PER_SECOND_Q40_PER_US),
            z1_q16=round(self.z1 * Z_ONE_Q16),
            z2_q16=round(self.z2 * Z_ONE_Q16),
            z3_q16=round(self.z3 * Z_ONE_Q16),
            m1_us=self.m1_us,
            m2_us=self.m2_us,
            integral_drop_max={"drop": ALWAYS, "keep": 0}.get(self.integral, self.integral),
            squared=int(squared),
            burst_us=self.burst_us,
            idle_halflife_us=self.idle_halflife_us,
            min_backlog_bytes=self.min_backlog_bytes,
            min_delay_us=round(self.min_delay_share * self.target_us),
            dq_shift=self.dq_shift,
            dq_weight_shift=self.dq_weight_shift,
            schedule_shift=self.schedule_shift,
            schedule_weight_shift=self.schedule_weight_shift,
            ecn_bound_q32=round((math.sqrt(self.ecn_bound) if squared else self.ecn_bound) * 2**32),
        )

    @classmethod
    def from_params(cls, params: Params) -> "Gains":
        """What a data plane's integers mean; `to_params` of the result gives the same integers back."""
        bound = params.ecn_bound_q32 / 2**32
        return cls(
            target_us=params.target_us,
            interval_us=params.interval_us,
            kp=params.kp_q40_per_us / PER_SECOND_Q40_PER_US,
            ki=params.ki_q40_per_us / PER_SECOND_Q40_PER_US,
            kd=params.kd_q40_per_us / PER_SECOND_Q40_PER_US,
            z1=params.z1_q16 / Z_ONE_Q16,
            z2=params.z2_q16 / Z_ONE_Q16,
            z3=params.z3_q16 / Z_ONE_Q16,
            m1_us=params.m1_us,
            m2_us=params.m2_us,
            integral={ALWAYS: "drop", 0: "keep"}.get(params.integral_drop_max, params.integral_drop_max),
            probability="squared" if params.squared else "linear",
            burst_us=params.burst_us,
            idle_halflife_us=params.idle_halflife_us,
            min_backlog_bytes=params.min_backlog_bytes,
            min_delay_share=params.min_delay_us / params.target_us,
            ecn_bound=bound * bound if params.squared else bound,
            dq_shift=params.dq_shift,
            dq_weight_shift=params.dq_weight_shift,
            schedule_shift=params.schedule_shift,
            schedule_weight_shift=params.schedule_weight_shift,
        )


KEYS = tuple(field.name for field in fields(Gains))


def loads(text: str, source: str = "profile") -> Gains:
    """Gains from a profile's text. GainError names `source`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GainError(f"{source}: not a profile, {error}; must be `key = value` lines") from None
    for key, value in table.items():
        if isinstance(value, dict):
            raise GainError(f"{source}: [{key}]: a profile has no tables, only `key = value` lines")
        if key not in KEYS:
            raise GainError(f"{source}: {key} = {value!r}: no such key; must be one of {', '.join(KEYS)}")
    missing = [key for key in KEYS if key not in table]
    if missing:
        raise GainError(f"{source}: {missing[0]} is missing; a profile must have every key ({len(missing)} missing)")
    try:
        return Gains(**table)
    except GainError as error:
        raise GainError(f"{source}: {error}") from None


def load(path: str | Path) -> Gains:
    """Gains from a profile file. OSError when it can't be read, GainError naming the file when it is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise GainError(f"{path}: not a profile, not UTF-8 text; must be `key = value` lines") from None
    return loads(text, str(path))


PROFILES = Path(__file__).resolve().parents[1] / "profiles"


def profile(name: str) -> Gains:
    """The profile of that name in `controller/profiles`, or of that path. GainError when there is none or it is wrong;
    OSError when it can't be read."""
    path = Path(name)
    if "/" not in name and path.suffix != ".toml":
        path = PROFILES / f"{name}.toml"
    try:
        return load(path)
    except FileNotFoundError:
        names = ", ".join(sorted(file.stem for file in PROFILES.glob("*.toml")))
        raise GainError(f"{name}: no such profile; must be one of {names}, or a path") from None


def changed(gains: Gains, words: Iterable[str]) -> Gains:
    """The gains with what KEY=VALUE words say in place of what they were. GainError."""
    changes: dict[str, int | float | str] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key not in KEYS:
            raise GainError(f"{word}: must be KEY=VALUE, KEY one of {', '.join(KEYS)}")
        changes[key] = value_of(text)
    return replace(gains, **changes)


def value_of(text: str) -> int | float | str:
    """What a word on a command line is: a whole number, a number, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def dumps(gains: Gains) -> str:
    """A profile's text; `loads` gives the same gains back."""
    lines = ["# SPDX-License-Identifier: Apache-2.0"]
    for key in KEYS:
        value = getattr(gains, key)
        lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value!r}")
    return "\n".join(lines) + "\n"


def save(gains: Gains, path: str | Path) -> None:
    """Write a profile whole or not at all."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    part.write_text(dumps(gains), encoding="utf-8")
    part.replace(path)
