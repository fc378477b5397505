# SPDX-License-Identifier: Apache-2.0
"""The board and the alerts: well-formed, of metrics that there are; and alerts that come when they should, only then.
tests/packet/test_boards_on_queues.py runs each query on a Prometheus."""

import functools
import re
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from boards_rig import BOARDS, alert_queries, board, board_queries, metrics, panels, rules, tool
from places import REPOSITORY
from prometheus_client import CollectorRegistry, generate_latest

from weir.dataplane.base import Sample, Up
from weir.dataplane.bpf import BpfDevice
from weir.settings import profile
from weir.telemetry.flow_metrics import FlowCollector
from weir.telemetry.prometheus import ViewCollector
from weir.telemetry.view import Decision, View

SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
FOREIGN = {"up", "scrape_duration_seconds", "node_textfile_mtime_seconds"}
"""Prometheus's own, and node_exporter's."""
COLUMNS = 24


class Recorded(BpfDevice):
    """A device with one flow."""

    def read_flows(self) -> dict:
        counts = dict.fromkeys(
            ("sampled_packets", "sampled_bytes", "delay_sum_us", "delay_peak_us", "marks", "drops"), 1
        )
        flow = counts | {"source": "10.0.0.1", "destination": "10.0.0.2", "protocol": 17, "source_port": 1}
        flows = [flow | {"destination_port": 2, "kinds": {"queue": 1}}]
        head = {"t_us": 1, "sample_one_in": 16, "uplink": True, "ingress": False}
        return {"eth0": head | {"kinds": {"queue": counts}, "flows": flows}}


def scraped() -> str:
    """Scrape of a controller with a port in which everything has happened."""
    view = View(tuned=True)
    view.take(Up("bpf", {"eth0": profile("tuned")}), 1.0)
    for t_us in (0, 100_000, 100_000):
        sample = Sample("bpf", "eth0", t_us, 15000, 0.3, 0.09, 30000, 8_000_000, 9, 9000, 1, 1, 0, 5)
        view.take(sample, 1.0)
    view.take(Decision({"device": "bpf", "port": "eth0", "action": "hold", "reason": "x"}), 2.0)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ViewCollector(view, lambda: 3.0))
    registry.register(FlowCollector([Recorded("bpf")], hosts=1))
    return generate_latest(registry).decode()


@functools.cache
def served() -> set[str]:
    """Names of the controller's and the daemon's metrics."""
    told = {
        name + suffix
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", scraped(), re.MULTILINE)
        for suffix in SUFFIXES[kind]
    }
    daemon = (REPOSITORY / "xdp" / "README.md").read_text(encoding="utf-8")
    return told | set(re.findall(r"`(weir_xdp_\w+)`", daemon))


QUERIES = board_queries() | alert_queries()


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_of_metrics_that_there_are(name) -> None:
    found = metrics(QUERIES[name])
    assert found
    assert found <= served() | FOREIGN
    assert "$" not in QUERIES[name]


def test_every_figure_of_the_controller_is_on_the_board() -> None:
    asked = set().union(*(metrics(query) for query in board_queries().values()))
    assert served() - asked == {"weir_queue_delay_seconds"}  # one sample in many; the histogram has them all


def test_panels_have_units_and_places_of_their_own() -> None:
    found = board()["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
    for one, other in combinations([panel["gridPos"] for panel in found], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    for panel in panels():
        defaults = panel["fieldConfig"]["defaults"]
        unit = defaults.get("unit") or panel["options"].get("yAxis", {}).get("unit")
        assert unit or defaults["mappings"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


def test_variables_are_chosen_from_before_they_are_used() -> None:
    seen: set[str] = set()
    for variable in board()["templating"]["list"]:
        used = set(re.findall(r"\$\{?(\w+)", str(variable["query"]) + str(variable.get("datasource"))))
        assert used <= seen, variable["name"]
        seen.add(variable["name"])
    text = str(panels())
    assert set(re.findall(r"\$\{?([a-z]\w*)", text)) == seen


def promtool(*words: object, text: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [tool("promtool"), *map(str, words)], input=text, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "--lint=all", "--lint-fatal", BOARDS / "rules.yml"),
        ("check", "config", "--lint=all", "--lint-fatal", BOARDS / "prometheus.yml"),
    ],
    ids=["rules", "config"],
)
def test_prometheus_takes_the_files(words) -> None:
    done = promtool(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_finds_no_fault_with_the_metrics() -> None:
    """But that a rate of a line is in bits, as is usual."""
    done = promtool("check", "metrics", text=scraped())
    assert done.stderr.splitlines() == ['weir_departure_rate_bits_per_second use base unit "bytes" instead of "bits"']


def test_alerts_come_when_they_should() -> None:
    cases = Path(__file__).with_name("alerts.yml")
    done = promtool("test", "rules", cases)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = [
        (case["alertname"], bool(case["exp_alerts"]))
        for test in yaml.safe_load(cases.read_text(encoding="utf-8"))["tests"]
        for case in test["alert_rule_test"]
    ]
    assert set(asked) == {(rule["alert"], comes) for rule in rules() for comes in (True, False)}
