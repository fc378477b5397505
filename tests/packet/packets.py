# SPDX-License-Identifier: Apache-2.0
"""Packets by name, each with what the AQM may do to it (xdp/README.md, "Verdicts by packet type")."""

from dataclasses import dataclass

from scapy.all import ARP, GRE, IP, TCP, UDP, Dot1AD, Dot1Q, Ether, IPOption_Router_Alert, IPv6, Raw
from scapy.contrib.mpls import MPLS
from scapy.layers.ppp import PPP, PPPoE, PPPoED
from scapy.layers.vxlan import VXLAN

from weir.names import packet as names

_ETHER = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
_IP4 = {"src": "10.9.0.1", "dst": "10.9.0.2", "id": 4711}
_IP6 = {"src": "fd00::1", "dst": "fd00::2"}
_LOAD = Raw(b"weir" * 50)
NOT_ECT, ECT1, ECT0, CE = range(4)


@dataclass(frozen=True)
class Packet:
    """frame: the bytes. under_law: whether the law acts on it (IP, or by name). ecn: its codepoint, None if it can't be
    marked."""

    frame: bytes
    under_law: bool
    ecn: int | None
    marked: bytes | None = None
    """The frame with CE set, built by scapy and not by us; None if it can't be marked."""
    test_run: bool = True
    """Whether BPF_PROG_TEST_RUN takes it for an skb; the kernel refuses IP packets shorter than their header there."""


def _ether(**kwargs) -> Ether:
    return Ether(**_ETHER, **kwargs)


def _with_ecn(build, ecn: int) -> Packet:
    return Packet(bytes(build(ecn)), True, ecn, bytes(build(CE)) if ecn else None)


def _udp4(ecn: int, dscp: int = 0, **kwargs):
    return IP(**_IP4, tos=dscp << 2 | ecn, **kwargs) / UDP(sport=1000, dport=2000) / _LOAD


def _udp6(ecn: int, dscp: int = 0):
    return IPv6(**_IP6, tc=dscp << 2 | ecn, fl=0xABCDE) / UDP(sport=1000, dport=2000) / _LOAD


def _builders() -> dict:
    return {
        "ipv4": lambda ecn: _ether() / _udp4(ecn),
        "ipv4_dscp": lambda ecn: _ether() / _udp4(ecn, dscp=46),
        "ipv4_options": lambda ecn: _ether() / _udp4(ecn, options=[IPOption_Router_Alert()]),
        "ipv4_fragment": lambda ecn: _ether() / IP(**_IP4, tos=ecn, frag=100, proto=17) / _LOAD,
        "ipv4_tcp": lambda ecn: _ether() / IP(**_IP4, tos=ecn) / TCP(sport=1, dport=2, flags="SEC") / _LOAD,
        "ipv4_minimal": lambda ecn: _ether() / IP(**_IP4, tos=ecn, proto=253),
        "ipv4_full": lambda ecn: _ether() / IP(**_IP4, tos=ecn) / UDP(sport=1, dport=2) / Raw(bytes(1472)),
        "ipv6": lambda ecn: _ether() / _udp6(ecn),
        "ipv6_dscp": lambda ecn: _ether() / _udp6(ecn, dscp=46),
        "ipv6_full": lambda ecn: _ether() / IPv6(**_IP6, tc=ecn) / UDP(sport=1, dport=2) / Raw(bytes(1452)),
        "vlan_ipv4": lambda ecn: _ether() / Dot1Q(vlan=7, prio=5) / _udp4(ecn),
        "vlan_ipv6": lambda ecn: _ether() / Dot1Q(vlan=7) / _udp6(ecn),
        "vlan_full": lambda ecn: (
            _ether() / Dot1Q(vlan=7) / IP(**_IP4, tos=ecn) / UDP(sport=1, dport=2) / Raw(bytes(1472))
        ),
        "qinq_ipv4": lambda ecn: _ether() / Dot1AD(vlan=3) / Dot1Q(vlan=7) / _udp4(ecn),
        "pppoe_ipv4": lambda ecn: _ether() / PPPoE(sessionid=5) / PPP() / _udp4(ecn),
        "pppoe_ipv6": lambda ecn: _ether() / PPPoE(sessionid=5) / PPP() / _udp6(ecn),
        "vlan_pppoe_ipv4": lambda ecn: _ether() / Dot1Q(vlan=7) / PPPoE(sessionid=5) / PPP() / _udp4(ecn),
        # the outer header has the mark (RFC 6040)
        "ipip": lambda ecn: _ether() / IP(**_IP4, tos=ecn) / _udp4(ECT0),
        "6in4": lambda ecn: _ether() / IP(**_IP4, tos=ecn) / _udp6(ECT1),
        "gre": lambda ecn: _ether() / IP(**_IP4, tos=ecn) / GRE() / _udp4(ECT0),
        "vxlan": lambda ecn: (
            _ether() / IPv6(**_IP6, tc=ecn) / UDP(sport=5, dport=4789) / VXLAN(vni=7) / _ether() / _udp4(ECT0)
        ),
        "qinq_ipv6": lambda ecn: _ether() / Dot1AD(vlan=3) / Dot1Q(vlan=7) / _udp6(ecn),
    }


