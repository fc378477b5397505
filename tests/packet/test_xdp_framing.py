# SPDX-License-Identifier: Apache-2.0
"""`--overhead`, `--mpu`, `--atm`, `--ptm`: bytes that the shaper and the virtual queue count for a packet, by
the kernel's own counters."""

import json
import math
import socket
import struct

import pytest
from packet_rig import LAST, Failed, until

ETHERNET_BYTES = 14
SIZES = (60, 61, 100, 143, 590, 1000, 1514)
LINES = {
    "nothing": ((), lambda ip: ip + ETHERNET_BYTES),
    "overhead": (("--overhead", 22), lambda ip: ip + 22),
    "no link header": (("--overhead", 0), lambda ip: ip),
    "less": (("--overhead", -10), lambda ip: ip - 10),
    "mpu": (("--mpu", 100), lambda ip: max(ip + ETHERNET_BYTES, 100)),
    "docsis": (("--overhead", "docsis"), lambda ip: max(ip + 18, 64)),
    "atm": (("--overhead", 44, "--atm"), lambda ip: 53 * math.ceil((ip + 44) / 48)),
    "atm without overhead": (("--atm",), lambda ip: 53 * math.ceil((ip + ETHERNET_BYTES) / 48)),
    "ptm": (("--overhead", "pppoe-ptm"), lambda ip: ip + 30 + math.ceil((ip + 30) / 64)),
    "all": (("--overhead", 30, "--mpu", 90, "--ptm"), lambda ip: (n := max(ip + 30, 90)) + math.ceil(n / 64)),
}


@pytest.fixture(autouse=True)
def nothing_stays(rig):
    rig.unshape()
    yield
    rig.weir("detach", "rb", check=False)
    rig.unshape()


def frame(size: int) -> bytes:
    return bytes.fromhex("020000000002020000000001") + b"\x88\xb6" + bytes(size - ETHERNET_BYTES)


def sent(rig) -> tuple[int, int]:
    """Bytes and packets that have left the root qdisc of rb."""
    out = json.loads(rig.router.run("tc", "-s", "-j", "qdisc", "show", "dev", "rb").stdout)
    [root] = [one for one in out if one.get("root")]
    return root["bytes"], root["packets"]


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def change_size_table(rig) -> None:
    """Another tool gives the shaper's root 40 bytes of overhead; tc has no change of htb."""
    with rig.router.inside():
        index = socket.if_nametoindex("rb")
        talk = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    base = struct.pack("BBhiIIII", 0, 0, 0, 40, 1, 0, 2047, 0)
    body = struct.pack("BxHiIII", 0, 0, index, 0x7E1D0000, 0xFFFFFFFF, 0)
    body += attribute(1, b"htb\0") + attribute(8, attribute(1, base))  # TCA_KIND, TCA_STAB, TCA_STAB_BASE
    with talk:
        talk.send(struct.pack("IHHII", 16 + len(body), 36, 0x5, 1, 0) + body)  # RTM_NEWQDISC, REQUEST and ACK
        assert struct.unpack_from("i", talk.recv(65536), 16) == (0,)


@pytest.mark.parametrize("line", LINES)
def test_the_shaper_counts_frames(rig, line):
    words, framed = LINES[line]
    rig.weir("attach", "rb", "--shape", "100mbit", "--no-bands", "--fixed-probability", 0, *words)
    for size in SIZES:
        before = sent(rig)
        assert len(rig.through([frame(size)] * 10)) == 10
        until(lambda goal=before[1] + 11: sent(rig)[1] == goal, "all have left")
        expected = 10 * framed(size - ETHERNET_BYTES) + framed(len(LAST) - ETHERNET_BYTES)
        assert sent(rig)[0] - before[0] == expected, size
    assert "bypass" not in rig.status()


