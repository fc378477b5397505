# SPDX-License-Identifier: Apache-2.0
"""Paths that carry less than 1500 bytes: 5G, tunnels, VPNs. Transfers begin at 1200 bytes of UDP payload, find what the
path carries, and go back when it carries less (RFC 9000 14, RFC 8899)."""

import pytest
import quic_rig
from quic_rig import Holder, client

BYTES = 500_000
PAYLOAD = 1350
"""Default of --max-payload: the bound of the search."""

ADDRESSES = {4: ("10.78.1.2", "10.78.1.1", "10.78.2.1", "10.78.2.2", 24, 28),
             6: ("fd78:1::2", "fd78:1::1", "fd78:2::1", "fd78:2::2", 64, 48)}  # fmt: skip
"""Client, router, router, server, prefix length, and the bytes of headers before a UDP payload."""


class Route:
    """A client, a router and a server, each in a namespace of its own."""

    def __init__(self):
        self.client, self.router, self.server = self.hosts = [Holder() for _ in range(3)]
        router = self.router.process.pid
        self.client.sh(f"ip link add c0 type veth peer name rc netns {router}; ip link set c0 up")
        self.server.sh(f"ip link add s0 type veth peer name rs netns {router}; ip link set s0 up")
        self.router.sh("ip link set rc up; ip link set rs up; echo 1 > /proc/sys/net/ipv4/ip_forward;"
                       "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")  # fmt: skip
        for near, way, back, far, bits, _ in ADDRESSES.values():
            nodad = "nodad" if ":" in near else ""
            for host, address, dev in ((self.client, near, "c0"), (self.router, way, "rc"), (self.router, back, "rs"),
                                       (self.server, far, "s0")):  # fmt: skip
                host.sh(f"ip addr add {address}/{bits} dev {dev} {nodad}")
            self.client.sh(f"ip route add default via {way}")
            self.server.sh(f"ip route add default via {back}")

    def mtu(self, size: int, own: bool = True) -> None:
        """The client's link carries this many bytes; not `own`: links behind the router do, in either direction."""
        self.router.sh(f"ip link set rc mtu {size}")
        if own:
            self.client.sh(f"ip link set c0 mtu {size}")
        else:
            self.router.sh(f"ip link set rs mtu {size}")

    def close(self) -> None:
        for host in self.hosts:
            host.close()


@pytest.fixture
def route():
    if reason := quic_rig.why_no_namespaces():
        pytest.skip(reason)
    made = Route()
    yield made
    made.close()


def far(version: int) -> str:
    address = ADDRESSES[version][3]
    return f"[{address}]:4433" if ":" in address else f"{address}:4433"


def server(kind: str, route: Route, authority, tmp_path, version: int = 4) -> quic_rig.Server:
    if reason := quic_rig.why_not(kind):
        pytest.skip(reason)
    start = {"weir": quic_rig.weir, "quic-go": quic_rig.quicgo, "aioquic": quic_rig.aioquic}[kind]
    return start(tmp_path, authority, far(version), route.server)


def exchanged(peer: quic_rig.Server, route: Route, upload: bool, *more: object, times: int = 1) -> dict:
    """A transfer that is whole; gives the flow of its report."""
    what = [peer.url(), "--upload", "--bytes", BYTES] if upload else [peer.url(f"/bytes/{BYTES}")]
    more = [*more, "--requests", times]
    report = client(*what, *peer.trust, "--json", *more, where=route.client).good()
    (flow,) = report["flows"]
    assert (flow["bytes"], flow["exit"]) == (times * BYTES, "complete")
    return flow


@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
@pytest.mark.parametrize("own", [True, False], ids=["own link", "router's link"])
@pytest.mark.parametrize(("version", "size"), [(4, 1280), (4, 1370), (6, 1280), (6, 1390), (4, 1228)])
def test_a_path_that_carries_less(route, authority, tmp_path, version, size, own, upload):
    route.mtu(size, own)
    peer = server("weir", route, authority, tmp_path, version)
    try:
        flow = exchanged(peer, route, upload)
        assert 1200 <= flow["payload_bytes"] <= size - ADDRESSES[version][5]
    finally:
        peer.close()


