# SPDX-License-Identifier: Apache-2.0
"""Rates at which a packet takes longer than the target asked for: the law's target is the time of two packets."""

import json

import pytest
from packet_rig import until

LEAST_US = {"760kbit": 31874, "100kbit": 242240}
"""Two frames of 1514 bytes."""


@pytest.fixture
def line(rig):
    rig.router.sh("ip link add slow0 type veth peer name slow1; ip link set slow0 up; ip link set slow1 up")
    yield rig
    rig.weir("detach", "slow0", check=False)
    rig.router.run("ip", "link", "del", "slow0", check=False)


def target(rig) -> tuple[int, int | None]:
    status = rig.status("slow0")
    return status["gains"]["target_us"], status.get("target_asked_us")


@pytest.mark.parametrize("option", ["--shape", "--rate"])
@pytest.mark.parametrize("rate", LEAST_US)
def test_a_target_is_raised_to_two_packets(line, option, rate):
    line.weir("attach", "slow0", option, rate)
    assert target(line) == (LEAST_US[rate], 15000)
    assert str(LEAST_US[rate]) in line.weir("status", "slow0").stdout
    line.weir("set", "slow0", "target=5ms")
    assert target(line) == (LEAST_US[rate], 5000)
    line.weir("set", "slow0", "target=300ms")
    assert target(line) == (300000, None)
    shares = line.status("slow0")["gains"]
    line.weir("set", "slow0", "target=1ms")
    assert target(line) == (LEAST_US[rate], 1000)
    assert line.status("slow0")["gains"]["min_delay_share"] == pytest.approx(shares["min_delay_share"], abs=1e-4)


def test_a_fast_line_has_the_target_that_is_asked_for(line):
    line.weir("attach", "slow0", "--shape", "10mbit", "--no-bands", "target=3ms")
    assert target(line) == (3000, None)


def test_the_target_asked_for_comes_back_with_the_rate(line):
    line.weir("attach", "slow0", "--rate", "760kbit")
    line.weir("set", "slow0", "rate=10mbit")
    assert target(line) == (15000, None)
    line.weir("set", "slow0", "rate=100kbit")
    assert target(line) == (LEAST_US["100kbit"], 15000)


def test_ensure_asks_for_the_same_again(line):
    ensure = ("ensure", "slow0", "--json", "--shape")
    assert json.loads(line.weir(*ensure, "760kbit", "target=10ms").stdout)["did"] == "attached"
    assert json.loads(line.weir(*ensure, "760kbit", "target=10ms").stdout)["did"] == "adopted"
    assert json.loads(line.weir(*ensure, "760kbit").stdout)["did"] == "adopted"
    assert target(line) == (LEAST_US["760kbit"], 10000)
    assert json.loads(line.weir(*ensure, "10mbit").stdout)["did"] == "replaced"
    assert target(line) == (10000, None)
    assert json.loads(line.weir(*ensure, "100kbit").stdout)["did"] == "replaced"
    assert target(line) == (LEAST_US["100kbit"], 10000)


SHAPERS = {
    "htb": "tc qdisc add dev slow0 root handle 1: htb default 10;"
    "tc class add dev slow0 parent 1: classid 1:1 htb rate 760kbit ceil 760kbit;"
    "tc class add dev slow0 parent 1:1 classid 1:10 htb rate 100kbit ceil 10mbit",
    "tbf": "tc qdisc add dev slow0 root handle 1: tbf rate 760kbit burst 3000 latency 2s",
}


@pytest.mark.parametrize("kind", SHAPERS)
@pytest.mark.parametrize("signal", ["poll", "backlog"])
def test_the_rate_of_a_shaper_that_is_there_counts(line, kind, signal):
    line.router.sh(SHAPERS[kind])
    line.weir("attach", "slow0", "--signal", signal)
    assert target(line) == (LEAST_US["760kbit"], 15000)
    line.weir("set", "slow0", "target=5ms")
    assert target(line) == (LEAST_US["760kbit"], 5000)
    assert json.loads(line.weir("ensure", "slow0", "--json").stdout)["did"] == "adopted"
    line.router.sh("tc qdisc del dev slow0 root; " + SHAPERS[kind].replace("760kbit", "10mbit"))
    assert json.loads(line.weir("ensure", "slow0", "--json").stdout)["did"] == "replaced"
    assert target(line) == (5000, None)


def test_the_daemon_reports_it(line, daemon):
    daemon.configure('[slow0]\nshape = "760kbit"\ntarget = "10ms"\n')
    daemon.start()
    until(lambda: daemon.metric("target_raised", dev="slow0") == 1, "a raised target", 60)
    daemon.looked("slow0")
    assert daemon.metric("drift_total", dev="slow0", part="gains") == 0
    daemon.stop()
    assert target(line) == (LEAST_US["760kbit"], 10000)
