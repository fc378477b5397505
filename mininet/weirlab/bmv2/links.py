# SPDX-License-Identifier: Apache-2.0
"""Links with Mininet's parameters of TCLink.

A rate at a port of `weir-switch` is one of the switch (`--queue PORT:rate=`), so that packets wait in its queues and
programs see their depth. Other rates, delays and losses are those of the kernel's htb and netem. Where the kernel lacks
one of the two, a warning names what is left out.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from typing import Any

from mininet.link import TCIntf, TCLink
from mininet.log import warn

from .leftovers import make_free, mark
from .nodes import WeirSwitch

_PROBES = {"htb": "htb default 1", "netem": "netem limit 100"}
_NETEM = ("delay", "jitter", "loss", "max_queue_size")
_ZERO = re.compile(r"0+(\.0+)?\s*(s|sec|secs|ms|msec|msecs|us|usec|usecs|%)?")


@cache
def kernel_has(qdisc: str) -> bool:
    """Whether the kernel has htb or netem. As root."""
    probe = f"ip link set lo up && tc qdisc add dev lo root {_PROBES[qdisc]}"
    done = subprocess.run(["unshare", "-n", "sh", "-c", probe], capture_output=True, check=False)
    return done.returncode == 0


def is_zero(value: Any) -> bool:
    """Whether a parameter of netem is one that changes nothing: None, 0, "0ms"."""
    return not value or (isinstance(value, str) and _ZERO.fullmatch(value.strip()) is not None)


class WeirIntf(TCIntf):
    """An interface with Mininet's parameters of TCIntf; `bw` is in Mbit/s."""

    def config(self, bw: float | None = None, **params: Any) -> Any:
        if bw is not None and isinstance(self.node, WeirSwitch) and self.node.shape(self, bw):
            bw = None
        if bw is not None and not kernel_has("htb"):
            warn(f"{self.name}: the rate {bw:g} Mbit/s is left out: the kernel has no htb\n")
            bw = None
        wanted = [key for key in _NETEM if not is_zero(params.get(key))]
        if wanted and not kernel_has("netem"):
            given = ", ".join(f"{key} {params[key]}" for key in wanted)
            warn(f"{self.name}: {given}: left out: the kernel has no netem\n")
            wanted = []
        kept = {key: value for key, value in params.items() if key not in _NETEM or key in wanted}
        return super().config(bw=bw, **kept)


class WeirLink(TCLink):
    """A link of WeirIntf."""

    def __init__(self, *args: Any, **params: Any) -> None:
        super().__init__(*args, **{"cls1": WeirIntf, "cls2": WeirIntf, **params})

    @classmethod
    def makeIntfPair(
        cls,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> Any:
        """Make the pair of interfaces; names in the root namespace may have been left by a killed run. NetError."""
        ends = ((intfname1, node1), (intfname2, node2))
        shared = [name for name, node in ends if node is not None and not node.inNamespace]
        for name in shared:
            make_free(name)
        made = super().makeIntfPair(intfname1, intfname2, addr1, addr2, node1, node2, deleteIntfs)
        for name in shared:
            mark(name)
        return made
