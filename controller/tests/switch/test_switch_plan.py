# SPDX-License-Identifier: Apache-2.0
"""From a configuration to table entries, and from what a device has to what must be written."""

import random
from dataclasses import asdict, replace
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import bands, gains
from weir.coupled import DEFAULT
from weir.p4runtime.client import Update
from weir.p4runtime.entities import Call, Exact, Lpm, MulticastGroup, Replica, TableEntry
from weir.p4runtime.messages import config as messages
from weir.p4runtime.p4info import P4Info
from weir.p4runtime.values import P4RuntimeError
from weir.programs import PID_DELAY, PID_DELAY_L4S, PID_DELAY_SCONE, PortLaw
from weir.programs.base import DELAY_SOURCES
from weir.programs.pid_delay import action_data, law_of_data
from weir.resources import PROFILES
from weir.settings import load
from weir.switch import plan
from weir.switch.config import Config, Neighbour, Port

TUNED = load(PROFILES / "tuned.toml")
PAPER = load(PROFILES / "paper.toml")
FLOW_BANDS = bands.Bands(98304, 9000, 64)
L3, AQM, BANDS = "WeirIngress.l3.", "WeirIngress.aqm_ingress.", "WeirIngress.bands."
ADVICE = "WeirIngress.scone_advice."


def _p4info() -> P4Info:
    """The tables that plan.py speaks of, under the names the program gives them. test_switch_deploy.py shows that these
    are the program's."""
    info = messages.P4Info()
    actions = {
        L3 + "set_next_hop": {"next_hop": 16},
        L3 + "forward": {"port": 9, "dst_mac": 48, "src_mac": 48},
        L3 + "forward_tagged": {"port": 9, "dst_mac": 48, "src_mac": 48, "vid": 12},
        L3 + "forward_untagged": {"port": 9, "dst_mac": 48, "src_mac": 48},
        L3 + "to_port": {"port": 9},
        L3 + "flood": {"group": 16},
        AQM + "pid_delay": dict.fromkeys(action_data(PortLaw(TUNED)), 33),
        AQM + "pid_delay_bands": dict.fromkeys(action_data(PortLaw(TUNED, bands=FLOW_BANDS)), 33),
        BANDS + "coupled": dict.fromkeys(asdict(DEFAULT), 33),
        ADVICE + "advise": {"signal": 7},
    }
    ids = {}
    for number, (name, params) in enumerate(actions.items(), 0x01000001):
        ids[name] = number
        action = info.actions.add()
        action.preamble.id, action.preamble.name, action.preamble.alias = number, name, name.rpartition(".")[2]
        for param_id, (param, bitwidth) in enumerate(params.items(), 1):
            action.params.add(id=param_id, name=param, bitwidth=bitwidth)
    match = messages.MatchField
    tables = {
        L3 + "ipv4_lpm": ("hdr.ipv4.dst", 32, match.LPM),
        L3 + "ipv6_lpm": ("hdr.ipv6.dst", 128, match.LPM),
        L3 + "next_hop": ("next_hop", 16, match.EXACT),
        L3 + "l2_forward": ("hdr.ethernet.dst", 48, match.EXACT),
        AQM + "aqm": ("egress_port", 9, match.EXACT),
        BANDS + "coupling": ("egress_port", 9, match.EXACT),
        ADVICE + "advice": ("egress_port", 9, match.EXACT),
    }
    for number, (name, (field, bitwidth, kind)) in enumerate(tables.items(), 0x02000001):
        table = info.tables.add(size=8)
        table.preamble.id, table.preamble.name, table.preamble.alias = number, name, name.rpartition(".")[2]
        table.match_fields.add(id=1, name=field, bitwidth=bitwidth, match_type=kind)
        for action_id in ids.values():
            table.action_refs.add(id=action_id)
    return P4Info(info)


INFO = _p4info()
CONFIG = Config(
    ports={1: Port(mac="02:00:00:00:01:01"), 2: Port(mac="02:00:00:00:01:02", vlan=10)},
    neighbours={
        "h1": Neighbour(port=1, mac="02:00:00:00:00:01"),
        "h2": Neighbour(port=2, mac="02:00:00:00:00:02"),
    },
    routes={
        ip_network("10.0.1.0/24"): "h1",
        ip_network("0.0.0.0/0"): "h2",
        ip_network("2001:db8::/32"): "h1",
    },
    flood=(1, 2),
    aqm={2: PortLaw(TUNED)},
)


