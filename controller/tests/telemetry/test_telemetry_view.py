# SPDX-License-Identifier: Apache-2.0
"""Telemetry that is broken in every way it can be, the view of many queues, and Prometheus' metrics."""

import ast
import contextlib
import json
import socket
import threading
import time
import urllib.request
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import CONTROLLER
from prometheus_client.parser import text_string_to_metric_families

from weir.dataplane.base import Down, GainsChanged, Note, Sample, Up
from weir.resources import PROFILES
from weir.settings import load
from weir.telemetry.http import CONNECTIONS_MOST, serve
from weir.telemetry.prometheus import MetricsAddressError, MetricsError, MetricsServer, parse_address
from weir.telemetry.track import BACK, GAP, REPEAT, RESET, Track
from weir.telemetry.view import ACTIONS, Decision, View

TUNED = load(PROFILES / "tuned.toml")


def sample(t_ms: float, count: int | None = None, port: str = "2", **changes) -> Sample:
    """A port through which a packet of 1000 bytes passes each millisecond; of 20 one is marked, of 10 one dropped."""
    n = round(t_ms) if count is None else count
    made = Sample(
        "s1", port, round(t_ms * 1000), 15000, 0.3, 0.09, 30000, 8_000_000, n, n * 1000, n // 20, n // 10, 0, 5
    )
    return replace(made, **changes)


def fed(*samples: Sample) -> tuple[Track, list]:
    track = Track()
    return track, [track.take(each) for each in samples]


def test_rates_are_means_over_the_window() -> None:
    _, taken = fed(*(sample(t) for t in range(0, 5001, 100)))
    assert taken[0].usable
    assert taken[0].rates is None
    rates = taken[-1].rates
    assert (rates.over_us, rates.passed_packets_s, rates.passed_bit_s) == (1_000_000, 1000, 8_000_000)
    assert (rates.marks_s, rates.drops_aqm_s, rates.drops_s) == (50, 100, 100)
    assert taken[1].rates.over_us == 100_000


def test_rates_of_rare_samples_are_over_the_last_two() -> None:
    _, taken = fed(*(sample(t) for t in (0, 5000, 10_000)))
    assert taken[-1].usable
    assert taken[-1].rates.over_us == 5_000_000


def test_a_gap_starts_anew() -> None:
    track, taken = fed(sample(0), sample(100), sample(9000), sample(9100))
    assert [each.trouble for each in taken] == [None, None, GAP, None]
    assert taken[2].words == "gap: no sample for 8.9 s"
    assert taken[3].rates.over_us == 100_000
    assert track.counts == {GAP: 1, REPEAT: 0, BACK: 0, RESET: 0}


def test_a_repeat_and_a_late_one_are_passed_over() -> None:
    _, taken = fed(sample(0), sample(100), sample(100), sample(100, delay_us=7), sample(50), sample(200))
    assert [each.trouble for each in taken] == [None, None, REPEAT, REPEAT, BACK, None]
    assert taken[-1].rates.passed_packets_s == 1000


def test_late_ones_among_good_ones_never_start_anew() -> None:
    _, taken = fed(sample(1000), sample(100), sample(1100), sample(150), sample(1200))
    assert [each.trouble for each in taken] == [None, BACK, None, BACK, None]
    assert taken[-1].rates.over_us == 200_000


def test_a_clock_that_began_anew_is_believed_at_the_second_word() -> None:
    _, taken = fed(sample(90_000), sample(90_100), sample(10, 10), sample(110, 110), sample(210, 210))
    assert [each.trouble for each in taken] == [None, None, BACK, BACK, None]
    assert "its clock began anew" in taken[3].words
    assert taken[4].rates.passed_packets_s == 1000


@pytest.mark.parametrize("name", ["marks_packets", "drops_aqm_packets", "drops_limit_packets"])
def test_one_counter_that_falls_is_a_reset(name) -> None:
    start = replace(sample(0), marks_packets=9, drops_aqm_packets=9, drops_limit_packets=9)
    _, taken = fed(start, replace(start, t_us=100_000, **{name: 8}), replace(start, t_us=200_000, **{name: 8}))
    assert taken[1].words == f"counters reset: {name} fell from 9 to 8"
    assert taken[2].rates.marks_s == 0


