# SPDX-License-Identifier: Apache-2.0
import generated_access as made
import numpy as np
import pytest
from generated_samples import write
from hypothesis import given
from hypothesis import strategies as st

from weirlab.metrics.samples import SamplesError
from weirlab.topologies.access.metrics import METRICS, RUN_METRICS, compute, failures, pseudo_regrets_ms, regrets_ms
from weirlab.topologies.access.peers import RELATIVE_METRICS, relative
from weirlab.topologies.access.samples import Tasks, Truth

TWO = [made.path("a", 10.0), made.path("b", 20.0)]
SPEC = made.spec(TWO, requests=6)
START = {"k": "start", "t_us": made.T0_US}


def hand_made():
    """Six rounds over two paths, each figure of which can be done in the head. From round 3 on b is the better."""
    return [
        START,
        *(made.truth(n, "a", rtt_ms, 10) for n, rtt_ms in enumerate((10, 12, 8, 10))),
        made.truth(0, "b", 20, 20),
        made.truth(3, "b", 5, 5),
        {"k": "best", "round": 0, "path": "a"},
        {"k": "best", "round": 3, "path": "b"},
        made.task(0, "a", 11),
        made.task(1, "a", 13),
        made.task(2, "b", 22, switched=True),
        made.task(3, "a", 21, switched=True, cold=True),
        made.task(4, "b", 7, switched=True),
        made.task(5, "b", 7),
    ]


@pytest.fixture
def run(tmp_path):
    def compute_lines(records, spec=SPEC):
        return compute(write(tmp_path / "samples.jsonl", records), spec)

    return compute_lines


EXPECTED = {
    "tct_mean_ms": 13.5,
    "tct_var_ms2": 43.9,
    "tct_p50_ms": 12.0,
    "tct_p95_ms": 21.75,
    "tct_max_ms": 22.0,
    "start_lag_mean_ms": 0.0,
    "start_lag_max_ms": 0.0,
    "best_path_rate": round(4 / 6, 6),
    "regret_ms": round(1 + 3 + 12 + 16 + 2 + 2 - 6 * 0.4, 6),  # against 10 ms of a, then 5 of b, and 5 kB at 100 Mbit/s
    "pseudo_regret_ms": 10 + 5,
    "regret_eq22": round(0.8 * (81 - 6 * 7) + 0.2 * (43.9 - 28), 6),
    "switches": 3,
    "moves": 0,
    "switches_cold": 1,
    "extra_rtts_per_migration": round(1 / 3, 6),
    "extra_rtts_per_migration_median": 0.0,
    "extra_rtts_validated": 0.0,
    "extra_rtts_cold": 1.0,
    "failed_tasks": 0,
    "missing_tasks": 0,
    "tasks_below_rtt": 0,
    "events_out_of_order": 0,
    "tasks_on_a": 3,
    "tasks_on_b": 3,
    "bytes_on_a": 15000,
    "bytes_on_b": 15000,
}


def test_figures_done_by_hand(run):
    found = run(hand_made())
    assert {name: value for name, value in found.items() if value is not None} == EXPECTED
    assert set(found) == set(RUN_METRICS) | {"tasks_on_a", "tasks_on_b", "bytes_on_a", "bytes_on_b"}
    assert not failures(found)


def test_decisions_of_a_learned_server(run):
    ends = [
        {"k": "end", "t_us": made.T0_US + n, "side": "server", "flow": 0, "bytes": 1, "decisions": decided}
        for n, decided in enumerate(
            ({"made": 30, "outside": 9, "by_bbr": 12}, {"made": 10, "outside": 1, "by_bbr": 2})  # of two connections
        )
    ]
    found = run([*hand_made(), *ends])
    assert (found["decisions_outside_percent"], found["decisions_by_bbr_percent"]) == (25.0, 35.0)
    none = [{**end, "decisions": {"made": 0, "outside": 0, "by_bbr": 0}} for end in ends]
    assert run([*hand_made(), *none])["decisions_outside_percent"] is None
    with pytest.raises(SamplesError, match="decisions is"):
        run([*hand_made(), {**ends[0], "decisions": {"made": 1}}])


