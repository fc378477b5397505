# SPDX-License-Identifier: Apache-2.0
"""Two roads between a client and a server in namespaces of their own, and the ways in which one of them breaks."""

import contextlib
from collections.abc import Iterator

from packet_rig import Holder

FAR = "10.9.9.1"
"""Address of the server, over either road."""

BREAKS = {
    "the interface goes down": ("near", "ip link set p{n} down"),
    "the carrier is lost": ("far", "ip link set s{n} down"),
    "the address goes": ("near", "ip addr del 10.{n}.0.2/24 dev p{n}"),
    "the interface vanishes": ("near", "ip link del p{n}"),
    "silence": (
        "both",
        # Frames leave for a station that is not there. (A shaper that lets nothing through would keep them, charged to
        # the server's one socket, until that can send nothing to anybody.)
        "for a in $(ip -4 neigh show dev {dev} | cut -d' ' -f1); do "
        "ip neigh replace $a lladdr 02:00:00:00:00:99 nud permanent dev {dev}; done",
    ),
}
"""Breaks of road n: at which side, by which command; {dev} is its interface there."""


@contextlib.contextmanager
def two_roads(rate: str = "20mbit") -> Iterator[Holder]:
    """The client's namespace; `far` of it is the server's."""
    near, far = Holder(), Holder()
    near.far = far
    try:
        pid = far.process.pid
        far.sh(f"ip addr add {FAR}/32 dev lo")
        # A server on the Internet knows nothing of its client's interfaces: when one is removed it still has a route to
        # it. Without any, its system calls fail, and quic-go gives a connection up at the first that does.
        far.sh("ip link add nowhere type veth peer name void; ip link set nowhere arp off up; ip link set void up")
        far.sh("ip route add default dev nowhere metric 999")
        near.sh("for c in all default; do echo 2 > /proc/sys/net/ipv4/conf/$c/rp_filter; done")
        for n in (1, 2):
            near.sh(
                f"ip link add p{n} type veth peer name s{n} netns {pid};"
                f"ip addr add 10.{n}.0.2/24 dev p{n}; ip link set p{n} up"
            )
            far.sh(f"ip addr add 10.{n}.0.1/24 dev s{n}; ip link set s{n} up")
            route(near, n)
            for node, dev in ((near, f"p{n}"), (far, f"s{n}")):
                node.sh(f"tc qdisc add dev {dev} root tbf rate {rate} burst 20kb latency 40ms")
        yield near
    finally:
        near.close()
        far.close()


def route(near: Holder, n: int) -> None:
    """The way to the server by road n: among others, and for what leaves from its address."""
    near.sh(
        f"ip route add default via 10.{n}.0.1 dev p{n} metric {n};"
        f"ip route replace default via 10.{n}.0.1 dev p{n} table {n};"
        f"ip rule del from 10.{n}.0.2 2>/dev/null || true; ip rule add from 10.{n}.0.2 table {n}"
    )


def break_road(near: Holder, how: str, n: int = 1) -> None:
    """Breaks road n."""
    side, command = BREAKS[how]
    for node, dev in ((near, f"p{n}"), (near.far, f"s{n}")):
        if side in ("both", "near" if node is near else "far"):
            node.sh(command.format(dev=dev, n=n))
