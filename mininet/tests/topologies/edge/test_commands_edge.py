# SPDX-License-Identifier: Apache-2.0
"""The programs of each way: their options, and reading their reports."""

import json
import tomllib

import generated_edge as made
import pytest

from weirlab.lab.bridges import move_lines
from weirlab.lab.net import NetError
from weirlab.topologies.edge.commands import CACHE, SERVER_STATS, WAYS, cache_report, moved
from weirlab.topologies.edge.deploy import LOCAL, deploy_config
from weirlab.topologies.edge.network import EdgeNet
from weirlab.topologies.edge.schema import Carrying
from weirlab.topologies.edge.tree import tree_of


def commands(spec, out):
    way, tree = WAYS[spec["carrying"]["carry"]], tree_of(spec)
    return [*way.servers(tree, spec, out), *(way.fetch(receiver, spec, out) for receiver in tree.receivers)]


def test_there_is_a_way_for_each_word_of_a_scenario_file():
    assert set(WAYS) == set(Carrying.model_fields["carry"].annotation.__args__)


@pytest.mark.parametrize("carry", WAYS)
def test_each_receiver_fetches_and_someone_serves(tmp_path, carry):
    found = commands(made.spec(carry, receivers=3), tmp_path)
    assert found[0].node == "publisher"
    assert found[0].ready
    assert {command.node for command in found} == {"publisher", "r1", "r2", "r3"}
    assert len({command.output for command in found if command.output}) == 3


def test_a_publisher_on_the_receivers_segment_is_told_and_reaches_them(tmp_path):
    spec = made.spec(receivers=3, edges=0, medium="broadcast", last_rate_mbit_s=20.0)
    publish = commands(spec, tmp_path)[0]
    assert "--broadcast" in publish.argv
    assert "--broadcast" not in commands(made.spec(medium="broadcast"), tmp_path)[0].argv
    net = EdgeNet(tree=tree_of(spec), spec=spec, switches={})
    assert set(net.hosts()) == {"publisher", "air0", "r1", "r2", "r3"}
    assert net.switches() == []
    assert len(net.links()) == 4
    lines = net.nodeInfo("air0")["tc_lines"]
    assert sum("mirred egress redirect dev air" in line for line in lines) == 4, "all that is sent takes the one rate"
    assert [line for line in lines if "htb rate" in line] == [
        "class add dev air parent 1: classid 1:1 htb rate 20mbit burst 1540 cburst 1540 quantum 1540"
    ]


def test_each_edge_switch_has_a_cache_of_the_size_that_was_asked_for(tmp_path):
    spec = made.spec(receivers=3, edges=2, cache_mb=7)
    caches = [command for command in commands(spec, tmp_path) if command.what == CACHE]
    assert [command.node for command in caches] == ["cache0", "cache1", "cache2"]
    for command in caches:
        assert command.argv[:2] == ["weir-icn", "cache"]
        assert command.argv[command.argv.index("--memory") + 1] == "7MB"
    tree = tree_of(spec)
    net = EdgeNet(tree=tree, spec=spec, switches={switch.name: {} for switch in tree.switches})
    assert {"cache0", "cache1", "cache2"} <= set(net.hosts())
    for switch in tree.switches:
        assert set(net.ports[switch.name]) == {0, *switch.below}


