# SPDX-License-Identifier: Apache-2.0
"""`campus` as the rest of the lab sees it: all systems in one run, and each taken out in turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weirlab.lab.kernels import bmv2_environment
from weirlab.store.folder import ResultsFolder, Summary
from weirlab.topologies.base import Metrics, Recorded, Spec, Topology
from weirlab.topologies.campus import metrics as figures
from weirlab.topologies.campus.commands import flow_name
from weirlab.topologies.campus.schema import CampusSchema
from weirlab.topologies.watching import Watch


class Campus(Topology):
    """A phone, two sites, an origin, and everything at once."""

    schema = CampusSchema()
    driver = "weirlab.topologies.campus.drive"

    def environment(self, spec: Spec) -> dict[str, str]:
        return bmv2_environment() if spec["switches"]["target"] == "bmv2" else {}

    def sample_parts(self, folder: Path, spec: Spec) -> list[Path]:
        return [
            folder / "run.jsonl",
            *sorted(folder.glob("flows-*.jsonl")),
            *sorted(folder.glob("tasks-*.jsonl")),
            *sorted(folder.glob("short-*.jsonl")),
            *sorted(folder.glob("paced-*.jsonl")),
            *sorted(folder.glob("names.jsonl")),
            *sorted(folder.glob("queues.jsonl")),
            *sorted(folder.glob("decisions.jsonl")),
        ]

    def flow_name(self, spec: Spec, number: int) -> str | int:
        return flow_name(number)

    def qdiscs(self, spec: Spec) -> set[str]:
        aqm = spec["has"]["aqm"]
        return set() if aqm == "law" else {aqm}

    def compute(self, samples: Path, spec: Spec) -> Metrics:
        return figures.compute(samples, spec)

    def failures(self, metrics: Metrics) -> list[str]:
        return figures.failures(metrics)

    def missed(self, metrics: Metrics) -> list[str]:
        return figures.missed(metrics)

    def headline(self, metrics: Metrics) -> str:
        def told(name: str, unit: str, decimals: int) -> str:
            value = metrics[name]
            return "none" if value is None else f"{value:.{decimals}f} {unit}"

        return (
            f"requests p99 {told('request_p99_ms', 'ms', 0)}, upload {told('upload_mbit_s', 'Mbit/s', 2)}, "
            f"stream stalled {told('stream_stalled_s', 's', 1)}, voice p99 {told('voice_delay_p99_ms', 'ms', 1)}"
        )

    def recorded(self, samples: Path, spec: Spec) -> Recorded:
        from weirlab.topologies.campus import recorded

        return recorded.recorded(samples, spec)

    def watch(self, spec: Spec) -> Watch:
        from weirlab.topologies.campus.watch import CampusWatch

        return CampusWatch(spec)

    def asked(self, folder: ResultsFolder, summary: Summary) -> list[Mapping[str, Any]]:
        from weirlab.topologies.campus.report import page

        return list(page.asked_documents(summary))
