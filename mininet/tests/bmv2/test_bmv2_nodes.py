# SPDX-License-Identifier: Apache-2.0
"""Switches and links for scripts that were written for BMv2: their keywords and command lines. Networks that run are in
tests/packet."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from mininet.node import Switch

from weirlab.bmv2 import WeirGrpcSwitch, WeirIntf, WeirSwitch, exercise, links
from weirlab.bmv2.links import is_zero
from weirlab.bmv2.nodes import version_of
from weirlab.lab.net import NetError
from weirlab.lab.p4switch import Queue, Target


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A PATH with three switches, and a program."""
    for name, version in (("weir-switch", "weir-switch 0.12.0"), ("simple_switch", "1.15.5"), ("other", "weir-switch")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "basic.json").write_text("{}")
    monkeypatch.setenv("PATH", str(tmp_path))  # a real BMv2 elsewhere is another case
    monkeypatch.setattr(Switch, "__init__", lambda *_args, **_params: None)  # a shell in a namespace
    for counter in ("next_thrift_port", "next_grpc_port", "next_device_id"):
        monkeypatch.setattr(WeirSwitch, counter, getattr(WeirSwitch, counter))
    return tmp_path


def command_line(switch: WeirSwitch, ports: dict[int, str]) -> list[str]:
    return switch.command_line(Target(ports=ports, **switch.options))


def test_keywords_of_the_tutorials(folder: Path):
    switch = WeirGrpcSwitch(
        "s1", sw_path="simple_switch_grpc", json_path=folder / "basic.json", grpc_port=50061, thrift_port=9100,
        pcap_dump=folder / "pcaps", log_console=True, log_file=folder / "s1.log", device_id=3, cpu_port=255,
        priority_queues=8, enable_debugger=False, verbose=False,
    )  # fmt: skip
    argv = command_line(switch, {1: "s1-eth1", 2: "s1-eth2"})
    assert argv[0] == str(folder / "weir-switch")  # BMv2 is not on PATH
    for words in (
        ["--device-id", "3"],
        ["--grpc-server-addr", "127.0.0.1:50061"],
        ["--thrift-port", "9100"],
        ["-i", "1@s1-eth1"],
        ["-i", "2@s1-eth2"],
        ["--p4", str(folder / "basic.json")],
        [f"--pcap={folder / 'pcaps'}"],
        ["--cpu-port", "255"],
        ["--priority-queues", "8"],
        ["--log-console"],
    ):
        assert any(argv[at : at + len(words)] == words for at in range(len(argv))), words
    assert "--no-p4" not in argv
    assert (switch.grpc_port, switch.thrift_port, switch.device_id, switch.log) == (50061, 9100, 3, folder / "s1.log")


def test_keywords_of_p4_utils(folder: Path):
    switch = WeirGrpcSwitch(
        "s1", device_id=1, sw_bin="simple_switch_grpc", json_path=None, pcap_dump=True, pcap_dir=folder / "pcap",
        log_enabled=True, log_dir=folder, priority_queues_num=2,
    )  # fmt: skip
    argv = command_line(switch, {})
    assert "--no-p4" in argv
    assert f"--pcap={folder / 'pcap'}" in argv
    assert argv[argv.index("--priority-queues") + 1] == "2"
    assert switch.log == folder / "p4s.s1.log"
    switch.set_json(folder / "basic.json")
    assert "--no-p4" not in command_line(switch, {})


def test_switches_without_ports_get_different_ones(folder: Path):
    first, second = (WeirGrpcSwitch(f"s{n}", grpc_port=port) for n, port in ((1, 50100), (2, None)))
    assert second.grpc_port == 50101
    assert second.thrift_port == first.thrift_port + 1
    assert second.device_id == first.device_id + 1


