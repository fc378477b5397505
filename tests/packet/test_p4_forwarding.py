# SPDX-License-Identifier: Apache-2.0
"""p4/pid_delay.p4 as a router, on real interfaces: where packets go and what of them changes."""

import pytest
from p4_packets import address4, address6, ether, ip4, ip6, routed, tagged
from p4_rig import PORTS, hop, host_mac, mac_text, route
from scapy.all import (
    ARP,
    Ether,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPOption_Router_Alert,
    IPOption_Timestamp,
    IPv6,
    Raw,
)
from scapy.layers.inet import ICMP, IP, TCP

FAMILIES = {"ipv4": ip4, "ipv6": ip6}


@pytest.fixture(params=FAMILIES)
def ip(request):
    return FAMILIES[request.param]


def test_every_station_reaches_every_other(switch, ip):
    pairs = [(a, b) for a in PORTS for b in PORTS if a != b]
    got = switch.exchange([(a, bytes(ip(to=b, source=a))) for a, b in pairs])
    for b in PORTS:
        assert sorted(got[b]) == sorted(routed(ip(to=b, source=a), b) for a in PORTS if a != b)


@pytest.mark.parametrize(
    ("routes", "cases"),
    [
        (
            {"0.0.0.0/0": 101, "172.16.0.0/12": 102, "172.16.32.0/19": 103, "172.16.32.7/32": 104},
            {"8.8.8.8": 1, "172.15.255.255": 1, "172.16.31.255": 2, "172.31.0.1": 2, "172.16.63.1": 3,
             "172.16.32.6": 3, "172.16.32.7": 4, "172.16.32.8": 3, "255.255.255.255": 1, "10.0.3.1": 3},
        ),
        (
            {"::/0": 101, "fd00::/9": 102, "fd40:0:0:8000::/50": 103, "fd40:0:0:8000::7/128": 104},
            {"2001:db9::": 1, "fc80::1": 1, "fd00::1": 2, "fd7f::": 2, "fd80::": 1, "fd40::7fff:1": 2,
             "fd40:0:0:8000::6": 3, "fd40:0:0:bfff::7": 3, "fd40:0:0:c000::7": 2, "fd40:0:0:8000::7": 4},
        ),
    ],
    ids=["ipv4", "ipv6"],
)  # fmt: skip
def test_the_longest_prefix_wins(switch, routes, cases):
    make = ip6 if "::/0" in routes else ip4
    hops = [hop(100 + n, n) for n in PORTS]
    with switch.entries(*hops, *(route(prefix, number) for prefix, number in routes.items())):
        got, dropped = switch.tell([(1, bytes(make(to=address))) for address in cases])
    assert not dropped
    assert got == {n: [routed(make(to=a), n) for a, port in cases.items() if port == n] for n in PORTS}
    # and without them there is no way again
    elsewhere = next(iter(cases))
    assert switch.tell([(1, bytes(make(to=elsewhere)))]) == ({}, {"no_route": 1})


def test_a_route_without_its_next_hop_is_counted(switch, ip):
    name = "198.51.100.0/24" if ip is ip4 else "2001:db8:dead::/48"
    address = "198.51.100.9" if ip is ip4 else "2001:db8:dead::9"
    with switch.entries(route(name, 999)):
        assert switch.tell([(1, bytes(ip(to=address)))] * 3) == ({}, {"no_next_hop": 3})


@pytest.mark.parametrize("hops", [0, 1])
def test_expired_packets_are_dropped(switch, ip, hops):
    field = {"ttl" if ip is ip4 else "hlim": hops}
    assert switch.tell([(1, bytes(ip(**field)))] * 2) == ({}, {"ttl_expired": 2})


def test_every_hop_count_above_one_loses_one(switch, ip):
    field = "ttl" if ip is ip4 else "hlim"
    packets = [ip(**{field: hops}) for hops in range(2, 256)]
    got, dropped = switch.tell([(1, bytes(p)) for p in packets])
    assert (got, dropped) == ({2: [routed(p, 2) for p in packets]}, {})


