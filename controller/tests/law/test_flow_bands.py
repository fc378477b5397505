# SPDX-License-Identifier: Apache-2.0
"""Two bands of flows: their vectors are what the golden model says, widths hold, and the bounds of the page hold."""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import VECTORS

from weir import bands, bands_vectors
from weir.bands import (
    DEFAULT,
    FREE_BYTES,
    HELD_MOST_TICKS,
    NEW_BYTES,
    RANGES,
    BandFlow,
    Bands,
    Budget,
    Kind,
    MarkedBudget,
)
from weir.law import U32_MAX, Share, WidthError

TUNED = bands_vectors.TUNED
HALF_LIFE_S = 2**17 / 1e6
HALF = replace(DEFAULT, ahead_share_q16=bands.SHARE_ONE_Q16 // 2, ahead_most_bytes=30 * 1514)
COUNTERS = 4096
SETTINGS = st.builds(Bands, **{name: st.integers(least, most) for name, (least, most) in RANGES.items()})
PACKETS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 2**20), st.integers(40, 65_535), st.integers(0, U32_MAX)), max_size=60
)


def test_the_committed_file_equals_the_model() -> None:
    same = (VECTORS / "bands" / "arrival.jsonl").read_text(encoding="utf-8") == bands_vectors.generate()
    assert same, "out of date: `./run generate`"


def test_every_kind_occurs_both_refused_and_not() -> None:
    lines = [json.loads(line) for line in bands_vectors.generate().splitlines()]
    arrivals = [line for line in lines if line["op"] == "band_arrival"]
    assert {line["kind"] for line in arrivals} == set(map(int, Kind))
    assert {line["refused"] for line in arrivals if line["kind"] == Kind.STRANGER} == {0, 1}
    assert {line["late"] for line in lines if line["op"] == "ahead"} == {0, 1}


@given(SETTINGS, PACKETS)
def test_ahead_never_exceeds_bulk_by_more_than_the_free_bytes(given_bands: Bands, packets: list) -> None:
    """The bound of flows.md, for any settings, times and sizes: the sums of recent bytes."""
    queue, now_us = bands_vectors.Queue(), 2**40
    for index, step_us, len_bytes, tau_us in packets:
        now_us += step_us
        flow = queue.flows[index]
        kind = bands.arrival(flow, queue.share, queue.budget, TUNED, given_bands, now_us, len_bytes, tau_us)
        if kind != Kind.AHEAD and not bands.is_refused(kind, TUNED, tau_us):
            bands.passed(queue.budget, len_bytes)
        assert queue.budget.ahead_bytes <= queue.budget.bulk_bytes + FREE_BYTES
        assert queue.budget.new_bytes <= queue.budget.ahead_bytes


@dataclass
class Line:
    """A line with strict priority of band A over band B. A packet is (flow, number, bytes)."""

    rate_bytes_s: float
    limit_us: float
    settings: Bands = DEFAULT
    counters: list[BandFlow] = field(default_factory=lambda: [BandFlow() for _ in range(COUNTERS)])
    share: Share = field(default_factory=Share)
    budget: Budget = field(default_factory=Budget)
    ahead: deque = field(default_factory=deque)
    bulk: deque = field(default_factory=deque)
    bulk_bytes: int = 0
    ready_us: float = 0.0
    left: list = field(default_factory=list)

    def run_until(self, now_us: float) -> None:
        while self.ahead or self.bulk:
            band = self.ahead or self.bulk
            end_us = self.ready_us + band[0][2] / self.rate_bytes_s * 1e6
            if end_us > now_us:
                return
            packet, self.ready_us = band.popleft(), end_us
            if band is self.bulk:
                self.bulk_bytes -= packet[2]
            self.left.append((end_us, *packet, band is self.bulk))
        self.ready_us = now_us

    def arrive(self, now_us: int, flow: int, number: int, len_bytes: int) -> Kind:
        """The law here is a bound in time, beyond which all of bulk is dropped."""
        self.run_until(now_us)
        tau_us = int(self.bulk_bytes / self.rate_bytes_s * 1e6)
        counter = self.counters[flow % COUNTERS]
        kind = bands.arrival(counter, self.share, self.budget, TUNED, self.settings, now_us, len_bytes, tau_us)
        if kind == Kind.AHEAD:
            self.ahead.append((flow, number, len_bytes))
        elif not bands.is_refused(kind, TUNED, tau_us) and tau_us < self.limit_us:
            bands.passed(self.budget, len_bytes)
            self.bulk_bytes += len_bytes
            self.bulk.append((flow, number, len_bytes))
        return kind

    def rate(self, chosen: range, from_us: float) -> float:
        """Bytes a second of those flows that left, from a time on."""
        sent = sum(size for at_us, flow, _, size, _ in self.left if flow in chosen and at_us > from_us)
        return sent / ((self.left[-1][0] - from_us) / 1e6)


