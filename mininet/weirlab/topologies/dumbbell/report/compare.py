# SPDX-License-Identifier: Apache-2.0
"""Variants beside kernel PIE, and beside the same law as eBPF."""

from collections.abc import Callable, Mapping
from typing import Any

from weirlab.metrics.estimate import Estimate, estimate
from weirlab.store.folder import Summary

RATIOS: tuple[tuple[str, str], ...] = (
    ("goodput_total_mbit_s", "goodput, total"),
    ("queue_delay_mean_ms", "queue delay, mean"),
    ("queue_delay_sd_ms", "queue delay, sd"),
    ("queue_delay_p99_ms", "queue delay, p99"),
    ("queue_delay_excess_ms", "queue delay, mean excess"),
    ("loss_percent", "lost, all causes"),
    ("jain_index", "Jain index"),
)


def comparisons(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> dict[str, dict[str, Estimate]]:
    """Each variant's metrics over kernel PIE's of the same seed in the same setting; empty if PIE was not run."""
    return _ratios(specs, summary, lambda ours, theirs: theirs["qdisc"] == "pie" != ours["qdisc"])


def beside_ebpf(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> dict[str, dict[str, Estimate]]:
    """Each P4 variant's metrics over those of the same law as tc eBPF, seed by seed; empty unless both were run."""

    def same_law(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
        law = {key: value for key, value in ours.items() if key not in ("qdisc", "switch", "program", "delay_source")}
        return ours["qdisc"] == "p4" and theirs == {"qdisc": "weir", **law}

    return _ratios(specs, summary, same_law)


def _ratios(
    specs: Mapping[str, Mapping[str, Any]],
    summary: Summary,
    is_peer: Callable[[Mapping[str, Any], Mapping[str, Any]], bool],
) -> dict[str, dict[str, Estimate]]:
    """The metrics of each variant that has a peer in the same setting, over that peer's of the same seed."""

    def setting(label: str) -> dict[str, Any]:
        return {key: value for key, value in specs[label].items() if key not in ("aqm", "variant", "seed")}

    by_run = {(run.variant, run.seed): run.metrics for run in summary.runs}
    found: dict[str, dict[str, Estimate]] = {}
    for label in specs:
        peer = next(
            (
                other
                for other in specs
                if is_peer(specs[label]["aqm"], specs[other]["aqm"]) and setting(other) == setting(label)
            ),
            None,
        )
        if peer is None:
            continue
        seeds = [seed for variant, seed in by_run if variant == label and (peer, seed) in by_run]
        found[label] = {}
        for metric, _ in RATIOS:
            pairs = [(by_run[label, seed][metric], by_run[peer, seed][metric]) for seed in seeds]
            usable = all(ours is not None and theirs for ours, theirs in pairs)
            found[label][metric] = estimate([ours / theirs for ours, theirs in pairs] if usable else [])
    return found
