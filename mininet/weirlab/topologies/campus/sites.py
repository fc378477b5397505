# SPDX-License-Identifier: Apache-2.0
"""Places of hosts on `campus`: nodes, ports, addresses and the queues that have a rate. Pure.

    origin ---+                        +-- line (Linux) -- tether: phone, desk
    publisher + core ======== edge1 ---+-- cache1
    net ------+ (Linux) backbone |     +-- office, receivers 1, 3, 5, 7
                                 |     +-- walk -- wifi: phone
                                 |     |
                               edge2 --+-- cache2
                                       +-- receivers 2, 4, 6, 8
                                       +-- cell (Linux) -- cell: phone

`core` is a bridge: names and IP pass it alike. edge1 and edge2 are P4 switches with edge.p4, and the gateways of all
hosts but those behind the two routers. The phone's Wi-Fi is a bridge (`walk`) that is at one of the two sites at a
time. Port 0 of a switch leads towards the origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SITES = (1, 2)
UP, SITE2_PORT, CACHE_PORT, ROUTER_PORT, WIFI_PORT, OFFICE_PORT, FIRST_RECEIVER_PORT = 0, 1, 2, 3, 4, 5, 6
MOST_RECEIVERS = 2 * (32 - FIRST_RECEIVER_PORT)
"""Names are forwarded on ports 0 to 31 (docs/design/icn.md)."""
CORE, CONTROLLER, PHONE, WALK = "core", "ctl", "phone", "walk"
ORIGIN, PUBLISHER, NET = "origin", "publisher", "net"
CELL_ROUTER, LINE_ROUTER, HOME, DESK, OFFICE = "cell", "line", "home", "desk", "office"
BACKBONE_DEVICE = "bb"
PATHS = ("cell", "wifi", "tether")
"""The phone's interfaces, its first choice without any other reason first."""
GRPC_PORT = 9559


@dataclass(frozen=True)
class Host:
    """A host with an address in the network of a switch's port or of the core."""

    name: str
    address: str
    mac: str


@dataclass(frozen=True)
class Receiver(Host):
    """The `number`-th receiver, from 1, at a port of its site's switch."""

    number: int
    site: int
    port: int


@dataclass(frozen=True)
class RatedQueue:
    """A queue that has a rate: packets of `node` from `device`, whose other end is `peer_device` at `peer`. `port` is
    the switch's, None on Linux."""

    node: str
    device: str
    peer: str
    peer_device: str
    rate_mbit_s: float
    limit_packets: int
    port: int | None = None


CORE_HOSTS = tuple(
    Host(name, f"10.1.0.{number}", f"02:00:00:05:00:{number:02x}")
    for number, name in enumerate((ORIGIN, PUBLISHER, NET), start=2)
)
ORIGIN_ADDRESS, PUBLISHER_ADDRESS, NET_ADDRESS = (host.address for host in CORE_HOSTS)
CORE_GATEWAY = "10.1.0.1"
OFFICE_HOST = Host(OFFICE, "10.2.1.50", "02:00:00:05:02:01")
# The two routers, each by its device towards its switch; behind them are networks of their own.
CELL_HOST = Host(CELL_ROUTER, "10.2.2.60", "02:00:00:05:02:02")
LINE_HOST = Host(LINE_ROUTER, "10.2.1.60", "02:00:00:05:02:03")
CELL_NETWORK, LINE_NETWORK = "10.4.0", "10.5.0"
CELL_MAC, LINE_MAC, DESK_MAC = "02:00:00:05:03:01", "02:00:00:05:03:02", "02:00:00:05:03:03"
DESK_ADDRESS = f"{LINE_NETWORK}.3"
PHONE_MACS = {"cell": "02:00:00:05:04:01", "wifi": "02:00:00:05:04:02", "tether": "02:00:00:05:04:03"}


def switch_of(site: int) -> str:
    return f"edge{site}"


def cache_of(site: int) -> str:
    return f"cache{site}"


def switch_mac(site: int, port: int) -> str:
    return f"02:00:00:01:{site:02x}:{port:02x}"


