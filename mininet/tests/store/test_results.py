# SPDX-License-Identifier: Apache-2.0
import json
from concurrent.futures import ThreadPoolExecutor

import generated_samples
import pytest

from weirlab.metrics.samples import SamplesError
from weirlab.run.runner import finish
from weirlab.run.scenarios import load_scenario
from weirlab.store.documents import ResultsError
from weirlab.store.folder import ResultsFolder, RunResult, Summary, runs_json, summarise

SCENARIO = """\
[scenario]
name = "small"
title = "Small"
duration_s = 6
warmup_s = 1
seeds = 2
[link.access]
rate_mbit_s = 50
[link.bottleneck]
rate_mbit_s = 10
[[flows]]
kind = "tcp"
count = 2
[variants.pie]
qdisc = "pie"
target_ms = [15, 20]
[variants.paper]
qdisc = "weir"
profile = "paper"
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return load_scenario(path)


def filled(root, scenario):
    folder = ResultsFolder.create(root, scenario, ["./run", "experiment", "small"])
    for run in scenario.runs():
        generated_samples.write(folder.run_folder(run) / "samples.jsonl", generated_samples.lines(run.spec, 500))
        finish(folder, run)
    return folder


def test_the_same_samples_give_the_same_bytes(tmp_path, scenario):
    one, other = (filled(tmp_path / name, scenario) for name in ("a", "b"))
    assert one.path.name != other.path.name
    for folder in (one, other):
        summarise(folder)
    names = sorted(path.relative_to(one.path) for path in one.path.rglob("summary.json"))
    assert len(names) == 7
    for name in names:
        data = (one.path / name).read_bytes()
        assert data == (other.path / name).read_bytes()
        assert str(tmp_path).encode() not in data


def test_folders_never_collide(tmp_path, scenario):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: ResultsFolder.create(tmp_path / "r", scenario, ["x"]), range(40)))
    assert len({folder.path for folder in folders}) == 40
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == sorted(folder.path.name for folder in folders)


def test_what_was_run_is_kept(tmp_path, scenario):
    folder = ResultsFolder.create(tmp_path / "r", scenario, ["./run", "x"], scenario.runs(only="paper", seeds=[4]))
    folder.note(versions={"lab kernel": "6.12"}, wall_s=3)
    meta = ResultsFolder.open(folder.path).meta
    assert meta["argv"] == ["./run", "x"]
    assert meta["runs"] == [["paper", 4]]
    assert meta["seeds"] == [4]
    assert meta["versions"]["lab kernel"] == "6.12"
    assert meta["versions"]["python"]
    assert meta["wall_s"] == 3
    assert (folder.path / "scenario.toml").read_text() == SCENARIO
    run = scenario.runs(only="paper", seeds=[4])[0]
    assert json.loads((folder.run_folder(run) / "spec.json").read_text()) == run.spec


def test_an_unfinished_folder_can_be_read_and_gone_on_with(tmp_path, scenario):
    folder = filled(tmp_path, scenario)
    (folder.run_path("paper", 2) / "summary.json").unlink()
    summary = summarise(ResultsFolder.open(folder.path))
    assert summary.missing == (("paper", 2),)
    assert len(summary.runs) == 5
    assert summary.variants["paper"]["queue_delay_mean_ms"].n == 1
    assert [run.variant for run in scenario.runs() if not folder.finished(run.variant, run.seed)] == ["paper"]


def test_statistics_are_over_seeds(tmp_path, scenario):
    summary = summarise(filled(tmp_path, scenario))
    values = [run.metrics["queue_delay_mean_ms"] for run in summary.runs if run.variant == "paper"]
    found = summary.variants["paper"]["queue_delay_mean_ms"]
    assert found.n == 2
    assert found.mean == pytest.approx(sum(values) / 2)
    assert found.ci95 == pytest.approx(12.706 * abs(values[0] - values[1]) / 2, abs=1e-5)
    assert list(summary.variants) == ["pie,target_ms=15", "pie,target_ms=20", "paper"]


def test_the_json_document_has_what_scripts_rely_on(tmp_path, scenario):
    runs = json.loads(runs_json(summarise(filled(tmp_path, scenario))))["runs"]
    assert len(runs) == 6
    for run in runs:
        assert {"scenario", "variant", "seed", "metrics"} <= set(run)
        assert all(value is None or isinstance(value, int | float) for value in run["metrics"].values())
        assert run["metrics"]["queue_delay_excess_ms"] >= 0


def test_a_failed_check_is_kept(tmp_path, scenario):
    folder = ResultsFolder.create(tmp_path, scenario, ["x"])
    run = scenario.runs()[0]
    records = generated_samples.lines(run.spec, 500, outside_ms=5.0)
    generated_samples.write(folder.run_folder(run) / "samples.jsonl", records)
    assert "most of it at access" in finish(folder, run).failures[0]
    assert summarise(folder).failures[0].startswith("pie,target_ms=15, seed 1: ")


def test_missing_and_damaged_files_are_named(tmp_path, scenario):
    folder = filled(tmp_path, scenario)
    run = scenario.runs()[0]
    path = folder.run_path(run.variant, run.seed)
    (path / "samples.jsonl").write_text('{"k": "start"')
    with pytest.raises(SamplesError, match=r"samples\.jsonl:1: the last line is cut short"):
        finish(folder, run)
    (path / "samples.jsonl").unlink()
    with pytest.raises(ResultsError, match=r"no samples\.jsonl"):
        finish(folder, run)
    (path / "summary.json").write_text("{")
    with pytest.raises(ResultsError, match=r"summary\.json: damaged"):
        summarise(folder)
    with pytest.raises(ResultsError, match="not a results folder"):
        ResultsFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("failures", "missed", "state"),
    [
        ((), (), "valid"),
        (("a",), ("a",), "target missed"),
        (("a", "b"), ("a",), "run failed"),
        (("b",), (), "run failed"),
    ],
)
def test_a_run_has_one_of_three_states(failures, missed, state):
    run = RunResult("s", "v", 1, {}, failures, missed)
    assert run.state == state
    summary = Summary((run,), {}, ())
    assert json.loads(runs_json(summary))["runs"][0]["state"] == state
    assert len(summary.failures) + len(summary.missed) == len(failures)
