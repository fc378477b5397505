# SPDX-License-Identifier: Apache-2.0
"""Nodes, links and queues of `campus`. No packet is sent here. sites.py has the picture.

    device                      holds
    core:bb                     the backbone's way down: htb and a queue
    origin, publisher, net:eth0 the backbone's delay, and core:HOST that of the way back
    edge1:p0                    the backbone's way up
    cell:celldown, cell:cellup  the cellular network's queues; the rate of the way down follows a file
    line:linedown, line:lineup  the fixed line's queues, which the desk shares
    edgeN:p4                    Wi-Fi's queue at each site
    walk:down, phone:wifi       Wi-Fi's delay and losses; the phone's own rate
    phone:cell, phone:tether    the rest of these networks' delay
    edgeN:pK                    the queue of a receiver's or the office's link

The queue of a switch's port is the switch's own where the law is, else one of the kernel behind a port without a rate.
"""

from __future__ import annotations

from typing import Any

from mininet.topo import Topo

from weirlab.lab.bridges import bridge, join
from weirlab.lab.shaping import netem, shaped, shaped_flows
from weirlab.topologies.campus.deploy import LAW, has_bands, linux_queues
from weirlab.topologies.campus.sites import (
    BACKBONE_DEVICE,
    CACHE_PORT,
    CELL_HOST,
    CELL_MAC,
    CELL_NETWORK,
    CELL_ROUTER,
    CONTROLLER,
    CORE,
    CORE_GATEWAY,
    CORE_HOSTS,
    DESK,
    DESK_ADDRESS,
    DESK_MAC,
    HOME,
    LINE_HOST,
    LINE_MAC,
    LINE_NETWORK,
    LINE_ROUTER,
    OFFICE_HOST,
    OFFICE_PORT,
    PATHS,
    PHONE,
    PHONE_MACS,
    ROUTER_PORT,
    SITE2_PORT,
    SITES,
    UP,
    WALK,
    WIFI_PORT,
    Host,
    cache_of,
    gateway_of,
    management_address,
    phone_address,
    phone_gateway,
    receivers_of,
    switch_mac,
    switch_of,
)

METRO_MS = 1.0
"""One way between the two sites."""
FLOOD_LIMIT_PACKETS = 100_000
"""Of a queue whose limit is the law's."""
MANAGEMENT = "mgmt"


