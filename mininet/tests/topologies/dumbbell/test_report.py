# SPDX-License-Identifier: Apache-2.0
import io
import re

import generated_samples
import pytest
from page_layout import assert_fits
from page_outline import Outline
from rich.console import Console

from weirlab import paths
from weirlab.report.labels import Variant
from weirlab.report.plots import STAND_INS
from weirlab.run.page import print_table, write_html
from weirlab.run.runner import finish
from weirlab.run.scenarios import load_scenario
from weirlab.store.folder import ResultsFolder, RunResult, summarise
from weirlab.topologies.dumbbell.report.plots import delay_goodput_plane

pytestmark = pytest.mark.pictures

SCENARIOS = paths.scenarios()


AT = {"device": "bpf", "port": "bn", "hop": "bottleneck"}
START_US = generated_samples.T0_US
DECISIONS = [
    {"k": "decision", "t_us": START_US + 2_500_000, **AT, "action": "trial", "reason": "it <swings>",
     "changed": {"kp": [48.0, 24.0], "integral": ["keep", "drop"]}},
    {"k": "effect", "t_us": START_US + 12_500_000, **AT, "of_t_us": START_US + 2_500_000, "verdict": "kept",
     "before": {"delay_mean_ms": 15.125, "utilisation": None}, "after": {"delay_mean_ms": 12.5, "utilisation": 0.99}},
    *({"k": "decision", "t_us": START_US + n * 1_000_000, **AT, "action": "keep", "reason": "all is well",
       "changed": {}} for n in range(20, 28)),
]  # fmt: skip


def filled(root, name="pid-delay-table2", outside_ms=0.01, seeds=2, only=None):
    scenario = load_scenario(SCENARIOS / f"{name}.toml")
    runs = scenario.runs(seeds=seeds, only=only)
    folder = ResultsFolder.create(root, scenario, ["./run", "experiment", name], runs)
    for run in runs:
        records = generated_samples.lines(run.spec, 800, outside_ms)
        generated_samples.write(folder.run_folder(run) / "samples.jsonl", records)
        if run.spec["aqm"].get("tune"):
            generated_samples.write(folder.run_folder(run) / "decisions.jsonl", DECISIONS)
        finish(folder, run)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(folder):
    return write_html(folder).read_text(encoding="utf-8")


def printed(folder, width=120):
    text = io.StringIO()
    print_table(folder, summarise(folder), Console(file=text, width=width))
    return text.getvalue()


def cells_of(page, head):
    """Cells of the row with this head."""
    (row,) = re.findall(rf'<tr><th scope="row">{re.escape(head)}</th>(.*?)</tr>', page)
    return re.findall(r"<td[^>]*>(.*?)</td>", row)


def test_the_table_has_every_variant_its_spread_and_the_papers_figure(folder):
    text = printed(folder)
    for word in ("pfifo", "pie", "paper", "tuned", "Jain", "median", "p99", "excess", "round-trip", "lost"):
        assert word in text
    assert re.search(r"total, Mbit/s +(\d+\.\d{3} ± \d+\.\d{3} *){6}\n", text)
    for figure in ("400", "397.9", "699.4", "4.14", "0.62", "7.25", "2.75", "301.9", "206.5", "196.8"):
        assert f"Cao et al. {figure}" in text
    assert "14 of 14 runs passed" in text


def test_the_p4_switch_stands_beside_ebpf(folder, page):
    assert re.search(r"over the same law as eBPF +p4-paper +p4-tuned", printed(folder))
    assert "<h2>The P4 switch beside eBPF</h2>" in page
    assert "PID law in p4/pid_delay.p4 on weir-switch, profile tuned: " in page


def test_what_the_tuner_did_is_told_with_its_reason(folder, page):
    text = printed(folder)
    arrow = "\N{RIGHTWARDS ARROW}"
    assert len(re.findall("^.*: auto, seed 1$", text, re.MULTILINE)) == 1
    assert re.search(rf"\n 2\.5 +trial +it <swings> +kp 48 {arrow} 24, integral keep {arrow} drop *\n", text)
    assert re.search(rf"\n 12\.5 +kept .* delay_mean_ms 15\.12 {arrow} 12\.5 *\n", text)
    assert text.count(" all is well ") == 6
    assert "  and 2 more, in the report\n" in text
    assert len(re.findall("<h2>[^<]*: auto, seed 1</h2>", page)) == 1
    assert cells_of(page, "2.5") == ["trial", "it &lt;swings&gt;", f"kp 48 {arrow} 24, integral keep {arrow} drop"]
    assert page.count(">all is well</td>") == 8
    assert "PID law as tc eBPF, profile tuned, the tuner running beside it and starting from: " in page