def _merged(random: Random, until_us: int, sources: list[tuple[float, int, Iterator[int]]]) -> Iterator[tuple]:
    """time, flow, number, bytes of packets of sources (bytes a second, bytes a packet, flows)."""
    due = [random.random() * 1000 for _ in sources]
    number = 0
    while min(due) < until_us:
        which = due.index(min(due))
        rate_bytes_s, len_bytes, flows = sources[which]
        yield int(due[which]), next(flows), number, len_bytes
        number += 1
        due[which] += len_bytes / rate_bytes_s * 1e6 * random.uniform(0.5, 1.5)


def _always(flow: int) -> Iterator[int]:
    while True:
        yield flow


def _ports(random: Random, count: int) -> Iterator[int]:
    while True:
        yield 100 + random.randrange(count)


def _in_pairs(random: Random, count: int) -> Iterator[int]:
    """Each port twice: its second packet is no longer new."""
    for port in _ports(random, count):
        yield from (port, port)


STRANGERS = {"ten thousand": _ports, "in pairs": _in_pairs}


@pytest.mark.parametrize(("rate_mbit_s", "len_bytes"), [(2, 64), (2, 1514), (12, 64), (12, 1514), (100, 1514)])
@pytest.mark.parametrize("kind", STRANGERS)
def test_bulk_keeps_its_share_whatever_ports_a_flood_takes(rate_mbit_s: int, kind: str, len_bytes: int) -> None:
    """A flood of three times the line, each packet of some port, beside one that fills the line: bulk's part."""
    rate_bytes_s, random = rate_mbit_s * 125_000, Random(1)
    line = Line(rate_bytes_s, limit_us=26_000)
    until_us = int(20_000 * len_bytes / (3 * rate_bytes_s) * 1e6)
    sources = [(3.0 * rate_bytes_s, len_bytes, STRANGERS[kind](random, 10_000)),
               (1.2 * rate_bytes_s, 1514, _always(0))]  # fmt: skip
    for at_us, flow, number, size in _merged(random, until_us, sources):
        line.arrive(2**40 + at_us, flow, number, size)
    begin_us = 2**40 + until_us / 3
    late = [packet for packet in line.left if packet[0] > begin_us]
    sent = sum(size for _, _, _, size, _ in late)
    bulk = sum(size for _, _, _, size, in_bulk in late if in_bulk)
    free = FREE_BYTES / 2 / HALF_LIFE_S * (late[-1][0] - begin_us) / 1e6 + FREE_BYTES
    queued = line.limit_us / 1e6 * rate_bytes_s  # has passed and not left
    assert bulk >= (sent - free - queued) / 2 - 0.02 * sent


def test_a_flood_of_new_ports_leaves_a_known_flow_half_and_a_call_all() -> None:
    rate_bytes_s, random = 12 * 125_000, Random(2)
    line = Line(rate_bytes_s, limit_us=26_000)
    sources = [(3.0 * rate_bytes_s, 1514, _ports(random, 10_000)), (1.0 * rate_bytes_s, 1514, _always(0)),
               (50 * 214.0, 214, _always(1))]  # fmt: skip
    kinds: dict[int, list[Kind]] = {0: [], 1: []}
    for at_us, flow, number, size in _merged(random, 4_000_000, sources):
        kind = line.arrive(2**40 + at_us, flow, number, size)
        if flow in kinds and at_us > 1_000_000:
            kinds[flow].append(kind)
    assert line.rate(range(1), 2**40 + 1e6) > 0.5 * rate_bytes_s
    assert kinds[1].count(Kind.AHEAD) > 0.97 * len(kinds[1])


@given(st.integers(0, 2**32 - 1))
def test_a_flow_that_was_silent_never_overtakes_itself(seed: int) -> None:
    """Bursts with silences shorter than HELD_MOST_TICKS: a flow returns ahead only after its packets have left bulk."""
    random = Random(seed)
    line = Line(1_500_000, limit_us=60_000)
    now_us, number, ends_us = 2**40, 0, 2**40 + 700_000
    while now_us < ends_us:
        for _ in range(random.randrange(1, 12)):
            line.arrive(now_us, 0, number, 1514)
            number += 1
        if random.random() < 0.7:
            line.arrive(now_us, 1, number, 1514)
        now_us += random.randrange(30_000)
        if number > 30 and random.random() < 0.1:
            now_us += random.randrange(300_000)
    line.run_until(now_us + 10**6)
    # released by HELD_MOST_TICKS without a silence: at most once in that time
    numbers = [number for _, flow, number, _, _ in line.left if flow == 0]
    turned = sum(after < before for before, after in pairwise(numbers))
    assert turned <= 1 + (now_us - 2**40) // (HELD_MOST_TICKS << bands.TICK_SHIFT)


