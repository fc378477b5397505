# SPDX-License-Identifier: Apache-2.0
"""The figures of a run's paced flows (voice, games), by kind and flow by flow. Pure: arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weirlab.metrics.paced import LAST_S, MEANINGS, Stream, figures, met
from weirlab.topologies.dumbbell.traffic import ECHOED, PACED_KINDS


def of_kind(kind: str, text: str) -> str:
    """A text on one-way delays, for round trips where the packets of the kind return."""
    return text.replace("one-way delay", "round-trip time") if kind == ECHOED else text


METRICS: dict[str, str] = {
    f"{kind}_{name}": f"{kind}: {of_kind(kind, text)}" for kind in PACED_KINDS for name, text in MEANINGS.items()
}


def flow_label(group: int, index: int) -> str:
    """A flow in a figure's name, as `voice_1.0_delay_mean_ms`."""
    return f"{group}.{index}"


def paced_metrics(streams: Mapping[tuple[int, int], Stream], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of each kind of paced flow that a run has, and of each such flow by itself."""
    begin_us, end_us = spec["warmup_s"] * 1e6, (spec["duration_s"] - LAST_S) * 1e6
    found: dict[str, Any] = {}
    for kind in PACED_KINDS:
        groups = [(group, flow) for group, flow in enumerate(spec["flows"]) if flow["kind"] == kind]
        mets = {
            (group, index): met(streams[group, index], begin_us, end_us)
            for group, flow in groups
            for index in range(flow["count"])
        }
        if mets:
            found |= {f"{kind}_{name}": value for name, value in figures(list(mets.values())).items()}
        for (group, index), one in mets.items():
            label = flow_label(group, index)
            found |= {f"{kind}_{label}_{name}": value for name, value in figures([one]).items()}
    return found


def goodput_bits(stream: Stream, begin_us: float, end_us: float) -> float:
    """Payload that arrived between two times."""
    these = (stream.heard_us >= begin_us) & (stream.heard_us < end_us)
    return float(stream.heard_bytes[these].sum()) * 8
