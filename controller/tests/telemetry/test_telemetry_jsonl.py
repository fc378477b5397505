# SPDX-License-Identifier: Apache-2.0
"""Samples as lines: what is written is read back, what is wrong is named, and a full disk spoils no line."""

import json
import os
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dataplane.base import Sample
from weir.telemetry.jsonl import Writer, from_line, to_line

SAMPLE = Sample("eth0", "eth0", 7, 15000, 0.5, 0.25, 3000, 10_000_000, 10, 15000, 1, 2, 3, 5)

counts = st.integers(0, 2**64 - 1)
probabilities = st.floats(0, 1)
samples = st.builds(
    Sample,
    device=st.text(), port=st.text(), t_us=counts, delay_us=counts, u=probabilities, drop_probability=probabilities,
    backlog_bytes=counts, rate_bit_s=st.none() | st.integers(1, 2**64), passed_packets=counts, passed_bytes=counts,
    marks_packets=counts, drops_aqm_packets=counts, drops_limit_packets=counts, row=st.integers(0, 5),
    config_id=st.none() | counts, age_us=st.none() | counts, rate_age_us=st.none() | counts, trouble=st.text(),
)  # fmt: skip


@given(samples)
def test_what_is_written_is_read_back(sample: Sample) -> None:
    line = to_line(sample)
    assert "\n" not in line
    assert from_line(line) == sample


def test_the_keys_of_a_line_are_the_agreed_ones() -> None:
    keys = "k t_us device port backlog_bytes tau_us u drop_probability dq_rate_bit_s seen passed_bytes marks drops_aqm"
    assert list(json.loads(to_line(SAMPLE))) == [*keys.split(), "drops_limit", "row"]
    assert json.loads(to_line(SAMPLE))["seen"] == 15


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": "qdisc"}, "k = 'qdisc': not a sample; must be \"aqm\""),
        ({"t_us": -1}, "t_us = -1: must be a whole number, 0 or more"),
        ({"t_us": 1.5}, "t_us = 1.5: must be a whole number"),
        ({"row": True}, "row = True: must be a whole number"),
        ({"port": 2}, "port = 2: must be text"),
        ({"u": 1.1}, "u = 1.1: must be a probability, 0 .. 1"),
        ({"u": float("nan")}, "u = nan: must be a probability"),
        ({"drop_probability": "0"}, "drop_probability = '0': must be a probability"),
        ({"dq_rate_bit_s": 0.5}, "dq_rate_bit_s = 0.5: must be bit/s"),
        ({"config_id": "x"}, "config_id = 'x': must be a whole number"),
        ({"age_us": -1}, "age_us = -1: must be a whole number"),
        ({"trouble": 1}, "trouble = 1: must be text"),
        ({"seen": 4}, "seen = 4: below the sum of drops_aqm and drops_limit"),
        ({"backlog_bytes": None}, "backlog_bytes = None: must be"),
    ],
)
def test_a_wrong_value_is_named(change: dict, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        from_line(json.dumps({**json.loads(to_line(SAMPLE)), **change}))


def test_a_missing_key_is_named() -> None:
    record = json.loads(to_line(SAMPLE))
    del record["tau_us"]
    with pytest.raises(ValueError, match="tau_us is missing"):
        from_line(json.dumps(record))


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_nonsense_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        from_line(text)


def test_lines_are_appended_and_a_half_line_is_not_continued(tmp_path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"k":"aq')
    for line in ("a", "b"):
        with Writer(path) as writer:
            writer.write(line, line)
    assert path.read_text() == '{"k":"aq\na\na\nb\nb\n'


def test_a_device_that_is_always_full(tmp_path) -> None:
    said: list[str] = []
    with Writer("/dev/full", said.append) as writer:
        for _ in range(3):
            writer.write("a", "b")
        assert len(said) == 1
        assert writer.dropped == 6
    assert re.search(r"/dev/full: .*; lines are dropped", said[0])
    assert said[1:] == ["/dev/full: 6 lines are missing at its end"]


def test_a_disk_that_fills_and_empties(tmp_path) -> None:
    room, said = tmp_path / "room", []
    room.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "weir", room], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting a small file system: {done.stderr.strip()}")
    try:
        with Writer(room / "s.jsonl", said.append) as writer:
            line = "x" * 999
            for _ in range(20):
                writer.write(*[line] * 10)  # three times what there is room for; one write ends in the middle of a line
            assert len(said) == 1
            dropped = writer.dropped
            lines = (room / "s.jsonl").read_text().splitlines()
            assert set(lines) == {line}
            assert len(lines) + dropped == 200
            assert 0 < len(lines) < 66
            os.truncate(room / "s.jsonl", 0)
            writer.write("y")
            assert said[1:] == [f"{room / 's.jsonl'}: can be written again; {dropped} lines are missing"]
        assert (room / "s.jsonl").read_text() == "y\n"
    finally:
        subprocess.run(["umount", room], check=True)


def test_a_file_that_cannot_be_opened_is_told_at_once(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        Writer(tmp_path / "no" / "such")
