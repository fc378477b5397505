# SPDX-License-Identifier: Apache-2.0
"""Start of a P4 switch node, and errors when it can't start. Switches that run are in tests/lab."""

import inspect
import os

import pytest

from weirlab import paths
from weirlab.lab.net import LINK_VALUES, NODE_VALUES, NetError, expect
from weirlab.lab.p4switch import (
    ALIASES,
    MININET_KEYWORDS,
    REMEDIES,
    VALUES,
    DeviceClock,
    P4Node,
    Queue,
    Target,
    aqm_line,
    choose,
    own_keywords,
)

TWO_PORTS = {1: "a", 2: "b"}


def test_the_embedded_target_is_told_all_on_its_command_line(tmp_path):
    target = Target(
        TWO_PORTS, {2: Queue(rate_bit_s=10_000_000, depth_packets=1000)}, device_id=7, cpu_port=510, pcap=tmp_path
    )
    argv = target.embedded("weir-switch")
    assert argv[0] == "weir-switch"
    for words in (
        ["--device-id", "7"],
        ["--grpc-server-addr", "127.0.0.1:9559"],
        ["-i", "1@a"],
        ["-i", "2@b"],
        ["--queue", "2:rate=10000000bit,depth=1000p"],
        ["--cpu-port", "510"],
        [f"--pcap={tmp_path}"],
    ):
        assert any(argv[at : at + len(words)] == words for at in range(len(argv)))


def test_bmv2_gets_its_own_options_after_two_dashes_and_queues_by_its_cli():
    target = Target(TWO_PORTS, {2: Queue(rate_packets_s=860, depth_packets=1000)}, cpu_port=510)
    argv = target.bmv2("simple_switch_grpc")
    own = argv[argv.index("--") :]
    assert own == ["--", "--grpc-server-addr", "127.0.0.1:9559", "--cpu-port", "510"]
    assert target.bmv2_queue_commands() == ["set_queue_rate 860 2", "set_queue_depth 1000 2"]


def test_a_depth_for_all_queues_stands_before_those_of_ports():
    argv = Target(TWO_PORTS, {2: Queue(depth_packets=5)}, depth_packets=900).embedded("weir-switch")
    queues = [argv[i + 1] for i, word in enumerate(argv) if word == "--queue"]
    assert queues == ["default:depth=900p", "2:depth=5p"]


def test_flow_queues_are_the_embedded_targets():
    target = Target(TWO_PORTS, {1: Queue(flows=True), 2: Queue(rate_bit_s=1000, flows=True)})
    argv = target.embedded("weir-switch")
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "--queue"] == ["1:flows", "2:rate=1000bit,flows"]
    with pytest.raises(NetError, match=r"queue of port 1: "):
        target.bmv2_queue_commands()


def test_bmv2_has_no_rates_in_bits():
    with pytest.raises(NetError, match=r"queue of port 2: BMv2's rates are in packets/s; give rate_packets_s"):
        Target(TWO_PORTS, {2: Queue(rate_bit_s=10)}).bmv2_queue_commands()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Queue(rate_bit_s=0), "queue: rate_bit_s 0: expected a whole number of 1 or more"),
        (lambda: Queue(rate_bit_s="10mbit"), "queue: rate_bit_s '10mbit': expected a whole number"),
        (lambda: Queue(depth_packets=True), "queue: depth_packets True: "),
        (lambda: Queue(flows=1), "queue: flows 1: "),
        (lambda: Queue(rate_bit_s=1, rate_packets_s=1), "both given; give one of them"),
        (lambda: Target(TWO_PORTS, {3: Queue()}), "queue of port 3: there is no such port; there are 1, 2"),
        (lambda: Target(TWO_PORTS, depth_packets=9).bmv2("b"), "depth_packets: BMv2 has no depth for all queues; give"),
        (lambda: choose("bvm2"), "switch 'bvm2': unknown; choose one of embedded, bmv2, auto"),
    ],
)
def test_what_can_not_be_is_said(make, said):
    with pytest.raises(NetError) as caught:
        make()
    assert said in str(caught.value)


