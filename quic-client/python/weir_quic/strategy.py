# SPDX-License-Identifier: Apache-2.0
"""Strategies of path choice in Python: their interface and its values."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Task:
    """A request that needs a path."""

    number: int
    """From 0 on a connection."""
    bytes: int | None
    """Expected payload; None if unknown."""
    usable: list[str]
    """Paths that can be used, at least one."""
    known: list[str]
    """All paths."""
    current: str | None
    """The path in use."""
    idle_ms: float
    """Time since the last event of path choice."""
    mean_ms: dict[str, float]
    """Mean completion time of earlier requests, for each path that has carried one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A completed request."""

    path: str
    number: int
    tct_ms: float
    """Completion time, from its due time to its last byte."""
    bytes: int
    """Payload."""
    switched: bool
    """The connection migrated for it."""


class Strategy(Protocol):
    """A strategy of path choice. Only `choose` is required.

    A client makes one for each connection and calls it on its own thread, where packets wait meanwhile: a call should
    take less than a millisecond. An exception is reported by `sys.unraisablehook`, and the path in use is kept.
    Optional methods: `finished(sample: Sample)`, `failed(path)`, `returned(path)` (usable again), `removed(path)`,
    `probed(path, rtt_ms)`.
    """

    def choose(self, task: Task) -> str | tuple[str, str]:
        """The path for a request, one of `task.usable`, or this and the reason for the events."""
        ...
