# SPDX-License-Identifier: Apache-2.0
"""The report of `campus`: picture, timeline, tables."""

import io
import json
import re

import generated_campus as made
import numpy as np
import pytest
from rich.console import Console

from weirlab.run.page import print_table, write_html
from weirlab.store.folder import ResultsFolder, RunResult, summarise
from weirlab.topologies.campus.report.labels import QUEUES
from weirlab.topologies.campus.report.picture import BOXES, LINKS, picture, receivers_together
from weirlab.topologies.campus.report.plots import (
    BIN_S,
    QUEUE_HUES,
    chosen,
    each_second,
    longest,
    of_all_switches,
    rate_mbit_s,
    timeline,
)
from weirlab.topologies.campus.samples import read_samples
from weirlab.topologies.campus.sites import watched
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


def test_every_link_is_counted_and_between_boxes():
    there = watched(made.spec())
    passed = {(node, device): {"sent_bytes": 1} for node, devices in there.items() for device in devices}
    passed |= receivers_together(passed, made.spec())
    for one, other, counted, _, _ in LINKS:
        assert {one, other} <= set(BOXES)
        assert counted in passed


def test_the_receivers_of_a_site_are_counted_together():
    passed = {(f"r{number}", "eth0"): {"sent_bytes": number, "received_bytes": 10} for number in (1, 2, 3)}
    assert receivers_together(passed, made.spec()) == {
        ("receivers1", "eth0"): {"sent_bytes": 4, "received_bytes": 20},
        ("receivers2", "eth0"): {"sent_bytes": 2, "received_bytes": 10},
    }


def test_lines_are_as_thick_as_what_went_there():
    passed = {
        ("core", "bb"): {"sent_bytes": 9_000_000, "received_bytes": 1_000_000},
        ("desk", "eth0"): {"sent_bytes": 0, "received_bytes": 5_000_000},
    }
    drawn = picture(passed, made.spec(), "a <network>")
    assert "backbone 9.0 / 1.0" in drawn
    assert ">5.0 / 0.0<" in drawn  # packets to the desk went down
    widths = sorted(float(width) for width in re.findall(r'stroke-width="([\d.]+)"/>', drawn))
    assert widths == [4.5, 9.0]
    assert "a &lt;network&gt;" in drawn


def test_nothing_counted_is_drawn_dashed():
    assert picture({}, made.spec(), "x").count("stroke-dasharray") == len(LINKS)


def test_rates_are_what_came_in_each_bin(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in made.run_lines()))
    samples = read_samples(path, made.spec())
    times, rates = rate_mbit_s(samples.came[0], 10)
    assert len(times) == 10 / BIN_S
    assert rates[times > 1] == pytest.approx(0.8)


def samples_of(tmp_path, lines):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_samples(path, made.spec())


def test_counts_of_a_switch_are_told_by_the_second():
    counts = [(0.0, {}), (1e6, {"x": 30}), (3e6, {"x": 90}), (4e6, {"x": 20})]
    times, rates = each_second(counts, "x")
    assert list(times) == [1, 3, 4]
    assert list(rates) == [30, 30, 20]  # the last one was started again, and counted from 0
    assert [len(each) for each in each_second(counts[:1], "x")] == [0, 0]


def test_all_switches_are_counted_together(tmp_path):
    times, rates = of_all_switches(samples_of(tmp_path, made.run_lines()), "interests_joined")
    assert list(times) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert list(rates[:3]) == [60, 60, 60]


def test_the_longest_queues_are_drawn_and_one_of_the_receivers():
    delays = {("core", "bb"): 4, ("cell", "celldown"): 9, ("line", "lineup"): 0, ("edge1", "6"): 7, ("edge2", "6"): 8}
    queues = {queue: (made_times(), made_times() * 0 + delay) for queue, delay in delays.items()}
    assert longest(queues) == [("cell", "celldown"), ("edge2", "6"), ("core", "bb")]
    everything = dict.fromkeys(QUEUES, (made_times(), made_times()))
    assert len(longest(everything)) == len(QUEUE_HUES) < len(everything)


def made_times():
    return np.arange(3.0)


@pytest.mark.pictures
def test_a_timeline_tells_of_queues_switches_and_networks_where_it_can(tmp_path):
    everything = samples_of(tmp_path, made.run_lines())
    drawn = timeline({"all": everything}, made.spec())
    told = (
        "congestion window",
        "Interests in the switches, a second: all",
        "merged",
        "backbone down",
        "and 1 change by",
    )
    for part in (*told, "Wi-Fi 1 down", "moves to site 2", "Wi-Fi loses 10 %", "upload"):
        assert part in drawn
    bare = samples_of(tmp_path, [line for line in made.run_lines() if line["k"] not in ("aqm", "names")])
    drawn = timeline({"none": bare}, made.spec())
    assert "Interests" not in drawn
    assert "longest queues" not in drawn


def test_a_timeline_has_three_variants_at_most():
    assert chosen(["none", "x", "all"]) == ["all", "none"]
    assert chosen(["a", "b", "c", "d"]) == ["a", "b", "c"]


def test_the_tables_say_what_was_asked(results):
    said = io.StringIO()
    print_table(results, summarise(results), Console(file=said, width=160))
    text = said.getvalue()
    assert "requests, p99, over none" in text
    assert "4 receivers have not the publisher's file" in text
    assert "2 of 4 runs passed" in text


def test_a_system_alone_is_shown_beside_all_together(tmp_path, load):
    (tmp_path / "small.csv").write_text(made.RATES)
    scenario = load(made.GOOD + '[variants.alone-pbq]\ntraffic = "upload"\n')
    runs = scenario.runs(only=["all", "alone-pbq"], seeds=1)
    folder = ResultsFolder.create(tmp_path, scenario, ["./run", "together"], runs)
    topology = topology_of("campus")
    for run in runs:
        path = folder.run_folder(run) / "samples.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in made.run_lines()))
        folder.keep(RunResult(run.scenario, run.variant, run.seed, topology.compute(path, run.spec), ()))
    said = io.StringIO()
    print_table(folder, summarise(folder), Console(file=said, width=160))
    text = " ".join(said.getvalue().split())
    assert "Each system alone and in company figure alone all together together over alone" in text
    assert "pbq upload, Mbit/s 4.00 4.00 1.00 upload, round trip, ms 40.0 40.0 1.00" in text
    assert "alone-pbq" not in text  # its figures stand there, and in no other table


@pytest.mark.pictures
def test_the_page_has_picture_timeline_and_figures(results):
    text = write_html(results).read_text()
    for heading in ("Traffic on each link", "Events", "Targets", "Figures"):
        assert f"<h2>{heading}</h2>" in text
    for part in ("backbone 9.0 / 0.0", "PID-Delay"):
        assert part in text
    assert write_html(results).read_text() == text
