# SPDX-License-Identifier: Apache-2.0
"""A variant with two coupled bands: what it becomes, and what does not go with it."""

import pytest
from scenario_checks import problems

from weirlab.lab.shaping import shaped_bands

SMALL = """\
[scenario]
name = "small"
title = "Small"
duration_s = 6
warmup_s = 2
seeds = 1
[link.access]
rate_mbit_s = 100
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 9
[[flows]]
kind = "tcp"
{changes}
[variants.one]
qdisc = "weir"
profile = "tuned"
coupled = true
"""
CHANGES = "[[changes]]\nat_s = 3\nrate_mbit_s = 5\n"


def test_it_is_part_of_the_variant_and_off_by_default(load):
    text = SMALL.format(changes="")
    assert load(text).runs()[0].spec["aqm"]["coupled"] is True
    assert load(text.replace("coupled = true", "")).runs()[0].spec["aqm"].get("coupled") is None


@pytest.mark.parametrize(
    ("changes", "more", "said"),
    [
        (CHANGES, "", "its classes have one rate for good, and [[changes]] has rate_mbit_s; remove one of them"),
        ("", "tune = true", "the tuner knows one queue, not two bands; remove tune or coupled"),
        ("", 'probability = "linear"', 'is not valid with coupled; it must be "squared"'),
    ],
)
def test_what_does_not_go_with_it_is_refused(load, changes, more, said):
    assert said in problems(load, SMALL.format(changes=changes) + more)


def test_the_classes_share_the_rate_and_the_first_is_served_first():
    lines = shaped_bands(10, "pfifo limit 5")
    assert "classid 1:10 htb rate 9mbit ceil 10mbit" in lines[2]
    assert lines[2].endswith("prio 0")
    assert lines[3].endswith("parent 1:10 handle 10: pfifo limit 5")
    assert "classid 1:20 htb rate 1mbit ceil 10mbit" in lines[4]
    assert lines[4].endswith("prio 1")
    assert "default 20" in lines[0]
