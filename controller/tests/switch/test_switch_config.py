# SPDX-License-Identifier: Apache-2.0
"""The file of `weir p4 deploy`."""

import re
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from weir import bands
from weir.bands import Bands
from weir.coupled import DEFAULT, Coupling
from weir.gains import REQUIRED
from weir.resources import PROFILES
from weir.settings import dumps, save
from weir.settings import load as read_profile
from weir.switch.config import ConfigError, load, loads

GOOD = """\
[ports.1]
mac = "02:00:00:00:01:01"
[ports.2]
mac = "02:00:00:00:01:02"
vlan = 10
[neighbours.h1]
port = 1
mac = "02:00:00:00:00:01"
[neighbours.h2]
port = 2
mac = "02:00:00:00:00:02"
[routes]
"10.0.1.0/24" = "h1"
"0.0.0.0/0" = "h2"
"2001:db8::/32" = "h2"
[flood]
ports = [1, 2]
[aqm.port.2]
target_us = 5000
digest_interval_us = 20000
[aqm.port.1]
profile = "paper"
delay_source = "rate"
[coupled.port.2]
coupling = 1.5
ramp_us = 1
"""


def read(text: str):
    return loads(text, "s1.toml", Path("."))


def test_a_file_says_what_a_switch_is_to_be() -> None:
    config = read(GOOD)
    assert (config.ports[1].mac, config.ports[1].vlan) == (0x020000000101, "keep")
    assert config.ports[2].vlan == 10
    assert (config.neighbours["h2"].port, config.neighbours["h2"].mac) == (2, 0x020000000002)
    assert config.routes == {
        ip_network("10.0.1.0/24"): "h1", ip_network("0.0.0.0/0"): "h2", ip_network("2001:db8::/32"): "h2",
    }  # fmt: skip
    assert config.flood == (1, 2)
    assert config.aqm[2].gains == replace(read_profile(PROFILES / "tuned.toml"), target_us=5000)
    assert (config.aqm[2].digest_interval_us, config.aqm[2].delay_source) == (20000, "sojourn")
    assert config.aqm[1].gains == read_profile(PROFILES / "paper.toml")
    assert config.aqm[1].delay_source == "rate"
    assert config.coupled == {2: Coupling(3 << 15, 800, 1 << 32, 3028)}
    assert read(GOOD.replace("coupling = 1.5\nramp_us = 1\n", "")).coupled == {2: DEFAULT}


def test_an_empty_file_is_a_switch_that_forwards_nothing() -> None:
    config = read("")
    assert not any((config.ports, config.neighbours, config.routes, config.flood, config.aqm))
    assert config.forwards_nothing
    assert not read(GOOD).forwards_nothing
    assert not read("[flood]\nports = [1, 2]\n[aqm.port.2]\n").forwards_nothing


def test_a_profile_of_before_with_a_bound_as_a_share_of_the_ports_target(tmp_path: Path) -> None:
    """Keys that it leaves out are off."""
    tuned = dumps(read_profile(PROFILES / "tuned.toml")).splitlines()
    kept = [line for line in tuned if line.split(" = ")[0] in REQUIRED]
    (tmp_path / "mine.toml").write_text("\n".join([*kept, "delay_bound_share = 1.25", "delay_limit_share = 1.75"]))
    (tmp_path / "s1.toml").write_text(
        '[flood]\nports = [1, 2]\n[aqm.port.1]\nprofile = "mine.toml"\ntarget_us = 4000\ndelay_limit_share = 2.25\n'
    )
    params = load(tmp_path / "s1.toml").aqm[1].gains.to_params()
    assert (params.delay_bound_us, params.delay_limit_us, params.share_shift) == (5000, 9000, 17)
    assert (params.min_delay_us, params.space_most_q16, params.share_least_q16) == (0, 0, 0)


