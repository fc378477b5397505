# SPDX-License-Identifier: Apache-2.0
"""Hosts and switches with the keywords of the classes of p4lang's tutorials (P4Host, P4Switch, P4RuntimeSwitch) and of
p4-utils. Errors are NetError.

A switch is in the root namespace as theirs are, so that controllers reach its servers at 127.0.0.1.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mininet.log import error, output, warn
from mininet.node import Host, Switch

from weirlab.bmv2 import leftovers
from weirlab.lab.net import NetError, expect, in_namespace, offloads_off
from weirlab.lab.p4switch import LOOK_EVERY_S, READY_LIMIT_S, TARGETS, VALUES, P4Node, Queue, Target, find

BMV2_NAMES = ("simple_switch", "simple_switch_grpc")
_VERSION_LIMIT_S = 10


class P4Host(Host):
    """A host without offloads and IPv6, whose interface is called `interface` (None: Mininet's name, as p4-utils
    expects). `log_enabled` and `log_dir` are accepted; a host has no log."""

    def __init__(
        self,
        name: str,
        *args: Any,
        interface: str | None = "eth0",
        log_enabled: bool = False,
        log_dir: str | None = None,
        **params: Any,
    ) -> None:
        self.interface = interface
        self.log_enabled, self.log_dir = log_enabled, log_dir
        super().__init__(name, *args, **params)

    def config(self, **params: Any) -> Any:
        intf = self.defaultIntf()
        if intf is not None and self.interface:
            intf.rename(self.interface)
        result = super().config(**params)
        with in_namespace(f"/proc/{self.pid}/ns/net"):
            for each in self.intfList():
                offloads_off(each.name)
            for kind in ("all", "default", "lo"):
                Path(f"/proc/sys/net/ipv6/conf/{kind}/disable_ipv6").write_text("1")
        return result

    def describe(self, sw_addr: str | None = None, sw_mac: str | None = None) -> None:
        """Prints the host's addresses."""
        intf = self.defaultIntf()
        output(f"{self.name}: {intf.name} {intf.IP()} {intf.MAC()}\n")
        if sw_addr is not None or sw_mac is not None:
            output(f"{self.name}: route to its switch {sw_addr} ({sw_mac})\n")


def program_of(name: str | None) -> tuple[str, str]:
    """Kind and path of a switch's program. None: weir-switch. A name of BMv2's that is not on PATH: weir-switch too."""
    path = shutil.which(name) if name else None
    if name and path is None and Path(name).name not in BMV2_NAMES:
        raise NetError(f"sw_path {name!r}: no such program on PATH; leave it out for weir-switch")
    if path is not None:
        return ("embedded" if _is_ours(path) else "bmv2"), path
    own = TARGETS["embedded"]
    path = find(own)
    if path is None:
        raise NetError(f"{own} is not on PATH: install the wheel weir_switch, or build it (./run switch --help)")
    return "embedded", path


