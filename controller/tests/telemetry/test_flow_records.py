# SPDX-License-Identifier: Apache-2.0
"""Rates, classes and totals from readings of flow records; hosts behind NAT; metrics."""

import argparse
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from weir.dataplane.base import DataPlaneError
from weir.dataplane.bpf import NONSENSE, BpfDevice
from weir.telemetry.conntrack import host_of, translations
from weir.telemetry.flow_metrics import FlowCollector
from weir.telemetry.flow_readings import FlowReadings
from weir.telemetry.flow_records import (
    BULK,
    OTHER,
    SPARSE,
    UNRESPONSIVE,
    FlowKey,
    HostTotals,
    Reading,
    Record,
    Window,
    reading_of,
)
from weir.telemetry.flow_top import FlowScreen
from weir.telemetry.top import main

ONE_IN = 16


def key(host: str, port: int = 1) -> FlowKey:
    return FlowKey(host, "192.0.2.1", 17, port, 443)


def record(packets: int, hits: int = 0, kind: str = "large") -> Record:
    return Record(packets, 1000 * packets, 20_000 * packets, 0, hits, 30_000, {kind: packets})


def reading(t_s: float, flows: dict[FlowKey, Record] | None, source: bool = True) -> Reading:
    kinds = {"large": Record()}
    for one in (flows or {}).values():
        kinds["large"].add(one)
    return Reading(round(t_s * 1e6), ONE_IN, source, kinds, flows)


def window(*rounds: dict[FlowKey, Record], step_s: float = 5.0) -> Window:
    found = Window()
    for i, flows in enumerate(rounds):
        found.take(reading(1 + i * step_s, flows))
    return found


FLOOD, TCP, CALL = key("10.0.0.8"), key("10.0.0.7"), key("10.0.0.1")


