# SPDX-License-Identifier: Apache-2.0
"""Nodes, links and queues of the dumbbell. No packet is sent here.

The dumbbell (Cao et al. Fig. 5, Table II), data flowing from left to right:

    s1 --+
    s2 --+-- r1 ---- r2 ---- sink
    sN --+

    hop         device     carries
    access      sI:up      rate and delay of the access link, drop-tail; here and on the way back (r1:inI) also half of
                           a sender's additional round-trip time
    bottleneck  r1:bn      htb at the bottleneck rate and the queue under test; nothing else
    egress      r2:out     the bottleneck's propagation delay and random loss (netem), which must not
                           share an interface with the queue under test
    reverse     r2:bn      the way back: the bottleneck's rate and delay

Where the way back is not the same ([link.return]), it is made as the way of the data is, and `reverse` becomes

    return-delay  sink:eth0  the bottleneck's propagation delay (netem)
    return        r2:bn      htb at the rate of the way back and its queue

With a line behind the queue under test ([link.line]), r1:bn is its shaper, and `egress` becomes

    line        r2:out     htb at the line's rate and a fifo; no delay

With a switch as the bottleneck, a node `sw` stands between the routers,

    r1 -- p1 sw p2 -- r2

nothing holds packets at r1:bn or at the switch's devices, and the queue under test is the switch's own output queue
of port 2; the hop `bottleneck`, from r1:bn to r2:bn, then times packets through the switch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mininet.topo import Topo

from weirlab.lab.shaping import netem, says_ect1, shaped, shaped_bands, shaped_flows, shaped_rate
from weirlab.topologies.dumbbell.hops import LINE_QUEUE, QUEUE_UNDER_TEST, RETURN_QUEUE
from weirlab.topologies.dumbbell.queues.tc import FLOOD_FIFO

SMALL_PACKET_BYTES = 300
MOST_QUEUED_PACKETS = 1_000_000_000  # tc counts in 32 bits


@dataclass(frozen=True)
class Hop:
    """A stretch between two devices over which packets are timed. `propagation_us` is the time of a full packet on it
    in empty queues; one packet in `one_in` is timed."""

    name: str
    device: str
    node: str
    peer_device: str
    peer_node: str
    propagation_us: int
    one_in: int = 1


def changed_bottleneck(before: Link, after: Link, back: WayBack | None = None) -> list[tuple[str, str]]:
    """Nodes and tc's lines that take the dumbbell's bottleneck (of htb, not a switch) from one state to another.

    Both ways have its rate and its delay, but for a way back with a rate of its own; loss and the queue under test are
    on the data's way.
    """
    rate = before.rate_mbit_s != after.rate_mbit_s
    delay = before.delay_ms != after.delay_ms
    lines = []
    if rate:
        lines.append(("r1", shaped_rate("change", after.rate_mbit_s).format(dev="bn")))
    if delay or before.loss_percent != after.loss_percent:
        text = netem(after.delay_ms, loss_percent=after.loss_percent, verb="change")[0]
        lines.append(("r2", text.format(dev="out")))
    if back is not None:
        if delay:
            lines.append(("sink", netem(after.delay_ms, verb="change")[0].format(dev="eth0")))
    elif rate or delay:
        lines.append(("r2", netem(after.delay_ms, after.rate_mbit_s, verb="change")[0].format(dev="bn")))
    return lines


@dataclass(frozen=True)
class Link:
    """One link of a scenario file, in the file's units."""

    rate_mbit_s: float
    delay_ms: float
    loss_percent: float
    queue_limit_packets: int


@dataclass(frozen=True)
class WayBack:
    """The bottleneck's way back where it has a rate and a queue (a tc text) of its own; `bands` as in Dumbbell."""

    rate_mbit_s: float
    queue: str
    bands: str = ""


@dataclass(frozen=True)
class LineLink:
    """The line behind the queue under test; the rate is its first."""

    rate_mbit_s: float
    queue_limit_packets: int


def shape(rate_mbit_s: float, queue: str, bands: str) -> list[str]:
    """tc's lines for a rate and its queue, or its two classes: of coupled bands, or of bands of flows."""
    if bands == "flows":
        return shaped_flows(rate_mbit_s, queue, FLOOD_FIFO)
    return (shaped_bands if bands else shaped)(rate_mbit_s, queue)


