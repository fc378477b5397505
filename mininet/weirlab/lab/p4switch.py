# SPDX-License-Identifier: Apache-2.0
"""A P4 switch as a Mininet node: ours (`weir-switch`) or BMv2 (`simple_switch_grpc`), the same parameters for both.

`P4Switch` is for any Mininet script, `LabP4Switch` for `LabNet`. Both start the target with the node's interfaces as
ports (Mininet's port numbers are the P4 ports), give each port's output queue its rate and depth, wait until the
P4Runtime server answers, and, if given a `config`, deploy it with the controller. Failures raise NetError.
"""

from __future__ import annotations

import difflib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mininet.node import Switch

from weirlab import paths
from weirlab.lab import controller_fork
from weirlab.lab.net import LabNode, NetError, Plan, Rule, are_texts, expect, in_namespace, is_text, offloads_off

TARGETS = {"embedded": "weir-switch", "bmv2": "simple_switch_grpc"}
BMV2_CLI = "simple_switch_CLI"
ALIASES = {"p4": "program", "p4_src": "program"}  # of other projects' switch classes
REMEDIES = {
    **dict.fromkeys(("json", "json_path"), "program=FILE.p4 (deploy=(...) for compiled files)"),
    **dict.fromkeys(("grpc_port", "grpcport"), 'grpc="127.0.0.1:PORT"'),
    **dict.fromkeys(("sw_path", "target_name"), 'switch="embedded" or "bmv2"'),
    **dict.fromkeys(("pcap_dump", "pktdump"), "pcap=FOLDER"),
    **dict.fromkeys(("log_file", "log_console", "enable_debugger", "verbose"), "log=FILE"),
    "thriftport": "thrift_port",
    "cpuport": "cpu_port",
    "priority_queues_num": "queues",
}
"""Keywords of other projects' switch classes whose values differ in form, and the replacement."""
MININET_KEYWORDS = frozenset(
    ("dpid", "opts", "listenPort", "inNamespace", "isSwitch", "privateDirs", "waitExited", "batch", "mac", "ip", "lo")
)
LAB_KEYWORDS = frozenset(("forwards", "rules", "routes", "ip_lines", "tc_lines"))
LOOPBACK = ("127.", "[::1]:")
READY_LIMIT_S = 30.0
STOP_LIMIT_S = 10.0
LOOK_EVERY_S = 0.02  # while waiting for the server
LAST_WORDS = 5  # lines of a target's log that an error repeats
FIFO_PRIORITY = 1  # the lowest of SCHED_FIFO: all of them have it, so none preempts another


def whole(least: int, most: int | None = None) -> Rule:
    """A whole number in that range; no bool."""

    def fits(value: Any) -> bool:
        return type(value) is int and value >= least and (most is None or value <= most)

    return fits, f"a whole number of {least} or more" if most is None else f"a whole number of {least} to {most}"


@dataclass(frozen=True)
class Queue:
    """A port's output queue; None leaves the target's own value. BMv2 knows rates in packets/s only, and no flow
    queues."""

    rate_bit_s: int | None = None
    rate_packets_s: int | None = None
    depth_packets: int | None = None
    flows: bool = False

    def __post_init__(self) -> None:
        expect("queue: ", vars(self), dict.fromkeys(("rate_bit_s", "rate_packets_s", "depth_packets"), whole(1)))
        if not isinstance(self.flows, bool):
            raise NetError(f"queue: flows {self.flows!r}: must be True or False")
        if self.rate_bit_s is not None and self.rate_packets_s is not None:
            raise NetError("queue: rate_bit_s and rate_packets_s are both given; give one of them")


