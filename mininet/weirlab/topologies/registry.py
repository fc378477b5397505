# SPDX-License-Identifier: Apache-2.0
"""The topologies that there are. A new one is a folder beside this file and a place in the tuple below."""

from __future__ import annotations

from weirlab.topologies.access.topology import Access
from weirlab.topologies.base import Topology
from weirlab.topologies.campus.topology import Campus
from weirlab.topologies.dumbbell.topology import Dumbbell
from weirlab.topologies.edge.topology import Edge

# The first is that of a scenario file that names none.
TOPOLOGIES: dict[str, Topology] = {topology.name: topology for topology in (Dumbbell(), Access(), Edge(), Campus())}


def topology_of(name: str | None) -> Topology:
    """The topology of that name; the first for None, as in results from before there was a second one."""
    return next(iter(TOPOLOGIES.values())) if name is None else TOPOLOGIES[name]