class Dumbbell(Topo):
    """N senders, two routers, one sink; see the module's page. The queue under test is `queue`, a tc text, or that of
    a switch made with the parameters `switch`."""

    # The switch routes; these are the hosts that it and the routers beside it see.
    R1_MAC, SW_P1_MAC, SW_P2_MAC, R2_MAC = (f"02:00:00:01:00:{number:02x}" for number in range(1, 5))

    def build(
        self,
        senders: int,
        access: Link,
        bottleneck: Link,
        queue: str = "",
        bands: str = "",
        switch: dict[str, Any] | None = None,
        extra_delays_ms: Sequence[float] = (),
        way_back: WayBack | None = None,
        ect1_port: int = 0,
        line: LineLink | None = None,
        hosts: int = 1,
    ) -> None:
        """`extra_delays_ms` is the delay of each sender's access link over `access`, each way; none if left out.
        Packets to the sink's `ect1_port` carry ECT(1) where their sender set ECT(0). With `bands` two classes of htb
        have `queue` each: "coupled" or "flows" (there the first has a fifo). The sink has `hosts` addresses."""
        r1 = self.addHost("r1", forwards=True, routes=["10.0.254.0/24 via 10.0.255.2"])
        r2 = self.addHost("r2", forwards=True, routes=["default via 10.0.255.1"])
        more = [f"addr add 10.0.254.{1 + host}/24 dev eth0" for host in range(2, hosts + 1)]
        sink = self.addHost("sink", routes=["default via 10.0.254.1"], ip_lines=more)
        for i in range(1, senders + 1):
            far = longer(access, extra_delays_ms[i - 1] if extra_delays_ms else 0)
            up = netem(far.delay_ms, far.rate_mbit_s, far.loss_percent, far.queue_limit_packets)
            up += says_ect1(ect1_port) if ect1_port else []
            down = netem(far.delay_ms, far.rate_mbit_s, 0, far.queue_limit_packets)  # loss is on the data's way
            sender = self.addHost(f"s{i}", routes=[f"default via 10.{i // 200 + 1}.{i % 200}.1"])
            self.addLink(
                sender,
                r1,
                intfName1="up",
                intfName2=f"in{i}",
                params1={"ip": f"{self.sender_address(i)}/24", "tc": up},
                params2={"ip": f"10.{i // 200 + 1}.{i % 200}.1/24", "tc": down},
            )
        back = netem(bottleneck.delay_ms, bottleneck.rate_mbit_s)
        sink_end: dict[str, Any] = {"ip": "10.0.254.2/24"}
        if way_back is not None:
            back = shape(way_back.rate_mbit_s, way_back.queue, way_back.bands)
            sink_end["tc"] = netem(bottleneck.delay_ms)
        if switch is None:
            self.addLink(
                r1,
                r2,
                intfName1="bn",
                intfName2="bn",
                params1={
                    "ip": "10.0.255.1/24",
                    "tc": shape(bottleneck.rate_mbit_s, queue, bands),
                },
                params2={"ip": "10.0.255.2/24", "tc": back},
            )
        else:
            sw = self.addSwitch("sw", **switch)
            self.addLink(
                r1,
                sw,
                intfName1="bn",
                intfName2="p1",
                addr1=self.R1_MAC,
                addr2=self.SW_P1_MAC,
                params1={"ip": "10.0.255.1/24", "neighbours": [f"10.0.255.2 lladdr {self.SW_P1_MAC}"]},
                port2=1,
            )
            self.addLink(
                sw,
                r2,
                intfName1="p2",
                intfName2="bn",
                addr1=self.SW_P2_MAC,
                addr2=self.R2_MAC,
                port1=2,
                params2={"ip": "10.0.255.2/24", "neighbours": [f"10.0.255.1 lladdr {self.SW_P2_MAC}"], "tc": back},
            )
        self.addLink(
            r2,
            sink,
            intfName1="out",
            intfName2="eth0",
            params1={
                "ip": "10.0.254.1/24",
                "tc": netem(bottleneck.delay_ms, loss_percent=bottleneck.loss_percent)
                if line is None
                else shaped(line.rate_mbit_s, f"pfifo limit {line.queue_limit_packets}"),
            },
            params2=sink_end,
        )

    @staticmethod
    def sender_address(i: int) -> str:
        """Address of the i-th sender, from 1."""
        return f"10.{i // 200 + 1}.{i % 200}.2"

    @staticmethod
    def hops(
        senders: int,
        access: Link,
        bottleneck: Link,
        packet_bytes: int,
        extra_delays_ms: Sequence[float] = (),
        one_in: int = 1,
        way_back: bool = False,
        line: bool = False,
    ) -> list[Hop]:
        """Every place on the way of the data and back where a packet can wait; the queue under test is `bottleneck`.

        `packet_bytes` is a full packet's size on the wire; acknowledgements are counted as nothing. Access links of
        different lengths are hops of different names (`access`, `access-20ms` for 20 ms more each way). All but the
        queue under test, and that of a `way_back` of its own, time one packet in `one_in`.
        """
        extra = extra_delays_ms or [0.0] * senders
        own_us = access.delay_ms * 1000 + packet_bytes * 8 / access.rate_mbit_s
        bottleneck_us = round(bottleneck.delay_ms * 1000)
        return [
            *(
                Hop(access_hop(ms), "up", f"s{i}", f"in{i}", "r1", round(own_us + ms * 1000), one_in)
                for i, ms in enumerate(extra, start=1)
            ),
            Hop(QUEUE_UNDER_TEST, "bn", "r1", "bn", "r2", 0),
            Hop(LINE_QUEUE, "out", "r2", "eth0", "sink", 0)
            if line
            else Hop("egress", "out", "r2", "eth0", "sink", bottleneck_us, one_in),
            *(
                [
                    Hop("return-delay", "eth0", "sink", "out", "r2", bottleneck_us, one_in),
                    Hop(RETURN_QUEUE, "bn", "r2", "bn", "r1", 0),
                ]
                if way_back
                else [Hop("reverse", "bn", "r2", "bn", "r1", bottleneck_us, one_in)]
            ),
        ]


def access_hop(extra_delay_ms: float) -> str:
    return f"access-{extra_delay_ms:g}ms" if extra_delay_ms else "access"


def longer(access: Link, extra_delay_ms: float) -> Link:
    """An access link with more delay. netem counts packets in flight against its limit: there is more room in it by as
    many small packets as the link can have on that stretch."""
    if not extra_delay_ms:
        return access
    under_way = math.ceil(access.rate_mbit_s * extra_delay_ms * 1000 / 8 / SMALL_PACKET_BYTES)
    return replace(
        access,
        delay_ms=access.delay_ms + extra_delay_ms,
        queue_limit_packets=min(access.queue_limit_packets + under_way, MOST_QUEUED_PACKETS),
    )