def test_lines_may_come_in_another_order(run):
    records = hand_made()
    assert run([*records[6:], *records[:6]]) == run(records)


def test_a_path_without_other_tasks_is_held_against_its_rate(run):
    lines = [line for line in hand_made() if line.get("task") != 5]
    sending_ms = 5000 * 8 / 100e3
    found = run([*lines, made.task(5, "a", 13, switched=True)])
    # b: 22 ms at 20 and 7 at 5, both without an unswitched task beside them; a: base 1 ms
    extra = ((22 - 20 - sending_ms) / 20, (21 - 10 - 1) / 10, (7 - 5 - sending_ms) / 5, (13 - 10 - 1) / 10)
    assert found["extra_rtts_per_migration"] == pytest.approx(np.mean(extra), abs=1e-6)
    assert found["extra_rtts_validated"] == pytest.approx((extra[0] + extra[2] + extra[3]) / 3, abs=1e-6)


def test_a_late_task_belongs_to_the_round_it_starts_in(run):
    late = made.task(2, "b", 22, switched=True)
    late |= {"start_us": late["start_us"] + 250_000, "t_us": late["t_us"] + 250_000}
    lines = [line for line in hand_made() if line.get("task") != 2]
    found = run([*lines, late])
    assert found["start_lag_max_ms"] == 250
    assert found["start_lag_mean_ms"] == round(250 / 6, 6)
    assert found["tct_mean_ms"] == 13.5
    assert found["best_path_rate"] == round(5 / 6, 6)  # round 3, where b is the better
    assert found["pseudo_regret_ms"] == 5


def test_a_variant_slow_on_the_best_path_regrets_it(run):
    """A task's expected time does not depend on the run's other tasks."""
    lines = [dict(line) for line in hand_made()]
    for line in lines:
        if line["k"] == "task":
            line["tct_us"] += 5000
    assert run(lines)["regret_ms"] == pytest.approx(EXPECTED["regret_ms"] + 6 * 5)


def test_regret_counts_the_bytes_at_the_best_paths_own_rate(run):
    spec = made.spec([made.path("a", 10.0, rate_mbit_s=10.0), made.path("b", 20.0)], requests=6)
    assert run(hand_made(), spec)["regret_ms"] == pytest.approx(36 - 3 * 4.0 - 3 * 0.4)  # a is the best three times


def test_with_several_sizes_the_best_path_is_that_of_each_task(run):
    spec = made.spec([made.path("a", 10.0, rate_mbit_s=8.0), made.path("b", 50.0, rate_mbit_s=80.0)], requests=2)
    lines = [START, made.truth(0, "a", 10, 10), made.truth(0, "b", 50, 50), {"k": "best", "round": 0, "path": "a"}]
    lines += [{**made.task(0, "a", 15), "bytes": 5_000}, {**made.task(1, "a", 1020), "bytes": 1_000_000}]
    found = run(lines, spec)
    assert found["best_path_rate"] == 0.5
    assert found["regret_ms"] == pytest.approx(0 + 1020 - (50 + 100))
    assert found["pseudo_regret_ms"] == pytest.approx(1010 - 150)
    assert found["tctpb_mean_ms_per_kb"] == pytest.approx((15 / 5 + 1.02) / 2)


@pytest.mark.parametrize(
    "more", [{"loss_percent": 1.0}, {"loss_up_percent": 1.0}, {"changes": [{"path": "a", "loss_percent": 2.0}]}]
)
def test_where_packets_are_lost_no_cost_is_put_down_to_migration(run, more):
    changes = more.pop("changes", [])
    spec = {**made.spec([made.path("a", 10.0, **more), made.path("b", 20.0)], requests=6), "changes": changes}
    found = run(hand_made(), spec)
    assert all(value is None for name, value in found.items() if name.startswith("extra_rtts"))
    assert found["switches"] == 3


def test_equal_paths_are_equally_good(run):
    spec = made.spec([made.path("a", 30), made.path("b", 30)], requests=2)
    lines = [START, made.truth(0, "a", 30, 30), made.truth(0, "b", 30, 30), {"k": "best", "round": 0, "path": "a"}]
    lines += [made.task(0, "a", 31), made.task(1, "b", 31, switched=True)]
    assert run(lines, spec)["best_path_rate"] == 1.0
    lossy = made.spec([made.path("a", 30), made.path("b", 30, loss_percent=4.0)], requests=2)
    assert run(lines, lossy)["best_path_rate"] == 0.5