def test_a_wrong_ipv4_checksum_is_dropped_and_a_right_one_stays_right(switch):
    """Checksums next to the ends of one's complement, where a wrong increment shows: 0000, 0001, ff00, feff, ..."""
    wanted = [0x0000, 0x0001, 0x00FF, 0x0100, 0xFEFE, 0xFEFF, 0xFF00, 0xFFFE]
    # The identification makes up the rest: ones' complement sums are sums modulo ffff.
    without = int.from_bytes(bytes(ip4(id=0))[24:26], "big")
    packets = [ip4(id=(without - checksum) % 0xFFFF) for checksum in wanted]
    assert [int.from_bytes(bytes(p)[24:26], "big") for p in packets] == wanted
    got, dropped = switch.tell([(1, bytes(p)) for p in packets])
    assert (got, dropped) == ({2: [routed(p, 2) for p in packets]}, {})
    wrong = [bytearray(bytes(p)) for p in packets]
    for i, frame in enumerate(wrong):
        frame[24 + i % 2] ^= 1 << i
    assert switch.tell([(1, bytes(f)) for f in wrong]) == ({}, {"bad_ipv4_checksum": len(wrong)})


def test_ipv4_options_and_fragments_are_kept(switch):
    options = [
        [IPOption_Router_Alert()],
        [IPOption_Timestamp(timestamp=0x01020304)],
        b"\x01" * 40,
        b"\x01" * 3 + b"\x00",
    ]
    packets = [ip4(options=some) for some in options]
    packets += [ip4(flags="DF"), ip4(flags="MF"), ip4(frag=185, flags=0)]
    packets += [ether() / IP(src=address4(1), dst=address4(2)) / layer for layer in (ICMP(), TCP(), Raw(b""))]
    packets += [ether() / IPv6(src=address6(1), dst=address6(2)) / layer for layer in (ICMPv6EchoRequest(), TCP())]
    got, dropped = switch.tell([(1, bytes(p)) for p in packets])
    assert (got, dropped) == ({2: [routed(p, 2) for p in packets]}, {})


def test_dscp_and_ecn_pass_untouched(switch, ip):
    packets = [ip(**{"tos" if ip is ip4 else "tc": value}) for value in range(256)]
    got, dropped = switch.tell([(1, bytes(p)) for p in packets])
    assert (got, dropped) == ({2: [routed(p, 2) for p in packets]}, {})


def test_payloads_of_all_lengths_pass_bit_identical(switch, ip):
    headers = len(ip(load=b""))
    load = bytes((7 * i + i // 256) % 256 for i in range(1514))
    lengths = [*range(max(60, headers), 150), *range(150, 1500, 13), *range(1500, 1515)]
    packets = [ip(load=load[: length - headers]) for length in lengths]
    got, dropped = switch.tell([(1, bytes(p)) for p in packets])
    assert [len(f) for f in got[2]] == lengths
    assert (got, dropped) == ({2: [routed(p, 2) for p in packets]}, {})


def test_bytes_behind_the_ip_packet_stay(switch, ip):
    """Ethernet's padding of short frames."""
    padding = Raw(b"\xaa" * 20)
    packet = ip(load=b"x")
    got, _ = switch.tell([(1, bytes(packet / padding)[:14] + bytes(packet)[14:] + bytes(padding))])
    assert got == {2: [routed(packet, 2) + bytes(padding)]}


@pytest.mark.parametrize("came_tagged", [False, True])
@pytest.mark.parametrize("action", ["forward", "forward_tagged", "forward_untagged"])
def test_tags_are_kept_added_and_removed(switch, ip, action, came_tagged):
    plain = ip(to="203.0.113.5" if ip is ip4 else "2001:db8:beef::5")
    came = tagged(plain, 7, prio=5, dei=1) if came_tagged else plain
    left = {
        "forward": came,
        "forward_tagged": tagged(plain, 30, *((5, 1) if came_tagged else ())),
        "forward_untagged": plain,
    }[action]
    entry = hop(200, 3, action, **({"vid": 30} if action == "forward_tagged" else {}))
    with switch.entries(entry, route("203.0.113.0/24" if ip is ip4 else "2001:db8:beef::/48", 200)):
        assert switch.tell([(1, bytes(came))]) == ({3: [routed(left, 3)]}, {})


def test_a_second_tag_is_not_looked_behind(switch):
    packet = tagged(tagged(ip4(), 7), 8)
    packet.dst = mac_text(host_mac(4))
    assert switch.tell([(1, bytes(packet))]) == ({4: [bytes(packet)]}, {})


def flooded(frame: bytes, source: int) -> dict[int, list[bytes]]:
    return {n: [frame] for n in PORTS if n != source}


@pytest.mark.parametrize("vlan", [None, 12])
def test_arp_is_flooded_or_passed_on_as_it_came(switch, vlan):
    ask = Ether(src=mac_text(host_mac(2)), dst="ff:ff:ff:ff:ff:ff") / ARP(psrc=address4(2), pdst=address4(1))
    answer = Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(2))) / ARP(op=2, psrc=address4(1), pdst=address4(2))
    ask, answer = (bytes(tagged(p, vlan) if vlan else p) for p in (ask, answer))
    assert switch.tell([(2, ask)]) == (flooded(ask, 2), {})
    assert switch.tell([(1, answer)]) == ({2: [answer]}, {})


