# SPDX-License-Identifier: Apache-2.0
"""Live display of a topology's run: lines of the run's files in, text out. Pure; weirlab/run/watching.py reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from rich.console import RenderableType


class Watch(ABC):
    """One run under way. `files`: patterns of the files to read in the run's folder, lines of JSON that grow.

    `now_s`: the run's time, of the last line that was taken; None before its start.
    """

    files: ClassVar[tuple[str, ...]]
    now_s: float | None = None

    @abstractmethod
    def time_us(self, line: Mapping[str, Any]) -> float | None:
        """When a line was written, by the lab's monotonic clock, in whose order lines are taken; None: with the line
        before it in its file."""

    @abstractmethod
    def take(self, line: Mapping[str, Any]) -> str | None:
        """Take a line; what happened, if that is worth a line of its own."""

    @abstractmethod
    def summary(self) -> str:
        """State of the run, in a line."""

    @abstractmethod
    def screen(self, width: int, height: int) -> RenderableType:
        """State of the run, for a terminal of so many columns and lines."""
