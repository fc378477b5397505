# SPDX-License-Identifier: Apache-2.0
"""A metrics endpoint for Prometheus over a View. On loopback by default: metrics say how a network is doing."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from . import http
from .track import TROUBLES
from .view import DELAY_BOUNDS_US, PortView, View

LOOPBACK = "127.0.0.1"
GAINS = ("kp", "ki", "kd", "target_us", "interval_us", "m1_us", "m2_us")
"""The gains that are shown: those that a tuner changes."""

_PORT = ("device", "port")
_BOUNDS_S = (*(str(bound_us / 1e6) for bound_us in DELAY_BOUNDS_US), "+Inf")


class MetricsAddressError(ValueError):
    """An address that can't be: the given text, the right form."""


class MetricsError(OSError):
    """An address that can't be listened on; `filename` is the option, `strerror` fault and remedy."""


def parse_address(text: str) -> tuple[str, int]:
    """`[HOST:]PORT`, HOST an address: (host, port). Raises MetricsAddressError."""
    host, colon, port = text.rpartition(":")
    wrong = MetricsAddressError(f"--metrics {text}: must be PORT or ADDRESS:PORT (127.0.0.1:9464)")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536 or (colon and not host):
        raise wrong
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        return str(ipaddress.ip_address(host)) if host and host != "localhost" else LOOPBACK, int(port)
    except ValueError:
        raise wrong from None


class ViewCollector(Collector):
    """Content of a scrape. Of a device that is down its ports are left out, and of a port that has not been heard for
    STALE_S all but its counters and ages: old figures would be taken for good ones."""

    def __init__(self, view: View, clock: Callable[[], float] = time.time) -> None:
        self._view, self._clock = view, clock

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]:
        with self._view.lock:  # not for long: what is written to the socket is made from what is gathered here
            devices = [(name, state.up) for name, state in self._view.devices.items()]
            down = {name for name, up in devices if up is False}
            ports = [(key, port) for key, port in self._view.ports.items() if key[0] not in down]
            return self._families(devices, ports, self._clock())

    @staticmethod
    def _families(
        devices: list[tuple[str, bool | None]], ports: list[tuple[tuple[str, str], PortView]], now_s: float
    ) -> list[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]:
        def gauge(name: str, told: str, labels: tuple[str, ...] = _PORT) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, told, labels=labels)

        def counter(name: str, told: str, labels: tuple[str, ...] = _PORT) -> CounterMetricFamily:
            return CounterMetricFamily(name, told, labels=labels)

        up = gauge("weir_device_up", "Whether the device answers.", ("device",))
        delay = gauge("weir_queue_delay_seconds", "Queue delay as the law has it.")
        delays = HistogramMetricFamily(
            "weir_sampled_queue_delay_seconds", "Queue delay in every sample; a scrape sees one of many.", labels=_PORT
        )
        probability = gauge("weir_drop_probability", "What a packet meets: dropped, or marked if it bears that.")
        u = gauge("weir_law_output", "The law's output U; where it squares, the square root of the probability.")
        backlog = gauge("weir_backlog_bytes", "Bytes in the queue.")
        rate = gauge("weir_departure_rate_bits_per_second", "Departures while the queue was busy.")
        age = gauge("weir_reading_age_seconds", "Since the law's last step, or since the last sample.")
        rate_age = gauge("weir_departure_rate_age_seconds", "Since the departure rate was measured.")
        trouble = gauge("weir_queue_trouble", "1: the law can't use the queue under the interface.")
        heard = gauge("weir_sample_timestamp_seconds", "Time of day of the last sample that could be used.")
        passed = counter("weir_passed_packets", "Packets that entered the queue and were not dropped.")
        passed_bytes = counter("weir_passed_bytes", "Their bytes.")
        marked = counter("weir_marked_packets", "Packets that were CE-marked.")
        aqm = counter("weir_aqm_dropped_packets", "Packets dropped by the law.")
        limit = counter("weir_limit_dropped_packets", "Packets dropped because the queue was full.")
        gains = gauge("weir_gain", "Gains in force, in the units of profiles.", (*_PORT, "key"))
        decisions = counter("weir_decisions", "Decisions of the tuner.", (*_PORT, "action"))
        decided = gauge("weir_last_decision_timestamp_seconds", "Time of day of the tuner's last decision.")
        stood_down = gauge("weir_tuner_stood_down", "1: the tuner leaves the port to whoever set its gains by hand.")
        troubles = counter("weir_unusable_samples", "Samples that could not be used.", (*_PORT, "trouble"))
        for name, is_up in devices:
            if is_up is not None:
                up.add_metric((name,), is_up)
        for key, port in ports:
            sample = port.sample
            if sample is not None:
                if not port.is_stale(now_s):
                    delay.add_metric(key, sample.delay_us / 1e6)
                    probability.add_metric(key, sample.drop_probability)
                    u.add_metric(key, sample.u)
                    backlog.add_metric(key, sample.backlog_bytes)
                    trouble.add_metric(key, bool(sample.trouble))
                    if sample.rate_bit_s is not None:
                        rate.add_metric(key, sample.rate_bit_s)
                        if sample.rate_age_us is not None:
                            rate_age.add_metric(key, sample.rate_age_us / 1e6)
                age.add_metric(key, port.age_s(now_s) or 0.0)
                heard.add_metric(key, port.heard_s)
                delays.add_metric(key, list(zip(_BOUNDS_S, accumulate(port.delays), strict=True)), port.delays_us / 1e6)
                passed.add_metric(key, sample.passed_packets)
                passed_bytes.add_metric(key, sample.passed_bytes)
                marked.add_metric(key, sample.marks_packets)
                aqm.add_metric(key, sample.drops_aqm_packets)
                limit.add_metric(key, sample.drops_limit_packets)
            for name in GAINS:
                if name in port.gains:
                    gains.add_metric((*key, name), port.gains[name])
            for action, count in port.decisions.items():
                decisions.add_metric((*key, action), count)
            if port.decisions:
                stood_down.add_metric(key, port.stood_down)
            if port.decided_s:
                decided.add_metric(key, port.decided_s)
            for kind in TROUBLES:
                troubles.add_metric((*key, kind), port.track.counts[kind])
        return [
            up, delay, delays, probability, u, backlog, rate, rate_age, age, trouble, heard, passed, passed_bytes,
            marked, aqm, limit, gains, decisions, decided, stood_down, troubles,
        ]  # fmt: skip


class MetricsServer:
    """Serves a View at http://HOST:PORT/metrics until `close`. Raises MetricsError when it can't listen there."""

    def __init__(
        self,
        view: View,
        address: tuple[str, int],
        clock: Callable[[], float] = time.time,
        more: Iterable[Collector] = (),
    ) -> None:
        registry = CollectorRegistry(auto_describe=False)
        for collector in (ViewCollector(view, clock), *more):
            registry.register(collector)
        host, port = address
        metrics = make_wsgi_app(registry)

        def app(environ: dict, start_response: Callable) -> Iterable[bytes]:
            if environ["PATH_INFO"] == "/metrics":
                try:
                    return metrics(environ, start_response)
                except (TypeError, ValueError):  # prometheus_client reads a version in Accept as numbers, unchecked
                    return metrics({**environ, "HTTP_ACCEPT": ""}, start_response)
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"only /metrics is here\n"]

        try:
            self._server, self._thread = http.serve(address, app)
        except OSError as error:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise MetricsError(
                error.errno, f"{error.strerror}; give another [HOST:]PORT", f"--metrics {where}"
            ) from None
        self.port = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join()
