# SPDX-License-Identifier: Apache-2.0
"""Policies beside each other: means, and differences episode by episode."""

import numpy as np
import pytest

from weirtrain import cli, compare
from weirtrain.episodes import for_validation
from weirtrain.profiles import PROFILES


def test_differences_are_taken_episode_by_episode():
    first = np.array([[-2.0, 1.0, 50.0, 1.0], [-4.0, 0.5, 90.0, 3.0], [0.0, 1.5, 40.0, 2.0]])
    better = first + np.array([0.5, 0.0, -10.0, 0.0])
    lines = compare.as_markdown({"rule": first, "mine.weights": better}).splitlines()
    assert lines[2] == "| rule | -2.000 | 1.000 | 60.0 | 2.00 |  |  |  |  |"
    assert lines[3] == (
        "| mine.weights | -1.500 | 1.000 | 50.0 | 2.00 | 0.500 ± 0.000 | 0.000 ± 0.000 | -10.0 ± 0.0 | 0.00 ± 0.00 |"
    )


def test_no_choice_was_made_by_its_episodes():
    chosen_by = for_validation("pbq", PROFILES["pbq"].validation.episodes)
    here = for_validation("pbq", 48, first=compare.FIRST)
    assert len(here) == len({episode.lab_seed for episode in (*here, *chosen_by)}) - len(chosen_by)
    assert all(episode.explore is None for episode in here)


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    pytest.importorskip("torch", reason="./run train installs PyTorch")
    assert cli.main(["compare", "rule", "nowhere.weights", "--out", str(tmp_path)]) == 1
    assert "nowhere.weights" in capsys.readouterr().err
