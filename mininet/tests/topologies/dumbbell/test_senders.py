# SPDX-License-Identifier: Apache-2.0
"""Figures of scenarios that compare senders: the arithmetic by hand and by properties, and what a file may say."""

import json

import generated_samples
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab import paths
from weirlab.lab.kernels import LabError
from weirlab.metrics.samples import SamplesError
from weirlab.scenario.errors import ScenarioError
from weirlab.topologies.dumbbell.drive import Drive
from weirlab.topologies.dumbbell.fairness import BAND, convergence_s, jain_index
from weirlab.topologies.dumbbell.metrics import compute
from weirlab.topologies.dumbbell.quic_programs import burst_words
from weirlab.topologies.dumbbell.senders import COURSE_S, METRICS
from weirlab.topologies.dumbbell.topology import Dumbbell

T0_US = 1_000_000
rates = st.floats(min_value=0.01, max_value=1e9)


def flow(kind, **more):
    return {"kind": kind, "count": 1, "start_s": 0.0, "stop_s": 20.0, "payload_bytes": 1400, **more}


SPEC = {
    "compares": "senders",
    "duration_s": 20.0,
    "warmup_s": 2.0,
    "reference_target_ms": 15.0,
    "link": {"access": {"delay_ms": 1.0}, "bottleneck": {"rate_mbit_s": 10.0, "delay_ms": 50.0}},
    "aqm": {"qdisc": "pfifo"},
    "flows": [flow("quic-download"), flow("tcp", start_s=5.0), flow("udp", neighbour=True)],
}


def course(name, side, per_s, **more):
    """Samples each 100 ms of an end whose counts grow by so much a second from the time when it begins."""
    begins_s = more.pop("begins_s", 0.0)
    found = []
    for tenth in range(201):
        run_s = max(0.0, tenth / 10 - begins_s)
        counts = {key: round(value * run_s) for key, value in per_s.items()}
        line = {"k": "flow", "t_us": T0_US + tenth * 100_000, "flow": name, "side": side, **counts, **more}
        found.append({"bytes": 0, **line})
    return found


def lines():
    """The QUIC flow has 400 kB/s, the TCP flow 100 kB/s until 12 s and 400 kB/s then, the competing flow 200 kB/s."""
    change_s, tcp = 12.0, course("1.0", "server", {"bytes": 100_000, "recv": 100}, begins_s=5.0)
    for line in tcp:
        line["bytes"] += round(300_000 * max(0.0, (line["t_us"] - T0_US) / 1e6 - change_s))
    decided = {"made": 180, "outside": 9, "by_bbr": 0}
    packets = [
        {"k": "pkt", "t_us": T0_US + n * 10_000, "hop": "bottleneck", "sojourn_us": 1000, "bytes": 1014, "ce": 0}
        for n in range(2000)
    ]
    return [
        {"k": "start", "t_us": T0_US},
        {"k": "hop", "hop": "bottleneck", "propagation_us": 0},
        *packets,
        *course("0.0", "client", {"bytes": 400_000, "recv": 300}),
        *course("0.0", "server", {"sent": 310, "lost": 10}, rtt_us=110_000),
        {"k": "end", "t_us": T0_US + 20_100_000, "flow": "0.0", "side": "server", "bytes": 1, "decisions": decided},
        *tcp,
        *course("1.0", "client", {"sent": 110, "lost": 0}, begins_s=5.0, rtt_us=130_000),
        *course("2.0", "server", {"bytes": 200_000, "recv": 100}),
    ]


@pytest.fixture
def run(tmp_path):
    def compute_lines(records, spec=SPEC):
        return compute(generated_samples.write(tmp_path / "samples.jsonl", records), spec)

    return compute_lines


