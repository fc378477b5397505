# SPDX-License-Identifier: Apache-2.0
"""Scrapes of the past: what promtool is given has each series as a scrape then would have found it."""

import subprocess
from collections import defaultdict

from boards_rig import tool
from prometheus_client.parser import text_string_to_metric_families

from weir.dataplane.base import Sample
from weir.telemetry.history import History
from weir.telemetry.view import Decision, View

LABELS = {"job": "weir", "instance": "replay"}


def made() -> History:
    """Two queues, a sample each 100 ms for three seconds from 1000 s on, a decision, a scrape a second."""
    view = View(tuned=True)
    history = History(view, LABELS)
    for n in range(30):
        now_s = 1000 + n / 10
        for port, delay_us in (("1", 4000), ("2", 9000 + 100 * n)):
            view.take(
                Sample("s1", port, n * 100_000, delay_us, 0.1, 0.01, 5000, 8_000_000, n, n * 1000, 0, 0, 0, 5), now_s
            )
        if n == 15:
            record = {
                "k": "decision",
                "device": "s1",
                "port": "2",
                "action": "set",
                "changed": {"target_us": [15000, 5000]},
            }
            view.take(Decision(record), now_s)
        if n % 10 == 9:
            history.scrape(now_s)
    return history


def series(history: History) -> dict[tuple, list[tuple[float, float]]]:
    found = defaultdict(list)
    for family in text_string_to_metric_families(history.text()):
        for each in family.samples:
            labels = {key: value for key, value in each.labels.items() if key not in LABELS}
            assert {key: each.labels[key] for key in LABELS} == LABELS
            # In the older format, which this parser is of, times are in milliseconds.
            found[each.name, *sorted(labels.items())].append((round(each.timestamp * 1000, 3), each.value))
    return found


def test_each_series_is_as_it_was_at_each_scrape():
    found = series(made())
    port = ("device", "s1"), ("port", "2")
    assert found[("weir_queue_delay_seconds", *port)] == [(1000.9, 0.0099), (1001.9, 0.0109), (1002.9, 0.0119)]
    assert found[("weir_passed_packets_total", *port)] == [(1000.9, 9), (1001.9, 19), (1002.9, 29)]
    assert found[("weir_decisions_total", ("action", "set"), *port)] == [(1000.9, 0), (1001.9, 1), (1002.9, 1)]
    assert found[("weir_gain", port[0], ("key", "target_us"), port[1])] == [(1001.9, 5000), (1002.9, 5000)]
    assert found["up",] == [(1000.9, 1), (1001.9, 1), (1002.9, 1)]
    buckets = [
        found[("weir_sampled_queue_delay_seconds_bucket", port[0], ("le", le), port[1])] for le in ("0.01", "+Inf")
    ]
    assert buckets == [[(1000.9, 10), (1001.9, 11), (1002.9, 11)], [(1000.9, 10), (1001.9, 20), (1002.9, 30)]]


def test_promtool_takes_it(tmp_path):
    (tmp_path / "metrics").write_text(made().text())
    words = [tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", tmp_path / "metrics", tmp_path / "data"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [path for path in (tmp_path / "data").iterdir() if path.is_dir()]
