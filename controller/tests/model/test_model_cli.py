# SPDX-License-Identifier: Apache-2.0
"""`weir model` as it is called, and its reading of a run's samples."""

import gzip
import json

import numpy as np
import pytest

from weir import cli
from weir.model import compare
from weir.model.readings import Reading, readings

pytestmark = pytest.mark.pictures


def call(capsys, *words: str) -> tuple[int, str, str]:
    try:
        status = cli.main(["model", *words])
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr()
    return status, said.out, said.err


def test_margins_tell_every_row_of_both_profiles(capsys):
    status, out, _ = call(capsys, "margins", "--json", "--cc", "reno")
    told = json.loads(out)
    assert status == 0
    assert set(told) == {"paper", "tuned"}
    assert set(told["paper"]["rows"]) == {"1", "2", "3", "4", "5"}
    rows = told["paper"]["rows"]
    assert rows["4"]["stable"]  # 0.8 of P and D, no integral
    assert not rows["5"]["stable"]
    # Z scales the loop and nothing else: rows 1 and 3, both without integral, differ by 1.5/1.2.
    between = rows["3"]["gain_margin_db"] - rows["1"]["gain_margin_db"]
    assert between == pytest.approx(20 * np.log10(1.5 / 1.2), abs=1e-3)


@pytest.mark.parametrize(
    "words",
    [
        ("bode", "--rows", "1,5"),
        ("nyquist", "--profile", "paper"),
        ("map", "--steps", "3", "--profile", "tuned"),
        ("simulate", "--seconds", "12", "--profile", "tuned", "--change", "5:flows=20,rtt-ms=50"),
    ],
)
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_what_is_drawn_is_a_file_and_the_same_bytes_again(capsys, tmp_path, words, kind):
    first, second = tmp_path / f"first.{kind}", tmp_path / f"second.{kind}"
    for out in (first, second):
        status, _, err = call(capsys, *words, "--out", str(out))
        assert (status, err) == (0, "")
    assert first.stat().st_size > 5000
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("margins", "--profile", "nope"), "--profile nope: no such profile; must be one of coupled, paper, tuned"),
        (("margins", "--set", "kp"), "--set kp: must be KEY=VALUE"),
        (("margins", "--set", "kp=-1"), "kp = -1"),
        (("margins", "--u", "2"), "--u 2.0: must be above 0"),
        (("margins", "--flows", "0"), "'0': must be a number above 0"),
        (("margins", "--gains", "/nowhere.toml"), "/nowhere.toml"),
        (("bode", "--out", "x.pdf"), "x.pdf: must end in .png or .svg"),
        (("bode", "--loss-percent", "50", "--out", "x.png"), "the flows don't fill the line"),
        (("simulate", "--change", "5:hops=3"), "must be AT_S:KEY=VALUE"),
        (("simulate", "--warmup-s", "60"), "--warmup-s 60.0"),
        (("compare", "/nowhere"), "/nowhere: no runs in it"),
    ],
)
def test_wrong_calls_say_what_is_wrong(capsys, words, told):
    status, _, err = call(capsys, *words)
    assert status in (1, 2)
    assert told in err
    assert "Traceback" not in err


def test_the_sampled_reading_of_the_paper_is_our_loop():
    """One reading computed by `readings` on its coarse grid, and by the loop that the margins are made from."""
    from weir.model.fluid import Plant
    from weir.model.margins import margins
    from weir.resources import PROFILES
    from weir.settings import load

    gains = load(PROFILES / "paper.toml")
    plant = Plant(10e6, 0.102, 10, 1440, drops=False)
    wanted = ("derived", "Eq. 5, sampled", "Ki Kp Kd", "15 ms", "15 ms", "117 ms", "packet/s", "s", 10)
    found: dict[int, Reading] = {}
    for one in readings({"117 ms": 0.117}):
        if wanted == (
            one.plant, one.shape, one.alpha_beta_gamma, one.interval, one.s_time, one.rtt, one.capacity,
            one.gains_per, one.flows,
        ):  # fmt: skip
            found[one.row] = one
    assert set(found) == {1, 2, 3, 4, 5}
    for row, one in found.items():
        ours = margins(plant, gains, row=row, form="cao", settling=False)
        assert one.least_deg == pytest.approx(ours.phase_margin_deg, abs=0.5)
        assert one.stable == ours.stable


