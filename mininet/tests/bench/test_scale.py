# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of `./run bench scale`, and what it says to a wrong call."""

import json
import os
import subprocess
import sys

import pytest

from weirlab import paths
from weirlab.bench.names import BenchError
from weirlab.bench.scale import __main__ as scale
from weirlab.bench.scale import names, switch
from weirlab.bench.scale.common import anchor, cpu_us, resident_kb, told


def chain_row(way: str, receivers: int, **changes: float) -> dict:
    row = {
        "way": way, "receivers": receivers, "publisher_us": 80_000, "cache_us": 60_000, "server_us": 24_000,
        "switch_us": 160_000, "receivers_us": 145_640, "answers": 8000, "asked": 8000, "forwarded": 32_000,
    }  # fmt: skip
    return row | changes


def chain_rows() -> list[dict]:
    rows = []
    for repetition in range(3):
        rows.append(chain_row("miss", 1, cache_kb=10_000 + 7282 * 2 * repetition))
        rows += [chain_row("hit", receivers, asked=7282 * receivers) for receivers in names.AT_ONCE]
        rows.append(chain_row("unicast", 1, asked=2000, publisher_us=repetition))
    return rows


def in_process(median_us: float, **what) -> dict:
    return {"program": "edge.p4", "median_ns": median_us * 1e3, "least_ns": 1, "most_ns": 1e9, **what}


def found() -> dict:
    usual = {"entries": 512, "askers": 4}
    rows = [
        in_process(9, ports=10, destinations=500),
        in_process(2, ports=10, destinations=10_000),
        in_process(3, what="Interest forwarded", **usual),
        in_process(2.5, what="Interest merged", **usual),
        in_process(4, what="Data to 1 port", **usual),
        in_process(64, what="Data to 16 ports", entries=512, askers=16),
    ]
    cost = {"median": 3000.0, "least": 2000.0, "most": 4000.0}
    members = [
        {"where": "publisher", "members": 100, "publisher us": cost},
        {"where": "edge server", "members": 100, "publisher us": cost | {"median": 300.0}, "edge server us": cost},
    ]
    rows_of_chain = chain_rows()
    chain = {"rows": rows_of_chain, "costs": names.chain_costs(rows_of_chain)}
    return {"bench": "scale", "switch": rows, "names": chain, "members": members}


def test_costs_of_a_chain_are_times_over_packets():
    costs = names.chain_costs(chain_rows())
    assert costs["publisher_data_us"] == {"median": 10, "least": 10, "most": 10}
    assert costs["cache_miss_us"]["median"] == 7.5
    assert costs["receiver_data_us"]["median"] == 145_640 / 7282
    assert costs["switch_names_us"]["median"] == 5
    assert costs["sender_packet_us"]["median"] == 3
    assert costs["quic_acks"]["median"] == 0.25
    assert costs["cache_answers_a_segment_4"]["median"] == 4
    assert costs["cache_kb_a_segment"] == 2
    assert "cache_kb_a_segment" not in names.chain_costs(chain_rows()[: len(chain_rows()) // 3])


def test_a_tree_is_computed_with_what_was_measured():
    costs = scale.costs(found())
    assert (costs.switch_interest_us, costs.switch_merged_us, costs.switch_data_us) == (3, 2.5, 4)
    assert costs.switch_copy_us == (64 - 4) / 15
    assert costs.switch_ip_us == 2
    assert (costs.publisher_member_us, costs.publisher_behind_edge_us, costs.edge_member_us) == (3000, 300, 3000)
    # Of a segment: two Interests, Data to two ports; three frames came and four went.
    of_a_segment = 2 * 3 + 4 + costs.switch_copy_us + 3.5 * costs.switch_io_us
    assert of_a_segment == pytest.approx(4 * 5)


@pytest.mark.parametrize("part", ["switch", "names", "members"])
def test_without_a_part_there_is_no_tree(part):
    rest = found()
    del rest[part]
    with pytest.raises(BenchError, match=f"no figures of {part}"):
        scale.costs(rest)


def test_what_was_measured_earlier_is_shown_with_its_trees(tmp_path, capsys, monkeypatch):
    file = tmp_path / "earlier.json"
    whole = found() | {"anchor_ms": [anchor(1), anchor(1)]}
    file.write_text(json.dumps(whole))
    monkeypatch.setattr(sys, "argv", ["scale", "--from", str(file), "--receivers", "30", "--json"])
    assert scale.main() == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["receivers"] for row in said["trees"]} == {30}
    assert said["costs"]["switch_ip_us"] == 2


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file"), ("{", "must be what --json printed"), ("[]", "is not of this bench")]
)
def test_a_file_that_is_not_ours_is_refused(text, why, tmp_path, capsys, monkeypatch):
    file = tmp_path / "earlier.json"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["scale", "--from", str(file)])
    assert scale.main() == 1
    said = capsys.readouterr().err
    assert str(file) in said
    assert why in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--repetitions", "0"], "must be 1 or more"),
        (["--receivers", "1001"], "must be 1 to 1000"),
        (["--fan-out", "31"], "must be 1 to 30"),
        (["--only", "switches"], "invalid choice: 'switches'"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_measured(words, why, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scale", *words])
    with pytest.raises(SystemExit) as ended:
        scale.main()
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_help_names_the_parts():
    environment = {**os.environ, "PYTHONPATH": str(paths.clone() / "mininet")}
    words = [sys.executable, "-m", "weirlab.bench.scale", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    assert all(part in done.stdout for part in scale.PARTS)


def test_frames_are_ip_packets_to_the_next_host():
    frame = switch.frame(300)
    header = frame[14:34]
    assert len(frame) == 1000
    assert int.from_bytes(header[2:4]) == len(frame) - 14
    assert ".".join(map(str, header[16:20])) == switch.station(300)[0] == "10.1.44.2"
    total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, 20, 2))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # RFC 791: with the checksum in it the sum is all ones


def test_a_process_has_used_time_and_has_memory():
    assert cpu_us(os.getpid()) > 0
    assert resident_kb(os.getpid()) > 1000


def test_a_command_that_fails_says_why():
    assert told("it", ["echo", "well"]) == "well\n"
    with pytest.raises(BenchError, match="it: no such luck"):
        told("it", ["sh", "-c", "echo no such luck >&2; exit 3"])
