# SPDX-License-Identifier: Apache-2.0
import copy
import json

import generated_samples
import pytest

from weirlab.evaluation.matrix import courses as matrix_courses

pytestmark = pytest.mark.pictures

CAPTURED = generated_samples.CAPTURED
SPEC = {
    "duration_s": 4.0,
    "warmup_s": 1.0,
    "flows": [{"kind": "tcp", "count": 2, "start_s": 0.0, "stop_s": 4.0}],
    "link": {"access": {"delay_ms": 1.0}, "bottleneck": {"rate_mbit_s": 10.0, "delay_ms": 50.0}},
}
T0_US = 1_000_000


def lines():
    found = [{"k": "start", "t_us": T0_US}]
    found += [{"k": "hop", "hop": hop, "propagation_us": 0} for hop in ("bottleneck", "egress")]
    for second, delay_us in enumerate((1000, 3000, 5000)):  # nothing in the fourth
        for n in (1, 2):
            t_us = T0_US + second * 1_000_000 + n * 100_000
            found.append(
                {"k": "pkt", "t_us": t_us, "hop": "bottleneck", "sojourn_us": n * delay_us, "bytes": 1500, "ce": 0}
            )
    for index, share in enumerate((1, 3)):
        for t in range(5):
            line = {"k": "flow", "t_us": T0_US + t * 1_000_000, "flow": f"0.{index}"}
            found.append({**line, "side": "server", "bytes": share * 125_000 * t})
            found.append({**line, "side": "client", "bytes": 0, "rtt_us": 100_000 * share})
    found += [
        {"k": "qdisc", "t_us": T0_US + t * 1_000_000, "hop": "bottleneck", "drops_qdisc": 10 * t} for t in range(5)
    ]
    found += [{"k": "lost", "t_us": T0_US + 2_500_000, "hop": hop, "bytes": 1500} for hop in ("bottleneck", "egress")]
    return found


def test_a_course_done_by_hand(tmp_path):
    found = matrix_courses.course(generated_samples.write(tmp_path / "samples.jsonl", lines()), SPEC)
    assert found == {
        "t_s": [0.5, 1.5, 2.5, 3.5],
        "goodput_kbit_s": [2000, 2000, 2000, 2000],
        "delay_ms": [1.5, 4.5, 7.5, None],
        "rtt_ms": [200, 200, 200, 200],
        "lost_packets": [10, 20, 31, 41],
        "received_packets": [2, 4, 6, 6],
    }


def test_without_counters_what_never_came_out_is_lost(tmp_path):
    records = [line for line in lines() if line["k"] != "qdisc"]
    found = matrix_courses.course(generated_samples.write(tmp_path / "samples.jsonl", records), SPEC)
    assert found["lost_packets"] == [0, 0, 2, 2]
    found = matrix_courses.course(tmp_path / "samples.jsonl", {**SPEC, "sample_one_in": 5})
    assert found["lost_packets"] == [0, 0, 6, 6]


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_picture_of_captured_runs(seeds):
    courses = {}
    for name in ("pie", "tuned"):
        spec = json.loads((CAPTURED / f"{name}.spec.json").read_text())
        first = matrix_courses.course(CAPTURED / f"{name}.jsonl.gz", spec)
        other = copy.deepcopy(first)
        other["delay_ms"] = [None if v is None else 2 * v for v in other["delay_ms"]]
        courses[name] = [json.loads(json.dumps(run)) for run in (first, other)[:seeds]]
    found = matrix_courses.pictures({"table2-x": courses})
    assert list(found) == ["table2-x"]
    assert found["table2-x"].startswith(b"\x89PNG")
    assert 5_000 < len(found["table2-x"]) < 200_000
