# SPDX-License-Identifier: Apache-2.0
"""Samples of `campus` to figures."""

import json

import generated_campus as made
import numpy as np
import pytest

from weirlab.metrics.samples import SamplesError
from weirlab.topologies.campus.metrics import METRICS, compute, failures, stalls
from weirlab.topologies.campus.samples import read_samples

RATE = 0.1
"""Bytes a microsecond of 0.8 Mbit/s."""


def computed(tmp_path, lines, spec=None):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return compute(path, spec or made.spec())


def test_a_run_that_went_well(tmp_path):
    found = computed(tmp_path, made.run_lines())
    assert set(found) == set(METRICS)
    assert failures(found) == []
    assert found["request_p50_ms"] == pytest.approx(104.5)
    assert found["request_p99_ms"] == found["request_small_p99_ms"] == pytest.approx(108.91)
    assert (found["requests"], found["requests_failed"], found["bytes_lost_transfers"]) == (10, 0, 0)
    assert found["download_mean_s"] == 4
    assert found["upload_mbit_s"] == pytest.approx(4)
    assert found["upload_rtt_mean_ms"] == 40
    assert found["stream_goodput_mbit_s"] == pytest.approx(0.8)
    assert (found["stream_stalls"], found["stream_stalled_s"]) == (0, 0)
    assert found["file_mean_s"] == 2.5
    assert found["voice_loss_percent"] > 0
    assert 28 < found["voice_delay_p99_ms"] <= 29
    assert found["web_p99_ms"] == 150
    assert found["joined_percent"] == 75
    assert found["publisher_sent_ratio"] == pytest.approx(1_500_000 / (500_000 + 900_000))
    assert found["backbone_sent_bytes"] == 9_000_000
    assert found["decisions"] == 1


def test_the_silence_at_a_move_is_that_of_what_was_heard_first(tmp_path):
    found = computed(tmp_path, made.run_lines())
    assert found["handover_gap_ms"] == pytest.approx(100)  # the stream's; the download was silent for 210 ms
    assert found["handover_gap_ptos"] == pytest.approx(100 / (30 + 1 + 25))


def test_a_request_that_never_ends_counts_with_its_age(tmp_path):
    lines = [line for line in made.run_lines() if line["k"] != "task"]
    found = computed(tmp_path, [*lines, made.task(0, 0, 50), made.task(1, 1, 8000, "incomplete")])
    # Ten were due: one ended, one failed, and eight were never begun.
    assert found["requests"] == 10
    assert found["requests_failed"] == 1
    assert found["request_p99_ms"] == pytest.approx(np.quantile([50, *(1000 * n for n in range(1, 10))], 0.99))
    assert "1 requests of the phone ended without all bytes" in failures(found)[0]


def test_traffic_that_there_is_not_has_no_figures(tmp_path):
    spec = made.spec()
    spec["has"]["traffic"] = "upload"
    kinds = ("start", "flow", "link", "switch")
    lines = [line for line in made.run_lines() if line["k"] in kinds and line.get("flow", "upload.0") == "upload.0"]
    found = computed(tmp_path, lines, spec)
    assert failures(found) == []
    assert {name for name, value in found.items() if value} == {
        "upload_mbit_s", "upload_rtt_mean_ms", "backbone_sent_bytes", "joined_percent",
    }  # fmt: skip
    zero = {name for name, value in found.items() if value == 0}
    assert {"requests", "requests_failed", "wrong_files", "unfinished_files", "bytes_lost_transfers"} <= zero
    for name in ("request_p99_ms", "download_mean_s", "file_mean_s", "stream_goodput_mbit_s", "publisher_sent_bytes"):
        assert found[name] is None


def test_a_file_with_other_bytes_is_a_failure(tmp_path):
    lines = [
        {**line, "whole": False} if line["k"] == "file" and line["receiver"] == 2 else line for line in made.run_lines()
    ]
    found = computed(tmp_path, lines)
    assert (found["wrong_files"], found["bytes_lost_transfers"]) == (1, 1)
    assert failures(found)


def test_without_names_a_file_is_whole_if_its_program_says_so(tmp_path):
    lines = [line for line in made.run_lines() if line["k"] not in ("file", "came")]
    found = computed(tmp_path, lines, made.spec(names=False))
    assert found["wrong_files"] == 0
    ended = [{**line, "status": 5} if line.get("what") == "file-1" and "status" in line else line for line in lines]
    assert computed(tmp_path, ended, made.spec(names=False))["wrong_files"] == 1


def test_a_file_that_is_not_whole_in_time_counts_with_its_age(tmp_path):
    late = [
        {**line, "t_us": made.T0_US + 10**7 + 5000, "status": 130}
        if line.get("what") == "file-3" and "status" in line
        else line
        for line in made.run_lines()
        if not (line["k"] == "file" and line["receiver"] == 3)
    ]
    found = computed(tmp_path, late)
    assert (found["wrong_files"], found["unfinished_files"], found["bytes_lost_transfers"]) == (0, 1, 0)
    assert found["file_mean_s"] == (1 + 2 + 3 + 7) / 4
    assert failures(found) == []


