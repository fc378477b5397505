# SPDX-License-Identifier: Apache-2.0
"""The one data-plane interface: devices with queues on ports, what they tell, and the gains they run.

A device reports on one shared queue of events, from a thread of its own, and never blocks the controller for long. Time
is the data plane's own clock (`t_us`); a controller that needs its own takes it when it receives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from queue import SimpleQueue

from ..gains import Gains


class DataPlaneError(Exception):
    """A device that can't do what was asked: device, port, what is wrong, what would be right."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one queue said of itself. Counters are totals since the program was loaded, and may start anew.

    delay_us: as the law has it (Cao Eq. 1, or the sojourn time). u: the law's output, 0 .. 1; drop_probability: what a
    packet meets, U squared where the law squares. rate_bit_s: departures while the queue was busy, None while unknown.
    passed_*: entered the queue and were not dropped. config_id: changes with every change of gains, None where the
    device has no such thing. age_us: since the law's last step, rate_age_us: since the rate was measured; None where
    that is not told. trouble: what is wrong with the queue, "" for nothing.
    """

    device: str
    port: str
    t_us: int
    delay_us: int
    u: float
    drop_probability: float
    backlog_bytes: int
    rate_bit_s: int | None
    passed_packets: int
    passed_bytes: int
    marks_packets: int
    drops_aqm_packets: int
    drops_limit_packets: int
    row: int
    config_id: int | None = None
    age_us: int | None = None
    rate_age_us: int | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Up:
    """A device is there, with the gains of each of its ports. `restored`: it had lost them and was given them back.

    Told again for single ports that come, or come back, while the others stay.
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


Event = Sample | Up | Down | GainsChanged | Note


class Device(ABC):
    """One device. `start` once, then `write_gains` and `read_gains` from any thread, `close` at the end."""

    name: str

    @abstractmethod
    def start(self, events: SimpleQueue[Event]) -> None:
        """Connect in the background and report; connect anew with back-off for as long as it is not closed."""

    @abstractmethod
    def read_gains(self) -> dict[str, Gains]:
        """The gains of every port that runs the law. Raises DataPlaneError."""

    @abstractmethod
    def write_gains(self, port: str, gains: Gains) -> None:
        """Set all of a port's gains at once. Raises DataPlaneError; then the old ones are in force."""

    def place(self, port: str) -> str:
        """What a port is known by, whatever this controller calls its device."""
        return f"{self.name}:{port}"

    def claim(self) -> dict[str, str]:
        """Be the only controller that writes, from now on and on ports yet to come, where the device has no election.

        Returns the ports that somebody else controls, and who; `write_gains` refuses those until he has ended, which is
        told by Note and Up. Raises DataPlaneError.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Stop reporting and let go. The data plane keeps its gains."""