def _one(flow: BandFlow, now_us: int, len_bytes: int = 1514, tau_us: int = 0, share: Share | None = None,
         budget: Budget | None = None) -> Kind:  # fmt: skip
    share = Share(64 * 100_000) if share is None else share
    budget = Budget(bulk_bytes=10**6, budget_last_us=now_us) if budget is None else budget
    return bands.arrival(flow, share, budget, TUNED, HALF, now_us, len_bytes, tau_us)


def test_a_young_flow_is_ahead_up_to_the_threshold_and_again_after_it_was_silent() -> None:
    flow, now_us = BandFlow(), 2**40
    kinds = [_one(flow, now_us + i) for i in range(40)]
    assert kinds[:30] == [Kind.AHEAD] * 30
    assert Kind.AHEAD not in kinds[30:]
    later_us = now_us + 4 * 2**17
    assert _one(flow, later_us) == Kind.AHEAD


def test_a_flow_is_held_while_its_packets_wait_in_bulk() -> None:
    tau_us = 40_000
    hold_us = bands.hold_ticks(TUNED, tau_us) << bands.TICK_SHIFT
    assert hold_us >= 2 * tau_us + TUNED.interval_us
    for wait_us, kind in ((hold_us - 2048, Kind.SMALL), (hold_us + 2048, Kind.AHEAD)):
        flow, now_us = BandFlow(flow_bytes=60_000, flow_last_us=2**40), 2**40
        assert _one(flow, now_us, tau_us=tau_us) in (Kind.SMALL, Kind.LARGE)
        flow.flow_bytes = 10_000  # sparse again
        assert _one(flow, now_us + wait_us, tau_us=tau_us) == kind


def test_a_sparse_flow_is_held_for_no_longer_than_half_a_second() -> None:
    flow, now_us = BandFlow(flow_bytes=60_000, flow_last_us=2**40), 2**40
    _one(flow, now_us, tau_us=50_000)
    flow.flow_bytes = 2000
    kinds = [_one(flow, now_us + t * 20_000, 214, tau_us=50_000) for t in range(1, 60)]
    first = kinds.index(Kind.AHEAD)
    assert first == pytest.approx((HELD_MOST_TICKS << bands.TICK_SHIFT) / 20_000, abs=1)
    assert set(kinds[first:]) == {Kind.AHEAD}


