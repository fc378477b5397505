# SPDX-License-Identifier: Apache-2.0
"""`--ingress RATE`: the laws of both directions by one command, and none of them left behind."""

import json
import sys

import pytest
from daemon_rig import Daemon, attached
from packet_rig import REPO, WEIR, Failed, until

INGRESS = "rb/ingress"
BOTH = ("--shape", "50mbit", "--no-bands", "--ingress", "47mbit")
STEPPED = REPO / "tests" / "lab" / "stepped.py"


@pytest.fixture(autouse=True)
def nothing_stays(rig):
    rig.unshape()
    yield
    for dev in ("rb", INGRESS):
        rig.weir("detach", dev, check=False)
    rig.unshape()


def names(rig) -> list[str]:
    return sorted(one["dev"] for one in json.loads(rig.weir("status", "--json").stdout))


def left(rig) -> list[str]:
    """Pins, qdiscs and programs at rb."""
    return rig.router.sh(
        "find /sys/fs/bpf/weir -mindepth 1 2>/dev/null || true; tc qdisc show dev rb; tc filter show dev rb ingress;"
        "ip link show dev rb | grep -o xdp || true"
    ).splitlines()


def test_both_directions_by_one_command(rig):
    before = left(rig)
    told = json.loads(rig.weir("attach", "rb", *BOTH, "target=7ms", "--json").stdout)
    assert [(one["dev"], one["signal"]) for one in told] == [("rb", told[0]["signal"]), ("rb", "virtual")]
    assert names(rig) == ["rb", INGRESS]
    ingress, egress = rig.status(INGRESS), rig.status("rb")
    assert (egress["shape_bit_s"], ingress["rate_bit_s"], ingress["hook"]) == (50_000_000, 47_000_000, "xdp")
    assert egress["gains"]["target_us"] == ingress["gains"]["target_us"] == 7000
    text = rig.weir("status", "rb").stdout
    assert "shaped to 50 Mbit/s" in text
    assert "drains at 47 Mbit/s" in text
    assert rig.sender.run("ping", "-c", "2", "-i", "0.05", "-W", "5", "10.9.0.2").returncode == 0
    assert rig.status(INGRESS)["counters"]["seen_packets"] >= 2
    rig.weir("detach", "rb")
    assert left(rig) == before


def test_received_packets_alone(rig):
    before = left(rig)
    rig.weir("attach", "rb", "--ingress", "47mbit")
    assert names(rig) == [INGRESS]
    rig.weir("detach", "rb")
    assert left(rig) == before


def test_framing_and_bands_with_it(rig):
    words = ("--overhead", "docsis", "ahead_share=0.2")
    rig.weir("attach", "rb", "--shape", "50mbit", "--ingress", "47mbit", *words)
    assert rig.status("rb")["framing"] == rig.status(INGRESS)["framing"]
    assert rig.status("rb")["bands"]["ahead_share"] == pytest.approx(0.2, abs=1e-4)
    rig.weir("detach", "rb")
    assert names(rig) == []


def test_options_of_one_direction_alone(rig):
    rig.weir("attach", "rb", *BOTH, "--limit-bytes", 100_000)
    assert (rig.status("rb")["limit_bytes"], rig.status(INGRESS)["limit_bytes"]) == (0, 100_000)
    rig.weir("detach", "rb")
    rig.weir("attach", "rb", "--peer", rig.peer, "--ingress", "47mbit", "--overhead", "docsis")
    assert "framing" not in rig.status("rb")
    assert rig.status(INGRESS)["framing"]["overhead_bytes"] == 18
    rig.weir("detach", "rb")
    assert names(rig) == []


def test_of_a_failure_nothing_is_left(rig):
    before = left(rig)
    rig.weir("attach", INGRESS, "--rate", "10mbit")
    with pytest.raises(Failed):
        rig.weir("attach", "rb", *BOTH)
    assert names(rig) == [INGRESS]
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")
    rig.weir("detach", INGRESS)
    assert left(rig) == before