class Device:
    """The tables of a device, as far as writing goes; refuses what a device would refuse."""

    def __init__(self) -> None:
        self.state = plan.State()
        self.entries: dict[tuple, TableEntry] = {}

    def write(self, update: Update) -> None:
        entity = update.entity
        if isinstance(entity, MulticastGroup):
            assert (self.state.flood is None) == (update.kind == "insert")
            self.state = replace(self.state, flood=None if update.kind == "delete" else entity)
        elif entity.is_default:
            assert update.kind == "modify"
            self.state = replace(self.state, unknown_stations=entity)
        else:
            key = (entity.table, tuple(entity.match.items()))
            assert (key in self.entries) == (update.kind != "insert")
            if update.kind == "delete":
                del self.entries[key]
            else:
                self.entries[key] = entity
        self.state = replace(self.state, entries=list(self.entries.values()))

    def leads_nowhere(self) -> bool:
        hops = {e.match["next_hop"].value for e in self.entries.values() if e.table == L3 + "next_hop"}
        routes = [e for e in self.entries.values() if e.table in (L3 + "ipv4_lpm", L3 + "ipv6_lpm")]
        return any(route.action.params["next_hop"] not in hops for route in routes)

    def next_hops(self) -> dict[str, tuple]:
        hops = {e.match["next_hop"].value: e.action for e in self.entries.values() if e.table == L3 + "next_hop"}
        return {
            f"{e.table} {e.match}": (
                hops[e.action.params["next_hop"]].action,
                *hops[e.action.params["next_hop"]].params.values(),
            )
            for e in self.entries.values()
            if e.table in (L3 + "ipv4_lpm", L3 + "ipv6_lpm")
        }


def bring(device: Device, config: Config, shuffle: random.Random | None = None) -> int:
    """Deploys, in any order within a stage; says how many writes it took."""
    stages = plan.stages(PID_DELAY, plan.desired(PID_DELAY, config, INFO, device.state), device.state, INFO)
    for stage in stages:
        updates = list(stage.updates)
        if shuffle:
            shuffle.shuffle(updates)
        for update in updates:
            before = device.next_hops()
            device.write(update)
            assert not device.leads_nowhere()
            after = device.next_hops()
            if not isinstance(update.entity, TableEntry) or update.entity.table == L3 + "next_hop":
                assert before == after  # no route was led elsewhere under its feet
    return sum(len(stage.updates) for stage in stages)


def test_a_port_with_two_bands_needs_the_program_that_has_them() -> None:
    config = replace(CONFIG, coupled={2: DEFAULT})
    (entry,) = (e for e in plan.desired(PID_DELAY_L4S, config, INFO, plan.State()).entries if e.table.startswith(BANDS))
    assert entry == TableEntry(BANDS + "coupling", {"egress_port": Exact(2)}, Call(BANDS + "coupled", asdict(DEFAULT)))
    with pytest.raises(P4RuntimeError, match="port 2 is to have two coupled bands"):
        plan.desired(PID_DELAY, config, INFO, plan.State())


def test_a_port_with_advice_needs_the_program_that_gives_it() -> None:
    config = replace(CONFIG, advice={2: 38})
    wanted = plan.desired(PID_DELAY_SCONE, config, INFO, plan.State()).entries
    (entry,) = (entry for entry in wanted if entry.table.startswith(ADVICE))
    assert entry == TableEntry(ADVICE + "advice", {"egress_port": Exact(2)}, Call(ADVICE + "advise", {"signal": 38}))
    with pytest.raises(P4RuntimeError, match="port 2 "):
        plan.desired(PID_DELAY_L4S, config, INFO, plan.State())


