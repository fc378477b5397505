# SPDX-License-Identifier: Apache-2.0
"""[cells]: several scenarios in one file."""

import pytest

from weirlab.run.scenarios import load_scenario, load_scenarios, read_scenarios
from weirlab.scenario.errors import ScenarioError

TEXT = """
[scenario]
name = "step-{rate}-{trip}"
title = "{rate} Mbit/s"
description = "{link.bottleneck.queue_limit_packets} packets"
duration_s = 10

[link.access]
rate_mbit_s = 100
[link.bottleneck]
rate_mbit_s = 1
queue_limit_packets = 1000
[[flows]]
kind = "tcp"
[variants.pie]
qdisc = "pie"

[cells.rate.5]
"link.bottleneck.rate_mbit_s" = 5
[cells.rate.20]
"link.bottleneck.rate_mbit_s" = 20
"variants.red" = { qdisc = "pfifo" }
[cells.trip.short]
"link.bottleneck.delay_ms" = 1
[cells.trip.long]
"link.bottleneck.delay_ms" = 50
[cells.except.20-long]
"link.bottleneck.queue_limit_packets" = 77
"""


@pytest.fixture
def file(tmp_path):
    def write(text=TEXT, name="step.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_combination_is_a_scenario(file):
    found = load_scenarios(file())
    assert [s.name for s in found] == ["step-5-short", "step-5-long", "step-20-short", "step-20-long"]
    assert [s.title for s in found] == ["5 Mbit/s", "5 Mbit/s", "20 Mbit/s", "20 Mbit/s"]
    assert [s.description for s in found] == ["1000 packets"] * 3 + ["77 packets"]
    links = [s.cases["pie"]["link"]["bottleneck"] for s in found]
    assert [(link["rate_mbit_s"], link["delay_ms"]) for link in links] == [(5, 1), (5, 50), (20, 1), (20, 50)]
    assert [list(s.cases) for s in found] == [["pie"], ["pie"], ["pie", "red"], ["pie", "red"]]
    assert all(run.scenario == s.name == run.spec["scenario"] for s in found for run in s.runs())


def test_a_cell_is_found_by_the_name_of_its_own_file(file):
    path = file()
    (found,) = read_scenarios(str(path.with_name("step-20-long.toml")))
    assert found.name == "step-20-long"
    assert len(read_scenarios(str(path))) == 4
    with pytest.raises(ScenarioError, match="give one by its name: step-5-short, step-5-long"):
        load_scenario(path)
    with pytest.raises(ScenarioError, match=r"step-21-long\.toml: no such file"):
        read_scenarios(str(path.with_name("step-21-long.toml")))


@pytest.mark.parametrize(("before", "after", "said"), [
    ('"step-{rate}-{trip}"', '"step-{rate}"', ":3: scenario.name: the same for several cells; write {rate} and {trip}"),
    ('"{rate} Mbit/s"', '"{bate} Mbit/s"', ":4: scenario.title: nothing to put for {bate}"),
    ('"link.bottleneck.rate_mbit_s" = 5', '"link.botleneck.rate_mbit_s" = 5', ":19: cells.rate.5.link.botleneck.rate"),
    ('"link.bottleneck.rate_mbit_s" = 5', '"scenario.topology" = "access"', "cells.rate.5.scenario.topology: not a"),
    ('"link.bottleneck.delay_ms" = 1\n', '"link.bottleneck.delay" = 1\n', "unit left out; write delay_ms"),
    ("[cells.except.20-long]", "[cells.except.20-lang]", "no such cell; did you mean 20-long?"),
    ("[cells.trip.short]", '[cells.trip."a b"]', "not a good value"),
    ("[cells.rate.5]\n", "[cells]\nbase = 1\n[cells.rate.5]\n", "cells.base: not a table of tables"),
])  # fmt: skip
def test_mistakes_are_reported_where_they_are(file, before, after, said):
    assert before in TEXT
    with pytest.raises(ScenarioError) as caught:
        load_scenarios(file(TEXT.replace(before, after, 1)))
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_cells_without_an_axis(file):
    with pytest.raises(ScenarioError, match="no axis"):
        load_scenarios(file(TEXT[: TEXT.index("[cells")] + "[cells]\n"))
