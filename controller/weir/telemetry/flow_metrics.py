# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of kinds of packets, classes of flows and, where asked for, hosts: read at each scrape."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from ..dataplane.base import Device
from .flow_readings import FlowReadings
from .flow_records import BULK, CLASSES, HostTotals, Record

_Family = CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily


class _Families:
    """Of records by one more label."""

    def __init__(self, name: str, of: str) -> None:
        def counter(unit: str, told: str) -> CounterMetricFamily:
            return CounterMetricFamily(f"weir_{name}_{unit}", f"{told} of each {of}.", labels=labels)

        labels = ("device", "port", name)
        self.packets = counter("packets", "Packets, dropped ones too; estimated from a sample,")
        self.bytes = counter("bytes", "Their bytes; estimated from a sample,")
        self.dropped = counter("dropped_packets", "Packets dropped by the law or the queue's limit")
        self.marked = counter("marked_packets", "Packets that were CE-marked")
        self.delay = SummaryMetricFamily(
            f"weir_{name}_delay_seconds", f"Queue delay that sampled packets of each {of} met.", labels=labels
        )
        self.peak = GaugeMetricFamily(
            f"weir_{name}_delay_peak_seconds", f"Highest delay of each {of} in the last 9 to 17 s.", labels=labels
        )

    def add(self, key: tuple[str, str, str], record: Record, one_in: int) -> None:
        self.packets.add_metric(key, record.sampled_packets * one_in)
        self.bytes.add_metric(key, record.sampled_bytes * one_in)
        self.dropped.add_metric(key, record.drops)
        self.marked.add_metric(key, record.marks)
        self.delay.add_metric(key, record.sampled_packets, record.delay_sum_us / 1e6)
        self.peak.add_metric(key, record.delay_peak_us / 1e6)

    def all(self) -> list[_Family]:
        return [self.packets, self.bytes, self.dropped, self.marked, self.delay, self.peak]


class FlowCollector(Collector):
    """hosts: so many hosts of each queue have metrics of their own; 0: none, as addresses are personal data."""

    def __init__(self, devices: Sequence[Device], hosts: int = 0) -> None:
        self._readings = FlowReadings(devices)
        self._hosts_most = hosts
        self._hosts: dict[tuple[str, str], HostTotals] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterable[_Family]:
        with self._lock:
            self._readings.read()
            return self._families()

    def _families(self) -> list[_Family]:
        kinds, hosts = _Families("kind", "kind"), _Families("host", "host")
        flows = GaugeMetricFamily(
            "weir_flows", "Flows that had packets in the last 10 s.", labels=("device", "port", "class")
        )
        for port in self._hosts.keys() - self._readings.windows.keys():
            del self._hosts[port]
        for port, window in self._readings.windows.items():
            last = window.last
            if last is None:
                continue
            for kind, record in last.kinds.items():
                kinds.add((*port, kind), record, last.one_in)
            if last.flows is None:
                continue
            classes = [name or BULK for name in window.classes().values()]
            for name in CLASSES:
                flows.add_metric((*port, name), classes.count(name))
            if self._hosts_most:
                totals = self._hosts.setdefault(port, HostTotals(self._hosts_most))
                totals.take(last, self._readings.local(last, None))
                for host, record in totals.totals.items():
                    hosts.add((*port, host), record, last.one_in)
        return [*kinds.all(), flows, *(hosts.all() if self._hosts_most else [])]
