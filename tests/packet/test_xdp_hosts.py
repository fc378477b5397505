# SPDX-License-Identifier: Apache-2.0
"""`--hosts` and `--dscp` on real interfaces: each host's part of bulk, packets that go ahead by their DSCP and their
bound, and settings that `ensure` and the daemon keep (docs/design/flows.md)."""

import json
import select
import socket
import time

import pytest
from packet_rig import take
from scapy.all import IP, UDP, IPv6, Raw
from test_xdp_bands import BULK, ETHER, FRAME_BYTES, FREE_BYTES, PASSING, bands, kinds, udp  # noqa: F401

EF, VOICE_ADMIT, CS5 = 46, 44, 40
TREE = (
    "tc qdisc add dev rb root handle 1: htb default 20; tc class add dev rb parent 1: classid 1:1 htb rate 6mbit;"
    "tc class add dev rb parent 1:1 classid 1:10 htb rate 1mbit ceil 6mbit prio 0;"
    "tc class add dev rb parent 1:1 classid 1:20 htb rate 1mbit ceil 6mbit prio 1"
)
ROUNDS, ROUND_S = 500, 0.004


def frame(host: int, port: int, dscp: int = 0) -> bytes:
    head = ETHER / IP(src="10.9.0.1", dst=f"10.9.1.{host}", tos=dscp << 2) / UDP(sport=port, dport=9)
    return bytes(head / Raw(bytes(FRAME_BYTES - len(head))))


def frame6(port: int, dscp: int) -> bytes:
    return bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2", tc=dscp << 2) / UDP(sport=port, dport=9) / Raw(bytes(1400)))


def test_a_host_with_one_flow_gets_more_than_a_flow_of_a_host_with_eight(rig):
    """Ten flows of like rates, twice the line or more: eight of one host, one each of two others. With the law, as
    shares alone drop only flows above three times theirs (docs/design/flows.md, step 15)."""
    eight, one = [frame(1, 100 + flow) for flow in range(8)], frame(2, 200)
    frames, came = [*eight, one, frame(3, 300)], dict.fromkeys([*eight, one], 0)
    rig.unshape()
    rig.router.sh(TREE)
    out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
    # SNDBUFFORCE: a socket may be charged for its packets until they leave the queue, so that it waits for the line.
    out.setsockopt(socket.SOL_SOCKET, 32, 64 << 20)
    words = ("--bands", "--hosts", "dst", "--peer", rig.peer, "--limit-packets", "5000")
    with rig.attached(*words), out, back:
        for _ in range(ROUNDS):
            for each in frames:
                out.send(each)
            while select.select([back], [], [], 0)[0]:
                data = take(back)
                if data in came:
                    came[data] += 1
            time.sleep(ROUND_S)
        assert rig.status()["bands"]["hosts"] == "dst"
    rig.unshape()
    assert came[one] > 2 * sum(came[each] for each in eight) / 8


@pytest.mark.parametrize("hosts", ["src", "dst", "off"])
def test_flow_records_name_the_side_that_is_counted(rig, hosts):
    rig.unshape()
    with rig.attached("--shape", "1gbit", "--hosts", hosts, "--flow-records"):
        assert json.loads(rig.weir("flows", "rb", "--json").stdout)["hosts"] == hosts
    rig.unshape()


@pytest.mark.parametrize(("dscp", "ahead"), [(EF, True), (VOICE_ADMIT, True), (CS5, False), (0, False)])
def test_packets_of_telephony_go_ahead_up_to_a_quarter_of_bulk(rig, bands, dscp, ahead):  # noqa: F811
    with bands(*PASSING, "ahead_most_bytes=1", "--dscp", "on"):
        kinds(rig, BULK)
        went, stayed = kinds(rig, [frame(1, 100, dscp)] * 200)
        passed_bytes = rig.status()["bulk"]["passed_bytes"]
        assert went > 20 if ahead else went <= 1
        assert stayed
        assert went * FRAME_BYTES <= (passed_bytes + FREE_BYTES) / 4 + 2 * FRAME_BYTES
        assert kinds(rig, [udp(1)] * 20) == (0, 20)


def test_ipv6_has_a_dscp_too_and_none_counts_without_the_option(rig, bands):  # noqa: F811
    frames = [frame6(100, EF)] * 10
    with bands(*PASSING, "ahead_most_bytes=1", "--dscp", "on"):
        kinds(rig, BULK)
        assert kinds(rig, frames) == (10, 0)
    with bands(*PASSING, "ahead_most_bytes=1"):
        kinds(rig, BULK)
        assert kinds(rig, frames)[1] >= 9


def test_ensure_keeps_and_changes_the_options(rig):
    rig.unshape()
    shape = ("rb", "--shape", "95mbit")
    rig.weir("attach", *shape, "--bands", "--hosts", "dual-srchost")
    assert rig.status()["bands"]["hosts"] == "src"

    def ensured(*words: str) -> dict:
        return json.loads(rig.weir("ensure", *shape, *words, "--json").stdout)

    try:
        assert ensured()["did"] == "adopted"
        assert ensured("--bands", "--hosts", "mark/0xff00")["what"] == ["gains"]
        assert (rig.status()["bands"]["hosts"], rig.status()["bands"]["host_mask"]) == ("mark", 0xFF00)
        assert ensured("--bands", "--dscp", "on")["what"] == ["gains"]
        assert rig.status()["bands"]["dscp"] is True
        assert set(ensured("--hosts", "off")["what"]) == {"program", "gains"}
        assert "hosts" not in rig.status()["bands"]
        assert rig.status()["bands"]["dscp"] is True
        assert set(ensured("--bands", "--hosts", "dst")["what"]) == {"program", "gains"}
        assert ensured()["did"] == "adopted"
    finally:
        rig.weir("detach", "rb", check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("--no-bands", "--hosts", "dst"),
        ("--no-bands", "--dscp", "on"),
        ("--bands", "--hosts", "both"),
        ("--bands", "--hosts", "dst/1"),
        ("--bands", "--hosts", "mark/0"),
        ("--bands", "--hosts", "mark/x"),
        ("--bands", "--dscp", "EF"),
        ("--class", "1:10", "--dscp", "on"),
    ],
)
def test_what_is_not_valid_is_refused(rig, words):
    rig.unshape()
    failed = rig.weir("attach", "rb", "--shape", "10mbit", *words, check=False)
    assert failed.returncode in (1, 2)
    assert len(failed.stderr.splitlines()) == 1
    rig.unshape()
