# SPDX-License-Identifier: Apache-2.0
"""The controller's side of eBPF queues, on real interfaces: samples, gains, and all that goes wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest
from hypothesis import HealthCheck, given, settings
from packet_rig import PROFILES, REPO, WEIR, runs, until
from params_strategy import ordered_params

from weir.dataplane.base import DataPlaneError, Down, Event, GainsChanged, Note, Sample, Up
from weir.dataplane.bpf import BpfDevice
from weir.gains import Gains
from weir.law import Params
from weir.settings import load

TUNED, PAPER = load(PROFILES / "tuned.toml"), load(PROFILES / "paper.toml")
NAMES = ("q0", "q1")
FRAME = bytes.fromhex("02000000000202000000000188b6") + b"not IP".ljust(86)


@pytest.fixture(scope="module")
def command(rig, tmp_path_factory) -> str:
    """weir-xdp where the queues are: a controller's own namespaces are another's here."""
    for name in NAMES:
        rig.router.sh(
            f"ip link add {name} type veth peer name {name}p; ip link set {name} up; ip link set {name}p up;"
            f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6"
        )
    return script(tmp_path_factory.mktemp("bin") / "weir-xdp", f'exec {" ".join(rig.router.command(WEIR))} "$@"')


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def queues(rig, command):
    """The law on both interfaces; nothing of it afterwards, whatever the test did."""
    for name in NAMES:
        attach(rig, name)
    yield rig
    for name in NAMES:
        for one in (name, f"{name}/ingress"):
            rig.weir("detach", one, check=False)
    assert "nothing is attached" in rig.weir("status").stdout


def attach(rig, name: str, profile: str = "tuned") -> None:
    rig.weir("attach", name, "--gains", PROFILES / f"{profile}.toml", "--rate", "10mbit", "--hook", "tc")


class Watched:
    """A device that has been started, and its events."""

    def __init__(self, device: BpfDevice):
        self.device = device
        self.events: SimpleQueue[Event] = SimpleQueue()
        device.start(self.events)

    def until(self, wanted: Callable[[Event], bool], what: str) -> list[Event]:
        """Events up to the first that is wanted, which is the last of them."""
        told = []
        while not told or not wanted(told[-1]):
            try:
                told.append(self.events.get(timeout=60))  # a patience, not a measurement
            except Empty:
                pytest.fail(f"never told: {what}; but {[e for e in told if not isinstance(e, Sample)]}")
        return told

    def get(self, kind: type, port: str | None = None) -> Event:
        return self.until(
            lambda event: isinstance(event, kind) and port in (None, getattr(event, "port", None)), kind.__name__
        )[-1]

    def config_in_force(self, port: str, config_id: int) -> list[Event]:
        return self.until(
            lambda event: isinstance(event, Sample) and (event.port, event.config_id) == (port, config_id),
            f"a sample of {port} under configuration {config_id}",
        )


@pytest.fixture
def watch(command):
    started = []

    def start(interfaces=NAMES, every_ms=20, **options) -> Watched:
        started.append(Watched(BpfDevice("here", interfaces, every_ms=every_ms, **{"command": command, **options})))
        return started[-1]

    yield start
    for watched in started:
        watched.device.close()


def gains_of(rig, name: str) -> Params:
    return Gains(**rig.status(name)["gains"]).to_params()


def weirs_of(rig) -> list[str]:
    """Processes of ours where the queues are."""
    inside = os.stat(rig.router.netns).st_ino
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "ns/net").stat().st_ino == inside and (folder / "comm").read_text() == "weir-xdp\n":
                found.append(folder.name)
        except OSError:  # ended meanwhile
            continue
    return [pid for pid in found if runs(int(pid))]


def test_samples_say_what_the_queue_says(queues, watch):
    watched = watch()
    up = watched.get(Up)
    assert {port: gains.to_params() for port, gains in up.gains.items()} == dict.fromkeys(NAMES, TUNED.to_params())
    assert not up.restored
    with queues.router.inside():
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind(("q0", 0))
    with out:
        for _ in range(10):
            out.send(FRAME)
    ten = watched.until(lambda e: isinstance(e, Sample) and e.port == "q0" and e.passed_packets == 10, "ten passed")
    sample = ten[-1]
    status = queues.status("q0")
    assert (sample.device, sample.passed_bytes) == ("here", status["counters"]["passed_bytes"])
    assert sample.config_id == status["config_id"]
    assert (sample.u, sample.marks_packets, sample.rate_bit_s) == (0, 0, pytest.approx(10_000_000, rel=1e-6))
    later = watched.get(Sample, "q0")
    assert later.t_us > sample.t_us


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
# A lower target is raised on this link: two packets take 2.4 ms there (test_xdp_slow_lines.py).
@given(params=ordered_params().filter(lambda params: params.target_us >= 2500))
def test_gains_survive_the_way_into_the_queue_and_back(queues, command, params):
    device = BpfDevice("here", ["q0"], command=command)
    device.write_gains("q0", Gains.from_params(params))
    assert device.read_gains()["q0"].to_params() == params
    device.close()


def test_what_we_set_is_not_told_as_somebody_elses(queues, watch):
    watched = watch()
    watched.get(Up)
    for kp in (1.0, 2.0, 3.0):
        watched.device.write_gains("q0", replace(TUNED, kp=kp))
    told = watched.config_in_force("q0", queues.status("q0")["config_id"])
    assert not [event for event in told if isinstance(event, GainsChanged)]
    assert gains_of(queues, "q0") == replace(TUNED, kp=3.0).to_params()


def test_a_value_set_by_hand_is_told_and_stays(queues, watch):
    watched = watch()
    watched.get(Up)
    watched.device.write_gains("q0", replace(TUNED, kp=2.0))
    queues.weir("set", "q0", "target_us=7000")
    changed = watched.get(GainsChanged)
    assert (changed.port, changed.gains.to_params()) == ("q0", replace(TUNED, kp=2.0, target_us=7000).to_params())
    with pytest.raises(DataPlaneError, match="port q0: somebody else has just set its gains"):
        watched.device.write_gains("q0", PAPER)
    # and after a restart it is not ours to bring back
    queues.weir("detach", "q0")
    attach(queues, "q0", "paper")
    assert watched.get(Up).restored is False
    assert gains_of(queues, "q0") == PAPER.to_params()


def test_a_change_not_yet_seen_is_not_overwritten(queues, watch):
    watched = watch()
    watched.get(Up)
    [pid] = map(int, weirs_of(queues))
    os.kill(pid, signal.SIGSTOP)
    queues.weir("set", "q0", "target_us=7000")
    with pytest.raises(DataPlaneError, match="somebody else has just set its gains; they stay"):
        watched.device.write_gains("q0", PAPER)
    os.kill(pid, signal.SIGCONT)
    assert watched.get(GainsChanged).gains.target_us == 7000
    assert gains_of(queues, "q0") == replace(TUNED, target_us=7000).to_params()


def test_a_queue_that_restarts_gets_its_gains_back(queues, watch):
    watched = watch(["q0"])
    watched.get(Up)
    watched.device.write_gains("q0", replace(TUNED, kp=2.0))
    queues.weir("detach", "q0")
    assert watched.get(Down).why == "q0 was detached"
    attach(queues, "q0")
    up = watched.get(Up)
    assert up.restored
    assert up.gains["q0"].to_params() == gains_of(queues, "q0") == replace(TUNED, kp=2.0).to_params()


def test_a_queue_attached_anew_with_other_gains_keeps_them(queues, watch):
    watched = watch(["q0"])
    watched.get(Up)
    watched.device.write_gains("q0", replace(TUNED, kp=2.0))
    queues.weir("detach", "q0")
    attach(queues, "q0", "paper")
    told = watched.until(lambda event: isinstance(event, Up), "Up")
    assert [event.gains for event in told if isinstance(event, GainsChanged)] == [told[-1].gains["q0"]]
    assert not told[-1].restored
    assert gains_of(queues, "q0") == PAPER.to_params()


def test_one_queue_of_several_comes_and_goes(queues, watch):
    watched = watch(None)
    assert set(watched.get(Up).gains) == set(NAMES)
    queues.weir("detach", "q1")
    assert watched.get(Note) == Note("here", "q1", "q1 was detached")
    with pytest.raises(DataPlaneError, match="device here: no port q1: must be one of q0"):
        watched.device.write_gains("q1", TUNED)
    attach(queues, "q1", "paper")
    up = watched.get(Up)  # nobody had set anything: left as it is
    assert (set(up.gains), up.restored) == ({"q1"}, False)
    assert gains_of(queues, "q1") == PAPER.to_params()


def test_an_interface_that_goes_away(queues, watch):
    queues.router.sh("ip link add gone0 type veth peer name gone1; ip link set gone0 up; ip link set gone1 up")
    attach(queues, "gone0")
    watched = watch(["gone0"])
    watched.get(Up)
    queues.router.sh("ip link del gone0")
    assert watched.get(Down).why == "gone0 is gone; `weir-xdp detach gone0` cleans up"
    queues.weir("detach", "gone0")


def test_nothing_attached_is_a_device_that_is_down(rig, command, watch):
    watched = watch(["q0"])
    assert "nothing is attached to q0" in watched.get(Down).why
    with pytest.raises(DataPlaneError, match="no port q0: the law is on none"):
        watched.device.write_gains("q0", TUNED)
    attach(rig, "q0")
    assert set(watched.get(Up).gains) == {"q0"}
    rig.weir("detach", "q0")


def test_a_killed_watch_is_started_again(queues, command, watch):
    watched = watch()
    watched.get(Up)
    watched.device.write_gains("q0", PAPER)
    [pid] = map(int, weirs_of(queues))
    assert os.getpgid(pid) != os.getpgid(0)  # a terminal's Ctrl-C is for the controller alone
    os.kill(pid, signal.SIGKILL)
    down = watched.get(Down)
    assert (down.why, down.retry_s) == (f"{command} watch was killed by signal 9", 0.5)
    up = watched.get(Up)
    assert (set(up.gains), up.restored) == (set(NAMES), False)
    assert up.gains["q0"].to_params() == PAPER.to_params()
    watched.get(Sample, "q1")


def test_set_by_hand_while_the_watch_is_away(queues, watch):
    watched = watch(["q0"])
    watched.get(Up)
    watched.device.write_gains("q0", PAPER)
    [pid] = map(int, weirs_of(queues))
    os.kill(pid, signal.SIGKILL)
    queues.weir("set", "q0", "target_us=7000")
    assert watched.get(GainsChanged).gains.target_us == 7000
    watched.get(Up)


def test_of_two_controllers_one_writes(queues, watch):
    one, two = watch(), watch()
    for each in (one, two):
        each.get(Up)
    assert one.device.claim() == {}
    who = f"process {os.getpid()}"
    assert two.device.claim() == dict.fromkeys(NAMES, who)
    with pytest.raises(DataPlaneError, match=f"port q0: {who} controls it"):
        two.device.write_gains("q0", PAPER)
    one.device.write_gains("q0", PAPER)
    one.device.close()
    gains = {}
    while set(gains) != set(NAMES):
        gains |= two.get(Up).gains
    assert gains["q0"].to_params() == PAPER.to_params()
    assert two.device.claim() == {}
    two.device.write_gains("q1", PAPER)


CONTROLLER = """
import sys
from weir.dataplane.base import Up
from weir.dataplane.fleet import Fleet
from weir.dataplane.bpf import BpfDevice
from weir.settings import load
fleet = Fleet([BpfDevice("here", ["q0", "q1"], every_ms=20, command=sys.argv[1])])
fleet.start()
while not isinstance(fleet.events.get(), Up):
    pass
