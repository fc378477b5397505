# SPDX-License-Identifier: Apache-2.0
"""Versions of the form 1.2, 1.2.3 or 1.2.3b4, as Mininet compares them."""

from __future__ import annotations

import re
from functools import total_ordering

FINAL = ("final", 0)  # sorts after ("a", n) and ("b", n)


@total_ordering
class StrictVersion:
    def __init__(self, text: str) -> None:
        found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:([ab])(\d+))?", text)
        if not found:
            raise ValueError(f"invalid version number '{text}'")
        major, minor, patch, kind, number = found.groups()
        self._text = text
        self._key = (int(major), int(minor), int(patch or 0), (kind, int(number)) if kind else FINAL)

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._key)

    def _key_of(self, other: object) -> tuple[object, ...] | None:
        if isinstance(other, str):
            other = StrictVersion(other)
        return other._key if isinstance(other, StrictVersion) else None

    def __eq__(self, other: object) -> bool:
        return self._key == self._key_of(other)

    def __lt__(self, other: object) -> bool:
        key = self._key_of(other)
        return NotImplemented if key is None else self._key < key
