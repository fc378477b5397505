# SPDX-License-Identifier: Apache-2.0
"""A switch with so many interfaces that a large receive ring for each would be more memory than it may take."""

import pytest
from hostile_rig import MOST_MB, many, not_forwarded, peak_mb
from p4_packets import ip4, routed
from p4_rig import EMBEDDED, P4Rig, missing


def test_the_receive_rings_of_many_ports_share_their_memory(tmp_path):
    """130 rings of 2 MiB would be over the bound alone. Packets of the first and the last ports are forwarded."""
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    last = many(130, 250)
    rig = P4Rig(EMBEDDED, tmp_path, ports=range(1, last + 1), options=["--queue", "default:depth=1000p"])
    try:
        rig.deploy()
        assert not_forwarded(rig) == 0
        packets = [ip4(to=1, source=last, id=n) for n in range(24)]
        got = rig.exchange([(last, bytes(p)) for p in packets], stations=[1])[1]
        assert got == [routed(p, 1) for p in packets]
        most_mb = peak_mb(rig.process.pid)
        print(f"{last} ports: {most_mb:.1f} MB")
        assert most_mb < MOST_MB
    finally:
        rig.close()
