# SPDX-License-Identifier: Apache-2.0
"""Packets for the P4 switch, and what becomes of them; both built by scapy, so that its checksums judge ours."""

from p4_rig import host_mac, mac_text, port_mac
from scapy.all import UDP, Dot1Q, Ether, IPv6, Packet, Raw
from scapy.layers.inet import IP

LOAD = b"weir" * 20
NOT_ECT, ECT1, ECT0, CE = range(4)


def address4(port: int) -> str:
    return f"10.0.{port}.1"


def address6(port: int) -> str:
    return f"2001:db8:{port}::1"


def ether(source: int = 1, **fields) -> Ether:
    """A frame from a station to the switch's port."""
    return Ether(src=mac_text(host_mac(source)), dst=mac_text(port_mac(source)), **fields)


def ip4(to: int | str = 2, source: int = 1, load: bytes = LOAD, **fields) -> Packet:
    """From a station to another, or to an address."""
    dst = address4(to) if isinstance(to, int) else to
    return ether(source) / IP(src=address4(source), dst=dst, **fields) / UDP(sport=1000, dport=2000) / Raw(load)


def ip6(to: int | str = 2, source: int = 1, load: bytes = LOAD, **fields) -> Packet:
    dst = address6(to) if isinstance(to, int) else to
    return ether(source) / IPv6(src=address6(source), dst=dst, **fields) / UDP(sport=1000, dport=2000) / Raw(load)


def tagged(packet: Packet, vid: int, prio: int = 0, dei: int = 0) -> Packet:
    """The same with a tag."""
    return Ether(src=packet.src, dst=packet.dst) / Dot1Q(vlan=vid, prio=prio, dei=dei) / packet.payload


def routed(packet: Packet, to: int, **fields) -> bytes:
    """The frame as the station of a port gets it: new addresses, one hop less, checksum anew. `fields` of the IP header
    are changed too."""
    packet = packet.copy()
    packet[Ether].dst, packet[Ether].src = mac_text(host_mac(to)), mac_text(port_mac(to))
    if IP in packet:
        packet[IP].ttl -= 1
        packet[IP].chksum = None
        header = packet[IP]
    else:
        packet[IPv6].hlim -= 1
        header = packet[IPv6]
    for name, value in fields.items():
        setattr(header, name, value)
    return bytes(packet)
