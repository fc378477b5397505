# SPDX-License-Identifier: Apache-2.0
"""weir.qos of xdp/openwrt/ under sqm-scripts: start, traffic in both directions, stop, and nothing is left."""

import json
import os
import re
import select
import socket
from pathlib import Path

import pytest
from packet_rig import HOOKS, WEIR, Rig, take, until
from packets import packets
from sqm_rig import CLONE, FORMS, NEEDS_CLONE, Sqm

IFB = "ifb4rb"
RATES = {"UPLINK": 20000, "DOWNLINK": 50000}


@pytest.fixture(scope="module")
def router(tools):
    """A rig whose router has its interfaces in /sys, where sqm-scripts find them."""
    rig = Rig()
    rig.router.sh("mount -t sysfs sysfs /sys && mount -t bpf -o mode=0755 bpf /sys/fs/bpf")
    if rig.router.run("ip", "link", "add", "name", "ifb9", "type", "ifb", check=False).returncode:
        rig.close()
        pytest.skip("this kernel has no ifb")
    rig.router.sh("ip link del ifb9")
    yield rig
    rig.close()


@pytest.fixture(params=FORMS)
def sqm(router, request, tmp_path):
    sqm = Sqm(router, request.param, tmp_path)
    before = left(router)
    yield sqm
    if sqm.is_active():
        sqm("stop")
    assert left(router) == before


def left(rig) -> str:
    """All that a script can leave behind: links, qdiscs, classes, filters, pins, processes of weir-xdp."""
    return rig.router.sh(
        "ip -o link | cut -d: -f2;"
        "for d in $(ls /sys/class/net); do tc qdisc show dev $d; tc class show dev $d;"
        " for s in ingress egress; do tc filter show dev $d $s 2>/dev/null || true; done; done;"
        "find /sys/fs/bpf/weir -mindepth 1 ! -name 'lock-*' 2>/dev/null || true"
    ) + str(sorted(of_weir(rig)))


