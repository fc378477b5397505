# SPDX-License-Identifier: Apache-2.0
"""Schema of a topology's scenario files; `weirlab.scenario.load` reads a file with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from weirlab.scenario.checker import Checker
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.sections import Section

# The sections that the files of every topology may have.
COMMON = ("scenario", "variants", "sweep", "runs", "paper", "cells")


class Schema(ABC):
    """The sections of a scenario file on one topology.

    `head` checks [scenario]. `sections` are the topology's own sections: each can be swept. `figures` are the metrics,
    with their meaning, that [paper.figures] may name. The examples stand in messages.
    """

    name: str
    head: type[Section]
    sections: tuple[str, ...]
    figures: Mapping[str, str]
    variant_example: tuple[str, str]  # a label, and a line of TOML that a variant may have
    sweep_example: str  # a dotted key

    @abstractmethod
    def specs(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Variant label to spec, with nothing left to default, of a file's sections without lists to cross.

        Mistakes go to the checker, and what has some is left out.
        """

    def shortened(self, spec: Mapping[str, Any], duration_s: float) -> dict[str, Any]:
        """The first seconds of what a spec is. Raises ScenarioError where that can't be."""
        raise ScenarioError([f"a scenario on {self.name} can't be cut; write another duration_s into a copy of it"])
