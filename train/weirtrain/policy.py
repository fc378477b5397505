# SPDX-License-Identifier: Apache-2.0
"""The networks in torch: actor (mean of the action and one deviation for all states) and critic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from weirtrain.settings import Start

# A deviation beyond these explores nothing, or is noise alone: actions are cut to +-1.
LOG_DEVIATION = (-4.0, 0.5)
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def perceptron(
    inputs: int, hidden: tuple[int, ...], last_gain: float, draws: torch.Generator, last_bias: float = 0.0
) -> nn.Sequential:
    """Layers with tanh between them and one unit at the end, orthogonal weights, no bias at first but the last's."""
    sizes = (inputs, *hidden, 1)
    layers: list[nn.Module] = []
    for n, (before, units) in enumerate(pairwise(sizes)):
        layer = nn.Linear(before, units)
        gain = last_gain if n == len(hidden) else math.sqrt(2)
        nn.init.orthogonal_(layer.weight, gain, generator=draws)
        nn.init.constant_(layer.bias, last_bias if n == len(hidden) else 0.0)
        layers += [layer, nn.Tanh()] if n < len(hidden) else [layer]
    return nn.Sequential(*layers)


@dataclass(frozen=True)
class Place:
    """Where a number stands in a state, which is (quantity - shift) * scale."""

    at: int
    shift: float
    scale: float


@dataclass(frozen=True)
class Before:
    """The decisions before others: states [steps, inputs], actions drawn [steps], and 1 where there is one, else 0
    [steps]."""

    states: Tensor
    drawn: Tensor
    there: Tensor


RULE_UNITS = 1  # hidden units that begin_with sets, the first ones
# tanh of this times a surplus of half a window is still nearly a line.
STEEPNESS = 2.0


class Policy(nn.Module):
    """Actor and critic. `output` is `tanh` or `linear`: the activation of the actor's last unit, which gives the mean.
    `last_bias` is that unit's bias at first. `correlation` is that of an action's noise with that of the action before
    (autoregressive policies, Korenkevych et al. 2019)."""

    def __init__(
        self, inputs: int, hidden: tuple[int, ...], output: str, log_deviation: float, draws: torch.Generator,
        last_bias: float = 0.0, facts: int = 0, correlation: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.output = output
        self.correlation = correlation
        self.actor = perceptron(inputs, hidden, 0.01, draws, last_bias)
        self.critic = perceptron(inputs + facts, hidden, 1.0, draws)
        self.log_deviation = nn.Parameter(torch.tensor(log_deviation))

    def means(self, states: Tensor) -> Tensor:
        """Of states [steps, inputs]: [steps]."""
        last = self.actor(states).squeeze(-1)
        return torch.tanh(last) if self.output == "tanh" else last

    def values(self, seen: Tensor) -> Tensor:
        """Of states with the facts for the critic alone [steps, inputs + facts]: [steps]."""
        return self.critic(seen).squeeze(-1)

    @torch.no_grad()
    def begin_with(self, start: Start, inverse: Place, surplus: Place, action_bound: float) -> None:
        """Gives the first hidden unit the rule of `start`. The places say where in a state `window_inverse` and
        `surplus_share` of the last interval are, and how they are normalised."""
        first, *middle, last = (layer for layer in self.actor if isinstance(layer, nn.Linear))
        first.weight[0] = 0
        first.weight[0, inverse.at] = STEEPNESS * start.packets / inverse.scale
        first.weight[0, surplus.at] = -STEEPNESS / surplus.scale
        first.bias[0] = STEEPNESS * (start.packets * inverse.shift - surplus.shift + start.share)
        for layer in middle:  # hands on what it says
            layer.weight[:RULE_UNITS] = torch.eye(RULE_UNITS, layer.in_features)
        slope = start.gain * math.log2(math.e) / action_bound
        last.weight[0, 0] = slope / STEEPNESS

    @torch.no_grad()
    def without_random_units(self) -> None:
        """Leaves the rule of `begin_with` alone in the actor."""
        first, *middle, last = (layer for layer in self.actor if isinstance(layer, nn.Linear))
        for layer in (first, *middle):
            layer.weight[RULE_UNITS:] = 0
        last.weight[:, RULE_UNITS:] = 0

    def log_probabilities(self, states: Tensor, drawn: Tensor, before: Before | None = None) -> Tensor:
        """Natural logarithm of the normal density of actions drawn, before their cut, given those before [steps]."""
        strayed = drawn - self.means(states)
        if self.correlation and before is not None:
            strayed = strayed - self.correlation * before.there * (before.drawn - self.means(before.states))
        log_deviation = self.log_deviation + 0.5 * math.log(1 - self.correlation**2)
        noise = strayed * torch.exp(-log_deviation)
        return -0.5 * noise * noise - log_deviation - HALF_LOG_TAU

    def entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_TAU + self.log_deviation

    def parts(self) -> list[list[nn.Parameter]]:
        """The parameters of the actor, and those of the critic."""
        return [[*self.actor.parameters(), self.log_deviation], [*self.critic.parameters()]]

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Weights [units, units before] and bias [units] of the actor's layers."""
        linear = [layer for layer in self.actor if isinstance(layer, nn.Linear)]
        return [(layer.weight.detach(), layer.bias.detach()) for layer in linear]
