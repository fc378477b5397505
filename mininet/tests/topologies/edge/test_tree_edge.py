# SPDX-License-Identifier: Apache-2.0
"""The tree: places, and each switch's configuration."""

import tomllib

import generated_edge as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.switch import config
from weirlab.topologies.edge.deploy import deploy_config, host_name, name_routes, queues_of
from weirlab.topologies.edge.network import address_lines
from weirlab.topologies.edge.tree import NAME_PORTS, UP, ports_needed, tree_of, visits_of


def test_receivers_are_dealt_out_to_the_edges():
    tree = tree_of(made.spec(receivers=5, edges=2))
    assert [switch.name for switch in tree.switches] == ["core", "hub", "edge1", "edge2"]
    assert [(receiver.name, receiver.edge, receiver.place) for receiver in tree.receivers] == [
        ("r1", 1, 1), ("r2", 2, 1), ("r3", 1, 2), ("r4", 2, 2), ("r5", 1, 3)
    ]  # fmt: skip
    assert sorted(tree.edges[1].below) == [1, 2, 3]
    assert [receiver.number for _, receiver in tree.core.all_below()] == [1, 3, 5, 2, 4]


def test_one_edge_switch_has_no_hub():
    tree = tree_of(made.spec(edges=1))
    assert [switch.name for switch in tree.switches] == ["core", "edge1"]
    assert tree.top is tree.edges[1]


def test_a_broadcast_segment_is_one_port():
    tree = tree_of(made.spec(receivers=6, medium="broadcast", edges=2))
    assert [list(edge.below) for edge in tree.edges.values()] == [[1], [1]]
    assert [receiver.number for receiver in tree.edges[2].below[1].receivers] == [2, 4, 6]


@given(st.integers(1, 250))
def test_without_switches_all_are_on_the_publishers_segment(receivers):
    tree = tree_of(made.spec(receivers=receivers, medium="broadcast", edges=0))
    assert (tree.switches, tree.edges, tree.visits) == ((), {}, {})
    assert tree.segments == {"air0": ("publisher", "eth0")}
    assert len({(receiver.address, receiver.mac) for receiver in tree.receivers}) == receivers
    assert {receiver.edge for receiver in tree.receivers} == {0}
    assert ports_needed(receivers, 0, True, {}) == 0


def test_what_a_segment_gets_comes_through_its_switchs_port():
    tree = tree_of(made.spec(receivers=4, medium="broadcast", edges=2))
    assert tree.segments == {"air1": ("edge1", "p1"), "air2": ("edge2", "p1")}
    assert tree_of(made.spec(edges=2)).segments == {}


@pytest.mark.parametrize("medium", ["links", "broadcast"])
def test_a_cache_is_behind_the_last_port_and_files_lead_there_first(tmp_path, medium):
    spec = made.spec(receivers=5, edges=2, medium=medium, last_rate_mbit_s=20.0, cache_mb=64)
    tree = tree_of(spec)
    for edge, switch in tree.edges.items():
        port = max(switch.below)
        assert switch.cache_port == port
        assert len(switch.below) == (2 if medium == "broadcast" else len(switch.all_below()) + 1)
        assert {receiver.edge for _, receiver in switch.all_below()} == {edge}
        read = config.loads(deploy_config(tree, switch, spec), "made.toml", tmp_path)
        files = next(route for route in read.names.routes.values() if route.prefix == "/weir/files")
        assert (files.port, files.other) == (port, UP)
        assert port not in read.aqm
    hub = config.loads(deploy_config(tree, tree.top, spec), "made.toml", tmp_path)
    files = next(route for route in hub.names.routes.values() if route.prefix == "/weir/files")
    assert (files.port, files.other, tree.top.cache_port) == (3, UP, 3)
    assert tree.core.cache_port is None
    assert name_routes(tree.core)["/weir/files"] == UP
    assert ports_needed(5, 2, medium == "broadcast", {}, cached=True) == max(
        1 + len(switch.below) for switch in tree.edges.values()
    )


def test_a_receiver_that_moves_has_a_port_at_each_edge_and_lives_at_one():
    moves = [{"receiver": 1, "at_s": 1.0, "to_edge": 2}, {"receiver": 1, "at_s": 2.0, "to_edge": 1}]
    tree = tree_of(made.spec(receivers=2, moves=moves))
    assert tree.visits == {1: (1, 2)}
    first = tree.receivers[0]
    assert (tree.port_of(1, first), tree.port_of(2, first)) == (1, 2)
    assert [receiver.number for _, receiver in tree.edges[2].all_below()] == [2]
    assert (tree.address_at(1, first), tree.address_at(2, first)) == ("10.2.1.2", "10.2.2.102")