def few(samples: int) -> Window:
    """The same with so many sampled packets, half of them dropped."""
    flows = [
        {FLOOD: record(i * samples // 2, i * samples * 4), TCP: record(i), CALL: record(i, 0, "ahead")}
        for i in range(3)
    ]
    return window(*flows)


def rounds(late: int = 2000, hits: int = 8000, others: int = 200) -> Window:
    """A flow that sends 1000 sampled packets in 5 s and then as many as `late` less these, beside a bulk flow and a
    call."""
    return window(
        {FLOOD: record(0), TCP: record(0), CALL: record(0, kind="ahead")},
        {FLOOD: record(1000, hits // 2), TCP: record(others // 2), CALL: record(10, kind="ahead")},
        {FLOOD: record(late, hits), TCP: record(others), CALL: record(20, kind="ahead")},
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rounds(), UNRESPONSIVE),
        (few(32), UNRESPONSIVE),
        (few(30), BULK),
        (rounds(late=1760), UNRESPONSIVE),
        (rounds(late=1740), BULK),  # it slows down
        (rounds(hits=0), BULK),
        (rounds(hits=3000), BULK),  # fewer than one packet in ten
        (rounds(others=2000), BULK),  # no more than its share
    ],
)
def test_a_flow_is_unresponsive_by_its_definition(found, expected):
    assert found.classes() == {FLOOD: expected, TCP: BULK, CALL: SPARSE}


def test_rows_are_rates_of_hosts():
    rows = {row.name: row for row in rounds().rows("host")}
    assert rows["10.0.0.8"].bit_s == pytest.approx(2000 * ONE_IN * 8000 / 10)
    assert rows["10.0.0.8"].share == pytest.approx(2000 / 2220)
    assert rows["10.0.0.8"].drop_share == pytest.approx(8000 / 32000)
    assert (rows["10.0.0.8"].delay_mean_us, rows["10.0.0.8"].delay_peak_us) == (20_000, 30_000)
    assert [row.flows for row in rows.values()] == [{UNRESPONSIVE: 1}, {BULK: 1}, {SPARSE: 1}]


def test_hosts_are_local_by_the_route_or_by_choice():
    one = window({}, {TCP: record(5), key("10.0.0.9"): record(5)})
    assert {row.name for row in one.rows("host")} == {"10.0.0.7", "10.0.0.9"}
    assert {row.name for row in one.rows("host", lambda one: one.destination)} == {"192.0.2.1"}


def test_a_record_made_anew_counts_from_its_start():
    """An evicted record's last packets are lost; no rate is negative."""
    found = window({TCP: record(100, 5)}, {TCP: record(3)}, {TCP: record(4)}, step_s=1)
    [row] = found.rows("flow")
    assert row.bit_s == pytest.approx(4 * ONE_IN * 8000 / 2)
    assert row.drop_share == 0


def test_an_old_reading_is_dropped_and_three_are_kept():
    found = window(*[{TCP: record(10 * i)} for i in range(40)], step_s=1)
    assert found.rows("flow")[0].over_us == 10_000_000
    slow = window(*[{TCP: record(10 * i)} for i in range(5)], step_s=60)
    assert slow.rows("flow")[0].over_us == 120_000_000
    assert window({TCP: record(1)}).rows("flow") == []


COUNTS = st.integers(0, 1000)


@given(
    st.lists(st.dictionaries(st.sampled_from([key(f"10.0.0.{i}") for i in range(6)]), COUNTS), max_size=8),
    st.integers(0, 3),
)
def test_totals_of_hosts_are_bounded_and_only_grow(readings, limit):
    totals = HostTotals(limit)
    before: dict[str, int] = {}
    last: dict[FlowKey, int] = {}
    sent = 0
    for t_s, flows in enumerate(readings):
        totals.take(reading(t_s, {one: record(packets) for one, packets in flows.items()}))
        sent += sum(n - last[k] if n >= last.get(k, 0) and k in last else n for k, n in flows.items())
        last = flows
        now = {name: one.sampled_packets for name, one in totals.totals.items()}
        assert len(now) <= limit + 1
        assert now[OTHER] >= before.get(OTHER, 0)
        assert sum(now.values()) <= sent
        before = now
    if limit == 0:
        assert set(totals.totals) == {OTHER}


NAT = """\
ipv4     2 tcp      6 431999 ESTABLISHED src=192.168.1.5 dst=192.0.2.1 sport=40000 dport=443 src=192.0.2.1 dst=198.51.100.9 sport=443 dport=50000 [ASSURED] mark=0 use=1
ipv4     2 udp      17 20 src=192.168.1.6 dst=192.0.2.1 sport=5000 dport=53 [UNREPLIED] src=192.0.2.1 dst=198.51.100.9 sport=53 dport=5000 mark=0 use=1
ipv4     2 icmp     1 29 src=192.168.1.7 dst=192.0.2.1 type=8 code=0 id=7 src=192.0.2.1 dst=198.51.100.9 type=0 code=0 id=7 mark=0 use=1
ipv6     10 tcp      6 300 ESTABLISHED src=fd00::5 dst=fd00::1 sport=1 dport=2 src=fd00::1 dst=fd00::5 sport=2 dport=1 [ASSURED] use=1
nonsense src=a dst=b src=c
"""  # noqa: E501


@pytest.mark.parametrize("source", [True, False])
def test_a_host_is_found_behind_nat(tmp_path, source):
    table = tmp_path / "nf_conntrack"
    table.write_text(NAT)
    host = host_of(reading(0, {}, source), table)

    def flow(protocol: int, local_port: int, other_port: int) -> FlowKey:
        ends = ("198.51.100.9", "192.0.2.1"), (local_port, other_port)
        (one, other), (first, second) = ends if source else (ends[0][::-1], ends[1][::-1])
        return FlowKey(one, other, protocol, first, second)

    assert host(flow(6, 50000, 443)) == "192.168.1.5"
    assert host(flow(17, 5000, 53)) == "192.168.1.6"
    assert host(flow(1, 0, 0)) == "192.168.1.7"
    assert host(flow(6, 50001, 443)) == "198.51.100.9"
    assert len(translations(NAT.splitlines())) == 3
    assert host_of(reading(0, {}), tmp_path / "missing")(TCP) == "10.0.0.7"


COUNT = dict.fromkeys(("sampled_packets", "sampled_bytes", "delay_sum_us", "delay_peak_us", "marks", "drops"), 0)
ANSWER = {
    "dev": "eth0", "t_us": 5, "ingress": False, "uplink": True, "sample_one_in": 16, "kinds": {"queue": COUNT},
    "flows": [],
}  # fmt: skip


@pytest.mark.parametrize("uplink", [True, False])
@pytest.mark.parametrize("hosts", ["src", "dst", "mark", "off", None])
def test_local_hosts_are_those_that_the_attachment_counts(hosts, uplink):
    found = reading_of(ANSWER | {"uplink": uplink} | ({"hosts": hosts} if hosts else {}))
    assert found.local_is_source == {"src": True, "dst": False}.get(hosts, uplink)


@pytest.mark.parametrize(
    "wrong",
    [
        {"t_us": -1}, {"t_us": "1"}, {"sample_one_in": 0}, {"kinds": []}, {"kinds": {"queue": {}}}, {"flows": [{}]},
        {"kinds": {"queue": COUNT | {"drops": 1.5}}}, {"flows": {}}, {"flows": ["x"]}, {"hosts": []},
    ],
)  # fmt: skip
def test_an_answer_of_the_wrong_form_is_an_error(wrong):
    assert reading_of(ANSWER).flows == {}
    if wrong == {"flows": {}}:
        assert reading_of(ANSWER | wrong).flows == {}
        return
    with pytest.raises(NONSENSE):
        reading_of(ANSWER | wrong)


class Recorded(BpfDevice):
    """Answers from a list, the last one for ever."""

    def __init__(self, *answers: dict | Exception) -> None:
        super().__init__("bpf")
        self.answers = list(answers)

    def read_flows(self) -> dict:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"eth0": answer}


def answer(t_us: int, packets: dict[str, int] | None) -> dict:
    def flow(host: str, count: int) -> dict:
        ends = {"source": host, "destination": "192.0.2.1", "protocol": 6, "source_port": 1, "destination_port": 2}
        return COUNT | ends | {"sampled_packets": count, "sampled_bytes": 100 * count, "kinds": {"queue": count}}

    found = ANSWER | {"t_us": t_us, "flows": [flow(host, count) for host, count in (packets or {}).items()]}
    if packets is None:
        del found["flows"]
    return found


def scrape(collector: FlowCollector) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry).decode()


