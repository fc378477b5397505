# SPDX-License-Identifier: Apache-2.0
"""Nodes, links and queues of `edge`. No packet is sent here.

    publisher:eth0 -- p0:core:p1 ==== p0:hub:pE -- p0:edgeE:pN -- eth0:rK

    device                 holds
    core:p1                the bottleneck: the switch's own output queue has its rate, depth and the law; behind it
                           netem has the delay
    p0 of the next switch  the delay of the way back
    edgeE:pN               the last hop to a receiver: in the switch its rate and the law, behind it netem has delay
                           and the receiver's own losses
    rK:eth0                the last hop's way up: rate, delay, losses
    cacheE:eth0            the cache of an edge switch (hub: 0) and its edge server, which stand beside it: no rate, no
                           delay, no losses

With one edge switch, edge1 stands in place of the hub. netem of a port's device is behind the switch's queue, so that
nothing but that queue ever waits for the bottleneck.

A broadcast segment is a bridge that never learns, in a node `airE`: frames of one station reach all others. All frames
go through one device (ifb) with one rate before the bridge has them: the rate is shared by both directions, as on a
radio channel where one station sends at a time. It is less than a radio: stations send first come, first served,
without contention or collisions, and every station is heard by every other. Losses are each receiver's own, on its way
out of the bridge.

Without switches (`edges = 0`) the publisher is a station of `air0`, and loses what the others lose:

    publisher:eth0 -- up:air0:rK -- eth0:rK

A receiver that moves is behind a bridge of its own, `walkK`, with a way to each edge switch that it visits. Only one of
them is a port of the bridge at a time. Neither the receiver nor a switch sees an interface go down. Some time later the
receiver has an address of the network where it is, as DHCP gives it, and its earlier one no longer.
"""

from __future__ import annotations

from typing import Any

from mininet.topo import Topo

from weirlab.lab.bridges import bridge, join
from weirlab.lab.shaping import netem, shaped
from weirlab.topologies.edge.deploy import PUBLISHER_MAC
from weirlab.topologies.edge.tree import (
    AIR_RATE_DEVICE,
    PUBLISHER,
    PUBLISHER_ADDRESS,
    PUBLISHER_GATEWAY,
    UP,
    Below,
    Receiver,
    Switch,
    Tree,
    air_of,
    cache_of,
    gateway_of,
    server_address,
    server_gateway,
    server_mac,
)


