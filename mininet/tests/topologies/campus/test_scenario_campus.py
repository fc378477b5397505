# SPDX-License-Identifier: Apache-2.0
"""Scenarios on `campus`: the shipped one, and errors for each mistake with its place and remedy."""

import pytest
from generated_campus import GOOD, RATES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenario_checks import TOML_VALUE, check_any_value, check_mistake

from weirlab import paths
from weirlab.run.scenarios import load_scenario
from weirlab.run.together import together
from weirlab.scenario.errors import ScenarioError

VARIANTS = [
    "all", "none", "today", "without-aqm", "without-bands", "without-pcm", "without-window", "without-pbq",
    "without-ecn", "without-names", "without-timestamps",
]  # fmt: skip
ALONE = {
    "alone-aqm": "neighbours",
    "alone-pcm": "requests",
    "alone-window": "downloads",
    "alone-pbq": "upload",
    "alone-names": "shared",
}


@pytest.fixture(autouse=True)
def rates(tmp_path):
    (tmp_path / "small.csv").write_text(RATES)


def test_a_good_file_leaves_nothing_open(load):
    cases = load(GOOD).cases
    assert list(cases) == ["all", "none"]
    spec = cases["all"]
    assert spec["has"] == {
        "aqm": "law", "bands": True, "tune": True, "paths": "choice", "window": "weir", "upload_cc": "pbq",
        "timestamps": True, "ecn": True, "names": True, "traffic": "all",
    }  # fmt: skip
    assert spec["cell"]["rates"][:3] == [(0, 10), (1, 4), (2, 20)]
    assert "rate_file" not in spec["cell"]
    assert spec["law"] == {"profile": "tuned", "target_us": 15000}
    assert spec["moves"] == [{"at_s": 5, "to_site": 2, "address_after_s": 0.1}]
    assert {**cases["none"], "has": None, "variant": None} == {**spec, "has": None, "variant": None}


def test_the_shipped_scenario_takes_one_system_out_at_a_time():
    cases = load_scenario(paths.scenarios() / "together.toml").cases
    assert list(cases) == [*VARIANTS, *ALONE]
    everything = cases["all"]["has"]
    for label in VARIANTS[3:]:
        assert sum(cases[label]["has"][key] != value for key, value in everything.items()) == 1
    for label in ("none", "today"):
        changed = [key for key, value in everything.items() if cases[label]["has"][key] != value]
        assert changed == ["aqm", "paths", "window", "upload_cc", "ecn", "names"]


def test_a_shorter_run_begins_as_the_whole_one_does():
    whole, short = together().cases["all"], together(30.0).cases["all"]
    assert (whole["duration_s"], short["duration_s"], short["upload"]["stop_s"]) == (120, 30, 28)
    for key in ("moves", "fades"):
        assert short[key] == [each for each in whole[key] if each["at_s"] < 30]
        assert 0 < len(short[key]) < len(whole[key])
    assert short["downloads"]["at_s"] == [at_s for at_s in whole["downloads"]["at_s"] if at_s < 30]
    assert short["cell"]["rates"] == whole["cell"]["rates"][: len(short["cell"]["rates"])]
    assert len(together(6.0).cases["all"]["requests"]) == 2  # the third has no whole interval by then
    same = dict.fromkeys(("duration_s", "upload", "downloads", "cell", "moves", "fades", "kills", "requests"))
    assert {**short, **same} == {**whole, **same}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(121.0, "from 4 to 120 s can be had"), (3.0, "from 4 to 120 s can be had"), (4.0, r"nothing of \[upload\]")],
)
def test_a_run_is_as_long_as_it_can_be(seconds, said):
    with pytest.raises(ScenarioError, match=said):
        together(seconds)


def test_switches_are_what_is_asked_for():
    assert {spec["switches"]["target"] for spec in together(switch="bmv2").cases.values()} == {"bmv2"}
    assert {spec["switches"]["target"] for spec in together().cases.values()} == {"embedded"}


def test_the_shipped_scenario_has_each_systems_traffic_alone():
    cases = load_scenario(paths.scenarios() / "together.toml").cases
    for label, traffic in ALONE.items():
        assert cases[label]["has"] == {**cases["all"]["has"], "traffic": traffic}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("up_mbit_s = 8\n", "", "backbone.up_mbit_s: missing"),
        ('"small.csv"', '"none.csv"', "cell.rate_file: none.csv: No such file or directory; write the name of a file"),
        ("to_site = 2", "to_site = 1", "moves.0.to_site: the phone is at site 1 by then; write the other one"),
        ("to_site = 2", "to_site = 3", "moves.0.to_site"),
        ("at_s = 5\nto", "at_s = 10\nto", "moves.0.at_s: 10 is not before the end, duration_s = 10; write less"),
        ("at_s = [2, 5]", "at_s = [2, 50]", "downloads.at_s: 50 is not before the end"),
        ("stop_s = 8", "stop_s = 1", "upload.stop_s: not after start_s"),
        ("stop_s = 8", "stop_s = 11", "upload.stop_s: not after start_s"),
        ("interval_ms = 2000", "interval_ms = 20000", "requests.1.interval_ms: no request has its whole interval"),
        ("duration_s = 10", "duration_s = 3", "scenario.duration_s: less than 4 s; write more"),
        ("count = 3", "count = 60", "receivers.count"),
        ('aqm = "law"', 'aqm = "red"', "variants.all.aqm"),
        ('aqm = "pfifo"', 'aqm = "pfifo"\ntune = true', 'variants.none.tune: aqm = "pfifo" is not the law; remove it'),
        ('aqm = "law"', 'traffic = "voice"', "variants.all.traffic"),
        ("target_us = 15000", 'profile = "tunde"', "law.profile: unknown name 'tunde'"),
        ("[[moves]]", '[[kills]]\npart = "edge3"\nat_s = 1\n[[moves]]', "kills.0.part"),
        (
            "[[moves]]",
            '[[kills]]\npart = "live"\nat_s = 9.5\n[[moves]]',
            "kills.0.back_after_s: 10.5 is not before the end, duration_s = 10; write less",
        ),
        ("[[moves]]", 2 * '[[kills]]\npart = "live"\nat_s = 1\n' + "[[moves]]", "kills: a part is killed twice"),
        ("[stream]\n", "[streams]\n", "streams: unknown section"),
    ],
)
def test_a_mistake_is_told_with_its_place(load, old, new, said):
    check_mistake(load, GOOD, old, new, said)


def test_a_rate_that_begins_with_an_outage_is_refused(load, tmp_path):
    (tmp_path / "small.csv").write_text("time_s,rate_mbit_s\n0,0\n1,4\n")
    check_mistake(load, GOOD, "", "", "cell.rate_file: small.csv: begins with an outage")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([line for line in GOOD.splitlines() if "=" in line]), TOML_VALUE)
def test_any_value_is_taken_or_refused_in_its_place(tmp_path, line, value):
    check_any_value(tmp_path / "small.toml", GOOD, line, value)
