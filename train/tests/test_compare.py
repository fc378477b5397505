# SPDX-License-Identifier: Apache-2.0
"""The words for policies, and the page of a comparison."""

import pytest
from test_held_out import BASE, judged, moved

from weirtrain import cli, compare
from weirtrain.profiles import PBQ_INPUTS, PROFILES


def test_the_page_has_a_row_for_each_policy_and_kind_and_all_verdicts():
    page = compare.as_markdown(
        {"rule": judged(*BASE), "mine": moved(0.5, 0.5), "other": moved(-1, -1)}, "Made by hand."
    )
    assert [line.split(" | ")[0][2:] for line in page.splitlines() if line.startswith("| kind-0")] == ["kind-0"] * 8
    assert "| kind-0 | rule | -2.500 | 1.000 | 1.200 | 0.00 | 1.000 |  |" in page
    assert "| all kinds | mine less rule |" in page
    assert "- all kinds: mine against rule: better" in page
    assert "| kind | policy | use | queue | share | fairness | loss |" in page
    assert "- kind-1: other against rule: worse" in page


def test_one_policy_has_a_page_without_verdicts():
    assert "verdict |" in compare.as_markdown({"rule": judged(*BASE)}, "Made by hand.")
    assert compare.verdicts({"rule": judged(*BASE)}) == []


def test_files_have_short_names_if_these_differ():
    assert compare.names(["rule", "a/x.weights", "b/y.weights"]) == {
        "rule": "rule", "x.weights": "a/x.weights", "y.weights": "b/y.weights",
    }  # fmt: skip
    assert list(compare.names(["a/x.weights", "b/x.weights"])) == ["a/x.weights", "b/x.weights"]


def test_a_rule_may_have_other_numbers():
    assert compare.rule("rule") == {}
    assert compare.rule("rule.weights") is None
    assert compare.rule("rule:packets=5,share=0.03") == {"start.packets": 5.0, "start.share": 0.03}
    changed = PROFILES["pbq"].changed(compare.rule("rule:gain=0.25"))
    assert changed.start.gain == 0.25
    assert changed.start.packets == PROFILES["pbq"].start.packets


@pytest.mark.parametrize(
    "word", ["rule:", "rule:packets", "rule:packet=3", "rule:packets=x", "rule:packets=3,", "rule:gain=-1"]
)
def test_a_rule_that_cannot_be_is_refused_with_what_would_be_right(word, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", word])
    assert ended.value.code == 2
    assert "packets, share, gain" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["rule", "packet=3"], ["compare", "rule", "--only", "narrow"]])
def test_a_wrong_number_or_kind_is_refused_with_those_that_there_are(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert {"rule": "gain", "compare": "beside-cubic"}[words[0]] in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    pytest.importorskip("torch", reason="./run train installs PyTorch")
    assert cli.main(["compare", "rule", "nowhere.weights", "--out", str(tmp_path)]) == 1
    assert "nowhere.weights" in capsys.readouterr().err


def test_an_input_is_a_row_and_a_name():
    """The share of CE marks is ready; no policy has it yet."""
    profile = PROFILES["pbq"].changed({"inputs": (*PBQ_INPUTS, "ce_share")})
    normalisation = profile.members()["normalisation"]
    assert len(normalisation["shift"]) == len(normalisation["scale"]) == len(PBQ_INPUTS) + 1
    assert profile.width == PROFILES["pbq"].width + profile.document["history"]
