# SPDX-License-Identifier: Apache-2.0
"""Several trainings: what a sweep chooses, Fig. 8's figures, and that a stop in between changes nothing."""

import pytest
from test_torch_training import kept, runner

from weirtrain import figure8, sweep
from weirtrain.profiles import PROFILES
from weirtrain.trials import Trial, trained

SMALL = PROFILES["pbq"].changed({"episodes": 2, "validation": None})
TRIALS = [Trial(f"seed-{seed}", SMALL, seed, f"./run train pbq --seed {seed}") for seed in (1, 2)]


class Told:
    """Counts what it is told."""

    def __init__(self, stop_after=None):
        self.begun, self.updates, self.stop_after = [], 0, stop_after

    def training(self, name, updates, done, episodes):
        self.begun.append((name, done))

    def __call__(self, _updates, _part, _rollout, figures):
        self.updates += figures is not None
        if self.updates == self.stop_after:
            raise KeyboardInterrupt


def test_trials_stopped_in_between_go_on_to_the_same_bytes(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    assert [trial.name for trial, _ in trained(one, TRIALS, 2, runner(), Told())] == ["seed-1", "seed-2"]
    with pytest.raises(KeyboardInterrupt):
        list(trained(other, TRIALS, 2, runner(), Told(stop_after=3)))
    told = Told()
    list(trained(other, TRIALS, 2, runner(), told))
    assert told.begun == [("seed-1", 2), ("seed-2", 1)]
    for trial in TRIALS:
        assert kept(one / trial.name) == kept(other / trial.name)


@pytest.mark.parametrize("name", list(sweep.SETTINGS))
def test_each_setting_of_the_sweep_is_one_that_can_be_trained(name):
    profile = sweep.profile_of(name)
    shift = profile.members()["normalisation"]["shift"]
    assert len(shift) * profile.document["history"] == profile.width
    assert profile.name == "pbq-paper"


def judged(setting, goodput, rtt):
    return sweep.row(setting, {"reward": 0.5, "share": 0.9}, {
        "goodput_mbit_s": goodput, "rtt_mean_ms": rtt, "rtt_p95_ms": rtt, "jain_index": 1.0,
    })  # fmt: skip


def test_the_sweep_chooses_the_shortest_rtt_with_enough_goodput():
    reference = judged("", 2.0, 100)
    rows = [judged("fast", 1.95, 60), judged("best", 1.94, 50), judged("slow", 1.9, 30)]
    found = sweep.best(rows, reference)
    assert found is not None
    assert found["setting"] == "best"
    assert sweep.best(rows[2:], reference) is None
    text = sweep.as_markdown(rows, reference)
    assert "| **best** | 1.940 | 50.0 |" in text
    assert text.count("\n|") == 5


def curve(*rewards):
    return [{"update": n, "steps": 100.0 * n, "reward": reward, "throughput_mbit_s": 1.0, "rtt_mean_ms": 40.0}
            for n, reward in enumerate(rewards, start=1)]  # fmt: skip


def test_figure_8_counts_decisions_to_90_percent():
    quick = curve(0.1, 0.5, 1, 1, 1, 1, 1, 1, 1)
    assert figure8.final(quick) == 1
    assert figure8.steps_to(quick, 0.9) == 500  # the first three updates whose mean is 0.9 or more end there
    assert figure8.steps_to(quick, 1.1) is None
    runs = {"bbr": [quick, quick], "none": [curve(*([0.2] * 9)), quick]}
    found = figure8.results(runs)
    assert found["bbr"]["steps_to_90_percent"].mean == 500
    assert found["none"]["steps_to_90_percent"].mean == (300 + 500) / 2
    page = figure8.page(runs, {"title": "T", "description": "D"})
    assert page.count("<svg") == 3
    assert figure8.as_csv(runs).count("\n") == 1 + 4 * 9


def test_figure_8_trains_seed_by_seed_with_commands_that_repeat_it():
    commands = [trial.command for trial in figure8.trials(2)]
    assert commands == [
        f"./run train pbq --paper --pacing {kind} --seed {seed}" for seed in (1, 2) for kind in ("bbr", "none")
    ]
