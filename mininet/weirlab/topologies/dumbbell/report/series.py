# SPDX-License-Identifier: Apache-2.0
"""Data of the plots, from the samples of each run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weirlab.report import plots
from weirlab.report.labels import Variant
from weirlab.report.plots import HUES
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, RunResult, Summary, samples_path
from weirlab.topologies.dumbbell.hops import QUEUE_UNDER_TEST
from weirlab.topologies.dumbbell.report.decisions import read_decisions
from weirlab.topologies.dumbbell.samples import RECEIVER, Samples, read_samples
from weirlab.topologies.dumbbell.senders import compared, under_test

DELAY_BIN_S = 0.5
GOODPUT_BIN_S = 1.0
CDF_AT = np.concatenate([np.linspace(0, 0.99, 199), np.linspace(0.99, 0.9999, 25)])


@dataclass(frozen=True)
class Series:
    """Data of the plots of one run: times in s from its start, bins by their middles; NaN where nothing was."""

    delay_t_s: np.ndarray
    delay_ms: np.ndarray
    delay_quantiles_ms: np.ndarray
    goodput_t_s: np.ndarray
    goodput_kbit_s: dict[tuple[int, int], np.ndarray]
    probability_t_s: np.ndarray
    probability_percent: np.ndarray
    decisions: list[dict[str, Any]]


def read_variants(folder: ResultsFolder, summary: Summary) -> list[Variant]:
    """The finished runs by variant, with the plots' series read from their samples."""
    by_label: dict[str, dict[int, RunResult]] = {}
    for run in summary.runs:
        by_label.setdefault(run.variant, {})[run.seed] = run
    variants: list[Variant] = []
    for label, runs in by_label.items():
        series, spec = {}, {}
        for seed in runs:
            run_path = folder.run_path(label, seed)
            spec = read_json(run_path / "spec.json")
            decisions = read_decisions(run_path)
            series[seed] = series_of(read_samples(samples_path(run_path), spec), spec, decisions)
        hue = spec["aqm"].get("profile", spec["aqm"]["qdisc"])
        hue = "auto" if spec["aqm"].get("tune") else hue
        hue = f"p4-{hue}" if spec["aqm"]["qdisc"] == "p4" else hue
        hue = hue if hue in HUES else "other"
        if compared(spec):
            tested = spec["flows"][under_test(spec)[0]]
            hue = plots.sender_hue(label, tested.get("cc", ""), tested["kind"].startswith("tcp"))
        variants.append(Variant(label, spec, runs, series, hue, *plots.look(len(variants))))
    return variants


def series_of(samples: Samples, spec: Mapping[str, Any], decisions: list[dict[str, Any]]) -> Series:
    """Bin one run's samples. The distribution leaves out warm-up; the courses over time don't."""
    packets = samples.packets[QUEUE_UNDER_TEST]
    edges_s = np.arange(0, spec["duration_s"] + DELAY_BIN_S / 2, DELAY_BIN_S)
    counts, _ = np.histogram(packets.t_us / 1e6, edges_s)
    sums, _ = np.histogram(packets.t_us / 1e6, edges_s, weights=packets.delay_us / 1e3)
    delay_ms = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    measured = (packets.t_us >= spec["warmup_s"] * 1e6) & (packets.t_us < spec["duration_s"] * 1e6)
    grid_s = np.arange(0, spec["duration_s"] + GOODPUT_BIN_S / 2, GOODPUT_BIN_S)
    goodput = {}
    for (group, index, side), end in sorted(samples.flows.items()):
        if side == RECEIVER[spec["flows"][group]["kind"]]:
            received = np.interp(grid_s * 1e6, end.t_us, end.bytes, left=0.0)
            goodput[group, index] = np.diff(received) * 8 / 1e3 / GOODPUT_BIN_S
    states = [s for s in samples.states if s["hop"] == QUEUE_UNDER_TEST and "drop_probability" in s]
    return Series(
        delay_t_s=(edges_s[:-1] + edges_s[1:]) / 2,
        delay_ms=delay_ms,
        delay_quantiles_ms=np.quantile(packets.delay_us[measured] / 1e3, CDF_AT),
        goodput_t_s=(grid_s[:-1] + grid_s[1:]) / 2,
        goodput_kbit_s=goodput,
        probability_t_s=np.array([s["t_us"] / 1e6 for s in states]),
        probability_percent=np.array([100 * s["drop_probability"] for s in states]),
        decisions=decisions,
    )
