# SPDX-License-Identifier: Apache-2.0
"""Links without a link header: plain IP and tunnels. The law finds the IP header there, marks and drops.

A kernel need not have the tunnels' drivers: a tun device has whatever hardware type it is given."""

import fcntl
import os
import struct

import pytest
from class_rig import ECT0, HIT
from packet_rig import until

TUNSETIFF, TUNSETLINK, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x400454CD, 0x0001, 0x1000
TYPES = {
    "none": 65534,
    "ppp": 512,
    "rawip": 519,
    "tunnel": 768,
    "tunnel6": 769,
    "sit": 776,
    "ipgre": 778,
    "ip6gre": 823,
}
"""ARPHRD_* of linux/if_arp.h."""
N = 20
SENDER = """
import socket, sys
kind = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(kind, socket.SOCK_DGRAM)
if kind == socket.AF_INET6:
    s.setsockopt(socket.IPPROTO_IPV6, 67, int(sys.argv[2]))  # IPV6_TCLASS
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    s.sendto(bytes(200), (sys.argv[1], 9))
"""


@pytest.fixture
def link(rig, request):
    """A tun device of a hardware type in the router's namespace, and its other end: what it sends."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("no /dev/net/tun here")
    with rig.router.inside():
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH14x", b"tun9", IFF_TUN | IFF_NO_PI))
        fcntl.ioctl(tun, TUNSETLINK, TYPES[request.param])
    rig.router.sh(
        "echo 0 > /proc/sys/net/ipv6/conf/tun9/disable_ipv6; ip link set tun9 up;"
        "ip addr add 10.8.0.1/24 dev tun9; ip -6 addr add fd08::1/64 dev tun9 nodad"
    )
    yield tun
    rig.weir("detach", "tun9", check=False)
    os.close(tun)


def sent(tun: int) -> list[bytes]:
    packets = []
    while True:
        try:
            packets.append(os.read(tun, 2048))
        except BlockingIOError:
            return packets


@pytest.mark.parametrize("link", TYPES, indirect=True)
def test_packets_are_marked(rig, link):
    rig.weir("attach", "tun9", "--shape", "1gbit", "--no-bands", *HIT)
    sent(link)
    before = rig.status("tun9")["counters"]["marked_packets"]
    for to in ("10.8.0.2", "fd08::2"):
        rig.router.run("python3", "-c", SENDER, to, ECT0, N)
    counters = rig.status("tun9")["counters"]
    assert counters["marked_packets"] - before == 2 * N
    packets = sent(link)
    v4 = [p for p in packets if p[0] >> 4 == 4 and len(p) == 228]
    v6 = [p for p in packets if p[0] >> 4 == 6 and len(p) == 248]
    assert [p[1] & 3 for p in v4] == [3] * N
    assert [p[1] >> 4 & 3 for p in v6] == [3] * N


def received_packet(dscp: int, length: int = 200) -> bytes:
    """UDP to an address of the link, as its other end sends it."""
    udp = struct.pack("!HHHH", 1, 9, 8 + length, 0) + bytes(length)
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, dscp, 20 + len(udp), 1, 0, 64, 17, 0, bytes([10, 8, 0, 2]), bytes([10, 8, 0, 1])
    )
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + head[12:] + udp


@pytest.mark.parametrize("leaving", [(), ("--hook", "clsact")])
@pytest.mark.parametrize("link", ["none", "ppp"], indirect=True)
def test_received_packets_have_a_law_without_xdp(rig, link, leaving):
    """Both directions by one command, and a framing that counts IP packets."""
    before = rig.router.sh("tc qdisc show dev tun9; tc filter show dev tun9 ingress")
    rig.weir(
        "attach",
        "tun9",
        "--shape",
        "1gbit",
        "--no-bands",
        "--ingress",
        "8kbit",
        "--overhead",
        30,
        "--ptm",
        *leaving,
        *HIT,
    )
    assert rig.status("tun9/ingress")["hook"] == "tc-ingress"
    for _ in range(N):
        os.write(link, received_packet(ECT0))
    until(lambda: rig.status("tun9/ingress")["counters"]["seen_packets"] == N, "all have arrived")
    status = rig.status("tun9/ingress")
    assert status["counters"]["marked_packets"] == N
    framed = 228 + 30 + 5
    assert N * framed - 2000 < status["backlog_bytes"] <= N * framed
    assert rig.weir("ensure", "tun9", "--shape", "1gbit", "--no-bands", "--ingress", "8kbit", "--look").returncode == 0
    rig.router.sh("tc filter del dev tun9 ingress")
    assert rig.weir("ensure", "tun9", "--shape", "1gbit", "--no-bands", "--ingress", "8kbit").returncode == 0
    assert rig.status("tun9/ingress")["gone"] is False
    rig.weir("detach", "tun9")
    assert rig.router.sh("tc qdisc show dev tun9; tc filter show dev tun9 ingress") == before
    assert rig.weir("status").stdout == "nothing is attached\n"


@pytest.mark.parametrize("link", ["ppp"], indirect=True)
def test_a_law_of_received_packets_without_pins_is_found(rig, link):
    before = rig.router.sh("tc qdisc show dev tun9; tc filter show dev tun9 ingress")
    rig.weir("attach", "tun9/ingress", "--rate", "8kbit")
    rig.router.sh("rm -r /sys/fs/bpf/weir")
    assert rig.weir("ensure", "tun9/ingress", "--rate", "8kbit").returncode == 0
    assert rig.status("tun9/ingress")["gone"] is False
    rig.router.sh("rm -r /sys/fs/bpf/weir")
    rig.weir("detach", "tun9/ingress")
    assert rig.router.sh("tc qdisc show dev tun9; tc filter show dev tun9 ingress") == before
