# SPDX-License-Identifier: Apache-2.0
import json
import re
from types import SimpleNamespace

import generated_edge as made
import pytest
from generated_samples import write
from page_outline import checked_page, printed

from weirlab import paths
from weirlab.report import results
from weirlab.run.page import write_html
from weirlab.run.runner import finish
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.model import Run
from weirlab.store.folder import ResultsFolder, runs_json, summarise
from weirlab.topologies.edge.cross_run_stats import Point
from weirlab.topologies.edge.report.page import points
from weirlab.topologies.edge.report.plots import over_receivers, some_of, switches_of, who_merged_what
from weirlab.topologies.edge.requirements import answers
from weirlab.topologies.registry import topology_of

pytestmark = pytest.mark.pictures

SCENARIOS = paths.scenarios()
PAPER = {"short": "Huang et al.", "source": "Fig. 2", "note": "", "figures": {"names": {"goodput_fall_percent": 7.36}}}


def filled(root, cases, seeds=2, paper=PAPER):
    """A results folder with made-up samples of these cases: label to spec."""
    runs = [
        Run("made-up", label, seed, {**spec, "seed": seed})
        for seed in range(1, seeds + 1)
        for label, spec in cases.items()
    ]
    facts = {"name": "made-up", "title": "Made up", "description": "Not a measurement.", "paper": paper}
    scenario = SimpleNamespace(**facts, text="", topology="edge", cases=cases, duration_s=60.0, runs=lambda: runs)
    folder = ResultsFolder.create(root, scenario, ["./run", "experiment", "made-up"])
    for run in runs:
        write(folder.run_folder(run) / "samples.jsonl", made.lines(run.spec))
        finish(folder, run)
    return folder


def grid(root, seeds=2):
    return filled(
        root,
        {
            f"{carry},receivers={count},bytes={size}": made.spec(carry, receivers=count, bytes=size)
            for carry in ("names", "unicast")
            for size in (100_000, 1_000_000, 5_000_000)
            for count in (1, 4, 32)
        },
        seeds,
    )


def test_receivers_and_sizes(tmp_path):
    folder = grid(tmp_path)
    text = printed(folder)
    assert re.search(r"names, 16 Mbit/s, 1000 kB, 1 to 32 +0\.00 ± ", text)
    assert re.search(r"unicast, 16 Mbit/s, 1000 kB, 1 to 32 +96\.\d\d ± ", text)
    assert re.search(r"names, 16 Mbit/s, 32 receivers +0\.5000 ± 0\.0000 +1\.000000 ± 0\.0+ +\d+\.\d{3} ± ", text)
    assert re.search(r"names, 16 Mbit/s, 4 receivers .*\n.*Huang et al\. 0\.013", text)
    assert re.search(r"names: goodput falls, % +0\.00 ± 0\.00 +at most 1 +7\.36 +met", text)
    assert re.search(r"unicast: publisher sent, of the fewest's +32\.0000 ± 0\.0000 +at most 1\.1 +\S +missed", text)
    assert "3 of 3" in text
    assert re.search(r"names,receivers=32,bytes=1000000 +3[0-9.]+ ± ", text)
    assert "Huang et al. 7.36" in text
    assert "36 of 36 runs passed" in text
    page, plots = checked_page(folder)
    assert plots == 4
    for words in (
        "Goodput and time over receivers",
        "Goodput and time over file sizes",
        "Interests merged by each switch",
        "<h2>Comparisons of runs</h2>",
        "<h2>Targets</h2>",
        "do not say whether over sizes or over rounds",
    ):
        assert words in page
    assert f"<code>{answers.__module__}</code>" in page, "the place where targets are set"
    assert "edge1" in page


@pytest.mark.parametrize(("paper", "drawn"), [(PAPER, 2), ({**PAPER, "short": "Others"}, 0), ({}, 0)])
def test_the_papers_points_stand_beside_ours(tmp_path, paper, drawn):
    folder = filled(tmp_path, {f"names,receivers={n}": made.spec(receivers=n) for n in (4, 5, 7)}, paper=paper)
    summary = summarise(folder)
    figure = over_receivers(points(results.specs_of(folder, summary), summary), paper)
    crosses = [line.get_xydata()[0].tolist() for line in figure.axes[0].lines if line.get_marker() == "x"]
    assert crosses == [[4, 14.53], [7, 13.46]][:drawn]
    assert ("Crosses: the paper" in checked_page(folder)[0]) == bool(drawn)


def test_who_merged_what_is_the_mean_over_seeds():
    metrics = {
        seed: {f"{counter}_at_edge1": number for counter in ("interests_forwarded", "interests_joined")}
        for seed, number in ((1, 100), (2, 300))
    }
    figure = who_merged_what([Point("names", "names", 2, 1000, None, 1.0, 16.0, "names", 12.0, metrics)], {})
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [200, 0, 200, 0, 0]
    assert figure.axes[0].patches[2].get_x() == 200, "joined stand behind those sent on"