def test_a_receiver_that_moves_is_reached_where_it_is(tmp_path):
    spec = made.spec(receivers=2, moves=[{"receiver": 1, "at_s": 1.0, "to_edge": 2}])
    tree = tree_of(spec)
    read = config.loads(deploy_config(tree, tree.edges[2], spec), "made.toml", tmp_path)
    first = tree.receivers[0]
    assert read.neighbours["r1-visiting"].mac == int(first.mac.replace(":", ""), 16)
    assert read.neighbours["r1-visiting"].port == tree.port_of(2, first)
    assert f"{tree.address_at(2, first)}/32" in {str(prefix) for prefix in read.routes}
    assert address_lines(tree, first, 1, 2) == [
        "address del 10.2.1.2/24 dev eth0",
        "address add 10.2.2.102/24 dev eth0",
        f"neigh replace 10.2.2.1 lladdr {tree.edges[2].mac(2)} dev eth0",
        "route replace default via 10.2.2.1 dev eth0",
    ]


@given(st.integers(1, 120), st.integers(1, 16), st.booleans())
def test_ports_are_as_many_as_was_said_and_no_address_is_there_twice(receivers, edges, broadcast):
    tree = tree_of(made.spec(receivers=receivers, edges=edges, medium="broadcast" if broadcast else "links"))
    most = max(1 + len(edge.below) for edge in tree.edges.values())
    assert most <= ports_needed(receivers, edges, broadcast, visits_of([], edges))
    assert broadcast or most == ports_needed(receivers, edges, broadcast, {})
    assert len({receiver.address for receiver in tree.receivers}) == receivers
    macs = [receiver.mac for receiver in tree.receivers]
    macs += [switch.mac(port) for switch in tree.switches for port in (UP, *switch.below)]
    assert len(set(macs)) == len(macs)


def test_thirty_two_receivers_take_two_edge_switches():
    assert ports_needed(31, 1, False, {}) == NAME_PORTS
    assert ports_needed(32, 1, False, {}) > NAME_PORTS
    assert ports_needed(32, 2, False, {}) < NAME_PORTS


@pytest.mark.parametrize("medium", ["links", "broadcast"])
@pytest.mark.parametrize("edges", [1, 3])
def test_the_controller_takes_every_switchs_file(tmp_path, medium, edges):
    spec = made.spec(receivers=7, edges=edges, medium=medium, last_rate_mbit_s=20.0)
    tree = tree_of(spec)
    for switch in tree.switches:
        read = config.loads(deploy_config(tree, switch, spec), "made.toml", tmp_path)
        assert set(read.ports) == {UP, *switch.below}
        assert set(read.aqm) == set(queues_of(switch, spec))
        stations = {name for name in read.neighbours if name.startswith("r")}
        assert stations == {f"r{receiver.number}" for _, receiver in switch.all_below() if switch.edge}


def test_a_name_leads_down_to_its_receiver_and_files_lead_up():
    spec = made.spec(receivers=6, edges=3)
    tree = tree_of(spec)
    for receiver in tree.receivers:
        name, switch, way = host_name(receiver.edge, receiver.number), tree.core, []
        while True:
            routes = name_routes(switch)
            port = routes[max((prefix for prefix in routes if f"{name}/".startswith(f"{prefix}/")), key=len)]
            way.append(switch.name)
            below = switch.below[port]
            if below.switch is None:
                break
            switch = below.switch
        assert below.receivers == (receiver,)
        assert way == ["core", "hub", f"edge{receiver.edge}"]
    for switch in tree.switches:
        assert name_routes(switch)["/weir/files"] == UP


def test_the_law_is_on_every_queue_that_has_a_rate():
    spec = made.spec(receivers=2, edges=1, last_rate_mbit_s=50.0)
    tree = tree_of(spec)
    assert queues_of(tree.core, spec) == {1: (16.0, 1000)}
    assert queues_of(tree.edges[1], spec) == {1: (50.0, 500), 2: (50.0, 500)}
    air = made.spec(receivers=2, edges=1, last_rate_mbit_s=50.0, medium="broadcast")
    assert queues_of(tree_of(air).edges[1], air) == {}
    raw = tomllib.loads(deploy_config(tree, tree.core, spec))
    assert raw["aqm"]["port"] == {"1": {"profile": "tuned"}}
