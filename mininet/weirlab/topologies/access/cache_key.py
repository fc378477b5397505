# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping finished runs of `access`: dependencies, files, costs."""

from __future__ import annotations

from weirlab.scenario.policies import parts_of_runs
from weirlab.store.cache import Kept
from weirlab.topologies.access.schedule import sizes_of
from weirlab.topologies.cache_key import FLOOR_BYTES, FLOOR_S, Keeping, Spec

LINE_BYTES = 300
LINES_PER_S = 110  # of the client, every 10 ms where transfers are watched, and of the server
LINES_PER_TASK = 10
SECONDS_PER_MBIT = 0.012
SECONDS_PER_TASK = 0.01


class AccessKeeping(Keeping):
    """The client's events are samples; the oracle's plan is in the spec."""

    kept = Kept(notes=(*Keeping.kept.notes, "oracle.jsonl"))

    def parts(self, spec: Spec) -> set[str]:
        return {"lab", "quic", *parts_of_runs([spec["server"]])}

    def room_bytes(self, spec: Spec) -> int:
        lines = spec["duration_s"] * LINES_PER_S * len(spec["paths"]) + spec["client"]["requests"] * LINES_PER_TASK
        return FLOOR_BYTES + int(lines * LINE_BYTES)

    def expected_s(self, spec: Spec) -> float:
        client = spec["client"]
        sizes = sizes_of(client)
        megabits = client["requests"] * sum(sizes) / len(sizes) * 8 / 1e6
        return FLOOR_S + megabits * SECONDS_PER_MBIT + client["requests"] * SECONDS_PER_TASK

    def like(self, spec: Spec) -> tuple:
        return (spec["client"]["strategy"],)


KEEPING = AccessKeeping()