def test_counters_that_begin_anew_are_a_reset() -> None:
    _, taken = fed(sample(5000), sample(5100), sample(5200, 100), sample(5300, 200))
    assert [each.trouble for each in taken] == [None, None, RESET, None]
    assert taken[3].rates.passed_packets_s == 1000


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6)), max_size=50))
def test_rates_are_never_negative_whatever_comes(told) -> None:
    for taken in fed(*(sample(t / 1000, n) for t, n in told))[1]:
        assert taken.usable != bool(taken.words)
        if taken.rates:
            assert taken.usable
            assert taken.rates.over_us > 0
            assert min(taken.rates.passed_packets_s, taken.rates.drops_s, taken.rates.marks_s) >= 0


DECISION = {
    "k": "decision", "t_us": 5, "device": "s1", "port": "2", "action": "set", "reason": "the loop is slow",
    "changed": {"kp": [8.0, 12.5]}, "dry_run": False,
}  # fmt: skip


def test_view_follows_devices_gains_and_decisions() -> None:
    view = View()
    assert view.take(Up("s1", {"2": TUNED}), 1) is None
    for t in (0, 100, 600):
        assert view.take(sample(t), 2) is None
    port = view.ports["s1", "2"]
    assert [delay for _, delay in port.history] == [15000, 15000]
    assert port.rates.passed_packets_s == 1000
    assert port.gains["target_us"] == TUNED.target_us
    view.take(Decision(DECISION), 3)
    assert port.gains["kp"] == 12.5
    view.take(Decision({**DECISION, "dry_run": True, "changed": {"kp": [12.5, 1]}}), 4)
    view.take(Decision({**DECISION, "action": "keep", "changed": {"kp": [12.5, 1]}}), 4)
    assert port.gains["kp"] == 12.5
    assert port.decisions == {"set": 2, "keep": 1}
    assert view.take(GainsChanged("s1", "2", replace(TUNED, kp=3.0)), 5) == "s1 2: somebody else has set its gains"
    assert port.gains["kp"] == 3.0
    assert view.take(sample(600), 5) == "s1 2: repeat: a second sample of 600000 us"
    assert view.take(Note("s1", None, "two controllers"), 5) == "s1: two controllers"
    assert view.take(Down("s1", "no answer", 2), 5) == "s1: no answer; tried again in 2.0 s"
    assert view.take(Up("s1", {}, restored=True), 6) == "s1: had lost its gains and was given them back"
    assert len(view.notes) == 5


LABELS = ("device", "port", "key", "action", "trouble", "le")
BOUNDS = ("0.001", "0.002", "0.005", "0.01", "0.015", "0.02", "0.03", "0.05", "0.1", "0.2", "0.5", "1.0", "+Inf")


def sampled(*delays_s: float) -> dict:
    """Reported delays of port 2 after these samples."""
    port = ("s1", "2")
    counts = {
        ("weir_sampled_queue_delay_seconds_bucket", *port, bound): sum(delay_s <= float(bound) for delay_s in delays_s)
        for bound in BOUNDS
    }
    return counts | {
        ("weir_sampled_queue_delay_seconds_count", *port): len(delays_s),
        ("weir_sampled_queue_delay_seconds_sum", *port): sum(delays_s),
    }


def unusable(**counts: int) -> dict:
    return {
        ("weir_unusable_samples_total", "s1", "2", kind): counts.get(kind, 0) for kind in (GAP, REPEAT, BACK, RESET)
    }


@pytest.fixture
def served():
    """A view, a scrape of it, and a list whose last number is the time of day."""
    view, clock = View(), [1.0]
    server = MetricsServer(view, ("127.0.0.1", 0), lambda: clock[-1])
    url = f"http://127.0.0.1:{server.port}/metrics"

    def scrape() -> dict:
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
        return {
            (each.name, *(each.labels[name] for name in LABELS if name in each.labels)): each.value
            for family in text_string_to_metric_families(text)
            for each in family.samples
        }

    yield view, scrape, clock
    server.close()


