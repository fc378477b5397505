# SPDX-License-Identifier: Apache-2.0
"""From made-up samples to metrics, and what several runs say together."""

import generated_edge as made
import pytest
from generated_samples import write

from weirlab.metrics.samples import SamplesError
from weirlab.topologies.edge.across import alike, beside_unicast, over_beta, over_receivers, over_sizes, points_of
from weirlab.topologies.edge.metrics import RUN_METRICS, compute, failures


@pytest.fixture
def measure(tmp_path):
    return lambda lines, spec: compute(write(tmp_path / "samples.jsonl", lines), spec)


def by_hand():
    """Two receivers of 1 MB at one edge switch, done after 1 and 2 s."""
    return [
        {"k": "start", "t_us": made.T0_US},
        *made.links("publisher", "eth0", 1_100_000, 50_000),
        made.receiver(1, 1.0, asked=110, asked_again=10, data=100, overheard=5, duplicates=1, marked=4),
        made.receiver(2, 2.0, asked=130, asked_again=30, data=100, overheard=15, duplicates=3, marked=0),
        made.counted("core", 95, 0, 5, 100, 100),
        made.counted("edge1", 95, 140, 5, 100, 200),
    ]


def test_figures_by_hand(measure):
    spec = made.spec(receivers=2, edges=1, beta=6.0)
    found = measure(by_hand(), spec)
    assert set(RUN_METRICS) <= set(found)
    assert (found["receivers_count"], found["file_bytes"], found["beta"]) == (2, 1_000_000, 6)
    assert (found["completion_mean_s"], found["completion_max_s"]) == (1.5, 2)
    assert (found["goodput_mean_mbit_s"], found["goodput_min_mbit_s"]) == (6, 4)
    assert found["goodput_sd_mbit_s"] == pytest.approx(8**0.5, abs=1e-6)
    assert (found["publisher_sent_bytes"], found["publisher_received_bytes"]) == (1_100_000, 50_000)
    assert found["publisher_sent_ratio"] == 1.1
    assert found["retransmissions_percent"] == pytest.approx(100 * 40 / 240, abs=1e-6)
    assert (found["overheard_percent"], found["duplicates_percent"], found["marked_percent"]) == (10, 2, 2)
    assert found["merged_percent"] == pytest.approx(100 * (1 - 100 / 240), abs=1e-6)
    assert found["copies_ratio"] == 2
    assert found["interests_joined_at_edge1"] == 140
    assert (found["move_gap_ms"], found["names_dropped"]) == (None, 0)
    assert failures(found) == []


def on_air(carried, down, *nodes):
    """Counts of broadcast segments, and of what brings the file to them."""
    return [
        line
        for segment, place in zip(("air1", "air2"), nodes, strict=False)
        for line in (*made.links(segment, "air", carried), *made.links(*place, down))
    ]


def test_what_a_broadcast_segment_carried(measure):
    spec = made.spec(receivers=2, edges=0, medium="broadcast", last_rate_mbit_s=10.0)
    lines = [line for line in by_hand() if line["k"] != "switch"]
    lines += made.links("air0", "air", 1_375_000, 1_375_000)
    found = measure(lines, spec)
    assert found["medium_carried_ratio"] == 1.375
    assert found["medium_requests_percent"] == 20
    assert found["medium_busy_percent"] == pytest.approx(55)  # 1.1 s of 2
    assert (found["merged_percent"], found["names_dropped"]) == (None, None)
    assert failures(found) == []
    assert measure(by_hand(), made.spec(receivers=2, edges=1))["medium_carried_ratio"] is None
    lines[4] = made.receiver(2, 2.0, outcome="unfinished", ended_us=None)
    assert measure(lines, spec)["medium_busy_percent"] is None


def test_several_segments_are_counted_together(measure):
    spec = made.spec(receivers=2, edges=2, medium="broadcast", last_rate_mbit_s=10.0)
    found = measure([*by_hand(), *on_air(1_250_000, 1_000_000, ("edge1", "p1"), ("edge2", "p1"))], spec)
    assert found["medium_carried_ratio"] == 2.5
    assert found["medium_requests_percent"] == 20
    assert found["medium_busy_percent"] == pytest.approx(50)


def test_what_caches_send_on_is_not_counted_twice(measure):
    lines = by_hand()
    # 100 went up, and each had come twice: from below and from the cache.
    lines[-1] = made.counted("edge1", 195, 140, 5, 100, 200)
    lines.append({"k": "cache", "node": "cache1", "asked": 120, "hits": 30, "passed_on": 100, "kept": 95, "evicted": 0,
                  "held_bytes": 150_000})  # fmt: skip
    found = measure(lines, made.spec(receivers=2, edges=1, cache_mb=1))
    assert found["cache_hits_percent"] == 25
    assert found["merged_percent"] == pytest.approx(100 * (1 - 100 / 240), abs=1e-6)
    # A hub took 100 of its edge and 100 of its own cache, whose hits are not the edges'.
    lines += [made.counted("hub", 195, 0, 5, 100, 100), {**lines[-1], "node": "cache0", "hits": 120}]
    with_hub = measure(lines, made.spec(receivers=2, edges=2, cache_mb=1))
    assert [with_hub[name] for name in ("cache_hits_percent", "merged_percent")] == [
        found[name] for name in ("cache_hits_percent", "merged_percent")
    ]


def test_a_download_is_counted_by_its_servers_packets(measure):
    lines = [line for line in by_hand() if line["k"] not in ("receiver", "switch")]
    lines += [made.receiver(1, 1.0, sent=700, lost=7), made.receiver(2, 1.0, sent=300, lost=13)]
    lines.append({"k": "switch", "node": "core", "packets": {}})
    found = measure(lines, made.spec("unicast", receivers=2, edges=1))
    assert found["retransmissions_percent"] == 2
    assert (found["merged_percent"], found["copies_ratio"], found["marked_percent"]) == (None, None, None)


