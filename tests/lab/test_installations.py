# SPDX-License-Identifier: Apache-2.0
"""Same seed, same bytes on another installation, where programs read the clock and miss files more often at first."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lab_rig import ACCESS, ALL, CAMPUS, CELL_RATES, SMALL, folder_of, metrics_of

from weirlab import paths

AUTO = """
[variants.auto]
qdisc = "weir"
profile = "tuned"
tune = true
[variants.p4-tuned]
qdisc = "p4"
profile = "tuned"
"""
# Of each kind of traffic one, and a change on the way.
MIXED = (
    SMALL.replace("duration_s = 8", "duration_s = 6").replace("loss_percent = 0", "loss_percent = 1")
    + AUTO
    + """
[[flows]]
kind = "tcp"
count = 2
cc = "bbr"
start_spread_s = 1
[[flows]]
kind = "tcp-short"
count = 2
arrivals_per_s = 4
bytes_median = 20000
bytes_sigma = 1
[[flows]]
kind = "udp"
rate_mbit_s = 4
on_s = 0.5
off_s = 1.5
[[changes]]
at_s = 4
delay_ms = 20
"""
)


@pytest.mark.parametrize(
    ("text", "variants"),
    [(MIXED, ["pie", "auto", "p4-tuned"]), (ACCESS, ["polling-cold", "weir"])],
    ids=["dumbbell", "access"],
)
def test_the_same_bytes_however_programs_start(experiment, monkeypatch, text, variants):
    if "p4-tuned" in variants and not (paths.build() / "bin" / "weir-switch").exists():
        pytest.skip("weir-switch is not built; ./run test builds it")
    kept = []
    for reads in ("0", "40"):
        monkeypatch.setenv("WEIR_LAB_CLOCK_READS", reads)
        done = experiment("--json", *(word for name in variants for word in ("--only", name)), text=text)
        assert list(metrics_of(done)) == variants
        kept.append(
            [(folder_of(done) / "runs" / name / "seed-3" / "samples.jsonl.gz").read_bytes() for name in variants]
        )
    assert [first == second for first, second in zip(*kept, strict=True)] == [True] * len(variants)


def test_the_same_bytes_whatever_compiled_python_files_there_are(experiment, monkeypatch, tmp_path):
    for program in ("weir-icn", "weir-switch"):
        if not (paths.build() / "bin" / program).exists():
            pytest.skip(f"{program} is not built; ./run test builds it")
    (tmp_path / "small.csv").write_text(CELL_RATES)
    copies = [tmp_path / "sources" / Path(folder).name for folder in paths.import_path().split(":")]
    for folder, copy in zip(paths.import_path().split(":"), copies, strict=True):
        for package in ("weir", "weirlab"):
            if (Path(folder) / package).is_dir():
                shutil.copytree(Path(folder) / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    import_path = ":".join(map(str, copies))
    monkeypatch.setenv("WEIR_ROOT", str(paths.clone()))
    monkeypatch.setattr(paths, "import_path", lambda: import_path)

    def python(*words):
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": import_path}
        subprocess.run([sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL)

    def samples():
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        done = experiment("--json", text=CAMPUS + ALL)
        assert list(metrics_of(done)) == ["all"]
        return (folder_of(done) / "runs" / "all" / "seed-3" / "samples.jsonl.gz").read_bytes()

    without = samples()
    python("-m", "weir.cli", "--help")
    left_by_a_program = samples()
    python("-m", "compileall", "-q", *map(str, copies))
    monkeypatch.setenv("WEIR_LAB_CLOCK_READS", "40")
    elsewhere = samples()
    assert [left_by_a_program == without, elsewhere == without] == [True, True]