def of_weir(rig) -> list[int]:
    """Processes of the loader in the router's namespace."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("exe").readlink() == WEIR.resolve() and os.path.samefile(
                process / "ns" / "net", rig.router.netns
            ):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def came(out: socket.socket, back: socket.socket, frames: list[bytes]) -> list[bytes]:
    """Frames that come in at `back` of those sent at `out`. Bands change their order."""
    got = []
    with out, back:
        for frame in frames:
            out.send(frame)
        while len(got) < len(frames) and select.select([back], [], [], 10)[0]:
            if (data := take(back)) is not None:
                got.append(data)
    return got


def both_ways(rig) -> None:
    """Each frame, in each direction, comes out as it was."""
    frames = [packet.frame for packet in packets().values()]
    assert sorted(came(rig.sender.tap("a0"), rig.receiver.tap("b0"), frames)) == sorted(frames)
    frames = [frame[6:12] + frame[:6] + frame[12:] for frame in frames]
    assert sorted(came(rig.receiver.tap("b0"), rig.sender.tap("a0"), frames)) == sorted(frames)


def loader(folder: Path, *words: str) -> dict[str, str]:
    """The environment in which the script takes a loader that gives `attach` more words."""
    path = folder / "weir-xdp"
    path.write_text(f'#!/bin/sh\ncase $1 in attach) exec {WEIR} "$@" {" ".join(words)} ;; esac\nexec {WEIR} "$@"\n')
    path.chmod(0o755)
    return {"WEIR_XDP": str(path)}


@pytest.mark.parametrize("hook", HOOKS)
def test_both_directions_get_a_law_and_nothing_is_left(router, sqm, tmp_path, hook):
    environment = loader(tmp_path, "--hook", hook, "--fixed-probability", "0")
    sqm.configure(**RATES)
    sqm("start", **environment)
    assert sqm.is_active(), sqm.log
    assert sqm.reported() == set()
    for dev, rate in (("rb", 20_000_000), (IFB, 50_000_000)):
        status = router.status(dev)
        assert (status["hook"], status["shape_bit_s"]) == (hook, rate)
        assert {"ahead", "bulk"} <= status.keys()
    both_ways(router)
    assert router.status("rb")["counters"]["seen_packets"] > 0
    assert router.status(IFB)["counters"]["seen_packets"] > 0
    assert of_weir(router)
    sqm("stop", **environment)
    assert not sqm.is_active()


def test_settings_of_sqm_reach_the_law(router, sqm):
    sqm.configure(
        **RATES, ETARGET="5ms", ITARGET="auto", IECN="NOECN", EQDISC_OPTS="ahead_share=0.25", IQDISC_OPTS="nobands"
    )
    sqm("start")
    assert sqm.reported() == set()
    egress, ingress = router.status("rb"), router.status(IFB)
    assert (egress["gains"]["target_us"], ingress["gains"]["target_us"]) == (5000, 15000)
    assert egress["gains"]["ecn_bound"] > 0 == ingress["gains"]["ecn_bound"]
    assert egress["bands"]["ahead_share"] == 0.25
    assert "bulk" in egress
    assert "bulk" not in ingress


def test_settings_without_effect_are_reported(router, sqm):
    sqm.configure(**RATES, ETARGET="soon", ELIMIT="1001", EQDISC_OPTS="nat wash", LINKLAYER="ethernet", OVERHEAD="44")
    sqm("start")
    assert sqm.is_active()
    assert {"soon", "ELIMIT", "nat", "wash"} <= sqm.reported()
    assert router.status("rb")["gains"]["target_us"] == 15000


def test_the_link_layer_of_sqm_reaches_the_shaper(router, sqm):
    if "--overhead" not in router.weir("--help").stdout:
        pytest.skip("weir-xdp without framing")
    sqm.configure(**RATES, LINKLAYER="atm", OVERHEAD=44, STAB_MPU=96)
    sqm("start")
    assert sqm.reported() == set()
    for dev in ("rb", IFB):
        assert router.status(dev)["framing"] == {"line": "atm", "overhead_bytes": 44, "mpu_bytes": 96}


@pytest.mark.parametrize(("zero", "shaped"), [("DOWNLINK", "rb"), ("UPLINK", IFB)])
def test_a_rate_of_0_leaves_a_direction_alone(router, sqm, zero, shaped):
    sqm.configure(**{**RATES, zero: 0})
    sqm("start")
    assert sqm.is_active(), sqm.log
    assert [one["dev"] for one in json.loads(router.weir("status", "--json").stdout)] == [shaped]


@pytest.mark.parametrize("options", ["EQDISC_OPTS", "IQDISC_OPTS"])
def test_a_failed_start_leaves_nothing(router, sqm, options):
    before = left(router)
    sqm.configure(**RATES, **{options: "target=never"})
    sqm("start")
    assert not sqm.is_active()
    assert "target" in sqm.log
    assert left(router) == before


@pytest.mark.parametrize(("downlink", "active"), [(50000, False), (0, True)])
def test_an_interface_without_ethernet_frames_is_shaped_at_egress_only(router, sqm, downlink, active):
    if router.router.run("ip", "tuntap", "add", "dev", "wan", "mode", "tun", check=False).returncode:
        pytest.skip("this kernel has no tun")
    try:
        router.router.sh("ip link set wan up")
        before = left(router)
        sqm.dev = "wan"
        sqm.configure(UPLINK=20000, DOWNLINK=downlink)
        sqm("start")
        assert sqm.is_active() is active
        assert ("wan" in sqm.reported()) is not active
        assert (left(router) == before) is not active
        sqm("stop")
        assert left(router) == before
    finally:
        router.router.sh("ip link del wan")


def test_a_loader_that_is_missing(router, sqm):
    before = left(router)
    sqm.configure(**RATES)
    sqm("start", WEIR_XDP="/nonexistent")
    assert not sqm.is_active()
    assert left(router) == before


def test_an_ingress_qdisc_of_another_script_is_replaced(router, sqm, tmp_path):
    router.router.sh(
        "tc qdisc add dev rb handle ffff: ingress; tc qdisc add dev rb root tbf rate 1mbit burst 3k limit 9k"
    )
    sqm.configure(**RATES)
    environment = loader(tmp_path, "--hook", "clsact", "--fixed-probability", "0")
    sqm("start", **environment)
    assert sqm.is_active(), sqm.log
    both_ways(router)
    sqm("stop", **environment)


def test_an_interface_that_is_gone(router, sqm):
    """Hotplug's `cleanup`."""
    before = left(router)
    router.router.sh("ip link add wan type veth peer name isp; ip link set wan up")
    sqm.dev = "wan"
    sqm.configure(**RATES)
    sqm("start")
    assert len(of_weir(router)) == 2
    router.router.sh("ip link del wan")
    sqm("cleanup")
    assert not sqm.is_active()
    until(lambda: left(router) == before, "nothing is left")


@NEEDS_CLONE
def test_the_contract_is_that_of_sqm_scripts():
    """Functions and settings of sqm/ are in the real scripts."""
    ours, theirs = Path(__file__).parent / "sqm", CLONE / "src"
    functions = set(re.findall(r"^(sqm_\w+)\(\)", (ours / "functions.sh").read_text(), re.MULTILINE))
    settings = set(re.findall(r'"\$\{(\w+):=', (ours / "defaults.sh").read_text()))
    assert functions
    assert settings
    assert functions <= set(re.findall(r"^(\w+) ?\(\)", (theirs / "functions.sh").read_text(), re.MULTILINE))
    assert settings <= set(re.findall(r"(\w+)=", (theirs / "defaults.sh").read_text()))
