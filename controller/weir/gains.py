# SPDX-License-Identifier: Apache-2.0
"""Gains in users' units (seconds, probabilities, microseconds), their checks, and the law's integers. Pure.

The fields of `Gains` are the one declaration of a gain in Python. Each carries a `Key`: the integer of `law.Params` it
becomes, its unit, what it does, what it may be, and the conversion both ways. The keys of profiles, of KEY=VALUE words,
of help texts, of P4 action data and of the conformance vectors follow from it. Reading files and words is for
`weir.settings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any, get_type_hints

from .law import ALWAYS, RANGES, TAU_MAX_US, U32_MAX, Z_ONE_Q16, Params

PER_SECOND_Q40_PER_US = 2**40 / 1e6
"""Parameters of 1 per second: a probability per second of delay in units of 2^-40 per microsecond."""

MIN_DELAY_SHARE_MOST = 1
"""Above the target U would rise while nothing may be dropped."""

_GAIN_LIMIT = U32_MAX / PER_SECOND_Q40_PER_US

Value = int | float | str


class GainError(ValueError):
    """Gains the law does not accept; the message names key, value and what would be right."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(key: str, value: object, right: str) -> GainError:
    return GainError(f"{key} = {value!r}: must be {right}")


@dataclass(frozen=True)
class Key:
    """One gain. `param`: the field of law.Params. `right`: what it must be, in words. `is_right`: of any value.
    `to_param(value, gains)` and `from_param(integer, params)`: the conversion, which may look at other gains.
    `other`: the key that says the same of the same parameter in another unit; one of the two is 0."""

    param: str
    unit: str
    doc: str
    right: str
    is_right: Callable[[Any], bool]
    to_param: Callable[[Any, Gains], int]
    from_param: Callable[[int, Params], Value]
    other: str = ""


def _same(param: str, unit: str, doc: str, least: int | None = None, most: int | None = None) -> Key:
    """A whole number that the law takes as it is, in the law's own range by default."""
    low, high = RANGES[param]
    low, high = low if least is None else least, high if most is None else most
    return Key(
        param, unit, doc, f"a whole number, {low} .. {high}", lambda value: _is_integer(value) and low <= value <= high,
        lambda value, _: value, lambda integer, _: integer,
    )  # fmt: skip


def _per_second(param: str, doc: str) -> Key:
    return Key(
        param, "1/s", doc, f"a number per second, 0 .. {_GAIN_LIMIT:.0f}",
        lambda value: _is_number(value) and 0 <= value <= _GAIN_LIMIT,
        lambda value, _: round(value * PER_SECOND_Q40_PER_US),
        lambda integer, _: integer / PER_SECOND_Q40_PER_US,
    )  # fmt: skip


def _factor(param: str, doc: str) -> Key:
    return Key(
        param, "factor", doc, "a number, above 0 and below 16", lambda value: _is_number(value) and 0 < value < 16,
        lambda value, _: round(value * Z_ONE_Q16), lambda integer, _: integer / Z_ONE_Q16,
    )  # fmt: skip


def _factor_or_0(param: str, unit: str, doc: str) -> Key:
    return Key(
        param, unit, doc, "a number, 0 or above and below 16", lambda value: _is_number(value) and 0 <= value < 16,
        lambda value, _: min(round(value * Z_ONE_Q16), RANGES[param][1]), lambda integer, _: integer / Z_ONE_Q16,
    )  # fmt: skip


_INTEGRAL = Key(
    "integral_drop_max", '"drop", "keep" or steps',
    "for how many steps in a row Algorithm 1 may leave the integral out: always, never, or so many",
    f'"drop", "keep", or a number of intervals, 1 .. {ALWAYS - 1}',
    lambda value: value in ("drop", "keep") or (_is_integer(value) and 1 <= value < ALWAYS),
    lambda value, _: {"drop": ALWAYS, "keep": 0}.get(value, value),
    lambda integer, _: {ALWAYS: "drop", 0: "keep"}.get(integer, integer),
)  # fmt: skip
_PROBABILITY = Key(
    "squared", '"linear" or "squared"', "packets are dropped with U, or with U squared", '"linear" or "squared"',
    lambda value: value in ("linear", "squared"),
    lambda value, _: int(value == "squared"), lambda integer, _: "squared" if integer else "linear",
)  # fmt: skip


def _time_or_share(param: str, share: str, doc: str) -> Key:
    """A time that can also be given as a share of the target. A data plane has it as a time, and gives it back as a
    share."""
    return replace(_same(param, "us", doc), from_param=lambda integer, _: 0, other=share)


def _share(param: str, doc: str, most: int = TAU_MAX_US, other: str = "") -> Key:
    """A time as a share of the target, with which it moves."""
    return Key(
        param, "share of target_us", doc, f"a share of target_us, 0 .. {most}",
        lambda value: _is_number(value) and 0 <= value <= most,
        lambda value, gains: round(value * gains.target_us), lambda integer, params: integer / params.target_us, other,
    )  # fmt: skip


