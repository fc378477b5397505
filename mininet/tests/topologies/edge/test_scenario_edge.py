# SPDX-License-Identifier: Apache-2.0
"""Scenarios on `edge`: the shipped ones, and errors for each mistake with its place and remedy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_checks import SHIPPED, TOML_VALUE, check_any_value, check_mistake

from weirlab.run.scenarios import load_scenario

GOOD = """\
[scenario]
name = "small"
title = "Small"
topology = "edge"
duration_s = 10
[tree]
edges = 2
[bottleneck]
rate_mbit_s = 16
delay_ms = 5
[last_hop]
rate_mbit_s = 50
delay_ms = 1
loss_percent = 1
[aqm]
target_us = 5000
[transfer]
receivers = 3
bytes = 512_000
[[moves]]
receiver = 1
at_s = 2
to_edge = 2
[variants.names]
carry = "names"
beta = [2, "default"]
[variants.unicast]
carry = "unicast"
cc = "reno"
[variants.stored]
carry = "names"
cache_mb = 64
"""


def test_a_good_file_leaves_nothing_open(load):
    cases = load(GOOD).cases
    assert list(cases) == ["names,beta=2", "names,beta=default", "unicast", "stored"]
    assert [case["carrying"]["beta"] for case in cases.values()] == [2, None, None, None]
    assert [case["carrying"]["cache_mb"] for case in cases.values()] == [None, None, None, 64]
    spec = cases["unicast"]
    assert spec["carrying"] == {
        "carry": "unicast",
        "beta": None,
        "gaps": True,
        "cache_mb": None,
        "edge_server": False,
        "repair": False,
        "reliable": False,
        "cc": "reno",
    }
    assert spec["last_hop"]["medium"] == "links"
    assert spec["aqm"] == {"profile": "tuned", "target_us": 5000}
    assert spec["moves"] == [{"receiver": 1, "at_s": 2, "to_edge": 2, "address_after_s": 0.1}]
    assert spec["leaves"] == []


def test_an_edge_server_may_be_for_its_own_switch_alone(load):
    text = GOOD + 'edge_server = "local"\n'
    assert load(text).cases["stored"]["carrying"]["edge_server"] == "local"


def test_sections_with_defaults_may_be_left_out(load):
    text = GOOD.replace("[tree]\nedges = 2\n", "").replace("[aqm]\ntarget_us = 5000\n", "")
    text = text[: text.index("[[moves]]")] + text[text.index("[variants.names]") :]
    spec = load(text).cases["unicast"]
    assert (spec["tree"], spec["moves"], spec["aqm"]) == ({"edges": 1}, [], {"profile": "tuned"})


LEAVE = "[[leaves]]\nreceiver = 2\nat_s = 3\n"


def test_a_receiver_may_leave(load):
    spec = load(GOOD.replace("[variants.names]", f"{LEAVE}[variants.names]")).cases["unicast"]
    assert spec["leaves"] == [{"receiver": 2, "at_s": 3}]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("edges = 2", "edges = -1", "tree.edges: -1 is not valid; write a whole number from 0 to 16"),
        ("edges = 2", "edges = 0", "bottleneck: edges = 0 has no switch, and the segment's rate is rate_mbit_s of"),
        ("edges = 2", "edges = 0", "aqm: edges = 0 has no switch, and no queue has the law; remove the section"),
        ("edges = 2", "edges = 0", 'tree.edges: without a switch all are on one segment; write medium = "broadcast"'),
        ("edges = 2", "edges = 0", "variants.stored.cache_mb: a cache stands beside a switch, and edges = 0 has none"),
        ("receivers = 3", "receivers = 99", "tree.edges: 2 for 99 receivers takes 51 ports of a switch"),
        ("bytes = 512_000", "size = 512_000", "transfer.size"),
        ("bytes = 512_000\n", "", "transfer.bytes"),
        ("receiver = 1\n", "receiver = 4\n", "moves.0.receiver: there are 3 receivers, from 1; write less"),
        ("to_edge = 2", "to_edge = 3", "moves.0.to_edge: there are 2 edge switches, from 1; write less"),
        ("at_s = 2", "at_s = 10", "moves.0.at_s: not before the end, duration_s = 10"),
        ("[[moves]]", f"{LEAVE.replace('2', '4')}[[moves]]", "leaves.0.receiver: there are 3 receivers, from 1"),
        ("[[moves]]", f"{LEAVE.replace('3', '10')}[[moves]]", "leaves.0.at_s: not before the end, duration_s = 10"),
        ("[[moves]]", f"{LEAVE}{LEAVE}[[moves]]", "leaves: a receiver leaves once; remove the others"),
        ("rate_mbit_s = 50", 'rate_mbit_s = 50\nmedium = "broadcast"', 'moves: only with medium = "links"'),
        ("rate_mbit_s = 50", 'medium = "broadcast"', "last_hop.rate_mbit_s: a broadcast segment needs its rate"),
        ('cc = "reno"', "beta = 4", 'variants.unicast.beta: carry = "unicast" has none; remove it'),
        ('carry = "unicast"\ncc = "reno"', 'carry = "names"\ncc = "reno"', "variants.unicast.cc"),
        ('cc = "reno"', "repair = true", 'variants.unicast.repair: carry = "unicast" has none; remove it'),
        ('carry = "names"\nbeta', 'carry = "name"\nbeta', "variants.names.carry"),
        (
            "cache_mb = 64",
            'cache_mb = 64\nedge_server = "near"',
            "variants.stored.edge_server",
        ),
        (
            "cache_mb = 64",
            "edge_server = true",
            "variants.stored.edge_server: it stands on the host of the cache; write",
        ),
        ('cc = "reno"', "cache_mb = 64", 'variants.unicast.cache_mb: carry = "unicast" has none; remove it'),
        ("cache_mb = 64", "cache_mb = 0", "variants.stored.cache_mb: 0 is not valid; write a whole number from 1"),
        ("cache_mb = 64", "cache_mb = 0.5", "variants.stored.cache_mb: 0.5 is not valid; write a whole number from 1"),
        ("cache_mb = 64", "cache_mib = 64", "variants.stored.cache_mib"),
        ("receivers = 3", "receivers = 60", "variants.stored.cache_mb: a cache takes a port of each edge switch"),
        ("[bottleneck]", "[link]", "link"),
    ],
)
def test_each_mistake_is_told_with_its_remedy(load, old, new, said):
    check_mistake(load, GOOD, old, new, said)


def test_without_switches_there_is_one_segment_and_no_bottleneck(load):
    text = GOOD.replace("edges = 2", "edges = 0").replace("[bottleneck]\nrate_mbit_s = 16\ndelay_ms = 5\n", "")
    text = text.replace("[aqm]\ntarget_us = 5000\n", "").replace("[last_hop]", '[last_hop]\nmedium = "broadcast"')
    text = text[: text.index("[[moves]]")] + text[text.index("[variants.names]") : text.index("[variants.stored]")]
    spec = load(text).cases["unicast"]
    assert (spec["tree"], spec["bottleneck"], spec["last_hop"]["rate_mbit_s"]) == ({"edges": 0}, None, 50)


@given(line=st.sampled_from([line for line in GOOD.splitlines() if "=" in line]), value=TOML_VALUE)
def test_any_value_is_read_or_refused(tmp_path_factory, line, value):
    check_any_value(tmp_path_factory.mktemp("any") / "small.toml", GOOD, line, value)


def test_settings_that_want_too_much_are_left_out(load):
    text = GOOD.replace('cc = "reno"', "most_total_bytes = 1_100_000")
    labels = load(text + '[sweep]\n"transfer.receivers" = [1, 2, 3]\n').cases
    assert [label for label in labels if label.startswith("unicast")] == ["unicast,receivers=1", "unicast,receivers=2"]


@pytest.mark.parametrize("path", [path for path in SHIPPED if path.stem.startswith("icn-")], ids=str)
def test_shipped_scenarios_are_good_and_named_after_their_files(path):
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    assert {spec["topology"] for spec in scenario.cases.values()} == {"edge"}


def test_the_papers_settings_are_there():
    by_name = {path.stem: load_scenario(path) for path in SHIPPED if path.stem.startswith("icn-")}
    names = [spec for label, spec in by_name["icn-receivers"].cases.items() if label.startswith("names")]
    assert {spec["transfer"]["receivers"] for spec in names} == {1, 2, 4, 5, 6, 7, 16, 32}
    sizes = {512_000, 1_619_000, 5_120_000, 16_190_000, 51_200_000}
    assert {spec["transfer"]["bytes"] for spec in names} == sizes
    assert by_name["icn-receivers"].paper["figures"]["names"]["goodput_fall_percent"] == 7.36
    air = by_name["icn-broadcast"].cases.values()
    assert {spec["transfer"]["receivers"] for spec in air} == {4, 5, 6, 7}
    assert {spec["transfer"]["bytes"] for spec in air} == sizes
    assert {spec["tree"]["edges"] for spec in air} == {0}
    betas = {spec["carrying"]["beta"] for spec in by_name["icn-beta"].cases.values()}
    assert betas == {2, 4, 6, 8, 12, 20, None}
