# SPDX-License-Identifier: Apache-2.0
"""Settings of the runs in words, and their checks."""

from collections.abc import Mapping, Sequence
from typing import Any

from weirlab.report import results
from weirlab.report.labels import Variant, count, plain
from weirlab.report.model import Check, State
from weirlab.scenario.policies import WEIGHTS
from weirlab.store.folder import Summary
from weirlab.topologies.access.schedule import sizes_of

STRATEGY_OPTIONS = {
    "ops": ("model", "memory_tasks", "weight_a", "explore_c"),
    "pps": ("model", "memory_tasks", "weight_a", "explore_c"),
    "weir": ("model", "memory_tasks", "weight_a"),
    "epsilon-greedy": ("epsilon",),
}
STRATEGY_WORDS = {
    "ops": "optimistic path selection (Tan Eq. 19)",
    "pps": "pessimistic path selection (Tan Eq. 20)",
    "weir": "ours",
    "polling": "each path in turn",
    "epsilon-greedy": "the best so far, any other now and then",
    "best-single": "each path once, then the best of these for good",
    "oracle": "told the best path of each round",
}
WINDOW_WORDS = {
    "static": "fixed",
    "double": "doubling (quiche's rule)",
    "fast": "fast autotuning (Lee & An Algorithm 1)",
    "weir": "ours",
}


def path_names(specs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(path["name"] for spec in specs.values() for path in spec["paths"]))


def run_counts(specs: Sequence[Mapping[str, Any]], summary: Summary) -> str:
    tasks = sorted({spec["client"]["requests"] for spec in specs})
    of = f" of {count(tasks[0], 'task')} each" if len(tasks) == 1 else ""
    return f"{results.run_counts(summary)}{of}, in virtual time. The same seed draws the same delays for all variants."


def spec_in_words(spec: Mapping[str, Any]) -> list[str]:
    client = spec["client"]
    lines = [f"{path['name']}: {path_in_words(path)}" for path in spec["paths"]]
    requests = count(client["requests"], "download")
    requests += f", one every {client['interval_ms']:g} ms" if client["interval_ms"] else ""
    requests += f", {client['parallel']} at a time" if client["parallel"] > 1 else ""
    lines += [f"{requests}, on one connection", f"each download: {', '.join(map(str, sizes_of(client)))} bytes"]
    server = spec.get("server") or {}
    told = [f"{key} {plain(value)}" for key, value in server.items() if key != WEIGHTS]
    told += ["a policy of the scenario's own"] if WEIGHTS in server else []
    lines += [f"server: {', '.join(told)}"] if told else []
    if len(spec["paths"]) == 1:
        lines += [
            f"receive window of {what}, at first and at most: {client[f'{key}_window_bytes']} and "
            f"{client[f'max_{key}_window_bytes']} bytes"
            for what, key in (("a stream", "stream"), ("the connection", "conn"))
        ]
    return lines + [change_in_words(change) for change in spec["changes"]]


def pair_in_words(label: str, other: str, specs: Mapping[str, Any]) -> str:
    return f"{label} against {other}" + ("" if label in specs else ", mean over settings")


def path_in_words(path: Mapping[str, Any]) -> str:
    text = f"{path['rate_mbit_s']:g} Mbit/s, RTT {path['rtt_ms']:g} ms"
    if path.get("rtt_sd_ms"):
        text += f" (sd {path['rtt_sd_ms']:g} ms, drawn for each {path.get('draw', 'round')})"
    return text + (f", {path['loss_percent']:g} % loss" if path.get("loss_percent") else ", no loss")


def change_in_words(change: Mapping[str, Any]) -> str:
    when = f"from round {change['round']}" if change.get("round") is not None else f"from {change['at_s']:g} s"
    if change.get("for_rounds") is not None:
        when += f", for {count(change['for_rounds'], 'round')}"
    elif change.get("for_s") is not None:
        when += f", for {change['for_s']:g} s"
    told = ("path", "round", "at_s", "for_rounds", "for_s")
    what = ", ".join(f"{k} {plain(v)}" for k, v in change.items() if k not in told and v is not None)
    return f"{when}: {change['path']} has {what}"


def variant_in_words(variant: Variant) -> str:
    """The strategy with its options, or the window rule."""
    client = variant.spec["client"]
    if len(variant.spec["paths"]) == 1:
        return f"window rule {client['window']}, {WINDOW_WORDS.get(client['window'], '')}"
    strategy = client["strategy"]
    options = [f"{key} {plain(client[key])}" for key in STRATEGY_OPTIONS.get(strategy, ()) if key in client]
    standby = f"; the other paths {'are kept validated' if client['standby'] == 'validated' else 'stay cold'}"
    words = STRATEGY_WORDS.get(strategy, strategy)
    return f"{strategy}, {words}{': ' if options else ''}{', '.join(options)}{standby}"


def checks(summary: Summary) -> list[Check]:
    """The checks, passed or failed, and missing runs."""
    found = [
        *results.run_checks(summary),
        *results.soundness(
            summary,
            "every task is reported and complete, none faster than its round's RTT, the client's events in order.",
        ),
    ]
    forbidden = sum(run.metrics["migration_allowed"] == 0 for run in summary.runs)
    if forbidden:
        found.append(Check(f"in {count(forbidden, 'run')} the server forbade migration.", State.NOTE))
    return found + results.chance_checks(summary)