device = fleet.device("here")
refused = device.claim()
device.write_gains("q0", load(sys.argv[2]))
print("at work", refused, flush=True)
while True:
    fleet.events.get()
"""


def test_a_killed_controller_leaves_all_as_it_is(queues, command, watch):
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, command, PROFILES / "paper.toml"],
        env={**os.environ, "PYTHONPATH": str(REPO / "controller")}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with controller.stdout:
        assert controller.stdout.readline() == "at work {}\n"
        [pid] = map(int, weirs_of(queues))
        pins = queues.router.sh("find /sys/fs/bpf | sort")
        controller.kill()
        controller.wait()
    until(lambda: not runs(pid), "its watch ended")
    assert queues.router.sh("find /sys/fs/bpf | sort") == pins
    assert [queues.status(name)["gone"] for name in NAMES] == [False, False]
    assert gains_of(queues, "q0") == PAPER.to_params()
    successor = watch()
    successor.get(Up)
    assert successor.device.claim() == {}  # the lock went with it


@pytest.fixture
def as_nobody(queues):
    """weir-xdp as an ordinary user, with these capabilities."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        own = Path(folder) / "weir-xdp"
        own.write_bytes(WEIR.read_bytes())  # the build's folder may be root's alone
        own.chmod(0o755)

        def command(*capabilities: str) -> str:
            caps = ",".join(["-all", *(f"+{name}" for name in capabilities)])
            drop = ("--reuid=65534", "--regid=65534", "--clear-groups")
            drop += (f"--bounding-set={caps}", f"--inh-caps={caps}", f"--ambient-caps={caps}")
            words = queues.router.command("setpriv", *drop, "--", own)
            return script(Path(folder) / f"as-nobody{len(capabilities)}", f'exec {" ".join(words)} "$@"')

        yield command


