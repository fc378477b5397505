# SPDX-License-Identifier: Apache-2.0
"""Nodes, links and queues of `access`. No packet is sent here.

Access networks, K paths from one client to one server:

             wan1 -- in r1 out -- isp1
    client   wan2 -- in r2 out -- isp2   core   down -- eth0   server
             wanK -- in rK out -- ispK

    device                 holds
    client:wanK, rK:in     the access link's rate and drop-tail queue (netem), each for its own packets
    rK:out, core:ispK      half of the path's delay and its losses on the way up and on the way down (netem)

The client has an address in each access network and a routing table for each of these addresses, so that a packet
leaves by the interface its source belongs to; without a source address it takes the first path that is up. The server
has one address.
"""

from __future__ import annotations

from mininet.topo import Topo

from weirlab.lab.shaping import NETEM_IN_FLIGHT_PACKETS
from weirlab.topologies.access.schedule import State


class Access(Topo):
    """K access networks; `paths` gives their initial state, by the client's interface, in order."""

    SERVER = "10.0.254.2"

    def build(self, paths: dict[str, State]) -> None:
        numbered = list(enumerate(paths.items(), start=1))
        core = self.addHost("core", forwards=True, routes=[f"10.0.{k}.0/24 via 10.255.{k}.1" for k, _ in numbered])
        server = self.addHost("server", routes=["default via 10.0.254.1"])
        client = self.addHost(
            "client",
            rules=[f"from {self.address(k)} table {k}" for k, _ in numbered],
            routes=[
                *(route for k, (name, _) in numbered for route in self.routes(k, name)),
                # Packets bound to a dead path's address go nowhere, rather than by another path.
                *(f"unreachable default table {k} metric 4096" for k, _ in numbered),
            ],
        )
        for k, (name, path) in numbered:
            router = self.addHost(f"r{k}", forwards=True, routes=[f"default via 10.255.{k}.2"])
            rate, (up, down) = access_rate("add", path), access_delays("add", path)
            # Neighbours are told: an address asked for across the delay would cost the first packet a round trip more,
            # and packets on their way to a client that is gone would wait for it at the router.
            client_mac, router_mac, core_mac = (f"02:00:00:02:{end:02x}:{k:02x}" for end in range(3))
            self.addLink(
                client,
                router,
                intfName1=name,
                intfName2="in",
                addr1=client_mac,
                params1={"ip": f"{self.address(k)}/24", "tc": [rate]},
                params2={
                    "ip": f"10.0.{k}.1/24",
                    "tc": [rate],
                    "neighbours": [f"{self.address(k)} lladdr {client_mac}"],
                },
            )
            self.addLink(
                router,
                core,
                intfName1="out",
                intfName2=f"isp{k}",
                addr1=router_mac,
                addr2=core_mac,
                params1={"ip": f"10.255.{k}.1/30", "tc": [up], "neighbours": [f"10.255.{k}.2 lladdr {core_mac}"]},
                params2={"ip": f"10.255.{k}.2/30", "tc": [down], "neighbours": [f"10.255.{k}.1 lladdr {router_mac}"]},
            )
        self.addLink(
            core,
            server,
            intfName1="down",
            intfName2="eth0",
            params1={"ip": "10.0.254.1/24"},
            params2={"ip": f"{self.SERVER}/24"},
        )

    @staticmethod
    def address(k: int) -> str:
        """The client's address on its k-th path, from 1."""
        return f"10.0.{k}.2"

    @staticmethod
    def routes(k: int, name: str) -> list[str]:
        """The client's routes over its k-th path, which the kernel forgets when the interface goes down."""
        return [f"default via 10.0.{k}.1 dev {name} table {k}", f"default via 10.0.{k}.1 dev {name} metric {k}"]


def access_rate(verb: str, path: State) -> str:
    """tc's line (`add` or `change`) for an access link's rate and queue, on `{dev}`."""
    words = f"netem limit {path.queue_limit_packets} rate {path.rate_mbit_s:.10g}mbit"
    return f"qdisc {verb} dev {{dev}} root handle 1: {words}"


def access_delays(verb: str, path: State) -> tuple[str, str]:
    """tc's lines for the way up and the way down, each with half of the delay; a silent path loses all both ways.

    Of a round trip's deviation each way has the part that makes the two together that deviation.
    """
    delay = f"delay {path.rtt_ms / 2:.6f}ms"
    if path.jitter_ms:
        delay += f" {path.jitter_ms / 2**0.5:.6f}ms distribution normal"
    losses = (100, 100) if path.link == "silent" else (path.loss_up_percent, path.loss_percent)
    up, down = (f"netem limit {NETEM_IN_FLIGHT_PACKETS} {delay} loss {loss:g}%" for loss in losses)
    return f"qdisc {verb} dev {{dev}} root handle 1: {up}", f"qdisc {verb} dev {{dev}} root handle 1: {down}"
