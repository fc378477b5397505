# SPDX-License-Identifier: Apache-2.0
"""An edge network as the rest of the lab sees it: ways to bring one file to many receivers compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weirlab.store.folder import ResultsFolder, Summary
from weirlab.topologies.base import Metrics, Spec, Topology
from weirlab.topologies.edge import metrics as figures
from weirlab.topologies.edge.schema import EdgeSchema


class Edge(Topology):
    """One publisher, a tree of P4 switches, receivers."""

    schema = EdgeSchema()
    driver = "weirlab.topologies.edge.drive"

    def sample_parts(self, folder: Path, spec: Spec) -> list[Path]:
        return [folder / "run.jsonl"]

    def compute(self, samples: Path, spec: Spec) -> Metrics:
        return figures.compute(samples, spec)

    def failures(self, metrics: Metrics) -> list[str]:
        return figures.failures(metrics)

    def missed(self, metrics: Metrics) -> list[str]:
        return figures.missed(metrics)

    def headline(self, metrics: Metrics) -> str:
        if metrics["completion_mean_s"] is None:
            return "no receiver has the file"
        return (
            f"goodput {metrics['goodput_mean_mbit_s']:.2f} Mbit/s each, complete after "
            f"{metrics['completion_mean_s']:.3f} s, publisher sent {metrics['publisher_sent_ratio']:.2f} files"
        )

    def asked(self, folder: ResultsFolder, summary: Summary) -> list[Mapping[str, Any]]:
        from weirlab.topologies.edge.report import page

        return page.asked_documents(folder, summary)