@pytest.mark.parametrize("line", LINES)
def test_the_virtual_queue_counts_frames(rig, line):
    """At 8 kbit/s a queue of 12 packets takes seconds to drain."""
    words, framed = LINES[line]
    rig.weir("attach", "rb", "--rate", "8kbit", "--hook", "tc", "--fixed-probability", 0, *words)
    assert len(rig.through([frame(1000)] * 100)) == 100
    expected = 100 * framed(1000 - ETHERNET_BYTES) + framed(len(LAST) - ETHERNET_BYTES)
    assert expected - 50_000 < rig.status()["backlog_bytes"] <= expected
    if words:
        assert rig.status()["framing"]["line"] == (
            "atm" if "--atm" in words else "ptm" if "ptm" in str(words) else "plain"
        )


def test_the_law_measures_the_rate_of_the_line(rig):
    """Backlog and departures in the same bytes: 46 bytes of IP take two cells."""
    rig.weir("attach", "rb", "--shape", "1mbit", "--no-bands", "--overhead", 44, "--atm", "--fixed-probability", 0)
    assert len(rig.through([frame(60)] * 400)) == 400
    assert rig.status()["dq_rate_bit_s"] == pytest.approx(1e6, rel=0.3)


def test_ensure_changes_the_framing_in_place(rig):
    rig.weir("attach", "rb", "--shape", "50mbit", "--no-bands", "--overhead", "docsis")
    assert rig.status()["framing"] == {"line": "plain", "mpu_bytes": 64, "overhead_bytes": 18}

    def ensure(*words: object) -> tuple[str, list[str]]:
        told = json.loads(rig.weir("ensure", "rb", "--shape", "50mbit", "--no-bands", *words, "--json").stdout)
        return told["did"], told["what"]

    assert ensure() == ("adopted", [])
    assert ensure("--overhead", 18, "--mpu", 64) == ("adopted", [])
    change_size_table(rig)
    assert ensure() == ("replaced", ["shaper"])
    assert ensure() == ("adopted", [])
    assert ensure("--overhead", "pppoe-ptm") == ("replaced", ["shaper"])
    assert rig.status()["framing"] == {"line": "ptm", "mpu_bytes": 0, "overhead_bytes": 30}
    # a table of the same numbers for another line
    assert ensure("--overhead", 30, "--mpu", 1) == ("replaced", ["shaper"])
    rig.weir("detach", "rb")
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")


def test_a_framing_that_another_tool_changed_stays(rig):
    rig.weir("attach", "rb", "--shape", "50mbit", "--no-bands", "--overhead", "docsis")
    change_size_table(rig)
    rig.weir("detach", "rb")
    assert "overhead 40" in rig.router.sh("tc -d qdisc show dev rb")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--shape", "1mbit", "--no-bands", "--overhead", "300"), "--overhead"),
        (("--shape", "1mbit", "--no-bands", "--overhead", "-65"), "--overhead"),
        (("--shape", "1mbit", "--no-bands", "--overhead", "1.5"), "--overhead"),
        (("--shape", "1mbit", "--no-bands", "--overhead", "dialup"), "--overhead"),
        (("--shape", "1mbit", "--no-bands", "--mpu", "-1"), "--mpu"),
        (("--shape", "1mbit", "--no-bands", "--mpu", "257"), "--mpu"),
        (("--shape", "1mbit", "--no-bands", "--atm", "--ptm"), "--atm"),
        (("--shape", "1mbit", "--no-bands", "--overhead", "pppoe-ptm", "--atm"), "--atm"),
        (("--overhead", "18"), "--overhead"),
        (("--mpu", "18"), "--mpu"),
        (("--atm",), "--atm"),
        (("--ptm",), "--ptm"),
    ],
)
def test_what_does_not_fit_is_refused(rig, words, option):
    with pytest.raises(Failed) as failure:
        rig.weir("attach", "rb", *words)
    assert option in failure.value.stderr
    assert len(failure.value.stderr.splitlines()) == 1
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")
