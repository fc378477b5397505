# SPDX-License-Identifier: Apache-2.0
"""Throughput advice of a variant, and flows that take it."""

import tomllib

import pytest
from scenario_checks import problems

from weirlab.topologies.dumbbell.drive import Drive, switch_config
from weirlab.topologies.dumbbell.queues.loader import attach_words

SMALL = """\
[scenario]
name = "small"
title = "Small"
duration_s = 6
seeds = 1
[link.access]
rate_mbit_s = 100
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 50
delay_ms = 9
[[flows]]
kind = "quic-download"
scone = "follow"
[[flows]]
kind = "quic-download"
[variants.tc]
qdisc = "weir"
profile = "tuned"
advise = "share"
[variants.p4]
qdisc = "p4"
profile = "tuned"
program = "p4/programs/pid_delay_scone.p4"
advise = "800kbit"
"""


def test_the_data_planes_get_the_advice(load):
    tc, p4 = (run.spec["aqm"] for run in load(SMALL).runs())
    words = attach_words(tc, "bn@r2", 1000)
    assert words[-2:] == ["--advise", "share"]
    assert not any(word.startswith("advise=") for word in words)
    assert tomllib.loads(switch_config(p4))["advice"] == {"port": {"2": {"rate_mbit_s": 0.8}}}
    without = load(SMALL.replace('advise = "800kbit"', "")).runs()[1].spec["aqm"]
    assert "advice" not in tomllib.loads(switch_config(without))


def test_both_ends_of_a_flow_take_part(load, tmp_path):
    drive = Drive(load(SMALL).runs()[0].spec, tmp_path)
    with_advice, without = drive.spec["flows"]
    assert len(drive.settings) == 2
    for node in ("sink", "s1"):
        assert drive.cc_words(with_advice, node)[-2:] == ["--scone", "follow"]
        assert "--scone" not in drive.cc_words(without, node)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"share"', '"8"', "variants.tc.advise"),
        ('"share"', '"off"', "variants.tc.advise"),
        ('"share"', '"share"\ncoupled = true', "variants.tc.advise"),
        ('"800kbit"', '"share"', "variants.p4.advise"),
        ('"follow"', '"off"', "flows.0.scone"),
        ('"follow"', '"follow"\ncc = "noq-cubic"', "flows.0"),
    ],
)
def test_mistakes_are_named_with_their_place(load, old, new, place):
    assert place in problems(load, SMALL.replace(old, new))
