# SPDX-License-Identifier: Apache-2.0
"""The networks give what the sender's give; PPO learns a toy problem, and repeats to the byte."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import made
import numpy as np
import pytest
import torch

from weirtrain import trajectory, weights
from weirtrain.learner import Learner
from weirtrain.policy import RULE_UNITS, Before, Policy
from weirtrain.ppo import Batch, be_repeatable, optimiser, update
from weirtrain.profiles import PROFILES
from weirtrain.settings import Ppo
from weirtrain.stretches import advantages

GOLDEN = Path(__file__).resolve().parents[2] / "quic-client" / "core" / "tests" / "pbq"
be_repeatable()


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def double(bits):
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def policy_of(file):
    document, layers = weights.read(file)
    hidden = tuple(len(bias) for _, bias in layers[:-1])
    found = Policy(
        layers[0][0].shape[1], hidden, document["output"], document["log_deviation"], generator(),
        correlation=document.get("noise_correlation", 0.0),
    )  # fmt: skip
    with torch.no_grad():
        for (weight, bias), (given_weight, given_bias) in zip(found.layers(), layers, strict=True):
            weight.copy_(torch.from_numpy(given_weight))
            bias.copy_(torch.from_numpy(given_bias))
    return found


@pytest.mark.parametrize("name", ["paper.weights", "own.weights"])
def test_means_are_those_of_the_sender(name):
    lines = [json.loads(line) for line in (GOLDEN / "golden.jsonl").read_text().splitlines()]
    mine = [line for line in lines if line.get("weights") == name]
    assert mine
    states = torch.tensor([[double(bits) for bits in line["state"]] for line in mine], dtype=torch.float32)
    wanted = np.array([double(line["mean"]) for line in mine])
    found = policy_of((GOLDEN / name).read_bytes()).means(states).detach().double().numpy()
    assert np.abs(found - wanted).max() < 2e-6


def test_the_density_is_the_normal_one():
    policy = Policy(2, (4,), "tanh", -0.7, generator())
    states, drawn = torch.randn(20, 2, generator=generator()), torch.randn(20, generator=generator(2))
    normal = torch.distributions.Normal(policy.means(states), policy.log_deviation.exp())
    assert torch.allclose(policy.log_probabilities(states, drawn), normal.log_prob(drawn), atol=1e-6)
    assert torch.allclose(policy.entropy(), normal.entropy()[0])


def nothing_before(states):
    return np.zeros_like(states), np.zeros(len(states)), np.zeros(len(states))


def test_an_action_is_judged_by_what_is_new_in_its_noise():
    policy = Policy(2, (4,), "tanh", -0.7, generator(), correlation=0.6)
    states, drawn = torch.randn(20, 2, generator=generator()), torch.randn(20, generator=generator(2))
    there = torch.tensor([0.0] + [1.0] * 19)
    before = Before(states.roll(1, 0), drawn.roll(1), there)
    expected = policy.means(states) + there * 0.6 * (drawn - policy.means(states)).roll(1)
    normal = torch.distributions.Normal(expected, policy.log_deviation.exp() * 0.8)
    assert torch.allclose(policy.log_probabilities(states, drawn, before), normal.log_prob(drawn), atol=1e-6)


def learn(updates, settings=None, seed=1):
    """A walk on a line: the state is the place, an action moves it, near 0 is good. The worth of always staying where
    one is (no action) is that of a place drawn from -1 to 1: -0.5."""
    settings = settings or replace(Ppo(), learning_rate=3e-3, minibatch_steps=128, discount=0.5)
    policy = Policy(1, (16,), "tanh", -0.7, generator(seed))
    steps_with = optimiser(policy, settings)
    dice = np.random.default_rng(seed)
    means = []
    for n in range(updates):
        places, rewards, states, drawn = dice.uniform(-1, 1, 32), [], [], []
        for _ in range(9):
            with torch.no_grad():
                mean = policy.means(torch.from_numpy(places[:, None].astype("f4"))).double().numpy()
            action = mean + np.exp(policy.log_deviation.item()) * dice.normal(size=32)
            states.append(places)
            drawn.append(action)
            places = np.clip(places + np.clip(action, -1, 1), -1, 1)
            rewards.append(-np.abs(places))
        states, drawn, rewards = (np.stack(one, axis=1) for one in (states, drawn, rewards))
        with torch.no_grad():
            tensor = torch.from_numpy(states[..., None].astype("f4"))
            values = policy.values(tensor).double().numpy()
            log_probability = policy.log_probabilities(tensor, torch.from_numpy(drawn.astype("f4"))).numpy()
        gains = np.stack([
            advantages(rewards[k, :-1], values[k], settings.discount, settings.decay) for k in range(32)
        ])  # fmt: skip
        places_seen = states[:, :-1].reshape(-1, 1)
        acted = (places_seen, places_seen, drawn[:, :-1].ravel(), log_probability[:, :-1].ravel(), gains.ravel(),
                 (gains + values[:, :-1]).ravel(), *nothing_before(places_seen))  # fmt: skip
        figures = update(policy, steps_with, Batch.of(*acted), settings, generator(n))
        means.append(rewards.mean())
    return policy, means, figures


def test_it_learns_a_walk_to_the_middle():
    policy, means, figures = learn(60)
    assert np.mean(means[:3]) < -0.4
    assert np.mean(means[-5:]) > -0.2
    actions = policy.means(torch.tensor([[-0.8], [0.8]])).tolist()
    assert actions[0] > 0.4
    assert actions[1] < -0.4
    assert 0 <= figures["kl"] < 0.1


def parameters(policy):
    return b"".join(value.numpy().tobytes() for value in policy.state_dict().values())


def test_the_same_seed_gives_the_same_bytes():
    assert parameters(learn(3)[0]) == parameters(learn(3)[0])
    assert parameters(learn(3)[0]) != parameters(learn(3, seed=2)[0])


def test_a_loss_that_is_not_finite_is_said():
    settings = Ppo()
    policy = Policy(1, (4,), "tanh", -0.7, generator())
    column = np.array([0.0, np.inf])
    places = np.zeros((2, 1))
    batch = Batch.of(places, places, np.zeros(2), np.zeros(2), column, column, *nothing_before(places))
    with pytest.raises(FloatingPointError, match="the loss is"):
        update(policy, optimiser(policy, settings), batch, settings, generator())


def test_a_policy_begins_with_its_rule():
    profile = PROFILES["pbq"]
    learner = Learner.begin(profile, 1)
    start, bound = profile.start, profile.document["action_bound"]
    for packets, surplus in [(20, 0.0), (20, 0.3), (100, 0.05), (50, 0.2)]:
        state = torch.zeros(1, profile.width)
        for name, quantity in {
            "window_inverse": 1 / packets,
            "surplus_share": surplus,
        }.items():
            at, shift, scale = profile.place(name)
            state[0, at] = (quantity - shift) * scale
        wanted = start.gain * np.log2(np.e) * (start.packets / packets + start.share - surplus)
        assert bound * learner.policy.means(state).item() == pytest.approx(wanted, abs=0.03)


def test_a_rule_has_no_units_but_its_own():
    profile = PROFILES["pbq"]
    rule, begins = Learner.rule(profile), Learner.begin(profile, 1)
    states = torch.randn(50, profile.width, generator=generator())
    mine = [profile.place(name)[0] for name in ("window_inverse", "surplus_share")]
    others = torch.randn(50, profile.width, generator=generator(2))
    others[:, mine] = states[:, mine]
    assert torch.equal(rule.policy.means(states), rule.policy.means(others))
    assert not torch.equal(begins.policy.means(states), begins.policy.means(others))
    assert (rule.policy.means(states) - begins.policy.means(states)).abs().max() < 0.1
    members, layers = weights.read(rule.weights_file("none", "./run train rule", guarded=False))
    assert (members["ranges"], members["guard"]) == ({}, None)
    assert [np.count_nonzero(weight) for weight, _ in layers] == [2, RULE_UNITS]


def test_ranges_are_of_the_fastest_flow_that_was_learnt_from():
    """The guard's limits reach 200 Mbit/s if a flow had them."""
    learner = Learner.begin(PROFILES["pbq"], 1)
    for bytes_s in (2e5, 26e6):
        steps = [made.step(n, rate_greatest_bytes_s=bytes_s) for n in range(5)]
        one = trajectory.read(made.content([made.head(), *steps]), "T")
        learner.widen(one, slice(0, 5), 0.03)
    assert learner.ranges["rate_greatest_bytes_s"] == [2e5, 26e6]
