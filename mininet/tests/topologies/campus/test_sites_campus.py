# SPDX-License-Identifier: Apache-2.0
"""Places of hosts on `campus`, and the options of switches, controller and programs."""

import tomllib

import generated_campus as made
import pytest

from weir.dataplane.fleet import load_fleet
from weir.switch import config
from weirlab.topologies.campus import commands
from weirlab.topologies.campus.deploy import deploy_config, fleet_config, law_ports, linux_queues, ports_of
from weirlab.topologies.campus.drive import web_plan
from weirlab.topologies.campus.network import CampusNet, move_phone_lines
from weirlab.topologies.campus.sites import SITES, phone_address, rated_queues, receivers_of, switch_of


def test_receivers_are_dealt_out_to_the_sites():
    found = receivers_of(made.spec())
    assert [(each.name, each.site, each.port) for each in found] == [("r1", 1, 6), ("r2", 2, 6), ("r3", 1, 7)]
    assert len({each.address for each in found}) == len({each.mac for each in found}) == 3


def test_each_queue_with_a_rate_is_in_one_place():
    spec = made.spec()
    queues = rated_queues(spec)
    assert len({(queue.node, queue.device) for queue in queues}) == len(queues)
    on_switches = [queue for site in SITES for queue in law_ports(site, spec)]
    assert sorted([*linux_queues(spec), *on_switches], key=str) == sorted(queues, key=str)
    # Without the law a switch's queue would be drop-tail: the kernel has all of them.
    without = made.spec(names=False)
    assert linux_queues(without) == list(queues)
    assert [law_ports(site, without) for site in SITES] == [[], []]


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("names", [True, False])
def test_a_switch_is_told_what_it_takes(tmp_path, site, names):
    spec = made.spec(names)
    (tmp_path / "switch.toml").write_text(deploy_config(site, spec))
    found = config.load(tmp_path / "switch.toml")
    assert sorted(found.ports) == ports_of(site, spec)
    law = tomllib.loads(deploy_config(site, spec)).get("aqm", {}).get("port", {})
    assert sorted(map(int, law)) == sorted(queue.port for queue in law_ports(site, spec))
    routes = tomllib.loads(deploy_config(site, spec))["routes"]
    assert f"{phone_address('wifi', site)}/32" in routes
    assert f"{phone_address('wifi', 3 - site)}/32" not in routes


def test_one_controller_has_every_queue(tmp_path):
    spec = made.spec()
    (tmp_path / "fleet.toml").write_text(fleet_config(spec))
    with load_fleet(tmp_path / "fleet.toml") as fleet:
        assert [device.name for device in fleet.devices] == ["core", "cell", "line", "edge1", "edge2"]


@pytest.mark.parametrize("names", [True, False])
def test_the_laws_queues_have_two_bands(names):
    spec = made.spec(names)
    net = CampusNet(spec=spec, switches={switch_of(site): {} for site in SITES})
    tc = {}
    for _, _, info in net.links(withInfo=True):
        for end in ("1", "2"):
            lines = info.get(f"params{end}", {}).get("tc", [])
            tc[info[f"node{end}"], info[f"intfName{end}"]] = " ".join(lines)
    assert all(("classid 1:10" in tc[queue.node, queue.device]) == names for queue in linux_queues(spec))
    assert [("bands" in tomllib.loads(deploy_config(site, spec))) for site in SITES] == [names, names]


@pytest.mark.parametrize("names", [True, False])
def test_every_node_of_a_queue_is_in_the_network(names):
    spec = made.spec(names)
    net = CampusNet(spec=spec, switches={switch_of(site): {} for site in SITES})
    ends = set()
    for one, other, info in net.links(withInfo=True):
        for node, device in ((info["node1"], info["intfName1"]), (info["node2"], info["intfName2"])):
            assert node in (one, other)
            ends.add((node, device))
    for queue in rated_queues(spec):
        assert {(queue.node, queue.device), (queue.peer, queue.peer_device)} <= ends


def test_a_move_takes_the_old_address_away_and_gives_a_new_one():
    lines = move_phone_lines(1, 2)
    assert "address del 10.2.1.100/24 dev wifi" in lines
    assert "address add 10.2.2.100/24 dev wifi" in lines
    assert "rule add from 10.2.2.100 table 2" in lines
    assert "route replace default via 10.2.2.1 dev wifi table 2" in lines


@pytest.mark.parametrize(
    ("number", "name"), [(0, "request.0"), (2, "request.2"), (101, "download.1"), (308, "stream.8"), (400, "file.0")]
)
def test_flows_have_names(number, name):
    assert commands.flow_name(number) == name


def test_a_neighbours_flow_keeps_its_number():
    assert commands.flow_name(commands.BBR_FLOW) == str(commands.BBR_FLOW)


def test_one_fixed_network_is_the_only_one_that_the_phone_is_told(tmp_path):
    argv = commands.download(made.spec(names=False), 0, tmp_path).argv
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "--path"] == ["wifi"]
    argv = commands.download(made.spec(), 0, tmp_path).argv
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "--path"] == ["cell", "wifi", "tether"]
    assert argv[argv.index("--window") + 1] == "weir"


def test_the_stream_is_the_same_by_name_and_by_unicast(tmp_path):
    spec = made.spec()
    piece = commands.stream_piece_bytes(spec)
    assert piece * 8 * 1000 / commands.STREAM_EVERY_MS == spec["stream"]["rate_mbit_s"] * 1e6
    assert (
        f"/bytes/{piece}/every/{commands.STREAM_EVERY_MS}" in commands.by_unicast(spec, "stream", 1, tmp_path).argv[1]
    )
    assert commands.by_name(spec, "stream", 0, tmp_path).argv[:2] == ["weir-icn", "get"]


def test_web_like_transfers_come_in_order_and_differ_by_the_seed():
    plan = web_plan(made.spec())
    assert plan == sorted(plan)
    assert plan == web_plan(made.spec(names=False)) != web_plan(made.spec(seed=2))
    assert web_plan(made.spec(neighbours={**made.spec()["neighbours"], "web_per_s": 0.0})) == []


def test_an_application_that_begins_anew_has_a_number_and_files_of_its_own(tmp_path):
    first = commands.requests(made.spec(), 0, 10**6, tmp_path).argv
    again = commands.requests(made.spec(), 0, 8 * 10**6, tmp_path, since_s=7).argv
    assert [argv[argv.index("--flow-label") + 1] for argv in (first, again)] == ["0", str(commands.AGAIN)]
    assert [argv[argv.index("--requests") + 1] for argv in (first, again)] == ["10", "3"]
    assert first[first.index("--events") + 1] != again[again.index("--events") + 1]