def test_each_direction_of_an_interface_is_a_port(queues, command):
    queues.weir("attach", "q0/ingress", "--rate", "10mbit")
    device = BpfDevice("here", command=command)
    device.write_gains("q0/ingress", replace(TUNED, target_us=7000))
    assert {port: gains.target_us for port, gains in device.read_gains().items()} == {
        "q0": TUNED.target_us,
        "q0/ingress": 7000,
        "q1": TUNED.target_us,
    }
    queues.weir("detach", "q0")
    alone = BpfDevice("here", ["q0"], command=command)
    alone.write_gains("q0", replace(TUNED, target_us=8000))
    assert device.read_gains()["q0/ingress"].target_us == 8000


def test_an_ordinary_user_is_told_what_is_missing(as_nobody, watch):
    command = as_nobody()
    for interfaces in (None, ["q0"]):
        with pytest.raises(DataPlaneError, match=r"device here: .*not permitted \(needs root"):
            BpfDevice("here", interfaces, command=command).read_gains()
        with pytest.raises(DataPlaneError, match=r"device here: .*not permitted \(needs root"):
            BpfDevice("here", interfaces, command=command).write_gains("q0", TUNED)
        watched = watch(interfaces, command=command)
        assert "not permitted (needs root" in watched.get(Down).why
        watched.device.close()