def test_metrics_have_addresses_only_where_asked_for():
    readings = [answer(1, {"10.0.0.1": 5, "10.0.0.2": 3, "10.0.0.3": 1})]
    assert "10.0.0." not in scrape(FlowCollector([Recorded(*readings)]))
    told = scrape(FlowCollector([Recorded(*readings)], hosts=2))
    assert 'weir_host_packets_total{device="bpf",host="10.0.0.1",port="eth0"} 80.0' in told
    assert 'weir_host_packets_total{device="bpf",host="other",port="eth0"} 16.0' in told
    assert "10.0.0.3" not in told


def test_metrics_of_a_queue_without_records_or_answer():
    told = scrape(FlowCollector([Recorded(answer(1, None))], hosts=2))
    assert "weir_kind_packets_total{" in told
    assert "weir_flows{" not in told
    assert "weir_host_packets_total{" not in told
    for error in (DataPlaneError("gone"), ANSWER | {"t_us": "x"}):
        assert "weir_kind_packets_total{" not in scrape(FlowCollector([Recorded(error)], hosts=2))


@pytest.mark.parametrize("by", ["host", "flow", "kind"])
@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_screen_fits_its_terminal(by, width):
    hosts = {f"2001:db8:1:2:3:4:5:{i:x}": 1 for i in range(50)}
    readings = FlowReadings([Recorded(answer(1, {}), answer(2_000_000, hosts))])
    readings.read()
    readings.read()
    args = argparse.Namespace(by=by, host="source", filter="", sort="rate")
    console = Console(width=width, height=20, force_terminal=False)
    with console.capture() as captured:
        console.print(FlowScreen(args).render(readings, width, 20, True))
    lines = captured.get().splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= width
    if by != "kind":
        assert "2001:db8" in captured.get()
    assert "…" not in lines[1]


@pytest.mark.parametrize(
    "words",
    [
        ("--json",), ("--host", "source"), ("--by", "flow", "--host", "source"), ("--by", "kind", "--from", "x"),
        ("--by", "flow", "--p4", "127.0.0.1:1"), ("--by", "flow", "--sort", "backlog"), ("--by", "port"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(words, capsys):
    try:
        status = main(words)
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert capsys.readouterr().out == ""


def test_json_of_an_update(capsys, monkeypatch):
    device = Recorded(answer(1, {}), answer(1_000_001, {"10.0.0.1": 5}), answer(2_000_001, {"10.0.0.1": 10}))
    monkeypatch.setattr("weir.telemetry.flow_top.fleet_of", lambda *_, **__: argparse.Namespace(devices=[device]))
    assert main(("--by", "host", "--once", "--json", "--seconds", "0.01")) == 0
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert (row["name"], row["bit_s"]) == ("10.0.0.1", 10 * 16 * 800 / 2)


def test_keys_sort_and_quit():
    screen = FlowScreen(argparse.Namespace(by="flow", sort="port", filter="", host=None))
    sorts = [screen.sort]
    for _ in range(4):
        screen.keys(b"s")
        sorts.append(screen.sort)
    assert sorts == ["rate", "delay", "drops", "marks", "rate"]
    screen.keys(b"rq")
    assert (screen.reverse, screen.quit) == (True, True)
