# SPDX-License-Identifier: Apache-2.0
"""An eBPF program on a real interface, and its counters of flows."""

from packet_rig import Rig

FLOW_BYTES = 16
"""Of a counter."""
STEADY = ("--expert", "share_shift=24", "share_least=1")
"""Flows are counted, and no half-life passes in a test."""
UNTOUCHED = ("--fixed-probability", "0", *STEADY)
PROGRAMS = {
    "bands": ("rb", "--shape", "1gbit", "--bands"),
    "tc": ("rb", "--rate", "1gbit", "--hook", "tc"),
    "xdp": ("ra/ingress", "--rate", "1gbit"),
}


class Counting:
    """A program of PROGRAMS, from attach to close."""

    def __init__(self, rig: Rig, program: str):
        self.rig, self.dev, *words = rig, *PROGRAMS[program]
        rig.weir("attach", self.dev, *words, *UNTOUCHED)
        self.map = f"{self.status()['pins']}/flows"
        self.before = self._flows()
        self.last = self.changed([])
        """The counter of LAST: the bands count an EtherType as a flow."""

    def _flows(self) -> bytes:
        return self.rig.looked_up(self.map, 4096 * FLOW_BYTES)

    def status(self) -> dict:
        return self.rig.status(self.dev)

    def changed(self, frames: list[bytes]) -> set[int]:
        """Counters of flows that frames from a0 to b0 change, LAST included."""
        assert sorted(self.rig.through(frames)) == sorted(frames)
        before, self.before = self.before, self._flows()
        places = range(0, len(before), FLOW_BYTES)
        return {at // FLOW_BYTES for at in places if before[at : at + FLOW_BYTES] != self.before[at : at + FLOW_BYTES]}

    def flows(self, frames: list[bytes]) -> int:
        return len(self.changed(frames) - self.last)

    def close(self) -> None:
        self.rig.weir("detach", self.dev)
