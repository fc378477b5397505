# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping finished runs of `campus`: dependencies, files, costs."""

from __future__ import annotations

from weirlab.scenario.policies import parts_of_runs
from weirlab.store.cache import Kept
from weirlab.topologies.cache_key import FLOOR_BYTES, FLOOR_S, Keeping, Spec

LINE_BYTES = 250
LINES_PER_S = 1000
SECONDS_PER_VIRTUAL_S = 4.0
SWITCHES_S = 10.0
TUNER_S = 5.0


class CampusKeeping(Keeping):
    """The programs' reports hold more than the samples do."""

    kept = Kept(
        whole=("decisions.jsonl",),
        notes=(*Keeping.kept.notes, "switch-*.toml", "fleet.toml", "attached-*.json", "get-*.json*", "request-*.json"),
    )

    def parts(self, spec: Spec) -> set[str]:
        has = spec["has"]
        law = has["aqm"] == "law"
        wanted = {"loader": law, "bands": law and has["bands"], "tuner": law and has["tune"], "icn": has["names"]}
        every = ("lab", "deployed", "names", "quic", "traffic", "paced")  # weir-icn has the same QUIC
        learned = parts_of_runs([{"cc": has["upload_cc"]}, spec["server"]])
        return {*every, *learned, *(name for name, does in wanted.items() if does)}

    def room_bytes(self, spec: Spec) -> int:
        receivers = spec["receivers"]["count"] + 1
        stream = spec["stream"]["rate_mbit_s"] * 1e6 / 8 * spec["duration_s"]
        files = receivers * (spec["file"]["bytes"] + stream) if spec["has"]["names"] else 0
        return FLOOR_BYTES + int(files + spec["duration_s"] * LINES_PER_S * LINE_BYTES)

    def expected_s(self, spec: Spec) -> float:
        law = spec["has"]["aqm"] == "law"
        return FLOOR_S + SWITCHES_S + (TUNER_S if law else 0) + spec["duration_s"] * SECONDS_PER_VIRTUAL_S

    def like(self, spec: Spec) -> tuple:
        return (spec["has"]["aqm"], spec["has"]["bands"], spec["has"]["names"], spec["has"]["traffic"])


KEEPING = CampusKeeping()