def test_failed_missing_impossible_and_unordered(run):
    lines = hand_made()
    lines[-1] |= {"outcome": "reset", "tct_us": None}
    lines = [line for line in lines if line.get("task") != 1]
    lines[9] |= {"tct_us": 9000}  # the round's RTT is 10 ms
    lines += [{"k": "path", "t_us": made.T0_US + t, "flow": 0, "path": "a", "event": "validated"} for t in (9, 8, 10)]
    found = run(lines)
    names = ("failed_tasks", "missing_tasks", "tasks_below_rtt", "events_out_of_order")
    assert [found[name] for name in names] == [1, 1, 1, 1]
    assert len(failures(found)) == 4
    assert failures(found)[1].startswith("1 tasks did not end complete")


def test_delays_drawn_by_the_packet_are_no_bound(run):
    spec = made.spec([made.path("a", 10.0, draw="packet"), made.path("b", 20.0)], requests=6)
    lines = hand_made()
    lines[9] |= {"tct_us": 9000}
    assert run(lines)["tasks_below_rtt"] == 1
    assert run(lines, spec)["tasks_below_rtt"] == 0


def test_a_handover_is_the_longest_silence(run):
    spec = made.spec(
        requests=1, paths=[made.path("wifi", 20), made.path("cell", 50)], interval_ms=0.0, bytes=20_000_000
    )
    found = run(made.handover(spec), spec)
    assert found["stall_ms"] == pytest.approx(180, abs=0.01)
    assert found["stall_pto"] == pytest.approx(180 / 60, abs=1e-3)  # smoothed RTT of 34 ms
    assert found["takeover_ms"] == pytest.approx(108, abs=0.01)
    assert found["takeover_pto"] == pytest.approx(108 / 60, abs=1e-3)
    assert found["moves"] == 1
    assert found["transfer_time_mean_s"] == pytest.approx(found["tct_mean_ms"] / 1e3)
    assert found["stream_time_mean_s"] == found["transfer_time_mean_s"]


def test_packets_that_deliver_nothing_are_heard(run):
    """A hole in the stream holds bytes back; the path was alive until its last packet."""
    spec = made.spec(
        requests=1, paths=[made.path("wifi", 20), made.path("cell", 50)], interval_ms=0.0, bytes=20_000_000
    )
    lines = made.handover(spec)
    down_us = made.T0_US + 2_000_000
    before = max((line for line in lines if line["k"] == "flow" and line["t_us"] <= down_us), key=lambda x: x["t_us"])
    late = {**before, "t_us": down_us + 40_000, "recv": before["recv"] + 1, "rtt_us": 10_000}
    found = run([*lines, late], spec)
    assert found["stall_ms"] == pytest.approx(180, abs=0.01)
    assert found["takeover_ms"] == pytest.approx(68, abs=0.01)
    assert found["takeover_pto"] == pytest.approx(68 / 46, abs=1e-3)  # the path's own 20 ms is the least


