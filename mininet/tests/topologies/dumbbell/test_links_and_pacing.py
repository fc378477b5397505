# SPDX-License-Identifier: Apache-2.0
"""Scenario keys of the return path, of a rate that follows a file, and of voice and games."""

import pytest
from scenario_checks import SHIPPED, check_mistake, problems

from weirlab.run.scenarios import load_scenario
from weirlab.topologies.dumbbell.network import Dumbbell, Link, WayBack, changed_bottleneck

GOOD = """\
[scenario]
name = "small"
title = "Small"
duration_s = 10
warmup_s = 1
seeds = 1
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 20
[link.return]
queue_limit_packets = 50
[link.return.queue]
qdisc = "codel"
target_ms = 10
[[flows]]
kind = "tcp"
[[flows]]
kind = "voice"
dscp = 46
[[flows]]
kind = "game"
packets_per_s = 30
payload_bytes = 80
ecn = true
[variants.pie]
qdisc = "pie"
[variants.both]
qdisc = "pie"
return = { qdisc = "weir", profile = "tuned" }
"""


@pytest.fixture
def with_rates(tmp_path):
    """The good text with a rate file, which is written beside it."""

    def text(rates="time_s,rate_mbit_s\n0,4\n2,8\n", name="rates.csv"):
        (tmp_path / "rates.csv").write_text(rates)
        return GOOD.replace("rate_mbit_s = 10", f'rate_file = "{name}"')

    return text


def test_the_way_back_is_in_the_spec_with_nothing_left_to_default(load):
    scenario = load(GOOD)
    pie, both = (scenario.runs(only=name)[0].spec for name in ("pie", "both"))
    assert pie["link"]["return"] == {
        "rate_mbit_s": 10,
        "queue_limit_packets": 50,
        "queue": {"qdisc": "codel", "target_ms": 10, "interval_ms": 100, "ecn": False},
    }
    assert "return_aqm" not in pie
    assert "return" not in both["aqm"]
    assert both["return_aqm"]["integral"] == "keep"
    assert {**both, "return_aqm": 0, "variant": 0} == {**pie, "return_aqm": 0, "variant": 0}


def test_a_link_that_is_the_same_both_ways_has_no_way_back_in_the_spec(load):
    text = GOOD.split("[link.return]")[0] + "[[flows]]" + GOOD.split("[[flows]]")[1] + '[variants.pie]\nqdisc = "pie"\n'
    assert load(text).runs()[0].spec["link"] == {
        name: {"rate_mbit_s": rate, "delay_ms": delay, "loss_percent": 0, "queue_limit_packets": 1000}
        for name, rate, delay in (("access", 50, 1), ("bottleneck", 10, 20))
    }


def test_paced_flows_have_their_kinds_rate_unless_they_say_otherwise(load):
    voice, game = load(GOOD).runs(only="pie")[0].spec["flows"][1:]
    keys = ("packets_per_s", "payload_bytes", "dscp", "ecn")
    assert [voice[key] for key in keys] == [50, 160, 46, False]
    assert [game[key] for key in keys] == [30, 80, 0, True]
    text = GOOD.replace("packets_per_s = 30\npayload_bytes = 80\n", "")
    game = load(text).runs(only="pie")[0].spec["flows"][2]
    assert [game[key] for key in keys] == [60, 100, 0, True]


