# SPDX-License-Identifier: Apache-2.0
"""The small tables of an evaluation: what is written can be read, and all of the report is made of it."""

import json
from dataclasses import replace

import generated_samples
import pytest

from weirlab import cli, paths
from weirlab.evaluation.matrix.analysis import analyse
from weirlab.evaluation.matrix.page import report
from weirlab.evaluation.matrix.text import batches_told, differ, run_counts, summary_rows
from weirlab.evaluation.plan import load_plan
from weirlab.evaluation.report import LEFT_OUT, MADE, about, footer, left_out_of, made_of, missing_notes
from weirlab.evaluation.shared.ratios import paired_ratio
from weirlab.evaluation.shared.rows import DELAY, GOODPUT, RunRow
from weirlab.evaluation.tables import COLUMNS, batches_in, derived, rows_of, text_of
from weirlab.report import markdown
from weirlab.report.model import Report
from weirlab.store.documents import ResultsError
from weirlab.topologies.dumbbell.metrics import compute

CAPTURED = generated_samples.CAPTURED
RESULTS = paths.clone() / "docs" / "results" / "evaluation"


@pytest.fixture(scope="module")
def plan():
    return load_plan()


@pytest.mark.parametrize("name", ["pie", "tuned"])
def test_what_is_left_out_of_a_table_follows_from_it(name):
    spec = json.loads((CAPTURED / f"{name}.spec.json").read_text())
    found = compute(CAPTURED / f"{name}.jsonl.gz", spec)
    kept = {key: value for key, value in found.items() if any(key == column for column in COLUMNS)}
    figures = derived(kept, spec)
    assert figures["lost_packets"] == found["lost_packets"]
    assert "goodput_per_flow_mean_kbit_s" not in figures  # one of its flows is UDP, which takes what it wants
    without = {key: value for key, value in kept.items() if not key.startswith("drops_")}
    assert derived(without, spec)["lost_packets"] == pytest.approx(found["lost_packets"], abs=1)


def test_goodput_per_flow_is_found_again(plan):
    spec = next(run.spec for run in plan.runs() if (run.scenario, run.variant) == ("table2-cubic", "pie"))
    assert derived({"goodput_total_mbit_s": 9.25}, spec) == {"goodput_per_flow_mean_kbit_s": 925}


def test_steps_are_found_again(plan):
    spec = next(run.spec for run in plan.runs() if (run.scenario, run.variant) == ("steps-long", "pie"))
    figures = {
        "step_1_settling_s": 1.0,
        "step_2_settling_s": 3.5,
        "step_1_overshoot_ms": 0.0,
        "step_2_overshoot_ms": 9.0,
    }
    found = derived(figures, spec)
    assert (found["steps_count"], found["settling_mean_s"], found["overshoot_mean_ms"]) == (2, 2.25, 4.5)
    assert (found["step_1_at_s"], found["step_2_at_s"]) == (75, 150)


TABLE = "scenario,variant,seed,goodput_total_mbit_s\nsteps-long,pie,1,9.5\nsteps-long,auto,1,\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("scenario,", "scenarios,", "long.csv:1: the columns are not scenario, variant, seed"),
        ("goodput_total_mbit_s", "goodput_total", "long.csv:1: the columns are not"),
        ("goodput_total_mbit_s", "jain_index,jain_index", "long.csv:1: the columns are not"),
        ("9.5", "9.5,1", "long.csv:2: 5 cells under 4 heads"),
        ("9.5", "nine", "long.csv:2: goodput_total_mbit_s is 'nine'; write a number"),
        ("9.5", "nan", "long.csv:2: goodput_total_mbit_s is 'nan'; write a number"),
        ("9.5", "1e999", "long.csv:2: goodput_total_mbit_s is '1e999'"),
        (",1,9.5", ",one,9.5", "long.csv:2: seed 'one' is not a whole number"),
        ("steps-long,auto", "steps-lang,auto", "long.csv:3: no run steps-lang/auto in group long"),
        ("steps-long,auto", "steps-long,cake", "long.csv:3: no run steps-long/cake in group long"),
        ("steps-long,auto", "steps-long,pie", "long.csv:3: steps-long/pie/1 is there twice"),
        ("9.5\n", '"9.5\n', "long.csv:3: not CSV"),
    ],
)
def test_a_table_with_a_mistake_is_refused_by_its_line(tmp_path, plan, old, new, said):
    path = tmp_path / "long.csv"
    path.write_text(TABLE)
    assert len(rows_of(path, plan)) == 2
    path.write_text(TABLE.replace(old, new, 1))
    with pytest.raises(ResultsError) as caught:
        rows_of(path, plan)
    assert str(caught.value).startswith(str(tmp_path))
    assert said in str(caught.value)


