# SPDX-License-Identifier: Apache-2.0
"""One switch for each interface of a network namespace, and no lock that a local user without rights can hold."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
from p4_rig import EMBEDDED, find, missing
from packet_rig import Holder

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
WITHOUT_RIGHTS = ("--inh-caps=-all", "--bounding-set=-all", "--")
RAW_PACKETS = ("--inh-caps=+net_raw", "--ambient-caps=+net_raw", "--")
SQUAT = """
import os, socket, sys, time
held = []
for name in sys.argv[1:]:
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    held[-1].bind("\\0" + name)
    held[-1].listen(16)
for folder in ("/run/weir-switch", "/run/lock/weir-switch", "/tmp/weir-switch", "/dev/shm/weir-switch"):
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        pass
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except PermissionError:
    print("no packet sockets", flush=True)
time.sleep(600)
"""
FANOUT, LOAD_BALANCE = 18, 1  # PACKET_FANOUT, PACKET_FANOUT_LB of linux/if_packet.h


def network() -> Iterator[Holder]:
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    holder = Holder(sysfs=True)
    try:
        holder.sh(
            "mount -t tmpfs tmpfs /run; mount -t tmpfs -o mode=1777 tmpfs /tmp; ip link add p1 type veth peer name p2"
        )
        holder.sh("ip link set p1 up; ip link set p2 up")
        yield holder
    finally:
        holder.close()


box, other_box = pytest.fixture(network, name="box"), pytest.fixture(network, name="other_box")


@pytest.fixture
def start():
    """Starts a switch on an interface of a network; its `ready` line, or an empty one if it ended."""
    running = []
    # where anybody may run it, wherever this clone is
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(find("weir-switch"), folder)

        def one(network: Holder, interface: str, *before: str) -> tuple[str, subprocess.Popen]:
            words = [*before, program, "--no-p4", "--grpc-server-addr", "127.0.0.1:0", "-i", f"1@{interface}"]
            process = network.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
            running.append(process)
            return process.stdout.readline(), process

        yield one
        for process in running:
            process.terminate()
            process.communicate()


def index(network: Holder, interface: str) -> int:
    return int(network.sh(f"cat /sys/class/net/{interface}/ifindex"))


def test_a_stranger_does_not_keep_a_switch_from_starting(box, start):
    names = [f"weir-switch/{index(box, name)}" for name in ("p1", "p2")]
    stranger = box.start(*AS_NOBODY, *WITHOUT_RIGHTS, sys.executable, "-c", SQUAT, *names, stdout=subprocess.PIPE)
    try:
        assert stranger.stdout.readline() == "no packet sockets\n"
        assert start(box, "p1")[0].startswith("ready: ")
        assert start(box, "p2", *AS_NOBODY, *RAW_PACKETS)[0].startswith("ready: ")
    finally:
        stranger.kill()
        stranger.communicate()


@pytest.mark.parametrize("first", [(), (*AS_NOBODY, *RAW_PACKETS)], ids=["root", "capability"])
@pytest.mark.parametrize("second", [(), (*AS_NOBODY, *RAW_PACKETS)], ids=["root", "capability"])
def test_an_interface_has_one_switch(box, start, first, second):
    """Of whichever user, also while the interface is down; the next one starts when the first has ended."""
    for state in ("up", "down"):
        box.sh(f"ip link set p1 {state}")
        ready, process = start(box, "p1", *first)
        assert ready.startswith("ready: ")
        refused, rejected = start(box, "p1", *second)
        assert (refused, rejected.wait()) == ("", 1)
        assert "p1" in rejected.stderr.read()
        process.terminate()
        assert process.wait() == 0


def test_networks_with_the_same_numbers_have_a_switch_each(box, other_box, start):
    assert index(box, "p1") == index(other_box, "p1")
    for network in (box, other_box):
        assert start(network, "p1")[0].startswith("ready: ")


def test_numbers_that_differ_in_their_upper_half_are_two_interfaces(box, start):
    box.sh(f"ip link add far index {index(box, 'p1') + 0x10000} type veth peer name far2 && ip link set far up")
    for interface in ("p1", "far"):
        assert start(box, interface)[0].startswith("ready: ")


def test_a_fanout_group_of_another_program_is_no_switch(box, start):
    with box.inside():
        other = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        group = index(box, "p1").to_bytes(2, sys.byteorder) + LOAD_BALANCE.to_bytes(2, sys.byteorder)
        other.setsockopt(263, FANOUT, group)  # SOL_PACKET
    with other:
        assert start(box, "p1")[0].startswith("ready: ")
        assert start(box, "p1")[0] == ""
