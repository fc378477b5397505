# SPDX-License-Identifier: Apache-2.0
"""Whether the lab's kernel has what runs ask of it, reported before the first of them."""

from __future__ import annotations

from collections.abc import Iterable

from weirlab.lab.kernel_config import qdiscs_lacking
from weirlab.lab.kernels import ExactLab
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.model import Run
from weirlab.topologies.registry import topology_of

SINCE = {"dualpi2": "6.17"}  # Linux


def check_kernel(runs: Iterable[Run]) -> None:
    """Raises ScenarioError naming each variant whose queue discipline the lab's kernel has not, and the remedy.

    Raises LabError if that kernel is not built.
    """
    lab = ExactLab()
    lacking = qdiscs_lacking(lab.folder)
    problems: dict[str, None] = {}
    for run in runs:
        for name in sorted(topology_of(run.spec["topology"]).qdiscs(run.spec).intersection(lacking)):
            since = f" {SINCE[name]} or newer" if name in SINCE else " another version"
            label = run.variant.split(",")[0]
            problems[f"{run.place}: variants.{label}: the lab's kernel, Linux {lab.version()}, has no {name}; write "
                     f"--lab-kernel VERSION with Linux{since}, as --lab-kernel 7.3"] = None  # fmt: skip
    if problems:
        raise ScenarioError(list(problems))
