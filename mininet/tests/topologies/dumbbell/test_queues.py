# SPDX-License-Identifier: Apache-2.0
"""Queue disciplines that not every kernel or tc knows: checks, tc's arguments, descriptions."""

import struct

import pytest
from scenario_checks import problems

from weirlab.lab.kernel_config import SOME_QDISCS, qdiscs_lacking
from weirlab.lab.qdisc import attribute, attributes, causes
from weirlab.run import kernel
from weirlab.scenario.errors import ScenarioError
from weirlab.topologies.dumbbell.metrics import metrics_of
from weirlab.topologies.dumbbell.queues import dualpi2
from weirlab.topologies.dumbbell.queues.tc import queue_under_test
from weirlab.topologies.dumbbell.report.labels import aqm_in_words
from weirlab.topologies.dumbbell.samples import read_samples
from weirlab.topologies.dumbbell.traffic import SCALABLE_PORT, TRAFFIC_PORT, sink_of

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
queue_limit_packets = 300
[[flows]]
kind = "tcp"
cc = "dctcp"
[[flows]]
kind = "tcp"
ecn = true
[variants.one]
"""
DUALPI2 = GOOD + 'qdisc = "dualpi2"\n'
ARGS = GOOD + 'qdisc = "args"\nqdisc_args = "{}"\n'


def only(scenario):
    [run] = scenario.runs()
    return run


def numbers(options):
    sizes = {1: "=B", 4: "=I"}
    return {kind: struct.unpack(sizes[len(value)], value)[0] for kind, value in attributes(options)}


def test_dualpi2_is_given_to_the_kernel_as_its_own_defaults_are(load):
    aqm = only(load(DUALPI2)).spec["aqm"]
    assert queue_under_test(aqm, 300, 10) == "dualpi2"
    assert numbers(dualpi2.dualpi2_options(aqm, 300)) == {
        dualpi2.LIMIT: 300, dualpi2.TARGET: 15000, dualpi2.TUPDATE: 16000, dualpi2.ALPHA: 41, dualpi2.BETA: 819,
        dualpi2.STEP_US: 1000, dualpi2.MIN_QLEN_STEP: 0, dualpi2.COUPLING: 2, dualpi2.DROP_OVERLOAD: 1,
        dualpi2.DROP_EARLY: 0, dualpi2.CLASSIC_PROTECTION: 10, dualpi2.ECN_MASK: 1, dualpi2.SPLIT_GSO: 1,
    }  # fmt: skip


def test_dualpi2_is_given_what_a_scenario_says(load):
    text = DUALPI2 + 'step_thresh_packets = 7\ndrop = "enqueue"\nl_queue = "any_ect"\nmemory_limit_bytes = 9000\n'
    aqm = only(load(text + "coupling_factor = 4\nsplit_gso = false\ntarget_ms = 2.5\n")).spec["aqm"]
    given = numbers(dualpi2.dualpi2_options(aqm, 300))
    assert dualpi2.STEP_US not in given
    assert given[dualpi2.STEP_PACKETS] == 7
    assert [given[key] for key in (dualpi2.DROP_EARLY, dualpi2.ECN_MASK, dualpi2.MEMORY_LIMIT)] == [1, 3, 9000]
    assert [given[key] for key in (dualpi2.COUPLING, dualpi2.SPLIT_GSO, dualpi2.TARGET)] == [4, 0, 2500]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "coupling_factor = 0\n",
            ":19: variants.one.coupling_factor: 0 is not valid; write a whole number from 1 to 255",
        ),
        ("alpha = 0.1\n", ":19: variants.one.alpha: unit left out; write alpha_hz"),
        ("step_thresh_ms = 1.0\nstep_thresh_packets = 5\n", ":17: variants.one: has step_thresh_ms and"),
        ('drop = "early"\n', """unknown name 'early'; write one of dequeue, enqueue"""),
    ],
)
def test_wrong_options_of_dualpi2_are_refused_at_their_line(load, more, said):
    assert said in problems(load, DUALPI2 + more)


def test_any_line_of_tc_can_be_a_variant(load):
    run = only(load(ARGS.format("fq_codel limit 500 ce_threshold_selector 0x1/0x3")))
    assert queue_under_test(run.spec["aqm"], 300, 10) == "fq_codel limit 500 ce_threshold_selector 0x1/0x3"
    assert aqm_in_words(run.spec["aqm"]) == "kernel fq_codel limit 500 ce_threshold_selector 0x1/0x3"
    assert run.place.endswith("small.toml:17")


@pytest.mark.parametrize(
    "line", ["", "pie\\nqdisc del dev bn root", "pie {dev}", "Pie", "pie  limit 5", "pie; true", "pie\\t5"]
)
def test_what_tc_would_read_as_more_than_one_discipline_is_refused(load, line):
    assert "variants.one.qdisc_args" in problems(load, ARGS.format(line))


def test_scalable_flows_have_a_sink_and_a_setting_of_their_own(load):
    dctcp, cubic = only(load(DUALPI2)).spec["flows"]
    assert sink_of(dctcp) == (SCALABLE_PORT, "dctcp")
    assert sink_of(cubic) == (TRAFFIC_PORT, "cubic")
    assert "ect1 is for scalable" in problems(load, DUALPI2.replace("ecn = true", "ect1 = true"))
    other = '[[flows]]\nkind = "tcp"\ncc = "dctcp"\nect1 = true\n[variants.one]'
    assert "must agree in ect1" in problems(load, DUALPI2.replace("[variants.one]", other))


def test_what_a_full_dualpi2_drops_is_told_from_what_its_law_drops():
    own = struct.pack("=7I", 1 << 31, 0, 0, 0, 0, 0, 12)
    found = causes("dualpi2", 10, own, overlimits=4)
    assert found == {"drops": None, "drops_aqm": 6, "drops_limit": 4, "probability": 0.25, "marks": 12}


def test_an_attribute_is_filled_up_and_read_back():
    data = attribute(3, b"abcde") + attribute(4, b"")
    assert len(data) == 16
    assert list(attributes(data)) == [(3, b"abcde"), (4, b"")]


class FakeLab:
    def __init__(self, folder):
        self.folder = folder

    def version(self):
        return "6.99"


def test_a_kernel_without_the_discipline_is_refused_with_the_remedy(load, tmp_path, monkeypatch):
    (tmp_path / "config").write_text("# CONFIG_NET_SCH_DUALPI2 is not set\nCONFIG_NET_SCH_PIE=y\n")
    monkeypatch.setattr(kernel, "ExactLab", lambda: FakeLab(tmp_path))
    assert qdiscs_lacking(tmp_path) == SOME_QDISCS == ("dualpi2",)
    kernel.check_kernel(load(ARGS.format("pie")).runs())
    for text in (DUALPI2, ARGS.format("dualpi2")):
        with pytest.raises(ScenarioError, match=r"small\.toml:17: variants\.one: .*Linux 6\.99.*--lab-kernel VERSION"):
            kernel.check_kernel(load(text).runs())
    (tmp_path / "config").write_text("CONFIG_NET_SCH_DUALPI2=y\n")
    kernel.check_kernel(load(DUALPI2).runs())


def test_marks_are_counted_where_packets_come_out_if_the_discipline_does_not_say(load, tmp_path):
    spec = only(load(ARGS.format("cake"))).spec
    lines = ['{"k":"start","t_us":0}', '{"k":"hop","hop":"bottleneck","propagation_us":0}']
    lines += [f'{{"k":"pkt","t_us":{t}000,"hop":"bottleneck","sojourn_us":5,"bytes":1500,"ce":{int(t % 3 == 0)}}}'
              for t in range(1, 10)]  # fmt: skip
    lines += [f'{{"k":"flow","t_us":1,"side":"server","flow":"{flow}","bytes":0}}' for flow in ("0.0", "1.0")]
    for own, marks in (({}, 3), ({"marks": 2}, 2)):
        state = "".join(f',"{key}":{value}' for key, value in own.items())
        samples = tmp_path / "samples.jsonl"
        states = ['{"k":"qdisc","t_us":0,"hop":"bottleneck","drops_qdisc":0' + (',"marks":0' if own else "") + "}"]
        states += [f'{{"k":"qdisc","t_us":9500,"hop":"bottleneck","drops_qdisc":1{state}}}']
        samples.write_text("\n".join([*lines, *states]) + "\n")
        found = metrics_of(read_samples(samples, spec), spec)
        assert (found["marks_packets"], found["drops_qdisc_packets"]) == (marks, 1)
