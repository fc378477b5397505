# SPDX-License-Identifier: Apache-2.0
"""`weir switch watch`: the state of each port's queue and law, by reading it again and again. Reads need neither an
election nor a stream (P4Runtime 11), so that as many as like may watch, beside whoever is in charge.

Tail drops are at most what is said: they are the difference of two registers that are read one after the other, and
packets that leave in between count as dropped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..p4runtime.client import Client, DeviceError
from ..p4runtime.entities import CounterEntry, RegisterEntry, TableEntry
from ..p4runtime.values import P4RuntimeError
from . import plan

REGISTERS = (
    "aqm_dequeued",
    "aqm_drained",
    "aqm_enqueued",
    "aqm_sojourn_us",
    "law_u_q40",
    "law_dq_time_q8_us",
    "law_row",
    "aqm_dropped_packets",
    "aqm_marked_packets",
)
"""In the order in which they are read: packets pass meanwhile, and what has left must not be more than what came."""

COUNTERS = ("forwarded", "aqm_drops", "aqm_marks")

WITHOUT_REGISTERS = (
    "this switch gives no registers over P4Runtime, as stock BMv2 does not: its counters are all that can be watched. "
    "Delay, probability and backlog are in its digests, which go to the controller in charge alone: "
    "--digest aqm_state_t takes charge where nobody is"
)

_HALF = 48
_MASK = (1 << _HALF) - 1


def from_registers(port: int, values: Mapping[str, int]) -> dict[str, int]:
    """What the program's digest would say of a port, by the digest's names."""
    packets = {name: values[f"aqm_{name}"] >> _HALF for name in ("dequeued", "drained", "enqueued")}
    octets = {name: values[f"aqm_{name}"] & _MASK for name in ("dequeued", "drained", "enqueued")}
    return {
        "port": port,
        "delay_us": values["aqm_sojourn_us"],
        "u_q40": values["law_u_q40"],
        "backlog_bytes": octets["enqueued"] - octets["drained"] & _MASK,
        "dq_time_q8_us": values["law_dq_time_q8_us"],
        "row": values["law_row"],
        "enqueued_packets": packets["enqueued"],
        "enqueued_bytes": octets["enqueued"],
        "tail_dropped_packets": packets["drained"] - packets["dequeued"] & _MASK,
        "tail_dropped_bytes": octets["drained"] - octets["dequeued"] & _MASK,
        "aqm_dropped_packets": values["aqm_dropped_packets"],
        "aqm_marked_packets": values["aqm_marked_packets"],
    }


def from_counters(port: int, packets: Mapping[str, int]) -> dict[str, int]:
    """What can be said of a port without registers."""
    return {
        "port": port,
        "forwarded_packets": packets["forwarded"],
        "aqm_dropped_packets": packets["aqm_drops"],
        "aqm_marked_packets": packets["aqm_marks"],
    }


class Reader:
    """Reads the ports of one switch. Raises P4RuntimeError, at once when the program is another than pid_delay.p4."""

    def __init__(self, device: Client, tell: Callable[[str], None]) -> None:
        self._device = device
        missing = [name for name in REGISTERS if name not in device.info.registers]
        missing += [name for name in COUNTERS if name not in device.info.counters]
        if missing or plan.AQM not in device.info.tables:
            raise P4RuntimeError(
                f"the switch's program has no {missing[0] if missing else plan.AQM}: it is not p4/pid_delay.p4"
            )
        if not self._ports():
            raise P4RuntimeError(
                "no port runs the law; weir switch deploy, or weir switch gains --port N --profile tuned, gives it one"
            )
        self._has_registers = True
        try:
            device.read(RegisterEntry(REGISTERS[0], 0))
        except DeviceError as error:
            if error.code not in ("UNIMPLEMENTED", "UNKNOWN"):
                raise
            self._has_registers = False
            tell(WITHOUT_REGISTERS)

    def _ports(self) -> list[int]:
        entries = self._device.read(TableEntry(plan.AQM))
        return sorted(entry.match["egress_port"].value for entry in entries if "egress_port" in entry.match)

    def records(self) -> list[dict[str, Any]]:
        """One for each port that has an entry in table aqm now."""
        ports = self._ports()
        if not ports:
            return []
        if self._has_registers:
            asked = [RegisterEntry(name, port) for port in ports for name in REGISTERS]
            cells = {(cell.register, cell.index): cell.value for cell in self._device.read(*asked)}
            names = {name: self._device.info.registers[name].name for name in REGISTERS}
            return [from_registers(port, {n: cells[full, port] for n, full in names.items()}) for port in ports]
        asked = [CounterEntry(name, port) for port in ports for name in COUNTERS]
        counts = {(cell.counter, cell.index): cell.count.packets for cell in self._device.read(*asked)}
        names = {name: self._device.info.counters[name].name for name in COUNTERS}
        return [from_counters(port, {n: counts[full, port] for n, full in names.items()}) for port in ports]


def follow(reader: Reader, every_s: float, end_s: float | None) -> Iterator[dict[str, Any]]:
    """Records with the time they were read at, again and again until `end_s` of the monotonic clock."""
    due_s = time.monotonic()
    while True:
        for record in reader.records():
            yield {"read_at_s": round(time.time(), 3), **record}
        due_s = max(due_s + every_s, time.monotonic())
        if end_s is not None and due_s >= end_s:
            return
        time.sleep(max(0.0, due_s - time.monotonic()))


def line(record: Mapping[str, Any]) -> str:
    """A record for people."""
    head = f"{time.strftime('%H:%M:%S', time.localtime(record['read_at_s']))}  port {record['port']:3d}  "
    tail = f"AQM drops {record['aqm_dropped_packets']}  marks {record['aqm_marked_packets']}"
    if "delay_us" not in record:
        return head + f"forwarded {record['forwarded_packets']}  " + tail
    return (
        head
        + f"delay {record['delay_us'] / 1e3:8.3f} ms  U {record['u_q40'] / 2**40:8.6f}  "
        + f"backlog {record['backlog_bytes']:8d} B  row {record['row']}  "
        + tail
        + f"  tail drops {record['tail_dropped_packets']}"
    )


def print_records(records: Iterable[Mapping[str, Any]], to_text: Callable[[Mapping[str, Any]], str], most: int | None):
    """One a line, as they come."""
    for count, record in enumerate(records, 1):
        print(to_text(record), flush=True)
        if count == most:
            return