def gateway_of(site: int) -> str:
    """A switch's address in its site's network."""
    return f"10.2.{site}.1"


def management_address(site: int, controller: bool = False) -> str:
    return f"192.168.{site}.{2 if controller else 1}"


def phone_address(path: str, site: int) -> str:
    """The phone's address on one of its networks; on Wi-Fi it depends on the site."""
    return {"cell": f"{CELL_NETWORK}.2", "wifi": f"10.2.{site}.100", "tether": f"{LINE_NETWORK}.2"}[path]


def phone_gateway(path: str, site: int) -> tuple[str, str]:
    """The address and the MAC of the phone's next hop on a network."""
    return {
        "cell": (f"{CELL_NETWORK}.1", CELL_MAC),
        "wifi": (gateway_of(site), switch_mac(site, WIFI_PORT)),
        "tether": (f"{LINE_NETWORK}.1", LINE_MAC),
    }[path]


def receivers_of(spec: Mapping[str, Any]) -> tuple[Receiver, ...]:
    """The receivers beside the phone, dealt out to the sites in turn."""
    return tuple(
        Receiver(
            name=f"r{number}",
            address=f"10.2.{site}.{10 + number}",
            mac=f"02:00:00:02:00:{number:02x}",
            number=number,
            site=site,
            port=FIRST_RECEIVER_PORT + (number - 1) // len(SITES),
        )
        for number in range(1, spec["receivers"]["count"] + 1)
        for site in (SITES[(number - 1) % len(SITES)],)
    )


def watched(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """The interfaces whose packets are counted over a run, by node: one of each link."""
    receivers = [receiver.name for receiver in receivers_of(spec)]
    return {
        CORE: [BACKBONE_DEVICE],
        **{host: ["eth0"] for host in (ORIGIN, PUBLISHER, NET, DESK, OFFICE, *map(cache_of, SITES), *receivers)},
        PHONE: list(PATHS),
        WALK: [f"e{site}" for site in SITES],
        switch_of(1): [f"p{SITE2_PORT}"],
        CELL_ROUTER: ["cellup"],
        LINE_ROUTER: ["lineup"],
    }


def rated_queues(spec: Mapping[str, Any]) -> tuple[RatedQueue, ...]:
    """All queues that have a rate, those on Linux first."""
    backbone, cell, tether, wifi, ports = (spec[key] for key in ("backbone", "cell", "tether", "wifi", "receivers"))
    limits = {key: spec[key]["queue_limit_packets"] for key in ("backbone", "cell", "tether", "wifi", "receivers")}
    edge1, edge2 = map(switch_of, SITES)
    found = [
        RatedQueue(CORE, BACKBONE_DEVICE, edge1, "p0", backbone["rate_mbit_s"], limits["backbone"]),
        RatedQueue(CELL_ROUTER, "celldown", PHONE, "cell", cell["rates"][0][1], limits["cell"]),
        RatedQueue(CELL_ROUTER, "cellup", edge2, f"p{ROUTER_PORT}", cell["up_mbit_s"], limits["cell"]),
        RatedQueue(LINE_ROUTER, "linedown", HOME, "up", tether["rate_mbit_s"], limits["tether"]),
        RatedQueue(LINE_ROUTER, "lineup", edge1, f"p{ROUTER_PORT}", tether["up_mbit_s"], limits["tether"]),
        RatedQueue(edge1, "p0", CORE, BACKBONE_DEVICE, backbone["up_mbit_s"], limits["backbone"], UP),
    ]
    for site in SITES:
        device, rate = f"p{WIFI_PORT}", wifi["rate_mbit_s"]
        found.append(RatedQueue(switch_of(site), device, WALK, f"e{site}", rate, limits["wifi"], WIFI_PORT))
    own = [(switch_of(each.site), each.port, each.name) for each in receivers_of(spec)]
    for switch, port, host in [(edge1, OFFICE_PORT, OFFICE), *own]:
        queue = RatedQueue(switch, f"p{port}", host, "eth0", ports["rate_mbit_s"], limits["receivers"], port)
        found.append(queue)
    return tuple(found)
