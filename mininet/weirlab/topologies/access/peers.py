# SPDX-License-Identifier: Apache-2.0
"""Runs beside those of a peer in the same setting: differences seed by seed."""

from collections.abc import Mapping, Sequence
from typing import Any

from weirlab.metrics.estimate import Estimate, estimate
from weirlab.metrics.samples import grouped

SHARES = (
    ("tct_mean_ms", "tct_mean"),
    ("tct_var_ms2", "tct_var"),
    ("transfer_time_mean_s", "transfer_time"),
    ("goodput_mbit_s", "goodput"),
    ("window_promised_peak_bytes", "window_promised_peak"),
)
DIFFERENCES = (("regret_ms", "regret"), ("pseudo_regret_ms", "pseudo_regret"))
WEIGHTED = ("ops", "pps", "weir")  # strategies that weigh mean and variance
# Whom a strategy or window rule is held against.
PEERS: dict[str, dict[str, tuple[str, ...]]] = {
    "strategy": {
        "ops": ("polling", "epsilon-greedy", "best-single"),
        "pps": ("polling", "epsilon-greedy", "best-single"),
        "weir": ("polling", "epsilon-greedy", "best-single", "ops", "pps"),
    },
    "window": {"fast": ("double", "static"), "weir": ("double", "fast")},
}
CHOICE_STEMS = ("tct_mean", "tct_var", "regret", "pseudo_regret")
TRANSFER_STEMS = ("transfer_time", "goodput", "window_promised_peak")


def _relative_metrics() -> dict[str, str]:
    found = {}
    for key, stems in (("strategy", CHOICE_STEMS), ("strategy", TRANSFER_STEMS), ("window", TRANSFER_STEMS)):
        for peer in dict.fromkeys(peer for peers in PEERS[key].values() for peer in peers):
            for metric, stem in SHARES:
                if stem in stems:
                    text = f"{metric} less that of {key} {peer}, same seed, in percent of it: mean over seeds"
                    found[f"{stem}_vs_{peer}_percent"] = text
            for metric, stem in DIFFERENCES:
                if stem in stems:
                    found[f"{stem}_vs_{peer}_ms"] = f"{metric} less that of {key} {peer}, same seed: mean over seeds"
    return found


# Not in a run's metrics: `relative` has them from several runs. A scenario may give a paper's figure for each.
RELATIVE_METRICS = _relative_metrics()


def choosing(spec: Mapping[str, Any]) -> bool:
    """Whether a path is chosen again and again for tasks that are short and paced, so that a round is one task's."""
    return len(spec["paths"]) > 1 and spec["client"]["requests"] > 1 and spec["client"]["interval_ms"] > 0


# Client settings that are not the choice under study: runs that differ in them are not compared.
WORK = ("requests", "interval_ms", "bytes", "sizes_bytes", "parallel", "standby")


def setting(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that two runs must share to be compared."""
    work = {key: spec["client"].get(key) for key in WORK}
    return {**{key: spec.get(key) for key in ("paths", "changes", "server")}, **work}


def relative(
    specs: Mapping[str, Mapping[str, Any]], metrics: Mapping[tuple[str, int], Mapping[str, Any]]
) -> dict[tuple[str, str], dict[str, Estimate]]:
    """Each variant beside its peers in the same setting, seed by seed: (variant, peer) to RELATIVE_METRICS' values.

    `metrics` is by variant and seed. A peer is known by its strategy or window rule; the other settings may differ.
    Where variants were run in several settings (sizes, say), the pair of their names without the settings comes after
    these: each seed's mean over the settings.
    """
    by_pair: dict[tuple[str, str], dict[str, dict[int, float | None]]] = {}
    for label, spec in specs.items():
        key = "strategy" if len(spec["paths"]) > 1 else "window"
        stems = CHOICE_STEMS if choosing(spec) else TRANSFER_STEMS
        for other, their_spec in specs.items():
            peer = their_spec["client"].get(key)
            if peer not in PEERS[key].get(spec["client"].get(key), ()) or setting(spec) != setting(their_spec):
                continue
            weights = {each["client"].get("weight_a") for each in (spec, their_spec)}
            if peer in WEIGHTED and len(weights) > 1:
                continue  # these two want different things
            seeds = [seed for variant, seed in metrics if variant == label and (other, seed) in metrics]
            found = by_pair[label, other] = {}
            for against, sources in ((_percent, SHARES), (_less, DIFFERENCES)):
                for metric, stem in sources:
                    if stem in stems:
                        found[f"{stem}_vs_{peer}_{'percent' if against is _percent else 'ms'}"] = {
                            seed: against(metrics[label, seed].get(metric), metrics[other, seed].get(metric))
                            for seed in seeds
                        }
    together = grouped(
        [{"pair": pair} for pair in by_pair], lambda line: tuple(label.partition(",")[0] for label in line["pair"])
    )
    for pair, members in together.items():
        settings = [setting(specs[member["pair"][0]]) for member in members]
        if len(members) > 1 and not any(settings.count(each) > 1 for each in settings):
            by_pair[pair] = _over_settings([by_pair[member["pair"]] for member in members])
    return {
        pair: {name: estimate(list(by_seed.values())) for name, by_seed in found.items()}
        for pair, found in by_pair.items()
    }


def _over_settings(members: Sequence[Mapping[str, Mapping[int, float | None]]]) -> dict[str, dict[int, float | None]]:
    """Each seed's mean over settings, of the seeds that all settings have."""
    found: dict[str, dict[int, float | None]] = {}
    for name in members[0]:
        values = [member.get(name, {}) for member in members]
        seeds = [seed for seed in values[0] if all(seed in each for each in values)]
        found[name] = {seed: _mean_or_none([each[seed] for each in values]) for seed in seeds}
    return found


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _percent(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else 100 * (ours / theirs - 1)


def _less(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs
