# SPDX-License-Identifier: Apache-2.0
"""QUIC flows whose congestion control a policy decides: their keys in a scenario, and the programs' options."""

import pytest

from weirlab.run.scenarios import load_scenario
from weirlab.scenario.errors import ScenarioError
from weirlab.topologies.dumbbell.drive import Drive

POLICY = "the text of a policy\n"
GOOD = """\
[scenario]
name = "small"
title = "Small"
duration_s = 10
seeds = 1
[link.access]
rate_mbit_s = 50
[link.bottleneck]
rate_mbit_s = 10
[[flows]]
kind = "KIND"
cc = "pbq"
count = 2
cc_weights = "a.weights"
cc_explore = 1000
cc_trajectories = true
cc_agent = true
[variants.fifo]
qdisc = "pfifo"
"""


@pytest.fixture
def spec(tmp_path):
    def load(text):
        (tmp_path / "a.weights").write_text(POLICY)
        (tmp_path / "small.toml").write_text(text)
        return load_scenario(tmp_path / "small.toml").runs()[0].spec

    return load


@pytest.mark.parametrize("kind", ["quic-download", "quic-upload"])
def test_the_policy_is_in_the_spec_and_senders_are_told(spec, tmp_path, kind):
    found = spec(GOOD.replace("KIND", kind))
    (flow,) = found["flows"]
    assert flow["cc_weights"] == POLICY
    drive = Drive(found, tmp_path)
    policy = ["--cc", "pbq", "--ecn", "off", "--cc-weights", str(tmp_path / "policy.weights"), "--cc-trajectories"]
    assert drive.cc_words(flow, "s1") == [*policy, str(tmp_path / "trajectories-s1"), "--cc-agent",
                                          str(tmp_path / "agent")]  # fmt: skip
    assert drive.cc_words(flow, "s2") == [*policy, str(tmp_path / "trajectories-s2"), "--cc-explore", "1002"]
    assert drive.cc_words(flow, "sink") == ["--cc", "cubic", "--ecn", "off"]
    assert (tmp_path / "policy.weights").read_text() == POLICY
    assert (tmp_path / "agent").is_dir()


def test_without_weights_the_built_in_ones_decide(spec, tmp_path):
    found = spec(GOOD.replace("KIND", "quic-download").replace('cc_weights = "a.weights"\n', ""))
    (flow,) = found["flows"]
    assert "cc_weights" not in flow
    drive = Drive(found, tmp_path)
    words = [
        "--cc",
        "pbq",
        "--ecn",
        "off",
        "--cc-trajectories",
        str(tmp_path / "trajectories-s2"),
        "--cc-explore",
        "1002",
    ]
    assert drive.cc_words(flow, "s2") == words
    assert drive.cc_words(flow, "sink") == ["--cc", "cubic", "--ecn", "off"]
    found = spec(GOOD.replace("KIND", "quic-upload").replace("cc_", "# cc_"))
    (bare,), drive = found["flows"], Drive(found, tmp_path)
    assert drive.cc_words(bare, "s1") == ["--cc", "pbq", "--ecn", "off"]
    assert drive.cc_words(bare, "sink") == ["--cc", "cubic", "--ecn", "off"]


def test_flows_of_other_congestion_controls_are_as_before(spec, tmp_path):
    found = spec(GOOD.replace("KIND", "quic-download").replace("pbq", "reno").replace("cc_", "# cc_"))
    (flow,) = found["flows"]
    assert not [key for key in flow if key.startswith("cc_")]
    assert Drive(found, tmp_path).cc_words(flow, "s1") == ["--cc", "reno", "--ecn", "off"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"pbq"', '"cubic"', "cc_weights is for pbq and pbq-paper, not cubic"),
        ("a.weights", "b.weights", "'b.weights' can't be read: No such file"),
        ("cc_explore = 1000", "cc_explore = -1", "cc_explore"),
    ],
)
def test_mistakes_are_named(spec, old, new, said):
    with pytest.raises(ScenarioError, match=said):
        spec(GOOD.replace("KIND", "quic-download").replace(old, new))