class CampusNet(Topo):
    """The network of a spec. `switches` has the parameters of each switch by its name."""

    def build(self, spec: dict[str, Any], switches: dict[str, dict[str, Any]]) -> None:
        self.spec = spec
        self.queues = {(queue.node, queue.device): queue for queue in linux_queues(spec)}
        self.shape = shaped_flows if has_bands(spec) else shaped
        for site in SITES:
            self.addSwitch(switch_of(site), **switches[switch_of(site)])
        self.addHost(CONTROLLER)
        for site in SITES:
            self.addLink(
                switch_of(site),
                CONTROLLER,
                intfName1=MANAGEMENT,
                intfName2=f"m{site}",
                port1=100,  # no P4 port: the switch's own
                params1={"ip": f"{management_address(site)}/30"},
                params2={"ip": f"{management_address(site, controller=True)}/30"},
            )
        self.the_core()
        metro = netem(METRO_MS)
        self.addLink(
            switch_of(1),
            switch_of(2),
            intfName1=f"p{SITE2_PORT}",
            intfName2="p0",
            addr1=switch_mac(1, SITE2_PORT),
            addr2=switch_mac(2, UP),
            port1=SITE2_PORT,
            port2=UP,
            params1={"tc": metro},
            params2={"tc": metro},
        )
        for site in SITES:
            self.addHost(cache_of(site))
            self.at_switch(site, CACHE_PORT, cache_of(site), "eth0")
        self.addHost(
            PHONE,
            rules=[f"from {phone_address(path, SITES[0])} table {k}" for k, path in enumerate(PATHS, start=1)],
            routes=[
                *(route for path in PATHS for route in phone_routes(path, SITES[0])),
                # Packets bound to a dead path's address go nowhere, rather than by another path.
                *(f"unreachable default table {k} metric 4096" for k, _ in enumerate(PATHS, start=1)),
            ],
        )
        self.the_cell()
        self.the_wifi()
        self.the_line()
        self.wired(1, OFFICE_PORT, OFFICE_HOST)
        for receiver in receivers_of(spec):
            self.wired(receiver.site, receiver.port, receiver)

    def queue(self, node: str, device: str) -> list[str]:
        """tc's lines for the kernel's queue at a device: none where the switch has it."""
        queue = self.queues.get((node, device))
        if queue is None:
            return []
        return self.shape(queue.rate_mbit_s, queue_words(self.spec["has"]["aqm"], queue.limit_packets))

    def at_switch(self, site: int, port: int, node: str, device: str, **more: Any) -> None:
        """The link from a port of a switch to a device of a node."""
        name = switch_of(site)
        params1 = {"tc": self.queue(name, f"p{port}")}
        ends = {"intfName1": f"p{port}", "intfName2": device, "addr1": switch_mac(site, port), "port1": port}
        self.addLink(name, node, params1=params1, **ends, **more)

    def the_core(self) -> None:
        """The origin's side of the backbone: a bridge, whose hosts have edge1 as their gateway."""
        names = [host.name for host in CORE_HOSTS]
        members = [f"link set dev {name} master bridge" for name in (BACKBONE_DEVICE, *names)]
        made = ["link add bridge type bridge stp_state 0 forward_delay 0 mcast_snooping 0"]
        self.addHost(CORE, ip_lines=[*made, "link set dev bridge addrgenmode none up", *members])
        delay = netem(self.spec["backbone"]["delay_ms"])
        mac = switch_mac(1, UP)
        for host in CORE_HOSTS:
            self.addHost(host.name, routes=[f"default via {CORE_GATEWAY}"])
            known = [f"{CORE_GATEWAY} lladdr {mac}"]
            self.addLink(
                CORE,
                host.name,
                intfName1=host.name,
                intfName2="eth0",
                addr2=host.mac,
                params1={"tc": delay},
                params2={"ip": f"{host.address}/24", "tc": delay, "neighbours": known},
            )
        self.at_switch(1, UP, CORE, BACKBONE_DEVICE, params2={"tc": self.queue(CORE, BACKBONE_DEVICE)})

    def router(self, host: Host, site: int, device: str, network: str, **more: Any) -> None:
        """A Linux router at a port of a site's switch, with its way up."""
        gateway = gateway_of(site)
        self.addHost(host.name, forwards=True, routes=[f"default via {gateway}"], **more)
        known = [f"{gateway} lladdr {switch_mac(site, ROUTER_PORT)}"]
        own = {"ip": f"{host.address}/24", "neighbours": known, "tc": self.queue(host.name, device)}
        self.at_switch(site, ROUTER_PORT, host.name, device, addr2=host.mac, params2=own)

    def the_cell(self) -> None:
        self.router(CELL_HOST, 2, "cellup", CELL_NETWORK)
        address = phone_address("cell", SITES[0])
        self.addLink(
            CELL_ROUTER,
            PHONE,
            intfName1="celldown",
            intfName2="cell",
            addr1=CELL_MAC,
            addr2=PHONE_MACS["cell"],
            params1={
                "ip": f"{CELL_NETWORK}.1/24",
                "tc": self.queue(CELL_ROUTER, "celldown"),
                "neighbours": [f"{address} lladdr {PHONE_MACS['cell']}"],
            },
            params2={
                "ip": f"{address}/24",
                "tc": [*netem(self.spec["cell"]["delay_ms"]), *self.queue(PHONE, "cell")],
                "neighbours": [f"{CELL_NETWORK}.1 lladdr {CELL_MAC}"],
            },
        )

    def the_line(self) -> None:
        """The fixed line: a router, and behind it a bridge with the desk and the phone's tether."""
        self.router(LINE_HOST, 1, "lineup", LINE_NETWORK)
        self.addHost(HOME, ip_lines=[*bridge(), *join("up", "tether", "desk")])
        address = phone_address("tether", SITES[0])
        known = [f"{address} lladdr {PHONE_MACS['tether']}", f"{DESK_ADDRESS} lladdr {DESK_MAC}"]
        self.addLink(
            LINE_ROUTER,
            HOME,
            intfName1="linedown",
            intfName2="up",
            addr1=LINE_MAC,
            params1={"ip": f"{LINE_NETWORK}.1/24", "tc": self.queue(LINE_ROUTER, "linedown"), "neighbours": known},
            params2={"tc": self.queue(HOME, "up")},
        )
        gateway = [f"{LINE_NETWORK}.1 lladdr {LINE_MAC}"]
        self.addHost(DESK, routes=[f"default via {LINE_NETWORK}.1"])
        delay = netem(self.spec["tether"]["delay_ms"])
        for node, device, there, mac in (
            (DESK, "eth0", DESK_ADDRESS, DESK_MAC),
            (PHONE, "tether", address, PHONE_MACS["tether"]),
        ):
            self.addLink(
                HOME,
                node,
                intfName1="desk" if node == DESK else "tether",
                intfName2=device,
                addr2=mac,
                params2={"ip": f"{there}/24", "tc": delay, "neighbours": gateway},
            )

    def the_wifi(self) -> None:
        """The phone's Wi-Fi: a bridge with a way to each site, of which one is its port at a time."""
        self.addHost(WALK, ip_lines=[*bridge(), *join("down", f"e{SITES[0]}")])
        gateway, mac = phone_gateway("wifi", SITES[0])
        wifi = self.spec["wifi"]
        self.addLink(
            WALK,
            PHONE,
            intfName1="down",
            intfName2="wifi",
            addr2=PHONE_MACS["wifi"],
            params1={"tc": wifi_down(wifi)},
            params2={
                "ip": f"{phone_address('wifi', SITES[0])}/24",
                "tc": netem(wifi["delay_ms"], wifi["up_mbit_s"], wifi["loss_up_percent"], wifi["queue_limit_packets"]),
                "neighbours": [f"{gateway} lladdr {mac}"],
            },
        )
        for site in SITES:
            self.at_switch(site, WIFI_PORT, WALK, f"e{site}")

    def wired(self, site: int, port: int, host: Host) -> None:
        """A host at a port of a switch."""
        gateway = gateway_of(site)
        self.addHost(host.name, routes=[f"default via {gateway}"])
        own = {
            "ip": f"{host.address}/24",
            "tc": netem(self.spec["receivers"]["delay_ms"]),
            "neighbours": [f"{gateway} lladdr {switch_mac(site, port)}"],
        }
        self.at_switch(site, port, host.name, "eth0", addr2=host.mac, params2=own)


