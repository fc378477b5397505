# SPDX-License-Identifier: Apache-2.0
"""Interface of a topology to the rest of the lab: everything that differs between topologies, behind one class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from weirlab.report.model import Report
from weirlab.scenario.schema import Schema
from weirlab.store.folder import ResultsFolder, Summary
from weirlab.topologies.cache_key import Keeping
from weirlab.topologies.watching import Watch

Spec = Mapping[str, Any]
Metrics = dict[str, Any]
Recorded = list[tuple[float, Any]]
"""Events of a controller, as `weir.telemetry.view.View` takes them, each with its time of day in seconds."""


class Topology(ABC):
    """Nodes and links that scenarios run on, with all that is measured there.

    An object holds no state. The modules that a method needs are imported in it, so that a command which only lists
    scenarios does not load the plotting modules.
    """

    schema: Schema
    driver: str  # the module that runs one spec inside a lab, as `python -m` takes it

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def keeping(self) -> Keeping:
        """Rules for keeping its finished runs: `KEEPING` of the module `cache_key` beside this object's own."""
        module = import_module(f"{type(self).__module__.rpartition('.')[0]}.cache_key")
        found: Keeping = module.KEEPING
        return found

    @property
    def figures(self) -> str:
        """The module that turns samples into figures: `metrics` beside this object's own."""
        return f"{type(self).__module__.rpartition('.')[0]}.metrics"

    def environment(self, spec: Spec) -> dict[str, str]:
        """Variables that the driver's lab has beside the usual ones."""
        return {}

    def qdiscs(self, spec: Spec) -> set[str]:
        """The queue disciplines that the spec asks for by name, ours among them: not every kernel has each."""
        return set()

    @abstractmethod
    def sample_parts(self, folder: Path, spec: Spec) -> list[Path]:
        """The files of samples that the driver left in a run's folder, in the order in which they are joined."""

    def flow_name(self, spec: Spec, number: int) -> str | int:
        """Name in the samples of the driver's flow of this number."""
        return number

    @abstractmethod
    def compute(self, samples: Path, spec: Spec) -> Metrics:
        """A run's metrics, by the names in `schema.figures` and more. Raises SamplesError."""

    @abstractmethod
    def failures(self, metrics: Metrics) -> list[str]:
        """The checks that a run's metrics fail, one line each; empty if they all pass."""

    def missed(self, metrics: Metrics) -> list[str]:
        """Those of them that say that an application failed, though all was measured well."""
        return []

    @abstractmethod
    def headline(self, metrics: Metrics) -> str:
        """A run's figures in a few words."""

    def recorded(self, samples: Path, spec: Spec) -> Recorded:
        """Controller's samples and decisions of a finished run, in order of time; empty where there was none. Raises
        SamplesError naming file and line."""
        return []

    def watch(self, spec: Spec) -> Watch | None:
        """Live display of a run of the spec; None where there is nothing to see before its end."""
        return None

    def asked(self, folder: ResultsFolder, summary: Summary) -> list[Mapping[str, Any]]:
        """Requirements on all runs together, and whether they are met: documents for `--json`. Raises ResultsError."""
        return []

    def report(self, folder: ResultsFolder, summary: Summary, drawn: bool) -> Report:
        """The report of a results folder, by `report/page.py` beside this object's own module; its figures, which take
        the samples of all runs, only if `drawn`. Raises ResultsError, SamplesError."""
        page = import_module(f"{type(self).__module__.rpartition('.')[0]}.report.page")
        found: Report = page.report(folder, summary, drawn)
        return found