def test_prometheus_gets_the_agreed_names(served) -> None:
    view, scrape, clock = served
    assert scrape() == {}
    view.take(Up("s1", {"2": TUNED}), 1.0)
    view.take(sample(1000), 2.0)
    view.take(sample(1000), 3.0)
    view.take(sample(10, device='we"ird\n\\', port="eth0"), 2.0)
    view.take(Decision(DECISION), 4.0)
    clock.append(4.5)
    found = scrape()
    port = ("s1", "2")
    assert {key: value for key, value in found.items() if key[0] != "weir_gain" and key[1] == "s1"} == {
        ("weir_device_up", "s1"): 1,
        ("weir_queue_delay_seconds", *port): 0.015,
        ("weir_drop_probability", *port): 0.09,
        ("weir_law_output", *port): 0.3,
        ("weir_backlog_bytes", *port): 30000,
        ("weir_departure_rate_bits_per_second", *port): 8e6,
        ("weir_reading_age_seconds", *port): 2.5,
        ("weir_queue_trouble", *port): 0,
        ("weir_sample_timestamp_seconds", *port): 2,
        ("weir_passed_packets_total", *port): 1000,
        ("weir_passed_bytes_total", *port): 1e6,
        ("weir_marked_packets_total", *port): 50,
        ("weir_aqm_dropped_packets_total", *port): 100,
        ("weir_limit_dropped_packets_total", *port): 0,
        ("weir_decisions_total", *port, "set"): 1,
        ("weir_last_decision_timestamp_seconds", *port): 4,
        ("weir_tuner_stood_down", *port): 0,
        **sampled(0.015),
        **unusable(repeat=1),
    }
    assert found["weir_gain", *port, "kp"] == 12.5
    assert found["weir_gain", *port, "target_us"] == TUNED.target_us
    assert found["weir_queue_delay_seconds", 'we"ird\n\\', "eth0"] == 0.015


def test_prometheus_gets_no_old_figure(served) -> None:
    """Of a queue that has fallen silent only what it has counted and how old that is; of one that says itself how old
    its readings are that age."""
    view, scrape, clock = served
    view.take(sample(1000, age_us=250_000, rate_age_us=12_000_000, trouble="netem came"), 2.0)
    clock.append(3.0)
    found = scrape()
    assert found["weir_reading_age_seconds", "s1", "2"] == 1.25
    assert found["weir_departure_rate_age_seconds", "s1", "2"] == 12
    assert found["weir_queue_trouble", "s1", "2"] == 1
    clock.append(14.0)
    assert scrape() == {
        ("weir_reading_age_seconds", "s1", "2"): 12.25,
        ("weir_sample_timestamp_seconds", "s1", "2"): 2,
        ("weir_passed_packets_total", "s1", "2"): 1000,
        ("weir_passed_bytes_total", "s1", "2"): 1e6,
        ("weir_marked_packets_total", "s1", "2"): 50,
        ("weir_aqm_dropped_packets_total", "s1", "2"): 100,
        ("weir_limit_dropped_packets_total", "s1", "2"): 0,
        **sampled(0.015),
        **unusable(),
    }
    view.take(sample(13_000), 14.0)
    assert scrape()["weir_drop_probability", "s1", "2"] == 0.09


def test_a_scrape_tells_of_the_delays_between_scrapes(served) -> None:
    """Samples on a bound, between two, and above all; none of one that could not be used."""
    view, scrape, _ = served
    delays_us = (0, 1000, 1001, 15_000, 16_000, 400_000, 16_000_000)
    for t, delay_us in enumerate(delays_us):
        view.take(sample(100 * t, delay_us=delay_us), 1.0)
    view.take(sample(0, delay_us=7), 1.0)
    found = scrape()
    assert {key: value for key, value in found.items() if key[0].startswith("weir_sampled")} == pytest.approx(
        sampled(*(delay_us / 1e6 for delay_us in delays_us))
    )
    assert found["weir_sampled_queue_delay_seconds_bucket", "s1", "2", "0.001"] == 2


def test_a_tuners_port_tells_what_was_not_decided_too() -> None:
    """So that the first decision of a kind is seen as an increase; and whether the port was left to its operator."""
    view = View(tuned=True)
    view.take(sample(0), 1.0)
    port = view.ports["s1", "2"]
    assert port.decisions == dict.fromkeys(ACTIONS, 0)
    for action, stood_down in (("set", False), ("stand-down", True), ("hold", True), ("resume", False)):
        view.take(Decision({**DECISION, "action": action, "changed": {}}), 2.0)
        assert port.stood_down == stood_down
        assert port.decisions[action] == 1
    assert set(port.decisions) == set(ACTIONS)