WRONG = {
    "switch": [1, "", ["bmv2"]],
    "program": ["no-such-file.p4", 1, b"a.p4"],
    "queues": [[Queue()], {"2": Queue()}, {2: 5}, Queue()],
    "depth_packets": [0, "64", 1.5, True],
    "priorities": [0, "2", 9],
    "config": ["no-such-file.toml", 7, {}],
    "deploy": ["--empty", [1], [""]],
    "device_id": [-1, "1", 2**64],
    "grpc": ["127.0.0.1", 9559, "127.0.0.1:x", ":9559", "127.0.0.1:65536"],
    "thrift_port": [0, "9090", 65536],
    "cpu_port": [0, 512, "cpu"],
    "pcap": [True, ""],
    "seed": [-1, "x"],
    "log": [1, ""],
    "management": [1],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named_with_its_keyword_and_the_right_form(key, value):
    with pytest.raises(NetError) as caught:
        own_keywords({key: value}, MININET_KEYWORDS)
    assert str(caught.value).startswith(f"{key} {value!r}: expected ")


def test_each_keyword_of_a_switch_has_a_rule_that_its_default_fits():
    assert set(WRONG) == set(VALUES) == set(P4Node.OWN)
    for name, parameter in inspect.signature(P4Node.set_up).parameters.items():
        assert name == "self" or parameter.default is None or VALUES[name][0](parameter.default), name


@pytest.mark.parametrize(
    ("rules", "key", "value"),
    [
        (LINK_VALUES, "ip", "10.0.0.1"),
        (LINK_VALUES, "ip", "10.0.0.1/33"),
        (LINK_VALUES, "ip", 10),
        (LINK_VALUES, "tc", "qdisc add dev {dev} root pfifo"),
        (LINK_VALUES, "neighbours", [1]),
        (NODE_VALUES, "routes", "default via 10.0.0.1"),
        (NODE_VALUES, "forwards", "yes"),
    ],
)
def test_a_wrong_value_of_a_node_or_link_is_named(rules, key, value):
    with pytest.raises(NetError) as caught:
        expect("node h1: ", {key: value}, rules)
    assert str(caught.value).startswith(f"node h1: {key} {value!r}: expected ")
    right = {"ip": "2001:db8::1/64", "forwards": True}.get(key, ["a line"])
    expect("", {key: right, "other": value}, rules)
    expect("", {key: None}, rules)


@pytest.mark.parametrize("key", ["p4", "p4_src", "program"])
def test_a_program_has_one_parameter_and_its_usual_names(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.p4").touch()
    params = {key: "a.p4", "listenPort": 6654}
    assert own_keywords(params, MININET_KEYWORDS) == {"program": "a.p4"}
    assert params == {"listenPort": 6654}


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"p4": "a.p4", "program": "b.p4"}, "program"),
        ({"json_path": "a.json"}, "program="),
        ({"grpc_port": 50051}, "grpc="),
        ({"sw_path": "simple_switch_grpc"}, "switch="),
        ({"confg": "s1.toml"}, "give config"),
        ({"nothing_like_it": 1}, "device_id"),
    ],
)
def test_an_unknown_parameter_is_rejected_with_the_right_one(params, named):
    with pytest.raises(NetError) as caught:
        own_keywords(params, MININET_KEYWORDS)
    assert named in str(caught.value)


def test_parameters_of_others_lead_to_ones_that_exist():
    assert set(ALIASES.values()) <= set(P4Node.OWN)
    assert {remedy.split("=")[0] for remedy in REMEDIES.values()} <= set(P4Node.OWN)


def test_a_program_without_config_starts_with_the_embedded_target_only(tmp_path):
    target = Target(TWO_PORTS, program=tmp_path / "a.p4")
    argv = target.embedded("weir-switch")
    assert argv[argv.index("--p4") + 1] == str(tmp_path / "a.p4")
    assert "--no-p4" not in argv
    with pytest.raises(NetError, match="program"):
        target.bmv2("simple_switch_grpc")


def program(folder, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_target_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda: tmp_path / "build")
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    for switch, said in (
        ("embedded", "weir-switch is not built: ./run switch --help builds it"),
        ("bmv2", "simple_switch_grpc is not on PATH"),
        ("auto", "simple_switch_grpc is not on PATH"),
    ):
        with pytest.raises(NetError, match=said):
            choose(switch)
    links = tmp_path / "links"
    links.mkdir()
    (links / "simple_switch_grpc").symlink_to(program(links, "weir-switch"))
    monkeypatch.setenv("PATH", f"{links}:{tmp_path}")
    with pytest.raises(NetError, match="simple_switch_grpc is not on PATH"):
        choose("bmv2")
    (links / "weir-switch").unlink()
    bmv2 = program(tmp_path, "simple_switch_grpc")
    assert choose("auto") == ("bmv2", bmv2)
    (tmp_path / "build" / "bin").mkdir(parents=True)
    embedded = program(tmp_path / "build" / "bin", "weir-switch")
    assert choose("auto") == ("embedded", embedded)
    assert choose("bmv2") == ("bmv2", bmv2)


RECORD = {
    "digest": "aqm_state", "list_id": 2, "device_time_ns": 10_642_417_152, "port": 2, "now_us": 10640049,
    "delay_us": 19545, "u_q40": 1 << 39, "backlog_bytes": 33442, "dq_time_q8_us": 3355443, "row": 5,
    "enqueued_packets": 96, "enqueued_bytes": 117917, "tail_dropped_packets": 3, "tail_dropped_bytes": 4362,
    "aqm_dropped_packets": 4, "aqm_marked_packets": 1,
}  # fmt: skip


CLOCK = DeviceClock(started_us=5_000_000, boot_us=1_767_225_600_000_000)


# The time since the switch's start, and the time of day.
@pytest.mark.parametrize("device_zero_us", [CLOCK.started_us, -CLOCK.boot_us])
def test_a_digest_is_a_line_of_samples(device_zero_us):
    record = {**RECORD, "device_time_ns": RECORD["device_time_ns"] - device_zero_us * 1000}
    assert aqm_line(record, "bottleneck", squared=True, dq_shift=14, clock=CLOCK) == {
        "k": "aqm", "t_us": 10_642_417, "hop": "bottleneck", "backlog_bytes": 33442, "tau_us": 19545, "u": 0.5,
        "drop_probability": 0.25, "dq_rate_bit_s": 10_000_001, "seen": 100, "marks": 1, "drops_aqm": 4,
        "drops_limit": 3, "row": 5,
    }  # fmt: skip


def test_a_rate_that_is_not_known_yet_is_0_as_with_ebpf():
    line = aqm_line({**RECORD, "dq_time_q8_us": 0}, "bottleneck", squared=False, dq_shift=14, clock=CLOCK)
    assert (line["dq_rate_bit_s"], line["drop_probability"]) == (0, 0.5)
