# SPDX-License-Identifier: Apache-2.0
"""Files for `weir p4 deploy` and `weir tune --fleet`: configuration of switches and controller on `campus`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weirlab.topologies.campus.sites import (
    CACHE_PORT,
    CELL_HOST,
    CELL_NETWORK,
    CORE_HOSTS,
    GRPC_PORT,
    LINE_HOST,
    LINE_NETWORK,
    OFFICE_HOST,
    OFFICE_PORT,
    PHONE_MACS,
    ROUTER_PORT,
    SITE2_PORT,
    SITES,
    UP,
    WIFI_PORT,
    RatedQueue,
    management_address,
    phone_address,
    rated_queues,
    receivers_of,
    switch_mac,
    switch_of,
)

FILES, LIVE = "/weir/files", "/weir/live"
"""The publisher's files are below the one, its stream is the other."""
WHOLE_PIT = 2 * 8192
"""Entries of a switch's table of pending Interests (docs/design/icn.md)."""
LAW, NO_LAW = "law", ("pfifo", "pie", "fq_codel")
SAMPLE_US = 100_000


def ports_of(site: int, spec: Mapping[str, Any]) -> list[int]:
    """The ports that a site's switch has."""
    own = [receiver.port for receiver in receivers_of(spec) if receiver.site == site]
    only = [SITE2_PORT, OFFICE_PORT] if site == SITES[0] else []
    return sorted([UP, CACHE_PORT, ROUTER_PORT, WIFI_PORT, *only, *own])


def stations(site: int, spec: Mapping[str, Any]) -> Iterator[tuple[str, int, str, Sequence[str]]]:
    """Whom a site's switch routes to: name, port, MAC, and the prefixes that lead there."""
    own = [receiver for receiver in receivers_of(spec) if receiver.site == site]
    if site == SITES[0]:
        for host in CORE_HOSTS:
            yield host.name, UP, host.mac, [f"{host.address}/32"]
        yield switch_of(2), SITE2_PORT, switch_mac(2, UP), ["10.2.2.0/24", f"{CELL_NETWORK}.0/24"]
        yield LINE_HOST.name, ROUTER_PORT, LINE_HOST.mac, [f"{LINE_HOST.address}/32", f"{LINE_NETWORK}.0/24"]
        yield OFFICE_HOST.name, OFFICE_PORT, OFFICE_HOST.mac, [f"{OFFICE_HOST.address}/32"]
    else:
        yield "up", UP, switch_mac(1, SITE2_PORT), ["10.1.0.0/24", "10.2.1.0/24", f"{LINE_NETWORK}.0/24"]
        yield CELL_HOST.name, ROUTER_PORT, CELL_HOST.mac, [f"{CELL_HOST.address}/32", f"{CELL_NETWORK}.0/24"]
    yield "phone", WIFI_PORT, PHONE_MACS["wifi"], [f"{phone_address('wifi', site)}/32"]
    for receiver in own:
        yield receiver.name, receiver.port, receiver.mac, [f"{receiver.address}/32"]


def deploy_config(site: int, spec: Mapping[str, Any]) -> str:
    """The whole file for a site's switch."""
    lines: list[str] = []
    for port in ports_of(site, spec):
        lines += [f"[ports.{port}]", f'mac = "{switch_mac(site, port)}"']
    routes: list[str] = []
    for name, port, mac, prefixes in stations(site, spec):
        lines += [f"[neighbours.{name}]", f"port = {port}", f'mac = "{mac}"']
        routes += [f'"{prefix}" = "{name}"' for prefix in prefixes]
    lines += ["[routes]", *routes, "[names]"]
    if site == SITES[0]:  # of the other site one port asks for all that are there
        lines += [f"[names.port.{SITE2_PORT}]", f"quota = {WHOLE_PIT}"]
    lines += ["[[names.route]]", f'prefix = "{LIVE}"', f"port = {UP}"]
    lines += ["[[names.route]]", f'prefix = "{FILES}"', f"port = {CACHE_PORT}", f"other = {UP}"]
    law = [f"{key} = {json.dumps(value)}" for key, value in spec["law"].items()]
    for queue in law_ports(site, spec):
        lines += [f"[aqm.port.{queue.port}]", *law, f"digest_interval_us = {SAMPLE_US}"]
        lines += [f"[bands.port.{queue.port}]"] if has_bands_on_switches(spec) else []
    return "\n".join([*lines, ""])


def has_bands(spec: Mapping[str, Any]) -> bool:
    """Whether queues have two bands of flows."""
    return spec["has"]["aqm"] == LAW and spec["has"]["bands"]


def has_bands_on_switches(spec: Mapping[str, Any]) -> bool:
    """BMv2's queues of a port share no rate, so it has none."""
    return has_bands(spec) and spec["switches"]["target"] == "embedded"


def law_ports(site: int, spec: Mapping[str, Any]) -> list[RatedQueue]:
    """The queues of a site's switch that are under its law."""
    if spec["has"]["aqm"] != LAW:
        return []
    return [queue for queue in rated_queues(spec) if queue.node == switch_of(site) and queue.port is not None]


def linux_queues(spec: Mapping[str, Any]) -> list[RatedQueue]:
    """The queues that the kernel has: all of them where the law is nowhere, since a switch knows drop-tail only."""
    law = spec["has"]["aqm"] == LAW
    return [queue for queue in rated_queues(spec) if queue.port is None or not law]


def fleet_config(spec: Mapping[str, Any]) -> str:
    """The file for the one controller of all queues under the law."""
    lines: list[str] = []
    interfaces: dict[str, list[str]] = {}
    for queue in linux_queues(spec):
        interfaces.setdefault(queue.node, []).append(queue.device)
    for node, devices in interfaces.items():
        lines += [f"[devices.{node}]", 'kind = "bpf"', f'netns = "{node}"', f"interfaces = {json.dumps(devices)}"]
    for site in SITES:
        name = switch_of(site)
        lines += [f"[devices.{name}]", 'kind = "p4runtime"', f'address = "{management_address(site)}:{GRPC_PORT}"']
        lines += ["device_id = 1", f"digest_interval_us = {SAMPLE_US}"]
    return "\n".join([*lines, ""])


def switch_file(site: int) -> str:
    return f"switch-{switch_of(site)}.toml"
