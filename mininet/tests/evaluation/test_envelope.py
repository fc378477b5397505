# SPDX-License-Identifier: Apache-2.0
"""The suite of curves: what its file may say, what it runs, its tables, and what it concludes from made-up figures."""

import dataclasses
import json
import re
import subprocess
import sys

import page_outline
import pytest

from weirlab import cli, paths
from weirlab.evaluation.command import json_document, report
from weirlab.evaluation.envelope.analysis import analyse
from weirlab.evaluation.envelope.page import report as report_of
from weirlab.evaluation.envelope.page import suite_report
from weirlab.evaluation.envelope.text import claim_rows, figure_rows, peer_rows
from weirlab.evaluation.plan import load_plan
from weirlab.evaluation.shared.rows import RunRow, Setting
from weirlab.evaluation.state import State
from weirlab.evaluation.suites import load_suite
from weirlab.evaluation.tables import batches_in, head_of, rows_of_text, text_of
from weirlab.report import markdown
from weirlab.report.model import Paragraph, Prose
from weirlab.run.keys import Keys
from weirlab.scenario.errors import ScenarioError
from weirlab.store.cache import Cache
from weirlab.store.documents import ResultsError

SHORT = (2, 3, 5, 8, 15, 30)
LONG = (*SHORT, 60)


@pytest.fixture(scope="module")
def plan():
    return load_suite("envelope")


@pytest.fixture
def tiny(tmp_path):
    """An envelope over one small scenario of a matrix; its path."""
    (tmp_path / "tiny.toml").write_text(
        '[scenario]\nname = "tiny"\ntitle = "Tiny"\nduration_s = 3\nwarmup_s = 1\n[link.access]\nrate_mbit_s = 50\n'
        'delay_ms = 1\n[link.bottleneck]\nrate_mbit_s = 10\ndelay_ms = 5\n[[flows]]\nkind = "tcp"\n'
        '[variants.pfifo]\nqdisc = "pfifo"\n'
    )
    (tmp_path / "all.toml").write_text(
        'title = "Tiny"\nvariants = ["pfifo"]\n[[groups]]\nname = "few"\ntitle = "Few"\nscenarios = ["tiny"]\n'
    )
    (tmp_path / "curves.toml").write_text(CURVES)
    return tmp_path / "curves.toml"


CURVES = """\
title = "Curves"
matrix = "all.toml"
scenarios = ["tiny"]
seeds = 2
[variants.pie]
qdisc = "pie"
kind = "single"
setting = "target_ms"
values = [5, 15]
[variants.tuned]
qdisc = "weir"
kind = "ours"
profile = "tuned"
setting = "target_us"
values = [5000, 15000]
"""


def test_every_discipline_runs_at_its_own_settings(plan):
    labels = list(next(iter(plan.groups)).scenarios[0].cases)
    by_variant = {}
    for label in labels:
        by_variant.setdefault(plan.variant(label), []).append(plan.points[label].setting)
    for variant, values in (("pie", LONG), ("fq_pie", SHORT), ("codel", LONG), ("fq_codel", SHORT)):
        assert by_variant[variant] == [Setting("target_ms", value) for value in values]
    for variant, values in (("paper", SHORT), ("tuned", LONG)):
        assert by_variant[variant] == [Setting("target_us", 1000 * value) for value in values]
    assert by_variant["bands"] == [Setting("target_us", value) for value in (5000, 8000, 15000, 30000)]
    assert {variant: len(by_variant[variant]) for variant in ("red", "cake", "auto")} == dict.fromkeys(
        ("red", "cake", "auto"), 3
    )
    assert {"tuned-5ms", "pie-5ms", "cake-100ms", "auto-15ms"} <= set(labels)
    assert len([s for g in plan.groups for s in g.scenarios]) == 16
    assert len(plan.runs()) == 16 * 52 * 3


def test_all_scenarios_of_the_matrix_can_be_had(plan):
    matrix = [s.name for g in load_plan().groups for s in g.scenarios]
    everything = load_suite("envelope", everything=True)
    assert [s.name for g in everything.groups for s in g.scenarios] == matrix
    small = next(s for g in everything.groups for s in g.scenarios if s.name == "grid-2-10")
    assert "red-2.5ms" not in small.cases  # tc rejects it there
    assert "red-7.5ms" in small.cases
    with pytest.raises(ScenarioError, match="--all: matrix has no part to run alone"):
        load_suite("matrix", everything=True)