def _samples(folder, lines):
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (folder / "samples.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def test_a_swing_in_a_runs_samples_is_found(tmp_path):
    """1.5 Hz in 10 ms of mean, in packets every 2 ms through a hop of 50 ms at 10 Mbit/s."""
    rng = np.random.default_rng(1)
    lines = [
        {"k": "start", "t_us": 5_000_000},
        {"k": "hop", "hop": "bottleneck", "propagation_us": 50_000, "rate_mbit_s": 10},
    ]
    for t_us in range(0, 40_000_000, 2000):
        queue_us = 10_000 + 4000 * np.sin(2 * np.pi * 1.5 * t_us / 1e6) + rng.normal(0, 500)
        lines.append({"k": "pkt", "t_us": 5_000_000 + t_us, "hop": "bottleneck",
                      "sojourn_us": round(50_000 + 1200 + queue_us), "bytes": 1500, "ce": 0})  # fmt: skip
    _samples(tmp_path / "run", lines)
    found = compare.swing(compare._delay(tmp_path / "run", 40.0))
    assert found.mean_ms == pytest.approx(10, abs=0.1)
    assert found.sd_ms == pytest.approx(4 / np.sqrt(2), rel=0.05)
    assert found.peak_hz == pytest.approx(1.5, rel=0.2)
    assert found.peak_share > 0.9


def test_a_run_that_is_the_fluid_is_beside_itself(capsys, tmp_path):
    """A results folder made of the simulation: what `compare` calls lab must be what it calls fluid."""
    from dataclasses import asdict

    from weir.model.fluid import Plant
    from weir.model.simulate import Change, simulate
    from weir.resources import PROFILES
    from weir.settings import load

    gains = load(PROFILES / "tuned.toml")
    plant = Plant(10e6, 0.102, 10, 1400 + compare.HEADER_BYTES)
    trace = simulate(plant, gains, 40, [Change(25, flows=20)], start="empty")
    link = {"rate_mbit_s": 10.0, "delay_ms": 50.0, "loss_percent": 0.0, "queue_limit_packets": 1000}
    group = {"kind": "tcp", "count": 10, "cc": "reno", "payload_bytes": 1400, "start_s": 0.0}
    folder = tmp_path / "runs" / "x1" / "seed-1"
    lines = [
        {"k": "start", "t_us": 0},
        {"k": "hop", "hop": "bottleneck", "propagation_us": 0},
        *(
            {
                "k": "pkt",
                "t_us": i * 1000,
                "hop": "bottleneck",
                "sojourn_us": round(delay_s * 1e6),
                "bytes": 1466,
                "ce": 0,
            }
            for i, delay_s in enumerate(trace.queue_delay_s)
        ),
    ]
    _samples(folder, lines)
    spec = {
        "variant": "x1", "seed": 1, "warmup_s": 10.0, "duration_s": 40.0, "aqm": {"qdisc": "weir", **asdict(gains)},
        "link": {"access": {**link, "delay_ms": 1.0}, "bottleneck": link},
        "flows": [group, {**group, "start_s": 25.0}],
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    status, out, _ = call(capsys, "compare", str(tmp_path), "--json", "--out", str(tmp_path / "beside.png"))
    assert status == 0
    (told,) = json.loads(out)["runs"]
    assert told["lab"] == pytest.approx(told["fluid"], abs=2e-3)
    assert told["join_peak_ms"][0] == pytest.approx(told["join_peak_ms"][1], abs=0.01)
    assert (tmp_path / "beside.png").stat().st_size > 5000

    spec["flows"][0]["kind"] = "quic-download"
    (folder / "spec.json").write_text(json.dumps(spec))
    status, _, err = call(capsys, "compare", str(tmp_path))
    assert status == 2
    assert "its flows must be one or two groups of tcp" in err