def test_bmv2_on_path_gets_its_own_command_line(folder: Path):
    switch = WeirSwitch("s1", sw_path="simple_switch", json_path=folder / "basic.json", thrift_port=9100, device_id=1)
    program = str(folder / "basic.json")
    assert command_line(switch, {1: "a"}) == [
        str(folder / "simple_switch"), "--device-id", "1", "--thrift-port", "9100", "-i", "1@a", program,
    ]  # fmt: skip
    assert not switch.shape(None, 10)
    switch = WeirSwitch("s2", sw_path="other", json_path=program)  # weir-switch by another name
    assert switch.kind == "embedded"


def test_programs_are_named_with_their_versions(folder: Path):
    names = {name: version_of(str(folder / name)) for name in ("weir-switch", "simple_switch", "other")}
    assert names == {
        "weir-switch": "weir-switch 0.12.0",
        "simple_switch": "simple_switch 1.15.5",
        "other": "weir-switch",
    }
    with pytest.raises(NetError, match="none: can't be started"):
        version_of(str(folder / "none"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "json_path: missing; give the program's file, or take WeirGrpcSwitch"),
        ({"json_path": "none.json"}, "json_path 'none.json': no such file; compile the program first"),
        ({"json_path": "{program}", "sw_path": "none"}, "sw_path 'none': no such program on PATH"),
        ({"json_path": "{program}", "thrift_port": 0}, "thrift_port 0: expected a whole number of 1 to 65535"),
        ({"json_path": "{program}", "cpu_port": "255"}, "switch s1: cpu_port '255': expected a whole number"),
        (
            {"json_path": "{program}", "priority_queues": 9},
            "switch s1: priorities 9: expected a whole number of 1 to 8",
        ),
    ],
)
def test_an_error_names_the_keyword(folder: Path, words, message):
    program = str(folder / "basic.json")
    with pytest.raises(NetError) as caught:
        WeirSwitch("s1", **{key: program if value == "{program}" else value for key, value in words.items()})
    assert str(caught.value).startswith(message)


def interface(monkeypatch, node, qdiscs: tuple[str, ...]) -> WeirIntf:
    monkeypatch.setattr(links, "kernel_has", lambda qdisc: qdisc in qdiscs)
    monkeypatch.setattr(links.TCIntf, "config", lambda _self, **params: params)
    intf = WeirIntf.__new__(WeirIntf)
    intf.name, intf.node = "s1-eth1", node
    return intf


def test_a_rate_at_a_port_of_the_switch_is_the_switchs(folder: Path, monkeypatch):
    switch = WeirGrpcSwitch("s1", queues={1: Queue(depth_packets=100)})
    intf = interface(monkeypatch, switch, ("htb", "netem"))
    switch.ports = {intf: 1}
    assert intf.config(bw=0.5, delay="0ms", jitter=None, mac="x") == {"bw": None, "mac": "x"}
    argv = command_line(switch, {1: "s1-eth1"})
    assert argv[argv.index("--queue") + 1] == "1:rate=500000bit,depth=100p"


def test_rates_and_delays_of_hosts_are_the_kernels(monkeypatch):
    host = SimpleNamespace()
    assert interface(monkeypatch, host, ("htb", "netem")).config(bw=10, delay="5ms") == {"bw": 10, "delay": "5ms"}
    said = []
    monkeypatch.setattr(links, "warn", said.append)
    assert interface(monkeypatch, host, ()).config(bw=10, delay="5ms", loss=0) == {"bw": None}
    assert said == [
        "s1-eth1: the rate 10 Mbit/s is left out: the kernel has no htb\n",
        "s1-eth1: delay 5ms: left out: the kernel has no netem\n",
    ]


@pytest.mark.parametrize("value", [None, 0, "0", "0ms", "0.0 us", "", "0%"])
def test_nothing_is_zero(value):
    assert is_zero(value)
    assert not is_zero("5ms")


def test_the_command_names_what_is_wrong(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exercise.main(["-t", "none.json"]) == 2
    assert capsys.readouterr().err == "weirlab.bmv2: error: none.json: No such file or directory\n"
    Path("t.json").write_text("[]")
    assert exercise.main(["-t", "t.json"]) == 2
    assert capsys.readouterr().err == "weirlab.bmv2: error: t.json: must be an object, {...}\n"
