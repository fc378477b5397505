# SPDX-License-Identifier: Apache-2.0
"""Gains in users' units (seconds, probabilities, microseconds), their checks, and the law's integers. Pure.

The keys, their ranges and their integers are rows of law/params.toml (`weir.params`); `FORMS` has the conversions both
ways. Reading files and words is for `weir.settings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeGuard

from .law import ALWAYS, RANGES, TAU_MAX_US, Z_ONE_Q16, Params
from .params import ROWS, SWITCHES, Row, Values

PER_SECOND_Q40_PER_US = 2**40 / 1e6
"""Parameters of 1 per second: a probability per second of delay in units of 2^-40 per microsecond."""

Value = int | float | str


class GainError(ValueError):
    """Gains the law does not accept; the message names key, value and what would be right."""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unit_of(key: str) -> str:
    return next((f" {unit}" for unit in ("us", "bytes") if key.endswith(f"_{unit}")), "")


def _wrong(key: str, value: object, right: str) -> GainError:
    return GainError(f"{key} = {value!r}: must be {right}")


@dataclass(frozen=True)
class Form:
    """Check and conversion of a key's value, which may depend on other gains. `is_right` takes a value of any type."""

    is_right: Callable[[Row, Any], bool]
    to_param: Callable[[Row, Any, Gains], int]
    from_param: Callable[[Row, int, Params], Value]


def _is_in_range(row: Row, value: object) -> bool:
    return _is_number(value) and row.least <= value <= row.most


FORMS = {
    "whole": Form(
        lambda row, value: _is_integer(value) and row.least <= value <= row.most,
        lambda row, value, _: value,
        lambda row, integer, _: integer,
    ),
    "per_second": Form(
        _is_in_range,
        lambda row, value, _: round(value * PER_SECOND_Q40_PER_US),
        lambda row, integer, _: integer / PER_SECOND_Q40_PER_US,
    ),
    "factor": Form(
        lambda row, value: _is_number(value) and row.least < value < row.most,
        lambda row, value, _: round(value * Z_ONE_Q16),
        lambda row, integer, _: integer / Z_ONE_Q16,
    ),
    "factor_or_0": Form(
        lambda row, value: _is_number(value) and row.least <= value < row.most,
        lambda row, value, _: min(round(value * Z_ONE_Q16), row.range[1]),
        lambda row, integer, _: integer / Z_ONE_Q16,
    ),
    "intervals": Form(
        lambda row, value: value in ("drop", "keep") or (_is_integer(value) and row.least <= value <= row.most),
        lambda row, value, _: {"drop": ALWAYS, "keep": 0}.get(value, value),
        lambda row, integer, _: {ALWAYS: "drop", 0: "keep"}.get(integer, integer),
    ),
    "curve": Form(
        lambda row, value: value in ("linear", "squared"),
        lambda row, value, _: int(value == "squared"),
        lambda row, integer, _: "squared" if integer else "linear",
    ),
    "share": Form(
        _is_in_range,
        lambda row, value, gains: round(value * gains.target_us),
        lambda row, integer, params: integer / params.target_us,
    ),
    # the law's bound is one of U, which is the root of the probability where that is squared
    "bound": Form(
        _is_in_range,
        lambda row, value, gains: round((math.sqrt(value) if gains.probability == "squared" else value) * 2**32),
        lambda row, integer, params: (integer / 2**32) ** (2 if params.squared else 1),
    ),
}

KEYS = tuple(ROWS)
"""Each key of a profile, in order."""

SHARES = tuple(name for name, row in ROWS.items() if row.form == "share")
"""Keys that give a time as a share of the target."""


@dataclass(frozen=True, kw_only=True)
class Gains(Values):
    """Everything a user can set about the law. Raises GainError; docs/design/law.md says what each one does.

    Keys that came after the first release have a default, with which they do nothing: profiles may leave them out."""

    def __post_init__(self) -> None:
        for name, row in ROWS.items():
            value = getattr(self, name)
            if not FORMS[row.form].is_right(row, value):
                raise _wrong(name, value, row.right + _unit_of(name))
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
        for name in SHARES:
            self._check_share(name)
        if 0 < self.delay_limit_share < self.delay_bound_share:
            raise _wrong(
                "delay_limit_share", self.delay_limit_share,
                f"0, or at least delay_bound_share = {self.delay_bound_share}",
            )  # fmt: skip

    def _check_share(self, name: str) -> None:
        value = getattr(self, name)
        if round(value * self.target_us) > TAU_MAX_US:
            most = f"{TAU_MAX_US / self.target_us:.6g}, which is {TAU_MAX_US} us with target_us = {self.target_us}"
            raise _wrong(name, value, f"at most {most}")

    def to_params(self) -> Params:
        """The law's integers, rounded to nearest (halves to even, as C's rint does)."""
        return Params(**{row.param: _integer(row, getattr(self, name), self) for name, row in ROWS.items()})

    @classmethod
    def from_params(cls, params: Params) -> Gains:
        """Gains of a data plane's integers; `to_params` of the result gives the same integers back."""
        return of_table(
            {name: FORMS[row.form].from_param(row, getattr(params, row.param), params) for name, row in ROWS.items()}
        )

    def with_changes(self, changes: Mapping[str, object]) -> Gains:
        """The same gains with these values in place of what they were. GainError; unknown keys are TypeError."""
        return of_table({name: getattr(self, name) for name in KEYS} | dict(changes))


def _integer(row: Row, value: Value, gains: Gains) -> int:
    return FORMS[row.form].to_param(row, value, gains)


REQUIRED = tuple(field.name for field in fields(Gains) if field.default is MISSING)
"""Those that a profile can't leave out."""


def of_table(table: Mapping[str, Any]) -> Gains:
    """Gains from their values by key. GainError when one is wrong, TypeError when one is not of `KEYS`, or one of
    `REQUIRED` is missing."""
    return Gains(**table)


def differences(old: Gains, new: Gains) -> dict[str, tuple[Value, Value]]:
    """The keys that differ: (old, new). Values that are the same integer of the law do not: the gains that a data plane
    gives back are coarser than a profile's."""
    return {
        name: (getattr(old, name), getattr(new, name))
        for name, row in ROWS.items()
        if _integer(row, getattr(old, name), new) != _integer(row, getattr(new, name), new)
    }


def help_text() -> str:
    """A line a key of profiles, for the help of commands that take KEY=VALUE."""
    width = max(map(len, KEYS))
    return "\n".join(f"  {name:<{width}}  {row.doc} [{row.right}]" for name, row in ROWS.items())


def user_help_text() -> str:
    """The same for what users see without --expert."""
    keys = [f"  {name:<22} {row.doc} [{row.right}]" for name, row in ROWS.items() if row.level == "user"]
    return "\n".join([*keys, *(f"  {name:<22} {one.doc} [on or off]" for name, one in SWITCHES.items())])
