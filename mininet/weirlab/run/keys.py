# SPDX-License-Identifier: Apache-2.0
"""By what a run and its figures are known in the cache: the content of all that they depend on.

A run's key is made of its spec, the lab's kernel and the sources of the parts of that run, so that a change of the
tuner asks for the tuner's runs again and leaves the kernel's queue disciplines alone. The run's topology names its
parts (weirlab/topologies/cache_key.py), setup/sources.txt their sources. Sources rather than programs are hashed:
`./run` builds what is not up to date before it comes here, and a build is not the same bytes twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from weirlab.lab.kernels import ExactLab
from weirlab.run import sources
from weirlab.topologies.cache_key import Keeping
from weirlab.topologies.registry import topology_of

METRICS_LIBRARIES = ("numpy", "scipy")
WITHOUT_SWITCHES = "!mininet/weirlab/lab/p4switch.py"  # in a driver, which has the part `deployed` where it starts one


@cache
def lab_kernel() -> str:
    """The lab kernel's version and configuration, by its folder's name. Raises LabError if there is none."""
    return ExactLab().folder.name


class Keys:
    """Keys by the sources as they are now: make a new one to read again."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, ...], str] = {}

    def _digest(self, *lines: str) -> str:
        if lines not in self._digests:
            self._digests[lines] = sources.digest(lines)
        return self._digests[lines]

    def facts(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """All that a run's samples depend on."""
        topology = topology_of(spec["topology"])
        keeping = topology.keeping
        parts = {name: self._digest(f"@{name}") for name in sorted(keeping.parts(spec))}
        own = {path: self._digest(path) for path in keeping.files(spec)}
        driver = self._digest(f"import {topology.driver}", WITHOUT_SWITCHES)
        return {
            "spec": {key: value for key, value in spec.items() if key not in keeping.not_the_runs},
            "kernel": lab_kernel(),
            "sources": {**parts, **own, "driver": driver},
        }

    def run(self, spec: Mapping[str, Any]) -> str:
        """The key of a run's samples; `spec` has the seed in it."""
        return _sha256(self.facts(spec))

    def metrics(self, spec: Mapping[str, Any]) -> str:
        """The key of what is computed from those samples."""
        libraries = {name: version(name) for name in METRICS_LIBRARIES}
        figures = self._digest(f"import {topology_of(spec['topology']).figures}")
        return _sha256({"spec": spec, "sources": figures, "libraries": libraries})

    def further(self, spec: Mapping[str, Any], module: str) -> str:
        """The key of what this module computes from them, too."""
        return _sha256({"metrics": self.metrics(spec), "sources": self._digest(f"import {module}")})


def keeping_of(spec: Mapping[str, Any]) -> Keeping:
    """Rules for keeping runs with that spec."""
    return topology_of(spec["topology"]).keeping


def _sha256(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
