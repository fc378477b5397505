# SPDX-License-Identifier: Apache-2.0
"""Same seed, same bytes on another installation, where programs read the clock and miss files more often at first."""

import pytest
from lab_rig import ACCESS, SMALL, folder_of, metrics_of

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
