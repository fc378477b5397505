# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping finished runs of the dumbbell: dependencies, files, costs.

The names and the sources of the parts are in the keys of all runs that there are: a change of a pattern that matches
another file repeats them.
"""

from __future__ import annotations

from weirlab.scenario.policies import parts_of_runs
from weirlab.store.cache import Kept
from weirlab.topologies.cache_key import (
    EBPF,
    FLOOR_BYTES,
    FLOOR_S,
    LAB,
    LEARNED_CC,
    P4,
    PACED,
    POLICIES,
    POLICIES_OF_RUNS,
    QUIC,
    TRAFFIC,
    TUNER,
    Keeping,
    Patterns,
    Spec,
)
from weirlab.topologies.dumbbell.traffic import PACED_KINDS, is_noq

DRIVER = ("drive", "hops", "network", "rate_rule", "topology", "traffic")
SOURCES: dict[str, Patterns] = {
    "lab": LAB,
    "driver": (
        *(f"mininet/weirlab/lab/{name}.py" for name in ("arrivals", "net", "programs", "qdisc", "rates", "shaping")),
        *(f"mininet/weirlab/topologies/dumbbell/{name}.py" for name in DRIVER),
        *(f"mininet/weirlab/topologies/dumbbell/queues/{name}.py" for name in ("tc", "red", "dualpi2")),
        *POLICIES_OF_RUNS,
        "mininet/weirlab/run/runner.py",
    ),
    "sampler": (
        "xdp/tools/weir-sojourn/*.[ch]",
        "xdp/src/sojourn.bpf.c",
        "xdp/include/weir/sojourn.h",
        "xdp/include/weir/packet.h",
    ),
    "traffic": TRAFFIC,
    "paced": PACED,
    "quic": QUIC,
    "noq": ("mininet/peers/noq/Cargo.*", "mininet/peers/noq/src/*.rs"),
    "learned": LEARNED_CC,
    "policies": POLICIES,
    "ebpf": EBPF,
    "p4": P4,
    "tuner": TUNER,
    "autorate": ("mininet/weirlab/topologies/dumbbell/autorate.py",),
}
FIGURES = (
    "bands", "fairness", "hops", "metrics", "paced", "return_way", "samples", "senders", "step_response", "traffic",
)  # fmt: skip
# For each packet that the bottleneck carries a run writes a line there, and one at each other place where packets are
# timed, if this one is; packed they make a tenth of it.
LINE_BYTES = 100
OTHER_LINES = 2
PACKET_BYTES = 1440
SECONDS_PER_VIRTUAL_MBIT = {"tcp": 0.0048, "quic": 0.012}  # for each virtual second and Mbit/s
TIMES_OF_SWITCH = 2.0  # a P4 switch takes that many times as long
TUNER_S = 3.0


class DumbbellKeeping(Keeping):
    """The report is made of its samples, and the tuner's decisions beside them."""

    not_the_runs = (*Keeping.not_the_runs, "compares")
    figures = (
        "mininet/weirlab/metrics/*.py",
        "mininet/weirlab/lab/rates.py",
        *(f"mininet/weirlab/topologies/dumbbell/{name}.py" for name in FIGURES),
    )
    kept = Kept(
        whole=("decisions.jsonl", "digests.jsonl", "rates.jsonl", "trajectories-*/*"),
        notes=(*Keeping.kept.notes, "attached*.json", "report-*.json", "switch.toml"),
    )

    def sources(self, spec: Spec) -> dict[str, Patterns]:
        kinds = {flow["kind"] for flow in spec["flows"]}
        quic = {kind for kind in kinds if kind.startswith("quic")}
        aqm = spec["aqm"]
        wanted = {
            "quic": bool(quic),
            "noq": any(is_noq(flow.get("cc", "")) for flow in spec["flows"]),
            **parts_of_runs(spec["flows"]),
            "traffic": bool(kinds - quic - set(PACED_KINDS)),
            "paced": bool(kinds & set(PACED_KINDS)),
            "ebpf": aqm["qdisc"] == "weir",
            "p4": aqm["qdisc"] == "p4",
            "tuner": bool(aqm.get("tune")) or spec.get("shaper", {}).get("rule", "fixed") != "fixed",
            "autorate": spec.get("shaper", {}).get("rule") == "autorate",
        }
        return {name: patterns for name, patterns in SOURCES.items() if wanted.get(name, True)}

    def repeats(self, spec: Spec) -> bool:
        return not any(flow.get("cc_agent") for flow in spec["flows"])

    def room_bytes(self, spec: Spec) -> int:
        packets = spec["link"]["bottleneck"]["rate_mbit_s"] * 1e6 / 8 / PACKET_BYTES * spec["duration_s"]
        return FLOOR_BYTES + int(packets * LINE_BYTES * (1 + OTHER_LINES / spec.get("sample_one_in", 1)))

    def expected_s(self, spec: Spec) -> float:
        kind = "quic" if any(flow["kind"].startswith("quic") for flow in spec["flows"]) else "tcp"
        virtual_mbit = spec["duration_s"] * spec["link"]["bottleneck"]["rate_mbit_s"]
        run_s = FLOOR_S + virtual_mbit * SECONDS_PER_VIRTUAL_MBIT[kind]
        run_s *= TIMES_OF_SWITCH if spec["aqm"]["qdisc"] == "p4" else 1
        return run_s + (TUNER_S if spec["aqm"].get("tune") else 0)

    def like(self, spec: Spec) -> tuple:
        return spec["aqm"]["qdisc"], bool(spec["aqm"].get("tune"))


KEEPING = DumbbellKeeping()