@dataclass(frozen=True)
class Target:
    """Target to start. `ports` is port number to interface; `queues` port number to Queue; `depth_packets` is that of
    all queues without a Queue (the embedded target's only). `priorities`: queues of each port; None: the target's own
    number, one. BMv2's share no rate."""

    ports: Mapping[int, str]
    queues: Mapping[int, Queue] = field(default_factory=dict)
    depth_packets: int | None = None
    priorities: int | None = None
    device_id: int = 1
    grpc: str = "127.0.0.1:9559"
    thrift_port: int = 9090
    cpu_port: int | None = None
    pcap: Path | None = None
    seed: int | None = None
    program: Path | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.queues) - set(self.ports))
        if unknown:
            raise NetError(f"queue of port {unknown[0]}: there is no such port; there are {_list(self.ports)}")

    def embedded(self, binary: str) -> list[str]:
        """weir-switch's command line."""
        argv = [binary, "--device-id", str(self.device_id), "--grpc-server-addr", self.grpc]
        argv += ["--p4", str(self.program)] if self.program is not None else ["--no-p4"]
        argv += ["--priority-queues", str(self.priorities)] if self.priorities is not None else []
        for port, device in sorted(self.ports.items()):
            argv += ["-i", f"{port}@{device}"]
        argv += [] if self.grpc.startswith(LOOPBACK) else ["--insecure-listen"]
        argv += ["--queue", f"default:depth={self.depth_packets}p"] if self.depth_packets is not None else []
        for port, queue in sorted(self.queues.items()):
            words = []
            if queue.rate_bit_s is not None:
                words.append(f"rate={queue.rate_bit_s}bit")
            if queue.rate_packets_s is not None:
                words.append(f"rate={queue.rate_packets_s}pps")
            if queue.depth_packets is not None:
                words.append(f"depth={queue.depth_packets}p")
            words += ["flows"] if queue.flows else []
            if words:
                argv += ["--queue", f"{port}:{','.join(words)}"]
        argv += ["--cpu-port", str(self.cpu_port)] if self.cpu_port is not None else []
        argv += ["--seed", str(self.seed)] if self.seed is not None else []
        return argv + ([f"--pcap={self.pcap}"] if self.pcap else [])

    def bmv2(self, binary: str) -> list[str]:
        """simple_switch_grpc's command line; what stands after `--` is for simple_switch itself."""
        if self.program is not None:
            raise NetError("program: BMv2 takes compiled programs only; give config, with which p4c compiles it")
        if self.depth_packets is not None:
            raise NetError("depth_packets: BMv2 has no depth for all queues; give each port's in queues")
        argv = [binary, "--device-id", str(self.device_id), "--thrift-port", str(self.thrift_port), "--no-p4"]
        for port, device in sorted(self.ports.items()):
            argv += ["-i", f"{port}@{device}"]
        argv += [f"--pcap={self.pcap}"] if self.pcap else []
        argv += ["--", "--grpc-server-addr", self.grpc]
        argv += ["--priority-queues", str(self.priorities)] if self.priorities is not None else []
        return argv + (["--cpu-port", str(self.cpu_port)] if self.cpu_port is not None else [])

    def bmv2_queue_commands(self) -> list[str]:
        """Commands for simple_switch_CLI: BMv2 has no other way to set a queue."""
        lines = []
        for port, queue in sorted(self.queues.items()):
            if queue.rate_bit_s is not None:
                raise NetError(f"queue of port {port}: BMv2's rates are in packets/s; give rate_packets_s")
            if queue.flows:
                raise NetError(f"queue of port {port}: BMv2 has no flow queues (flows)")
            if queue.rate_packets_s is not None:
                lines.append(f"set_queue_rate {queue.rate_packets_s} {port}")
            if queue.depth_packets is not None:
                lines.append(f"set_queue_depth {queue.depth_packets} {port}")
        return lines


@dataclass(frozen=True)
class DeviceClock:
    """Clock of a P4Runtime server's digests: its time since its start or, as BMv2's, the time of day.

    `started_us` is the monotonic clock's at its start, `boot_us` the time of day at which that clock was 0.
    """

    started_us: int = 0
    boot_us: int = field(default_factory=lambda: round((time.time_ns() - time.monotonic_ns()) / 1000))

    def monotonic_us(self, device_us: int) -> int:
        return device_us - self.boot_us if device_us >= self.boot_us else device_us + self.started_us


