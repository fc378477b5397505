# SPDX-License-Identifier: Apache-2.0
"""A variant with two bands of flows: what it becomes, and what does not go with it."""

import pytest
from scenario_checks import problems

from weirlab import paths
from weirlab.lab.shaping import shaped_flows, shaped_rate
from weirlab.run import sources
from weirlab.topologies.dumbbell.cache_key import KEEPING
from weirlab.topologies.dumbbell.network import shape
from weirlab.topologies.dumbbell.queues.tc import bands_of, queue_under_test

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
bands = true
"""
CHANGES = "[[changes]]\nat_s = 3\nrate_mbit_s = 5\n"
RETURN = '[link.return]\n[link.return.queue]\nqdisc = "weir"\nprofile = "tuned"\n'


def test_it_is_part_of_the_variant_and_off_by_default(load):
    text = SMALL.format(changes="")
    on, off = (load(one).runs()[0].spec["aqm"] for one in (text, text.replace("bands = true", "")))
    assert (bands_of(on), bands_of(off)) == ("flows", "")
    assert "bands" not in off


@pytest.mark.parametrize(
    ("changes", "more", "where"),
    [
        ("", "tune = true", "variants.one.bands"),
        ("", "coupled = true", "variants.one.bands"),
        ("", "ahead_share = 16", "ahead_share"),
        ("", "ahead_most_bytes = 0", "ahead_most_bytes"),
        (RETURN + "coupled = true\n", "", "link.return.queue.coupled"),
    ],
)
def test_what_does_not_go_with_it_is_refused(load, changes, more, where):
    assert where in str(problems(load, SMALL.format(changes=changes) + more))


def test_their_settings_need_it(load):
    text = SMALL.format(changes="") + "ahead_share = 0.25\n"
    assert load(text).runs()[0].spec["aqm"]["ahead_share"] == 0.25
    assert "ahead_share" in str(problems(load, text.replace("bands = true", "")))


def test_the_first_class_is_served_first_and_both_may_take_the_line():
    lines = shaped_flows(10, "pfifo limit 5")
    assert [line.split("prio ")[1] for line in lines if "prio" in line] == ["0", "1"]
    assert shaped_rate("add", 10) in lines
    assert len([line for line in lines if "10mbit" in line]) == 1  # a change of one class is one of the line


def test_the_rate_may_change(load):
    assert load(SMALL.format(changes=CHANGES)).runs()[0].spec["aqm"]["bands"]


def test_flow_queues_are_of_bulk_and_need_no_bands(load):
    text = SMALL.format(changes="") + "flow_queues = true\n"
    for one, bands, leaves in (
        (text, "flows", ["pfifo", "fq_codel"]),
        (text.replace("bands = true\n", ""), "", ["fq_codel"]),
        (SMALL.format(changes=""), "flows", ["pfifo", "pfifo"]),
    ):
        aqm = load(one).runs()[0].spec["aqm"]
        assert bands_of(aqm) == bands
        lines = shape(10, queue_under_test(aqm, 1000, 10), bands)
        assert [line.split("0: ")[1].split()[0] for line in lines if "parent 1:" in line and "qdisc" in line] == leaves
    assert "flow_queues" not in load(SMALL.format(changes="")).runs()[0].spec["aqm"]


def test_flow_queues_do_not_go_with_coupled_bands(load):
    text = SMALL.format(changes="").replace("bands = true", "coupled = true\nflow_queues = true")
    assert "variants.one.flow_queues" in str(problems(load, text))


def test_a_queue_of_the_way_back_may_have_bands_and_repeats_its_runs(load):
    one = load(SMALL.format(changes=RETURN + "bands = true\n")).runs()[0].spec
    assert one["link"]["return"]["queue"]["bands"]
    pie = {**one, "aqm": {"qdisc": "pie"}}
    assert {"bands", "loader"} <= KEEPING.parts(pie)
    assert "bands" not in KEEPING.parts({**pie, "return_aqm": {"qdisc": "pie"}})


def test_a_change_of_the_program_repeats_its_runs_and_no_other(load):
    text = SMALL.format(changes="")
    on, off, coupled = (
        KEEPING.parts(load(one).runs()[0].spec)
        for one in (text, text.replace("bands = true", ""), text.replace("bands = true", "coupled = true"))
    )
    program = paths.clone() / "xdp/src/weir_ahead.bpf.c"
    assert program in sources.files(f"@{part}" for part in on)
    assert program not in sources.files(f"@{part}" for part in off | coupled)