def test_a_run_that_the_matrix_has_is_the_same_run(plan):
    keys = Keys()
    mine = {(r.scenario, r.variant): keys.run(r.spec) for r in plan.runs(1)}
    theirs = {(r.scenario, r.variant): keys.run(r.spec) for r in load_plan().runs(1)}
    pairs = {"pie-15ms": "pie", "pie-5ms": "pie-5ms", "fq_pie-15ms": "fq_pie", "codel-5ms": "codel", "red-7.5ms": "red",
             "fq_codel-5ms": "fq_codel", "cake-100ms": "cake", "paper-15ms": "paper", "tuned-15ms": "tuned",
             "auto-15ms": "auto"}  # fmt: skip
    for scenario in ("flows-10", "ecn-10", "steps-capacity"):
        for label, variant in pairs.items():
            assert mine[scenario, label] == theirs[scenario, variant], (scenario, label)


def test_runs_are_chosen_by_discipline_or_setting(plan):
    assert len(plan.chosen(["flows-10/pie"])) == 7 * 3
    assert [run.variant for run in plan.chosen(["flows-10/*-5ms/1"])] == [
        f"{name}-5ms" for name in ("pie", "codel", "fq_pie", "fq_codel", "paper", "tuned", "auto", "bands")
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('scenarios = ["tiny"]', 'scenarios = ["tony"]', "curves.toml:3: scenarios: 'tony' is not in all.toml"),
        ("seeds = 2", "sedes = 2", "curves.toml:4: sedes: unknown key; did you mean seeds?"),
        ('kind = "single"', "", "curves.toml:5: variants.pie.kind: "),
        ('"target_ms"', '"target"', "curves.toml:8: variants.pie.setting: no unit in 'target'; end it in _"),
        ("values = [5, 15]", "values = [5, 5]", "curves.toml:9: variants.pie.values: the same value twice"),
        ("values = [5, 15]", "values = []", "curves.toml:9: variants.pie.values: "),
        ('"target_ms"', '"tarjet_ms"', "variants.pie.tarjet_ms: unknown key; did you mean target_ms?"),
        ('qdisc = "pie"', 'qdisc = "pia"', "curves.toml:6: variants.pie.qdisc: unknown name 'pia'"),
        ('profile = "tuned"', 'profile = "tuna"', "curves.toml:13: variants.tuned.profile: unknown name 'tuna'"),
    ],
)
def test_a_suite_with_a_mistake_is_refused_by_its_line(tiny, old, new, said):
    assert len(load_suite(str(tiny)).runs()) == 8
    tiny.write_text(CURVES.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        load_suite(str(tiny))
    assert said in "\n".join(caught.value.problems)


def test_a_suite_that_is_not_there_is_told():
    with pytest.raises(ScenarioError, match=r"--suite envelop: no such suite; did you mean envelope\?"):
        load_suite("envelop")


def test_a_setting_may_stand_in_a_text_and_lead_other_options(tiny):
    """As a discipline that the lab knows only by its words for tc has it."""
    text = CURVES.replace('setting = "target_ms"', 'setting = "min_ms"\nalso = { max_ms = 3 }', 1)
    tiny.write_text(text.replace('qdisc = "pie"', 'qdisc = "red"', 1))
    red = [run.spec["aqm"] for run in load_suite(str(tiny)).runs(1) if run.variant.startswith("pie")]
    assert [(aqm["min_ms"], aqm["max_ms"]) for aqm in red] == [(5, 15), (15, 45)]
    tiny.write_text(CURVES.replace('profile = "tuned"', 'profile = "tu{target_us}"'))
    with pytest.raises(ScenarioError, match="unknown name 'tu5000'"):
        load_suite(str(tiny))


def test_a_variant_may_be_like_another_but_for_what_it_says(tiny):
    steep = '[variants.steep]\nlike = "tuned"\nkd = 5.0\nvalues = [8000]\n'
    tiny.write_text(CURVES + steep)
    plan = load_suite(str(tiny))
    (like,) = [run.spec["aqm"] for run in plan.runs(1) if run.variant == "steep-8ms"]
    (own,) = [run.spec["aqm"] for run in plan.runs(1) if run.variant == "tuned-5ms"]
    assert like == own | {"kd": 5.0, "target_us": 8000}
    assert plan.kinds["steep"] == "ours"
    for text in (steep.replace("tuned", "tunde", 1), steep + '[variants.more]\nlike = "steep"\n'):
        tiny.write_text(CURVES + text)
        with pytest.raises(ScenarioError) as caught:
            load_suite(str(tiny))
        assert re.search(r"curves.toml:\d+: variants.\w+.like: '\w+': .*tuned", caught.value.problems[0])


def test_the_ideas_of_cao_differ_from_the_gains_beside_them_in_one_thing_each():
    plan = load_suite("ideas")
    at_15ms = {plan.variant(run.variant): run.spec["aqm"] for run in plan.runs(1)
               if run.scenario == "cc-reno" and run.variant.endswith("-15ms")}  # fmt: skip
    assert {"pi", "paper"} < set(at_15ms)
    allowed = [{"kd"}, {"integral_drop_max"}, {"integral"}, {"z1", "z2", "z3"}, {"m1_us", "m2_us"}]
    for name, aqm in at_15ms.items():
        base = at_15ms["paper" if name.startswith("paper") else "pi"]
        changed = {key for key in base | aqm if base.get(key) != aqm.get(key)}
        assert name in ("pi", "paper") or any(changed and changed <= one for one in allowed), (name, changed)


def test_json_has_the_setting_of_each_run(plan, tmp_path):
    for suite, only, variant in ((plan, "flows-10/tuned-5ms/1", "tuned"), (load_plan(), "flows-10/tuned/1", "tuned")):
        state = State(Cache(tmp_path), Keys(), suite.chosen([only]), plan=suite)
        state.finish(state.wanted[0], {"queue_delay_mean_ms": 4.0, "delay_outside_percent": 0.0})
        (run,) = json.loads(json_document(state))["runs"]
        value = run["setting"].pop("value")
        assert value in (5000, 15000)
        assert run["setting"] == {"parameter": "target_us", "unit": "us"}
        assert (run["scenario"], run["variant"], run["seed"]) == ("flows-10", variant, 1)
        assert run["metrics"]["queue_delay_mean_ms"] == 4.0


# Made-up figures, not a measurement of anything: at each target somebody's delay and goodput.
FACTORS = {"pie": 1.0, "codel": 1.5, "tuned": 0.5, "auto": 0.8, "red": 2.0, "fq_codel": 0.4}


def made_up(plan, scenarios=("flows-10", "short-mixed", "bursts-udp", "ecn-10"), seeds=3):
    found = []
    for run in plan.runs(seeds):
        variant = plan.variant(run.variant)
        if run.scenario not in scenarios or variant not in FACTORS:
            continue
        setting = plan.setting(run)
        target_ms = setting.value / (1000 if setting.unit == "us" else 1)
        delay_ms = FACTORS[variant] * target_ms * (1 + run.seed / 100)
        metrics = {
            "queue_delay_mean_ms": delay_ms, "queue_delay_p99_ms": 3 * delay_ms, "jain_index": 0.9,
            "goodput_total_mbit_s": 9.6 * (1 - 0.1 / target_ms), "loss_percent": 4 / target_ms,
            "marks_packets": 7.0, "fct_mean_ms": 300 + delay_ms, "goodput_group_0_mbit_s": 5 - 1 / target_ms,
        }  # fmt: skip
        found.append(RunRow(run.scenario, plan.group_of(run.scenario), variant, run.seed, metrics, setting=setting))
    return found


@pytest.fixture(scope="module")
def envelope(plan):
    text = {}
    for row in made_up(plan):
        text.setdefault(row.group, []).append(row)
    rows = [
        row
        for group, of in text.items()
        for row in rows_of_text(text_of(of, head_of(plan)), group, plan, f"{group}.csv")
    ]
    return analyse(rows, plan.kinds)


def test_conclusions_of_known_figures(envelope):
    """tuned has half of pie's delays at the same goodputs, auto 0.8 of them; everybody else has more, or flows of their
    own."""
    for scenario in envelope.scenarios:
        best = envelope.best_peer("tuned", scenario.name)
        assert (best.peer, best.p99.ratio) == ("pie", pytest.approx(0.5, rel=1e-4))
        assert best.p99.low == pytest.approx(0.5, rel=1e-3)
        assert best.mean.ratio == pytest.approx(0.5, rel=1e-4)
        assert best.loss.ratio == pytest.approx(1, rel=1e-4)
        assert best.jain == pytest.approx(0)
        assert best.goodput.ratio > 1
        (codel,) = envelope.compared("tuned", scenario.name, ["codel"])
        assert codel.areas["mean"].ratio == pytest.approx(1 / 3, rel=1e-4)
        assert ("short" in best.areas) == (scenario.name == "short-mixed")
    claims = {(c.ours, c.text.split(":")[0][:30]): c for c in envelope.claims}
    assert claims["tuned", "at equal goodput p99 at most 0"].reached
    assert claims["tuned", "at equal goodput p99 at most 0"].shown == 4
    assert claims["tuned", "steps and bursts"].reached in (True, False)
    assert claims["auto", "p99 at most 1.05 of tuned's at"].reached is False


def test_the_report_has_each_claim_and_every_scenario(envelope):
    text = markdown.render(report_of(envelope, [Paragraph(Prose("**Incomplete**: a note."))]))
    assert "**Incomplete**: a note." in text
    for row in claim_rows(envelope):
        assert f"| {' | '.join(row)} |" in text
    for scenario in envelope.scenarios:
        assert f"### {scenario.name}: " in text
        heads = next(x for x in text.split(f"### {scenario.name}: ")[1].splitlines() if x.startswith("| "))
        for word in ("mean delay", "p99", "goodput", "lost", "marks", "Jain", "short transfers"):
            assert word in heads
    assert len(peer_rows(envelope, "tuned")) == 4
    pies = [row[:2] for row in figure_rows(envelope.scenarios[0], few=True) if row[0] == "pie"]
    assert pies == [["pie", "5 ms"], ["pie", "15 ms"]]
    assert all(len(re.findall(r"(?<!\\)\|", line)) > 2 for line in text.splitlines() if line.startswith("|"))


@pytest.mark.pictures
def test_the_page_is_whole_and_needs_nothing_else(envelope):
    made = suite_report(envelope).files()
    assert set(made) == {"envelope.html", "envelope.png", "report.md"}
    page = made["envelope.html"]
    page_outline.whole(page)
    for scenario in envelope.scenarios:
        assert f'id="planes-{scenario.name}-title"' in page
    assert suite_report(envelope).files() == made


def test_the_order_of_rows_changes_nothing_and_a_run_counts_once(plan, envelope):
    rows = [row for scenario in envelope.scenarios for row in scenario.rows]
    again = analyse(sorted(rows, key=lambda r: (r.scenario, r.seed, -FACTORS[r.variant])), plan.kinds)
    for scenario in envelope.scenarios:
        one, other = (e.best_peer("auto", scenario.name) for e in (envelope, again))
        assert one.p99.ratio == pytest.approx(other.p99.ratio)
    with pytest.raises(ValueError, match="is there twice"):
        analyse([*rows, rows[0]], plan.kinds)


def test_figures_that_a_run_lacks_leave_its_setting_out(plan):
    rows = made_up(plan, ("flows-10",))
    without = [
        dataclasses.replace(row, metrics={**row.metrics, "queue_delay_p99_ms": None})
        if (row.variant, row.setting, row.seed) == ("pie", Setting("target_ms", 5), 2)
        else row
        for row in rows
    ]
    (scenario,) = analyse(without, plan.kinds).scenarios
    assert "5 ms" not in [at.name for at in scenario.curves["p99"]["pie"].points]
    assert "5 ms" in [at.name for at in scenario.curves["mean"]["pie"].points]


def test_tables_say_variant_and_setting_and_can_be_read_again(plan, tmp_path):
    rows = made_up(plan, ("flows-10",), seeds=1)
    text = text_of(rows, head_of(plan))
    assert text.splitlines()[0].startswith("scenario,variant,setting,seed,goodput_total_mbit_s")
    assert any(line.startswith("flows-10,tuned,target_us=5000,1,") for line in text.splitlines())
    (tmp_path / "flows.csv").write_text(text)
    (batch,) = batches_in(tmp_path, plan)
    assert text_of(batch.rows, head_of(plan)) == text
    for old, new, said in (
        ("target_us=5000", "target_us=5001", "no run flows-10/auto/target_us=5001 in group flows"),
        (",tuned,target_us=2000", ",tuned,target_us=3000", "flows-10/tuned/target_us=3000/1 is there twice"),
        ("variant,setting", "setting,variant", "the columns are not scenario, variant, setting, seed"),
    ):
        with pytest.raises(ResultsError, match=re.escape(said)):
            rows_of_text(text.replace(old, new, 1), "flows", plan, "flows.csv")


@pytest.mark.pictures
def test_part_of_an_envelope_has_a_report_that_can_be_made_again(plan, tmp_path, capsys):
    only = ["flows-10/pie-5ms/1", "flows-10/tuned-5ms", "flows-10/tuned-15ms/1"]
    state = State(Cache(tmp_path / "cache"), Keys(), plan.chosen(only), plan=plan)
    for run in state.wanted:
        figures = {"queue_delay_mean_ms": 4.0, "queue_delay_p99_ms": 9.0, "goodput_total_mbit_s": 9.0 + run.seed / 10}
        state.finish(run, {**figures, "delay_outside_percent": 0.0})
    out = tmp_path / "out"
    args = cli.parser().parse_args(["evaluate", "--suite", "envelope", "--out", str(out)])
    report(state, args)
    made = ["envelope.html", "envelope.png", "flows.csv", "made.json", "report.md"]
    assert sorted(path.name for path in out.iterdir()) == made
    text = (out / "report.md").read_text()
    assert "**Incomplete**: 2491 of 2496 runs of the envelope are missing: 144 of red, 335 of pie" in text
    assert str(out / "envelope.html") in capsys.readouterr().out
    words = ["evaluate", "--suite", "envelope", "--from", str(out), "--out", str(tmp_path / "again")]
    assert cli.main(words) == 0
    for name in ("report.md", "envelope.html", "envelope.png"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


def test_a_small_envelope_runs_in_the_lab(tiny, exact):
    """From nothing to the page; then again from the cache, with nothing run."""
    words = [sys.executable, "-m", "weirlab.cli", "evaluate", "--suite", str(tiny), "--seeds", "1", "--json", "--cache",
             str(tiny.parent / "cache"), "--out", str(tiny.parent / "out")]  # fmt: skip
    environment = {"PYTHONPATH": paths.import_path(), "PATH": "/usr/bin:/bin", "HOME": str(paths.Path.home())}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [(run["variant"], run["setting"]["value"]) for run in runs] == [
        ("pie", 5), ("pie", 15), ("tuned", 5000), ("tuned", 15000)
    ]  # fmt: skip
    assert (tiny.parent / "out" / "envelope.html").is_file()
    again = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert "runs of" not in again.stderr


def test_the_front_page_has_the_figures_of_the_report():
    def rows(text):
        cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|")
        return {row[0]: row[1:] for row in cells}

    report, readme = (
        (paths.clone() / name).read_text(encoding="utf-8") for name in ("docs/results/envelope/report.md", "README.md")
    )
    whole = rows(report.split("### `bands` beside each discipline")[1].split("\n#")[0])
    shown = {label: row for label, row in rows(readme).items() if " at equal goodput over " in label}
    columns = {"queue delay p99 of all packets": "p99", "packets lost": "loss"}
    assert {label.split(" at equal")[0] for label in shown} == set(columns)
    for label, row in shown.items():
        measure, peers = label.removesuffix(" (2)").split(" at equal goodput over ")
        column = whole[""].index(columns[measure])
        assert row[0].split(", ") == [whole[peer][column].split()[0] for peer in peers.split(", ")]
