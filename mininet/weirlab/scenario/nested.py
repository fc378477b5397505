# SPDX-License-Identifier: Apache-2.0
"""Dotted keys such as `flows.0.count` into nested tables and lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def reachable(container: Any, parts: Sequence[str]) -> bool:
    """Whether all but the last of these parts lead to a table."""
    for part in parts[:-1]:
        place = _place(part, container)
        if place is None or (isinstance(container, dict) and place not in container):
            return False
        container = container[place]
    return isinstance(container, dict) and len(parts) > 1


def replaced(container: Any, parts: Sequence[str], value: Any) -> Any:
    """A copy of nested tables and lists with one place set; the way there must be `reachable`."""
    if not parts:
        return value
    place = _place(parts[0], container)
    copy = container.copy()
    copy[place] = replaced(copy[place], parts[1:], value) if len(parts) > 1 else value
    return copy


def found(container: Any, parts: Sequence[str]) -> Any:
    """Value at that place; None if there is no such place."""
    for part in parts:
        place = _place(part, container)
        if place is None or (isinstance(container, dict) and place not in container):
            return None
        container = container[place]
    return container


def _place(part: str, container: Any) -> Any:
    """The key or index that `part` is in `container`; None if there is no such place."""
    if isinstance(container, list):
        return int(part) if part.isdecimal() and int(part) < len(container) else None
    return part if isinstance(container, dict) else None