_ECN_BOUND = Key(
    "ecn_bound_q32", "probability", "up to this probability of drop ECT packets are marked instead; 0: never",
    "a probability, 0 .. 1", lambda value: _is_number(value) and 0 <= value <= 1,
    # the law's bound is one of U, which is the root of the probability where that is squared
    lambda value, gains: round((math.sqrt(value) if gains.probability == "squared" else value) * 2**32),
    lambda integer, params: (integer / 2**32) ** (2 if params.squared else 1),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gains:
    """Everything a user can set about the law. Raises GainError; docs/design/law.md says what each one does.

    Keys that came after the first release have a default, with which they do nothing: profiles may leave them out."""

    target_us: Annotated[int, _same("target_us", "us", "the queue delay to hold")]
    interval_us: Annotated[int, _same("interval_us", "us", "between two steps of the law")]
    kp: Annotated[float, _per_second("kp_q40_per_us", "proportional gain: probability per second of delay, Cao Eq. 5")]
    ki: Annotated[float, _per_second("ki_q40_per_us", "integral gain, Cao Eq. 5")]
    kd: Annotated[float, _per_second("kd_q40_per_us", "derivative gain, Cao Eq. 5")]
    z1: Annotated[float, _factor("z1_q16", "factor of row 1 of Algorithm 1; above z2")]
    z2: Annotated[float, _factor("z2_q16", "factor of rows 2 and 3; above 1")]
    z3: Annotated[float, _factor("z3_q16", "factor of row 4; below 1")]
    m1_us: Annotated[int, _same("m1_us", "us", "errors above this are in row 1", least=1)]
    m2_us: Annotated[int, _same("m2_us", "us", "errors above this are in rows 2, 3; below m1_us", most=TAU_MAX_US - 1)]
    integral: Annotated[str | int, _INTEGRAL]
    probability: Annotated[str, _PROBABILITY]
    burst_us: Annotated[int, _same("burst_us", "us", "no drop for this long after the queue starts to fill; 0: off")]
    idle_halflife_us: Annotated[
        int, _same("idle_halflife_us", "us", "U halves in this time while the queue is idle; 0: off")
    ]
    min_backlog_bytes: Annotated[int, _same("min_backlog_bytes", "bytes", "no drop while the backlog is below this")]
    min_delay_share: Annotated[
        float,
        _share("min_delay_us", "nothing is dropped while the delay is below this share of it", MIN_DELAY_SHARE_MOST),
    ] = 0.0
    space_least: Annotated[
        float,
        _factor_or_0(
            "space_least_q16", "sum of probabilities", "no hit while their sum since the last hit is below this"
        ),
    ] = 0.0
    space_most: Annotated[
        float,
        _factor_or_0("space_most_q16", "sum of probabilities", "a hit as soon as it reaches this; 0: hits not spaced"),
    ] = 0.0
    delay_bound_us: Annotated[
        int,
        _time_or_share("delay_bound_us", "delay_bound_share", "from this delay on delay_bound_slope counts; 0: off"),
    ] = 0
    delay_bound_share: Annotated[
        float, _share("delay_bound_us", "delay_bound_us as a share of the target", other="delay_bound_us")
    ] = 0.0
    delay_bound_slope: Annotated[
        float,
        _per_second("delay_bound_slope_q40_per_us", "probability of a hit per second of delay above the bound; 0: off"),
    ] = 0.0
    delay_limit_us: Annotated[
        int, _time_or_share("delay_limit_us", "delay_limit_share", "from this delay on every packet is hit; 0: off")
    ] = 0
    delay_limit_share: Annotated[
        float, _share("delay_limit_us", "delay_limit_us as a share of the target", other="delay_limit_us")
    ] = 0.0
    delay_guard_bytes: Annotated[
        int,
        _same(
            "delay_guard_bytes", "bytes", "bound and limit wait for a backlog of this and 2^dq_shift bytes; 0: for none"
        ),
    ] = 0
    share_least: Annotated[
        float,
        _factor_or_0("share_least_q16", "share of the mean", "hits wait for flows of this much of the mean; 0: off"),
    ] = 0.0
    share_shift: Annotated[int, _same("share_shift", "log2 us", "what a flow has sent halves every 2^this us")] = 17
    ecn_bound: Annotated[float, _ECN_BOUND]
    ecn_weight_shift: Annotated[
        int, _same("ecn_weight_shift", "-log2", "marks follow a mean of U, a step has weight 2^-this; 0: U itself")
    ] = 0
    ecn_drop_us: Annotated[
        int,
        _time_or_share(
            "ecn_drop_us", "ecn_drop_share", "from this delay on ECT packets are dropped, not marked; 0: off"
        ),
    ] = 0
    ecn_drop_share: Annotated[
        float, _share("ecn_drop_us", "ecn_drop_us as a share of the target", other="ecn_drop_us")
    ] = 0.0
    mark_gain: Annotated[
        float, _factor_or_0("mark_gain_q16", "factor", "ECT packets are hit so many times as likely; 0: as others")
    ] = 0.0
    dq_shift: Annotated[int, _same("dq_shift", "log2 bytes", "the departure rate is measured over 2^this bytes")]
    dq_weight_shift: Annotated[int, _same("dq_weight_shift", "-log2", "a new rate counts with weight 2^-this")]
    schedule_shift: Annotated[
        int, _same("schedule_shift", "-log2", "gains are full while the mean of U is 2^-this or more; 0: always full")
    ]
    schedule_weight_shift: Annotated[
        int, _same("schedule_weight_shift", "-log2", "the mean of U takes in each step's U with weight 2^-this")
    ]

    def __post_init__(self) -> None:
        for name, key in DECLARED.items():
            value = getattr(self, name)
            if not key.is_right(value):
                raise _wrong(name, value, key.right)
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
        if self.space_least > self.space_most:
            raise _wrong("space_least", self.space_least, f"at most space_most = {self.space_most}")
        for share, time in SHARES.items():
            self._check_share(share, time)
        bound_us, limit_us = (self._integers()[param] for param in ("delay_bound_us", "delay_limit_us"))
        if 0 < limit_us < bound_us:
            name = "delay_limit_share" if self.delay_limit_share else "delay_limit_us"
            raise _wrong(name, getattr(self, name), f"0, or at least the bound in time, {bound_us} us")

    def _check_share(self, share: str, time: str) -> None:
        value, time_us = getattr(self, share), getattr(self, time)
        if value and time_us:
            raise GainError(f"{time} = {time_us!r}, {share} = {value!r}: both say the same; give only one of them")
        if round(value * self.target_us) > TAU_MAX_US:
            most = f"{TAU_MAX_US / self.target_us:.6g}, which is {TAU_MAX_US} us with target_us = {self.target_us}"
            raise _wrong(share, value, f"at most {most}")

    def _integers(self) -> dict[str, int]:
        """By parameter. Of two keys for one, one is 0."""
        found = dict.fromkeys(RANGES, 0)
        for name, key in DECLARED.items():
            found[key.param] += key.to_param(getattr(self, name), self)
        return found

    def to_params(self) -> Params:
        """The law's integers, rounded to nearest (halves to even, as C's rint does)."""
        return Params(**self._integers())

    @classmethod
    def from_params(cls, params: Params) -> Gains:
        """Gains of a data plane's integers, with times that can be shares of the target as shares; `to_params` of the
        result gives the same integers back."""
        return of_table({name: key.from_param(getattr(params, key.param), params) for name, key in DECLARED.items()})

    def with_changes(self, changes: Mapping[str, object]) -> Gains:
        """The same gains with these values in place of what they were; a time takes the place of a share, and a share
        that of a time. GainError; unknown keys are TypeError."""
        others = {key.other: 0 for name, key in DECLARED.items() if name in changes and key.other}
        return of_table({name: getattr(self, name) for name in KEYS} | others | dict(changes))


def _declared() -> dict[str, Key]:
    hints = get_type_hints(Gains, include_extras=True)
    found: dict[str, Key] = {field.name: hints[field.name].__metadata__[0] for field in fields(Gains)}
    params = [key.param for key in found.values() if key.other != key.param]
    if sorted(params) != sorted(RANGES):
        differ = ", ".join(sorted(set(params) ^ set(RANGES))) or "one is given twice"
        raise TypeError(f"gains.Gains and law.Params do not declare the same parameters: {differ}")
    return found


DECLARED = _declared()
"""Each key of a profile, in order."""

KEYS = tuple(DECLARED)

REQUIRED = tuple(field.name for field in fields(Gains) if field.default is MISSING)
"""Those that a profile can't leave out."""

SHARES = {name: key.other for name, key in DECLARED.items() if key.other == key.param}
"""Keys that give a time as a share of the target, by the keys that give it in microseconds."""


def of_table(table: Mapping[str, Any]) -> Gains:
    """Gains from their values by key. GainError when one is wrong, TypeError when one is not of `KEYS`, or one of
    `REQUIRED` is missing."""
    return Gains(**table)


def differences(old: Gains, new: Gains) -> dict[str, tuple[Value, Value]]:
    """The keys that differ: (old, new). Values that the law takes for the same integer do not: what a data plane gives
    back is coarser than a profile, and a share where a profile may have a time."""
    was, now = old.to_params(), new.to_params()
    return {
        name: (getattr(old, name), getattr(new, name))
        for name, key in DECLARED.items()
        if key.to_param(getattr(old, name), new) != key.to_param(getattr(new, name), new)
        and not (key.other and getattr(was, key.param) == getattr(now, key.param))
    }


def help_text() -> str:
    """A line a key, for the help of commands that take KEY=VALUE."""
    width = max(map(len, KEYS))
    return "\n".join(f"  {name:<{width}}  {key.doc} [{key.right}]" for name, key in DECLARED.items())