def test_of_many_numbers_of_receivers_some_are_drawn():
    assert some_of([1, 2, 4, 5, 6, 7, 16, 32]) == [1, 4, 7, 32]
    assert some_of([1, 4]) == [1, 4]


def test_betas_curve(tmp_path):
    cases = {
        f"timer,beta={beta or 'default'},loss_percent={loss}": made.spec(beta=beta, loss_percent=loss)
        for beta in (2.0, 8.0, 20.0, None)
        for loss in (1.0, 5.0)
    }
    folder = filled(tmp_path, cases, paper={})
    text = printed(folder)
    assert re.search(r"timer, 16 Mbit/s, 5 % loss +\S +2 +1\.0000 ± 0\.0000", text), "no beta of 4 beside 20"
    assert re.search(r"timer: goodput of the default beta, of the best's +1\.0000", text)
    page, plots = checked_page(folder)
    assert plots == 2
    assert "a line for each loss" in page


def test_what_was_asked_goes_with_json_too(tmp_path):
    folder = grid(tmp_path)
    asked = topology_of("edge").asked(folder, summarise(folder))
    assert {each["variant"] for each in asked} == {"names", "unicast"}
    falls = [each for each in asked if each["metric"] == "goodput_fall_percent" and each["variant"] == "names"]
    assert [(each["where"], each["paper"], each["met"]) for each in falls] == [
        (f"{size} kB, 1 to 32", 7.36, "met") for size in (100, 1000, 5000)
    ]
    assert json.loads(runs_json(summarise(folder), asked=asked))["asked"] == asked
    assert "asked" not in json.loads(runs_json(summarise(folder)))


def test_a_move_has_its_gap(tmp_path):
    spec = made.spec(receivers=2, moves=[{"receiver": 1, "at_s": 1.0, "to_edge": 2}])
    folder = filled(tmp_path, {"names": spec}, paper={})
    assert re.search(r"names .* 30\.0 ± 0\.0", printed(folder))
    assert "receiver 1 moves to edge switch 2 at 1 s" in checked_page(folder)[0]


@pytest.mark.parametrize("name", sorted(path.stem for path in SCENARIOS.glob("icn-*.toml")))
def test_each_of_our_scenarios_has_a_report(tmp_path, name):
    scenario = load_scenario(SCENARIOS / f"{name}.toml")
    folder = ResultsFolder.create(tmp_path, scenario, ["./run", "experiment", name], scenario.runs(seeds=1))
    for run in scenario.runs(seeds=1):
        write(folder.run_folder(run) / "samples.jsonl", made.lines(run.spec))
        finish(folder, run)
    assert not summarise(folder).missing
    assert "FAILED" not in printed(folder)
    checked_page(folder)


def test_the_same_results_give_the_same_page(tmp_path):
    folder = filled(tmp_path, {"names": made.spec(), "unicast": made.spec("unicast")}, seeds=1)
    first = write_html(folder).read_bytes()
    assert write_html(folder).read_bytes() == first
    assert str(folder.path).encode() not in first


def test_a_receiver_without_the_file_is_told(tmp_path):
    folder = filled(tmp_path, {"names": made.spec(receivers=1)}, seeds=1)
    run = next(folder.path.glob("runs/names/seed-1"))
    lines = [
        {**line, "outcome": "failed"} if line["k"] == "receiver" else line
        for line in made.lines(made.spec(receivers=1))
    ]
    write(run / "samples.jsonl", lines)
    result = finish(folder, Run("made-up", "names", 1, made.spec(receivers=1)))
    assert topology_of("edge").headline(result.metrics) == "no receiver has the file"
    assert "TARGET MISSED: names, seed 1: 1 receivers did not get the file" in printed(folder)
    assert '<li class="missed">TARGET MISSED: names, seed 1' in write_html(folder).read_text(encoding="utf-8")


def test_a_run_in_a_few_words(tmp_path):
    folder = filled(tmp_path, {"names": made.spec()}, seeds=1)
    words = topology_of(folder.topology).headline(summarise(folder).runs[0].metrics)
    assert re.fullmatch(r"goodput 15\.\d\d Mbit/s each, complete after 0\.510 s, publisher sent 1\.05 files", words)


def test_the_picture_of_who_merged_what_goes_from_the_publisher_on():
    metrics = {f"interests_forwarded_at_{name}": 1 for name in ("core", "edge1", "edge2", "hub")}
    point = Point("names", "names", 2, 1000, None, 1.0, 16.0, "names", 12.0, {1: metrics})
    assert switches_of(point) == ["core", "hub", "edge1", "edge2"]
