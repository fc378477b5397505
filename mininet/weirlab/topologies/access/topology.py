# SPDX-License-Identifier: Apache-2.0
"""Access networks as the rest of the lab sees them: a client's settings compared on several paths to one server."""

from __future__ import annotations

from pathlib import Path

from weirlab.topologies.access import metrics as figures
from weirlab.topologies.access.schema import AccessSchema
from weirlab.topologies.base import Metrics, Spec, Topology


class Access(Topology):
    """A client with several access networks, and a server."""

    schema = AccessSchema()
    driver = "weirlab.topologies.access.drive"

    def sample_parts(self, folder: Path, spec: Spec) -> list[Path]:
        many = [file for pattern in ("events-*", "flows-*") for file in sorted(folder.glob(f"{pattern}.jsonl"))]
        return [folder / "start.jsonl", folder / "truth.jsonl", *many]

    def compute(self, samples: Path, spec: Spec) -> Metrics:
        return figures.compute(samples, spec)

    def failures(self, metrics: Metrics) -> list[str]:
        return figures.failures(metrics)

    def missed(self, metrics: Metrics) -> list[str]:
        return figures.missed(metrics)

    def headline(self, metrics: Metrics) -> str:
        if metrics["transfer_time_mean_s"] is not None:
            words = f"transfer {metrics['transfer_time_mean_s']:.3f} s, goodput {metrics['goodput_mbit_s']:.2f} Mbit/s"
        elif metrics["tct_mean_ms"] is not None:
            words = f"task completion time {metrics['tct_mean_ms']:.2f} ms"
        else:
            words = "no task complete"
        if metrics["regret_ms"] is not None:
            words += f", best path {100 * metrics['best_path_rate']:.1f} %, regret {metrics['regret_ms']:.1f} ms"
        return words + (f", silence {metrics['stall_ms']:.0f} ms" if metrics["stall_ms"] is not None else "")
