# SPDX-License-Identifier: Apache-2.0
"""How long runs will take, learnt from those that have finished."""

from __future__ import annotations

from weirlab.scenario.model import Run

# Seconds a run takes before any of its kind has been seen: to boot and set up, and for each virtual second and Mbit/s.
COST_FLOOR_S = 6.0
COST_PER_VIRTUAL_MBIT = {"tcp": 0.0048, "quic": 0.012}
COST_OF_SWITCH = 2.0  # a P4 switch takes that many times as long
COST_OF_TUNER_S = 3.0


class Costs:
    """What a run takes, in seconds of ours, learnt from those that have finished."""

    def __init__(self) -> None:
        self.seen: dict[tuple, list[float]] = {}  # how many, their seconds, the seconds expected of them at first

    @staticmethod
    def at_first_s(run: Run) -> float:
        spec = run.spec
        kind = "quic" if any(flow["kind"].startswith("quic") for flow in spec["flows"]) else "tcp"
        traffic_s = spec["duration_s"] * spec["link"]["bottleneck"]["rate_mbit_s"] * COST_PER_VIRTUAL_MBIT[kind]
        cost_s = (COST_FLOOR_S + traffic_s) * (COST_OF_SWITCH if spec["aqm"]["qdisc"] == "p4" else 1)
        return cost_s + (COST_OF_TUNER_S if spec["aqm"].get("tune") else 0)

    @staticmethod
    def kinds(run: Run) -> list[tuple]:
        """From the closest relatives to all runs."""
        aqm = run.spec["aqm"]
        like = (aqm["qdisc"], bool(aqm.get("tune")))
        return [(run.scenario, run.variant), (run.scenario, *like), (run.scenario,), like, ()]

    def learn(self, run: Run, wall_s: float) -> None:
        for kind in self.kinds(run):
            sums = self.seen.setdefault(kind, [0.0, 0.0])
            sums[0] += wall_s
            sums[1] += self.at_first_s(run)

    def expected_s(self, run: Run) -> float:
        for kind in self.kinds(run):
            if kind in self.seen:
                took_s, expected_s = self.seen[kind]
                return self.at_first_s(run) * took_s / expected_s
        return self.at_first_s(run)
