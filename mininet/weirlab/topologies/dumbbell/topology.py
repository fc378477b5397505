# SPDX-License-Identifier: Apache-2.0
"""The dumbbell as the rest of the lab sees it: queue disciplines compared on one bottleneck."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weirlab.lab.kernels import LabError, bmv2_environment
from weirlab.lab.quic_servers import servers_environment
from weirlab.scenario.stacks import servers_of
from weirlab.topologies.base import Metrics, Spec, Topology
from weirlab.topologies.dumbbell import metrics as figures
from weirlab.topologies.dumbbell.schema import DumbbellSchema


class Dumbbell(Topology):
    """Senders, a bottleneck, a sink."""

    schema = DumbbellSchema()
    driver = "weirlab.topologies.dumbbell.drive"

    def environment(self, spec: Spec) -> dict[str, str]:
        """Environment for BMv2 and for servers of other stacks, where they are used. Raises LabError if such a program
        is missing."""
        servers = servers_of(spec)
        for server in servers:
            if reason := server.missing() or server.hidden():
                raise LabError(reason)
        found = bmv2_environment() if spec["aqm"].get("switch") == "bmv2" else {}
        return {**servers_environment(servers), **found} if servers else found

    def qdiscs(self, spec: Spec) -> set[str]:
        back = spec["link"].get("return")
        queues = [spec["aqm"], *([spec.get("return_aqm") or back["queue"]] if back else [])]
        return {str(aqm.get("qdisc_args", aqm["qdisc"])).split()[0] for aqm in queues}

    def sample_parts(self, folder: Path, spec: Spec) -> list[Path]:
        many = [file for pattern in ("flows-*", "short-*") for file in sorted(folder.glob(f"{pattern}.jsonl"))]
        decisions = sorted(folder.glob("decisions.jsonl"))
        queues = [folder / "queue.jsonl", *sorted(folder.glob("queue-*.jsonl"))]
        return [folder / "start.jsonl", *queues, *many, *decisions, folder / "sojourn.jsonl"]

    def flow_name(self, spec: Spec, number: int) -> str:
        """ "GROUP.INDEX"."""
        for group, flow in enumerate(spec["flows"]):
            if number < flow["count"]:
                return f"{group}.{number}"
            number -= flow["count"]
        raise IndexError(f"the spec has {number + 1} flows less than that")

    def compute(self, samples: Path, spec: Spec) -> Metrics:
        return figures.compute(samples, spec)

    def failures(self, metrics: Metrics) -> list[str]:
        return figures.failures(metrics)

    def headline(self, metrics: dict[str, Any]) -> str:
        delay_ms, goodput_mbit_s = (metrics[key] for key in ("queue_delay_mean_ms", "goodput_total_mbit_s"))
        return f"queue delay {delay_ms:.2f} ms, goodput {goodput_mbit_s:.3f} Mbit/s"
