# SPDX-License-Identifier: Apache-2.0
"""The evaluation: what its files say, which runs are wanted, what a run's key depends on, and that nothing is lost."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from copied_sources import CopiedSources

from weirlab import cli, paths
from weirlab.evaluation.command import report, seeds_of
from weirlab.evaluation.plan import load_plan
from weirlab.evaluation.report import is_whole
from weirlab.evaluation.state import Done, State
from weirlab.evaluation.tables import text_of
from weirlab.run import keys as evaluate_keys
from weirlab.run.costs import Costs
from weirlab.run.keys import Keys
from weirlab.run.progress import duration
from weirlab.run.scenarios import load_scenario, read_scenarios
from weirlab.scenario.errors import ScenarioError
from weirlab.store.cache import Cache, Kept, seal
from weirlab.topologies.dumbbell.metrics import failures

REPO = paths.clone()

FOLDER = REPO / "mininet" / "evaluation"


COMMON = ["pfifo", "red", "pie", "pie-5ms", "codel", "fq_pie", "fq_codel", "cake", "paper", "tuned", "auto"]
P4 = ["p4-paper", "p4-tuned", "p4-auto"]
TINY = """\
[scenario]
name = "NAME"
title = "Tiny"
duration_s = 3
warmup_s = 1
seeds = 2
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 5
[[flows]]
kind = "tcp"
[variants.pfifo]
qdisc = "pfifo"
[variants.pie]
qdisc = "pie"
"""
TINY_MATRIX = (
    'title = "Tiny"\nvariants = ["pfifo", "pie"]\n[[groups]]\nname = "few"\ntitle = "Few"\nscenarios = ["tiny"]\n'
)


@pytest.fixture(scope="module")
def plan():
    return load_plan()


@pytest.fixture
def tiny(tmp_path):
    """A matrix of one small scenario; its path."""
    (tmp_path / "tiny.toml").write_text(TINY.replace("NAME", "tiny"))
    (tmp_path / "matrix.toml").write_text(TINY_MATRIX)
    return tmp_path / "matrix.toml"


@pytest.fixture(autouse=True)
def python_path(monkeypatch):
    """Programs started here find our packages, as ./run has them do."""
    monkeypatch.setenv("PYTHONPATH", paths.import_path())


def specs(plan):
    return {(run.scenario, run.variant): run.spec for run in plan.runs() if run.seed == 1}


def test_the_matrix_is_what_was_asked_for(plan):
    names = {group.name: [scenario.name for scenario in group.scenarios] for group in plan.groups}
    assert list(names) == [
        "table2", "flows", "grid", "cc", "fairness", "unresponsive", "short", "steps", "long", "bursts", "ecn",
        "both-ways",
    ]  # fmt: skip
    assert names["flows"] == [f"flows-{n}" for n in (1, 2, 5, 10, 20, 50, 100)]
    assert names["grid"] == [f"grid-{rate}-{rtt}" for rate in (2, 10, 50, 200) for rtt in (10, 20, 80, 160)]
    for group in plan.groups:
        for scenario in group.scenarios:
            labels = list(scenario.cases)
            if group.name == "long":
                assert (sorted(labels), scenario.seeds) == (["auto", "pie", "pie-5ms", "tuned"], (1, 2))
                continue
            if group.name == "both-ways":
                assert sorted(labels) == ["cake", "fq_codel", "pie", "tuned", "tuned-fq_codel"]
                assert scenario.seeds == (1, 2, 3)
                continue
            assert sorted(set(COMMON) - set(labels)) == []
            extra = sorted(set(labels) - set(COMMON) - set(P4))
            assert extra == (["auto-half", "tuned-half"] if group.name == "flows" else [])
            assert scenario.seeds == tuple(range(1, 11 if group.name == "table2" else 4))
            assert set(P4) <= set(labels) or group.name != "table2"


def test_links_are_as_their_names_say_and_wait_nowhere_else(plan):
    for (scenario, _), spec in specs(plan).items():
        access, bottleneck = spec["link"]["access"], spec["link"]["bottleneck"]
        rtt_ms = 2 * (access["delay_ms"] + bottleneck["delay_ms"])
        assert access["rate_mbit_s"] >= 5 * bottleneck["rate_mbit_s"], scenario
        bdp_packets = bottleneck["rate_mbit_s"] * 1000 * rtt_ms / 8 / 1440
        changes = [change["rate_mbit_s"] for change in spec.get("changes", ()) if change.get("rate_mbit_s")]
        slowest_mbit_s = min([bottleneck["rate_mbit_s"], *changes])
        longest_packets = 3 * slowest_mbit_s * 1e6 / 8 / 1454  # the sampler takes for lost what stays longer than 3 s
        limit_packets = bottleneck["queue_limit_packets"]
        assert max(400 if slowest_mbit_s <= 2 else 1000, bdp_packets) <= limit_packets < longest_packets, scenario
        kind, *rest = scenario.split("-")
        if kind == "grid":
            assert [bottleneck["rate_mbit_s"], rtt_ms] == list(map(int, rest))
        if kind == "flows":
            assert [sum(flow["count"] for flow in spec["flows"])] == list(map(int, rest))
        if kind == "fairness":
            assert [rtt_ms + flow["extra_rtt_ms"] for flow in spec["flows"]] == [20, 80, 160]


def test_disciplines_are_the_same_in_all_scenarios_and_at_one_target(plan):
    plain = {label: specs(plan)["flows-10", label]["aqm"] for label in COMMON}
    assert plain["pie"]["target_ms"] == plain["pie"]["tupdate_ms"] == 15
    assert plain["pie-5ms"] == {**plain["pie"], "target_ms": 5}
    assert plain["red"]["min_ms"] + plain["red"]["max_ms"] == 30
    assert {plain[label]["target_us"] for label in ("paper", "tuned", "auto")} == {15000}
    assert plain["auto"] == {**plain["tuned"], "tune": True}
    for (scenario, label), spec in specs(plan).items():
        aqm = spec["aqm"]
        if label in COMMON:
            ecn = {"ecn": True} if scenario.startswith("ecn-") and "ecn" in aqm else {}
            assert aqm == {**plain[label], **ecn}, scenario
        elif label.endswith("-half"):
            assert aqm == {**plain[label.removesuffix("-half")], "target_us": 7500}
        elif label == "tuned-fq_codel":
            assert aqm == plain["tuned"]
        else:
            ours = plain[label.removeprefix("p4-")]
            assert {key: aqm[key] for key in ours} == {**ours, "qdisc": "p4"}


def test_runs_are_ordered_by_seed_then_group(plan):
    runs = plan.runs()
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert runs[0].scenario == "table2-cubic"
    assert [run.seed for run in plan.runs(seeds=2)] == [1] * (len(plan.runs(1))) + [2] * len(plan.runs(1))
    assert len({(run.scenario, run.variant, run.seed) for run in runs}) == len(runs)


def test_patterns_choose_by_scenario_or_group_variant_and_seed(plan):
    def chosen(*patterns):
        return {(run.scenario, run.variant, run.seed) for run in plan.chosen(patterns)}

    assert {scenario for scenario, _, _ in chosen("grid-2-*")} == {f"grid-2-{rtt}" for rtt in (10, 20, 80, 160)}
    assert chosen("grid") == chosen("grid-*") == {run for run in chosen("*") if run[0].startswith("grid-")}
    assert chosen("flows-1/auto*/2") == {("flows-1", "auto", 2), ("flows-1", "auto-half", 2)}
    assert chosen("*/pie") | chosen("table2/cake") == chosen("*/pie", "table2/cake")
    assert len(chosen("table2/pie")) == 20


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("gird-2-10/pie", "no scenario or group matches 'gird-2-10'; did you mean grid-2-10?"),
        ("grid/pi", "no variant matches 'pi'; did you mean pie?"),
        ("grid/pie/12", "no seed matches '12'; there are 1, 2, 3, "),
        ("grid/p4-tuned", "these do not occur together"),
        ("a/b/c/d", "not a pattern; write SCENARIO, SCENARIO/VARIANT or"),
        ("", "not a pattern; write SCENARIO"),
    ],
)
def test_a_pattern_that_matches_nothing_is_explained(plan, pattern, said):
    with pytest.raises(ScenarioError) as caught:
        plan.chosen(["*/pie", pattern])
    assert len(caught.value.problems) == 1
    assert said in caught.value.problems[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"tiny"]', '"tinny"]', "no file tinny.toml for scenario 'tinny'; did you mean tiny?"),
        ('"tiny"]', '"tiny", "tiny"]', "scenario 'tiny' is listed twice; leave it in one group"),
        ('"pie"]', '"pie", "cake"]', "variants: cake missing, which matrix.toml says every scenario has"),
        ('title = "Few"', "", "groups.0.title: missing; a matrix has title, variants"),
        ('name = "few"', 'nome = "few"', "groups.0.nome: unknown key; a matrix has"),
        ("title =", "title", "not TOML: "),
    ],
)
def test_a_matrix_with_a_mistake_is_refused(tiny, old, new, said):
    tiny.write_text(TINY_MATRIX.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        load_plan(tiny)
    assert said in "\n".join(caught.value.problems)


def test_a_scenario_in_no_group_or_by_another_name_is_refused(tiny):
    (tiny.parent / "idle.toml").write_text(TINY.replace("NAME", "idle"))
    (tiny.parent / "tiny.toml").write_text(TINY.replace("NAME", "other"))
    with pytest.raises(ScenarioError) as caught:
        load_plan(tiny)
    told = "\n".join(caught.value.problems)
    assert "idle.toml is beside it, but in no group; list it, or remove the file" in told
    assert "tiny.toml: scenario.name: 'other' is not the file's name; write name = 'tiny'" in told


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    return CopiedSources(REPO, tmp_path_factory.mktemp("sources"))


@pytest.fixture
def copy(copied, monkeypatch):
    """A copy of the sources that keys are made of, to be changed at will."""
    monkeypatch.setattr(paths, "clone", lambda: copied.folder)
    monkeypatch.setattr(evaluate_keys, "lab_kernel", lambda: "kernel")
    yield copied.folder
    copied.put_back()


EBPF = {"paper", "tuned", "auto"}


@pytest.mark.parametrize(
    ("file", "of_flows", "of_table2"),
    [
        ("controller/weir/tuner/core.py", {"auto", "p4-auto"}, {"auto", "p4-auto"}),
        ("controller/weir/dataplane/bpf.py", {"auto", "p4-auto"}, {"auto", "p4-auto"}),
        ("controller/weir/rtt/tracker.py", {"auto", "p4-auto"}, {"auto", "p4-auto"}),
        ("controller/weir/switch/deploy.py", {"p4-tuned", "p4-auto"}, set(P4)),
        ("p4/include/law.p4", {"p4-tuned", "p4-auto"}, set(P4)),
        ("p4/switch/weir-p4/src/lib.rs", {"p4-tuned", "p4-auto"}, set(P4)),
        ("xdp/include/weir/law.h", EBPF, EBPF),
        ("xdp/tools/weir-sojourn/samples.c", {"*"}, {"*"}),
        ("mininet/weirlab/topologies/dumbbell/drive.py", {"*"}, {"*"}),
        ("mininet/tools/weir-traffic.c", {"*"}, set()),
        ("quic-client/core/src/connection/mod.rs", set(), {"*"}),
        ("quic-client/core/tests/it/windows.rs", set(), set()),
        ("quic-client/fuzz/Cargo.toml", set(), set()),
        ("icn/src/lib.rs", set(), set()),
        ("mininet/weirlab/topologies/dumbbell/metrics.py", set(), set()),
        ("mininet/weirlab/scenario/load.py", set(), set()),
        ("controller/README.md", set(), set()),
    ],
)
def test_a_changed_source_asks_for_the_runs_that_it_takes_part_in(plan, copy, file, of_flows, of_table2):
    known = specs(plan)
    before, after = evaluate_keys.Keys(), evaluate_keys.Keys()
    kept = {name: before.run(spec) for name, spec in known.items()}
    assert len(set(kept.values())) == len(kept)
    (copy / file).parent.mkdir(parents=True, exist_ok=True)
    with open(copy / file, "a") as source:
        source.write("pass\n")
    changed = {name for name, spec in known.items() if after.run(spec) != kept[name]}
    for scenario, wanted in (("flows-10", of_flows), ("table2-cubic", of_table2)):
        labels = {label for name, label in known if name == scenario}
        extra = {f"{label}-half" for label in wanted} & labels
        assert {label for name, label in changed if name == scenario} == (labels if "*" in wanted else wanted | extra)


def test_figures_have_a_key_of_their_own(plan, copy):
    spec = specs(plan)["flows-10", "pie"]
    keys = evaluate_keys.Keys()
    later = {**spec, "warmup_s": 5.0, "scenario": "another"}
    assert keys.run(later) == keys.run(spec)
    assert keys.metrics(later) != keys.metrics(spec)
    assert keys.run({**spec, "seed": 2}) != keys.run(spec)
    with open(copy / "mininet/weirlab/topologies/dumbbell/metrics.py", "a") as source:
        source.write("pass\n")
    assert evaluate_keys.Keys().metrics(spec) != keys.metrics(spec)


def test_a_dead_process_leaves_no_draft_and_a_live_ones_stays(tmp_path):
    cache = Cache(tmp_path)
    (tmp_path / "drafts" / "dead").mkdir()
    (tmp_path / "drafts" / "dead" / "spec.json").write_text("{}")
    with cache.draft() as draft:
        (draft / "spec.json").write_text("{}")
        (draft / "log-01-watch.txt").write_text("hello")
        Cache(tmp_path)
        assert [path.name for path in (tmp_path / "drafts").iterdir()] == [draft.name]
        (draft / "samples.jsonl.gz").write_bytes(b"samples")
        entry = cache.keep(seal(draft, "ab" * 32, {"wall_s": 2.5}, Kept()), "ab" * 32)
    assert list((tmp_path / "drafts").iterdir()) == []
    assert sorted(path.name for path in entry.folder.iterdir()) == ["run.json", "samples.jsonl.gz", "spec.json"]
    found = cache.find("ab" * 32)
    assert found == entry
    assert found.wall_s == 2.5
    with cache.draft() as draft:  # another process had the same run under way
        (draft / "spec.json").write_text("{}")
        (draft / "samples.jsonl.gz").write_bytes(b"others")
        assert cache.keep(seal(draft, "ab" * 32, {"wall_s": 9}, Kept()), "ab" * 32) == entry
    assert entry.wall_s == 2.5
    assert entry.metrics("0" * 64) is None
    entry.put_metrics("0" * 64, {"x": 1})
    assert entry.metrics("0" * 64) == {"x": 1}


def test_time_left_is_learnt_from_the_closest_relative(tiny):
    first, second = load_plan(tiny).runs(seeds=1)
    costs = Costs()
    at_first_s = costs.expected_s(second)
    costs.learn(first, 2 * costs.at_first_s(first))
    assert costs.expected_s(second) == pytest.approx(2 * at_first_s)
    costs.learn(second, 5 * at_first_s)
    assert costs.expected_s(second) == pytest.approx(5 * at_first_s)
    assert [duration(s) for s in (59, 200, 7380)] == ["59 s", "3 min", "2 h 03 min"]


def test_the_small_tables_hold_one_line_a_run(tiny):
    first, second = load_plan(tiny).runs(seeds=1)
    steps = {f"step_{n}_settling_s": n / 4 for n in (10, 9)}
    rows = [
        Done(second, "few", "pie", None, {"goodput_total_mbit_s": 9.5, "other": 1, "loss_percent": None, **steps}).row,
        Done(first, "few", "pfifo", None, {"goodput_total_mbit_s": 123456.789, "loss_percent": None}).row,
    ]
    assert text_of(rows).splitlines() == [
        "scenario,variant,seed,goodput_total_mbit_s,step_9_settling_s,step_10_settling_s",
        "tiny,pfifo,1,123457,,",
        "tiny,pie,1,9.5,2.25,2.5",
    ]


def test_only_the_whole_matrix_goes_to_docs(plan):
    def whole(*words, of=plan):
        return is_whole(of, cli.parser().parse_args(["evaluate", *words]))

    assert [whole(), whole("--seeds", "10"), whole("--seeds", "12")] == [True, True, True]
    assert [whole("--seeds", "9"), whole(of=replace(plan, path=Path("other.toml")))] == [False, False]
    assert not whole("--seeds", "10", "--seeds-from", "101")


def test_a_run_that_fails_its_checks_counts_nowhere_and_is_told(tiny, tmp_path, capsys):
    found = load_plan(tiny)
    state = State(Cache(tmp_path / "cache"), Keys(), found.runs(), plan=found)
    figures = {"queue_delay_mean_ms": 15.0, "goodput_total_mbit_s": 9.5, "delay_outside_percent": 0.0}
    for run in found.runs():
        unmeasured = 48.0 if (run.variant, run.seed) == ("pfifo", 2) else 0.0
        state.finish(run, figures | {"unmeasured_percent": unmeasured})
    args = cli.parser().parse_args(["evaluate", "--suite", str(tiny), "--out", str(tmp_path / "out")])
    report(state, args)
    text = (tmp_path / "out" / "report.md").read_text()
    assert "- tiny/pfifo/2: 48.00 % of the packets at the bottleneck were not measured" in text
    assert text.index("**Left out**: 1 of 4 runs") < text.index("\n## ")
    lines = (tmp_path / "out" / "few.csv").read_text().splitlines()[1:]
    assert [line.split(",")[:3] for line in lines] == [
        ["tiny", "pfifo", "1"],
        ["tiny", "pie", "1"],
        ["tiny", "pie", "2"],
    ]
    assert "3 runs" in text
    assert state.failed == ["tiny/pfifo/2: " + failures({**figures, "unmeasured_percent": 48.0})[0]]
    assert "1 of 4 runs failed their checks" in capsys.readouterr().out


def test_seeds_can_be_others_than_the_first(plan):
    def seeds(*words):
        return seeds_of(cli.parser().parse_args(["evaluate", *words]))

    chosen = plan.chosen(["flows-1/auto"], seeds("--seeds", "2", "--seeds-from", "101"))
    assert [(run.seed, run.spec["seed"]) for run in chosen] == [(101, 101), (102, 102)]
    assert seeds() is None
    with pytest.raises(ScenarioError, match="--seeds-from 5: give --seeds"):
        seeds("--seeds-from", "5")


def command(tiny, *words):
    cache, out = tiny.parent / "cache", tiny.parent / "out"
    return [
        sys.executable, "-m", "weirlab.cli", "evaluate", "--suite", str(tiny), "--cache", str(cache),
        "--out", str(out), "--jobs", "1", *words,
    ]  # fmt: skip


def test_bad_options_are_told_before_anything_is_done(tiny):
    for words, said in ((["--only", "tony"], "no scenario or group matches 'tony'"), (["--seeds", "0"], "too small")):
        done = subprocess.run(command(tiny, *words), capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    done = subprocess.run(command(tiny.with_name("no.toml")), capture_output=True, text=True, check=False)
    assert (
        done.returncode,
        done.stderr.endswith("no.toml: no such file; give a suite, as mininet/evaluation/matrix.toml\n"),
    ) == (2, True)
    assert not (tiny.parent / "cache").exists()


def test_killed_at_any_moment_it_goes_on_where_it_was(tiny, exact):
    runs = tiny.parent / "cache" / "runs"
    with subprocess.Popen(command(tiny), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as killed:
        try:
            while not list(runs.glob("*/*")) and killed.poll() is None:
                time.sleep(0.05)  # for the first run to end
            while not list((tiny.parent / "cache" / "drafts").glob("*/spec.json")) and killed.poll() is None:
                time.sleep(0.05)  # for the next to be under way
        finally:
            killed.kill()
    kept = {path: path.stat().st_mtime_ns for path in runs.glob("*/*/samples.jsonl.gz")}
    assert 1 <= len(kept) < 4
    done = subprocess.run(command(tiny, "--json"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [(run["variant"], run["seed"]) for run in said["runs"]] == [
        ("pfifo", 1),
        ("pie", 1),
        ("pfifo", 2),
        ("pie", 2),
    ]
    assert (said["failed"], said["missing"]) == ([], [])
    assert f"{4 - len(kept)} runs of 4" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert list((tiny.parent / "cache" / "drafts").iterdir()) == []
    assert len((tiny.parent / "out" / "few.csv").read_text().splitlines()) == 5
    assert (tiny.parent / "out" / "report.md").is_file()
    # Again: nothing is run, the output is the same.
    again = subprocess.run(command(tiny, "--json"), capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert "runs of" not in again.stderr


def test_damage_in_the_cache_is_told_and_nothing_of_it_is_published(tiny, exact):
    """The samples of one run, the figures of the other: the same command gives what it gave before."""
    words = command(tiny, "--seeds", "1", "--json")
    before = subprocess.run(words, capture_output=True, text=True, check=False)
    assert before.returncode == 0, before.stderr
    cache, keys = Cache(tiny.parent / "cache"), evaluate_keys.Keys()
    cut, figures = (cache.path(keys.run(run.spec)) for run in load_plan(tiny).runs(seeds=1))
    content = (cut / "samples.jsonl.gz").read_bytes()
    (cut / "samples.jsonl.gz").write_bytes(content[: len(content) // 2])
    (path,) = figures.glob("metrics-*.json")
    path.write_text(path.read_text().replace("goodput_total_mbit_s", "goodput_total_mbit_t"))
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, before.stdout), again.stderr
    told = [line for line in again.stderr.splitlines() if "damaged in the cache" in line]
    assert [line.split(":")[0] for line in told] == ["tiny/pfifo/1", "tiny/pie/1"]
    assert ["computed again" in line for line in told] == [False, True]
    assert "1 runs of 2" in again.stderr
    assert [path.name for path in (cache.folder / "damaged").iterdir()] == [cut.name]


def on_a_small_disk(tiny, size, before=""):
    """The evaluation with its cache on a disk of so many bytes, `before` being done while it goes on; then what is left
    of the cache, and the same again with space."""
    cache = tiny.parent / "cache"
    cache.mkdir()
    words = " ".join(map(shlex.quote, command(tiny, "--seeds", "1")))
    script = (
        f"mount -t tmpfs -o size={size} tmpfs {cache} || exit 99\n"
        f"{before}\n"
        f"{words} 2>{tiny.parent}/said; echo $? >{tiny.parent}/status\n"
        f"kill %1 2>/dev/null\n"
        f"find {cache} -type f -name 'run.json' | wc -l >{tiny.parent}/kept\n"
        f"rm -f {cache}/filler; find {cache} -path '*/drafts/*' -o -name '.*-*' | wc -l >{tiny.parent}/litter\n"
        f"mount -o remount,size=200M {cache} && {words} --json >{tiny.parent}/after\n"
    )
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    done = subprocess.run([*unshare, "bash", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    found = {name: (tiny.parent / name).read_text() for name in ("said", "status", "kept", "litter", "after")}
    assert json.loads(found["after"])["missing"] == [], done.stderr
    return found


def test_a_disk_that_is_too_small_is_told_before_anything_runs(tiny, exact):
    found = on_a_small_disk(tiny, "1M")
    last = found["said"].splitlines()[-1]
    assert int(found["status"]) == 1
    assert last.startswith(f"not enough space in {tiny.parent / 'cache'}: ")
    assert " are needed; free " in last
    assert "Traceback" not in found["said"]


def test_a_disk_that_fills_up_ends_the_evaluation_and_keeps_what_is_whole(tiny, exact):
    """Something else takes all the space as soon as the second run is under way."""
    cache = tiny.parent / "cache"
    fill = (
        f"set -m; (until ls {cache}/runs/*/*/run.json && ls {cache}/drafts/*/spec.json; do sleep 0.1; done; "
        f"while :; do cat /dev/zero; sleep 0.05; done >{cache}/filler) >/dev/null 2>&1 &"
    )
    found = on_a_small_disk(tiny, "100M", fill)
    last = found["said"].splitlines()[-1]
    assert int(found["status"]) == 1, found["said"]
    assert last.startswith(f"not enough space in {cache}: ")
    assert "all runs that had finished are kept" in last
    assert "Traceback" not in found["said"]
    assert int(found["kept"]) == 1
    assert int(found["litter"]) == 0


def test_a_run_that_fails_holds_up_nothing(tiny, exact):
    bad = tiny.with_name("tiny.toml")
    program = "p4/switch/weir-p4/tests/diagnostics/missing_semicolon.p4"  # the check does not read it
    bad.write_text(bad.read_text() + f'[variants.red]\nqdisc = "p4"\nprofile = "tuned"\nprogram = "{program}"\n')
    done = subprocess.run(command(tiny, "--only", "tiny/*/1"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    failed = [line for line in done.stderr.splitlines() if line.startswith("RUN FAILED: ")]
    assert len(failed) == 1
    assert failed[0].startswith("RUN FAILED: tiny/red/1: ")
    assert (tiny.parent / "cache" / "failed" / "tiny" / "red" / "seed-1" / "stderr").is_file()
    assert len((tiny.parent / "out" / "few.csv").read_text().splitlines()) == 3
    told = "**Incomplete**: 4 of 6 runs of the matrix are missing: 2 of red, 1 of pfifo, 1 of pie."
    assert told in (tiny.parent / "out" / "report.md").read_text()


def test_a_cluster_gives_the_same_figures_as_this_machine(tiny, exact):
    """On Ray's own cluster of one machine."""
    pytest.importorskip("ray", reason="Ray is not among what every clone installs; --ray says how to get it")
    only = ("--only", "tiny/pie/1", "--json")
    here = subprocess.run(command(tiny, *only), capture_output=True, text=True, check=False)
    assert here.returncode == 0, here.stderr
    shutil.rmtree(tiny.parent / "cache")
    there = subprocess.run(command(tiny, *only, "--ray", "local"), capture_output=True, text=True, check=False)
    assert (there.returncode, there.stdout) == (0, here.stdout), there.stderr