def aqm_line(record: Mapping[str, Any], hop: str, squared: bool, dq_shift: int, clock: DeviceClock) -> dict[str, Any]:
    """A record of `weir p4 digests aqm_state_t --jsonl` as a line of samples (weirlab.metrics)."""
    u = record["u_q40"] / 2**40
    drain_us = record["dq_time_q8_us"] / 256
    return {
        "k": "aqm",
        "t_us": clock.monotonic_us(record["device_time_ns"] // 1000),
        "hop": hop,
        "backlog_bytes": record["backlog_bytes"],
        "tau_us": record["delay_us"],
        "u": u,
        "drop_probability": u * u if squared else u,
        "dq_rate_bit_s": round(8e6 * 2**dq_shift / drain_us) if drain_us else 0,
        "seen": record["enqueued_packets"] + record["aqm_dropped_packets"],
        "marks": record["aqm_marked_packets"],
        "drops_aqm": record["aqm_dropped_packets"],
        "drops_limit": record["tail_dropped_packets"],
        "row": record["row"],
    }


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and os.fspath(value) != ""


def _is_file(value: Any) -> bool:
    return _is_path(value) and Path(value).is_file()


def _is_server(value: Any) -> bool:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return host != "" and port.isascii() and port.isdigit() and 0 < int(port) < 65536


def _are_queues(value: Any) -> bool:
    return isinstance(value, Mapping) and all(type(key) is int and isinstance(value[key], Queue) for key in value)


VALUES: dict[str, Rule] = {
    "switch": (is_text, '"embedded", "bmv2" or "auto"'),
    "program": (_is_file, "a P4 program, an existing file"),
    "queues": (_are_queues, "{PORT: Queue(...)}, PORT a number"),
    "depth_packets": whole(1),
    "priorities": (lambda value: value is None or whole(1, 8)[0](value), whole(1, 8)[1]),
    "config": (_is_file, "an existing file for weir p4 deploy"),
    "deploy": (are_texts, 'words for weir p4 deploy, as ("--empty",)'),
    "device_id": whole(0, 2**64 - 1),
    "grpc": (_is_server, '"HOST:PORT", as "127.0.0.1:9559"'),
    "thrift_port": whole(1, 65535),
    "cpu_port": whole(1, 511),
    "pcap": (_is_path, "a folder"),
    "seed": whole(0, 2**64 - 1),
    "log": (_is_path, "a file"),
    "management": (lambda value: isinstance(value, str), "the name of an interface"),
}
"""Values of a P4 switch's keywords."""


def find(name: str) -> str | None:
    """A program's path: on PATH, or built by this clone."""
    folders = [os.environ.get("PATH", os.defpath)]
    with suppress(paths.NoCloneError):
        folders.append(str(paths.build() / "bin"))
    return shutil.which(name, path=":".join(folders))


def choose(switch: str) -> tuple[str, str]:
    """Kind and program for `embedded`, `bmv2` or `auto` (embedded if it is built, else BMv2)."""
    if switch not in (*TARGETS, "auto"):
        raise NetError(f"switch {switch!r}: unknown; choose one of {_list([*TARGETS, 'auto'])}")
    for kind in TARGETS if switch == "auto" else [switch]:
        if program := (paths.of_others if kind == "bmv2" else find)(TARGETS[kind]):
            return kind, program
    hidden = "; a lab hides /run" if os.environ.get("WEIR_LAB") else ""
    missing = {
        "embedded": "weir-switch is not built: ./run switch --help builds it",
        "bmv2": "simple_switch_grpc is not on PATH: install BMv2 and its P4Runtime server, or choose embedded" + hidden,
    }
    raise NetError("; ".join(missing.values()) if switch == "auto" else missing[switch])


def own_keywords(params: dict[str, Any], others: frozenset[str]) -> dict[str, Any]:
    """Take a P4 switch's own keywords out of `params`. Raises NetError for one that neither the switch nor its base
    class has: Mininet keeps any keyword and ignores it."""
    own: dict[str, Any] = {}
    for key in [key for key in params if key not in others]:
        name = ALIASES.get(key, key)
        if name not in P4Node.OWN:
            near = difflib.get_close_matches(key, P4Node.OWN, n=1)
            remedy = REMEDIES.get(key) or (near[0] if near else f"one of {', '.join(P4Node.OWN)}")
            raise NetError(f"{key}: a P4 switch has no such parameter; give {remedy}")
        if name in own:
            raise NetError(f"{key}: {name} is given twice")
        own[name] = params.pop(key)
    expect("", own, VALUES)
    return own


class P4Node:
    """Common part of both kinds of node. The class beside it gives `name`, `intfs`, `popen` and `namespace_path`."""

    name: str
    intfs: dict[int, Any]
    popen: Callable[..., subprocess.Popen]

    OWN = (
        "switch", "program", "queues", "depth_packets", "priorities", "config", "deploy", "device_id", "grpc",
        "thrift_port", "cpu_port", "pcap", "seed", "log", "management",
    )  # fmt: skip

    def set_up(
        self,
        *,
        switch: str = "auto",
        program: str | os.PathLike | None = None,
        queues: Mapping[int, Queue] | None = None,
        depth_packets: int | None = None,
        priorities: int | None = None,
        config: str | os.PathLike | None = None,
        deploy: tuple[str, ...] = (),
        device_id: int = 1,
        grpc: str = "127.0.0.1:9559",
        thrift_port: int = 9090,
        cpu_port: int | None = None,
        pcap: str | os.PathLike | None = None,
        seed: int | None = None,
        log: str | os.PathLike | None = None,
        management: str = "",
        found: tuple[str, str] | None = None,
    ) -> None:
        """`program` is P4 source: that of `config`, or, without `config`, of a switch that a controller of your own
        configures. `config` is a file for `weir p4 deploy`, `deploy` more words for it. `log` takes what the target
        says (else a file that goes with the node); `pcap` is a folder. `seed` starts the embedded target's random
        numbers. `grpc` and `thrift_port` are in the node's own namespace, so that several switches may have the same.
        `management` is an interface that is no port, by which a controller elsewhere reaches `grpc`. `found` has kind
        and program in the place of `switch`."""
        self.kind, self.program = found or choose(switch)
        started_with = Path(program) if program is not None and config is None else None
        if program is not None and config is not None:
            deploy = ("--program", os.fspath(program), *deploy)
        self.config_file, self.deploy_words, self.management = config, deploy, management
        self.options: dict[str, Any] = {
            "queues": dict(queues or {}),
            "depth_packets": depth_packets,
            "priorities": priorities,
            "device_id": device_id,
            "grpc": grpc,
            "thrift_port": thrift_port,
            "cpu_port": cpu_port,
            "pcap": Path(pcap) if pcap is not None else None,
            "seed": seed,
            "program": started_with,
        }
        self.process: subprocess.Popen | None = None
        self.log = Path(log) if log is not None else None
        self.log_is_ours = log is None

    def namespace_path(self) -> str:
        raise NotImplementedError

    def start(self, _controllers: Any = None) -> None:
        ports = {port: intf.name for port, intf in self.intfs.items() if intf.name not in ("lo", self.management)}
        target = Target(ports=ports, **self.options)
        argv = self.command_line(target)
        after = target.bmv2_queue_commands() if self.kind == "bmv2" else []
        if after and not find(BMV2_CLI):
            raise NetError(f"switch {self.name}: {BMV2_CLI} is not on PATH; BMv2's queues can't be set without it")
        self.prepare_interfaces()
        if self.log is None:
            handle, path = tempfile.mkstemp(prefix=f"weir-{self.name}-", suffix=".txt")
            os.close(handle)
            self.log = Path(path)
        with open(self.log, "wb") as said:
            self.clock = DeviceClock(started_us=time.monotonic_ns() // 1000)
            self.process = self.popen(argv, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            self.wait_ready()
            if after:
                self.tell_bmv2(after)
            if self.config_file is not None:
                self.deploy(self.config_file, *self.deploy_words)
        except BaseException:
            self.kill()
            raise

    def command_line(self, target: Target) -> list[str]:
        """Command that starts the target."""
        made: list[str] = getattr(target, self.kind)(self.program)
        return made

    def prepare_interfaces(self) -> None:
        """Offloads off at both ends of each link: a switch in user space would get packets without checksums, and
        several in one. No IPv6 of the switch's own, which would mix its packets with those it forwards. All up, which
        Mininet leaves to the switch."""
        lines = "".join(f"link set {name} up\n" for name in ("lo", *(intf.name for intf in self.intfs.values())))
        with in_namespace(self.namespace_path()):
            for name in self.without_ipv6():
                with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
                    file.write("1")
            done = subprocess.run(["ip", "-batch", "-"], input=lines, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NetError(f"switch {self.name}: its interfaces can't be brought up: {done.stderr.strip()}")
        for intf in self.intfs.values():
            if intf.link is None:
                continue
            for end in (intf.link.intf1, intf.link.intf2):
                with in_namespace(namespace_of(end.node)):
                    offloads_off(end.name)

    def without_ipv6(self) -> list[str]:
        """Interfaces of the node's namespace on which its kernel shall not speak IPv6."""
        return ["all"]

    def wait_ready(self) -> None:
        """Wait until the P4Runtime server takes connections."""
        host, _, port = self.options["grpc"].rpartition(":")
        deadline = time.monotonic() + READY_LIMIT_S
        with in_namespace(self.namespace_path()):
            while True:
                self.check()
                try:
                    socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
                    return
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise NetError(
                            f"switch {self.name}: no answer at {self.options['grpc']} in {READY_LIMIT_S:g} s "
                            f"({error.strerror}): {self.last_words()}"
                        ) from None
                time.sleep(LOOK_EVERY_S)

    def tell_bmv2(self, lines: list[str]) -> None:
        argv = [find(BMV2_CLI) or BMV2_CLI, "--thrift-port", str(self.options["thrift_port"])]
        process = self.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = process.communicate("\n".join(lines).encode() + b"\n")
        # It ends with 0 whatever became of a command, and says so in words.
        if process.returncode != 0 or b"Error" in said or b"Invalid" in said:
            raise NetError(f"switch {self.name}: {BMV2_CLI} refused {'; '.join(lines)}: {said.decode().strip()}")

    def deploy(self, config: str | os.PathLike, *words: str) -> str:
        """Push pipeline, routes and gains as the controller does on a real switch, and return its output."""
        wanted = ("--switch", self.kind, "--config", os.fspath(config))
        return self.weir("p4", "deploy", *self.device_words(), *wanted, *words)

    def device_words(self) -> list[str]:
        """By which the commands of `weir p4` find this switch, in its namespace."""
        return ["--address", self.options["grpc"], "--device-id", str(self.options["device_id"])]

    def weir(self, *words: str) -> str:
        """Run a command of the controller (`weir WORDS`) in this node's namespace and return its output."""
        status, said, complaint = self.call_weir(words)
        if status != 0:
            told = " ".join((complaint or said).split())  # a run's error is one line
            raise NetError(f"switch {self.name}: 'weir {' '.join(words)}' ended with {status}: {told}")
        return said

    def call_weir(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        """The same; its exit status, its output and its error output."""
        process = self.popen(weir_command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=weir_variables())
        said, complaint = process.communicate()
        return process.returncode, said.decode(), complaint.decode(errors="replace")

    def check(self) -> None:
        """Raise if the target has ended."""
        if self.process is not None and self.process.poll() is not None:
            status, self.process = self.process.returncode, None
            raise NetError(f"switch {self.name}: {Path(self.program).name} ended with {status}: {self.last_words()}")

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:] if self.log else []
        return " | ".join(lines) or "its log is empty"

    def stop_target(self) -> None:
        """End the target. Raises if it had ended by itself before, or does not end on SIGTERM."""
        try:
            self.check()
            if self.process is not None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(timeout=STOP_LIMIT_S)
                except subprocess.TimeoutExpired:
                    raise NetError(
                        f"switch {self.name}: {Path(self.program).name} did not end on SIGTERM: {self.last_words()}"
                    ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        if self.log_is_ours and self.log is not None:
            self.log.unlink(missing_ok=True)
            self.log = None


class P4Switch(P4Node, Switch):
    """For stock Mininet: `net.addSwitch("s1", cls=P4Switch, config="s1.toml")`.

    It lives in a namespace of its own, whatever `inNamespace` says: in the root namespace the machine's own kernel
    would also answer and route what comes in at the ports.
    """

    def __init__(self, name: str, **params: Any) -> None:
        own = own_keywords(params, MININET_KEYWORDS)
        self.set_up(**own)
        super().__init__(name, **{**params, "inNamespace": True})
        if "device_id" not in own:
            self.options["device_id"] = int(self.dpid, 16)

    def namespace_path(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    def defaultIntf(self) -> Any:
        return self.intfs[min(self.intfs)] if self.intfs else None

    def stop(self, deleteIntfs: bool = True) -> None:
        try:
            self.stop_target()
        finally:
            super().stop(deleteIntfs)


class LabP4Switch(P4Node, LabNode):
    """For LabNet: `LabNet(topo, switch=LabP4Switch)`, and `addSwitch("sw", switch="embedded")` in the topology."""

    def __init__(self, name: str, plan: Plan, **params: Any) -> None:
        self.set_up(**own_keywords(params, MININET_KEYWORDS | LAB_KEYWORDS))
        super().__init__(name, plan, **params)

    def namespace_path(self) -> str:
        return self.namespace

    def prepare_interfaces(self) -> None:
        pass  # LabIntf has done it

    def call_weir(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        if controller_fork.can_fork():
            return controller_fork.call(self.namespace, words)
        return super().call_weir(words)

    def stop(self, deleteIntfs: bool = True) -> None:
        self.stop_target()


def tell_cycle_counter_rate() -> None:
    """Set the rate of the processor's cycle counter where grpc reads it.

    It would time the counter against the lab's clock otherwise. But the counter is the host's: how long that takes, in
    virtual time, would depend on how busy the machine is, and so would the run (seen: 4 of 36 runs differed). Outside
    the exact lab there is nothing to say.
    """
    if os.environ["WEIR_LAB"] != "exact":
        return
    folder = Path("/sys/devices/system/cpu/cpu0")
    subprocess.run(["mount", "-t", "tmpfs", "tsc", folder], check=True)
    (folder / "tsc_freq_khz").write_text("1000000\n")


def weir_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "weir.cli", *words]


def grpc_command(*words: str) -> list[str]:
    """`weir WORDS` beside a run's traffic, with gRPC's threads.

    In the exact lab these are under SCHED_FIFO. The fair scheduler's choice among several ready threads depends on
    their number and order at the start of the program, and so on the compiled Python files in the clone.
    """
    order = ["chrt", "--fifo", str(FIFO_PRIORITY)] if os.environ.get("WEIR_LAB") == "exact" else []
    return [*order, *weir_command(*words)]


def run_in_order() -> None:
    """The same for this process, before its first thread, and for all that it starts."""
    if os.environ.get("WEIR_LAB") == "exact":
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))


def weir_variables() -> dict[str, str]:
    folders = [paths.import_path(), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def namespace_of(node: Any) -> str:
    return getattr(node, "namespace", None) or f"/proc/{node.pid}/ns/net"


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names)) or "none"