def queue_words(aqm: str, limit_packets: int) -> str:
    """tc's words for a queue, with the kernel's own settings. The law's limit is enforced by its program."""
    return f"pfifo limit {FLOOD_LIMIT_PACKETS}" if aqm == LAW else f"{aqm} limit {limit_packets}"


def wifi_down(wifi: dict[str, Any], verb: str = "add", loss_percent: float | None = None) -> list[str]:
    """tc's lines for Wi-Fi's effect on the phone's packets; in a fade it loses more."""
    loss = wifi["loss_percent"] if loss_percent is None else loss_percent
    return netem(wifi["delay_ms"], loss_percent=loss, verb=verb)


def phone_routes(path: str, site: int) -> list[str]:
    """The phone's routes over one of its networks; packets without a source address take the first that is up."""
    k, (gateway, _) = PATHS.index(path) + 1, phone_gateway(path, site)
    return [f"default via {gateway} dev {path} table {k}", f"default via {gateway} dev {path} metric {k}"]


def move_phone_lines(from_site: int, to_site: int) -> list[str]:
    """ip's lines, in the phone, by which its address and its gateway on Wi-Fi are those of another site."""
    gateway, mac = phone_gateway("wifi", to_site)
    before, after = (phone_address("wifi", site) for site in (from_site, to_site))
    table = PATHS.index("wifi") + 1
    return [
        f"rule del from {before} table {table}",
        f"address del {before}/24 dev wifi",
        f"address add {after}/24 dev wifi",
        f"neigh replace {gateway} lladdr {mac} dev wifi",
        f"rule add from {after} table {table}",
        *(f"route replace {route}" for route in phone_routes("wifi", to_site)),
    ]