def test_a_narrow_terminal_gets_several_tables(folder, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")  # a dumb one counts as 80 columns wide, whatever is asked for
    text = io.StringIO()
    print_table(folder, summarise(folder), Console(file=text, width=60, force_terminal=True, color_system=None))
    assert text.getvalue().count("  median, ms") == 7


def test_results_come_before_what_was_set(page):
    folded = re.search(r"<details><summary>Settings: .*?</details>", page, re.DOTALL)
    assert page.index("<h2>Figures</h2>") < folded.start() < page.index("<h2>Queue delay over time</h2>")
    for words in ("kp 20", "bottleneck, shared by all: ", "PID law as tc eBPF, profile paper"):
        assert words in folded[0]
        assert words not in page.replace(folded[0], "")
    assert page.index("<h2>Figures</h2>") < page.index("<h2>Checks</h2>")


def test_a_check_that_failed_is_told_before_any_figure(tmp_path):
    page = write_html(filled(tmp_path, outside_ms=9, seeds=1, only=["pie"])).read_text(encoding="utf-8")
    assert page.index('<li class="bad">RUN FAILED') < page.index("<h2>Figures</h2>")


@pytest.mark.parametrize("only", [["pie", "tuned"], None])
def test_with_many_variants_the_interval_stands_under_its_mean(tmp_path, page, only):
    """So that seven columns fit on a page of 1200 pixels."""
    if only is not None:
        page = write_html(filled(tmp_path, seeds=2, only=only)).read_text(encoding="utf-8")
    table = page.split("<h2>Figures</h2>")[1].split("</table>")[0]
    assert ('class="many"' in table, 'class="even"' in table) == (only is None, only is not None)
    assert ".many .pm { display: block;" in page


@pytest.mark.parametrize(
    "goodputs", [(9.28, 9.296), (9.28, 9.28), (9.2801, 9.2802, 9.2803), (0.5, 9.3), (0.0, 0.0), (190.9, 191.0)]
)
def test_small_differences_of_goodput_look_small(goodputs):
    """0.17 % over a whole axis looked like a gulf, its ends labelled alike."""
    metrics = [{"queue_delay_mean_ms": 11.0 + n / 50, "goodput_total_mbit_s": g} for n, g in enumerate(goodputs)]
    variants = [
        Variant(f"v{n}", {}, {1: RunResult("s", f"v{n}", 1, found, ())}, {}, "pie", "solid", "o")
        for n, found in enumerate(metrics)
    ]
    figure = delay_goodput_plane(variants, {})
    figure.canvas.draw()
    (ax,) = figure.axes
    low, high = ax.get_ylim()
    assert 0 <= low <= min(goodputs)
    assert high >= max(goodputs)
    assert high - low >= 0.0499 * max(goodputs)
    left, right = ax.get_xlim()
    assert right / left >= 5
    for axis, (first, last) in ((ax.xaxis, (left, right)), (ax.yaxis, (low, high))):
        shown = [text for text in axis.get_ticklabels() if text.get_text()]
        places = [text.get_position()[0 if axis is ax.xaxis else 1] for text in shown]
        labels = [text.get_text() for text, at in zip(shown, places, strict=True) if first <= at <= last]
        assert len(labels) >= 2
        assert len(set(labels)) == len(labels)
        assert axis.get_offset_text().get_text() == ""


def test_a_page_fits_narrow_and_zoomed_windows(page):
    assert_fits(page)


def test_the_page_is_whole_and_needs_nothing_else(page):
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.fetched == []
    assert not re.search(r"@import|url\((?!#)|<script|<link", page)
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.references <= set(outline.ids)
    assert outline.tags.count("svg") == 5
    assert not any(stand_in in page for stand_in in STAND_INS.values())
    for word in ("./run experiment pid-delay-table2", "prefers-color-scheme: dark", "699.4", "14 of 14 runs passed"):
        assert word in page


def test_the_same_results_give_the_same_page(folder):
    first = write_html(folder).read_bytes()
    assert write_html(folder).read_bytes() == first
    assert str(folder.path).encode() not in first


def test_a_failed_run_is_not_passed_over(tmp_path):
    folder = filled(tmp_path, outside_ms=5.0, seeds=1, only=["tuned"])
    assert "FAILED: tuned, seed 1" in printed(folder)
    text = write_html(folder).read_text(encoding="utf-8")
    assert '<li class="bad">RUN FAILED: tuned, seed 1' in text
    assert "0 of 1 run passed" in text


def test_a_missing_run_is_told_and_one_seed_has_no_spread(tmp_path):
    folder = filled(tmp_path, only=["pie", "tuned"])
    (folder.run_path("tuned", 2) / "summary.json").unlink()
    assert "MISSING: tuned, seed 2" in printed(folder)
    assert '<li class="bad">MISSING: tuned, seed 2' in write_html(folder).read_text(encoding="utf-8")


def test_seeds_that_change_nothing_are_told(tmp_path):
    folder = filled(tmp_path, only=["pie", "tuned"])
    same = (folder.run_path("pie", 1) / "samples.jsonl").read_bytes()
    (folder.run_path("pie", 2) / "samples.jsonl").write_bytes(same)
    finish(folder, load_scenario(SCENARIOS / "pid-delay-table2.toml").runs(only="pie", seeds=[2])[0])
    text = printed(folder)
    assert "NOTE: pie: every seed gave the same figures" in text
    assert "NOTE: tuned" not in text


def test_an_empty_folder_says_so(tmp_path):
    scenario = load_scenario(SCENARIOS / "load-udp15.toml")
    folder = ResultsFolder.create(tmp_path, scenario, ["x"], scenario.runs(seeds=1, only="pie"))
    assert "MISSING: pie, seed 1" in printed(folder)
    assert "MISSING: pie, seed 1" in write_html(folder).read_text(encoding="utf-8")


def test_other_loads_have_reports_too(tmp_path):
    text = write_html(filled(tmp_path, "load-udp15", seeds=1)).read_text(encoding="utf-8")
    assert "1 UDP flow, unresponsive, 15 Mbit/s each" in text
    assert "2 TCP transfers, cubic" in text
