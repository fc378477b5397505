# SPDX-License-Identifier: Apache-2.0
"""`python -m weirlab.bmv2`: an exercise in the form of p4lang's tutorials, with the options of their run_exercise.py.

make run RUN_SCRIPT="-m weirlab.bmv2"
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mininet.cli import CLI
from mininet.log import error, output, setLogLevel
from mininet.net import Mininet
from mininet.topo import Topo

from weirlab.bmv2 import topology
from weirlab.bmv2.links import WeirLink
from weirlab.bmv2.nodes import P4Host, WeirGrpcSwitch
from weirlab.bmv2.topology import SwitchSpec, Topology, TopologyError
from weirlab.lab.net import NetError
from weirlab.lab.p4switch import BMV2_CLI, find

DONE, FAILED, WRONG_CALL = 0, 1, 2
PACKAGES = {
    "mnexec": "mininet",
    "ip": "iproute2",
    "ifconfig": "net-tools",
    "ethtool": "ethtool",
    "ping": "iputils-ping",
}
"""Programs that Mininet runs, with their Debian packages: a small installation lacks some."""
EPILOG = """\
examples:
  python -m weirlab.bmv2 -t topology.json -j build/basic.json
  echo 'h1 ping -c 1 h2' | python -m weirlab.bmv2 -j build/basic.json

Mininet's commands are read from standard input; its end or `exit` ends the network.
exit status: 0 done, 1 failed, 2 wrong call.
"""


class ExerciseTopo(Topo):
    """Mininet's form of a topology file."""

    def build(self, file: Topology, args: argparse.Namespace) -> None:
        for name, host in file.hosts.items():
            self.addHost(name, **{key: value for key, value in (("ip", host.ip), ("mac", host.mac)) if value})
        for number, (name, switch) in enumerate(file.switches.items()):
            self.addSwitch(
                name,
                sw_path=args.behavioral_exe,
                json_path=switch.program or args.switch_json,
                device_id=number,
                cpu_port=switch.cpu_port,
                priority_queues=switch.priority_queues,
                pcap_dump=args.pcap_dir,
                log_console=True,
                log_file=Path(args.log_dir) / f"{name}.log",
            )
        for link in file.links:
            (first, port1), (second, port2) = link.ends
            self.addLink(first, second, port1=port1, port2=port2, delay=link.delay, bw=link.rate_mbit_s)


def program_switch(node: WeirGrpcSwitch, switch: SwitchSpec) -> None:
    """Tables and so on of a switch. Raises NetError, OSError."""
    if switch.cli_input is not None:
        if find(BMV2_CLI) is None:
            raise NetError(f"switch {node.name}: cli_input: {BMV2_CLI} is not on PATH")
        node.tell_bmv2(Path(switch.cli_input).read_text(encoding="utf-8").splitlines())
    if switch.runtime_json is not None:
        node.weir("p4", "load", switch.runtime_json, *node.device_words())


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m weirlab.bmv2",
        description="Start an exercise in the form of p4lang's tutorials, as root, with Mininet's command line.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    made.add_argument("-t", "--topo", default="topology.json", metavar="FILE", help="topology (default %(default)s)")
    made.add_argument("-j", "--switch_json", metavar="FILE", help="the program: compiled JSON, or P4 source")
    made.add_argument("-l", "--log-dir", default="logs", metavar="DIR", help="logs of switches (default %(default)s)")
    made.add_argument("-p", "--pcap-dir", default="pcaps", metavar="DIR", help="captures (default %(default)s)")
    made.add_argument("-b", "--behavioral-exe", metavar="PROGRAM", help="the switch (default weir-switch)")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    args = parser().parse_args(words)
    setLogLevel("warning" if args.quiet else "output")
    try:
        file = topology.load(Path(args.topo))
        for folder in (args.log_dir, args.pcap_dir):
            Path(folder).mkdir(parents=True, exist_ok=True)
        if os.geteuid():
            raise NetError("must be root, for Mininet's network namespaces")
        lacking = [f"{name} (Debian package {package})" for name, package in PACKAGES.items() if not shutil.which(name)]
        if lacking:
            raise NetError(f"not on PATH: {', '.join(lacking)}; Mininet runs these programs")
        _run(file, args)
        return DONE
    except TopologyError as fault:
        said, status = str(fault), WRONG_CALL
    except OSError as fault:
        said, status = f"{fault.filename}: {fault.strerror}", WRONG_CALL if fault.filename == args.topo else FAILED
    except NetError as fault:
        said, status = str(fault), FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(f"weirlab.bmv2: error: {said}", file=sys.stderr)
    return status


def _run(file: Topology, args: argparse.Namespace) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: sys.exit(128 + got))
    Mininet.inited = True  # it would raise the machine's limits by sysctl
    net = _network(file, args)
    try:
        net.build()
        net.start()
        for name, host in file.hosts.items():
            for command in host.commands:
                output(net[name].cmd(command))
        for name, switch in file.switches.items():
            program_switch(net[name], switch)
        for node in (*net.switches, *net.hosts):
            node.describe()
        output(f"logs of switches: {args.log_dir}; captures: {args.pcap_dir}\n")
        CLI(net)
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        _stop(net)


def _stop(net: Any) -> None:
    """End the network, also while a command of its nodes runs: a busy shell takes no other."""
    for switch in net.switches:
        try:
            switch.stop_target()  # before its interfaces go
        except NetError as failed:
            error(f"{failed}\n")
    busy = [node for node in net.hosts if node.waiting]
    # Veth pairs end with their namespaces.
    net.links = [link for link in net.links if link.intf1.node not in busy and link.intf2.node not in busy]
    for node in busy:
        node.terminate()
    net.stop()


def _network(file: Topology, args: argparse.Namespace) -> Any:
    topo = ExerciseTopo(file=file, args=args)
    return Mininet(topo=topo, host=P4Host, switch=WeirGrpcSwitch, link=WeirLink, controller=None, build=False)
