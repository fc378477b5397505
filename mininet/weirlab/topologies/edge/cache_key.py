# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping finished runs of `edge`: dependencies, files, costs."""

from __future__ import annotations

from weirlab.scenario.policies import parts_of_runs
from weirlab.store.cache import Kept
from weirlab.topologies.cache_key import FLOOR_BYTES, FLOOR_S, Keeping, Spec

LINE_BYTES = 300
LINES_PER_S = 20  # a receiver's of a QUIC server's report
LINES_PER_MOVE = 5000
SWITCH_S = 5.0  # to start one and to bring it its program
SECONDS_PER_MBIT = 0.1  # of all receivers together


class EdgeKeeping(Keeping):
    """The programs' reports at the end of the file hold more than the samples do."""

    kept = Kept(
        notes=(
            *Keeping.kept.notes,
            *("switch-*.toml", "get-*.json", "events-*.jsonl", "client-*.json", "tasks-*.jsonl", "stats-*.jsonl"),
        )
    )

    def parts(self, spec: Spec) -> set[str]:
        carrying = spec["carrying"]
        found = {"lab", "quic", *parts_of_runs([carrying])}  # weir-icn has the same QUIC
        found |= {"deployed", "names"} if spec["tree"]["edges"] else set()
        return found | ({"icn"} if carrying["carry"] != "unicast" else set())

    def files(self, spec: Spec) -> tuple[str, ...]:
        profile = spec["aqm"]["profile"]
        return (profile,) if "/" in profile or profile.endswith(".toml") else ()

    def room_bytes(self, spec: Spec) -> int:
        """The receivers' files are in the run's folder until it ends."""
        receivers = spec["transfer"]["receivers"]
        lines = spec["duration_s"] * LINES_PER_S * receivers + len(spec["moves"]) * LINES_PER_MOVE
        files = receivers * spec["transfer"]["bytes"] if spec["carrying"]["carry"] == "names" else 0
        return FLOOR_BYTES + int(files + lines * LINE_BYTES)

    def expected_s(self, spec: Spec) -> float:
        megabits = spec["transfer"]["receivers"] * spec["transfer"]["bytes"] * 8 / 1e6
        edges = spec["tree"]["edges"]
        return FLOOR_S + SWITCH_S * (edges + 1 if edges else 0) + megabits * SECONDS_PER_MBIT

    def like(self, spec: Spec) -> tuple:
        return (spec["carrying"]["carry"],)


KEEPING = EdgeKeeping()
