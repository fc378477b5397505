# SPDX-License-Identifier: Apache-2.0
"""A whole training with rollouts that a test makes: repeats, goes on to the same bytes, and is not lost by damage."""

import random
from dataclasses import replace

import made
import pytest
import torch

from weirtrain import checkpoint, cli, weights
from weirtrain import training as training_module
from weirtrain.checkpoint import CheckpointError
from weirtrain.episodes import plan
from weirtrain.learner import MOST_OVER_RTT, Learner
from weirtrain.profiles import PROFILES
from weirtrain.rollout import Rollout
from weirtrain.settings import Validation
from weirtrain.training import CHECKPOINT, CURVES, VALIDATIONS, Training, TrainingError
from weirtrain.trajectory import TrajectoryError
from weirtrain.weights import WeightsError

PROFILE = replace(PROFILES["pbq"], episodes=3, validation=None)
COMMAND = "./run train pbq --seed 5"


def quiet(*_):
    pass


def runner(order=1, harm=None, spread=0.6):
    """Rollouts out of the policy's digest and the episode's number; `order` -1: they end the other way round. `spread`:
    of the actions drawn; far beyond the policy's own, PPO's ratios are 0 and nothing is learnt."""

    def run(episodes, file):
        document, _ = weights.read(file)
        for episode in list(episodes)[::order]:
            dice = random.Random(f"{weights.digest(file)} {episode.number}")
            head = made.head(weights.digest(file)) | {"inputs": document["inputs"], "history": document["history"]}
            width = len(document["inputs"]) * document["history"]
            steps = []
            for n in range(12):
                drawn = dice.gauss(0, spread)
                state = [dice.uniform(-1, 1) for _ in range(width)]
                steps.append(made.step(n, state=state, drawn=drawn, acked_bytes=dice.randrange(10_000),
                                       by="startup" if n < 2 else "policy"))  # fmt: skip
            content = made.content([head, *steps, made.end(12)])
            yield Rollout(episode, [("conn-0", content if harm is None else harm(content))], 0.1)

    return run


def begun(folder):
    training = Training(folder, PROFILE, 5, COMMAND)
    training.begin()
    return training


def kept(folder):
    return [(folder / name).read_bytes() for name in ("pbq.weights", CURVES)]


