# SPDX-License-Identifier: Apache-2.0
"""The one reader of settings: profiles by name or path, KEY=VALUE words, TOML files, and "did you mean".

A profile is a TOML file without tables; `weir-xdp` reads the same ones (xdp/lib/gains/toml.c).
A key that came after the first release may be left out: it does nothing then. Every other must be there, so that a
profile says all of what it means.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from .files import write_whole
from .gains import KEYS, REQUIRED, GainError, Gains, Value, differences, of_table
from .params import REMOVED, ROWS, SWITCHES
from .resources import PROFILES

PROFILE_BYTES_MAX = 2**20


class SettingsError(ValueError):
    """A file or a word that is no setting: its text, fault, right form."""


def one_of(known: Iterable[str]) -> str:
    """`must be one of a, b`, for a message."""
    names = ", ".join(known)
    return f"must be one of {names}" if names else "there is none"


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean kp?` where something known is like it, else all that is known."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else one_of(names)


# TOML


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """The table of a TOML text. SettingsError names `source` and the line."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of an integer of thousands of digits
        raise SettingsError(f"{source}: not TOML: {error}") from None


def read_text(path: Path) -> str:
    """A file's text. OSError when it can't be read, SettingsError when it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None


def read_toml(path: Path) -> dict[str, Any]:
    """A file's table. OSError when it can't be read, SettingsError when it is not TOML."""
    return parse_toml(read_text(path), str(path))


# Times with their units

_US_PER = {"us": 1, "ms": 1_000, "s": 1_000_000}
_TIME = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})(us|ms|s)", re.IGNORECASE | re.ASCII)


def time_us(value: object) -> int | float | None:
    """Microseconds of a time with its unit (`"250us"`, `"5ms"`, `"1.5s"`); None if it is no such text."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    us = Decimal(match[1]) * _US_PER[match[2].lower()]
    return int(us) if us == us.to_integral_value() else float(us)


def setting(key: str, value: Value, known: Collection[str]) -> tuple[str, Value]:
    """The key and the value that are meant: a key in `_us` is also taken without it, and then with a unit (target =
    "5ms"). A key that is not known, or a value that is no time, stays as it is. SettingsError where the unit is
    missing."""
    full = key if key in known else f"{key}_us"
    if full not in known or not full.endswith("_us"):
        return key, value
    us = time_us(value)
    if us is None and full != key:
        raise SettingsError(
            f"{key} = {value}: must be a time with its unit (250us, 5ms, 1s); {full} takes microseconds without one"
        )
    return full, value if us is None else us


# KEY=VALUE


def value_of(text: str) -> Value:
    """Value of a word on a command line: a whole number, a number, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def key_values(
    words: Iterable[str], known: Iterable[str] = KEYS, option: str = "--set", expert: bool = True
) -> dict[str, Value]:
    """The values of KEY=VALUE words by key; a later word wins. Without `expert` keys of that level are refused.
    SettingsError names `option` and the word."""
    names = list(known)
    found: dict[str, Value] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            shown = [*SWITCHES, *(name for name in names if expert or not is_expert(name))]
            raise SettingsError(f"{option} {word}: must be KEY=VALUE, KEY one of {', '.join(shown)}")
        if key in SWITCHES and SWITCHES[key].key in names:
            if text not in ("on", "off"):
                raise SettingsError(f"{option} {word}: must be on or off")
            found[SWITCHES[key].key] = SWITCHES[key].on if text == "on" else SWITCHES[key].off
            continue
        try:
            key, value = setting(key, value_of(text), names)
        except SettingsError as error:
            raise SettingsError(f"{option} {error}") from None
        if key not in names:
            raise SettingsError(f"{option} {word}: {removed(key) or f'no such key; {nearest(key, names)}'}")
        if is_expert(key) and not expert:
            raise SettingsError(f"{option} {word}: only with --expert, or from a profile (--profile NAME)")
        found[key] = value
    return found


def is_expert(key: str) -> bool:
    """Whether it is a key of profiles that users see with --expert only."""
    return key in ROWS and ROWS[key].level == "expert"


# Profiles


def removed(key: str) -> str:
    """For a key of an earlier release: that the law no longer has it, and the one to use instead; else nothing."""
    if key not in REMOVED:
        return ""
    return f"the law no longer has this parameter; {f'use {REMOVED[key]}' if REMOVED[key] else 'remove it'}"


def profile_names() -> list[str]:
    """The profiles that come with this package."""
    return sorted(file.stem for file in PROFILES.glob("*.toml"))


def profile(name: str, folder: Path = Path()) -> Gains:
    """The profile of that name, or of that path, from `folder` if it is a relative one. GainError when there is none or
    it is wrong; OSError when it can't be read."""
    is_path = "/" in name or name.endswith(".toml")
    path = folder / name if is_path else PROFILES / f"{name}.toml"
    if not is_path and not path.is_file():
        names = profile_names()
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"{one_of(names)}, or a path"
        raise GainError(f"{name}: no such profile; {hint}")
    return load(path)


def closest_profile(gains: Gains) -> tuple[str, dict[str, tuple[Value, Value]]]:
    """The profile that differs in the fewest keys, and the differences: (the profile's, these gains')."""
    found = {name: differences(profile(name), gains) for name in profile_names()}
    name = min(found, key=lambda name: len(found[name]))
    return name, found[name]


def load(path: str | Path) -> Gains:
    """Gains from a profile's file. OSError when it can't be read, GainError naming the file when it is wrong."""
    try:
        return loads(read_text(Path(path)), str(path))
    except SettingsError as error:
        raise GainError(f"{error}; not a profile, which has `key = value` lines") from None


def loads(text: str, source: str = "profile") -> Gains:
    """Gains from a profile's text. GainError names `source`."""
    if len(text) > PROFILE_BYTES_MAX or len(text.encode()) > PROFILE_BYTES_MAX:
        raise GainError(f"{source}: longer than a profile may be, {PROFILE_BYTES_MAX} bytes")
    try:
        table = parse_toml(text, source)
    except SettingsError as error:
        raise GainError(f"{error}; not a profile, which has `key = value` lines") from None
    found: dict[str, Any] = {}
    for written, value in table.items():
        if isinstance(value, dict):
            raise GainError(f"{source}: [{written}]: a profile has no tables, only `key = value` lines")
        try:
            key, number = setting(written, value, KEYS)
        except SettingsError as error:
            raise GainError(f"{source}: {error}") from None
        if key in REMOVED and value == 0 and not isinstance(value, bool):
            continue  # it had no effect
        if key not in KEYS:
            raise GainError(f"{source}: {key} = {value!r}: {removed(key) or f'no such key; {nearest(key, KEYS)}'}")
        if key in found:
            raise GainError(f"{source}: {written} = {value!r}: given twice, as {key} too")
        found[key] = number
    missing = [key for key in REQUIRED if key not in found]
    if missing:
        raise GainError(f"{source}: {missing[0]} is missing; a profile must have {', '.join(missing)}")
    try:
        return of_table(found)
    except GainError as error:
        raise GainError(f"{source}: {error}") from None


def dumps(gains: Gains) -> str:
    """A profile's text; `loads` gives the same gains back."""
    lines = ["# SPDX-License-Identifier: Apache-2.0"]
    for key in KEYS:
        value = getattr(gains, key)
        lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value!r}")
    return "\n".join(lines) + "\n"


def save(gains: Gains, path: str | Path) -> None:
    """Write a profile whole or not at all."""
    write_whole(Path(path), dumps(gains).encode())
