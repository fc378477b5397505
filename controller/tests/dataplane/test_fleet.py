# SPDX-License-Identifier: Apache-2.0
"""Fleets: files and words, and what is wrong with them."""

import subprocess
import sys
from pathlib import Path

import pytest
from places import CONTROLLER

from weir.dataplane.base import DataPlaneError
from weir.dataplane.bpf import BpfDevice
from weir.dataplane.fleet import Fleet, FleetError, from_words, load_fleet

GOOD = """
[devices.edge]
kind = "bpf"
interfaces = ["eth0", "eth1"]
netns = "blue"
every_ms = 500
[devices.s1]
kind = "p4runtime"
address = "127.0.0.1:9559"
ports = [2, 3]
digest_interval_us = 50000
"""


def fleet(tmp_path: Path, text: str) -> Fleet:
    (tmp_path / "fleet.toml").write_text(text)
    return load_fleet(tmp_path / "fleet.toml")


def test_a_file_names_devices_of_both_kinds(tmp_path: Path) -> None:
    with fleet(tmp_path, GOOD) as made:
        assert [device.name for device in made.devices] == ["edge", "s1"]
        assert made.device("edge").interfaces == ("eth0", "eth1")
        with pytest.raises(DataPlaneError, match="no device s2: must be one of edge, s1"):
            made.device("s2")


X = "[devices.x]\nkind = 'bpf'\n"
S1 = "[devices.x]\nkind = 'p4runtime'\naddress = 'a:1'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[devices", "not a fleet"),
        ("", "no devices; must have a \\[devices.NAME\\]"),
        ("[device.x]", "device: no such key"),
        ("devices = 3", "no devices"),
        ("devices.x = 3", "devices.x = 3: must be a table"),
        ("[devices.x]", 'devices.x.kind = None: must be "bpf" or "p4runtime"'),
        ("[devices.x]\nkind = 'xdp'", "devices.x.kind = 'xdp': must be"),
        (X + "port = 3", "devices.x.port = 3: no such key; must be one of interfaces, pins"),
        (X + "interfaces = 'eth0'", "devices.x.interfaces = 'eth0': must be a list"),
        (X + "interfaces = []", "devices.x.interfaces"),
        (X + "interfaces = ['a', 'a']", "devices.x.interfaces"),
        (X + "interfaces = ['an/interface']", "devices.x.interfaces"),
        (X + "pins = 'weir'", "devices.x.pins = 'weir': must be an absolute path"),
        (X + "every_ms = 0", "devices.x.every_ms = 0: must be a whole number, 1 .."),
        (X + "every_ms = true", "devices.x.every_ms = True: must be a whole number"),
        ("[devices.x]\nkind = 'p4runtime'", "devices.x.address is missing"),
        ("[devices.x]\nkind = 'p4runtime'\naddress = 'here'", "devices.x: device x: 'here': must be HOST:PORT"),
        (S1 + "switch = 'asic'", "devices.x.switch = 'asic': must be one of"),
        (S1 + "ports = [1000]", "devices.x: device x: port '1000'"),
        (S1 + "ports = ['a']", "devices.x.ports = \\['a'\\]: must be"),
        (S1 + "config = 'nix.toml'", "devices.x.config = 'nix.toml': must be a"),
        (S1 + "tls = {caa = 'x'}", "devices.x.tls.caa = 'x': no such key"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FleetError, match=f"fleet.toml: .*{words}"):
        fleet(tmp_path, text)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_bytes(b"\xff")
    with pytest.raises(FleetError, match=r"fleet.toml: not UTF-8 at byte 0; .*not a fleet"):
        load_fleet(tmp_path / "fleet.toml")


def test_words_make_a_device_of_each_place() -> None:
    made = from_words(bpf=["eth0", "eth1@blue", "eth2"], p4=["127.0.0.1:9559"])
    assert [device.name for device in made.devices] == ["bpf", "bpf@blue", "127.0.0.1:9559"]
    assert made.devices[0].interfaces == ("eth0", "eth2")
    assert from_words(bpf=["all"]).devices[0].interfaces is None
    laws = from_words(bpf=["eth0", "eth0/ingress", "eth0/1:10"]).devices[0]
    assert laws.interfaces == ("eth0", "eth0/ingress", "eth0/1:10")


@pytest.mark.parametrize(
    ("bpf", "p4", "words"),
    [
        ([], [], "no devices: give --fleet FILE, --bpf DEV or --p4 HOST:PORT"),
        (["eth0@"], [], "--bpf eth0@: must be DEV or DEV@NETNS"),
        (["a-name-too-long-for-one"], [], "must be DEV or DEV@NETNS"),
        (["eth0", "eth0"], [], "--bpf eth0: given twice"),
        (["all", "eth0"], [], "--bpf all: goes alone, without eth0"),
        ([], ["x"], "--p4 x: device x: 'x': must be HOST:PORT"),
        ([], ["a:1", "a:1"], "device a:1: given twice"),
    ],
)
def test_wrong_words_are_refused(bpf: list[str], p4: list[str], words: str) -> None:
    with pytest.raises(FleetError, match=words):
        from_words(bpf, p4)


def test_one_switch_under_two_names_is_refused(tmp_path):
    path = tmp_path / "fleet.toml"
    entry = '[devices.{}]\nkind = "p4runtime"\naddress = "10.0.0.1:9559"\n'
    path.write_text(entry.format("a") + entry.format("b"))
    with pytest.raises(FleetError, match="device b: is device a too"):
        load_fleet(path)
    path.write_text(entry.format("a") + entry.format("b") + "device_id = 1\n")
    assert [device.name for device in load_fleet(path).devices] == ["a", "b"]


def test_two_devices_of_one_name() -> None:
    with pytest.raises(FleetError, match="device a: given twice"):
        Fleet([BpfDevice("a"), BpfDevice("a")])


def test_ebpf_alone_imports_nothing_heavy() -> None:
    """Start-up is time, and in the exact lab a lot of it."""
    code = (
        "import sys, weir.commands.gains; print([m for m in ('grpc', 'google', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CONTROLLER, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_interface_is_one_devices_only(tmp_path: Path):
    def fleet(first: str, second: str) -> Fleet:
        path = tmp_path / "fleet.toml"
        path.write_text(f'[devices.a]\nkind = "bpf"\n{first}\n[devices.b]\nkind = "bpf"\n{second}\n')
        return load_fleet(path)

    for first, second in (
        ('interfaces = ["eth0", "eth1"]', 'interfaces = ["eth2", "eth1"]'),
        ('interfaces = ["eth1"]', ""),
        ("", 'interfaces = ["eth1"]'),
        ('interfaces = ["eth1"]\nnetns = "blue"', 'interfaces = ["eth1"]\nnetns = "/run/netns/blue"'),
    ):
        with pytest.raises(FleetError, match=r"fleet.toml: device b: eth1 is device a's too"):
            fleet(first, second)
    fleet('interfaces = ["eth1"]\nnetns = "blue"', 'interfaces = ["eth1"]')
