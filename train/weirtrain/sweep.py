# SPDX-License-Identifier: Apache-2.0
"""`./run train sweep`: settings that the paper does not publish, each trained on its training link and judged there.

Settings are changed one at a time from `base`, which is the profile with BASE. Only Table 2's link counts: of the
settings whose policy has ENOUGH of the goodput of quiche's BBR, the one with the shortest mean round trip is chosen.
The profile's eta is not what the last sweep chose: docs/notebook/2026-11-train.md says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weirlab.report import markdown
from weirlab.report.model import Prose, table
from weirtrain.profiles import PROFILES, Profile

ENOUGH = 0.97
REFERENCE = "bbr2_gcongestion"
BASE: dict[str, Any] = {"reward.eta": 0.5}
# alpha stays as it is: PPO compares advantages with their own spread, so only the ratios of the coefficients count.
SETTINGS: dict[str, dict[str, Any]] = {
    "base": {},
    "eta-1": {"reward.eta": 1.0},
    "own-reward": {"reward.team": False},
    "deviation-0.37": {"log_deviation": -1.0},
    "learning-rate-3e-4": {"ppo.learning_rate": 3e-4},
    "one-episode": {"episodes": 1, "episode_s": 60.0},
    "bias-0": {"last_bias": 0.0},
    "rewards-unscaled": {"ppo.reward_scale": 1.0},
    "gamma-1.3": {"reward.gamma": 1.3},
    "gamma-1.1": {"reward.gamma": 1.1},
    "eta-0.25": {"reward.eta": 0.25},
    "beta-5": {"reward.beta": 5.0},
    "discount-0.9": {"ppo.discount": 0.9, "ppo.reward_scale": 0.1},
    "plain-units": {"inputs": ("window_packets", "interval_s", "rate_bytes_s", "rtt_mean_s", "loss_share")},
    "history-3": {"document.history": 3},
    "layers-64-64": {"hidden": (64, 64)},
}


def profile_of(name: str) -> Profile:
    return PROFILES["pbq-paper"].changed(BASE | SETTINGS[name])


def best(rows: Sequence[dict[str, Any]], reference: dict[str, Any]) -> dict[str, Any] | None:
    """The row that is chosen; None if none has enough goodput."""
    enough = [row for row in rows if row["goodput_mbit_s"] >= ENOUGH * reference["goodput_mbit_s"]]
    return min(enough, key=lambda row: row["rtt_mean_ms"], default=None)


COLUMNS = {
    "goodput_mbit_s": ("goodput, Mbit/s", 3), "rtt_mean_ms": ("RTT, mean, ms", 1), "rtt_p95_ms": ("RTT, p95, ms", 1),
    "jain_index": ("Jain", 3), "reward": ("reward in training, last", 3), "share": ("share in training", 3),
}  # fmt: skip


def row(name: str, trained: dict[str, float], judged: dict[str, float]) -> dict[str, Any]:
    """A line of the table: the last update's figures with noise, and those of the run without."""
    return {"setting": name, **{key: trained[key] for key in ("reward", "share")}, **judged}


def as_markdown(rows: Sequence[dict[str, Any]], reference: dict[str, Any]) -> str:
    """The table, and the choice under it."""
    chosen = best(rows, reference)
    rows_shown = []
    for line in [{"setting": REFERENCE} | reference, *rows]:
        cells = [f"{line[key]:.{digits}f}" if key in line else "" for key, (_, digits) in COLUMNS.items()]
        rows_shown.append([Prose(f"**{line['setting']}**") if line is chosen else line["setting"], *cells])
    heads = ["setting", *(title for title, _ in COLUMNS.values())]
    told = f"{ENOUGH:g} of {REFERENCE}'s goodput"
    choice = f"Shortest RTT with at least {told}: {chosen['setting']}" if chosen else f"None has {told}."
    return f"{markdown.table(table(heads, rows_shown))}\n\n{choice}\n"