def test_what_went_wrong_is_counted_and_told(measure):
    lines = by_hand()
    lines[3] = made.receiver(1, 1.0, outcome="corrupt")
    lines[4] = made.receiver(2, 1.0, outcome="unfinished", ended_us=None)
    lines[5]["packets"]["malformed"] = 3
    found = measure(lines, made.spec(receivers=2, edges=1))
    assert (found["failed_receivers"], found["corrupt_receivers"], found["names_dropped"]) == (1, 1, 3)
    assert found["goodput_mean_mbit_s"] is None
    assert [line.split()[0] for line in failures(found)] == ["1", "1", "3"]


def test_who_left_did_not_fail_and_connections_are_counted(measure):
    lines = by_hand()
    lines[3] |= {"group_lost": 1, "group_migrated": 2, "group_early_data": 1}
    lines[4] |= {"outcome": "left", "group_lost": 0, "group_migrated": 1, "group_early_data": 0}
    lines += [{"k": "leave", "t_us": made.T0_US, "receiver": 2}, {"k": "publisher", "rekeys": 3}]
    found = measure(lines, made.spec(receivers=2, edges=1))
    assert (found["failed_receivers"], found["left_receivers"], found["rekeys"]) == (0, 1, 3)
    assert (found["group_lost"], found["group_migrated"], found["group_early_data"]) == (1, 3, 1)
    assert failures(found) == []
    assert measure(by_hand(), made.spec(receivers=2, edges=1))["group_lost"] is None


def test_the_gap_at_a_move_is_the_longest_silence_from_then_on(measure):
    spec = made.spec(receivers=1, moves=[{"receiver": 1, "at_s": 1.0, "to_edge": 2}])
    assert measure(made.lines(spec), spec)["move_gap_ms"] == 30
    lines = made.lines(spec)
    late = [{**line, "bytes": 7} if line["k"] == "arrived" else line for line in lines]  # nothing ever came
    assert measure(late, spec)["move_gap_ms"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:4] + lines[5:], "there must be one of each of 2"),
        (lambda lines: [*lines, lines[3]], "there must be one of each of 2"),
        (lambda lines: lines[:2] + lines[3:], "1 lines of publisher:eth0"),
        (lambda lines: lines[1:], "start"),
        (lambda lines: [*lines, {"k": "other"}], "unknown kind"),
        (lambda lines: [*lines, {"k": "move", "t_us": 1}], "receiver is missing"),
    ],
)
def test_damaged_samples_are_refused(measure, change, said):
    with pytest.raises(SamplesError, match=said):
        measure(change(by_hand()), made.spec(receivers=2, edges=1))


def points(*cases, seeds=(1, 2)):
    """Points from metrics: label, what the spec differs in, each seed's metrics."""
    specs = {label: made.spec("names", **more) for label, more, _ in cases}
    runs = [(label, seed, metrics[i]) for label, _, metrics in cases for i, seed in enumerate(seeds)]
    return points_of(specs, runs)


def test_from_the_fewest_receivers_to_the_most():
    def run(goodput, time, sent):
        return {"goodput_mean_mbit_s": goodput, "completion_mean_s": time, "publisher_sent_bytes": sent}

    every = points(
        ("names,receivers=7", {"receivers": 7}, [run(9.9, 1.01, 105), run(9.8, 1.02, 110)]),
        ("names,receivers=1", {"receivers": 1}, [run(10.0, 1.0, 100), run(10.0, 1.0, 100)]),
        ("names,receivers=4", {"receivers": 4}, [run(1.0, 9.0, 100), run(1.0, 9.0, 100)]),
        ("unicast,receivers=7", {"receivers": 7}, [run(1.0, 7.0, 700), run(1.0, 7.0, 700)]),
    )
    groups = alike(every, "receivers")
    assert [[point.receivers for point in group] for group in groups.values()] == [[1, 4, 7]]
    found = over_receivers(next(iter(groups.values())))
    assert found["goodput_fall_percent"].mean == pytest.approx(1.5)
    assert found["completion_ratio"].mean == pytest.approx(1.015)
    assert found["sent_ratio"].mean == pytest.approx(1.075)
    beside = beside_unicast(every)
    assert list(beside) == ["names,receivers=7"]
    assert beside["names,receivers=7"]["goodput_vs_unicast"].mean == pytest.approx(9.85)
    assert beside["names,receivers=7"]["completion_vs_unicast_s"].mean == pytest.approx(-5.985)


def test_a_straight_line_over_sizes():
    def cases(times):
        return [
            (f"names,bytes={i}", {"bytes": 1000 * (i + 1)}, [{"completion_mean_s": t}]) for i, t in enumerate(times)
        ]

    def r2(times):
        return over_sizes(next(iter(alike(points(*cases(times), seeds=(1,)), "file_bytes").values())))

    assert r2([1.1, 2.1, 3.1, 4.1]) == pytest.approx(1)
    assert r2([1.0, 5.0, 2.0, 4.0]) < 0.5
    assert r2([1.0, 2.0]) is None


def test_betas_curve():
    def case(beta, again, goodput):
        return (
            f"timer,beta={beta}",
            {"beta": beta},
            [{"retransmissions_percent": again, "goodput_mean_mbit_s": goodput}],
        )

    every = points(case(4, 8.0, 9.0), case(20, 2.0, 8.0), case(8, 4.0, 10.0), case(None, 4.0, 9.8), seeds=(1,))
    found = over_beta(next(iter(alike(every, "beta").values())))
    assert found["retransmissions_ratio"].mean == 0.25
    assert found["goodput_of_best"] == pytest.approx(0.98)