def test_a_folder_without_tables_is_told(tmp_path, plan, capsys):
    for folder, said in ((tmp_path / "nowhere", "no such folder"), (tmp_path, "no CSV file with a run in it")):
        assert cli.main(["evaluate", "--from", str(folder), "--out", str(tmp_path / "out")]) == 1
        assert said in capsys.readouterr().err
    (tmp_path / "other.csv").write_text(TABLE)
    assert cli.main(["evaluate", "--from", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "no group 'other' in " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert cli.main(["evaluate", "--from", str(tmp_path), "--only", "grid"]) == 2


def test_tables_are_written_as_they_were_read(plan):
    """Of all that is in docs/results/evaluation, so that making a report again changes no table."""
    tables = sorted(RESULTS.glob("**/*.csv"))
    assert len(tables) >= 11
    for path in tables:
        assert text_of(rows_of(path, plan)) == path.read_text(encoding="utf-8"), path


def test_the_results_are_what_the_tables_say(plan):
    """docs/results/evaluation/report.md, to the letter, and the tables of the page."""
    batches = batches_in(RESULTS, plan)
    rows = [row for batch in batches for row in batch.rows]
    found = analyse(rows, about(plan))
    pictures = [path.name.removesuffix("-over-time.png") for path in RESULTS.glob("*-over-time.png")]
    in_order = [scenario.name for scenario in found.scenarios if scenario.name in pictures]
    later = [batch.name for batch in batches[1:]]
    of_tables = report(found, in_order, missing_notes(plan, rows), later)
    text = markdown.render(replace(of_tables, footer=footer(made_of(RESULTS))))
    assert text == (RESULTS / "report.md").read_text(encoding="utf-8")
    page = (RESULTS / "matrix.html").read_text(encoding="utf-8")
    for _, cells in summary_rows(found):
        assert "".join(f"<td>{cell}</td>" for cell in cells) in page


def test_runs_that_failed_their_checks_are_told_again(tmp_path, plan):
    run = plan.runs()[0]
    line = f"{run.scenario}/{run.variant}/{run.seed}: 9 % of the packets were not measured"
    (tmp_path / MADE).write_text(json.dumps({"weir": "1.0.0 (abc)", LEFT_OUT: [line]}))
    others = [RunRow(other.scenario, "", other.variant, other.seed, {}) for other in plan.runs()[1:]]
    text = markdown.render(Report("a", missing_notes(plan, others, left_out_of(tmp_path))))
    assert line in text
    assert "Incomplete" not in text
    (tmp_path / MADE).write_text(json.dumps({LEFT_OUT: [1]}))
    with pytest.raises(ResultsError, match=LEFT_OUT):
        left_out_of(tmp_path)


def test_ratios_are_taken_within_a_batch_and_figures_from_the_first():
    def row(variant, seed, delay_ms, batch):
        return RunRow("s", "flows", variant, seed, {DELAY: delay_ms, GOODPUT: 9.5, "loss_percent": 2.0}, batch)

    rows = [row("pie", 1, 16.0, 0), row("auto", 1, 8.0, 0), row("pie", 1, 20.0, 1), row("pie-5ms", 1, 5.0, 1)]
    found = analyse(rows)
    (scenario,) = found.scenarios
    assert scenario.mean("pie", DELAY) == 16
    assert paired_ratio(scenario.pairs, "pie-5ms", "pie", DELAY).mean == 0.25
    assert paired_ratio(scenario.pairs, "auto", "pie", DELAY).mean == 0.5
    assert paired_ratio(scenario.pairs, "auto", "pie-5ms", DELAY).mean == 1.6
    assert scenario.fronts["all"] == ("pie-5ms",)
    (told,) = batches_told(found, ["pie-5ms"])
    assert "(2 runs, [pie-5ms](pie-5ms))" in told
    assert "queue delay 1.25 of the first's" in told
    assert "4 runs" in run_counts(found)
    with pytest.raises(ValueError, match="twice"):
        analyse([*rows, rows[-1]])


def test_chance_is_told_from_difference():
    assert differ([10, 11, 12], [20, 21, 22])
    assert not differ([10, 20, 12], [20, 11, 12])
    assert not differ([1, 1], [1, 1])
