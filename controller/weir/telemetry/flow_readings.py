# SPDX-License-Identifier: Apache-2.0
"""Readings of flow records of eBPF devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dataplane.base import DataPlaneError, Device
from ..dataplane.bpf import NONSENSE, BpfDevice
from .conntrack import host_of
from .flow_records import FlowKey, Reading, Window, reading_of


class FlowReadings:
    """Readings of each queue of eBPF devices. why: by port without flow records, or by device that can't be read."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = [device for device in devices if isinstance(device, BpfDevice)]
        self.windows: dict[tuple[str, str], Window] = {}
        self.why: dict[str, str] = {}

    def read(self) -> None:
        self.why = {}
        there = set()
        for device in self._devices:
            try:
                for port, answer in device.read_flows().items():
                    reading = reading_of(answer)
                    there.add((device.name, port))
                    self.windows.setdefault((device.name, port), Window()).take(reading)
                    if reading.flows is None:
                        self.why[port] = f"no flow records; `weir-xdp ensure {port} --flow-records` adds them"
            except DataPlaneError as error:
                self.why[device.name] = str(error)
            except NONSENSE as error:
                self.why[device.name] = f"invalid output of weir-xdp flows: {error}"
        for gone in self.windows.keys() - there:
            del self.windows[gone]

    def local(self, reading: Reading, end: str | None) -> Callable[[FlowKey], str]:
        if end is not None:
            return lambda key: key.source if end == "source" else key.destination
        here = [device for device in self._devices if device.netns is None]
        if here:
            return host_of(reading)
        return lambda key: key.source if reading.local_is_source else key.destination