def test_every_action_of_the_tuner_is_known() -> None:
    """Of each call in which the tuner's core names one."""
    found = set()
    for node in ast.walk(ast.parse((CONTROLLER / "weir" / "tuner" / "core.py").read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("_say", "_change"):
            found |= {node.args[1].value} if isinstance(node.args[1], ast.Constant) else set()
    assert found == set(ACTIONS)


def test_a_trouble_is_told_when_it_comes_and_when_it_goes() -> None:
    view = View()
    assert view.take(sample(0), 1) is None
    assert view.take(sample(100, trouble="netem\x1b came"), 1) == "s1 2: netem\\x1b came"
    assert view.take(sample(200, trouble="netem\x1b came"), 1) is None
    assert "uses its queue again" in view.take(sample(300), 1)


def test_a_device_that_is_down_has_no_figures(served) -> None:
    view, scrape, _ = served
    view.take(sample(1000), 2.0)
    view.take(Down("s1", "no answer", 1.0), 3.0)
    assert scrape() == {("weir_device_up", "s1"): 0}


def test_scraped_while_it_is_fed(served) -> None:
    view, scrape, _ = served
    ended = threading.Event()

    def feed() -> None:
        for t in range(1, 200):
            for port in range(20):
                view.take(sample(t * 100, port=f"{t % 10}.{port}"), 1.0)
        ended.set()

    thread = threading.Thread(target=feed)
    thread.start()
    while not ended.is_set():
        scrape()
    thread.join()
    assert len([key for key in scrape() if key[0] == "weir_queue_delay_seconds"]) == 200


def test_a_port_in_use_is_told() -> None:
    server = MetricsServer(View(), ("127.0.0.1", 0))
    try:
        with pytest.raises(MetricsError, match="Address already in use; give another") as error:
            MetricsServer(View(), ("127.0.0.1", server.port))
        assert error.value.filename == f"--metrics 127.0.0.1:{server.port}"
    finally:
        server.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [("9464", ("127.0.0.1", 9464)), ("localhost:1", ("127.0.0.1", 1)), ("0.0.0.0:80", ("0.0.0.0", 80)),
     ("[::]:80", ("::", 80))],
)  # fmt: skip
def test_metrics_stay_on_loopback_unless_told_otherwise(text, address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":80", "0", "65536", "x", "host:80", "1.2.3:80", "1.2.3.4:", "²"])
def test_metrics_addresses_that_are_wrong(text) -> None:
    with pytest.raises(MetricsAddressError, match="must be PORT or ADDRESS:PORT"):
        parse_address(text)


def test_decisions_are_json_as_the_tuner_writes_them() -> None:
    view = View()
    view.take(Decision(json.loads(json.dumps({**DECISION, "k": "effect", "verdict": "kept"}))), 1.0)
    assert view.ports["s1", "2"].effect["verdict"] == "kept"


def test_new_connections_do_not_end_one_that_is_answered() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def app(_environ, start) -> list[bytes]:
        asked.set()
        assert go_on.wait(60)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"all of it"]

    server, _thread = serve(("127.0.0.1", 0), app)
    with contextlib.ExitStack() as held:
        held.callback(server.server_close)
        held.callback(server.shutdown)
        scrape = held.enter_context(socket.create_connection(server.server_address))
        scrape.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert asked.wait(60)
        silent = [
            held.enter_context(socket.create_connection(server.server_address)) for _ in range(4 * CONNECTIONS_MOST)
        ]
        assert silent[0].recv(1) == b""
        go_on.set()
        assert scrape.makefile("rb").read().endswith(b"all of it")


def test_who_only_holds_connections_keeps_no_scrape_out() -> None:
    server = MetricsServer(View(), ("127.0.0.1", 0))
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4 * CONNECTIONS_MOST)]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
            assert answer.status == 200
        # The first ones were ended: they read the end of the connection.
        assert [end.recv(1) for end in held[:CONNECTIONS_MOST]] == [b""] * CONNECTIONS_MOST
        patience_s = 60.0  # for a machine that hangs
        while sum("process_request_thread" in thread.name for thread in threading.enumerate()) > CONNECTIONS_MOST:
            patience_s -= 0.01
            assert patience_s > 0, "their threads end too"
            time.sleep(0.01)
    finally:
        for end in held:
            end.close()
        server.close()
