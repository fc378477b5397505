# SPDX-License-Identifier: Apache-2.0
"""Random packets of names from a seed, what the model makes of them, and both as a script for weir-stf."""

import itertools
import random
from dataclasses import dataclass, replace

from weir.names import groups, hashing, packet, switch
from weir.names.packet import DATA, INTEREST, NACK, Header
from weir.names.switch import Limits, Names, Route

START_US, STEP_US, WAIT_US = 1_000_000, 1000, 1_000_000
"""The clock of weir-stf: at its start, before each packet, and for each `wait`."""
LIFETIMES = (1, 3, 8, 40, 400, 5000, 20000, 65535)
PAYLOADS = (*[0] * 30, *[7] * 15, *[100] * 15, 1468, 1469)
PORTS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 20, 24, 30, 31)


@dataclass(frozen=True)
class Event:
    """A frame at a port, after some waits of a second; before it the routes may change."""

    waits: int
    port: int
    frame: bytes
    routes: list[Route] | None = None


@dataclass(frozen=True)
class Scene:
    routes: list[Route]
    limits: Limits
    events: list[Event]


def scene(seed: int, count: int) -> Scene:
    """Few names, in few sets, on all kinds of ports."""
    rng = random.Random(seed)
    ports = rng.sample(PORTS, rng.randint(3, len(PORTS)))
    quotas = {port: rng.choice([1, 5, 100]) for port in ports if rng.random() < 0.3}
    limits = Limits(rng.getrandbits(64), rng.choice([1, 1000, 50_000]), rng.choice([1, 3, 8, 40]), quotas)
    components = [rng.randint(1, 0xFFFF) for _ in range(4)]
    routes = [Route(0, 0, rng.choice(ports), rng.choice([*ports, switch.NO_PORT]))] if rng.random() < 0.5 else []
    prefix = 0
    for level, part in enumerate(components[: rng.randint(1, 4)]):
        prefix |= part << 48 - 16 * level
        routes.append(Route(prefix, 16 * (level + 1), rng.choice(ports), rng.choice([*ports, switch.NO_PORT])))
    prefixes = [sum(p << 48 - 16 * i for i, p in enumerate(components[:k])) for k in range(5)]
    labels = _labels(rng, limits.key, prefixes)
    model = Names(routes, limits)
    made, now_us = [], START_US
    for _ in range(count):
        waits = rng.choice([0] * 30 + [1, 2, 9])
        now_us += waits * WAIT_US + STEP_US
        changed = None
        if rng.random() < 0.03:
            changed = [replace(r, port=rng.choice(ports), other=rng.choice([*ports, switch.NO_PORT])) for r in routes]
            model.routes = changed
        port, header = _likely(rng, model, now_us) if rng.random() < 0.4 else (None, None)
        if header is None:
            header = _header(rng, *rng.choice(labels))
        if port is None:
            port = rng.choice([*ports, 32, 100]) if rng.random() < 0.05 else rng.choice(ports)
        payload = rng.randbytes(header.payload_bytes + rng.choice([0, 0, 5]))
        frame = packet.frame(header, payload)
        if rng.random() < 0.03:
            frame = frame[: rng.randint(14, len(frame))]
        if rng.random() < 0.03:
            at = rng.randrange(14, len(frame)) if len(frame) > 14 else 0
            frame = frame[:at] + rng.randbytes(1) + frame[at + 1 :] if at else frame
        model.packet(frame, port, now_us)
        made.append(Event(waits, port, frame, changed))
    return Scene(routes, limits, made)


def _labels(rng: random.Random, key: int, prefixes: list[int]) -> list[tuple[int, int, int]]:
    """Prefixes, names and segments: three that share a set, of which one differs from another by its prefix alone, and
    some of one name whose segments follow each other, by two prefixes."""
    name = rng.getrandbits(64) | 1
    wanted = hashing.pit_set(key, prefixes[1], name, 0, switch.SETS)
    others = ((prefixes[1] | rng.getrandbits(48), name, 0) for _ in itertools.count())
    segments = ((rng.choice(prefixes[1:]), name, segment) for segment in itertools.count(1))
    shared = [(prefixes[1], name, 0)]
    for made in (others, segments):
        shared.append(next(label for label in made if hashing.pit_set(key, *label, switch.SETS) == wanted))
    follow = rng.getrandbits(64) | 1
    start = rng.choice([0, 0xFFFFFFFA, rng.getrandbits(32)])
    by = rng.sample(prefixes, 2)
    return shared * 6 + [(prefix, follow, start + i & 0xFFFFFFFF) for i in range(8) for prefix in by]