class EdgeNet(Topo):
    """The tree of a spec. `switches` has the parameters of each switch by its name."""

    def build(self, tree: Tree, spec: dict[str, Any], switches: dict[str, dict[str, Any]]) -> None:
        self.tree, self.last, self.bottleneck = tree, spec["last_hop"], spec["bottleneck"]
        if not tree.switches:
            self.all_on_one_segment()
            return
        for switch in tree.switches:
            self.addSwitch(switch.name, **switches[switch.name])
        self.addHost(PUBLISHER, routes=[f"default via {PUBLISHER_GATEWAY}"])
        self.addLink(
            PUBLISHER,
            tree.core.name,
            intfName1="eth0",
            intfName2="p0",
            addr1=PUBLISHER_MAC,
            addr2=tree.core.mac(UP),
            port2=UP,
            params1={
                "ip": f"{PUBLISHER_ADDRESS}/24",
                "neighbours": [f"{PUBLISHER_GATEWAY} lladdr {tree.core.mac(UP)}"],
            },
        )
        for receiver in tree.receivers:
            self.addHost(receiver.name, routes=[f"default via {receiver.gateway}"])
        places = [(switch, port, below) for switch in tree.switches for port, below in switch.below.items()]
        for place in sorted(places, key=lambda place: place[2].visitor):  # those who live there make the node
            self.connect(*place)

    def all_on_one_segment(self) -> None:
        """The publisher and the receivers on one broadcast segment. Their networks lie in it side by side."""
        receivers = self.tree.receivers
        self.addHost(PUBLISHER, routes=[f"{receiver.address}/32 dev eth0" for receiver in receivers])
        for receiver in receivers:
            self.addHost(receiver.name, routes=[f"{PUBLISHER_ADDRESS}/32 dev eth0"])
        self.segment(0, receivers)
        known = [f"{receiver.address} lladdr {receiver.mac}" for receiver in receivers]
        self.addLink(
            PUBLISHER,
            air_of(0),
            intfName1="eth0",
            intfName2="up",
            addr1=PUBLISHER_MAC,
            params1={"ip": f"{PUBLISHER_ADDRESS}/24", "neighbours": known},
            params2={"tc": netem(0, loss_percent=self.last["loss_percent"])},
        )

    def connect(self, switch: Switch, port: int, below: Below) -> None:
        """The link behind one port of a switch."""
        if below.switch is not None:
            delay = netem(self.bottleneck["delay_ms"]) if switch is self.tree.core else []
            self.addLink(
                switch.name,
                below.switch.name,
                intfName1=f"p{port}",
                intfName2="p0",
                addr1=switch.mac(port),
                addr2=below.switch.mac(UP),
                port1=port,
                port2=UP,
                params1={"tc": delay},
                params2={"tc": delay},
            )
        elif below.cache:
            self.beside(switch, port, below.server)
        elif self.tree.broadcast:
            self.air(switch, port, below.receivers)
        elif below.receivers[0].number in self.tree.visits:
            self.walk(switch, port, below)
        else:
            self.last_link(switch.name, f"p{port}", below.receivers[0], port1=port, addr1=switch.mac(port))

    def beside(self, switch: Switch, port: int, server: bool) -> None:
        """The host with a switch's cache, which has an address if there is an edge server too."""
        node, ends = cache_of(switch.edge), {"intfName1": f"p{port}", "intfName2": "eth0", "addr1": switch.mac(port)}
        if not server:
            self.addHost(node)
            self.addLink(switch.name, node, port1=port, **ends)
            return
        gateway = server_gateway(switch.edge)
        self.addHost(node, routes=[f"default via {gateway}"])
        own = {
            "ip": f"{server_address(switch.edge)}/24",
            "neighbours": [f"{gateway} lladdr {switch.mac(port)}"],
        }
        self.addLink(switch.name, node, port1=port, addr2=server_mac(switch.edge), params2=own, **ends)

    def downward(self) -> list[str]:
        """tc's lines for what goes to one receiver: delay, and losses of its own."""
        return netem(self.last["delay_ms"], loss_percent=self.last["loss_percent"])

    def upward(self) -> list[str]:
        """tc's lines for what one receiver sends. On a broadcast segment the rate is the segment's."""
        rate = 0 if self.tree.broadcast else self.last["rate_mbit_s"] or 0
        limit = self.last["queue_limit_packets"] if rate else 0
        return netem(self.last["delay_ms"], rate, self.last["loss_up_percent"], limit)

    def last_link(self, node: str, device: str, receiver: Receiver, **more: Any) -> None:
        if self.tree.switches:
            gateway_mac = self.tree.edges[receiver.edge].mac(self.tree.port_of(receiver.edge, receiver))
            known = f"{receiver.gateway} lladdr {gateway_mac}"
        else:
            known = f"{PUBLISHER_ADDRESS} lladdr {PUBLISHER_MAC}"
        self.addLink(
            node,
            receiver.name,
            intfName1=device,
            intfName2="eth0",
            addr2=receiver.mac,
            params1={"tc": self.downward()},
            params2={
                "ip": f"{receiver.address}/24",
                "tc": self.upward(),
                "neighbours": [known],
            },
            **more,
        )

    def air(self, switch: Switch, port: int, receivers: tuple[Receiver, ...]) -> None:
        """A broadcast segment behind a port."""
        self.segment(switch.edge, receivers)
        self.addLink(
            switch.name, air_of(switch.edge), intfName1=f"p{port}", intfName2="up", addr1=switch.mac(port), port1=port
        )

    def segment(self, edge: int, receivers: tuple[Receiver, ...]) -> None:
        """A broadcast segment with its receivers. It needs beside these a link to its device `up`."""
        node = air_of(edge)
        devices = ["up", *(receiver.name for receiver in receivers)]
        to_rate = [
            line
            for device in devices
            for line in (
                f"qdisc add dev {device} clsact",
                f"filter add dev {device} ingress matchall action mirred egress redirect dev {AIR_RATE_DEVICE}",
            )
        ]
        limit = f"pfifo limit {self.last['queue_limit_packets']}"
        rate = [line.format(dev=AIR_RATE_DEVICE) for line in shaped(self.last["rate_mbit_s"], limit)]
        made = [f"link add {AIR_RATE_DEVICE} type ifb", f"link set dev {AIR_RATE_DEVICE} up"]
        self.addHost(node, ip_lines=[*bridge(), *made, *join(*devices)], tc_lines=[*rate, *to_rate])
        for receiver in receivers:
            self.last_link(node, receiver.name, receiver)

    def walk(self, switch: Switch, port: int, below: Below) -> None:
        """One port of an edge switch to the bridge of a receiver that moves."""
        receiver = below.receivers[0]
        node = walk_of(receiver.number)
        if not below.visitor:
            self.addHost(node, ip_lines=[*bridge(), *join("down", f"e{receiver.edge}")])
            self.last_link(node, "down", receiver)
        self.addLink(
            switch.name, node, intfName1=f"p{port}", intfName2=f"e{switch.edge}", addr1=switch.mac(port), port1=port
        )


def walk_of(receiver: int) -> str:
    """The node with the bridge of a receiver that moves."""
    return f"walk{receiver}"


def address_lines(tree: Tree, receiver: Receiver, from_edge: int, to_edge: int) -> list[str]:
    """ip's lines, in the receiver's node, by which its address and its gateway are those of another edge switch."""
    gateway = gateway_of(to_edge)
    return [
        f"address del {tree.address_at(from_edge, receiver)}/24 dev eth0",
        f"address add {tree.address_at(to_edge, receiver)}/24 dev eth0",
        f"neigh replace {gateway} lladdr {tree.edges[to_edge].mac(tree.port_of(to_edge, receiver))} dev eth0",
        f"route replace default via {gateway} dev eth0",
    ]
