# SPDX-License-Identifier: Apache-2.0
"""`./run experiment` goes on where it was: finished runs come from its cache, on every topology."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest
from lab_rig import ACCESS, folder_of, metrics_of, wait_for
from test_edge_runs import EDGE

from weirlab import paths

QUICK = """
[scenario]
name = "small"
title = "two queues"
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
SMALL_ACCESS = ACCESS.replace("requests = 20", "requests = 4").replace("round = 10", "round = 2")
SMALL_EDGE = EDGE.replace("300_000", "100_000").replace("edges = 2", "edges = 1")


def results_of(folder):
    """Every file of a results folder by its name there, but what says when and with which words it was made."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    content = {name: path.read_bytes() for name, path in files.items()}
    started = json.loads(content.pop("meta.json"))["started_utc"]
    content["report.html"] = content["report.html"].replace(started.encode(), b"THEN")
    return content


def needs(*programs):
    for name in programs:
        if not (paths.build() / "bin" / name).is_file():
            pytest.skip(f"{name} is not built; ./run test builds it")


@pytest.mark.parametrize(
    ("text", "only", "programs", "kept"),
    [
        (QUICK, "pie", (), {"qdiscs.json"}),
        (SMALL_ACCESS, "oracle", (), {"qdiscs.json", "oracle.jsonl"}),
        (SMALL_EDGE, "names", ("weir-icn", "weir-switch"), {"get-1.json", "switch-core.toml"}),
    ],
    ids=["dumbbell", "access", "edge"],
)
def test_results_are_the_same_whether_a_run_was_made_or_cached(experiment, text, only, programs, kept):
    needs(*programs)
    words = ["--json", "--only", only, "--seeds", "1"]
    made, cached = (experiment(*words, text=text, cache="cache") for _ in range(2))
    assert made.returncode == cached.returncode == 0, made.stderr + cached.stderr
    assert "0 of them cached; 1 to run" in made.stderr
    assert "1 of them cached\n" in cached.stderr
    assert cached.stdout == made.stdout
    first, second = (results_of(folder_of(done)) for done in (made, cached))
    assert first == second
    assert {f"runs/{only}/seed-1/{name}" for name in {"samples.jsonl.gz", "spec.json", "stderr"} | kept} <= set(first)
    assert not [name for name in first if "job.sh" in name or "fetched" in name]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_experiment_goes_on_where_it_was(experiment, number):
    cache = experiment.folder / "cache"
    process = experiment.start("--jobs", "1", text=QUICK, cache="cache")
    wait_for(lambda: list(cache.glob("runs/*/*")) or process.poll() is not None)
    wait_for(lambda: list(cache.glob("drafts/*/spec.json")) or process.poll() is not None)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert "stopped by SIGINT; what had finished is kept in the cache, the same command goes on" in err
    kept = {path: path.stat().st_mtime_ns for path in cache.glob("runs/*/*/samples.jsonl.gz")}
    assert 1 <= len(kept) < 4
    done = experiment("--json", "--jobs", "1", text=QUICK, cache="cache")
    runs = {"pfifo", "pie"}
    assert set(metrics_of(done)) == runs
    said = f"4 runs of 3 virtual seconds, {len(kept)} of them cached; {4 - len(kept)} to run, 1 at a time"
    assert said in done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert [(run["variant"], run["seed"]) for run in json.loads(done.stdout)["runs"]] == [
        (variant, seed) for seed in (1, 2) for variant in ("pfifo", "pie")
    ]
    assert len(list(folder_of(done).glob("runs/*/*/summary.json"))) == 4
    assert list((cache / "drafts").iterdir()) == []


def test_fresh_runs_are_made_again_and_take_the_place_of_those_before(experiment):
    words = ["--json", "--only", "pie", "--seeds", "1"]
    before = experiment(*words, text=QUICK, cache="cache")
    (entry,) = (experiment.folder / "cache" / "runs").glob("*/*")
    was = entry.stat().st_ino
    again = experiment(*words, "--fresh", text=QUICK, cache="cache")
    assert "0 of them cached; 1 to run" in again.stderr
    assert again.stdout == before.stdout
    assert [folder for folder in (experiment.folder / "cache" / "runs").glob("*/*")] == [entry]
    assert entry.stat().st_ino != was
    assert list((experiment.folder / "cache" / "drafts").iterdir()) == []
    assert "1 of them cached\n" in experiment(*words, text=QUICK, cache="cache").stderr


def test_more_seeds_and_another_title_run_only_what_is_new(experiment):
    words = ["--json", "--only", "pie"]
    experiment(*words, "--seeds", "1", text=QUICK, cache="cache")
    text = QUICK.replace("two queues", "queues").replace("warmup_s = 1", "warmup_s = 0.5")
    done = experiment(*words, text=text, cache="cache")
    assert "queues: 2 runs of 3 virtual seconds, 1 of them cached; 1 to run" in done.stderr
    assert "figures of 1 cached runs are computed again" in done.stderr


def test_a_damaged_entry_is_told_and_made_again(experiment):
    words = ["--json", "--only", "pie", "--seeds", "1"]
    before = experiment(*words, text=QUICK, cache="cache")
    (entry,) = (experiment.folder / "cache" / "runs").glob("*/*")
    content = (entry / "samples.jsonl.gz").read_bytes()
    (entry / "samples.jsonl.gz").unlink()  # the results have it, too
    (entry / "samples.jsonl.gz").write_bytes(content[: len(content) // 2])
    again = experiment(*words, text=QUICK, cache="cache")
    assert (again.returncode, again.stdout) == (0, before.stdout)
    assert "small/pie/1: damaged in the cache (samples.jsonl.gz: wrong length); set aside in " in again.stderr
    assert "0 of them cached; 1 to run" in again.stderr
    assert results_of(folder_of(again)) == results_of(folder_of(before))


def test_a_run_that_fails_holds_up_nothing(experiment):
    needs("weir-switch")
    program = "p4/switch/weir-p4/tests/diagnostics/missing_semicolon.p4"  # the check does not read it
    text = QUICK + f'[variants.red]\nqdisc = "p4"\nprofile = "tuned"\nprogram = "{program}"\n'
    done = experiment("--json", "--seeds", "1", text=text, cache="cache")
    assert done.returncode == 1
    (failed,) = (line for line in done.stderr.splitlines() if line.startswith("RUN FAILED: "))
    assert failed.startswith("RUN FAILED: small/red/1: ")
    left = experiment.folder / "cache" / "failed" / "small" / "red" / "seed-1"
    assert str(left) in failed
    assert (left / "stderr").is_file()
    assert [run["variant"] for run in json.loads(done.stdout)["runs"]] == ["pfifo", "pie"]
    assert json.loads((folder_of(done) / "summary.json").read_text())["missing"] == [["red", 1]]
    alone = experiment("--only", "red", "--seeds", "1", text=text, cache="cache")
    assert alone.returncode == 1
    assert "no run has ended well; there is nothing to report in " in alone.stderr
    assert "Traceback" not in alone.stderr


@pytest.mark.parametrize("place", ["cache", "results"])
def test_a_disk_without_room_is_told_and_nothing_is_half_written(experiment, place):
    """A small file system in place of the folder."""
    folder = experiment.folder / place
    folder.mkdir()
    scenario = experiment.folder / "small.toml"
    scenario.write_text(QUICK)
    words = [sys.executable, "-m", "weirlab.cli", "experiment", str(scenario), "--only", "pie", "--seeds", "1"]
    words += ["--cache", str(experiment.folder / "cache"), "--results", str(experiment.folder / "results")]
    # Less than a run is thought to need, or less than its samples and what stands beside them.
    size = "size=1M" if place == "cache" else "size=80k"
    script = (
        f"mount -t tmpfs -o {size} tmpfs {folder} || exit 99\n"
        f"{shlex.join(words)}; status=$?\n"
        f"find {folder} -name '.*' -o -path '*/drafts/*'\n"
        f"exit $status\n"
    )
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    environment = {**os.environ, "PYTHONPATH": paths.import_path()}
    done = subprocess.run(
        [*unshare, "bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert last.startswith(f"not enough space in {folder}")
    assert f"or give another folder by --{place}; all runs that had finished are kept" in last
    assert "Traceback" not in done.stderr
