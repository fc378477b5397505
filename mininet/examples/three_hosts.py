# SPDX-License-Identifier: Apache-2.0
"""Stock Mininet: three hosts and a P4 switch with PID-Delay on every port, on this machine's kernel in real time.
As root:

    unshare -nmpf --kill-child --mount-proc build/venv/bin/python mininet/examples/three_hosts.py

Prints pingall's loss and what the switch has counted; exit status 1 if a packet was lost.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "controller")]  # where weirlab and weir are

from mininet.cli import CLI  # noqa: E402
from mininet.log import setLogLevel  # noqa: E402
from mininet.net import Mininet  # noqa: E402
from mininet.topo import Topo  # noqa: E402

from weirlab.lab.net import NetError  # noqa: E402
from weirlab.lab.p4switch import P4Switch  # noqa: E402


class ThreeHosts(Topo):
    def build(self, switch: str) -> None:
        s1 = self.addSwitch("s1", cls=P4Switch, switch=switch, config=HERE / "three_hosts.toml")
        for number in range(1, 4):
            host = self.addHost(f"h{number}", ip=f"10.0.0.{number}/24", mac=f"02:00:00:00:00:{number:02x}")
            self.addLink(host, s1, port2=number)  # Mininet's port numbers are the P4 ports


def main() -> int:
    arguments = argparse.ArgumentParser(description="Three hosts and a P4 switch.")
    arguments.add_argument("--switch", choices=("embedded", "bmv2", "auto"), default="auto")
    arguments.add_argument("--cli", action="store_true", help="Mininet's command line before the end")
    args = arguments.parse_args()
    setLogLevel("warning")
    Mininet.inited = True  # it would raise the machine's limits by sysctl, for everybody on it
    try:
        net = Mininet(topo=ThreeHosts(switch=args.switch), controller=None)
        try:
            net.start()
            lost_percent = net.pingAll()
            print(f"pingall: {lost_percent:g} % lost")
            print(net["s1"].weir("p4", "show", *net["s1"].device_words(), "--table", "ipv4_lpm"))
            if args.cli:
                CLI(net)
        finally:
            net.stop()
    except NetError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if lost_percent else 0


if __name__ == "__main__":
    sys.exit(main())