def test_a_configuration_in_entries() -> None:
    wanted = plan.desired(PID_DELAY, CONFIG, INFO, plan.State())
    by_table: dict[str, list[TableEntry]] = {}
    for entry in wanted.entries:
        by_table.setdefault(entry.table, []).append(entry)
    src = {1: 0x020000000101, 2: 0x020000000102}
    hop = [
        Call(L3 + "forward", {"port": 1, "dst_mac": 0x020000000001, "src_mac": src[1]}),
        Call(L3 + "forward_tagged", {"port": 2, "dst_mac": 0x020000000002, "src_mac": src[2], "vid": 10}),
    ]
    assert by_table[L3 + "next_hop"] == [
        TableEntry(L3 + "next_hop", {"next_hop": Exact(number)}, call) for number, call in enumerate(hop, 1)
    ]
    assert by_table[L3 + "ipv4_lpm"] == [
        TableEntry(L3 + "ipv4_lpm", {"hdr.ipv4.dst": Lpm(0x0A000100, 24)}, Call(L3 + "set_next_hop", {"next_hop": 1})),
        TableEntry(L3 + "ipv4_lpm", {}, Call(L3 + "set_next_hop", {"next_hop": 2})),
    ]
    assert by_table[L3 + "ipv6_lpm"][0].match == {"hdr.ipv6.dst": Lpm(0x20010DB8 << 96, 32)}
    assert [entry.action.params["port"] for entry in by_table[L3 + "l2_forward"]] == [1, 2]
    assert wanted.flood == MulticastGroup(1, (Replica(1), Replica(2)))
    assert wanted.unknown_stations.action == Call(L3 + "flood", {"group": 1})
    assert by_table[AQM + "aqm"][0].match == {"egress_port": Exact(2)}


def test_untagged_ports() -> None:
    config = replace(CONFIG, ports={1: Port(mac="02:00:00:00:01:01", vlan="remove"), 2: CONFIG.ports[2]})
    hop = plan.desired(PID_DELAY, config, INFO, plan.State()).entries[0]
    assert hop.action.action == L3 + "forward_untagged"


@pytest.mark.parametrize("law", [TUNED, PAPER, replace(TUNED, ecn_bound=1.0, kp=3905.0)])
@pytest.mark.parametrize("source", DELAY_SOURCES)
def test_gains_come_back_as_they_went(law: gains.Gains, source: str) -> None:
    aqm = PortLaw(law, 7, source)
    params = action_data(aqm)
    back = law_of_data(params)
    assert (back.gains.to_params(), back.digest_interval_us, back.delay_source) == (law.to_params(), 7, source)
    with pytest.raises(P4RuntimeError, match="not the parameters of this law"):
        law_of_data(params | {"kq": 1})
    with pytest.raises(P4RuntimeError, match="not the parameters of this law"):
        law_of_data({key: value for key, value in params.items() if key != "delay_source"})


def test_bands_of_flows_are_another_action_of_the_port() -> None:
    law = PortLaw(TUNED, bands=FLOW_BANDS)
    entry = PID_DELAY.law_entry(2, law, INFO)
    assert entry.action == Call(AQM + "pid_delay_bands", action_data(law))
    assert asdict(FLOW_BANDS).items() <= action_data(law).items()
    back = PID_DELAY.law_of(entry, INFO)
    assert back is not None
    assert back.bands == FLOW_BANDS
    assert PID_DELAY.law_entry(2, back, INFO) == entry
    assert PID_DELAY.law_entry(2, PortLaw(TUNED), INFO).action == Call(AQM + "pid_delay", action_data(PortLaw(TUNED)))
    with pytest.raises(P4RuntimeError, match="not the parameters of this law"):
        law_of_data({key: value for key, value in action_data(law).items() if key != "ahead_share_q16"})
    device = Device()
    for aqm in (PortLaw(TUNED), law, law, PortLaw(TUNED)):
        bring(device, replace(CONFIG, aqm={2: aqm}))
        assert PID_DELAY.law_entry(2, aqm, INFO) in device.entries.values()


