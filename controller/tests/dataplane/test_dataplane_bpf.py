# SPDX-License-Identifier: Apache-2.0
"""BpfDevice with a weir-xdp that answers nonsense, or not at all. The real one: tests/packet."""

import json
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dataplane import bpf
from weir.dataplane.base import DataPlaneError, Down, Note, Sample, Up
from weir.dataplane.bpf import BpfDevice
from weir.resources import PROFILES
from weir.settings import load

TUNED = load(PROFILES / "tuned.toml")
NEW = {
    "k": "new", "t_us": 1, "dev": "eth0", "netns": "", "netns_inode": 7, "signal": "veth", "attach_id": 5,
    "config_id": 9, "gains": asdict(TUNED),
}  # fmt: skip
AQM = {
    "k": "aqm", "t_us": 1000, "dev": "eth0", "hop": "bottleneck", "backlog_bytes": 3000, "backlog_packets": 2,
    "tau_us": 2400, "u": 0.5, "drop_probability": 0.25, "dq_rate_bit_s": 10000000, "seen": 100, "passed_bytes": 90000,
    "marks": 5, "drops_aqm": 7, "drops_limit": 3, "row": 5, "config_id": 9,
}  # fmt: skip


def weir_xdp(folder: Path, *lines: str, then: str = "exec sleep 60") -> str:
    """A command that prints these lines for any request."""
    (folder / "said").write_text("".join(f"{line}\n" for line in lines))
    path = folder / "weir-xdp"
    path.write_text(f"#!/bin/sh\ncat {folder}/said\n{then}\n")
    path.chmod(0o755)
    return str(path)


def told(command: str, count: int, **options: object) -> list:
    """The first events of a device under this command."""
    events = SimpleQueue()
    device = BpfDevice("here", ["eth0"], command=command, **options)
    device.start(events)
    try:
        return [events.get(timeout=60) for _ in range(count)]
    finally:
        device.close()


def test_a_sample_is_what_the_line_says(tmp_path: Path) -> None:
    up, sample = told(weir_xdp(tmp_path, json.dumps(NEW), json.dumps(AQM)), 2)
    assert up == Up("here", {"eth0": TUNED})
    assert sample == Sample("here", "eth0", 1000, 2400, 0.5, 0.25, 3000, 10**7, 90, 90000, 5, 7, 3, 5, 9)
    [_, sample] = told(weir_xdp(tmp_path, json.dumps(NEW), json.dumps({**AQM, "dq_rate_bit_s": 0})), 2)
    assert sample.rate_bit_s is None
    more = {"age_us": 7, "rate_age_us": 8, "trouble": "netem came"}
    [_, sample] = told(weir_xdp(tmp_path, json.dumps(NEW), json.dumps({**AQM, **more})), 2)
    assert (sample.age_us, sample.rate_age_us, sample.trouble) == (7, 8, "netem came")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1]", "watch: "),
        ("{", "watch: Expecting property name"),
        ('{"k": "surprise"}', "no such kind of line"),
        (json.dumps({**AQM, "dev": "eth1"}), "a sample of a queue that was not announced"),
        (json.dumps({key: value for key, value in AQM.items() if key != "seen"}), "'seen'"),
        (json.dumps({**AQM, "t_us": "now"}), "'now': must be a whole number"),
        (json.dumps({**AQM, "marks": -1}), "-1: must be a whole number"),
        (json.dumps({**AQM, "age_us": -2}), "-2: must be a whole number"),
        (json.dumps({**AQM, "trouble": 3}), "trouble = 3: must be text"),
        (json.dumps({**AQM, "u": 1.5}), "must be 0 .. 1"),
        (json.dumps({**AQM, "u": float("nan")}), "must be 0 .. 1"),
        (json.dumps({**NEW, "dev": 5}), "dev = 5: must be text"),
        (json.dumps({**NEW, "gains": {"kp": 1}}), "gains: target_us is missing"),
        (json.dumps({**NEW, "gains": {**asdict(TUNED), "kpp": 1}}), "gains: 'kpp' is unknown"),
        (json.dumps({**NEW, "gains": [1]}), "gains = [1]: must be a table"),
        (json.dumps({**NEW, "gains": {**asdict(TUNED), "z3": 2.0}}), "z3 = 2.0: must be above 0 and below 1"),
        ("x" * (1 << 21), "watch: "),
    ],
)
def test_nonsense_is_told_and_the_watch_started_anew(tmp_path: Path, line: str, words: str) -> None:
    events = told(weir_xdp(tmp_path, json.dumps(NEW), json.dumps(AQM), line), 4)
    assert [type(event) for event in events] == [Up, Sample, Down, Up]
    assert "invalid output of" in events[2].why
    assert words in events[2].why
    assert len(events[2].why) < 500
    assert events[2].retry_s == 0.5


