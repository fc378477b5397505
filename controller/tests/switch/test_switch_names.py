# SPDX-License-Identifier: Apache-2.0
"""Forwarding by name in the file of `weir p4 deploy`, in what is written, and in what is shown."""

import itertools
import shutil
from pathlib import Path

import pytest

from weir import programs
from weir.names.switch import Count
from weir.names.text import prefix_bits, route_bits
from weir.p4runtime.client import Update
from weir.p4runtime.entities import Call, CloneSession, MulticastGroup, TableEntry
from weir.p4runtime.labels import describe_action
from weir.p4runtime.p4info import P4Info
from weir.p4runtime.values import P4RuntimeError
from weir.programs import EDGE, ICN, PID_DELAY
from weir.programs.base import QuotaUsed
from weir.programs.names import Fill, Names
from weir.switch import plan
from weir.switch.config import Config, ConfigError, loads
from weir.switch.deploy import say
from weir.switch.names import NameRoute
from weir.switch.program import local_p4info

GOOD = """\
[names]
quota = 100
[[names.route]]
prefix = "/weir/files"
port = 2
other = 3
[[names.route]]
prefix = "/"
port = 1
[names.port.4]
quota = 8192
[aqm.port.5]
"""


def read(text: str) -> Config:
    return loads(text, "s1.toml", Path("."))


def same_bits() -> tuple[str, str]:
    """Two components that a switch can't distinguish."""
    seen: dict[int, str] = {}
    for text in map(str, itertools.count()):
        other = seen.setdefault(prefix_bits(f"/{text}"), text)
        if other != text:
            return other, text
    raise AssertionError


