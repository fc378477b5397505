# SPDX-License-Identifier: Apache-2.0
"""Random tables for p4/pid_delay.p4 and for programs/mix.p4, and random packets that meet them. The same seed gives the
same. Only what every target must decide alike: the AQM drops and marks with a probability of 0 or 1.
"""

import ipaddress
import random
import struct
from dataclasses import dataclass

from p4_rig import ONE, PORTS, port_mac
from scapy.all import ARP, UDP, Dot1Q, Ether, ICMPv6EchoRequest, ICMPv6ND_NS, IPv6, Raw
from scapy.layers.inet import ICMP, IP, TCP

from weir.p4runtime.entities import (
    Call,
    CloneSession,
    Entity,
    Exact,
    Group,
    GroupMember,
    Lpm,
    Member,
    MulticastGroup,
    Optional,
    ProfileGroup,
    ProfileMember,
    Range,
    Replica,
    TableEntry,
    Ternary,
)

ETHERNET, LEAST_TAGGED = 14, 20
HOPS = range(1, 13)
GROUPS = range(1, 5)
STATIONS = [0x02AA00000000 + n for n in range(8)]
ODD_MACS = [0xFFFFFFFFFFFF, 0x01005E000001, 0x333300000001, 0x02AAFFFFFFFF]


@dataclass(frozen=True)
class Scene:
    """`entries` to insert, in an order in which they can be; `defaults` to set; frames by the port they come in at."""

    entries: list[Entity]
    defaults: list[TableEntry]
    frames: dict[int, list[bytes]]


def scene(seed: int, frames_each: int) -> Scene:
    rng = random.Random(seed)
    networks = _networks(rng)
    entries: list = [_group(rng, group) for group in GROUPS if rng.random() < 0.8]
    entries += [_next_hop(rng, hop) for hop in HOPS if rng.random() < 0.85]
    entries += [_route(rng, network) for network in networks]
    entries += [
        TableEntry("l2_forward", {"hdr.ethernet.dst": Exact(mac)}, _l2_action(rng))
        for mac in STATIONS
        if rng.random() < 0.8
    ]
    entries += [TableEntry("aqm", {"egress_port": Exact(port)}, _aqm(rng)) for port in PORTS if rng.random() < 0.6]
    defaults = [
        TableEntry("l2_forward", action=_l2_action(rng), is_default=True),
        TableEntry("ipv4_lpm", action=_route_action(rng), is_default=True),
        TableEntry("ipv6_lpm", action=_route_action(rng), is_default=True),
    ]
    frames = {port: [_frame(rng, networks) for _ in range(frames_each)] for port in PORTS}
    return Scene(entries, [d for d in defaults if rng.random() < 0.5], frames)