def test_the_end_is_the_same_however_it_was_reached(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    begun(one).run(runner(), 4, quiet)
    begun(other).run(runner(), 2, quiet)
    Training.resume(other, PROFILE, 5, COMMAND).run(runner(order=-1), 4, quiet)
    assert kept(one) == kept(other)
    document, layers = weights.read((one / "pbq.weights").read_bytes())
    assert document["provenance"]["steps"] == 4 * 3 * 9
    assert document["ranges"]["rate_greatest_bytes_s"] == [1e5, 1e5]
    # Round trips in full queues (30 ms each, made.py) do not widen the ranges beyond the links'.
    rtts = [plan("pbq", 5, n).rtt_of_s(0) for n in range(12)]
    least, most = document["ranges"]["rtt_least_s"]
    assert min(rtts) == least
    assert max(rtts) <= most <= MOST_OVER_RTT * max(rtts)
    assert [bias.shape for _, bias in layers] == [(64,), (1,)]
    assert (one / CURVES).read_text().count("\n") == 5


@pytest.mark.parametrize("after", range(1, 6))
def test_stopped_at_any_episode_it_goes_on_to_the_same_bytes(tmp_path, after):
    one, other = tmp_path / "one", tmp_path / "other"
    begun(one).run(runner(), 2, quiet)
    told = 0

    def stop(_updates, part, _rollout, _figures):
        nonlocal told
        told += part > 0
        if told == after and part > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begun(other).run(runner(), 2, stop)
    Training.resume(other, PROFILE, 5, COMMAND).run(runner(), 2, quiet)
    assert kept(one) == kept(other)


def test_trajectories_of_other_weights_are_refused_and_nothing_is_lost(tmp_path):
    training = begun(tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(TrajectoryError, match="weights is"):
        training.run(runner(harm=lambda content: content.replace(b'"weights": "', b'"weights": "0', 1)), 1, quiet)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda content: b"", "no whole line"),
        (lambda content: content.replace(b'"drawn": ', b'"drawn": NaN, "was": ', 1), "drawn is nan"),
        (lambda content: content.replace(b"}\n{", b"}{", 1), "not JSON"),
        (lambda content: content.replace(b'"policy"', b'"startup"'), "0 steps"),
        (lambda content: content.replace(b'"lost_bytes": ', b'"lost_bytes": -1e300, "was": '), "the loss is"),
    ],
)
def test_what_cannot_be_learnt_from_is_said_and_nothing_is_lost(tmp_path, harm, words):
    training = begun(tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises((TrajectoryError, FloatingPointError), match=words):
        training.run(runner(harm=harm), 1, quiet)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_a_trajectory_cut_short_is_learnt_from_as_far_as_it_goes(tmp_path):
    training = begun(tmp_path)
    training.run(runner(harm=lambda content: content[: len(content) * 2 // 3]), 1, quiet)
    assert 0 < training.learner.steps < 3 * 9


def test_weights_that_are_not_finite_are_never_kept(tmp_path):
    training = begun(tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with torch.no_grad():
        next(training.learner.policy.actor.parameters())[0, 0] = float("nan")
    with pytest.raises(WeightsError, match="not finite"):
        training.run(runner(), 1, quiet)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_a_full_disk_leaves_the_checkpoint(tmp_path, monkeypatch):
    training = begun(tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()

    def full(path, _content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("weirlab.store.atomic._draft", full)
    with pytest.raises(OSError, match="No space left"):
        training.run(runner(), 1, quiet)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


@pytest.mark.parametrize(
    "harm", [lambda b: b[:-1], lambda b: b"", lambda b: b[:500] + b"?" + b[501:], lambda b: b"x" + b]
)
def test_a_damaged_checkpoint_is_refused(tmp_path, harm):
    begun(tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(CheckpointError, match="truncated, changed or of another version"):
        checkpoint.read(path)


def test_it_neither_begins_twice_nor_goes_on_with_other_settings(tmp_path):
    begun(tmp_path)
    with pytest.raises(TrainingError, match="holds a training already"):
        begun(tmp_path)
    with pytest.raises(TrainingError, match="hidden"):
        Training.resume(tmp_path, replace(PROFILE, hidden=(64, 64)), 5, COMMAND)
    with pytest.raises(TrainingError, match="command"):
        Training.resume(tmp_path, PROFILE, 6, COMMAND.replace("5", "6"))
    with pytest.raises(CheckpointError, match="a training begins"):
        Training.resume(tmp_path / "other", PROFILE, 5, COMMAND)


def test_weights_say_which_commits_and_how_many_updates_made_them(tmp_path, monkeypatch):
    monkeypatch.setattr(training_module, "git_commit", lambda: "aaaaaaa")
    begun(tmp_path).run(runner(), 1, quiet)
    for commit, command in [("bbbbbbb", f"{COMMAND} --updates 2"), ("bbbbbbb", COMMAND)]:
        monkeypatch.setattr(training_module, "git_commit", lambda commit=commit: commit)
        Training.resume(tmp_path, PROFILE, 5, command).run(runner(), 2, quiet)
        said = weights.read((tmp_path / "pbq.weights").read_bytes())[0]["provenance"]
        assert (said["commit"], said["command"]) == ("aaaaaaa, then bbbbbbb", command)


@pytest.mark.parametrize(
    "words",
    [["pqb"], ["pbq", "--seed", "-1"], ["pbq", "--jobs", "0"], ["pbq", "--updates", "x"], [],
     ["pbq", "--pacing", "none"], ["sweep", "--only", "none"], ["figure8", "--resume"]],
)  # fmt: skip
def test_a_wrong_command_line_is_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_the_page_has_a_plot_of_each_figure(tmp_path):
    training = begun(tmp_path)
    training.run(runner(), 2, quiet)
    page = training.write_page().read_text()
    assert page.count("<svg") == 9
    assert COMMAND in page
    assert "ppo.learning_rate" in page


def test_episodes_are_run_without_the_guard_that_the_result_has(tmp_path):
    ran = []

    def spy(episodes, content):
        ran.append(weights.read(content)[0]["guard"])
        return runner()(episodes, content)

    training = begun(tmp_path)
    training.run(spy, 1, quiet)
    assert ran == [None]
    assert weights.read(training.weights_path.read_bytes())[0]["guard"] == training.profile.guard


def scored(values):
    """A runner whose validations, one after the other, have the shorter round trips the greater their value is."""
    left = list(values)

    def run(episodes, file):
        if episodes[0].explore is not None:
            return runner()(episodes, file)
        rtt_us = b'"rtt_mean_us": %d' % 10 ** (20 - left.pop(0))
        return runner(harm=lambda content: content.replace(b'"rtt_mean_us": 30000', rtt_us))(episodes, file)

    return run


def validating(folder):
    profile = replace(PROFILE, validation=Validation(every=1, episodes=2))
    training = Training(folder, profile, 5, COMMAND)
    training.begin()
    return training, profile


def test_the_result_is_the_policy_that_was_best_without_noise(tmp_path):
    one, _ = validating(tmp_path / "one")
    files = []
    one.run(scored([2, 1, 9, 3]), 3, lambda *_: files.append(one.learner.weights_file(one.commit, COMMAND)))
    scores = [row["score"] for row in one.validations]
    assert [row["update"] for row in one.validations] == [0, 1, 2, 3]
    assert scores[2] > scores[3] > scores[0] > scores[1]
    assert weights.read(one.weights())[0]["provenance"]["steps"] == one.rows[1]["steps"]
    best = next(file for file in files if weights.read(file)[0]["provenance"]["steps"] == one.rows[1]["steps"])
    assert [a.tobytes() for layer in weights.read(best)[1] for a in layer] == [
        a.tobytes() for layer in weights.read(one.weights())[1] for a in layer
    ]
    assert one.weights_path.read_bytes() == one.weights()
    assert (tmp_path / "one" / VALIDATIONS).read_text().count("\n") == 5
    assert one.write_page().read_text().count("<svg") == 10


def test_where_nothing_learnt_was_better_the_result_is_what_it_began_with(tmp_path):
    one, _ = validating(tmp_path)
    one.run(scored([9, 1, 3, 2]), 3, quiet)
    assert one.best_update == 0
    # The guard knows nevertheless which ranges it was never trained in.
    assert weights.read(one.weights())[0]["ranges"] == one.learner.ranges != {}
    assert weights.read(one.weights())[0]["provenance"]["steps"] == 0


def test_validations_are_the_same_however_the_training_was_stopped(tmp_path):
    one, profile = validating(tmp_path / "one")
    one.run(scored([1, 3, 2, 1]), 3, quiet)
    other, _ = validating(tmp_path / "other")

    def stop(*_):
        if len(other.validations) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.run(scored([1, 3]), 3, stop)
    Training.resume(tmp_path / "other", profile, 5, COMMAND).run(scored([2, 1]), 3, quiet)
    assert kept(tmp_path / "one") == kept(tmp_path / "other")
    assert (tmp_path / "one" / VALIDATIONS).read_bytes() == (tmp_path / "other" / VALIDATIONS).read_bytes()


def test_the_critic_learns_alone_at_first(tmp_path):
    training = begun(tmp_path)
    first = PROFILE.ppo.critic_first_updates
    training.run(runner(), first, quiet)
    begins = Learner.begin(PROFILE, 5)
    assert all(torch.equal(a, b) for a, b in zip(begins.policy.actor.parameters(),
                                                 training.learner.policy.actor.parameters(), strict=True))  # fmt: skip
    critic = next(training.learner.policy.critic.parameters())
    assert not torch.equal(critic, next(begins.policy.critic.parameters()))
    training.run(runner(spread=0.02), first + 1, quiet)
    assert not torch.equal(next(begins.policy.actor.parameters()), next(training.learner.policy.actor.parameters()))
