# SPDX-License-Identifier: Apache-2.0
"""Numbers that a training is made with. Without torch, so that a command line can be checked before that is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ppo:
    """Settings of the update. `decay` is GAE's lambda; `value_weight` and `entropy_weight` are c1 and c2 of Eq. 9.
    `reward_scale` is what rewards are multiplied by before anything is learnt from them: with 1 - `discount`, a value
    is the mean reward that is to come, instead of a sum of a hundred of them that a critic is slow to reach. The
    critic learns at `critic_learning_rate` if that is not None, else as the actor does. In the
    first `critic_first_updates` it learns alone: what an untrained one says of a policy that is good already
    would lead it away. With `each_episode_alike` the advantages of each episode are divided by their root mean square:
    else those few in which a flow starves beside other traffic outweigh all others."""

    discount: float = 0.99
    decay: float = 0.95
    clip: float = 0.2
    learning_rate: float = 3e-4
    critic_learning_rate: float | None = None
    epochs: int = 10
    minibatch_steps: int = 256
    value_weight: float = 0.5
    entropy_weight: float = 0.0
    most_gradient: float = 0.5
    reward_scale: float = 1.0
    critic_first_updates: int = 0
    each_episode_alike: bool = False


@dataclass(frozen=True)
class Reward:
    """Zhang et al., Eq. 1 to 3; the paper gives none of the coefficients. `alpha` weighs the rate, `beta` the share of
    bytes lost, `eta` is taken off where the last round trip is longer than `gamma` of the least. With `team`, all
    connections of a run are paid alike: the mean of what each would get."""

    alpha: float
    beta: float
    gamma: float
    eta: float
    team: bool = False


@dataclass(frozen=True)
class SharedReward:
    """Ours, for `pbq`: weights of the terms of weirtrain/shared_reward.py. A twentieth of the capacity unused costs as
    much as a round trip of 1.25 times the path's own, and half of the fair share beside others as much as 12 % of loss
    of one's own making."""

    use: float = 4.0
    queue: float = 1.0
    share: float = 2.0
    fairness: float = 4.0
    loss: float = 4.0


@dataclass(frozen=True)
class Validation:
    """After each `every` updates the policy runs without noise in `episodes` of the training's ranges that it does not
    learn from. The training's result is the policy with the best mean reward there; that may be what it began with."""

    every: int
    episodes: int


@dataclass(frozen=True)
class Start:
    """Actions of a policy before it has learnt: towards a window of the path's content without a queue, and `packets`
    and `share` of itself more, by `gain` of the way in an interval (FAST TCP, Wei et al. 2006)."""

    packets: float
    share: float
    gain: float