def test_figures_done_by_hand(run):
    found = run(lines())
    tcp_bytes = 100_000 * 15 + 300_000 * 8
    expected_mbit_s = (400_000 * 18 + tcp_bytes) * 8 / 18e6
    assert found["throughput_mbit_s"] == pytest.approx(expected_mbit_s, abs=1e-5)
    assert found["neighbour_mbit_s"] == pytest.approx(1.6, abs=1e-5)
    assert found["neighbour_share"] == pytest.approx(1.6 / (expected_mbit_s + 1.6), abs=1e-5)
    # From 2 to 20 s the flows under test got 18 * 300 QUIC packets and 15 * 100 TCP packets, the competing flow 1800 of
    # UDP.
    quic, tcp, udp = 18 * 300 * 1428, 15 * 100 * 1452, 18 * 100 * 1428
    wire_mbit_s = 100 * 1000 * 8 / 1e6
    assert found["wire_mbit_s"] == pytest.approx(wire_mbit_s * (quic + tcp) / (quic + tcp + udp), abs=1e-5)
    # QUIC has 180 samples of its round trip after the warm-up, and so has TCP.
    assert (found["rtt_mean_ms"], found["rtt_p95_ms"]) == (120.0, 130.0)
    assert found["loss_percent"] == pytest.approx(100 * 180 / (18 * 310 + 15 * 110), abs=1e-5)
    assert found["decisions_outside_percent"] == 5.0
    assert found["jain_index"] == pytest.approx(jain_index([400, tcp_bytes / 15e3]), abs=1e-5)
    assert found["jain_after_10s_index"] == 1.0  # from 15 s on
    assert found["convergence_s"] == 7.0  # from 5 s to 12 s
    assert found["completion_p50_s"] is None


def test_alone_again_after_the_last_neighbour_has_stopped(run):
    """The competing flow stops at 10 s, so from 15 s on both flows under test count with their 400 kB/s."""
    assert run(lines())["alone_rtt_mean_ms"] is None
    flows = [*SPEC["flows"][:2], flow("udp", neighbour=True, stop_s=10.0)]
    found = run(lines(), {**SPEC, "flows": flows})
    assert found["alone_throughput_mbit_s"] == pytest.approx(2 * 3.2, abs=1e-5)
    assert found["alone_rtt_mean_ms"] == 120.0
    late = [*SPEC["flows"][:2], flow("udp", neighbour=True, stop_s=14.5)]
    assert run(lines(), {**SPEC, "flows": late})["alone_rtt_mean_ms"] is None


def test_the_course_of_jains_index(run):
    found = run(lines())
    course = {name: value for name, value in found.items() if name in COURSE_S and value is not None}
    # The last start is at 5 s, the run ends at 20 s; from 12 s on both have the same.
    assert list(course) == ["jain_0_to_5_s_index", "jain_5_to_10_s_index", "jain_10_to_15_s_index"]
    uneven = jain_index([400 * 5, 100 * 2 + 400 * 3])
    assert list(course.values()) == pytest.approx([jain_index([400, 100]), uneven, 1.0], abs=1e-5)


def test_queues_are_compared_as_before(run):
    found = run(lines(), {key: value for key, value in SPEC.items() if key != "compares"})
    assert not set(METRICS) & set(found)
    assert found["loss_percent"] == 0.0  # of the queue, which dropped nothing


def test_a_flow_that_nothing_came_of_counts_as_zero(run):
    left = [line for line in lines() if line.get("flow") != "1.0" or line["side"] == "client"]
    found = run(left)
    assert found["throughput_mbit_s"] == pytest.approx(3.2, abs=1e-5)
    assert (found["jain_index"], found["convergence_s"]) == (0.5, None)


def test_short_transfers_alone(run):
    spec = SPEC | {"flows": [flow("tcp-short"), flow("tcp-short", neighbour=True)]}
    shorts = [
        {"k": "short", "t_us": T0_US + 4_000_000 + n * 1000, "flow": f"{n % 2}.{n}", "bytes": 1000, "fct_us": n * 1000}
        for n in range(1, 9)
    ]
    found = run([line for line in lines() if "flow" not in line] + shorts, spec)
    assert (found["completion_p50_s"], found["completion_p95_s"]) == (0.005, 0.0077)
    assert (found["rtt_mean_ms"], found["loss_percent"], found["jain_index"]) == (None, None, None)
    assert found["neighbour_share"] == 0.5


@pytest.mark.parametrize("decisions", [7, {"made": 1}, {"made": 1, "outside": "x"}])
def test_damaged_decisions_are_named(run, decisions):
    damaged = [line | {"decisions": decisions} if "decisions" in line else line for line in lines()]
    with pytest.raises(SamplesError, match="decisions is"):
        run(damaged)


