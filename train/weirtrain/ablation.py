# SPDX-License-Identifier: Apache-2.0
"""`./run train ablation`: what each part of `pbq` is worth, by taking it away.

Some parts are of the sender: `whole`, the policy of the programs, is judged with that line of its weights file changed,
or without seeing one of its inputs. Others are of the training: a profile without one is trained as short as `base`,
the whole profile. All are judged beside each other without noise, in the episodes of `compare`, with the reward of
`pbq`.

The rule that a policy begins with needs inputs that the paper has not, so `papers-inputs` is to be held against
`no-start-rule`. Parts that act beyond those ranges (the guard) or beside the policy (the halt when nothing is
acknowledged, heavy loss) can't be seen here: a policy without a guard is judged by `./run evaluate --suite cc
--variants all unguarded=FILE`. Parts that act on links that few episodes have (growth, the memory of the least round
trip, intervals of a round trip) are judged on such links by `./run evaluate --suite parts`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weirtrain import weights
from weirtrain.compare import RULE
from weirtrain.profiles import PROFILES, Profile
from weirtrain.settings import Reward

PBQ = PROFILES["pbq"]
# The policy of the programs.
WHOLE = "whole"
# Of the training: what is changed of the profile.
TRAINED: dict[str, dict[str, Any]] = {
    "base": {},
    "history-1": {"document.history": 1},
    "papers-inputs": {"inputs": ("window_bdp", "interval_ratio", "rate_ratio", "rtt_mean_ratio", "loss_share"),
                      "start": None},
    "no-start-rule": {"start": None},
    "papers-reward": {"reward": Reward(alpha=1.0, beta=1.0, gamma=1.5, eta=1.0, team=True)},
    "episodes-unlike": {"ppo.each_episode_alike": False},
    "noise-drawn-anew": {"document.noise_correlation": 0.0},
}  # fmt: skip
# Of the sender: what is changed of the whole's weights file.
CHANGED: dict[str, dict[str, Any]] = {
    "bbrs-pacing": {"pacing": "bbr"},
    "no-pacing": {"pacing": "none"},
    "no-rtt-probe": {"rtt_probe": None},
    "not-competing": {"competing": False},
    "no-ramp": {"ramp": False},
    "growth-always": {"growth": "always"},
    "growth-when-filled": {"growth": "when-filled"},
    "growth-when-used": {"growth": "when-used"},
    "minimum-for-ever": {"memory_intervals": 0},
    "initial-window": {"start": "initial-window"},
    "intervals-of-100-ms": {"interval_least_rtts": 0},
    "action-bound-0.25": {"action_bound": 0.25},
    "action-bound-1": {"action_bound": 1},
}
# Of what the whole's policy sees: each of its inputs stands still at the value that is normalised to 0.
BLIND = {f"without-{name.replace('_', '-')}": name for name in PBQ.inputs}
NAMES = (*CHANGED, *BLIND, RULE, *TRAINED)


def profile_of(name: str) -> Profile:
    """Of a setting in TRAINED. It keeps the policy of its last update."""
    return replace(PBQ.changed(TRAINED[name]), validation=None)


def changed(file: bytes, changes: dict[str, Any]) -> bytes:
    """A weights file with other members; one that is None is left out."""
    document, layers = weights.read(file)
    document = {key: value for key, value in (document | changes).items() if value is not None or key == "guard"}
    return weights.write(document, layers, document.pop("log_deviation"))


def blind(file: bytes, name: str) -> bytes:
    """A weights file whose policy does not see that input."""
    normalisation = weights.read(file)[0]["normalisation"]
    scale = [0.0 if own == name else value for own, value in zip(PBQ.inputs, normalisation["scale"], strict=True)]
    return changed(file, {"normalisation": normalisation | {"scale": scale}})


def unguarded(file: bytes) -> bytes:
    """Ranges of a short training are narrower than those it is judged in."""
    return changed(file, {"guard": None})
