# SPDX-License-Identifier: Apache-2.0
import functools
import json
import re
from types import SimpleNamespace

import generated_access as made
import pytest
from generated_samples import write
from page_layout import assert_fits
from page_outline import checked_page, printed

from weirlab import paths
from weirlab.run.page import write_html
from weirlab.run.runner import finish
from weirlab.run.scenarios import load_scenarios
from weirlab.scenario.model import Run
from weirlab.store.folder import ResultsFolder, summarise
from weirlab.topologies.registry import topology_of

pytestmark = pytest.mark.pictures

SCENARIOS = paths.scenarios()
STRATEGIES = ("polling", "epsilon-greedy", "best-single", "ops", "pps", "weir", "oracle")
PAPER = {
    "short": "Tan et al.",
    "source": "section 5.1",
    "note": "",
    "figures": {
        "ops": {"tct_mean_vs_polling_percent": -59.43, "tct_mean_vs_epsilon-greedy_percent": -39.47},
        "polling": {"best_path_rate": 0.25},
        "fast": {"transfer_time_vs_double_percent": -29},
    },
}
SIZES = {"stream_window_bytes": 8192, "max_stream_window_bytes": 1 << 20}
SIZES |= {"conn_window_bytes": 32768, "max_conn_window_bytes": 64 << 20}


def filled(root, name, cases, lines, seeds=2):
    """A results folder with made-up samples of these cases: label to spec."""
    runs = [
        Run(name, label, seed, {**spec, "seed": seed}) for seed in range(1, seeds + 1) for label, spec in cases.items()
    ]
    facts = {"name": name, "title": f"Made up: {name}", "description": "Not a measurement.", "paper": PAPER}
    scenario = SimpleNamespace(**facts, text="", topology="access", cases=cases, duration_s=300.0, runs=lambda: runs)
    folder = ResultsFolder.create(root, scenario, ["./run", "experiment", name])
    for run in runs:
        write(folder.run_folder(run) / "samples.jsonl", lines(run.spec))
        finish(folder, run)
    return folder


def table5(root, seeds=2, requests=120):
    cases = {each: made.spec(variant=each, strategy=each, requests=requests) for each in STRATEGIES}
    return filled(root, "pcm-table5", cases, made.lines, seeds)


def scenario_folder(root, name, seeds=1):
    """A results folder of a scenario of ours, with made-up samples."""
    scenario = load_scenarios(SCENARIOS / f"{name}.toml")[0]
    folder = ResultsFolder.create(root, scenario, ["./run", "experiment", name], scenario.runs(seeds=seeds))
    for run in scenario.runs(seeds=seeds):
        spec = run.spec
        if spec["client"]["interval_ms"]:
            lines = made.lines(spec)
        elif len(spec["paths"]) > 1:
            lines = made.handover(spec, 1.0)
        else:
            lines = made.download(spec)
        write(folder.run_folder(run) / "samples.jsonl", lines)
        finish(folder, run)
    return folder


def windows(root, seeds=2, sizes=(1_000_000,)):
    paths = [made.path("lan", 50.0, rate_mbit_s=100.0)]
    client = {"requests": 4, "parallel": 4, "interval_ms": 0.0, **SIZES}
    cases = {
        window + (f",bytes={size}" if len(sizes) > 1 else ""): made.spec(
            paths, variant=window, window=window, bytes=size, **client
        )
        for size in sizes
        for window in ("static", "double", "fast", "weir")
    }
    return filled(root, "window-sizes", cases, made.download, seeds)


def handover(root, seeds=2):
    paths = [made.path("wifi", 20.0), made.path("cell", 50.0)]
    client = {"requests": 1, "interval_ms": 0.0, "bytes": 20_000_000}
    cases = {each: made.spec(paths, variant=each, standby=each, **client) for each in ("validated", "cold")}
    stalls_ms = {"validated": 120.0, "cold": 260.0}
    return filled(
        root, "pcm-handover", cases, lambda run: made.handover(run, 2.0, stalls_ms[run["variant"]] + run["seed"]), seeds
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Results of a kind, their page and its number of plots, made once."""

    @functools.cache
    def made_once(make):
        folder = make(tmp_path_factory.mktemp("shared"))
        return folder, *checked_page(folder)

    return made_once


def test_strategies_their_peers_and_the_papers_figures(shared):
    folder, page, plots = shared(table5)
    text = printed(folder)
    for label in STRATEGIES:
        assert label in text
    assert re.search(r"on the best path, share +0\.250 ± 0\.000", text)
    assert re.search(r"ops against polling +-\d+\.\d\d ± ", text)
    for line in ("ops against epsilon-greedy", "weir against ops", "weir against pps"):
        assert re.search(rf"{line} +-?\d+\.\d\d ± ", text)
    assert "Tan et al. -59.43" in text
    assert "Tan et al. -39.47" in text
    assert "Tan et al. 0.25" in text
    assert "14 of 14 runs passed" in text
    assert plots == 4
    for words in ("Regret as it adds up", "polling, each path in turn", "Tan et al. -59.43", "-59.43</small>"):
        assert words in page
    assert "drawn for each round" in page


def test_windows_over_sizes(tmp_path):
    folder = windows(tmp_path, sizes=(100_000, 1_000_000))
    text = printed(folder)
    assert "fast against double" in text
    assert "Tan et al. -29" in text  # under the mean over sizes
    page, plots = checked_page(folder)
    assert plots == 3
    assert "Transfer time by size" in page
    assert "Of the largest size alone, 1000000 bytes a task." in page


def test_a_handover_has_its_timeline(shared):
    folder, page, plots = shared(handover)
    assert plots == 1
    assert "<h2>Handover</h2>" in page
    assert re.search(r"silence, ms +121\.5 ± ", printed(folder))


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in SCENARIOS.glob("*.toml") if 'topology = "access"' in path.read_text())
)
def test_each_of_our_scenarios_has_a_report(tmp_path, name):
    folder = scenario_folder(tmp_path, name)
    assert not summarise(folder).missing
    assert "FAILED" not in printed(folder)
    assert checked_page(folder)[1] >= 1


def test_the_same_results_give_the_same_page(tmp_path):
    folder = table5(tmp_path, seeds=1, requests=40)
    first = write_html(folder).read_bytes()
    assert write_html(folder).read_bytes() == first
    assert str(folder.path).encode() not in first


def test_a_failed_run_is_told(tmp_path):
    folder = table5(tmp_path, seeds=1, requests=40)
    run = next(folder.path.glob("runs/ops/seed-1"))
    lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    last = next(line for line in reversed(lines) if line["k"] == "task")
    last |= {"outcome": "timeout", "tct_us": None}
    write(run / "samples.jsonl", lines)
    spec = json.loads((run / "spec.json").read_text())
    result = finish(folder, Run("pcm-table5", "ops", 1, spec))
    assert result.failures == ("1 tasks did not end complete; see the outcome in the task lines of the samples",)
    assert "TARGET MISSED: ops, seed 1: 1 tasks did not end" in printed(folder)
    assert '<li class="missed">TARGET MISSED: ops, seed 1' in write_html(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize(("make", "words"), [(table5, "best path 25.0 %"), (windows, "goodput"), (handover, "silence")])
def test_a_run_in_a_few_words(shared, make, words):
    folder = shared(make)[0]
    assert words in topology_of(folder.topology).headline(summarise(folder).runs[0].metrics)


@pytest.mark.parametrize("make", [table5, windows, handover])
def test_a_page_fits_narrow_and_zoomed_windows(shared, make):
    assert_fits(shared(make)[1])