@given(st.lists(rates, min_size=1, max_size=9), st.floats(min_value=1e-3, max_value=1e3))
def test_jains_index_knows_shares_alone(shares, factor):
    index = jain_index(shares)
    assert 1 / len(shares) - 1e-9 <= index <= 1
    assert jain_index([share * factor for share in shares]) == pytest.approx(index)
    assert jain_index(sorted(shares)) == pytest.approx(index)
    assert jain_index([shares[0]] * len(shares)) == pytest.approx(1)
    assert jain_index([*shares, 0.0]) == pytest.approx(index * len(shares) / (len(shares) + 1))


@given(
    st.integers(min_value=2, max_value=5),
    st.integers(min_value=0, max_value=10),
    st.integers(min_value=0, max_value=10),
    st.randoms(use_true_random=False),
)
def test_convergence_is_the_first_five_even_seconds(flows, uneven, even, random_):
    def second(spread):
        return [1 + (spread if n == 0 else -spread / (flows - 1)) + random_.uniform(-0.01, 0.01) for n in range(flows)]

    bins = np.array([*(second(0.9) for _ in range(uneven)), *(second(0.0) for _ in range(even))]).reshape(-1, flows).T
    assert convergence_s(bins) == (float(uneven) if even >= 5 else None)
    if bins.shape[1] and bins.max() > 0:
        assert convergence_s(1000 * bins) == convergence_s(bins)
        assert convergence_s(bins[::-1]) == convergence_s(bins)


def test_convergence_needs_two_flows_and_something_to_share():
    assert convergence_s(np.ones((1, 10))) is None
    assert convergence_s(np.zeros((2, 10))) is None
    assert convergence_s(np.ones((2, 4))) is None
    assert convergence_s(np.array([[1 + BAND] * 5, [1 - BAND] * 5])) == 0.0
    assert convergence_s(np.array([[1.01 + BAND] * 5, [0.99 - BAND] * 5])) is None


GOOD = """\
[scenario]
name = "small"
title = "Small"
duration_s = 10
compares = "senders"
seeds = 1
[link.access]
rate_mbit_s = 50
[link.bottleneck]
rate_mbit_s = 10
[[flows]]
kind = "quic-download"
cc = "cubic"
count = 2
[[flows]]
kind = "quic-download"
cc = "reno"
neighbour = true
[variants.bbr2]
qdisc = "pfifo"
[variants.bbr2.sender]
cc = "bbr2_gcongestion"
[variants.tcp-vegas]
qdisc = "pie"
[variants.tcp-vegas.sender]
kind = "tcp"
cc = "vegas"
[variants.as-written]
qdisc = "pfifo"
"""


def test_a_variant_puts_its_sender_over_the_groups_under_test(load):
    cases = load(GOOD).cases
    assert {label: [(f["kind"], f["cc"], f["count"]) for f in spec["flows"]] for label, spec in cases.items()} == {
        "bbr2": [("quic-download", "bbr2_gcongestion", 2), ("quic-download", "reno", 1)],
        "tcp-vegas": [("tcp", "vegas", 2), ("quic-download", "reno", 1)],
        "as-written": [("quic-download", "cubic", 2), ("quic-download", "reno", 1)],
    }
    assert all(spec["compares"] == "senders" for spec in cases.values())


def test_a_policy_may_stand_in_a_variant(load, tmp_path):
    (tmp_path / "a.weights").write_text("a policy\n")
    found = load(GOOD.replace('cc = "bbr2_gcongestion"', 'cc = "pbq"\ncc_weights = "a.weights"')).cases["bbr2"]
    assert found["flows"][0]["cc_weights"] == "a policy\n"
    assert "cc_weights" not in found["flows"][1]


FLOWS = (
    GOOD[: GOOD.index("[[flows]]")].replace('compares = "senders"\n', "")
    + """\
[[flows]]
kind = "quic-download"
stack = "noq"
cc = "bbr3"
burst_bytes = 5000
burst_every_ms = 400
[[flows]]
kind = "quic-short"
arrivals_per_s = 2
bytes = 1000
count = 2
[[flows]]
kind = "quic-upload"
cc = "reno"
[variants.fifo]
qdisc = "pfifo"
"""
)


