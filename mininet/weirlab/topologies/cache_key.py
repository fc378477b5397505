# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping a topology's finished runs.

A finished run is known by all that it depends on (weirlab/run/keys.py). Its topology names here the parts of
setup/sources.txt that take part in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from weirlab.store.cache import Kept

Spec = Mapping[str, Any]

FLOOR_BYTES = 1 << 20
"""Space that a run's output takes for the lab itself."""
FLOOR_S = 6.0
"""Time to boot a lab and to set the run up, in seconds of wall time."""


class Keeping(ABC):
    """Differences between the topologies in keeping runs. An object holds no state."""

    not_the_runs: tuple[str, ...] = ("scenario", "variant", "warmup_s", "reference_target_ms")
    """Of a spec, keys without effect in the lab: names, and settings of the figures."""
    kept = Kept(notes=("stdout", "stderr", "log-*.txt", "qdiscs.json"))
    """Files kept of a run's folder."""

    @abstractmethod
    def parts(self, spec: Spec) -> set[str]:
        """Parts of setup/sources.txt that take part in a run, beside its driver."""

    def files(self, spec: Spec) -> tuple[str, ...]:
        """Files outside of the clone that the spec names."""
        return ()

    def repeats(self, spec: Spec) -> bool:
        """Whether the run is the same again: False where something outside of the lab has a say in it."""
        return True

    @abstractmethod
    def room_bytes(self, spec: Spec) -> int:
        """Disk space of a running run, on the safe side."""

    @abstractmethod
    def expected_s(self, spec: Spec) -> float:
        """Wall time of a run in seconds, before any of its kind has been seen."""

    @abstractmethod
    def like(self, spec: Spec) -> tuple:
        """Key of runs of different scenarios that miss that expectation alike."""