def test_one_direction_can_be_detached_alone(rig):
    rig.weir("attach", "rb", *BOTH)
    rig.weir("detach", INGRESS)
    assert names(rig) == ["rb"]
    # it is whole without the other one
    assert rig.weir("attach", "rb", "--shape", "50mbit", "--no-bands", check=False).returncode == 1
    rig.weir("detach", "rb")
    rig.weir("attach", "rb", *BOTH)
    rig.weir("detach", "rb/egress")
    assert names(rig) == [INGRESS]
    rig.weir("detach", "rb")
    assert names(rig) == []


def test_ensure_mends_either_direction(rig):
    def ensure(*words: str) -> tuple[str, list[str]]:
        told = json.loads(rig.weir("ensure", "rb", *words, "--json").stdout)
        return told["did"], told["what"]

    assert ensure(*BOTH)[0] == "attached"
    assert ensure(*BOTH) == ("adopted", [])
    assert ensure() == ("adopted", [])
    rig.router.sh("ip link set dev rb xdp off || ip link set dev rb xdpgeneric off")
    assert rig.weir("ensure", "rb", *BOTH, "--look", check=False).returncode == 3
    assert "program" in ensure(*BOTH)[1]
    rig.router.sh("tc qdisc del dev rb root")
    assert "shaper" in ensure(*BOTH)[1]
    assert ensure("--shape", "50mbit", "--no-bands", "--ingress", "20mbit") == ("replaced", ["limits"])
    assert rig.status(INGRESS)["rate_bit_s"] == 20_000_000
    rig.weir("detach", "rb")
    assert names(rig) == []


def test_the_daemon_keeps_both_by_one_table(rig, tmp_path):
    daemon = Daemon(rig, tmp_path)
    try:
        daemon.configure('[rb]\nshape = "50mbit"\nbands = false\ningress = "47mbit"\n')
        daemon.start()
        until(lambda: attached(rig) and attached(rig, INGRESS), "both laws")
        daemon.looked()
        rig.weir("detach", INGRESS)
        until(lambda: daemon.metric("mended_total", dev="rb") >= 1, "the law of received packets again")
        assert names(rig) == ["rb", INGRESS]
        daemon.stop()
        daemon.configure('[rb]\nshape = "50mbit"\nbands = false\n')
        daemon.start()
        until(lambda: not attached(rig, INGRESS), "removal of the one that no table asks for")
        daemon.stop()
        daemon.configure('[rb]\nshape = "50mbit"\nbands = false\ningress = "47mbit"\n["rb/ingress"]\nrate = "1mbit"\n')
        assert rig.weir("daemon", "--config", daemon.file, check=False).returncode == 1
    finally:
        daemon.stop()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("rb", "--ingress", "fast"), "--ingress"),
        (("rb", "--ingress", "1"), "--ingress"),
        ((INGRESS, "--ingress", "1mbit"), "--ingress"),
        (("rb", "--ingress", "1mbit", "--rate", "1mbit"), "--ingress"),
        (("rb", "--ingress", "1mbit", "--class", "1:10"), "--ingress"),
        (("rb", "--ingress", "1mbit", "--leaf-aqm", "off", "--rate", "2mbit", "--hook", "tc"), "--leaf-aqm"),
    ],
)
def test_what_does_not_fit_is_refused(rig, words, option):
    before = left(rig)
    with pytest.raises(Failed) as failure:
        rig.weir("attach", *words)
    assert option in failure.value.stderr
    assert len(failure.value.stderr.splitlines()) == 1
    assert left(rig) == before


@pytest.mark.parametrize("then", ["attach", "detach"])
def test_killed_at_any_system_call_the_next_command_clears(rig, then):
    before = left(rig)
    at = killed = 0
    while killed == at // 41:
        at += 41
        status = rig.router.run(
            sys.executable, STEPPED, at, WEIR, "attach", "rb", *BOTH, "--signal", "poll", check=False
        ).returncode
        killed += status == 0
        if then == "attach":
            whole = attached(rig) and attached(rig, INGRESS) and names(rig) == ["rb", INGRESS]
            assert whole or rig.weir("attach", "rb", *BOTH, "--signal", "poll").returncode == 0
            assert names(rig) == ["rb", INGRESS], at
            assert rig.weir("ensure", "rb", *BOTH, "--look").returncode == 0
        for dev in ("rb", INGRESS):
            if len(left(rig)) != len(before):
                rig.weir("detach", dev, check=False)
        assert left(rig) == before, at
    assert killed > 10