def test_receivers_ask_the_edge_servers_near_them_and_then_the_publisher(tmp_path):
    moves = [{"receiver": 1, "at_s": 1.0, "to_edge": 2, "address_after_s": 0.1}]
    spec = made.spec(receivers=3, edges=2, cache_mb=7, edge_server=True, moves=moves)
    found = list(commands(spec, tmp_path))
    servers = [command for command in found if command.what == "edge-server"]
    assert [command.node for command in servers] == ["cache1", "cache2"]
    asked = {
        command.node: [value for word, value in zip(command.argv, command.argv[1:], strict=False) if word == "--from"]
        for command in found
        if command.what == "get"
    }
    first, second, publisher = "10.3.1.2:4434", "10.3.2.2:4434", "10.1.0.2:4434"
    assert asked == {"r1": [first, second, publisher], "r2": [second, publisher], "r3": [first, publisher]}
    # All of them make tickets with the same keys.
    keys = [command.argv[command.argv.index("--ticket-keys") + 1] for command in (found[0], *servers)]
    assert len(set(keys)) == 1
    tree = tree_of(spec)
    net = EdgeNet(tree=tree, spec=spec, switches={switch.name: {} for switch in tree.switches})
    assert {"cache0", "cache1", "cache2"} <= set(net.hosts())
    configs = {switch.name: tomllib.loads(deploy_config(tree, switch, spec)) for switch in tree.switches}
    assert configs["core"]["routes"]["10.3.0.0/16"] == "hub"
    assert configs["hub"]["routes"]["10.3.2.0/24"] == "edge2"
    assert configs["edge2"]["routes"]["10.3.2.2/32"] == "server"
    assert configs["edge2"]["neighbours"]["server"]["mac"] == "02:00:00:04:00:02"


def test_an_edge_server_for_its_own_switch_has_no_way_from_another(tmp_path):
    spec = made.spec(receivers=3, edges=2, cache_mb=7, edge_server=LOCAL)
    assert [command.what for command in commands(spec, tmp_path)].count("edge-server") == 2
    tree = tree_of(spec)
    routes = {switch.name: tomllib.loads(deploy_config(tree, switch, spec))["routes"] for switch in tree.switches}
    assert {"10.3.2.2/32", "10.1.0.2/32"} <= set(routes["edge2"])
    assert "10.3.0.0/16" not in routes["edge1"].keys() | routes["edge2"].keys()
    # The publisher answers both.
    assert {"10.3.1.0/24", "10.3.2.0/24"} <= set(routes["hub"])


def test_what_a_receiver_that_moves_tells_of_its_waits_is_read(tmp_path):
    moves = [{"receiver": 1, "at_s": 1.0, "to_edge": 2, "address_after_s": 0.1}]
    found = commands(made.spec(receivers=2, moves=moves), tmp_path)
    assert [("--events" in command.argv) for command in found if command.what == "get"] == [True, False]
    events = tmp_path / "events-1.jsonl"
    assert moved(events) == {}
    told = [("icn:stall", {"waited_us": 12_000}), ("icn:lost_by_gap", {}), ("icn:group", {"migrated": True})]
    lines = [json.dumps({"t_us": 100 + i, "name": name, "data": data}) for i, (name, data) in enumerate(told)]
    events.write_text("\n".join(lines) + "\n")
    assert moved(events) == {"stalls": [[100, 12_000]], "back_us": [102]}


def test_repair_symbols_are_the_publishers_to_offer(tmp_path):
    spec = made.spec()
    assert not any("--repair" in command.argv for command in commands(spec, tmp_path))
    spec["carrying"]["repair"] = True
    assert [command.what for command in commands(spec, tmp_path) if "--repair" in command.argv] == ["publish"]


def test_a_caches_report_is_read_and_one_that_is_none_is_told(tmp_path):
    log = tmp_path / "log-02-cache.txt"
    counts = {"asked": 9, "hits": 4, "fresh": 0, "passed_on": 5, "kept": 5, "evicted": 1}
    log.write_text("ready\n" + json.dumps({"held_bytes": 7000, "held_segments": 4, "cache": counts}) + "\n")
    assert cache_report(log) == {"asked": 9, "hits": 4, "passed_on": 5, "kept": 5, "evicted": 1, "held_bytes": 7000}
    for text in ("", "ready\n", "ready\n[]\n"):
        log.write_text(text)
        with pytest.raises(NetError, match=r"log-02-cache.txt: the cache's report can't be read"):
            cache_report(log)


def test_beta_and_gaps_are_told(tmp_path):
    spec = made.spec(beta=6.0)
    words = commands(spec, tmp_path)[-1].argv
    assert words[words.index("--beta") + 1] == "6"
    assert "--no-gaps" not in words
    spec["carrying"] |= {"beta": None, "gaps": False}
    words = commands(spec, tmp_path)[-1].argv
    assert "--beta" not in words
    assert "--no-gaps" in words