def test_who_owns_the_pins_needs_no_root(queues, as_nobody, watch):
    queues.router.sh("chown -R 65534 /sys/fs/bpf/weir")
    watched = watch(["q0"], command=as_nobody("bpf"))
    watched.get(Up)
    watched.device.write_gains("q0", PAPER)
    watched.config_in_force("q0", queues.status("q0")["config_id"])
    assert gains_of(queues, "q0") == PAPER.to_params()


def test_status_by_command(queues, command):
    """`weir status` reads weir-xdp's report on each interface, and changes nothing."""
    environment = {
        **os.environ, "PYTHONPATH": str(REPO / "controller"), "PATH": f"{Path(command).parent}:{os.environ['PATH']}"
    }  # fmt: skip
    before = gains_of(queues, "q0")
    done = subprocess.run(
        [sys.executable, "-m", "weir.cli", "status", "--json"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    [device] = json.loads(done.stdout)
    assert {port["port"]: (port["profile"], port["differs"]) for port in device["ports"]} == {
        "q0": ("tuned", {}), "q1": ("tuned", {}),
    }  # fmt: skip
    for port in device["ports"]:
        assert port["attached"].split(", ")[1] == "virtual"
        assert {"delay_us", "backlog_bytes", "age_us", "drop_probability"} <= set(port["reading"])
    assert gains_of(queues, "q0") == before


def test_gains_by_command(queues, command):
    """`weir gains` reads and writes through the same interface, and refuses in one line."""

    def gains(*words: str) -> subprocess.CompletedProcess:
        folder = str(Path(command).parent)
        return subprocess.run(
            [sys.executable, "-m", "weir.cli", "gains", *words], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(REPO / "controller"), "PATH": f"{folder}:{os.environ['PATH']}"},
        )  # fmt: skip

    done = gains("--bpf", "q0", "--set", "target_us=7000", "--set", "integral=drop", "--expert")
    assert (done.returncode, done.stderr) == (0, "")
    assert gains_of(queues, "q0") == replace(TUNED, target_us=7000, integral="drop").to_params()
    assert "bpf q1  (tuned)\n  target_us = 15000\n" in gains().stdout
    for words, status, said in (
        (("--set", "ecn=on"), 2, "which port to set: bpf q0, bpf q1"),
        (("--bpf", "q0", "--set", "z3=2", "--expert"), 2, "z3 = 2: must be above 0 and below 1"),
        (("--bpf", "q0", "--set", "kq=2"), 2, "kq=2: no such key; must be one of target_us"),
        (("--bpf", "q0", "--profile", "nix"), 2, "nix: no such profile; must be one of coupled, paper, tuned"),
        (("--port", "q7"), 1, "no port q7: must be one of q0, q1"),
        (("--device", "x"), 1, "no device x: must be one of bpf"),
        (("--bpf", "q7"), 1, "no port q7: must be one of q0, q1"),
        (("--bpf", "q0@nix"), 1, "there is no network namespace nix (/run/netns/nix)"),
        (("--fleet", "/nix.toml"), 2, "--fleet /nix.toml: No such file"),
    ):
        done = gains(*words)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
        assert said in done.stderr
    assert gains_of(queues, "q0") == replace(TUNED, target_us=7000, integral="drop").to_params()
