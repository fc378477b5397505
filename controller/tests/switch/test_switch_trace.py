# SPDX-License-Identifier: Apache-2.0
"""`weir p4 trace`: lines to trees, filters, and lines that are none."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.commands import p4 as cli
from weir.switch import trace

INGRESS = {
    "v": 1, "packet": 4, "pass": 7, "stage": "ingress", "kind": "normal", "time_us": 1_500_000, "port": 1, "length": 64,
    "events": [
        {"event": "state", "state": "start", "parser": "P", "at": "a.p4:9", "source": "state start {"},
        {"event": "select", "values": ["0x0800"]},
        {"event": "transition", "next": "accept"},
        {"event": "verify_checksum", "right": False},
        {"event": "update_checksum", "condition": False},
        {"event": "extract", "header": "ip", "fixed_bytes": 20},
        {"event": "condition", "value": True, "at": "a.p4:30", "source": "if (h.ip.isValid()) {"},
        {"event": "random", "value": "0x4", "lowest": "0x0", "highest": "0x7"},
        {
            "event": "table", "table": "I.paths", "hit": True, "action": "I.out", "params": {"port": "0x002"},
            "keys": [{"name": "h.ip.dst", "match": "lpm", "value": "0x0a000001"}], "group": 1, "member": 2,
            "entry": {"handle": 3, "keys": ["0x0a000000/8"], "priority": 5},
            "outcomes": [
                {"member": 1, "action": "I.out", "params": {"port": "0x001"}, "weight": 1},
                {"member": 2, "action": "I.out", "params": {"port": "0x002"}, "weight": 3},
            ],
        },
        {"event": "from_a_later_version", "value": 3},
    ],
    "results": [
        {"result": "queue", "pass": 8, "kind": "normal", "port": 2, "priority": 0},
        {"result": "queue", "pass": 9, "kind": "ingress_clone", "port": 3, "priority": 0, "rid": 6},
    ],
}  # fmt: skip
EGRESS = {
    "v": 1, "packet": 4, "pass": 8, "parent": 7, "stage": "egress", "kind": "normal", "time_us": 1_500_009, "port": 2,
    "length": 64, "queue": {"priority": 0, "enq_depth": 1, "deq_depth": 0, "waited_us": 9}, "events": [],
    "results": [{"result": "sent", "port": 2, "length": 60}],
}  # fmt: skip
LOST = {
    "v": 1, "packet": 4, "pass": 9, "parent": 7, "stage": "queue", "time_us": 1_500_000, "port": 3,
    "results": [{"result": "drop", "reason": "the queue is full"}],
}  # fmt: skip
TREE = """\
packet 4: 64 bytes on port 1 at 1.500000 s
└─ ingress
   ├─ state start  [a.p4:9]
   ├─ select 0x0800
   ├─ accept
   ├─ checksum is wrong
   ├─ update_checksum: condition is false
   ├─ extract: header ip, fixed_bytes 20
   ├─ condition is true  [a.p4:30] if (h.ip.isValid()) {
   ├─ random 0x4 of 0x0 .. 0x7
   ├─ table I.paths: hit
   │  ├─ key h.ip.dst = 0x0a000001 (lpm)
   │  ├─ entry 3: 0x0a000000/8, priority 5
   │  ├─ member 2: I.out(port=0x002)
   │  └─ possible outcomes of group 1
   │     ├─ - member 1: I.out(port=0x001)
   │     └─ * member 2: I.out(port=0x002), weight 3
   ├─ from_a_later_version: value 3
   ├─ to port 2
   │  └─ egress of port 2: waited 9 us, priority 0, depth 1 packets
   │     └─ sent: 60 bytes on port 2
   └─ to port 3 (ingress_clone), rid 6
      └─ queue
         └─ dropped: the queue is full
"""


def written(tmp_path: Path, *lines: object) -> str:
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(file)


def test_a_packet_is_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", written(tmp_path, EGRESS, INGRESS, LOST)]) == 0
    assert capsys.readouterr().out == TREE


@pytest.mark.parametrize(
    ("words", "is_printed"),
    [
        ("--packet 4", True), ("--port 1", True), ("--port 2", True), ("--port 3", False), ("--table paths", True),
        ("--table I.paths", True), ("--table path", False), ("--dropped", True), ("--dropped --port 3", False),
    ],
)  # fmt: skip
def test_filters(words: str, is_printed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", written(tmp_path, INGRESS, EGRESS, LOST), *words.split()]) == (0 if is_printed else 1)
    assert (capsys.readouterr().out != "") == is_printed


SENT = [
    {**INGRESS, "packet": 5, "pass": 10, "port": 12, "events": [], "results": [{"result": "sent", "port": 2}]},
    {**INGRESS, "packet": 6, "pass": 11, "results": [{"result": "sent", "port": "x"}]},
]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--port 9", "no packet matches --port 9; packets in the trace: 2; ports: 1, 2, 12"),
        ("--table nope", "no packet matches --table nope; packets in the trace: 2; tables: I.paths"),
        ("--dropped", "no packet matches --dropped; packets in the trace: 2\n"),
        (
            "--port 1 --table nope --dropped",
            "no packet matches --port 1 --table nope --dropped; packets in the trace: 2; ports: 1, 2, 12; "
            "tables: I.paths",
        ),
        (
            "--packet 5 --table paths",
            "packet 5: no packet matches --table paths; packets in the trace: 1; tables: none",
        ),
    ],
)
def test_filters_that_match_nothing_are_reported_with_names_that_match(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["trace", written(tmp_path, *SENT), *words.split()]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert cli.main(["trace", written(tmp_path)]) == 0  # no filter, no packets


def test_standard_input_begins_with_the_switch_s_own_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["ready: 2 ports", json.dumps({"v": 1, "lines_lost": 3}), *map(json.dumps, (INGRESS, EGRESS, LOST))]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert cli.main(["trace"]) == 0
    said = capsys.readouterr()
    assert said.out == TREE
    assert "3 lines were lost" in said.err


def test_missing_lines_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", written(tmp_path, EGRESS)]) == 0
    assert capsys.readouterr().out.startswith("packet 4: its beginning is not in the trace\n└─ egress of port 2")
    assert cli.main(["trace", written(tmp_path, INGRESS)]) == 0
    assert capsys.readouterr().out.count("no more lines") == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "trace.jsonl:2: not a line of JSON, as `weir-switch --trace FILE` writes them"),
        ("[1]", "trace.jsonl:2: not a line of a trace: has no version `v`"),
        ({**INGRESS, "v": 2}, "trace.jsonl:2: version 2 of the format; this command reads version 1"),
        ({"v": 1, "packet": 1}, "trace.jsonl:2: `packet`, `pass`, `stage` or `results` is missing"),
        ({**INGRESS, "results": [3]}, "is missing or of another type"),
    ],
)
def test_a_line_that_is_none_is_named(
    line: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["trace", written(tmp_path, LOST, line)]) == 1
    assert message in capsys.readouterr().err


def test_a_packet_that_is_not_there_and_a_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["trace", written(tmp_path, INGRESS), "--packet", "5"]) == 1
    assert "packet 5 is not in the trace" in capsys.readouterr().err
    assert cli.main(["trace", str(tmp_path / "none")]) == 2
    assert "none: No such file" in capsys.readouterr().err


def test_a_followed_file_may_be_replaced(tmp_path: Path) -> None:
    file = Path(written(tmp_path, INGRESS))
    steps = iter(
        [
            lambda: file.open("a").write(json.dumps(EGRESS)[:20]),
            lambda: file.open("a").write(json.dumps(EGRESS)[20:] + "\n"),
            lambda: (file.rename(tmp_path / "trace.jsonl.1"), written(tmp_path, LOST)),
        ]
    )
    lines = trace.read(str(file), follow=True, sleep=lambda _: next(steps)())
    assert [next(lines)["pass"] for _ in range(3)] == [7, 8, 9]


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_any_json_is_a_line_or_an_error(value: object) -> None:
    with pytest.raises(trace.TraceError):
        trace.parse(json.dumps(value), "x")