def test_a_download_is_read_from_both_sides(tmp_path):
    spec = made.spec("unicast", receivers=2)
    task = {"k": "task", "task": 0, "start_us": 100, "tct_us": 900, "bytes": 5, "outcome": "complete"}
    (tmp_path / "tasks-2.jsonl").write_text(json.dumps({"k": "choice"}) + "\n" + json.dumps(task) + "\n")
    stats = [{"k": "flow", "flow": flow, "sent": sent, "lost": 1} for flow, sent in ((2, 10), (1, 99), (2, 20))]
    stats += [{"k": "end", "flow": 2, "bytes": 5}, {"k": "flow", "flow": None, "sent": 3, "lost": 0}]
    (tmp_path / SERVER_STATS).write_text("".join(json.dumps(line) + "\n" for line in stats))
    (tmp_path / "client-2.json").write_text(json.dumps({"flows": [{"handshake_us": 300, "first_byte_us": 500}]}))
    receiver = tree_of(spec).receivers[1]
    found = WAYS["unicast"].report(receiver, tmp_path)
    first = {"handshake_us": 300, "first_byte_us": 500}
    assert found == {"bytes": 5, "ended_us": 1000, "sent": 20, "lost": 1, **first}
    (tmp_path / "client-2.json").write_text("")  # it was ended before it said anything
    assert WAYS["unicast"].report(receiver, tmp_path) == {"bytes": 5, "ended_us": 1000, "sent": 20, "lost": 1}
    (tmp_path / "tasks-2.jsonl").write_text(json.dumps({**task, "outcome": "timeout"}) + "\n")
    assert WAYS["unicast"].report(receiver, tmp_path)["outcome"] == "failed"


def test_what_get_counted_is_read(tmp_path):
    counts = {
        "asked": 9,
        "asked_again": 2,
        "data": 8,
        "overheard": 1,
        "duplicates": 0,
        "marked": 3,
        "wrong": 0,
        "nacks": 0,
    }
    group = {"lost": 1, "migrated": 2}
    told = {"objects": [{"counts": {**counts, "more": 1}, "response_time_us": 700}], "beta": 8.0, "group": group}
    (tmp_path / "get-1.json").write_text(json.dumps(told))
    receiver = tree_of(made.spec()).receivers[0]
    assert WAYS["names"].report(receiver, tmp_path) == {
        "beta": 8,
        "response_time_us": 700,
        **counts,
        "group_lost": 1,
        "group_migrated": 2,
    }


@pytest.mark.parametrize("medium", ["links", "broadcast"])
@pytest.mark.parametrize("edges", [1, 2])
def test_the_network_has_every_station_and_port(medium, edges):
    spec = made.spec(receivers=5, edges=edges, medium=medium, last_rate_mbit_s=20.0)
    tree = tree_of(spec)
    net = EdgeNet(tree=tree, spec=spec, switches={switch.name: {} for switch in tree.switches})
    assert set(net.switches()) == {switch.name for switch in tree.switches}
    airs = {f"air{edge}" for edge in tree.edges} if medium == "broadcast" else set()
    assert set(net.hosts()) == {"publisher", *(receiver.name for receiver in tree.receivers), *airs}
    for switch in tree.switches:
        assert set(net.ports[switch.name]) == {0, *switch.below}


def test_a_receiver_that_moves_is_at_one_edge_at_a_time():
    spec = made.spec(receivers=2, moves=[{"receiver": 1, "at_s": 1.0, "to_edge": 2}])
    tree = tree_of(spec)
    net = EdgeNet(tree=tree, spec=spec, switches={switch.name: {} for switch in tree.switches})
    assert "walk1" in net.hosts()
    assert len([link for link in net.links() if "walk1" in link]) == 3
    at_first = net.nodeInfo("walk1")["ip_lines"]
    assert "link set dev e1 master bridge" in at_first
    assert not any("e2" in line for line in at_first)
    assert move_lines(1, 2)[:2] == ["link set dev e1 nomaster", "link set dev e2 master bridge"]
