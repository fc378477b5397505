# SPDX-License-Identifier: Apache-2.0
"""`weir status`: state of each device and port."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..dataplane.base import DataPlaneError, DeviceStatus, PortStatus
from ..options.arguments import DONE, EXIT_STATUS, FAILED, command, complain, end
from ..options.devices import FLEET_EXAMPLE, add_devices, fleet_of
from ..sample import Sample
from ..text import age, printable
from .gains import as_data, origin

EXAMPLE = f"""\
examples:
  weir status                                    all interfaces weir-xdp is attached to
  weir status --bpf eth0 --p4 10.0.0.1:9559      an interface and a switch
  weir status --fleet fleet.toml --json

{FLEET_EXAMPLE}
Columns: how the law is attached; the gains, as the closest profile and what differs from it; the last reading and its
age; what is wrong. The registers of a P4 switch are read twice, 0.2 s apart: the age is `now` where they moved, else
unknown. Nothing is changed, and no controller is replaced.

{EXIT_STATUS} 1 also when a device does not answer; the others are printed.
"""


def parser() -> argparse.ArgumentParser:
    made = command("status", "Print the present state of each device and port. Changes nothing.", EXAMPLE)
    add_devices(made)
    made.add_argument("--json", action="store_true", help="one JSON document")
    return made


def _reading(port: PortStatus) -> dict[str, Any] | None:
    if port.reading is None:
        return None
    return {
        key: value for key, value in asdict(port.reading).items() if key not in ("device", "port", "t_us", "trouble")
    }


def _data(device: str, status: DeviceStatus | str) -> dict[str, Any]:
    if isinstance(status, str):
        return {"device": device, "error": status, "ports": []}
    ports = []
    for port in status.ports:
        settings = as_data(device, port.port, port.settings)
        del settings["device"]
        settings |= {"attached": port.attached, "reading": _reading(port), "trouble": port.trouble}
        ports.append(settings | ({} if port.bands is None else {"bands": dict(port.bands)}))
    return {"device": device, "program": status.program, "notes": list(status.notes), "ports": ports}


def _row(device: str, port: PortStatus) -> list[str]:
    gains, reading = port.settings.gains, port.reading
    shown = [device, port.port, port.attached, port.settings.what if gains is None else origin(gains)]
    target = "" if gains is None else f"{gains.target_us / 1000:g}"
    if isinstance(reading, Sample):
        age_s = None if reading.age_us is None else reading.age_us / 1e6
        shown += [f"{reading.delay_us / 1000:.1f}", target, f"{100 * reading.drop_probability:.2f}"]
        shown += [str(reading.backlog_bytes), age(age_s)]
    else:
        shown += ["", target, "", "", ""]
    return [escape(printable(text)) for text in (*shown, port.trouble)]


def _print(found: dict[str, DeviceStatus | str]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("device", "port", "attached", "gains", "delay ms", "target", "prob. %", "backlog B", "age", "trouble"):
        number = name in ("delay ms", "target", "prob. %", "backlog B", "age")
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for device, status in found.items():
        if isinstance(status, str):
            continue
        for port in status.ports:
            table.add_row(*_row(device, port))
        said = f"{device}: {status.program}" + ("" if status.ports else "; no port runs the law")
        console.print(escape(printable(said)), soft_wrap=True)
        for port in status.ports:
            if port.bands is not None:
                counts = ", ".join(f"{key} {value}" for key, value in port.bands.items())
                console.print(escape(printable(f"{device} port {port.port}, two bands: {counts}")), soft_wrap=True)
        for note in status.notes:
            console.print(escape(printable(f"{device}: {note}")), soft_wrap=True)
    if table.row_count:
        console.print(table)


def _run(args: argparse.Namespace) -> int:
    found: dict[str, DeviceStatus | str] = {}
    with fleet_of(args, default_all=True) as fleet:
        for device in fleet.devices:
            try:
                found[device.name] = device.read_status()
            except DataPlaneError as error:
                found[device.name] = str(error)
    errors = [status for status in found.values() if isinstance(status, str)]
    if args.json:
        print(json.dumps([_data(device, status) for device, status in found.items()]))
    else:
        _print(found)
    for why in errors:
        complain("status", why)
    return FAILED if errors else DONE


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    return end("status", lambda: _run(args))