def test_neighbour_discovery_passes_with_its_hop_limit(switch):
    """RFC 4861 refuses such messages if a hop limit of 255 was touched."""
    target = address6(1)
    ask = Ether(src=mac_text(host_mac(3)), dst="33:33:ff:00:00:01") / IPv6(src=address6(3), dst="ff02::1:ff00:1")
    ask = bytes(ask / ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=mac_text(host_mac(3))))
    answer = Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(3))) / IPv6(src=address6(1), dst=address6(3))
    answer = bytes(answer / ICMPv6ND_NA(tgt=target) / ICMPv6NDOptDstLLAddr(lladdr=mac_text(host_mac(1))))
    assert switch.tell([(3, ask)]) == (flooded(ask, 3), {})
    assert switch.tell([(1, answer)]) == ({3: [answer]}, {})


def test_link_local_and_group_addressed_packets_are_not_routed(switch):
    local = bytes(
        Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(4))) / IPv6(src="fe80::1", dst="fe80::4") / Raw(b"x")
    )
    group4 = bytes(Ether(src=mac_text(host_mac(1)), dst="01:00:5e:00:00:fb") / IP(dst="224.0.0.251", ttl=1) / Raw(b"x"))
    group6 = bytes(Ether(src=mac_text(host_mac(1)), dst="33:33:00:00:00:fb") / IPv6(dst="ff02::fb", hlim=1) / Raw(b"x"))
    assert switch.tell([(1, local)]) == ({4: [local]}, {})
    assert switch.tell([(1, group4)]) == (flooded(group4, 1), {})
    assert switch.tell([(1, group6)]) == (flooded(group6, 1), {})


def test_other_protocols_go_by_their_station(switch):
    known = bytes(Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(3)), type=0x88B5) / Raw(b"weir" * 20))
    unknown = bytes(Ether(src=mac_text(host_mac(1)), dst="02:00:00:00:99:99", type=0x88B5) / Raw(b"weir" * 20))
    llc = bytes(Ether(src=mac_text(host_mac(1)), dst=mac_text(host_mac(4)), type=60)) + bytes(60)
    assert switch.tell([(1, known), (1, llc)]) == ({3: [known], 4: [llc]}, {})
    assert switch.tell([(1, unknown)]) == (flooded(unknown, 1), {})


def test_the_least_frames(switch):
    """An Ethernet header and nothing."""
    frame = host_mac(2).to_bytes(6, "big") + host_mac(1).to_bytes(6, "big") + b"\x88\xb5"
    assert switch.tell([(1, frame)]) == ({2: [frame]}, {})