def test_a_program_that_ended_and_never_began_is_refused(tmp_path):
    with pytest.raises(SamplesError, match="never began"):
        computed(tmp_path, [*made.run_lines(), {"k": "ended", "t_us": made.T0_US, "what": "ghost", "status": 0}])


def test_an_interface_has_two_lines(tmp_path):
    with pytest.raises(SamplesError, match="one at start and end each"):
        computed(tmp_path, [*made.run_lines(), made.links("core", "x", 1)[0]])


def course(points):
    times, values = zip(*points, strict=True)
    return np.array(times) * 1e6, np.array(values, float)


def test_a_steady_stream_never_stands():
    assert stalls(course(made.steady(0.8, 0, 10)), RATE, 0, 10e6) == (0, 0)


def test_a_pause_shorter_than_the_buffer_is_not_noticed():
    points = [(t, n) for t, n in made.steady(0.8, 0, 10) if not 4 < t <= 4.8]
    assert stalls(course(points), RATE, 0, 10e6) == (0, 0)


def test_a_longer_pause_is_one_stall_until_the_buffer_is_there_again():
    points = [(t, n) for t, n in made.steady(0.8, 0, 10) if not 4 < t <= 6]
    count, stalled_us = stalls(course(points), RATE, 0, 10e6)
    assert count == 1
    # It had 1 s when the pause began; at 6.1 s more than a second's worth comes at once.
    assert stalled_us == pytest.approx(1.1e6, abs=1e5)


def test_what_never_comes_is_one_stall_of_all_the_time():
    assert stalls((np.array([]), np.array([])), RATE, 1e6, 10e6) == (1, 9e6)


def test_a_decision_is_at_the_runs_time(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in made.run_lines()))
    assert [line["t_us"] for line in read_samples(path, made.spec()).decisions] == [pytest.approx(5.5e6)]


def read(tmp_path, lines):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_samples(path, made.spec())


def test_the_course_of_a_run_has_windows_paths_and_queues(tmp_path):
    samples = read(tmp_path, made.run_lines())
    times, window = samples.window_bytes["upload.0"]
    assert (times[0], window[0], window[-1]) == (2e6, 22_000, 28_000)
    assert samples.switched == ((5e6, "upload.0", "cell"),)
    assert samples.names["edge1"][3] == (3e6, {"interests_joined": 90})
    assert samples.queues_ms["core", "bb"][1][7] == pytest.approx(5.007)


def test_a_switch_that_was_started_again_began_its_clock_anew(tmp_path):
    times, delays_ms = read(tmp_path, made.run_lines()).queues_ms["edge1", "4"]
    assert list(times[[0, 49, 50, 88]]) == [0, 4.9e6, 6.1e6, 9.9e6]
    assert list(delays_ms[[0, 49, 50, 88]]) == [9, 9, 2, 2]
    with pytest.raises(SamplesError, match="the clock of edge1 went back more often than it was started"):
        read(tmp_path, [*made.run_lines(), made.aqm("edge1", "4", 1, 0)])


def test_what_stands_still_while_a_part_is_away_is_told(tmp_path):
    pause = [(t, n) for t, n in made.steady(0.8, 1, 10) if not 5.05 < t < 6.55]
    lines = [line for line in made.run_lines() if not (line["k"] == "came" and line["receiver"] == 2)]
    lines += [
        *made.came(pause, 2),
        {"k": "killed", "t_us": made.T0_US + 5 * 10**6, "part": "edge2"},
        {"k": "back", "t_us": made.T0_US + 6 * 10**6, "part": "edge2"},
    ]
    found = computed(tmp_path, lines)
    assert found["kills"] == 1
    assert found["edge2_stream_silence_ms"] == pytest.approx(
        1600
    )  # from 5.0 s to 6.6 s, at the receiver that waited longest
    assert found["edge2_upload_silence_ms"] == pytest.approx(100)
    assert found["edge2_requests_silence_ms"] == pytest.approx(100)


def test_a_run_in_which_parts_are_killed_is_not_failed_by_what_it_lost(tmp_path):
    kill = [{"k": what, "t_us": made.T0_US + at * 10**6, "part": "live"} for what, at in (("killed", 3), ("back", 4))]
    lines = [{**line, "whole": False} if line["k"] == "file" else line for line in made.run_lines()]
    assert failures(computed(tmp_path, lines))
    assert failures(computed(tmp_path, [*lines, *kill])) == []


def test_a_part_that_is_not_back_is_refused(tmp_path):
    with pytest.raises(SamplesError, match="live was killed and is not back"):
        computed(tmp_path, [*made.run_lines(), {"k": "killed", "t_us": made.T0_US, "part": "live"}])