def test_profiles_by_path_are_relative_to_the_file(tmp_path: Path) -> None:
    save(replace(read_profile(PROFILES / "tuned.toml"), kp=7.0), tmp_path / "mine.toml")
    (tmp_path / "s1.toml").write_text('[flood]\nports = [1, 2]\n[aqm.port.1]\nprofile = "mine.toml"\n')
    assert load(tmp_path / "s1.toml").aqm[1].gains.kp == 7.0
    (tmp_path / "mine.toml").write_text("kp = 7.0\n")
    where = re.escape(f"{tmp_path}/s1.toml:4: aqm.port.1.profile: {tmp_path}/mine.toml: ")
    with pytest.raises(ConfigError, match=f"^{where}target_us is missing"):
        load(tmp_path / "s1.toml")
    (tmp_path / "s1.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 0"):
        load(tmp_path / "s1.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[flood]", "[floods]", "s1.toml:16: floods: unknown; did you mean flood?"),
        ('mac = "02:00:00:00:01:01"', "", "s1.toml:1: ports.1.mac: missing"),
        ("[ports.1]", "[ports.one]", "s1.toml:1: ports.one: 'one': must be a port number, 0 .. 509"),
        ("[ports.1]", "[ports.511]", "s1.toml:1: ports.511: '511': must be a port number"),
        ('"02:00:00:00:01:01"', '"02:00:00:00:01"', "s1.toml:2: ports.1.mac: '02:00:00:00:01': must be the MAC"),
        ('"02:00:00:00:01:01"', '"ff:ff:ff:ff:ff:ff"', "s1.toml:2: ports.1.mac: 'ff:ff:ff:ff:ff:ff': must be the MAC"),
        ("vlan = 10", "vlan = 4095", "s1.toml:5: ports.2.vlan: 4095: must be a VLAN number, 1 .. 4094"),
        ("vlan = 10", "vlan = true", "s1.toml:5: ports.2.vlan: True: must be a VLAN number"),
        ("vlan = 10", "vlans = 10", "s1.toml:5: ports.2.vlans: unknown key; did you mean vlan?"),
        ("port = 2", "port = 3", "s1.toml:10: neighbours.h2.port: port 3 has no [ports.3]"),
        ("port = 2", 'port = "2"', "s1.toml:10: neighbours.h2.port: '2': must be a valid integer"),
        ('mac = "02:00:00:00:00:02"', 'mac = "02:00:00:00:00:01"', "neighbours.h1.mac: h2 has it too, at another port"),
        ('"h1"\n', '"h3"\n', "s1.toml:13: routes.10.0.1.0/24: 'h3': no such neighbour; must be one of h1, h2"),
        ('"10.0.1.0/24"', '"10.0.1.1/24"', "s1.toml:13: routes.10.0.1.1/24: 10.0.1.1/24 has host bits set"),
        ('"10.0.1.0/24"', '"ten"', "s1.toml:13: routes.ten: 'ten' does not appear to be an IPv4 or IPv6"),
        ('"10.0.1.0/24"', '"2001:0db8::/32"', "routes.2001:db8::/32: 2001:db8::/32 is there twice"),
        ("ports = [1, 2]", "ports = [1]", "s1.toml:17: flood.ports: [1]: must be two ports or more"),
        ("ports = [1, 2]", "ports = [1, 1]", "s1.toml:17: flood.ports: [1, 1]: must be two ports or more, each once"),
        ("ports = [1, 2]", "ports = [1, 600]", "s1.toml:17: flood.ports: [1, 600]: must be a list of port numbers"),
        ("ports = [1, 2]", "port = [1, 2]", "s1.toml:17: flood.port: unknown key; there is only ports"),
        (
            "target_us = 5000",
            "target_us = 0",
            "s1.toml:19: aqm.port.2.target_us: 0: must be a whole number",
        ),
        ("target_us = 5000", "target = 0", "s1.toml:19: aqm.port.2.target: unknown key; did you mean target_us?"),
        ("target_us = 5000", "m2_us = 30000", "aqm.port.2.m2_us: 30000: must be below m1_us = 20000"),
        (
            '"paper"',
            '"papyrus"',
            "s1.toml:22: aqm.port.1.profile: 'papyrus': no such profile; must be a path or one of coupled, paper",
        ),
        ('"paper"', '"./none.toml"', "aqm.port.1.profile: './none.toml': No such file"),
        ('"rate"', '"clock"', "s1.toml:23: aqm.port.1.delay_source: 'clock': must be 'sojourn', 'rate' or 'flows'"),
        (
            "[aqm.port.1]",
            "[aqm.port.9]",
            "s1.toml:21: aqm.port.9: nothing is sent from port 9: there is no [ports.9] and it is not in flood.ports; "
            "must be one of 1, 2",
        ),
        ("[aqm.port.1]", "[aqm.ports.1]", "s1.toml:21: aqm.ports: unknown; write [aqm.port.N]"),
        ("digest_interval_us = 20000", "digest_interval_us = -1", "aqm.port.2.digest_interval_us: -1: must be greater"),
        ("[coupled.port.2]", "[coupled.port.3]", "s1.toml:24: coupled.port.3: there is no [aqm.port.3], whose law"),
        ("[coupled.port.2]", "[coupled.port.1]", 'aqm.port.1.probability: two coupled bands need "squared"'),
        ("[coupled.port.2]", "[coupled.2]", "s1.toml:24: coupled.2: unknown; write [coupled.port.N]"),
        ("coupling = 1.5", "coupling = 16", "s1.toml:25: coupled.port.2.coupling: 16: must be less than 16"),
        ("coupling = 1.5", "k = 1.5", "s1.toml:25: coupled.port.2.k: unknown key; must be one of coupling, "),
        ("ramp_us = 1\n", "ramp_us = 0\n", "s1.toml:26: coupled.port.2.ramp_us: 0: must be greater than or equal to 1"),
        ("[routes]", "[[routes]]", "s1.toml:12: routes: must be a table, [routes]"),
        ("[ports.1]", "[ports.1", "s1.toml: not TOML"),
    ],
)
def test_a_mistake_is_told_with_line_key_and_what_would_be_right(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read(GOOD.replace(old, new, 1))
    assert len(caught.value.problems) == len(str(caught.value).splitlines())


def test_a_port_with_throughput_advice() -> None:
    assert read(GOOD).advice == {}
    for rate, signal in (("8", 38), ("0.1", 0), ("1.0", 20), ("1000000", 126)):
        assert read(GOOD + f"[advice.port.2]\nrate_mbit_s = {rate}\n").advice == {2: signal}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[advice.port.2]\n", "s1.toml:27: advice.port.2.rate_mbit_s"),
        ("[advice.port.2]\nrate_mbit_s = 0.09\n", "s1.toml:28: advice.port.2.rate_mbit_s"),
        ("[advice.port.2]\nrate_mbit_s = inf\n", "s1.toml:28: advice.port.2.rate_mbit_s"),
        ('[advice.port.2]\nrate_mbit_s = "share"\n', "s1.toml:28: advice.port.2.rate_mbit_s"),
        ("[advice.port.2]\nrate = 8\n", "s1.toml:28: advice.port.2.rate"),
        ("[advice.port.3]\nrate_mbit_s = 8\n", "s1.toml:27: advice.port.3"),  # nothing is sent from it
        ("[advice.2]\nrate_mbit_s = 8\n", "s1.toml:27: advice.2"),
    ],
)
def test_mistakes_in_throughput_advice(text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(GOOD + text)
    assert any(problem.startswith(f"{place}: ") for problem in caught.value.problems)


def test_a_port_with_bands_of_flows() -> None:
    assert {port: law.bands for port, law in read(GOOD).aqm.items()} == {1: None, 2: None}
    config = read(GOOD + "[bands.port.1]\n")
    assert {port: law.bands for port, law in config.aqm.items()} == {1: bands.DEFAULT, 2: None}
    text = "[bands.port.1]\nahead_share = 15.9999999\nahead_most_bytes = 9000\nahead_least_bytes = 1\n"
    assert read(GOOD + text).aqm[1].bands == Bands(2**20 - 1, 9000, 1)
    assert read(GOOD + "[bands.port.1]\nahead_share = 0\n").aqm[1].bands == replace(bands.DEFAULT, ahead_share_q16=0)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[bands.port.2]\n", "s1.toml:27: bands.port.2"),  # it has two coupled bands
        ("[bands.port.3]\n", "s1.toml:27: bands.port.3"),  # it has no law
        ("[bands.2]\n", "s1.toml:27: bands.2"),
        ("[bands.port.1]\nahead = 1\n", "s1.toml:28: bands.port.1.ahead"),
        ("[bands.port.1]\nahead_share = 16\n", "s1.toml:28: bands.port.1.ahead_share"),
        ("[bands.port.1]\nahead_most_bytes = 0\n", "s1.toml:28: bands.port.1.ahead_most_bytes"),
        ("[bands.port.1]\nahead_least_bytes = 4294967296\n", "s1.toml:28: bands.port.1.ahead_least_bytes"),
        ("[bands.port.1]\nahead_least_bytes = 1.5\n", "s1.toml:28: bands.port.1.ahead_least_bytes"),
    ],
)
def test_mistakes_in_bands_of_flows(text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(GOOD + text)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{place}: ")


def test_every_mistake_is_told_at_once() -> None:
    text = GOOD.replace("vlan = 10", "vlan = 0").replace("[1, 2]", "[1]").replace('"paper"', '"none"')
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert [problem.split(":")[1] for problem in caught.value.problems] == ["5", "17", "22"]
