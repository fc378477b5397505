# SPDX-License-Identifier: Apache-2.0
"""The report of `campus`: picture, timeline, tables."""

import io
import json
import re

import generated_campus as made
import pytest
from rich.console import Console

from weirlab.run.page import print_table, write_html
from weirlab.store.folder import ResultsFolder, RunResult, summarise
from weirlab.topologies.campus.report.picture import BOXES, LINKS, picture
from weirlab.topologies.campus.report.plots import BIN_S, chosen, rate_mbit_s
from weirlab.topologies.campus.samples import read_samples
from weirlab.topologies.campus.sites import WATCHED
from weirlab.topologies.registry import topology_of


@pytest.fixture
def results(tmp_path, load):
    """The results of two variants and two seeds; none of these was run."""
    (tmp_path / "small.csv").write_text(made.RATES)
    scenario = load(made.GOOD)
    runs = scenario.runs()
    folder = ResultsFolder.create(tmp_path, scenario, ["./run", "together"], runs)
    topology = topology_of("campus")
    for run in runs:
        path = folder.run_folder(run) / "samples.jsonl"
        status = 0 if run.variant == "all" else 5
        lines = [{**line, "status": status} if line["k"] == "ended" else line for line in made.run_lines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found = topology.compute(path, run.spec)
        folder.keep(RunResult(run.scenario, run.variant, run.seed, found, tuple(topology.failures(found))))
    return folder


def test_every_counted_link_is_watched_and_between_boxes():
    for one, other, counted, _, _ in LINKS:
        assert {one, other} <= set(BOXES)
        if counted is not None:
            assert counted[1] in WATCHED[counted[0]]


def test_lines_are_as_thick_as_what_went_there():
    passed = {
        ("core", "bb"): {"sent_bytes": 9_000_000, "received_bytes": 1_000_000},
        ("desk", "eth0"): {"sent_bytes": 0, "received_bytes": 5_000_000},
    }
    drawn = picture(passed, "a <network>")
    assert "backbone 9.0 / 1.0" in drawn
    assert ">5.0 / 0.0<" in drawn  # what the desk received went down
    widths = sorted(float(width) for width in re.findall(r'stroke-width="([\d.]+)"/>', drawn))
    assert widths == [4.5, 9.0]
    assert "a &lt;network&gt;" in drawn


def test_nothing_counted_is_drawn_dashed():
    assert picture({}, "x").count("stroke-dasharray") == len(LINKS)


def test_rates_are_what_came_in_each_bin(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in made.run_lines()))
    samples = read_samples(path, made.spec())
    times, rates = rate_mbit_s(samples.came[0], 10)
    assert len(times) == 10 / BIN_S
    assert rates[times > 1] == pytest.approx(0.8)


def test_a_timeline_has_three_variants_at_most():
    assert chosen(["none", "x", "all"]) == ["all", "none"]
    assert chosen(["a", "b", "c", "d"]) == ["a", "b", "c"]


def test_the_tables_say_what_was_asked(results):
    said = io.StringIO()
    print_table(results, summarise(results), Console(file=said, width=160))
    text = said.getvalue()
    assert "requests, p99, over none" in text
    assert "4 receivers have not the publisher's file" in text
    assert "Whether the runs are sound: 2 of 4 runs passed" in text


@pytest.mark.pictures
def test_the_page_has_picture_timeline_and_figures(results):
    text = write_html(results).read_text()
    for part in ("What flowed where", "backbone 9.0 / 0.0", "What happened", "What was asked", "Figures", "PID-Delay"):
        assert part in text
    assert write_html(results).read_text() == text