@cache
def version_of(path: str) -> str:
    """A switch's name and version. Raises NetError."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise NetError(f"sw_path {path}: can't be started: {failed}") from None
    name, said = Path(path).name, done.stdout.strip().partition("\n")[0] or "of unknown version"
    return said if "weir-switch" in said else f"{name} {said}"  # BMv2 prints the version alone


def _is_ours(path: str) -> bool:
    return Path(path).name == TARGETS["embedded"] or TARGETS["embedded"] in version_of(path)


class WeirSwitch(P4Node, Switch):
    """A switch with its program, a Thrift server and P4Runtime, as the P4Switch of the tutorials and of p4-utils.

    | keyword | value |
    |---|---|
    | `sw_path`, `sw_bin` | program (default weir-switch) |
    | `json_path` | BMv2's JSON, weir-p4c's JSON or P4 source |
    | `thrift_port`, `grpc_port` | ports of the servers, from 9090 and 50051 on by default |
    | `pcap_dump`, `pcap_dir` | a folder for captures, or True and the folder |
    | `log_file`, `log_console`, `log_enabled`, `log_dir` | a file, or a folder for `p4s.NAME.log` |
    | `device_id`, `cpu_port` | as in P4Runtime; by default the ids count from 0 |
    | `priority_queues`, `priority_queues_num` | number of queues of each port |
    | `queues` | `{PORT: weirlab.lab.p4switch.Queue(...)}` |

    `verbose` and `enable_debugger` have no effect.
    """

    needs_program = True
    next_thrift_port = 9090
    next_grpc_port = 50051
    next_device_id = 0

    def __init__(
        self,
        name: str,
        sw_path: str | None = None,
        json_path: str | os.PathLike | None = None,
        thrift_port: int | None = None,
        pcap_dump: str | os.PathLike | bool = False,
        log_console: bool = False,
        log_file: str | os.PathLike | None = None,
        verbose: bool = False,
        device_id: int | None = None,
        enable_debugger: bool = False,
        *,
        grpc_port: int | None = None,
        sw_bin: str | None = None,
        pcap_dir: str | os.PathLike | None = None,
        log_enabled: bool = False,
        log_dir: str | os.PathLike = "",
        cpu_port: int | None = None,
        priority_queues: int | None = None,
        priority_queues_num: int | None = None,
        queues: Mapping[int, Queue] | None = None,
        **params: Any,
    ) -> None:
        self.sw_bin = self.sw_path = sw_bin or sw_path
        self.thrift_port = _port(WeirSwitch, "thrift_port", thrift_port)
        self.grpc_port = _port(WeirSwitch, "grpc_port", grpc_port)
        if device_id is None:
            device_id = WeirSwitch.next_device_id
        WeirSwitch.next_device_id = max(WeirSwitch.next_device_id, device_id + 1)
        self.device_id, self.cpu_port, self.verbose = device_id, cpu_port, verbose
        self.pcap_dump = pcap_dump
        self.pcap_dir = pcap_dir if isinstance(pcap_dump, bool) else pcap_dump
        self.log_console, self.log_enabled, self.log_dir = log_console, log_enabled, log_dir
        if enable_debugger:
            warn(f"switch {name}: there is no debugger\n")
        if log_file is None and log_enabled:
            log_file = Path(log_dir or ".") / f"p4s.{name}.log"
        priorities = priority_queues or priority_queues_num
        given = {"device_id": device_id, "cpu_port": cpu_port, "priorities": priorities, "queues": queues}
        expect(f"switch {name}: ", {**given, "log": log_file}, VALUES)
        self.set_json(json_path)
        self.set_up(
            found=program_of(self.sw_path),
            grpc=f"127.0.0.1:{self.grpc_port}",
            thrift_port=self.thrift_port,
            queues=queues,
            log=log_file,
            pcap=(self.pcap_dir or ".") if pcap_dump else None,
            device_id=device_id,
            cpu_port=cpu_port,
            priorities=priorities,
        )
        super().__init__(name, **{"dpid": f"{device_id + 1:016x}", **params})

    def set_json(self, json_path: str | os.PathLike | None) -> None:
        """The program of the next start; None: a controller loads it."""
        if json_path is not None and not Path(json_path).is_file():
            raise NetError(f"json_path {str(json_path)!r}: no such file; compile the program first")
        if json_path is None and self.needs_program:
            raise NetError("json_path: missing; give the program's file, or take WeirGrpcSwitch")
        self.json_path = json_path

    def shape(self, intf: Any, mbit_s: float) -> bool:
        """Give the port of `intf` a rate in Mbit/s; False for a switch that has no such rates."""
        if self.kind != "embedded":
            return False
        port = self.ports[intf]
        depth = self.options["queues"].get(port, Queue()).depth_packets
        self.options["queues"][port] = Queue(rate_bit_s=round(mbit_s * 1e6), depth_packets=depth)
        return True

    # As P4Node starts it

    def namespace_path(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    def without_ipv6(self) -> list[str]:
        return [intf.name for intf in self._links()]

    def _links(self) -> list[Any]:
        return [intf for port, intf in sorted(self.intfs.items()) if intf.name != "lo"]

    def command_line(self, target: Target) -> list[str]:
        return [*self._embedded(target), *self._log_words()] if self.kind == "embedded" else self._bmv2(target)

    def _embedded(self, target: Target) -> list[str]:
        program = ["--p4", str(self.json_path)] if self.json_path is not None else ["--no-p4"]
        argv = [word for word in target.embedded(self.program) if word != "--no-p4"]
        return [*argv, "--thrift-port", str(self.thrift_port), *program]

    def _bmv2(self, target: Target) -> list[str]:
        argv = [word for word in target.bmv2(self.program) if word != "--no-p4"]
        end = argv.index("--")
        program = [str(self.json_path) if self.json_path is not None else "--no-p4"]
        own, of_target = [*argv[:end], *program, *self._log_words()], argv[end + 1 :]
        if "grpc" not in Path(self.program).name:
            of_target = of_target[2:]
        return [*own, *(["--", *of_target] if of_target else [])]

    def _log_words(self) -> list[str]:
        return ["--log-console"] if self.log_console or self.log_enabled else []

    def start(self, controllers: Any = None) -> None:
        for what, port in (("thrift_port", self.thrift_port), ("grpc_port", self.grpc_port)):
            if self._listens(port):
                with in_namespace(self.namespace_path()):
                    who = leftovers.listener(port)
                raise NetError(f"switch {self.name}: {what} {port}: {who} listens there; end it, or choose a free port")
        super().start(controllers)

    def popen(self, *args: Any, **params: Any) -> Any:
        """As Mininet's; the process ends with this one."""
        return super().popen(*args, **{"preexec_fn": leftovers.ends_with_parent(), **params})

    def wait_ready(self) -> None:
        """Wait until its servers take connections."""
        deadline_s = time.monotonic() + READY_LIMIT_S
        while not self.switch_status():
            self.check()
            if time.monotonic() > deadline_s:
                raise NetError(f"switch {self.name}: not ready in {READY_LIMIT_S:g} s: {self.last_words()}")
            time.sleep(LOOK_EVERY_S)

    def stop(self, deleteIntfs: bool = True) -> None:
        try:
            self.stop_target()
        except NetError as failed:
            error(f"{failed}\n")  # the other nodes are still to be stopped
        super().stop(deleteIntfs)

    # As p4-utils asks

    @property
    def switch_pid(self) -> int | None:
        """The process of the switch; None while it does not run."""
        return self.process.pid if self.process is not None else None

    def switch_running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def thrift_listening(self) -> bool:
        """Whether a program listens at `thrift_port`."""
        return self._listens(self.thrift_port)

    def grpc_listening(self) -> bool:
        """Whether a program listens at `grpc_port`."""
        return self._listens(self.grpc_port)

    def switch_status(self) -> bool:
        """Whether it runs and its servers listen."""
        if self.kind == "embedded":
            return self.switch_running() and self.grpc_listening()  # the last of its servers
        has_grpc = "grpc" in Path(self.program).name
        return self.switch_running() and self.thrift_listening() and (not has_grpc or self.grpc_listening())

    def _listens(self, port: int) -> bool:
        with in_namespace(self.namespace_path()):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                return False
        return True

    def describe(self) -> None:
        """Prints its program with the version, and the ports of its servers."""
        ports = f"Thrift port {self.thrift_port}, P4Runtime port {self.grpc_port}"
        output(f"{self.name}: {version_of(self.program)}, {ports}\n")


class WeirGrpcSwitch(WeirSwitch):
    """As WeirSwitch; without `json_path` a controller loads the program. As the tutorials' and p4-utils'
    P4RuntimeSwitch."""

    needs_program = False


def _port(counters: type[WeirSwitch], keyword: str, given: int | None) -> int:
    """The given port, or the next of the class."""
    if given is None:
        given = getattr(counters, f"next_{keyword}")
    expect("", {"thrift_port": given}, VALUES)
    setattr(counters, f"next_{keyword}", max(getattr(counters, f"next_{keyword}"), given + 1))
    return given
