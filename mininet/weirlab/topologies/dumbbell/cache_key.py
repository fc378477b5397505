# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping finished runs of the dumbbell: dependencies, files, costs."""

from __future__ import annotations

from weirlab.scenario.policies import parts_of_runs
from weirlab.scenario.stacks import SERVER, servers_of
from weirlab.store.cache import Kept
from weirlab.topologies.cache_key import FLOOR_BYTES, FLOOR_S, Keeping, Spec
from weirlab.topologies.dumbbell.traffic import PACED_KINDS

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
    kept = Kept(
        whole=("decisions.jsonl", "digests.jsonl", "rates.jsonl", "trajectories-*/*", "qlog/*/*"),
        notes=(*Keeping.kept.notes, "attached*.json", "report-*.json", "switch.toml"),
    )

    def parts(self, spec: Spec) -> set[str]:
        kinds = {flow["kind"] for flow in spec["flows"]}
        quic = {kind for kind in kinds if kind.startswith("quic")}
        aqm = spec["aqm"]
        aqms = [aqm]
        if back := spec["link"].get("return"):
            aqms.append(spec.get("return_aqm") or back["queue"])
        wanted = {
            "quic": any(flow["kind"] in quic and SERVER not in flow for flow in spec["flows"]),
            "receiver": bool(quic),
            "traffic": bool(kinds - quic - set(PACED_KINDS)),
            "paced": bool(kinds & set(PACED_KINDS)),
            "loader": any(one["qdisc"] == "weir" for one in aqms),
            "coupled": bool(aqm.get("coupled")),
            "bands": any(one.get("bands") for one in aqms),
            "deployed": aqm["qdisc"] == "p4",
            "tuner": bool(aqm.get("tune")) or spec.get("shaper", {}).get("rule", "fixed") != "fixed",
            "autorate": spec.get("shaper", {}).get("rule") == "autorate",
        }
        built = {server.built_by for server in servers_of(spec) if server.built_by}
        own = {name for name, does in wanted.items() if does}
        return {"lab", "sojourn", *parts_of_runs(spec["flows"]), *built, *own}

    def files(self, spec: Spec) -> tuple[str, ...]:
        """Programs of other stacks that set-up does not build, and what their rows name beside."""
        found = []
        for server in servers_of(spec):
            program = server.found()
            found += [*server.sources, *([str(program)] if program and not server.built_by else [])]
        return tuple(dict.fromkeys(found))

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
