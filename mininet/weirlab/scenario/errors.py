# SPDX-License-Identifier: Apache-2.0
"""The error of everything that reads scenarios, and its way to name the right form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


class ScenarioError(Exception):
    """Mistakes in a scenario file or a selection of its runs; `problems` holds one line for each mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggestion for an unknown name: the known name most like it, and all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}? ({listed(known)})" if close else f"write one of {listed(known)}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "(there is none)"


def shown(value: Any) -> str:
    """A value as it stands in a label and in a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_toml(value: Any) -> str:
    """A plain value as a scenario file has it."""
    return f'"{value}"' if isinstance(value, str) else repr(value) if isinstance(value, float) else shown(value)