def test_keys_of_bands_change_those_of_a_port_that_has_them() -> None:
    law = PortLaw(TUNED, bands=FLOW_BANDS)
    assert law.own.items() >= {"ahead_share": 1.5, "ahead_most_bytes": 9000, "ahead_least_bytes": 64}.items()
    changed = law.with_changes({"ahead_share": 0, "ahead_most_bytes": 1, "target_us": 5000, "digest_interval_us": 7})
    assert changed == PortLaw(replace(TUNED, target_us=5000), 7, bands=bands.Bands(0, 1, 64))
    assert law.with_changes({"target_us": 5000}).bands == FLOW_BANDS
    one_band = PortLaw(TUNED)
    assert not set(bands.KEYS) & set(one_band.own)
    for of, key, value in (
        (one_band, "ahead_share", 1),
        (law, "ahead_share", 16),
        (law, "ahead_share", "much"),
        (law, "ahead_most_bytes", 0),
        (law, "ahead_most_bytes", 1.5),
        (law, "ahead_least_bytes", 2**32),
    ):
        with pytest.raises(ValueError, match=f"^{key}"):
            of.with_changes({key: value})


def test_the_same_again_changes_nothing() -> None:
    device = Device()
    assert bring(device, CONFIG) == 10
    assert bring(device, CONFIG) == 0


def test_an_empty_file_takes_back_what_was_there() -> None:
    device = Device()
    bring(device, CONFIG)
    bring(device, Config({}, {}, {}, (), {}))
    assert not device.entries
    assert device.state.flood is None
    assert device.state.unknown_stations.action is None


def test_const_entries_and_other_groups_are_left_alone() -> None:
    const = TableEntry(L3 + "ipv4_lpm", {}, Call(L3 + "set_next_hop", {"next_hop": 9}), is_const=True)
    found = [const, MulticastGroup(7, (Replica(3),)), TableEntry(L3 + "l2_forward", is_default=True)]
    present = plan.state(PID_DELAY, found, INFO)
    assert present.flood is None
    assert (
        plan.stages(PID_DELAY, plan.desired(PID_DELAY, Config({}, {}, {}, (), {}), INFO, present), present, INFO) == []
    )


def test_too_many_neighbours_are_said_before_anything_is_written() -> None:
    neighbours = {f"h{i}": Neighbour(port=1, mac=f"02:00:00:00:00:{i:02x}") for i in range(1, 10)}
    with pytest.raises(P4RuntimeError, match="9 neighbours: the table next_hop holds 8"):
        plan.desired(PID_DELAY, replace(CONFIG, neighbours=neighbours, routes={}), INFO, plan.State())
    device = Device()
    bring(device, replace(CONFIG, neighbours=dict(list(neighbours.items())[:5]), routes={}))
    others = replace(CONFIG, neighbours=dict(list(neighbours.items())[5:]), routes={})
    with pytest.raises(P4RuntimeError, match="4 new next hops beside the 5 that are there"):
        plan.desired(PID_DELAY, others, INFO, device.state)


def test_a_program_without_these_tables_is_named() -> None:
    with pytest.raises(P4RuntimeError, match="the program has no table 'next_hop'"):
        plan.desired(PID_DELAY, CONFIG, P4Info(messages.P4Info()), plan.State())


HOSTS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.tuples(st.sampled_from([1, 2]), st.integers(1, 4)), min_size=1
)
PREFIXES = st.sampled_from(["10.0.1.0/24", "10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0"])


@st.composite
def configs(draw: st.DrawFn) -> Config:
    hosts = draw(HOSTS)
    neighbours = {name: Neighbour(port=p, mac=f"02:00:00:00:0{p}:{mac:02x}") for name, (p, mac) in hosts.items()}
    routes = draw(st.dictionaries(PREFIXES.map(ip_network), st.sampled_from(sorted(hosts))))
    vlan = draw(st.sampled_from(["keep", "remove", 5]))
    ports = {1: Port(mac="02:00:00:00:01:01", vlan=vlan), 2: Port(mac="02:00:00:00:01:02")}
    flood = draw(st.sampled_from([(), (1, 2), (1, 2, 3)]))
    laws = draw(st.dictionaries(st.sampled_from([1, 2]), st.sampled_from([PortLaw(TUNED), PortLaw(PAPER)])))
    return Config(ports, neighbours, routes, flood, laws)


@given(st.lists(configs(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_from_any_configuration_to_any_other(wanted: list[Config], shuffle: random.Random) -> None:
    device = Device()
    for config in wanted:
        bring(device, config, shuffle)
        assert bring(device, config) == 0
        fresh = Device()
        bring(fresh, config)
        assert device.next_hops() == fresh.next_hops()
