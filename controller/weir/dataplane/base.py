# SPDX-License-Identifier: Apache-2.0
"""The one data-plane interface: devices with queues on ports, their samples, and their gains.

A device reports on one shared queue of events, from a thread of its own, and never blocks the controller for long. Time
is the data plane's own clock (`t_us`); a controller that needs its own takes it when it receives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from ..gains import Gains, Value
from ..sample import Counts, Sample


class DataPlaneError(Exception):
    """A device that can't serve a request: device, port, fault, right form."""


@dataclass(frozen=True, slots=True)
class Up:
    """A device is there, with the gains of each of its ports. `restored`: it had lost them and was given them back.

    Repeated for single ports that come, or come back, while the others stay.
    """

    device: str
    gains: dict[str, Gains]
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Down:
    """A device does not answer, or answers nonsense; it is tried again in `retry_s`. Its data plane goes on alone."""

    device: str
    why: str
    retry_s: float


@dataclass(frozen=True, slots=True)
class GainsChanged:
    """Somebody else set a port's gains."""

    device: str
    port: str
    gains: Gains


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator should know that changes nothing: a gap, a repeat, time going back."""

    device: str
    port: str | None
    text: str


Event = Sample | Counts | Up | Down | GainsChanged | Note


@dataclass(frozen=True)
class PortSettings:
    """Settings of a port. gains: None where something else than the law is there, which `what` names. own: settings
    that only this kind of device has, by key."""

    gains: Gains | None
    own: Mapping[str, Value] = field(default_factory=dict)
    what: str = ""


@dataclass(frozen=True)
class PortStatus:
    """A port now. attached: how the law is there. reading: the last there is; None where there is none. trouble: its
    fault, "" for none. bands: totals of a port with two bands of flows, None: it has one band."""

    port: str
    attached: str
    settings: PortSettings
    reading: Sample | Counts | None = None
    trouble: str = ""
    bands: Mapping[str, int] | None = None


@dataclass(frozen=True)
class DeviceStatus:
    """A device now. program: its program, in words. notes: missing readings, and the reason."""

    program: str
    ports: tuple[PortStatus, ...]
    notes: tuple[str, ...] = ()


class Device(ABC):
    """One device. `start` or `watch` once, then `write_gains` and `read_gains` from any thread, `close` at the end.

    Reading methods, and `change`, work without either too: then each call connects for itself, and reading takes part
    in no election.
    """

    name: str
    own_keys: tuple[str, ...] = ()
    """Settings of a port beside the gains."""
    gives_law = False
    """Whether setting gains gives the law to a port that has none."""

    @abstractmethod
    def start(self, events: SimpleQueue[Event]) -> None:
        """Connect in the background as a controller and report; connect anew with back-off for as long as it is not
        closed. Where a device has one controller in charge, this is a candidate."""

    def watch(self, events: SimpleQueue[Event], every_ms: int | None = None) -> None:
        """As `start`, but only to read: excludes nobody. every_ms: between samples; None: the device's own pace."""
        self.start(events)

    @abstractmethod
    def read_gains(self) -> dict[str, Gains]:
        """The gains of every port that runs the law. Raises DataPlaneError."""

    @abstractmethod
    def write_gains(self, port: str, gains: Gains) -> None:
        """Set all of a port's gains at once. Raises DataPlaneError; then the old ones stay."""

    def read_settings(self) -> dict[str, PortSettings]:
        """Settings of every port that has some. Raises DataPlaneError."""
        return {port: PortSettings(gains) for port, gains in self.read_gains().items()}

    def change(self, port: str, base: Gains | None, changes: Mapping[str, Value]) -> None:
        """Set these keys of a port, of gains or `own_keys`, on top of `base` or of those it has. Raises DataPlaneError,
        ValueError for values that can't be."""
        present = self.read_gains()
        if port not in present:
            there = ", ".join(present) or "none"
            raise DataPlaneError(f"device {self.name}: no port {port}: must be one of {there}")
        self.write_gains(port, (base or present[port]).with_changes(changes))

    def read_status(self) -> DeviceStatus:
        """Status now. Raises DataPlaneError."""
        return DeviceStatus("", tuple(PortStatus(port, "", found) for port, found in self.read_settings().items()))

    def read_flows(self) -> dict[str, Mapping[str, Any]]:
        """Records of flows and kinds of packets by port, as `weir-xdp flows --json` has them; none elsewhere. Raises
        DataPlaneError."""
        return {}

    def place(self, port: str) -> str:
        """Identity of a port, independent of this controller's name for its device."""
        return f"{self.name}:{port}"

    def claim(self) -> dict[str, str]:
        """Be the only controller that writes, from now on and on ports yet to come, where the device has no election.

        Returns the ports that somebody else controls, and who; `write_gains` refuses those until he has ended, which
        Note and Up report. Raises DataPlaneError.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Stop reporting and let go. The data plane keeps its gains."""