def _likely(rng: random.Random, model: Names, now_us: int) -> tuple[int, Header] | tuple[None, None]:
    """An answer to something that was asked, mostly where it was."""
    entries = [entry for ways in model.sets.values() for entry in ways if entry and entry.lives(now_us)]
    if not entries:
        return None, None
    entry = rng.choice(entries)
    port = rng.choice(sorted(entry.asked)) if rng.random() < 0.9 else rng.choice(PORTS)
    kind = rng.choice([DATA, DATA, DATA, NACK, INTEREST])
    prefix = entry.prefix if rng.random() < 0.9 else rng.getrandbits(64)
    header = _header(rng, prefix, entry.name, entry.segment)
    header = replace(header, kind=kind, holes=0, code=rng.randint(1, 6) if kind == NACK else 0, hop_limit=9)
    return port, replace(header, payload_bytes=0) if kind == NACK else header


def _header(rng: random.Random, prefix: int, name: int, segment: int) -> Header:
    kind = rng.choice([INTEREST] * 6 + [DATA, NACK])
    holes = rng.choice([0, 0, 0, 1, 0x8000, 0xFFFF, rng.getrandbits(16)]) if kind == INTEREST else 0
    return Header(
        kind,
        flags=rng.getrandbits(8),
        hop_limit=rng.choice([0, 1, 2, 3, 31, 32, 33, 64, 64, 64, 64, 255]),
        code=rng.choice([1, 5]) if kind == NACK else 0,
        prefix=prefix,
        name=name,
        segment=segment,
        holes=holes,
        lifetime=rng.choice(LIFETIMES),
        payload_bytes=rng.choice(PAYLOADS) if kind != NACK and not holes else 0,
        epoch=rng.getrandbits(16),
    )


def tables(routes: list[Route], limits: Limits) -> list[str]:
    """The lines of a script that write tables, all groups and the clone session."""
    key_low, key_high = limits.key & 0xFFFFFFFF, limits.key >> 32
    lines = [
        f"mirroring_add {groups.AGAIN_SESSION} {groups.AGAIN_PORT}",
        f"setdefault names_limits set_limits(hash_key_low:{key_low}, hash_key_high:{key_high}, "
        f"lifetime_least_us:{limits.least_lifetime_us}, port_quota:{limits.quota})",
    ]
    lines += _entries(routes, limits)
    node = 0
    for group, instances in groups.groups():
        lines.append(f"mc_mgrp_create {group}")
        for instance in instances:
            lines += [f"mc_node_create {instance} {groups.AGAIN_PORT}", f"mc_node_associate {group} {node}"]
            node += 1
    return lines


def _entries(routes: list[Route], limits: Limits) -> list[str]:
    quotas = [f"add names_quota port:{port} set_quota(port_quota:{n})" for port, n in limits.port_quotas.items()]
    fib = [f"add fib prefix:{r.prefix:#018x}/{r.bits} via(port:{r.port}, other:{r.other})" for r in routes]
    return quotas + fib


def script(made: Scene) -> tuple[str, Names]:
    """The scene as a script, with what the model says must come of it; and the model at its end."""
    model = Names(made.routes, made.limits)
    lines, now_us = tables(made.routes, made.limits), START_US
    for event in made.events:
        lines += ["wait"] * event.waits
        if event.routes is not None:
            model.routes = event.routes
            lines += ["remove all", *_entries(event.routes, made.limits)]
        now_us += event.waits * WAIT_US + STEP_US
        lines.append(f"packet {event.port} {event.frame.hex()}")
        lines += [f"expect {port} {frame.hex()} $" for port, frame in model.packet(event.frame, event.port, now_us)]
    lines += [f"check_counter names({index}) packets == {packets}" for index, packets in enumerate(model.counts)]
    return "\n".join(lines) + "\n", model