def test_a_line_cut_short_by_the_end_is_none(tmp_path: Path) -> None:
    (tmp_path / "rest").write_text(json.dumps(AQM)[:50])
    command = weir_xdp(tmp_path, json.dumps(NEW), json.dumps(AQM), then=f"cat {tmp_path}/rest; exit 3")
    assert told(command, 3)[2].why == f"{command} watch ended with status 3"


def test_the_last_words_of_a_watch_are_told(tmp_path: Path) -> None:
    command = weir_xdp(tmp_path, then="echo first >&2; echo 'weir-xdp: out of luck' >&2; exit 1")
    downs = told(command, 3)
    assert downs == [Down("here", "out of luck", retry_s) for retry_s in (0.5, 1.0, 2.0)]


def test_no_weir_xdp_at_all(tmp_path: Path) -> None:
    command = str(tmp_path / "nix")
    assert told(command, 1) == [Down("here", f"{command}: No such file or directory", 0.5)]
    with pytest.raises(DataPlaneError, match=r"device here: .*nix: No such file"):
        BpfDevice("here", command=command).read_gains()


def test_a_watch_that_says_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf, "_SILENCE_S", 0.05)
    command = weir_xdp(tmp_path)
    assert told(command, 1, every_ms=1) == [Down("here", f"{command} watch prints nothing for 0.05 s", 0.5)]


def test_gaps_repeats_and_time_going_back_are_told(tmp_path: Path) -> None:
    lines = [json.dumps({**AQM, "t_us": t_us}) for t_us in (10_000_000, 20_000_000, 20_000_000, 15_000_000, 15_100_000)]
    events = told(weir_xdp(tmp_path, json.dumps(NEW), *lines), 7)
    assert events[2] == Note("here", "eth0", "no sample for 10.0 s")
    assert events[4] == Note("here", "eth0", "a sample twice")
    assert events[5] == Note("here", "eth0", "time went back by 5.000000 s")
    assert [event.t_us for event in events if isinstance(event, Sample)] == [10_000_000, 20_000_000, 15_100_000]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "invalid output"),
        ("{}", "invalid output"),
        ('[{"dev": "eth0"}]', "invalid output"),
        ("[", "invalid output"),
        ("[]", "no port eth0: the law is on none"),
    ],
)
def test_a_status_that_is_none(tmp_path: Path, said: str, words: str) -> None:
    device = BpfDevice("here", ["eth0"], command=weir_xdp(tmp_path, said, then="exit 0"))
    with pytest.raises(DataPlaneError, match=f"device here: .*{words}"):
        device.read_gains()


def test_a_set_that_does_something_else_is_told(tmp_path: Path) -> None:
    status = json.dumps([{"dev": "eth0", "gains": asdict(TUNED), "netns_inode": 7}])
    device = BpfDevice("here", ["eth0"], command=weir_xdp(tmp_path, status, then="exit 0"))
    with pytest.raises(DataPlaneError, match="device here, port eth0: invalid output of"):
        device.write_gains("eth0", TUNED)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*AQM, *NEW]), inner, max_size=5),
)


@given(st.lists(st.one_of(_JSON, st.builds(lambda a, b: {**a, **b}, st.sampled_from([NEW, AQM]), st.dictionaries(
    st.sampled_from([*AQM, *NEW]), _JSON, max_size=2)), st.sampled_from([NEW, AQM])), max_size=6))  # fmt: skip
def test_no_line_breaks_the_listener(lines: list) -> None:
    """Any line is accepted or rejected with a ValueError's kind; samples are complete."""
    device = BpfDevice("here")
    device._events = SimpleQueue()
    for line in lines:
        try:
            device._line(json.dumps(line).encode())
        except bpf.NONSENSE:
            break
    while not device._events.empty():
        event = device._events.get()
        if isinstance(event, Sample):
            assert 0 <= event.u <= 1
            assert event.passed_packets >= 0


def test_a_namespace_that_is_not_there_is_named(tmp_path: Path) -> None:
    [down] = told(weir_xdp(tmp_path), 1, netns="nonspace")
    assert down.why == "there is no network namespace nonspace (/run/netns/nonspace)"
    with pytest.raises(DataPlaneError, match="device here: there is no network namespace nonspace"):
        BpfDevice("here", ["eth0"], netns="nonspace", command=weir_xdp(tmp_path)).read_gains()
