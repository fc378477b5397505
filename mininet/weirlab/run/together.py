# SPDX-License-Identifier: Apache-2.0
"""`./run together`: the scenario with all systems at once, as long and on such switches as the options say."""

from __future__ import annotations

import dataclasses

from weirlab import paths
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.model import Scenario
from weirlab.topologies.registry import topology_of

SCENARIO = "together"
SHORT_S = 30.0
"""Of the demo: one fade, one move."""


def together(seconds: float | None = None, switch: str = "embedded") -> Scenario:
    """The scenario, or its first `seconds`, with `switch` as the sites' switches. Raises ScenarioError."""
    found = load_scenario(paths.scenarios() / f"{SCENARIO}.toml")
    if seconds is not None and seconds != found.duration_s:
        schema = topology_of(found.topology).schema
        cases = {label: schema.shortened(spec, seconds) for label, spec in found.cases.items()}
        found = dataclasses.replace(found, cases=cases, duration_s=seconds)
    cases = {label: {**spec, "switches": {**spec["switches"], "target": switch}} for label, spec in found.cases.items()}
    return dataclasses.replace(found, cases=cases)
