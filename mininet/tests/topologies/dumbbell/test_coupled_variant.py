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
RETURN = '[link.return]\n[link.return.queue]\nqdisc = "weir"\nprofile = "tuned"\ncoupled = true\n'


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
        ("", "coupling = 16", "coupling: 16 is not valid; write a number from 0 below 16"),
        ("", "ramp_us = 0", "ramp_us: 0 is not valid; write a whole number from 1 below 65536"),
        (RETURN, "", "link.return.queue.coupled: two bands are for the queue under test; remove it here"),
    ],
)
def test_what_does_not_go_with_it_is_refused(load, changes, more, said):
    assert said in problems(load, SMALL.format(changes=changes) + more)


def test_a_rate_that_follows_a_file_does_not_go_with_it(load, tmp_path):
    (tmp_path / "rates.txt").write_text("time_s,rate_mbit_s\n0,10\n2,5\n")
    text = SMALL.format(changes="").replace("rate_mbit_s = 10\ndelay_ms = 9", 'rate_file = "rates.txt"\ndelay_ms = 9')
    said = "its classes have one rate for good, and the bottleneck has a rate_file; remove one of them"
    assert said in problems(load, text)


def test_the_keys_of_the_coupling_need_it(load):
    text = SMALL.format(changes="") + "coupling = 1.5\nramp_us = 1\n"
    aqm = load(text).runs()[0].spec["aqm"]
    assert (aqm["coupling"], aqm["ramp_us"]) == (1.5, 1)
    assert "floor_bytes" not in aqm
    said = "is not valid without coupled = true"
    assert said in problems(load, text.replace("coupled = true", ""))


def test_the_classes_share_the_rate_and_the_first_is_served_first():
    lines = shaped_bands(10, "pfifo limit 5")
    assert "classid 1:10 htb rate 1kbit ceil 9mbit" in lines[2]
    assert lines[2].endswith("prio 0")
    assert lines[3].endswith("parent 1:10 handle 10: pfifo limit 5")
    assert "classid 1:20 htb rate 1kbit ceil 10mbit" in lines[4]
    assert lines[4].endswith("prio 1")
    assert "default 20" in lines[0]
