# SPDX-License-Identifier: Apache-2.0
"""State that one tuner leaves for the next."""

import dataclasses

import pytest

from weir.resources import PROFILES
from weir.settings import load
from weir.tuner.memory import Memory

TUNED = load(PROFILES / "tuned.toml")
LOW = dataclasses.replace(TUNED, target_us=6_000)
PLACES = ["4026531840-eth0", "10.0.0.1:9559,0,2", "unix:/run/a b.sock,0,2"]


@pytest.mark.parametrize("place", PLACES)
def test_gains_before_and_after_a_write_are_a_tuners(tmp_path, place):
    memory, lower = Memory(tmp_path), dataclasses.replace(LOW, target_us=4_000)
    memory.keep(place, 15_000, TUNED, LOW)
    assert memory.recall(place, TUNED) is None  # those are an operator's, whoever finds them later
    memory.keep(place, 15_000, LOW, lower)
    next_one = Memory(tmp_path)
    assert next_one.recall(place, LOW) == next_one.recall(place, lower) == 15_000
    assert next_one.recall(place, dataclasses.replace(LOW, kp=1.0)) is None  # an operator's
    assert next_one.recall(place + "x", LOW) is None


def test_with_the_operators_target_in_force_there_is_nothing_to_keep(tmp_path):
    memory = Memory(tmp_path)
    memory.keep("p", 15_000, TUNED, LOW)
    memory.keep("p", 15_000, LOW, TUNED)
    assert memory.recall("p", LOW) == 15_000
    memory.keep("p", 15_000, TUNED, dataclasses.replace(TUNED, kp=50.0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target_us", [15_000, 6_000])
def test_a_write_that_was_refused_is_not_remembered(tmp_path, target_us):
    """The second tuner of a port is: what the first knows stays."""
    Memory(tmp_path).keep("p", 15_000, TUNED, LOW)
    second = Memory(tmp_path)
    before = second.keep("p", target_us, LOW, dataclasses.replace(LOW, kp=2.0))
    second.put_back("p", before)
    assert Memory(tmp_path).recall("p", LOW) == 15_000
    before = second.keep("q", 15_000, TUNED, LOW)
    second.put_back("q", before)
    assert Memory(tmp_path).recall("q", LOW) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"target_us": 5}', '{"target_us": "5", "of": []}',
                                  '{"target_us": 5, "of": 1}', '{"target_us": true, "of": ["MARK"]}',
                                  '{"target_us": 99999999, "of": ["MARK"]}', "\udcff"])  # fmt: skip
def test_a_damaged_file_says_nothing(tmp_path, text):
    memory = Memory(tmp_path)
    memory.keep("p", 15_000, TUNED, LOW)
    (path,) = tmp_path.iterdir()
    text = text.replace("MARK", repr(LOW.to_params()))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert memory.recall("p", LOW) is None


def test_what_can_not_be_written_is_an_error_and_leaves_no_draft(tmp_path):
    memory = Memory(tmp_path)
    memory.keep("p", 15_000, TUNED, LOW)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        memory.keep("p", 15_000, TUNED, LOW)
    assert list(tmp_path.iterdir()) == [path]
    assert Memory(None).recall("p", LOW) is None
    Memory(None).keep("p", 15_000, TUNED, LOW)
