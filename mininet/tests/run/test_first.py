# SPDX-License-Identifier: Apache-2.0
"""`./run demo --first` but for the lab: when figures are good for a picture, and what is printed and left."""

import generated_samples
import pytest

from weirlab import cli
from weirlab.lab.kernels import ExactLab, LabError, PackagedLab
from weirlab.report.labels import NOTHING
from weirlab.run import first
from weirlab.run.runner import RunError, finish
from weirlab.store.documents import read_json

FULL_PACKETS = 13_000  # of 1440 bytes, in 15 s of 10 Mbit/s
CARRIED = {"utilisation_percent": 97.0, "delay_outside_mean_ms": 0.4}


def with_samples(monkeypatch, packets=FULL_PACKETS, outside_ms=0.01):
    """Let the lab leave made-up samples."""

    def measure(_lab, results, runs):
        for run in runs:
            records = generated_samples.lines(run.spec, packets, outside_ms)
            generated_samples.write(results.run_folder(run) / "samples.jsonl", records)
            finish(results, run)

    monkeypatch.setattr(first, "measure", measure)
    monkeypatch.setattr(first, "PROGRAMS", ())
    in_the_packaged_lab(monkeypatch)


def in_the_packaged_lab(monkeypatch):
    monkeypatch.setattr(first, "first_lab", lambda: "packaged")
    monkeypatch.setattr(PackagedLab, "__init__", lambda _self: None)
    monkeypatch.setattr(PackagedLab, "binary", lambda _self: "/usr/bin/linux.uml")


def test_figures_of_a_machine_with_time_are_good():
    assert first.too_busy({"drop-tail": CARRIED, "weir": CARRIED}) == ""


def test_a_full_queue_that_did_not_fill_the_link_tells_of_a_busy_machine():
    slow = {**CARRIED, "utilisation_percent": 71.4}
    assert "drop-tail, whose queue is never empty, sent for 71 % of the time only" in first.too_busy(
        {"weir": CARRIED, "drop-tail": slow}
    )
    # An AQM may leave the link idle for a moment; that is its own doing.
    assert first.too_busy({"weir": slow, "drop-tail": CARRIED}) == ""


def test_waiting_elsewhere_tells_of_a_busy_machine():
    held_up = {**CARRIED, "delay_outside_mean_ms": 12.34}
    assert "packets of weir waited 12.3 ms elsewhere" in first.too_busy({"drop-tail": CARRIED, "weir": held_up})


@pytest.mark.pictures
def test_the_first_look_prints_a_table_and_leaves_a_picture(tmp_path, monkeypatch, capsys):
    with_samples(monkeypatch)
    assert cli.main(["demo", "--first", "--results", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    (folder,) = tmp_path.iterdir()
    assert (folder / "first.png").read_bytes().startswith(b"\x89PNG")
    assert f"The picture: {folder / 'first.png'}\n" in out
    heading = next(line for line in out.splitlines() if "drop-tail" in line)
    assert heading.split()[-3:] == ["weir", "fq_codel", "drop-tail"]
    rows = {line.split(",")[0].strip(): line.split() for line in out.splitlines() if "," in line}
    assert rows["dropped early"][-3:] == ["240", "240", NOTHING]  # the last 12 of 15 s
    assert rows["dropped"][-3:] == ["0", "0", "120"]
    assert "in real time" in out
    assert "./run experiment first-look measures the same in virtual time" in out
    assert "A first look, in real time" in err
    assert "packaged" in read_json(folder / "meta.json")["versions"]["lab kernel"]


@pytest.mark.pictures
def test_a_load_spoils_no_first_look_in_virtual_time(tmp_path, monkeypatch, capsys):
    with_samples(monkeypatch, packets=FULL_PACKETS // 2)
    monkeypatch.setattr(first, "first_lab", lambda: "exact")
    monkeypatch.setattr(ExactLab, "__init__", lambda _self: None)
    monkeypatch.setattr(ExactLab, "version", lambda _self: "6.12.1")
    assert cli.main(["demo", "--first", "--results", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    assert (folder / "first.png").exists()
    assert read_json(folder / "meta.json")["versions"]["lab kernel"] == "exact (6.12.1)"
    assert "in real time" not in "".join(capsys.readouterr())


def test_a_busy_machine_gets_no_picture_and_one_line(tmp_path, monkeypatch, capsys):
    with_samples(monkeypatch, packets=FULL_PACKETS // 2)
    assert cli.main(["demo", "--first", "--results", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("no first picture: drop-tail, whose queue is never empty, sent for 50 % of")
    assert list(tmp_path.iterdir()) == []


def test_a_lab_that_fails_leaves_its_words_and_no_other_leaves_anything(tmp_path, monkeypatch, capsys):
    with_samples(monkeypatch)
    for number, (error, left) in enumerate(((RunError("node r1: no"), 1), (LabError("no boot"), 0))):

        def fails(*_, error=error):
            raise error

        monkeypatch.setattr(first, "measure", fails)
        assert cli.main(["demo", "--first", "--results", str(tmp_path / str(number))]) == 1
        assert capsys.readouterr().err.splitlines()[-1] == str(error)
        assert len(list((tmp_path / str(number)).iterdir())) == left


def test_what_is_missing_is_said_before_anything_is_made(tmp_path, monkeypatch, capsys):
    in_the_packaged_lab(monkeypatch)
    monkeypatch.setattr(first, "PROGRAMS", ("weir-nothing",))
    assert cli.main(["demo", "--first", "--results", str(tmp_path)]) == 1
    said = "weir-nothing is not built; build it with: setup/install.sh python xdp lab_tools\n"
    assert capsys.readouterr().err == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--aqm"], ["--seeds", "2"], ["--only", "weir"], ["--fresh"], ["--json"]])
def test_the_first_look_goes_with_no_option_that_would_do_nothing(words, capsys):
    assert cli.main(["demo", "--first", *words]) == 2
    assert "of the other options it takes --results" in capsys.readouterr().err


def test_check_looks_at_the_options_alone(monkeypatch):
    monkeypatch.setattr(first, "main_first", None)
    assert cli.main(["--check", "demo", "--first"]) == 0
