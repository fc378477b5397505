# SPDX-License-Identifier: Apache-2.0
"""Exercises in the form of p4lang's tutorials, run as their users run them: `make run` with weir-p4c and the switch by
BMv2's name, and Mininet's commands."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from packet_rig import REPO

EXERCISES = REPO / "tests" / "packet" / "exercises"
PROGRAMS = (REPO / "build" / "bmv2" / "simple_switch_grpc", REPO / "build" / "bin" / "weir-p4c")
CLI = Path(sys.executable).with_name("simple_switch_CLI")
PATIENCE_S = 120
NAMESPACES = ["unshare", "-nmpf", "--kill-child", "--mount-proc"]
SETUP = 'mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"'
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{PROGRAMS[0].parent}:{PROGRAMS[1].parent}:{CLI.parent}:{os.environ['PATH']}",
    "PYTHONPATH": f"{REPO / 'mininet'}:{REPO / 'controller'}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "WEIR_ROOT": str(REPO),
}
MAKE = ["make", "run", "P4C=weir-p4c", "BMV2_SWITCH_EXE=simple_switch_grpc", f"PYTHON={sys.executable}"]


@pytest.fixture
def exercises(tmp_path: Path) -> Path:
    """A copy of the exercises."""
    if os.geteuid():
        pytest.skip("needs root, for Mininet")
    missing = [path.name for path in PROGRAMS if not path.exists()]
    missing += [name for name in ("mnexec", "make", "ethtool", "ifconfig") if not shutil.which(name)]
    if missing:
        pytest.skip(f"not built or installed: {', '.join(missing)}")
    return Path(shutil.copytree(EXERCISES, tmp_path / "exercises"))


def start(exercise: Path, words: list[str] = MAKE) -> subprocess.Popen:
    return subprocess.Popen(
        [*NAMESPACES, "sh", "-c", SETUP, "sh", *words],
        cwd=exercise, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def make_run(exercise: Path, *commands: str) -> str:
    """Output of `make run` with these commands of Mininet's."""
    process = start(exercise)
    try:
        said, _ = process.communicate("\n".join([*commands, ""]), timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, said
    for log in (exercise / "logs").iterdir():
        assert "panicked" not in log.read_text(), log
    return said


def test_routes_of_two_switches(exercises: Path) -> None:
    exercise = exercises / "routing"
    said = make_run(exercise, "pingall", "h1 ping -c 1 -t 2 h3")
    assert "Results: 0% dropped (6/6 received)" in said
    assert "Time to live exceeded" not in said  # the program answers nothing
    assert "100% packet loss" not in said  # two switches leave a TTL of 2 at 0, which the host takes
    assert {path.name for path in (exercise / "pcaps").iterdir()} >= {"s1-eth3_in.pcap", "s1-eth3_out.pcap"}


def test_a_switch_takes_commands_of_simple_switch_cli(exercises: Path) -> None:
    if not CLI.exists():
        pytest.skip("not installed: simple_switch_CLI")
    exercise = exercises / "routing"
    topology = json.loads((exercise / "topology.json").read_text())
    topology["switches"]["s2"] = {"cli_input": "s2-commands.txt"}
    (exercise / "topology.json").write_text(json.dumps(topology))
    commands = exercise / "s2-commands.txt"
    commands.write_text(
        "table_add MyIngress.routes MyIngress.forward 10.0.3.3/32 => 08:00:00:00:03:33 1\n"
        "table_add MyIngress.routes MyIngress.forward 10.0.0.0/16 => 08:00:00:00:01:00 3\n"
    )
    assert "Results: 0% dropped (6/6 received)" in make_run(exercise, "pingall")
    commands.write_text("table_add MyIngress.routes MyIngress.froward 10.0.3.3/32 => 1\n")
    process = start(exercise)
    said, _ = process.communicate("pingall\n", timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "switch s2: simple_switch_CLI refused table_add MyIngress.routes MyIngress.froward" in said


def test_a_group_floods_and_a_clone_goes_to_the_monitor(exercises: Path) -> None:
    count = "tcpdump -n -c 2 -i eth0 -Q in icmp > captured 2>/dev/null"
    (exercises / "groups" / "monitor.sh").write_text(f"timeout {PATIENCE_S} {count}\n")
    (exercises / "groups" / "wait.sh").write_text("until [ $(wc -l < captured) -ge 2 ]; do sleep 0.05; done\n")
    if not shutil.which("tcpdump"):
        pytest.skip("not installed: tcpdump")
    said = make_run(
        exercises / "groups",
        "py h4.popen('sh monitor.sh') and None",
        "h1 until grep -q eth0 /proc/*/cmdline 2>/dev/null; do sleep 0.05; done",
        "h1 ping -c 3 h3",
        "h4 sh wait.sh",
    )
    assert "3 packets transmitted, 3 received" in said  # ARP is flooded
    assert "ICMP echo request" in (exercises / "groups" / "captured").read_text()


def test_the_queue_of_a_slow_link_marks(exercises: Path) -> None:
    exercise = exercises / "marking"
    (exercise / "send.py").write_text(
        "import socket\n"
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:\n"
        "    out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)\n"
        "    for _ in range(30): out.sendto(bytes(1000), ('10.0.3.3', 9))\n"
    )
    said = make_run(exercise, "h1 ping -c 1 h3", f"h1 {sys.executable} send.py", "h1 ping -c 1 -W 30 h3")
    assert said.count("1 packets transmitted, 1 received") == 2
    sent = marks(exercise / "pcaps" / "s1-eth3_out.pcap")
    assert sent.count(2) >= 5  # 0.5 Mbit/s: the first packets meet a short queue
    assert sent.count(3) >= 5
    assert len(sent) <= 30


def marks(capture: Path) -> list[int]:
    """The ECN fields of a capture's UDP packets to port 9."""
    from scapy.all import IP, UDP, rdpcap

    return [packet[IP].tos & 3 for packet in rdpcap(str(capture)) if UDP in packet and packet[UDP].dport == 9]


EXERCISE = [sys.executable, "-m", "weirlab.bmv2", "-j", "build/routing.json"]
KILLED = """
mkfifo commands
sleep 1000 > commands & "$@" < commands > first.txt 2>&1 & pid=$!
until [ -s first.txt ] && grep -q captures first.txt; do kill -0 $pid || exit 9; sleep 0.1; done
kill -9 $pid
while grep -qs weir-switch /proc/[0-9]*/comm; do sleep 0.1; done
echo pingall | "$@"
"""
TAKEN = 'ip link add s1-eth3 type veth peer name other && "$@" < /dev/null'


def together(exercise: Path, script: str) -> tuple[int, str]:
    """Status and output of a script in namespaces of its own; "$@" is the exercise."""
    subprocess.run([*MAKE[:1], "build", *MAKE[2:]], cwd=exercise, env=ENVIRONMENT, check=True, capture_output=True)
    process = start(exercise, ["sh", "-c", script, "sh", *EXERCISE])
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    return process.returncode, said


def test_a_killed_run_is_not_in_the_way_of_the_next(exercises: Path) -> None:
    status, said = together(exercises / "routing", KILLED)
    assert status == 0, said
    assert "Results: 0% dropped (6/6 received)" in said
    assert re.search(r"^s1: weir-switch .+, Thrift port 9090, P4Runtime port 50051$", said, re.M)


def test_interfaces_of_others_are_named_and_stay(exercises: Path) -> None:
    status, said = together(exercises / "routing", TAKEN + "; status=$?; ip link show s1-eth3 && exit $status")
    assert status == 1, said
    assert "error: interface s1-eth3: exists, of another network that runs, or left by one that was killed" in said
    assert "`ip link delete dev s1-eth3` removes it" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_network(exercises: Path, number: signal.Signals) -> None:
    exercise = exercises / "routing"
    subprocess.run([*MAKE[:1], "build", *MAKE[2:]], cwd=exercise, env=ENVIRONMENT, check=True, capture_output=True)
    mark = exercise / "started"
    process = start(exercise, [sys.executable, "-m", "weirlab.bmv2", "-j", "build/routing.json"])
    assert process.stdin is not None
    try:
        process.stdin.write(f"sh touch {mark}\n")
        process.stdin.flush()
        until_exists(mark, process)
        inside = child_of(process.pid)
        os.kill(inside, number)
        if number == signal.SIGINT:  # Mininet's command line goes on
            process.stdin.write("exit\n")
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert "Traceback" not in said
    assert process.returncode == (0 if number == signal.SIGINT else 128 + number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_network_beside_a_running_command(exercises: Path, number: signal.Signals) -> None:
    exercise = exercises / "routing"
    subprocess.run([*MAKE[:1], "build", *MAKE[2:]], cwd=exercise, env=ENVIRONMENT, check=True, capture_output=True)
    mark = exercise / "started"
    words = [sys.executable, "-m", "weirlab.bmv2", "-j", "build/routing.json"]
    shell = '"$@"; echo "ended with $?"; ip -o link | grep -c -- -eth'
    process = start(exercise, ["env", "--default-signal=HUP", "sh", "-c", shell, "sh", *words])
    assert process.stdin is not None
    try:
        process.stdin.write(f"h1 touch {mark}; sleep 1000\n")
        process.stdin.flush()
        until_exists(mark, process)
        os.kill(child_of(child_of(process.pid)), number)
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert "Traceback" not in said
    assert said.replace("mininet> ", "").splitlines()[-2:] == [f"ended with {128 + number}", "0"]
    for log in (exercise / "logs").iterdir():
        assert "no such interface" not in log.read_text()


def until_exists(mark: Path, process: subprocess.Popen) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'"port": 1', "table_entries[1]: action_params: port: 512: must be an address, or a whole number of 9 bits"),
        (r'"MyIngress.routes"', "the program has no table 'MyIngress.rotues'; did you mean MyIngress.routes?"),
    ],
)
def test_an_error_in_a_runtime_file_ends_the_network(exercises: Path, text: str, message: str) -> None:
    file = exercises / "routing" / "s1-runtime.json"
    wrong = {'"port": 1': '"port": 512', '"MyIngress.routes"': '"MyIngress.rotues"'}[text]
    file.write_text(re.sub(text, wrong, file.read_text(), count=1))
    process = start(exercises / "routing")
    said, _ = process.communicate("pingall\n", timeout=PATIENCE_S)
    assert process.returncode != 0
    assert message in said
    assert "Traceback" not in said
