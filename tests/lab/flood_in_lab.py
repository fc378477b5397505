# SPDX-License-Identifier: Apache-2.0
"""A run on `edge` whose last receiver does something else: `quiet` nothing, `flood` as many Interests as the second
argument says, each millisecond, for names that nobody has. The others fetch the file.
"""

import socket
import sys
import time
from dataclasses import replace
from subprocess import Popen

from weir.names.packet import Header, frame
from weir.names.text import prefix_bits
from weirlab.lab.net import LabNet
from weirlab.lab.programs import Command, main, sleep_until_us
from weirlab.topologies.edge.deploy import FILES
from weirlab.topologies.edge.drive import EdgeDrive

ENDS_AFTER_S = 12
SIXTEEN_SECONDS = 65535
"""As a lifetime: the longest there is."""


class Flooded(EdgeDrive):
    """The last receiver runs this file in place of what fetches."""

    def begin(self, net: LabNet, command: Command) -> Popen:
        if command.what == "get" and command.node == self.tree.receivers[-1].name:
            command = replace(command, argv=[sys.executable, __file__, "attack", *sys.argv[1:]])
        return super().begin(net, command)


def attack(kind: str, each_ms: int) -> None:
    """Ends with status 1: it has no file."""
    end_us = time.monotonic_ns() // 1000 + ENDS_AFTER_S * 10**6
    if kind == "quiet":
        sleep_until_us(end_us)
        sys.exit(1)
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind(("eth0", 0))
    prefix, name, at_us = prefix_bits(f"{FILES}/nobody"), 1, time.monotonic_ns() // 1000
    while at_us < end_us:
        for _ in range(each_ms):
            name += 1
            header = Header(prefix=prefix, name=name, lifetime=SIXTEEN_SECONDS)
            out.send(frame(header))
        at_us += 1000
        sleep_until_us(at_us)
    sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "attack":
        attack(sys.argv[2], int(sys.argv[3]))
    sys.exit(main(Flooded))