def _networks(rng: random.Random) -> list:
    """Prefixes within and beside each other, of all lengths but 0, which an entry can't have."""
    found = set()
    for bits in (32, 128):
        roots = [rng.getrandbits(bits) & ~(0x3 << bits - 2) | 1 << bits - 3 for _ in range(3)]
        for _ in range(14):
            length = rng.choice([1, 7, 8, 9, bits // 4, bits // 2 - 1, bits // 2, bits - 8, bits - 1, bits])
            address = rng.choice(roots) ^ (rng.getrandbits(bits) >> rng.randrange(bits))
            found.add((bits, address >> bits - length << bits - length, length))
    kinds = {32: ipaddress.IPv4Network, 128: ipaddress.IPv6Network}
    return [kinds[bits]((address, length)) for bits, address, length in sorted(found)]


def _route(rng: random.Random, network) -> TableEntry:
    match = {f"hdr.ipv{network.version}.dst": Lpm(int(network.network_address), network.prefixlen)}
    return TableEntry(f"ipv{network.version}_lpm", match, _route_action(rng))


def _route_action(rng: random.Random) -> Call:
    return Call("no_route") if rng.random() < 0.1 else Call("set_next_hop", {"next_hop": rng.choice(HOPS)})


def _next_hop(rng: random.Random, number: int) -> TableEntry:
    params = {"port": rng.choice(PORTS), "dst_mac": rng.getrandbits(48), "src_mac": rng.getrandbits(48)}
    actions = ["forward", "forward_tagged", "forward_untagged", "no_next_hop"]
    action = rng.choices(actions, [4, 2, 2, 1])[0]
    if action == "forward_tagged":
        params["vid"] = rng.getrandbits(12)
    return TableEntry("next_hop", {"next_hop": Exact(number)}, Call(action, {} if action == "no_next_hop" else params))


def _l2_action(rng: random.Random) -> Call:
    return rng.choice(
        [
            Call("to_port", {"port": rng.choice(PORTS)}),
            Call("flood", {"group": rng.choice([*GROUPS, 99])}),
            Call("no_l2_entry"),
        ]
    )


def _group(rng: random.Random, number: int) -> MulticastGroup:
    ports = rng.sample(PORTS, rng.randint(1, len(PORTS)))
    return MulticastGroup(number, tuple(Replica(port, rng.randint(1, 5)) for port in ports))


def _aqm(rng: random.Random) -> Call:
    params = {
        "u_q32": rng.choice([0, 0, ONE]),
        "squared": rng.getrandbits(1),
        "ecn_bound_q32": rng.choice([0, ONE]),
        "digest_interval_us": 0,
    }
    return rng.choice([Call("no_aqm"), Call("fixed_probability", params), Call("fixed_probability", params)])


def _frame(rng: random.Random, networks: list) -> bytes:
    frame = bytearray(_packet(rng, networks))
    while rng.random() < 0.2:  # some bytes wrong
        frame[rng.randrange(12, len(frame))] = rng.randrange(256)
    if rng.random() < 0.1:  # cut short
        frame = frame[: rng.randint(ETHERNET, len(frame))]
    if rng.random() < 0.1:  # with something behind
        frame += rng.randbytes(rng.randint(1, 60))
    if frame[12:14] in (b"\x81\x00", b"\x88\xa8"):
        frame = frame.ljust(LEAST_TAGGED, b"\0")  # the kernel takes no shorter one
    return bytes(frame)


def _address(rng: random.Random, networks: list, version: int) -> str:
    """In a network, or a little beside it."""
    network = rng.choice([n for n in networks if n.version == version])
    bits = network.max_prefixlen
    address = int(network.network_address) | rng.getrandbits(bits) >> network.prefixlen
    if rng.random() < 0.2:
        address ^= 1 << rng.randrange(bits)
    return str(type(network.network_address)(address))


def _packet(rng: random.Random, networks: list) -> bytes:
    port = rng.choice(PORTS)
    mac = rng.choices([port_mac(port), rng.choice(STATIONS), rng.choice(ODD_MACS)], [8, 2, 1])[0]
    frame = Ether(src=f"02:bb:00:00:00:{port:02x}", dst=":".join(f"{mac:012x}"[i : i + 2] for i in range(0, 12, 2)))
    if rng.random() < 0.3:
        frame /= Dot1Q(vlan=rng.getrandbits(12), prio=rng.getrandbits(3), dei=rng.getrandbits(1))
    load = Raw(rng.randbytes(rng.choice([0, 1, 26, 100, 1000])))
    hops, traffic_class = rng.choice([0, 1, 2, 2, 64, 64, 255, 255]), rng.randrange(256)
    kind = rng.choices(["ipv4", "ipv6", "arp", "discovery", "other"], [6, 5, 1, 1, 1])[0]
    if kind == "ipv4":
        options = rng.choices([b"", b"\x01" * 4, b"\x01" * 40], [6, 1, 1])[0]
        frame /= IP(dst=_address(rng, networks, 4), src="192.0.2.1", ttl=hops, tos=traffic_class, options=options)
        frame /= rng.choice([UDP(), TCP(), ICMP()])
    elif kind == "ipv6":
        frame /= IPv6(dst=_address(rng, networks, 6), src="2001:db8::1", hlim=hops, tc=traffic_class)
        frame /= rng.choice([UDP(), TCP(), ICMPv6EchoRequest()])
    elif kind == "arp":
        frame /= ARP(op=rng.choice([1, 2]))
    elif kind == "discovery":
        frame /= IPv6(dst=rng.choice(["fe80::1", "ff02::1", "2001:db8::9"]), src="fe80::2", hlim=255)
        frame /= rng.choice([ICMPv6ND_NS(), UDP()])
    else:
        frame.type = rng.randrange(0x0600, 0x10000)
    return bytes(frame / load)


# tests/packet/programs/mix.p4

MIX_NUMBERS = {
    32: [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF],
    16: [0, 1, 0x7FFF, 0x8000, 0xFFFF],
    8: [0, 1, 7, 8, 31, 32, 33, 127, 128, 255],
}
MIX_CLONES = 5
MIX_E = range(0, 256, 5)
"""Values of the field e that tables and packets have; few, so that they meet."""
MIX_D = [0, 1, 7, 8, 31, 32, 33, 0x10, 0x14, 0x90, 255]


def mix_scene(seed: int, frames_each: int) -> Scene:
    rng = random.Random(seed)
    members = range(1, 6)
    entries: list = [ProfileMember("profile", member, _choose(rng)) for member in members]
    for group in range(1, 4):
        # BMv2 numbers a group's members in the order in which they were made, whatever the group says.
        chosen = tuple(GroupMember(member) for member in sorted(rng.sample(members, rng.randint(1, 5))))
        entries.append(ProfileGroup("profile", group, chosen, max_size=8))
    entries += [CloneSession(MIX_CLONES, (Replica(rng.choice(PORTS), 3),), truncate_bytes=rng.choice([0, 40]))]
    entries += [_group(rng, group) for group in range(9, 14)]
    tables = {"ternary_table": _ternary, "range_table": _range, "optional_table": _optional, "lpm_table": _lpm}
    for table, key in tables.items():
        found = {}
        for _ in range(25):
            match = key(rng)
            found[repr(match)] = match
        # Of two entries with the same priority targets may take either.
        priorities = iter(rng.sample(range(1, 1000), len(found)))
        for match in found.values():
            action = rng.choice([_choose(rng), _choose(rng), Call("pass")])
            if table == "ternary_table" and rng.random() < 0.1:
                action = Call("refuse")
            priority = 0 if table == "lpm_table" else next(priorities)
            entries.append(TableEntry(table, match, action, priority=priority))
    for e in rng.sample(MIX_E, 30):
        action = rng.choice([Group(rng.randint(1, 3)), Member(rng.choice(members))])
        entries.append(TableEntry("selector_table", {"hdr.mix.e": Exact(e)}, action))
    frames = {port: [_mix_frame(rng) for _ in range(frames_each)] for port in PORTS}
    return Scene(entries, [], frames)


def _choose(rng: random.Random) -> Call:
    return Call("choose", {"value": rng.getrandbits(16), "port": rng.choice(PORTS)})


def _number(rng: random.Random, bits: int) -> int:
    return rng.choice(MIX_NUMBERS[bits]) if rng.random() < 0.5 else rng.getrandbits(bits)


def _ternary(rng: random.Random) -> dict:
    match = {}
    for name, bits in (("hdr.mix.a", 32), ("hdr.mix.c", 16)):
        mask = rng.choice([0, 1, 3, 1 << bits - 1, 3 << bits - 2, rng.getrandbits(bits) & rng.getrandbits(bits)])
        if mask:
            match[name] = Ternary(_number(rng, bits) & mask, mask)
    return match


def _range(rng: random.Random) -> dict:
    low, high = sorted((_number(rng, 16), _number(rng, 16)))
    match = {} if (low, high) == (0, 0xFFFF) else {"hdr.mix.c": Range(low, high)}
    return {**match, "hdr.mix.d": Exact(rng.choice(MIX_D))}


def _optional(rng: random.Random) -> dict:
    match = {}
    if rng.random() < 0.7:
        match["hdr.mix.d"] = Optional(rng.choice(MIX_D))
    if rng.random() < 0.5:
        match["hdr.mix.e"] = Optional(rng.choice(MIX_E))
    return match


def _lpm(rng: random.Random) -> dict:
    match: dict = {"hdr.mix.e": Exact(rng.choice(MIX_E))}
    length = rng.choice([0, 0, 1, 2, 8, 31, 32])
    if length:
        match["hdr.mix.b"] = Lpm(_number(rng, 32) >> 32 - length << 32 - length, length)
    return match


def _mix_frame(rng: random.Random) -> bytes:
    a, b, c = _number(rng, 32), _number(rng, 32), _number(rng, 16)
    d, e = rng.choice(MIX_D), rng.choice(MIX_E)
    blocks, group = rng.choice([0, 0, 1, 5, 15]), rng.choice([0, 0, 0, rng.randrange(16)])
    mix = struct.pack("!IIHBBB", a, b, c, d, e, blocks << 4 | group)
    items = b""
    if e >= 0x40 and d & 0xC0 != 0x80:
        count = rng.choice([1, 1, 2, 3, 4, 5])  # five are more than the stack holds
        items = bytes((0x80 if i < count - 1 else 0) | rng.getrandbits(7) for i in range(count))
    tail = rng.randbytes(4 * blocks + rng.choice([0, 0, 7, 30]))
    frame = bytes.fromhex("02aa00000001 02bb00000001 88b5") + mix + items + tail
    return frame[: rng.randint(ETHERNET, len(frame))] if rng.random() < 0.1 else frame
