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


def test_a_rule_may_have_other_numbers():
    assert compare.rule("rule") == {}
    assert compare.rule("rule.weights") is None
    assert compare.rule("rule:packets=5,share=0.03") == {"start.packets": 5.0, "start.share": 0.03}
    changed = PROFILES["pbq"].changed(compare.rule("rule:crowded_share=0"))
    assert changed.start.crowded_share == 0
    assert changed.start.packets == PROFILES["pbq"].start.packets


@pytest.mark.parametrize(
    "word", ["rule:", "rule:packets", "rule:packet=3", "rule:packets=x", "rule:packets=3,", "rule:gain=-1"]
)
def test_a_rule_that_cannot_be_is_refused_with_what_would_be_right(word, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", word])
    assert ended.value.code == 2
    assert "packets, share, gain, crowded_ratio, crowded_share" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    pytest.importorskip("torch", reason="./run train installs PyTorch")
    assert cli.main(["compare", "rule", "nowhere.weights", "--out", str(tmp_path)]) == 1
    assert "nowhere.weights" in capsys.readouterr().err