def test_windows(run):
    sizes = {"stream_window_bytes": 8192, "max_stream_window_bytes": 1 << 20}
    sizes |= {"conn_window_bytes": 32768, "max_conn_window_bytes": 1 << 26}
    paths = [made.path("lan", 50, rate_mbit_s=100)]
    spec = made.spec(paths, requests=4, parallel=4, interval_ms=0.0, bytes=1_000_000, **sizes)
    step_us = (100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000)
    lines = [START]
    for n, t_us in enumerate(step_us):
        line = {"k": "window", "t_us": made.T0_US + t_us, "flow": 0, "promised_bytes": 0, "received_bytes": 0}
        lines += [{**line, "stream": stream, "window_bytes": 8192 << n} for stream in (0, 4, 8, 12)]
        lines.append({**line, "stream": None, "window_bytes": 8 * (8192 << n)})
    told = {"k": "promised", "t_us": made.T0_US + 700_000, "flow": None, "budget_bytes": 1 << 26}
    lines.append({**told, "promised_bytes": 2_000_000, "peak_bytes": 2_100_000})
    lines += [{**made.task(n, "lan", 1000 + 200 * n, 0.0), "bytes": 1_000_000} for n in range(4)]
    found = run(lines, spec)
    assert found["time_to_window_s"] == 0.7  # 8 kB doubled six times is 512 KiB
    assert found["full_pipe_rtts"] == pytest.approx(0.6 / 0.05)  # 4 * 256 KiB hold 625,000 bytes; 4 * 128 KiB don't
    assert found["transfer_time_mean_s"] == pytest.approx(1.6)  # four streams, the last one's end
    assert found["stream_time_mean_s"] == pytest.approx(1.3)
    assert found["goodput_mbit_s"] == pytest.approx(32 / 1.6)
    assert found["window_promised_peak_bytes"] == 2_100_000
    small = {**spec, "client": {**spec["client"], "max_stream_window_bytes": 16384}}
    assert run(lines, small)["time_to_window_s"] == 0.2
    failed = run([*lines[:-1], {**lines[-1], "outcome": "reset", "tct_us": None}], spec)
    assert failed["transfer_time_mean_s"] is None
    assert failed["goodput_mbit_s"] is None
    open_at_once = {**spec, "client": {**spec["client"], "stream_window_bytes": 1 << 20}}
    assert run(lines, open_at_once)["time_to_window_s"] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:6], "no task lines"),
        (
            lambda lines: [line for line in lines if line["k"] != "truth" or line["path"] != "b"],
            "no truth line of path b",
        ),
        (lambda lines: [*lines, made.task(6, "c", 5)], "task 6 is on path 'c'; the spec has a, b"),
        (lambda lines: [*lines, made.task(5, "a", 5)], "task 5 of flow 0 has two task lines"),
        (lambda lines: [*lines, made.truth(4, "x", 5, 5)], "a truth line has path 'x'"),
        (lambda lines: [*lines, {**made.task(6, "a", 5), "tct_us": None}], "task 6 is complete and its tct_us is None"),
        (lambda lines: [*lines, {**made.task(6, "a", 5), "start_us": "x"}], ":16: start_us is 'x'"),
        (lambda lines: [*lines, {"k": "window", "t_us": 1}], ":16: flow is missing; a window line has"),
        (lambda lines: [*lines, {"k": "pkt"}], "unknown kind 'pkt'"),
        (lambda lines: [*lines, START], "2 start lines"),
    ],
)
def test_what_is_wrong_with_samples_is_named(run, change, message):
    with pytest.raises(SamplesError) as caught:
        run(change(hand_made()))
    assert message in str(caught.value)


def test_beside_a_peer_seed_by_seed(run):
    specs = {
        "polling": made.spec(variant="polling", strategy="polling"),
        "ops": made.spec(variant="ops", strategy="ops"),
        "other": made.spec(variant="other", strategy="ops", bytes=6000),
    }
    base = {"tct_var_ms2": 100.0, "pseudo_regret_ms": 50.0}
    metrics = {
        ("polling", 1): {**base, "tct_mean_ms": 20.0, "regret_ms": 200.0},
        ("ops", 1): {**base, "tct_mean_ms": 8.0, "regret_ms": 20.0},
        ("polling", 2): {**base, "tct_mean_ms": 10.0, "regret_ms": 100.0},
        ("ops", 2): {**base, "tct_mean_ms": 5.0, "regret_ms": -10.0},
        ("other", 1): {**base, "tct_mean_ms": 5.0, "regret_ms": -10.0},
    }
    found = relative(specs, metrics)
    assert list(found) == [("ops", "polling")]
    values = found["ops", "polling"]
    assert values["tct_mean_vs_polling_percent"].mean == -55  # -60 and -50; not that of the means, -56.7
    assert values["tct_mean_vs_polling_percent"].ci95 == pytest.approx(12.706 * 5, abs=1e-4)
    assert values["regret_vs_polling_ms"].mean == -145
    assert set(values) <= set(RELATIVE_METRICS)
    assert set(METRICS) == set(RUN_METRICS) | set(RELATIVE_METRICS)