def test_a_cluster_that_is_not_there_is_told_in_a_line(tiny, exact):
    done = subprocess.run(command(tiny, "--ray", "127.0.0.1:1"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("--ray")
    assert "Ray is not installed here; " in last or "127.0.0.1:1" in last


def test_scenarios_of_the_matrix_can_be_run_by_themselves(plan):
    wanted = next(s for g in plan.groups for s in g.scenarios if s.name == "flows-10").cases
    for word in ("flows-10", str(FOLDER / "flows-10.toml")):  # a cell of flows.toml
        (found,) = read_scenarios(word)
        assert found.cases == wanted
    assert [scenario.name for scenario in read_scenarios(str(FOLDER / "unresponsive.toml"))] == [
        f"unresponsive-{rate}" for rate in (5, 15, 30)
    ]
    assert load_scenario(FOLDER / "ecn-10.toml").name == "ecn-10"


def test_the_cells_of_the_grid_are_what_they_were_as_files_of_their_own(plan):
    scenarios = next(group.scenarios for group in plan.groups if group.name == "grid")
    access_mbit_s, one_in = {2: 50, 10: 50, 50: 250, 200: 1000}, {2: 1, 10: 1, 50: 5, 200: 20}
    delay_ms = {10: 4.5, 20: 9.5, 80: 39.5, 160: 79.5}
    limits = {(2, rtt): 400 for rtt in delay_ms} | {(200, 80): 1400, (200, 160): 2800}
    cells = [(rate, rtt) for rate in access_mbit_s for rtt in delay_ms]
    for (rate, rtt), scenario in zip(cells, scenarios, strict=True):
        limit = limits.get((rate, rtt), 1000)
        assert (scenario.name, scenario.title) == (f"grid-{rate}-{rtt}", f"{rate} Mbit/s, {rtt} ms")
        assert f"over {rate} Mbit/s with a round trip of {rtt} ms. The buffer holds {limit} packets" in (
            scenario.description
        )
        assert (scenario.duration_s, scenario.warmup_s, scenario.seeds) == (30, 10, (1, 2, 3))
        assert list(scenario.cases) == COMMON
        for spec in scenario.cases.values():
            assert spec["sample_one_in"] == one_in[rate]
            assert spec["link"]["access"] == {
                "rate_mbit_s": access_mbit_s[rate], "delay_ms": 0.5, "loss_percent": 0, "queue_limit_packets": 1000
            }  # fmt: skip
            assert spec["link"]["bottleneck"] == {
                "rate_mbit_s": rate, "delay_ms": delay_ms[rtt], "loss_percent": 0, "queue_limit_packets": limit
            }  # fmt: skip


@pytest.mark.parametrize(("group", "digest"), [
    ("flows", "c3b7bcdb0bfcb69c"),
    ("unresponsive", "f11ec97d540de96d"),
    ("grid", "9b1c3f4b971090f6"),
])  # fmt: skip
def test_cells_give_the_specs_that_their_own_files_gave(plan, group, digest):
    """By digests that were taken when each cell was a file of its own, before fq_pie and these gains came. `tuned` has
    had other numbers since; they are set back to those of then, and its target stays the cell's."""
    later = {
        "space_least", "space_most", "delay_bound_share", "delay_bound_slope", "delay_limit_share", "delay_guard_bytes",
        "share_least", "share_shift", "ecn_weight_shift", "ecn_drop_share",
    }  # fmt: skip
    tuned_then = {
        "interval_us": 5000,
        "kp": 60.0,
        "ki": 3.0,
        "kd": 0.0,
        "z1": 1.25,
        "z2": 1.2,
        "z3": 0.8,
        "ecn_bound": 0.1,
    }

    def as_then(spec: dict) -> dict:
        if not spec.get("aqm"):
            return spec
        aqm = {key: value for key, value in spec["aqm"].items() if key not in later}
        if "profile" in aqm:
            aqm |= dict.fromkeys(("burst_us", "schedule_shift", "schedule_weight_shift"), 0)
        return {**spec, "aqm": {**aqm, **tuned_then} if aqm.get("profile") == "tuned" else aqm}

    cases = {
        s.name: {label: as_then(spec) for label, spec in s.cases.items() if label != "fq_pie"}
        for g in plan.groups
        if g.name == group
        for s in g.scenarios
    }
    assert hashlib.sha256(json.dumps(cases, sort_keys=True).encode()).hexdigest()[:16] == digest
