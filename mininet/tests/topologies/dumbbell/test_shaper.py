# SPDX-License-Identifier: Apache-2.0
"""A line behind the queue under test, the rules of its shaper, and the peer's rules."""

import pytest
from scenario_checks import check_mistake

from weirlab.topologies.dumbbell.autorate import Autorate, AutorateSettings
from weirlab.topologies.dumbbell.drive import Drive
from weirlab.topologies.dumbbell.network import Dumbbell
from weirlab.topologies.dumbbell.step_response import capacity_bits

GOOD = """\
[scenario]
name = "small"
title = "Small"
duration_s = 10
warmup_s = 1
seeds = 1
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 20
[link.line]
rate_file = "rates.csv"
queue_limit_packets = 300
[[flows]]
kind = "tcp"
[variants.plain]
qdisc = "cake"
[variants.fixed]
qdisc = "cake"
shaper = { rule = "fixed", rate_mbit_s = 4 }
[variants.follow]
qdisc = "weir"
profile = "tuned"
shaper = { rule = "follow", min_mbit_s = 1, base_mbit_s = 6, max_mbit_s = 20 }
[variants.autorate]
qdisc = "cake"
shaper = { rule = "autorate", min_mbit_s = 1, base_mbit_s = 6, max_mbit_s = 20, one_way = true }
"""


@pytest.fixture(autouse=True)
def rates(tmp_path):
    (tmp_path / "rates.csv").write_text("time_s,rate_mbit_s\n0,4\n2,8\n")


def spec_of(load, label, **more):
    return {**load(GOOD).runs(only=label)[0].spec, "seed": 1, **more}


def test_the_line_and_each_rule_are_in_the_spec(load):
    specs = {label: spec_of(load, label) for label in ("plain", "fixed", "follow", "autorate")}
    assert specs["plain"]["link"]["line"]["rates"][:2] == [(0.0, 4.0), (2.0, 8.0)]
    assert specs["plain"]["shaper"] == {"rule": "fixed", "rate_mbit_s": 10}
    assert specs["follow"]["shaper"]["delay_ms"] == 30
    assert specs["autorate"]["shaper"]["most_down_ms"] == 60
    assert capacity_bits(specs["plain"], 0, 4) == pytest.approx(24e6)


@pytest.mark.parametrize(("label", "rate"), [("plain", 10), ("fixed", 4), ("follow", 6), ("autorate", 6)])
def test_the_shaper_begins_at_its_rate_and_the_line_follows_its_file(load, tmp_path, label, rate):
    drive = Drive(spec_of(load, label), tmp_path)
    assert drive.bottleneck.rate_mbit_s == rate
    changed = [(at_s, node, line) for at_s, _, lines in drive.changes for node, line in lines]
    assert {node for _, node, _ in changed} == {"r2"}
    assert [at_s for at_s, _, _ in changed][:2] == [0.0, 2.0]
    assert "dev out" in changed[1][2]
    assert "8mbit" in changed[1][2]


def test_the_line_is_a_hop_of_its_own(load, tmp_path):
    drive = Drive(spec_of(load, "plain"), tmp_path)
    hops = Dumbbell.hops(1, drive.access, drive.bottleneck, 1440, line=True)
    assert [hop.name for hop in hops] == ["access", "bottleneck", "line", "reverse"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('rule = "follow"', 'rule = "guess"', "variants.follow.shaper.rule"),
        ("base_mbit_s = 6, max_mbit_s = 20 }", "base_mbit_s = 60, max_mbit_s = 20 }", "variants.follow.shaper"),
        ("one_way = true", "delay_ms = 5", "variants.autorate.shaper"),
        ('rate_file = "rates.csv"', 'rate_file = "none.csv"', "link.line.rate_file"),
        ('rate_file = "rates.csv"', 'rate_file = "lte:x"', "link.line.rate_file"),
        ('[link.line]\nrate_file = "rates.csv"\nqueue_limit_packets = 300\n', "", "variants.fixed.shaper"),
        ('profile = "tuned"\n', 'profile = "tuned"\ntune = true\n', "variants.follow.qdisc"),
        ("[link.line]", "[link.return]\n[link.line]", "link.return"),
    ],
)
def test_mistakes_are_named(load, before, after, said):
    check_mistake(load, GOOD, before, after, said)


# ---- the peer's rules ----


class Answered:
    """Answers 50 ms apart, each `delay_ms` above a round trip of 20 ms, at a load of the rate."""

    def __init__(self, **options) -> None:
        self.rule = Autorate(AutorateSettings(1e6, 10e6, 40e6, **options), 0)
        self.t_us, self.key, self.sent_bytes = 0, 0, 0.0

    def run(self, count: int, delay_ms: float, load: float = 1.0) -> list[float]:
        found = []
        for _ in range(count):
            self.t_us += 50_000
            self.sent_bytes += load * self.rule.rate_bit_s * 0.05 / 8
            self.rule.tick(self.t_us, round(self.sent_bytes))
            self.key += 1
            self.rule.sent(self.key, "a", self.t_us - 20_000 - round(delay_ms * 1000), 0)
            assert self.rule.answered(self.key, self.t_us)
            found.append(self.rule.rate_bit_s)
        return found


def test_a_used_rate_grows_by_four_percent_an_answer_to_its_bound():
    answered = Answered()
    answered.run(20, 0)
    first, second = answered.run(2, 0)
    assert second == pytest.approx(1.04 * first)
    assert answered.run(200, 0)[-1] == 40e6


def test_three_late_answers_of_six_lower_the_rate_once_in_300_ms():
    answered = Answered()
    answered.run(30, 0)
    before = answered.rule.rate_bit_s
    rates = answered.run(6, 400)
    assert min(rates) == pytest.approx(0.75 * before, rel=0.1)
    assert len(set(rates)) <= 4


def test_half_the_round_trip_counts_unless_delays_are_one_way():
    for one_way, falls in ((False, False), (True, True)):
        answered = Answered(one_way=one_way)
        answered.run(30, 0)
        before = answered.rule.rate_bit_s
        assert (answered.run(60, 45)[-1] < before) == falls


def test_an_unused_rate_returns_to_the_base_slowly():
    answered = Answered()
    answered.run(60, 0)
    high = answered.rule.rate_bit_s
    low = answered.run(200, 0, load=0.1)[-1]
    assert 10e6 < low < high
    assert answered.run(4000, 0, load=0.1)[-1] == 10e6