def test_a_file_says_where_names_are_asked_for() -> None:
    config = read(GOOD)
    assert config.names is not None
    assert (config.names.quota, config.names.least_lifetime_us) == (100, 1000)
    assert config.names.port_quotas == {4: 8192}
    assert config.names.routes == {
        route_bits("/weir/files"): NameRoute("/weir/files", 2, 3),
        (0, 0): NameRoute("/", 1),
    }
    assert not config.forwards_nothing
    assert read("[names]\n").forwards_nothing


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("quota = 100", "quota = 0", "s1.toml:2: names.quota: 0: must be a whole number, 1 .. 16384"),
        ("quota = 100", "quotas = 100", "s1.toml:2: names.quotas: unknown; did you mean quota?"),
        ("quota = 100", "least_lifetime_us = 1.5", "names.least_lifetime_us: 1.5: must be a whole number"),
        ("quota = 100", "least_lifetime_us = 2001",
         "s1.toml:2: names.least_lifetime_us: 2001: must be at most 2000 since the route of '/weir/files' has other"),
        ("port = 2", "port = 32", "s1.toml:5: names.route.1.port: 32: must be a whole number, 0 .. 31"),
        ("port = 1\n", "port = true\n", "s1.toml:9: names.route.2.port: True: must be a whole number"),
        ("other = 3", "other = 2", "s1.toml:6: names.route.1.other: 2 is port too; must be another, or left out"),
        ("port = 2\n", "", "s1.toml:3: names.route.1.port: missing"),
        ("other = 3", "colour = 3", "s1.toml:6: names.route.1.colour: unknown key; must be one of prefix, port, other"),
        ('"/weir/files"', '"weir"', "s1.toml:4: names.route.1.prefix: 'weir': must begin with /"),
        ('"/weir/files"', '"/a/b/c/d/e"', "names.route.1.prefix: '/a/b/c/d/e': has 5 components"),
        ('"/weir/files"', "7", "names.route.1.prefix: 7: must be text like \"/weir/files\""),
        ('"/weir/files"', '"/"', "s1.toml:8: names.route.2.prefix: '/' is there twice"),
        ("[[names.route]]\nprefix = \"/\"\nport = 1\n", "route = 3\n", "names.route"),
        ("[names.port.4]", "[names.port.32]", "s1.toml:10: names.port.32: must be a port's number, 0 .. 31"),
        ("[names.port.4]", "[names.port.04]", "s1.toml:10: names.port.04: must be a port's number, 0 .. 31"),
        ("quota = 8192", "quota = 16385", "s1.toml:11: names.port.4.quota: 16385: must be a whole number, 1 .. 16384"),
        ("quota = 8192", "quote = 8192", "s1.toml:11: names.port.4.quote: unknown; did you mean quota?"),
        ("quota = 8192\n", "", "s1.toml:10: names.port.4.quota: missing"),
        ("[aqm.port.5]", "[aqm.port.40]", "aqm.port.40: nothing is sent from port 40"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_line_key_and_what_is_right(old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError) as error:
        read(GOOD.replace(old, new))
    assert message in str(error.value)


def test_without_a_cache_lifetimes_may_count_as_more() -> None:
    text = GOOD.replace("quota = 100", "least_lifetime_us = 2000")
    assert read(text).names
    without = read(text.replace("2000", "4194304").replace("other = 3\n", "")).names
    assert without is not None
    assert without.least_lifetime_us == 4194304


def test_names_that_is_no_table() -> None:
    with pytest.raises(ConfigError, match=r"names: must be a table, \[names\]"):
        read("names = 3\n")
    with pytest.raises(ConfigError, match=r"names.route: must be tables"):
        read("[names]\nroute = 3\n")


def test_two_prefixes_that_a_switch_cannot_tell_apart() -> None:
    one, two = same_bits()
    text = GOOD.replace('"/weir/files"', f'"/{one}"').replace('"/"', f'"/{two}"')
    with pytest.raises(ConfigError, match=f"names.route.2.prefix: '/{two}' has the same bits as '/{one}'"):
        read(text)


@pytest.fixture(scope="module")
def infos() -> dict[str, P4Info]:
    if shutil.which("weir-switch") is None:
        pytest.skip("weir-switch is not on PATH")
    return {program.name: local_p4info(program.source) for program in (ICN, EDGE, PID_DELAY)}


def test_each_program_is_known_by_its_tables(infos: dict[str, P4Info]) -> None:
    assert {name: programs.of(info) for name, info in infos.items()} == {
        "icn": ICN,
        "edge": EDGE,
        "pid_delay": PID_DELAY,
    }


def test_the_counters_cells_are_those_of_the_model(infos: dict[str, P4Info]) -> None:
    for name in ("icn", "edge"):
        assert infos[name].counters["names"].size == len(Count) == len(Names.cells)


@pytest.mark.parametrize("name", ["icn", "edge"])
def test_what_is_written_to_an_empty_switch_and_that_it_is_enough(infos: dict[str, P4Info], name: str) -> None:
    info = infos[name]
    program = programs.in_device(info)
    wanted = plan.desired(program, read(GOOD), info, plan.State(), draw_key=lambda: 0x0123456789ABCDEF)
    stages = plan.stages(program, wanted, plan.State(), info)
    assert stages[0].what == "copies of names"
    assert len(stages[0].updates) == 511
    made = [update.entity for update in stages[0].updates]
    assert {type(entity) for entity in made} == {MulticastGroup, CloneSession}
    rest = [update for stage in stages[1:] for update in stage.updates]
    limits = next(u for u in rest if isinstance(u.entity, TableEntry) and u.entity.is_default and "names" in str(u))
    assert isinstance(limits.entity, TableEntry)
    assert isinstance(limits.entity.action, Call)
    assert limits == Update.modify(limits.entity)
    assert limits.entity.action.params["hash_key_high"] == 0x01234567
    # an attacker who reads what is printed learns nothing of the key
    assert "hash_key_low=..., hash_key_high=...," in describe_action(limits.entity.action, info)
    assert plan.stages(program, wanted, wanted, info) == []


def test_quotas_of_single_ports_come_and_go(infos: dict[str, P4Info]) -> None:
    info = infos["icn"]
    first = plan.desired(ICN, read(GOOD), info, plan.State(), draw_key=lambda: 7)
    other = GOOD.replace("[names.port.4]", "[names.port.6]\nquota = 3000\n[names.port.7]")
    second = plan.desired(ICN, read(other), info, first)
    said = [say(update, info) for stage in plan.stages(ICN, second, first, info) for update in stage.updates]
    assert said == [
        "insert table names_quota 6 -> set_quota(port_quota=3000)",
        "insert table names_quota 7 -> set_quota(port_quota=8192)",
        "delete table names_quota 4",
    ]


def test_the_key_stays_as_long_as_the_program(infos: dict[str, P4Info]) -> None:
    info = infos["icn"]
    first = plan.desired(ICN, read(GOOD), info, plan.State(), draw_key=lambda: 7)
    again = plan.desired(ICN, read(GOOD.replace("100", "200")), info, first, draw_key=lambda: 8)
    limits = Names().limits_of(again.name_limits)
    assert limits is not None
    assert (limits.key, limits.quota) == (7, 200)
    zero = plan.desired(ICN, read(GOOD), info, plan.State(), draw_key=lambda: 0)
    drawn = Names().limits_of(plan.desired(ICN, read(GOOD), info, zero, draw_key=lambda: 9).name_limits)
    assert drawn is not None
    assert drawn.key == 9


def test_a_file_for_another_program_is_refused(infos: dict[str, P4Info]) -> None:
    with pytest.raises(P4RuntimeError, match="does not forward by name: deploy"):
        plan.desired(PID_DELAY, read(GOOD), infos["pid_delay"], plan.State())
    with pytest.raises(P4RuntimeError, match="forwards names alone"):
        plan.desired(ICN, read(GOOD + "[flood]\nports = [1, 2]\n"), infos["icn"], plan.State())


def test_how_full_the_table_is() -> None:
    registers = {name: [0] * 16384 for name in Names.registers}

    def entry(cell: int, ports: int, lifetime_us: int, payer: int, forwarded_us: int) -> None:
        registers["pit_segment_ports"][cell] = 9 << 32 | ports
        registers["pit_asked_lifetime_payer"][cell] = 4 << 32 | lifetime_us << 8 | payer
        registers["pit_forwarded_us"][cell] = forwarded_us

    assert Names().fill(registers) == Fill(16384, 0, {})
    entry(1, 3, 1000, 2, 50_000)
    entry(8193, 1, 1000, 2, 47_999)
    entry(16383, 1, 1000, 30, 48_000)
    entry(5, 0, 1000, 3, 50_000)
    assert Names().fill(registers) == Fill(16384, 3, {2: 1, 30: 1})
    assert Names().fill({}) is None


def test_what_ports_have_used_of_their_quotas() -> None:
    registers = {"pit_forwarded_us": [0, 5 << 23, 1], "quota_used": [0] * 32}
    registers["quota_used"][2] = 5 << 32 | 7 << 16 | 3
    registers["quota_used"][3] = 4 << 32 | 7 << 16 | 3
    registers["quota_used"][4] = 3 << 32 | 7 << 16 | 3
    registers["quota_used"][31] = 5 << 32 | 1
    # an epoch on, what was used in it is that of the one before; two on, nothing is left
    assert Names().used(registers) == {2: QuotaUsed(7, 3), 3: QuotaUsed(0, 7), 31: QuotaUsed(0, 1)}
    assert Names().used({}) == {}


def test_prefixes_and_quotas_are_read_back(infos: dict[str, P4Info]) -> None:
    info, names = infos["edge"], Names()
    for prefix in ("/weir/files", "/"):
        assert names.prefix_of(names.route(*route_bits(prefix), 1, None, info)) == route_bits(prefix)
    entries = [names.port_quota(port, 10 * port, info) for port in (3, 0)]
    assert names.port_quotas([*entries, names.route(0, 0, 1, None, info)], info) == {3: 30, 0: 0}