def _by_name() -> dict[str, Packet]:
    """Packets by name (docs/design/icn.md): of these only Data with ECT can be marked."""

    def framed(kind: int, flags: int, tagged: bool = False) -> bytes:
        lifetime, code = int(kind == names.INTEREST), int(kind == names.NACK)
        header = names.Header(kind, flags, code=code, prefix=7, name=9, segment=3, lifetime=lifetime)
        below = _ether() / Dot1Q(vlan=7, type=names.ETHER_TYPE) if tagged else _ether(type=names.ETHER_TYPE)
        return bytes(below / Raw(header.pack() + bytes(40)))

    def data(flags: int, tagged: bool = False) -> Packet:
        marked = framed(names.DATA, flags | names.CE, tagged) if flags & names.ECT else None
        return Packet(framed(names.DATA, flags, tagged), True, ECT0 if marked else NOT_ECT, marked)

    whole = framed(names.DATA, names.ECT)
    return {
        "names_data-not_ect": data(names.LAST),
        "names_data-ect": data(names.ECT),
        "names_data-last-ect": data(names.ECT | names.LAST),
        "names_data-marked": data(names.ECT | names.CE),
        "vlan_names_data-ect": data(names.ECT, tagged=True),
        "names_interest": Packet(framed(names.INTEREST, 0), True, NOT_ECT),
        "names_opening": Packet(framed(names.INTEREST, names.ECT), True, NOT_ECT),
        "names_nack": Packet(framed(names.NACK, 0), True, NOT_ECT),
        "names_of_kind_0": Packet(whole[:14] + b"\x10" + whole[15:], False, None),
        "names_of_kind_4": Packet(whole[:14] + b"\x14" + whole[15:], False, None),
        "names_of_version_2": Packet(whole[:14] + b"\x22" + whole[15:], False, None),
        "names_cut": Packet(whole[: 14 + names.HEADER_BYTES - 1], False, None),
    }


def _fixed() -> dict[str, Packet]:
    ip4, ip6 = bytes(_ether() / _udp4(ECT0)), bytes(_ether() / _udp6(ECT0))
    wrong_version = bytearray(ip4)
    wrong_version[14] = 0x65
    short_ihl = bytearray(ip4)
    short_ihl[14] = 0x44
    return _by_name() | {
        "arp": Packet(bytes(_ether() / ARP(op=2)), False, None),
        "vlan_arp": Packet(bytes(_ether() / Dot1Q(vlan=7) / ARP(op=2)), False, None),
        "unknown_type": Packet(bytes(_ether(type=0x88B5) / _LOAD), False, None),
        "llc": Packet(bytes(_ether(type=60)) + bytes(60), False, None),
        "triple_tag": Packet(
            bytes(_ether() / Dot1AD(vlan=1) / Dot1AD(vlan=2) / Dot1Q(vlan=3) / _udp4(ECT0)), False, None
        ),
        "mpls": Packet(bytes(_ether() / MPLS(label=9, s=1) / _udp4(ECT0)), False, None),
        "pppoe_discovery": Packet(bytes(_ether() / PPPoED(code=9) / _LOAD), False, None),
        "pppoe_lcp": Packet(bytes(_ether() / PPPoE(sessionid=5) / PPP(proto=0xC021) / _LOAD), False, None),
        "pppoe_code": Packet(bytes(_ether() / PPPoE(sessionid=5, code=1) / PPP() / _udp4(ECT0)), False, None),
        "pppoe_version": Packet(bytes(_ether() / PPPoE(sessionid=5, version=2) / PPP() / _udp4(ECT0)), False, None),
        "pppoe_truncated_ipv4": Packet(
            bytes(_ether() / PPPoE(sessionid=5) / PPP() / _udp4(ECT0))[: 22 + 19], True, None, test_run=False
        ),
        "truncated_ipv4": Packet(ip4[: 14 + 19], True, None, test_run=False),
        "truncated_ipv4_1": Packet(ip4[:15], True, None, test_run=False),
        "truncated_ipv6": Packet(ip6[: 14 + 39], True, None, test_run=False),
        "wrong_version": Packet(bytes(wrong_version), True, None),
        "short_ihl": Packet(bytes(short_ihl), True, None),
    }


def packets() -> dict[str, Packet]:
    """Every packet, named kind-ecn."""
    names = {NOT_ECT: "not_ect", ECT0: "ect0", ECT1: "ect1", CE: "ce"}
    made = {f"{kind}-{names[ecn]}": _with_ecn(build, ecn) for kind, build in _builders().items() for ecn in names}
    return made | _fixed()
