# SPDX-License-Identifier: Apache-2.0
"""Frames by encapsulation, each with the number of flows that the eBPF programs see in it (docs/design/flows.md)."""

import struct
from dataclasses import dataclass

from scapy.all import (
    AH,
    ARP,
    ESP,
    GRE,
    ICMP,
    IP,
    TCP,
    UDP,
    Dot1AD,
    Dot1Q,
    Ether,
    ICMPv6EchoRequest,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    Raw,
    fragment,
    fragment6,
)
from scapy.contrib.mpls import MPLS
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

N = 12
"""Packets of a case."""
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
LOAD = Raw(b"weir" * 100)
FOUR, SIX = IP(src="10.9.0.1", dst="10.9.0.2"), IPv6(src="fd00::1", dst="fd00::2")
INNER4, INNER6 = IP(src="10.1.0.1", dst="10.2.0.2"), IPv6(src="fd01::1", dst="fd02::2")


@dataclass(frozen=True)
class Case:
    """many: N packets of N flows, None where the programs see one. one: packets of one flow."""

    many: list[bytes] | None
    one: list[bytes]


def _udp(port: int):
    return UDP(sport=1000 + port, dport=443) / LOAD


def _tcp(port: int):
    return TCP(sport=1000 + port, dport=443) / LOAD


def _case(build, many: bool = True) -> Case:
    """Flows that differ by the argument of `build`; not many: they count as one."""
    packets = [bytes(build(i)) for i in range(N)]
    return Case(packets, [packets[0]] * N) if many else Case(None, packets)


def fragments4(i: int) -> list[bytes]:
    """A datagram in three fragments."""
    whole = IP(src="10.9.0.1", dst="10.9.0.2", id=100 + i) / UDP(sport=1000 + i, dport=9) / Raw(bytes(1200))
    return [bytes(ETHER / part) for part in fragment(whole, 480)]


def fragments6(i: int) -> list[bytes]:
    """The same of IPv6."""
    whole = SIX / IPv6ExtHdrFragment(id=100 + i) / UDP(sport=1000 + i, dport=9) / Raw(bytes(1800))
    return [bytes(ETHER / part) for part in fragment6(whole, 1280)]


def _geneve(i: int):
    header = struct.pack("!BBHHBB", 0, 0, 0x6558, 0, 7, 0)
    return UDP(sport=2000 + i, dport=6081) / Raw(header + bytes(ETHER / INNER4 / _udp(i)))


def _pppoe(session: int = 5):
    return ETHER / PPPoE(sessionid=session) / PPP()


