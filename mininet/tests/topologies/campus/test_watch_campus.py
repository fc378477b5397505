# SPDX-License-Identifier: Apache-2.0
"""Live display of a run on `campus`."""

import io

import generated_campus as made
from rich.console import Console

from weirlab.run.watching import take
from weirlab.topologies.campus.watch import CampusWatch, Grown


def numbered(line):
    """As programs write it: flows have numbers until the run's samples are gathered."""
    numbers = {"upload.0": 200, "download.0": 100, "request.0": 0}
    return {**line, "flow": numbers[line["flow"]]} if line["k"] == "flow" else line


def watched(lines=None, until_s=10.0):
    """A run until then, and its display; its programs wrote a file for each kind of line."""
    watch, told = CampusWatch(made.spec()), []
    start, by_kind = [], {}
    for line in map(numbered, made.run_lines() if lines is None else lines):
        at_us = made.T0_US + 5_500_000 if line["k"] == "decision" else line.get("t_us", 0)
        if at_us <= made.T0_US + until_s * 1e6:
            (start if line["k"] == "start" else by_kind.setdefault(line["k"], [])).append(line)
    take(watch, iter([start]), told.append)
    take(watch, (sorted(lines, key=lambda line: line.get("t_us", 0)) for lines in by_kind.values()), told.append)
    return watch, told


def on_a_screen(watch, width=160, height=50):
    said = io.StringIO()
    Console(file=said, width=width).print(watch.screen(width, height))
    return said.getvalue()


def test_each_second_of_the_run_is_told_in_order():
    _, told = watched()
    seconds = [float(line.split(" s ")[0]) for line in told]
    assert seconds == sorted(seconds)
    assert sum("queues: " in line for line in told) == 10  # one for each second that began


def test_what_happens_is_told():
    _, told = watched()
    for words in (
        "the phone moves to site 2",
        "Wi-Fi loses 10 % of what comes to the phone",
        "upload.0 goes over to cell",
        "request.0 has lost wifi",
        "controller: trial at backbone down: target_us 15000 to 10000",
        "download-0 ended with status 0",
    ):
        assert any(line.endswith(words) for line in told), words


def test_the_state_has_what_the_phone_and_the_receivers_have():
    watch, _ = watched(until_s=7.95)
    told = watch.summary()
    assert "requests: 8 done, the last in 107 ms" in told
    assert "upload: 4.00 Mbit/s, window 28 kB, round trip 40 ms on cell" in told
    assert "stream: 0.80 Mbit/s on average, least 0.80" in told
    assert "file: whole at 4 of 4" in told
    assert "switches: 0 Interests/s asked on, " in told
    assert "backbone down 5 ms" in told


def test_a_download_is_told_while_it_lasts():
    watch, _ = watched(until_s=4.5)
    assert "download.0: 0.90 of 1 MB, 1.60 Mbit/s" in watch.summary()
    assert "download" not in watched()[0].summary()


def test_a_screen_has_queues_phone_and_events():
    watch, _ = watched()
    text = on_a_screen(watch)
    for words in ("made-up, all, seed 1: 10.0 s of 10 s, in virtual time", "core", "requests: 10 done", "to site 2"):
        assert words in text
    assert "2 queues" in text
    assert "q quit" not in text  # nobody reads keys here
    assert "weir top" in on_a_screen(watch, 80, 20)


def test_without_the_law_there_is_no_queue_to_show():
    lines = [line for line in made.run_lines() if line["k"] not in ("aqm", "decision")]
    watch, _ = watched(lines)
    assert "queues: not told without the law" in watch.summary()
    assert "no samples of queues" in on_a_screen(watch)


def test_before_its_start_a_run_is_being_set_up():
    watch, told = watched([])
    assert told == []
    assert "the network is being set up" in on_a_screen(watch)


def test_what_stopped_coming_has_no_rate():
    grown = Grown()
    for second in range(5):
        grown.take(second * 1e6, second * 125_000)
    assert grown.mbit_s(4e6) == 1
    assert grown.mbit_s(9e6) == 0
