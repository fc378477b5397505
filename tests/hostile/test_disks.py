# SPDX-License-Identifier: Apache-2.0
"""Disks that fill: a file system of 64 kB for all that a program writes. It goes on with its work, says what is
missing, and what it wrote is whole to the last line but one. (weir-client and weir-server: full_disk.rs in
quic-client/endpoint/tests. A subscriber by name: tests/packet/test_names_attacks.py.)"""

import json
import signal

import pytest
from hostile_rig import many, not_forwarded
from p4_rig import EMBEDDED, P4Rig, hop, missing
from packet_rig import until

from weir.p4runtime.client import Update

DISK_BYTES = 64 << 10


@pytest.fixture
def full(tmp_path):
    """A switch whose captures, statistics, log and audit are on a small disk of its own namespace."""
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    disk = tmp_path / "disk"
    disk.mkdir()
    files = ["--audit", disk / "audit.jsonl", "--stats-json", disk / "stats.json", f"--pcap={disk}"]
    files += ["--log-file", disk / "log"]

    class OnSmallDisk(P4Rig):
        def _start(self, queues, options) -> None:
            self.box.sh(f"mount -t tmpfs -o size={DISK_BYTES} tmpfs {disk}")
            super()._start(queues, options)

        def read(self, name: str) -> str:
            """A file there: only those in its namespace see it."""
            return self.box.run("cat", disk / name).stdout

    rig = OnSmallDisk(EMBEDDED, tmp_path, options=[*map(str, files), "--queue", "default:depth=1000p"])
    try:
        rig.deploy()
        yield rig
    finally:
        rig.close()


def test_a_switch_whose_disk_fills_goes_on(full):
    """Captures take the disk within a few hundred packets. Forwarding and writing of tables go on; lines of the audit
    that are lost are counted."""
    packets = many(1_000, 20_000)
    assert not_forwarded(full, packets) == 0
    for _ in range(many(50, 500)):
        full.client.write([Update.insert(hop(801, 2)), Update.delete(hop(801, 2))])
    full.process.send_signal(signal.SIGUSR1)
    assert not_forwarded(full) == 0
    lines = full.read("audit.jsonl").splitlines()
    whole = [json.loads(line) for line in lines[:-1]]
    assert whole, "the disk had room for the first lines"
    # room again: what was lost is said with the next line
    full.box.sh(f"mount -o remount,size={16 * DISK_BYTES} {full.folder / 'disk'}")
    full.client.write([Update.insert(hop(802, 2))])
    last = json.loads(full.read("audit.jsonl").splitlines()[-1])
    assert list(last["updates"].values()) == [1]
    assert last["lines_lost"] > 0
    until(lambda: full.client.find(hop(802, 2)) is not None, "the entry")