def cases() -> dict[str, Case]:
    return {
        "ports": _case(lambda i: ETHER / FOUR / _udp(i)),
        "ports of TCP and IPv6": _case(lambda i: ETHER / SIX / _tcp(i)),
        "hosts": _case(lambda i: ETHER / IP(src=f"10.9.1.{i + 1}", dst="10.9.0.2") / _udp(0)),
        "VLAN": _case(lambda i: ETHER / Dot1Q(vlan=7) / FOUR / _udp(i)),
        "QinQ": _case(lambda i: ETHER / Dot1AD(vlan=3) / Dot1Q(vlan=7) / SIX / _udp(i)),
        "extension headers": _case(
            lambda i: (
                ETHER
                / SIX
                / IPv6ExtHdrHopByHop()
                / IPv6ExtHdrRouting(addresses=["fd00::9"])
                / IPv6ExtHdrDestOpt()
                / _tcp(i)
            )
        ),
        "PPPoE, IPv4": _case(lambda i: _pppoe() / FOUR / _udp(i)),
        "PPPoE, IPv6": _case(lambda i: _pppoe() / SIX / _tcp(i)),
        "VLAN, PPPoE": _case(lambda i: ETHER / Dot1Q(vlan=7) / PPPoE(sessionid=5) / PPP() / FOUR / _udp(i)),
        "IPIP": _case(lambda i: ETHER / FOUR / INNER4 / _udp(i)),
        "6in4": _case(lambda i: ETHER / FOUR / INNER6 / _tcp(i)),
        "DS-Lite": _case(lambda i: ETHER / SIX / INNER4 / _udp(i)),
        "IPv6 in IPv6": _case(lambda i: ETHER / SIX / INNER6 / _udp(i)),
        "GRE": _case(lambda i: ETHER / FOUR / GRE() / INNER4 / _udp(i)),
        "GRE, key and sequence": _case(
            lambda i: (
                ETHER
                / FOUR
                / GRE(key_present=1, seqnum_present=1, chksum_present=1, key=9, sequence_number=i)
                / INNER6
                / _udp(i)
            )
        ),
        "GRE over IPv6, Ethernet": _case(lambda i: ETHER / SIX / GRE(proto=0x6558) / ETHER / INNER4 / _tcp(i)),
        "VXLAN": _case(
            lambda i: ETHER / FOUR / UDP(sport=2000 + i, dport=4789) / VXLAN(vni=7) / ETHER / INNER4 / _udp(i)
        ),
        "Geneve": _case(lambda i: ETHER / FOUR / _geneve(i)),
        "QUIC with changing ports": _case(lambda i: ETHER / FOUR / UDP(sport=3000 + i, dport=443) / LOAD),
        "associations of ESP": _case(lambda i: ETHER / FOUR / ESP(spi=1 + i, data=bytes(400))),
        "associations of AH": _case(lambda i: ETHER / FOUR / AH(spi=1 + i, icv=bytes(12)) / _udp(0)),
        # one flow
        "ESP": _case(lambda i: ETHER / FOUR / ESP(spi=7, seq=i, data=bytes(400)), many=False),
        "AH": _case(lambda i: ETHER / FOUR / AH(spi=7, seq=i, icv=bytes(12)) / _udp(i), many=False),
        "WireGuard": _case(
            lambda i: ETHER / FOUR / UDP(sport=51820, dport=51820) / Raw(bytes([4, 0, 0, 0, i]) + bytes(400)),
            many=False,
        ),
        "ICMP": _case(lambda i: ETHER / FOUR / ICMP(id=i, seq=i) / LOAD, many=False),
        "ICMPv6": _case(lambda i: ETHER / SIX / ICMPv6EchoRequest(id=i, seq=i) / LOAD, many=False),
        "DSCP": _case(lambda i: ETHER / IP(src="10.9.0.1", dst="10.9.0.2", tos=i << 2, id=i) / _udp(0), many=False),
        "fragments of many datagrams": Case(None, [part for i in range(4) for part in fragments4(i)]),
        "fragments of many datagrams, IPv6": Case(None, [part for i in range(4) for part in fragments6(i)]),
        "fragments in a tunnel": Case(
            None, [bytes(ETHER / FOUR / part.payload) for i in range(4) for part in map(Ether, fragments4(i))]
        ),
        "fragments of a tunnel": _case(
            lambda i: ETHER / IP(src="10.9.0.1", dst="10.9.0.2", proto=4, flags="MF") / INNER4 / _udp(i), many=False
        ),
        "L2TP": _case(
            lambda i: ETHER / FOUR / UDP(sport=1701, dport=1701) / Raw(bytes([0, 2, 0, 7, 0, i])) / LOAD, many=False
        ),
    }


def others() -> dict[str, list[bytes]]:
    """Packets that the law ignores: neither IP nor IP in PPPoE."""
    return {
        "ARP": [bytes(ETHER / ARP(op=2, psrc=f"10.9.0.{i}")) for i in range(N)],
        "unknown type": [bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x9000) / LOAD)] * N,
        "MPLS": [bytes(ETHER / MPLS(label=100 + i, s=1) / FOUR / _udp(i)) for i in range(N)],
        "LCP": [bytes(ETHER / PPPoE(sessionid=5) / PPP(proto=0xC021) / LOAD)] * N,
    }