def test_quic_settings_have_servers_of_their_own(load, tmp_path):
    drive = Drive(load(FLOWS).runs()[0].spec, tmp_path)
    flows = drive.spec["flows"]
    assert [setting[:2] for setting in drive.settings] == [("bbr3", "noq"), ("cubic", None), ("reno", None)]
    words = ["--cc", "cubic", "--alpn", "hq-interop", "--server-name", "localhost", "--ecn", "off"]
    assert drive.cc_words(flows[0], "sink") == words
    upload = flows[2] | {"burst_bytes": 5000, "burst_every_ms": 400}
    assert burst_words(upload) == ["--requests", "25", "--interval-ms", "400", "--bytes", "5000"]
    assert burst_words(flows[2]) == burst_words(flows[0]) == []
    plan = drive.short_plan(1, flows[1])
    assert plan == sorted(plan)
    assert sorted(number for *_, number, _ in plan) == list(range(len(plan)))
    assert {place for _, place, *_ in plan} == {0, 1}
    tcp = {**flows[1], "kind": "tcp-short", "cc": "bic"}
    assert drive.short_plan(1, tcp) == plan


def test_reports_of_quic_become_lines(load, tmp_path):
    drive = Drive(load(FLOWS).runs()[0].spec, tmp_path)
    plan = drive.short_plan(1, drive.spec["flows"][1])
    ends = [{"exit": "complete", "duration_us": 7} for _ in plan[1:]] + [{"exit": "stopped", "duration_us": 0}]
    (tmp_path / "report-1.json").write_text(json.dumps({"flows": ends}))
    drive.write_quic_shorts(1000)
    found = [json.loads(line) for line in (tmp_path / "short-1-sink.jsonl").read_text().splitlines()]
    at_us, _, number, size = plan[0]
    assert found[0] == {"k": "short", "t_us": 1007 + at_us, "flow": f"1.{number}", "bytes": size, "fct_us": 7}
    assert (found[-1]["open"], found[-1]["t_us"]) == (1, 10_001_000)
    assert found[-1]["fct_us"] == 10_000_000 - plan[-1][0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("burst_bytes = 5000\n", "", "has one of burst_bytes and burst_every_ms"),
        ('cc = "reno"', 'stack = "noq"', "noq is a server, and this client sends"),
        ("bytes = 1000\n", "", "needs either bytes or both"),
        ('cc = "bbr3"', 'cc = "bbr9"', "noq has no congestion control bbr9; there are bbr3, cubic, reno"),
        ('cc = "reno"', 'cc = "noq-bbr3"', "unknown name 'noq-bbr3'"),
    ],
)
def test_mistakes_in_flows_are_named(load, old, new, said):
    with pytest.raises(ScenarioError, match=said):
        load(FLOWS.replace(old, new, 1))


def test_a_server_that_is_not_built_is_named(load, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda: tmp_path)
    spec = load(FLOWS).runs()[0].spec
    with pytest.raises(LabError, match=r"noq-server is missing; setup/install\.sh peers builds it"):
        Dumbbell().environment(spec)
    assert Dumbbell().environment({**spec, "flows": spec["flows"][1:]}) == {}


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('compares = "senders"', 'compares = "queues"', 18, "flows.1.neighbour: the scenario compares queues"),
        ('compares = "senders"', 'compares = "queues"', 21, "variants.bbr2.sender: the scenario compares queues"),
        ('compares = "senders"', 'compares = "hosts"', 5, "scenario.compares: unknown name 'hosts'"),
        ("count = 2", "neighbour = true", 14, "flows.0.neighbour: all groups are neighbours"),
        ('cc = "vegas"', 'cc = "vegass"', 27, "variants.tcp-vegas.sender.cc: unknown name 'vegass'"),
        ('kind = "tcp"', 'kind = "tpc"', 26, "variants.tcp-vegas.sender.kind: unknown name 'tpc'"),
        ('cc = "vegas"', 'cc = "pbq"', 27, "variants.tcp-vegas.sender.cc: unknown name 'pbq'"),
        ('cc = "vegas"', "count = 3", 27, "variants.tcp-vegas.sender.count: not for a sender"),
        ('cc = "bbr2_gcongestion"', 'cc = "pbq"\ncc_weights = "no"', 23, "variants.bbr2.sender.cc_weights: 'no' can't"),
        ('[variants.bbr2.sender]\ncc = "bbr2_gcongestion"', "sender = 7", 21, "variants.bbr2.sender: not a table"),
    ],
)
def test_mistakes_are_named_where_they_stand(load, old, new, line, said):
    assert old in GOOD
    with pytest.raises(ScenarioError) as raised:
        load(GOOD.replace(old, new))
    mistakes = [mistake for mistake in raised.value.problems if said in mistake]
    assert mistakes, raised.value.problems
    assert f":{line}: " in mistakes[0]