@pytest.mark.parametrize("gso", ["auto", "off"])
@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
def test_what_an_ordinary_path_carries_is_found(route, authority, tmp_path, upload, gso):
    peer = server("weir", route, authority, tmp_path)
    try:
        flow = exchanged(peer, route, upload, "--gso", gso)
        assert flow["payload_bytes"] == PAYLOAD
    finally:
        peer.close()


def test_a_larger_bound_is_searched_for(route, authority, tmp_path):
    """--max-payload above what the link carries: the search ends at the link's own size."""
    peer = server("weir", route, authority, tmp_path)
    try:
        flow = exchanged(peer, route, True, "--max-payload", 9000, "--interval-ms", 50, times=20)
        assert PAYLOAD < flow["payload_bytes"] <= 1500 - ADDRESSES[4][5]
    finally:
        peer.close()


@pytest.mark.parametrize("kind", ["quic-go", "aioquic"])
@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
def test_servers_of_others(route, authority, tmp_path, kind, upload):
    # quic-go and aioquic begin at 1280 and 1200 bytes of payload
    route.mtu(1350)
    peer = server(kind, route, authority, tmp_path)
    try:
        exchanged(peer, route, upload)
    finally:
        peer.close()


@pytest.mark.parametrize("own", [True, False], ids=["own link", "router's link"])
@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
def test_a_path_that_shrinks(route, authority, tmp_path, upload, own):
    """Full packets get lost from one moment to the next, and small ones do not."""
    for host, dev in ((route.client, "c0"), (route.router, "rc")):
        host.sh(f"tc qdisc add dev {dev} root tbf rate 20mbit burst 20kb latency 40ms")
    peer = server("weir", route, authority, tmp_path)
    size, stats = 8_000_000, tmp_path / "client"
    what = [peer.url(), "--upload", "--bytes", size] if upload else [peer.url(f"/bytes/{size}")]
    process = quic_rig.start(*what, *peer.trust, "--json", "--stats", stats, "--stats-every-ms", 10, where=route.client)
    try:
        flowing = lambda: stats.exists() and any(line["bytes"] > 500_000 for line in quic_rig.lines(stats))  # noqa: E731
        quic_rig.until(flowing, "bytes")
        route.mtu(1280, own)
        (flow,) = quic_rig.ended(process).good()["flows"]
        assert flow["bytes"] == size
        if upload:
            assert flow["payload_bytes"] <= 1280 - ADDRESSES[4][5]
    finally:
        peer.close()


def test_paths_of_different_sizes(route, authority, tmp_path):
    """Each path of a connection has a size of its own."""
    pid = route.router.process.pid
    route.client.sh(f"ip link add c1 type veth peer name rd netns {pid}; ip link set c1 mtu 1280 up;"
                    "ip addr add 10.78.3.2/24 dev c1;"
                    "for n in 1 3; do ip route add default via 10.78.$n.1 table $n; "
                    "ip rule add from 10.78.$n.2 table $n; done")  # fmt: skip
    route.router.sh("ip link set rd mtu 1280 up; ip addr add 10.78.3.1/24 dev rd")
    route.client.sh("for n in 1 3; do ip route replace default via 10.78.$n.1 table $n; done")
    peer = server("weir", route, authority, tmp_path)
    events = tmp_path / "events"
    try:
        args = ["--path", "10.78.1.2", "--path", "10.78.3.2", "--strategy", "polling", "--requests", 20]
        args += ["--interval-ms", 30, "--events", events]
        report = client(peer.url("/bytes/50000"), *peer.trust, "--json", *args, where=route.client).good()
        assert report["total"]["bytes"] == 20 * 50_000
        tasks = [line for line in quic_rig.lines(events) if line["k"] == "task"]
        assert {line["path"] for line in tasks[10:]} == {"10.78.1.2", "10.78.3.2"}
    finally:
        peer.close()
