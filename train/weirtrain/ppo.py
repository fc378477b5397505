# SPDX-License-Identifier: Apache-2.0
"""PPO with a clipped ratio (Schulman et al. 2017, Eq. 7), on one thread: the same input, the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from weirtrain.policy import LOG_DEVIATION, Before, Policy
from weirtrain.settings import Ppo


@dataclass(frozen=True)
class Batch:
    """Steps of one policy: states [steps, inputs], the same with the critic's facts [steps, inputs + facts], the rest
    [steps]. `targets` is what the critic should say. `before_*` are the decisions before (`policy.Before`)."""

    states: Tensor
    seen: Tensor
    drawn: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    targets: Tensor
    before_states: Tensor
    before_drawn: Tensor
    before_there: Tensor

    # Of each member the dimensions beyond the steps.
    WIDTHS: ClassVar[tuple[int, ...]] = (1, 1, 0, 0, 0, 0, 1, 0, 0)

    def before(self, part: Tensor | slice = slice(None)) -> Before:
        return Before(self.before_states[part], self.before_drawn[part], self.before_there[part])

    @classmethod
    def of(cls, *columns: np.ndarray) -> Batch:
        return cls(*(torch.from_numpy(column.astype(np.float32)) for column in columns))


def be_repeatable() -> None:
    """Before anything else of torch: one thread, and an error where an operation would not repeat."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def optimiser(policy: Policy, settings: Ppo) -> torch.optim.Adam:
    rates = (settings.learning_rate, settings.critic_learning_rate or settings.learning_rate)
    parts = [{"params": part, "lr": rate} for part, rate in zip(policy.parts(), rates, strict=True)]
    return torch.optim.Adam(parts, eps=1e-5, foreach=False)


def update(
    policy: Policy, steps_with: torch.optim.Optimizer, batch: Batch, settings: Ppo, draws: torch.Generator,
    critic_alone: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Improves the policy by one batch, or its critic alone; what the curves show of it. `draws` mixes the minibatches.

    Raises FloatingPointError where a loss is not finite; the policy is of no use then."""
    spread = batch.advantages.std(correction=0)
    normal = (batch.advantages - batch.advantages.mean()) / (spread + 1e-8)
    count = len(batch.drawn)
    for _ in range(settings.epochs):
        order = torch.randperm(count, generator=draws)
        for part in order.split(settings.minibatch_steps):
            states = batch.states[part]
            log_ratio = policy.log_probabilities(states, batch.drawn[part], batch.before(part))
            log_ratio = log_ratio - batch.log_probabilities[part]
            ratio = log_ratio.exp()
            cut = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            gain = torch.minimum(ratio * normal[part], cut * normal[part]).mean()
            misjudged = (policy.values(batch.seen[part]) - batch.targets[part]).square().mean()
            loss = settings.value_weight * misjudged
            if not critic_alone:
                loss = loss - gain - settings.entropy_weight * policy.entropy()
            if not torch.isfinite(loss):
                raise FloatingPointError(f"the loss is {loss.item()}: rewards or the learning rate are too large")
            steps_with.zero_grad()
            loss.backward()
            for part_of_it in policy.parts():  # apart: a critic far off must not slow the actor down
                torch.nn.utils.clip_grad_norm_(part_of_it, settings.most_gradient, foreach=False)
            steps_with.step()
            with torch.no_grad():
                policy.log_deviation.clamp_(*LOG_DEVIATION)
    if not all(torch.isfinite(numbers).all() for numbers in policy.state_dict().values()):
        raise FloatingPointError("a weight is not finite: rewards or the learning rate are too large")
    return _figures(policy, batch, settings)


@torch.no_grad()
def _figures(policy: Policy, batch: Batch, settings: Ppo) -> dict[str, float]:
    log_ratio = policy.log_probabilities(batch.states, batch.drawn, batch.before()) - batch.log_probabilities
    ratio = log_ratio.exp()
    values = policy.values(batch.seen)
    return {
        "kl": (ratio - 1 - log_ratio).mean().item(),  # Schulman's estimate that is never negative
        "clipped_share": ((ratio - 1).abs() > settings.clip).float().mean().item(),
        "entropy": policy.entropy().item(),
        "value_loss": (values - batch.targets).square().mean().item(),
    }
