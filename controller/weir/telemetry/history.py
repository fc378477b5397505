# SPDX-License-Identifier: Apache-2.0
"""Past scrapes of a View, as OpenMetrics text with times: `promtool tsdb create-blocks-from openmetrics` takes it, and
a board then shows the past as it would have shown it live."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

from .prometheus import ViewCollector
from .view import View


class History(Collector):
    """Scrapes of a View, kept. `labels` are those that Prometheus adds to each series, as `job` and `instance`; its
    `up` is 1 at each scrape."""

    def __init__(self, view: View, labels: dict[str, str]) -> None:
        self._now_s = 0.0
        self._view = ViewCollector(view, lambda: self._now_s)
        self._labels = labels
        self._families: dict[str, Metric] = {}

    def scrape(self, now_s: float) -> None:
        """Keeps the state at that time of day; later than the scrape before."""
        self._now_s = now_s
        up = Metric("up", "Whether the scrape went well.", "gauge")
        up.add_sample("up", {}, 1.0)
        for family in (up, *self._view.collect()):
            kept = self._families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                kept.add_sample(sample.name, {**sample.labels, **self._labels}, sample.value, now_s)

    def collect(self) -> Iterable[Metric]:
        """Each family with its series one after the other, as the format asks (OpenMetrics 1.0, "MetricPoint")."""
        for family in self._families.values():
            whole = Metric(family.name, family.documentation, family.type)
            whole.samples = sorted(family.samples, key=_series)
            yield whole

    def text(self) -> str:
        """All of it."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry).decode()


def _series(sample: Sample) -> tuple[tuple[str, str], ...]:
    """Buckets of one histogram belong together; the order of times stays."""
    return tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
