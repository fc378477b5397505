# SPDX-License-Identifier: Apache-2.0
"""Trainings with real lab runs: stopped at any point they go on to the same bytes, and torch agrees with the sender."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_torch_ppo import policy_of

from weirlab import paths
from weirtrain import cli, rollout, trajectory
from weirtrain.episodes import plan
from weirtrain.held_out import UNDECIDED
from weirtrain.learner import Learner
from weirtrain.policy import Before
from weirtrain.profiles import PROFILES
from weirtrain.stretches import Preceding
from weirtrain.training import CURVES, Training
from weirtrain.weights import digest

PROFILE = PROFILES["pbq-paper"].changed({"episodes": 1, "episode_s": 4.0, "log_deviation": -1.0})
SEED, UPDATES, COMMAND = 3, 3, "./run train pbq --paper --seed 3"
FILES = ("pbq-paper.weights", CURVES)


def begun(folder):
    training = Training(folder, PROFILE, SEED, COMMAND)
    training.begin()
    return training


def go_on(training, folder, tell=lambda *_: None):
    training.run(rollout.here(PROFILE.name, 1, folder / "failed"), UPDATES, tell)
    return [(folder / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results of a training that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return go_on(begun(folder), folder)


def killed(folder, at):
    """A process that goes on with the training of a folder, or begins it, and is killed at that point."""
    words = [sys.executable, "-c", f"import test_torch_lab as t; t.die({str(folder)!r}, {at!r})"]
    trainer = Path(rollout.__file__).parent.parent
    path = ":".join(map(str, (Path(__file__).parent, trainer, paths.import_path())))
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def die(folder, at):
    """The same in that process. Each point is in another update, so that what is left by one meets the next."""

    def now(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    def told(*_):
        if at == "after a lab":
            now()

    def running(*_, **__):
        threading.Timer(1.0, now).start()
        return ordinary_driver(*_, **__)

    ordinary_driver, ordinary_replace = rollout.run_driver, os.replace
    place = Path(folder)
    training = Training.resume(place, PROFILE, SEED, COMMAND) if (place / CURVES).exists() else begun(place)
    if at == "in a lab":
        rollout.run_driver = running
    elif at == "in the update":
        torch.nn.utils.clip_grad_norm_ = now
    elif at == "before the checkpoint":
        os.replace = now
    elif at == "behind the checkpoint":
        os.replace = lambda *words: now(ordinary_replace(*words))
    go_on(training, place, told)


def test_killed_at_any_point_it_goes_on_to_the_same_bytes(tmp_path, whole):
    for at in ("in a lab", "after a lab", "behind the checkpoint", "before the checkpoint", "in the update"):
        killed(tmp_path, at)
    assert go_on(Training.resume(tmp_path, PROFILE, SEED, COMMAND), tmp_path) == whole
    assert not list(tmp_path.glob(".*"))
    (tmp_path / FILES[0]).write_bytes(b"killed behind the last checkpoint: those of the update before")
    Training.resume(tmp_path, PROFILE, SEED, COMMAND)
    assert [(tmp_path / name).read_bytes() for name in FILES] == whole


# With singles, what is new in noise that remembers has a larger error: its deviation is smaller.
@pytest.mark.parametrize(
    ("profile", "within"),
    [(PROFILE, 1e-5), (replace(PROFILES["pbq"], episode_s=5.0), 1e-4)],
    ids=["pbq-paper", "pbq"],
)
def test_log_probabilities_are_those_of_the_sender(profile, within):
    learner = Learner.begin(profile, SEED)
    file = learner.weights_file("none", COMMAND, guarded=False)
    episode = plan(profile.name, SEED, 0, profile.episode_s)
    ran = rollout.run_episode(episode, profile.name, file)
    assert len(ran.files) == episode.flows
    policy = policy_of(file)
    for name, content in ran.files:
        one = trajectory.read(content, name, digest(file))
        assert one.whole
        assert profile is not PROFILE or (one.by_policy.all() and len(one) > 20)
        states, drawn = (torch.from_numpy(column.astype("f4")) for column in (one.state, one.numbers["drawn"]))
        preceding = Preceding.of(one)
        columns = (preceding.states, preceding.drawn, preceding.there)
        before = Before(*(torch.from_numpy(column.astype("f4")) for column in columns))
        found = policy.log_probabilities(states, drawn, before).detach().double().numpy()
        assert len(found) > 10
        assert np.abs(found - one.numbers["log_probability"]).max() < within


def workers():
    """Processes of Ray below this one that run an episode."""
    rows = [
        line.split(None, 2)
        for line in subprocess.check_output(["ps", "-eo", "pid=,ppid=,args="], text=True).splitlines()
    ]
    family = {os.getpid()}
    for _ in range(4):
        family |= {int(own) for own, parent, _ in rows if int(parent) in family}
    return [int(own) for own, _, words in rows if int(own) in family and "ray::run_episode" in words]


def test_on_ray_the_bytes_are_the_same_though_a_worker_dies(tmp_path, whole):
    pytest.importorskip("ray", reason="Ray is not among what every clone installs; --ray says how to get it")
    killed_one = threading.Event()

    def kill_one():
        while not killed_one.wait(0.05):
            for worker in workers()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed_one.set()

    training = begun(tmp_path)
    with rollout.cluster(PROFILE.name, "local") as (runner, _):
        killer = threading.Thread(target=kill_one)
        killer.start()
        try:
            training.run(runner, UPDATES, lambda *_: None)
            assert killed_one.is_set()
        finally:
            killed_one.set()
            killer.join()
    assert [(tmp_path / name).read_bytes() for name in FILES] == whole


def test_two_workers_of_ray_give_the_bytes_of_two_jobs(tmp_path):
    pytest.importorskip("ray", reason="Ray is not among what every clone installs; --ray says how to get it")
    profile = PROFILES["pbq"].changed({"episodes": 4, "episode_s": 4.0, "validation": None})
    found = []
    for name in ("jobs", "ray"):
        training = Training(tmp_path / name, profile, SEED, COMMAND)
        training.begin()
        if name == "jobs":
            training.run(rollout.here(profile.name, 2, tmp_path / "failed"), 1, lambda *_: None)
        else:
            with rollout.cluster(profile.name, "local") as (runner, _):
                training.run(runner, 1, lambda *_: None)
        found.append([(tmp_path / name / one).read_bytes() for one in ("pbq.weights", CURVES)])
    assert found[0] == found[1]


def test_a_rule_is_written_and_compared_with_another_on_held_out_links(tmp_path, capsys):
    assert cli.main(["rule", "packets=6", "--out", str(tmp_path / "six.weights")]) == 0
    words = ["compare", "rule", str(tmp_path / "six.weights"), "--episodes", "1", "--only", "steady", "--out"]
    assert cli.main([*words, str(tmp_path / "out")]) == 0
    document = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert document["baseline"] == "rule"
    first, six = document["kinds"]["steady"]
    assert six["verdict"] == UNDECIDED  # by one episode
    assert six["means"] != first["means"]
    assert 0.5 < first["means"]["share"] < 2
    assert first["means"]["rtt_ratio"] >= 1
    page = (tmp_path / "out" / "table.md").read_text()
    assert page in capsys.readouterr().out
    judged = [path.read_bytes() for path in sorted((tmp_path / "out").glob("judged-*"))]
    assert cli.main([*words, str(tmp_path / "out")]) == 0
    assert judged == [path.read_bytes() for path in sorted((tmp_path / "out").glob("judged-*"))]