def test_strategies_of_other_weights_are_no_peers():
    specs = {
        f"{strategy},weight_a={a}": made.spec(strategy=strategy, weight_a=a)
        for strategy in ("pps", "weir")
        for a in (0.8, 0.2)
    }
    found = relative(specs, {(label, 1): {"tct_mean_ms": 1.0} for label in specs})
    assert list(found) == [(f"weir,weight_a={a}", f"pps,weight_a={a}") for a in (0.8, 0.2)]


def test_over_sizes_each_seed_counts_once(run):
    one = [made.path("lan", 50)]
    specs = {
        f"{window},bytes={size}": made.spec(one, window=window, bytes=size, interval_ms=0.0)
        for size in (1000, 2000)
        for window in ("double", "fast")
    }
    seconds = {"double,bytes=1000": 1.0, "fast,bytes=1000": 0.5, "double,bytes=2000": 4.0, "fast,bytes=2000": 3.0}
    metrics = {(label, seed): {"transfer_time_mean_s": seconds[label] * seed} for label in specs for seed in (1, 2)}
    found = relative(specs, metrics)
    assert list(found) == [
        ("fast,bytes=1000", "double,bytes=1000"),
        ("fast,bytes=2000", "double,bytes=2000"),
        ("fast", "double"),
    ]
    assert [values["transfer_time_vs_double_percent"].mean for values in found.values()] == [-50, -25, -37.5]
    assert found["fast", "double"]["transfer_time_vs_double_percent"].n == 2
    assert found["fast", "double"]["goodput_vs_double_percent"].mean is None


def test_made_up_strategies_come_out_in_order(run):
    found = {}
    for strategy in ("polling", "ops", "oracle"):
        spec = made.spec(variant=strategy, strategy=strategy)
        found[strategy] = run(made.lines(spec), spec)
        assert not failures(found[strategy])
    assert found["polling"]["best_path_rate"] == 0.25
    assert found["oracle"]["best_path_rate"] == 1
    assert found["oracle"]["pseudo_regret_ms"] == 0
    assert abs(found["oracle"]["regret_ms"]) < 40  # 120 rounds' luck at 0.64 ms each, and 0.06 ms beyond the sending
    rtts = np.array([each[1] for each in made.TABLE_5])
    assert found["polling"]["pseudo_regret_ms"] == pytest.approx(30 * (rtts - rtts.min()).sum(), abs=1e-3)
    assert found["oracle"]["regret_ms"] < found["ops"]["regret_ms"] < found["polling"]["regret_ms"]
    assert found["polling"]["extra_rtts_per_migration_median"] < 0.02


def test_a_cold_migration_costs_a_round_trip(run):
    spec = made.spec(variant="cold", strategy="ops", standby="cold")
    found = run(made.lines(spec), spec)
    assert found["extra_rtts_cold"] == pytest.approx(1, abs=0.01)
    assert found["extra_rtts_validated"] is None


@given(st.data())
def test_the_best_path_leaves_no_regret_and_others_do(data):
    rounds, paths = data.draw(st.integers(1, 30)), data.draw(st.integers(2, 5))
    milliseconds = st.floats(1, 1e3)
    mean_ms = np.array(data.draw(st.lists(milliseconds, min_size=paths, max_size=paths, unique=True)))
    by_round = (np.tile(each, (rounds, 1)) for each in (mean_ms, mean_ms, mean_ms == mean_ms.min()))
    truth = Truth(*by_round, rate_mbit_s=np.full(paths, 100.0))
    chosen = np.array(data.draw(st.lists(st.integers(0, paths - 1), min_size=rounds, max_size=rounds)))
    index, no = np.arange(rounds), np.zeros(rounds, bool)
    tct_ms = mean_ms[chosen] + 0.4
    sizes = np.full(rounds, 5000.0)
    tasks = Tasks(index, index, chosen, index * 1e6, no * 0.0, tct_ms, sizes, ~no, no, no, no)
    pseudo_ms = pseudo_regrets_ms(tasks, truth)
    assert (pseudo_ms >= 0).all()
    assert ((pseudo_ms == 0) == (chosen == mean_ms.argmin())).all()
    np.testing.assert_allclose(regrets_ms(tasks, truth), pseudo_ms, atol=1e-9)
