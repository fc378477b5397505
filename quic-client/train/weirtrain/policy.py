# SPDX-License-Identifier: Apache-2.0
"""The networks in torch: actor (mean of the action and one deviation for all states) and critic."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

# A deviation beyond these explores nothing, or is noise alone: actions are cut to +-1.
LOG_DEVIATION = (-3.0, 0.5)
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


class Policy(nn.Module):
    """What decides, and what estimates the worth of a state. `output` is `tanh` or `linear`: what the mean is of the
    actor's last unit. `last_bias` is that unit's bias at first."""

    def __init__(
        self, inputs: int, hidden: tuple[int, ...], output: str, log_deviation: float, draws: torch.Generator,
        last_bias: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.output = output
        self.actor = perceptron(inputs, hidden, 0.01, draws, last_bias)
        self.critic = perceptron(inputs, hidden, 1.0, draws)
        self.log_deviation = nn.Parameter(torch.tensor(log_deviation))

    def means(self, states: Tensor) -> Tensor:
        """Of states [steps, inputs]: [steps]."""
        last = self.actor(states).squeeze(-1)
        return torch.tanh(last) if self.output == "tanh" else last

    def values(self, states: Tensor) -> Tensor:
        """Of states [steps, inputs]: [steps]."""
        return self.critic(states).squeeze(-1)

    def log_probabilities(self, states: Tensor, drawn: Tensor) -> Tensor:
        """Natural logarithm of the normal density of the actions drawn, before their cut [steps]."""
        noise = (drawn - self.means(states)) * torch.exp(-self.log_deviation)
        return -0.5 * noise * noise - self.log_deviation - HALF_LOG_TAU

    def entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_TAU + self.log_deviation

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Weights [units, units before] and bias [units] of the actor's layers."""
        linear = [layer for layer in self.actor if isinstance(layer, nn.Linear)]
        return [(layer.weight.detach(), layer.bias.detach()) for layer in linear]