def test_new_flows_have_half_of_the_budget_and_known_ones_need_room_for_what_they_sent() -> None:
    budget = Budget(bulk_bytes=100_000, ahead_bytes=54_000, new_bytes=54_000, budget_last_us=2**40)
    assert _one(BandFlow(), 2**40, budget=replace(budget)) == Kind.STRANGER
    known = BandFlow(flow_bytes=NEW_BYTES, flow_last_us=2**40)
    assert _one(known, 2**40, budget=replace(budget)) == Kind.AHEAD
    full = Budget(bulk_bytes=100_000, ahead_bytes=100_000, new_bytes=0, budget_last_us=2**40)
    assert _one(BandFlow(flow_bytes=2000, flow_last_us=2**40), 2**40, 214, budget=replace(full)) == Kind.AHEAD
    assert _one(BandFlow(flow_bytes=20_000, flow_last_us=2**40), 2**40, budget=replace(full)) == Kind.SPILLED


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from([64, 214, 1514]), st.integers(0, 40)), max_size=200),
    st.sampled_from([50_000, 250_000, 1_500_000]),
)
def test_band_a_of_a_line_that_stops_keeps_to_its_limit(packets: list, rate_bytes_s: int) -> None:
    """By the rate before: delay_limit_us or min_backlog_bytes, and a packet more."""
    queue, now_us, waiting_bytes = bands_vectors.Queue(), 2**40, 0
    most_bytes = max(TUNED.delay_limit_us * rate_bytes_s / 1e6, TUNED.min_backlog_bytes) + 1514
    for step_us, len_bytes, port in packets:
        now_us += step_us
        flow = queue.flows[port % len(queue.flows)]
        kind = bands.arrival(flow, queue.share, queue.budget, TUNED, DEFAULT, now_us, len_bytes, 0)
        if kind != Kind.AHEAD:
            bands.passed(queue.budget, len_bytes)
        elif not bands.is_late(TUNED, waiting_bytes, waiting_bytes * 10**6 // rate_bytes_s):
            waiting_bytes += len_bytes
        assert waiting_bytes <= most_bytes


def test_the_limit_of_band_a_needs_a_backlog_and_a_limit() -> None:
    assert bands.is_late(TUNED, TUNED.min_backlog_bytes, TUNED.delay_limit_us)
    assert not bands.is_late(TUNED, TUNED.min_backlog_bytes, TUNED.delay_limit_us - 1)
    assert not bands.is_late(TUNED, TUNED.min_backlog_bytes - 1, U32_MAX)
    assert not bands.is_late(replace(TUNED, delay_limit_us=0), U32_MAX, U32_MAX)


def test_a_stranger_is_refused_from_a_quarter_of_the_target() -> None:
    edge_us = TUNED.target_us // 4
    assert not bands.is_refused(Kind.STRANGER, TUNED, edge_us - 1)
    assert bands.is_refused(Kind.STRANGER, TUNED, edge_us)
    assert not any(bands.is_refused(kind, TUNED, U32_MAX) for kind in Kind if kind != Kind.STRANGER)


def test_only_flows_that_are_not_sparse_move_the_mean() -> None:
    share = Share(64 * 100_000)
    for _ in range(50):
        _one(BandFlow(), 2**40, share=share)
        _one(BandFlow(), 2**40, share=share, budget=Budget(budget_last_us=2**40, ahead_bytes=10**6, new_bytes=10**6))
    assert share == Share(64 * 100_000)
    _one(BandFlow(flow_bytes=200_000, flow_last_us=2**40), 2**40, share=share)
    assert share.share_mean_q6 > 64 * 100_000


@pytest.mark.parametrize("name", RANGES)
def test_a_parameter_out_of_range_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = {RANGES[name][1] + 1}"):
        replace(DEFAULT, **{name: RANGES[name][1] + 1})


def test_an_input_that_is_no_number_of_its_width_is_found() -> None:
    with pytest.raises(WidthError, match="tau_us"):
        bands.hold_ticks(TUNED, 2**32)
    with pytest.raises(WidthError, match="now_us"):
        _one(BandFlow(), 2**64)


def _marked(budget: MarkedBudget, flow: BandFlow, now_us: int, size: int, marked: bool = True) -> Kind:
    return bands.arrival(flow, Share(), budget, TUNED, DEFAULT, now_us, size, 0, marked)


@given(st.lists(st.tuples(st.integers(0, 40_000), st.sampled_from([64, 214, 1514]), st.integers(0, 5))))
def test_packets_marked_ef_stay_in_a_quarter_of_the_budget(packets: list) -> None:
    """Flow 0 is not marked; the others mark all they send."""
    flows, budget, now_us = [BandFlow() for _ in range(6)], MarkedBudget(), 2**40
    for step_us, size, index in packets:
        now_us += step_us
        before = budget.marked_bytes
        if _marked(budget, flows[index], now_us, size, index > 0) != Kind.AHEAD:
            bands.passed(budget, size)
        allowed = budget.bulk_bytes + FREE_BYTES
        assert budget.ahead_bytes <= allowed
        assert budget.marked_bytes <= max(allowed >> 2, before)
        assert index or budget.marked_bytes <= before


def test_a_marked_flow_beyond_its_part_is_a_flow_like_others() -> None:
    full = MarkedBudget(bulk_bytes=100_000, marked_bytes=27_000, budget_last_us=2**40)
    bulk = BandFlow(flow_bytes=50_000, flow_last_us=2**40)
    assert _marked(replace(full), replace(bulk), 2**40, 1514) in (Kind.SMALL, Kind.LARGE)
    some = replace(full, marked_bytes=20_000)
    assert _marked(some, replace(bulk), 2**40, 1514) == Kind.AHEAD
    assert some.marked_bytes == 21_514
    assert _marked(replace(some), replace(bulk), 2**40, 1514, marked=False) in (Kind.SMALL, Kind.LARGE)


def test_a_sparse_packet_needs_no_mark() -> None:
    budget = MarkedBudget()
    assert _marked(budget, BandFlow(), 2**40, 214) == Kind.AHEAD
    assert (budget.marked_bytes, budget.new_bytes) == (0, 214)
