# SPDX-License-Identifier: Apache-2.0
"""Reading trajectories: what a sender wrote is taken, everything else is refused with its place."""

import json

import made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirtrain.trajectory import TrajectoryError, read

WHOLE = made.content([made.head(), made.step(0), made.step(1, acked_bytes=7), made.end(2)])


def test_a_whole_file():
    found = read(WHOLE, "T", "0" * 64)
    assert found.whole
    assert len(found) == 2
    assert found.state.tolist() == [made.STATE] * 2
    assert found.numbers["acked_bytes"].tolist() == [10_000, 7]
    assert found.by_policy.all()


@given(st.integers(0, len(WHOLE)))
def test_a_file_cut_anywhere_gives_its_whole_lines(cut):
    lines = WHOLE[:cut].count(b"\n")
    if lines == 0:
        with pytest.raises(TrajectoryError, match="no whole line"):
            read(WHOLE[:cut], "T")
    else:
        found = read(WHOLE[:cut], "T")
        assert len(found) == min(lines - 1, 2)
        assert found.whole == (lines == 4)


def test_a_missing_sample_is_the_last_one_known():
    records = [made.head(), made.step(0, rtt_last_us=44_000), made.step(1, rtt_last_us=None, rtt_mean_us=None)]
    found = read(made.content(records), "T")
    assert found.numbers["rtt_last_us"].tolist() == [44_000, 44_000]
    assert found.numbers["rtt_mean_us"].tolist() == [30_000, 30_000]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([made.step(0)], "T:1: k is 'step', expected 'trajectory'"),
        ([made.head() | {"version": 2}], "T:1: version is 2, expected 1"),
        ([made.head("f" * 64)], "T:1: weights is 'ffff"),
        ([made.head() | {"inputs": []}], "T:1: inputs"),
        ([made.head() | {"history": 0}], "T:1: inputs"),
        ([made.head(), made.step(1)], "T:2: n is 1, expected 0"),
        ([made.head(), made.step(0, state=[1.0])], "T:2: state is"),
        ([made.head(), made.step(0, state=[1.0, None])], "T:2: state is None, expected a finite number"),
        ([made.head(), made.step(0, drawn=float("nan"))], "T:2: drawn is nan"),
        ([made.head(), made.step(0, acked_bytes="9")], "T:2: acked_bytes is '9'"),
        ([made.head(), made.step(0, rtt_last_us=None)], "T:2: rtt_last_us is null"),
        ([made.head(), made.end(1)], "T:2: steps is 1, expected 0"),
        ([made.head(), made.end(0), made.step(0)], "T:3: a line behind the end"),
        ([made.head(), ["step"]], "T:2: .*expected a JSON object"),
    ],
)
def test_what_does_not_fit_is_refused(records, words):
    with pytest.raises(TrajectoryError, match=words):
        read(made.content(records), "T", "0" * 64)


def test_what_is_no_json_is_refused():
    with pytest.raises(TrajectoryError, match="T:2: not JSON"):
        read(made.content([made.head()]) + b"{\n", "T")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    try:
        read(json.dumps(made.head()).encode() + b"\n" + content, "T")
        read(content, "T")
    except TrajectoryError:
        pass
