# SPDX-License-Identifier: Apache-2.0
"""Counters of names in the P4 switches of a run, second by second.

The counters are read over P4Runtime, in a fork of the driver: a process of its own would import Python's packages for
gRPC anew, 3 s of the exact lab's wall time.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Mapping
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import TYPE_CHECKING

from weirlab.lab.net import in_namespace
from weirlab.lab.p4switch import run_in_order
from weirlab.lab.programs import sleep_until_us

if TYPE_CHECKING:
    from weir.p4runtime.client import Client

EVERY_S = 1
ANSWER_S = 0.5
"""Timeout of a switch's answer; one that was killed does not answer."""
DEVICE_ID = 1


def begin(namespace: str, switches: Mapping[str, str], out: Path) -> ForkProcess:
    """Write lines of the kind `names` to `out` until it is terminated. `switches` are addresses by name, which can be
    reached from the network namespace at that path. To be called while this process has one thread."""
    import weir.programs
    import weir.switch.show  # noqa: F401  # for the fork

    process = multiprocessing.get_context("fork").Process(
        target=_count, args=(namespace, dict(switches), out), daemon=True
    )
    process.start()
    return process


def _count(namespace: str, switches: dict[str, str], out: Path) -> None:
    from weir.p4runtime.client import Client, DeviceError

    run_in_order()
    there: dict[str, Client] = {}
    with in_namespace(namespace), open(out, "w") as file:
        next_s = int(time.monotonic())
        while True:
            next_s += EVERY_S
            sleep_until_us(next_s * 10**6)
            for name, address in switches.items():
                try:
                    if name not in there:
                        there[name] = Client(address, DEVICE_ID, connect_timeout_s=ANSWER_S, timeout_s=ANSWER_S)
                    packets = name_counts(there[name])
                except DeviceError as error:
                    if error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION"):
                        raise
                    if name in there:  # it was killed, or has no program yet; the next second tries again
                        there.pop(name).close()
                    continue
                line = {"k": "names", "t_us": time.monotonic_ns() // 1000, "node": name, "packets": packets}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            file.flush()


def name_counts(switch: Client) -> dict[str, int]:
    """Packets by fate, without zeros. Raises DeviceError."""
    from weir.p4runtime.entities import CounterEntry
    from weir.programs import EDGE

    names = EDGE.names
    assert names is not None  # it is what edge.p4 has
    counted = {}
    for entry in switch.read(CounterEntry(switch.info.counters[names.counter].name)):
        if entry.index is not None and entry.count is not None and entry.count.packets:
            counted[names.cells[entry.index]] = entry.count.packets
    return counted