def test_a_rate_file_gives_the_run_its_rates_and_their_mean(load, with_rates):
    spec = load(with_rates()).runs(only="pie")[0].spec
    assert spec["link"]["bottleneck"] == {
        "delay_ms": 20, "loss_percent": 0, "queue_limit_packets": 1000, "rate_file": "rates.csv",
        "rates": [(0, 4), (2, 8), (4, 4), (6, 8), (8, 4)], "rate_mbit_s": 5.6,
    }  # fmt: skip
    assert spec["link"]["return"]["rate_mbit_s"] == 5.6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[link.return]", "[link.retrun]", "link.retrun: unknown; did you mean return?"),
        ("queue_limit_packets = 50", "queue_limit = 50", "link.return.queue_limit: unit left out; write queue_limit_p"),
        ("queue_limit_packets = 50", "rate = 50", "link.return.rate: unit left out; write rate_mbit_s = 50"),
        ("queue_limit_packets = 50", "delay_ms = 50", "link.return.delay_ms: unknown key; write one of rate_mbit_s"),
        ('qdisc = "codel"', 'qdisc = "codle"', "link.return.queue.qdisc: unknown name 'codle'; did you mean codel?"),
        ('qdisc = "codel"', 'qdisc = "p4"', "link.return.queue.qdisc: a P4 switch is for the data's way; write anoth"),
        ("target_ms = 10", "target = 10", "link.return.queue.target: unit left out; write target_ms = 10"),
        ('[link.return.queue]\nqdisc = "codel"\ntarget_ms = 10', "queue = 3", "link.return.queue: not a table; write"),
        ('profile = "tuned" }', 'profile = "tuned", tune = true }', "variants.both.return.tune: the tuner is for the"),
        ('profile = "tuned" }', 'profile = "tunde" }', "variants.both.return.profile: unknown name 'tunde'; did you"),
        ('return = { qdisc = "weir", profile = "tuned" }', "return = 1", "variants.both.return: not a table; write"),
        ("rate_mbit_s = 10\n", "", "link.bottleneck.rate_mbit_s: missing; write rate_mbit_s = a number from 0.001, or"),
        ("rate_mbit_s = 10", 'rate_mbit_s = 10\nrate_file = "x.csv"', "link.bottleneck.rate_file: rate_mbit_s is"),
        ("rate_mbit_s = 10", 'rate_file = "x.csv"', "rate_file: 'x.csv' can't be read: No such file or directory; wri"),
        ("rate_mbit_s = 10", 'ratefile = "x.csv"', "link.bottleneck.ratefile: unknown key; did you mean rate_file?"),
        ('kind = "voice"', 'kind = "voise"', "flows.1.kind: unknown name 'voise'; did you mean voice?"),
        ("dscp = 46", "dscp = 64", "flows.1.dscp: 64 is not valid; write a whole number from 0 to 63"),
        ("dscp = 46", "rate_mbit_s = 1", "flows.1.rate_mbit_s: unknown key"),
        ("packets_per_s = 30", "packets_per_s = 0", "flows.2.packets_per_s: 0 is not valid; write a number from 0.01"),
        ("payload_bytes = 80", "payload_bytes = 23", "flows.2.payload_bytes: 23 is not valid; write a whole number"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_place_and_remedy(load, old, new, said):
    check_mistake(load, GOOD, old, new, said)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (
            "time_s,rate_mbit_s\n0,4\n2,x\n",
            ":11: link.bottleneck.rate_file: rates.csv, line 3: rate_mbit_s is 'x'; w",
        ),
        ("time_s,rate_mbit_s\n0,0\n100,1\n", "rates.csv: a mean of less than 0.001 Mbit/s in this run; write higher"),
    ],
)
def test_mistakes_in_a_rate_file_are_told_with_its_line(load, with_rates, rates, said):
    assert said in problems(load, with_rates(rates))


def test_what_does_not_go_with_a_rate_file_is_refused(load, with_rates, tmp_path):
    text = with_rates()
    change = "[[changes]]\nat_s = 1\nrate_mbit_s = 3\n"
    assert "changes.0.rate_mbit_s: the rate follows rate_file; remove one of them" in problems(load, text + change)
    assert load(text + change.replace("rate_mbit_s", "delay_ms"))
    p4 = '[variants.p4]\nqdisc = "p4"\nprofile = "tuned"\n'
    assert "variants.p4.qdisc: a P4 switch's queue can't follow rate_file" in problems(load, text + p4)
    (tmp_path / "rates.csv").write_bytes(b"\xff")
    said = problems(load, GOOD.replace("rate_mbit_s = 10", 'rate_file = "rates.csv"'))
    assert "rates.csv: not UTF-8 at byte 0; save" in said


def test_rate_files_can_be_swept_by_name(load, with_rates, tmp_path):
    (tmp_path / "other.csv").write_text("time_s,rate_mbit_s\n0,3\n")
    text = with_rates() + '[sweep]\n"link.bottleneck.rate_file" = ["rates.csv", "other.csv"]\n'
    assert load(text).cases["pie,rate_file=other.csv"]["link"]["bottleneck"]["rate_mbit_s"] == 3
    assert "can't name a folder; write values without a /" in problems(load, text.replace('"other', '"./other'))


def test_a_variants_way_back_needs_a_link_of_its_own(load):
    text = GOOD.replace("[link.return]\nqueue_limit_packets = 50\n", "").replace("[link.return.queue]", "[link.x]")
    assert "variants.both.return: the scenario has no way back of its own; write [link.return]" in problems(load, text)


def test_the_example_scenarios_are_good():
    names = ("uplink-slow", "rate-cellular", "voice-game")
    for path in (path for path in SHIPPED if path.stem in names):
        assert load_scenario(path).name == path.stem
    assert set(names) <= {path.stem for path in SHIPPED}


def test_a_way_back_of_its_own_is_timed_at_its_queue_and_changes_with_the_delay_only():
    access, bottleneck = Link(50, 1, 0, 1000), Link(10, 50, 0, 1000)
    hops = Dumbbell.hops(1, access, bottleneck, 1454, one_in=8, way_back=True)
    assert [(hop.name, hop.device, hop.node, hop.propagation_us, hop.one_in) for hop in hops[-2:]] == [
        ("return-delay", "eth0", "sink", 50000, 8), ("return", "bn", "r2", 0, 1)
    ]  # fmt: skip
    back = WayBack(1.0, "pfifo limit 9")
    assert changed_bottleneck(bottleneck, Link(5, 20, 0, 1000), back) == [
        ("r1", "class change dev bn parent 1: classid 1:1 htb rate 5mbit burst 1540 cburst 1540 quantum 1540"),
        ("r2", "qdisc change dev out root handle 1: netem limit 100000 delay 20ms"),
        ("sink", "qdisc change dev eth0 root handle 1: netem limit 100000 delay 20ms"),
    ]
