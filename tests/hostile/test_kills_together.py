# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of everything that works at one interface: p2, on which weir-switch sends and weir-xdp has
put a shaper and a law, kept by a daemon and tuned by a controller. Counted are kills after which the interface does not
forward, commands after them that are refused, and what is left at the end: each must be 0."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest
from hostile_rig import WHOLE, many, not_forwarded
from packet_rig import REPO, WEIR, until

SEED = 23
SHAPE = ("--shape", "1gbit")
CHANGES = (
    "tc qdisc del dev p2 root",
    "tc class change dev p2 parent 7e1d: classid 7e1d:1 htb rate 10mbit",
    f"{WEIR} set p2 target=20ms",
    f"{WEIR} detach p2",
)


class Interface:
    """p2 of a switch, and those who work at it."""

    def __init__(self, switch, folder):
        self.switch, self.box, self.folder = switch, switch.box, folder
        if not WEIR.exists():
            pytest.skip(f"{WEIR} is not built")
        self.box.sh("mount -t bpf bpf /sys/fs/bpf")
        self.config = folder / "xdp.toml"
        self.config.write_text('check = "100ms"\n[p2]\nshape = "1gbit"\ntarget = "5ms"\nsignal = "poll"\n')
        self.before = self.listing()

    def weir(self, *words: str) -> subprocess.CompletedProcess:
        return self.box.run(WEIR, *words, check=False)

    def listing(self) -> tuple[str, ...]:
        """State that these can leave behind: pins, qdiscs and filters, processes."""
        return (
            self.box.sh("find /sys/fs/bpf -mindepth 1"),
            re.sub(r"refcnt \d+", "", self.box.sh("tc qdisc show dev p2; tc filter show dev p2 egress")),
            self.box.sh("pgrep -l 'weir-xdp|python' --nslist net --ns $$ || true"),
        )

    def start(self, *words: object) -> subprocess.Popen:
        env = {**os.environ, "PYTHONPATH": str(REPO / "controller")}
        env["PATH"] = f"{WEIR.parent}:/usr/sbin:/sbin:{os.environ['PATH']}"
        return subprocess.Popen(self.box.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)

    def cut_short(self, process: subprocess.Popen, seconds: float) -> bool:
        """Whether it was still at work when it was killed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return False
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True

    def kill_the_switch(self) -> None:
        self.switch.kill()
        self.switch.start_again()  # raises when it is refused
        self.switch.client.close()
        self.switch.client = self.switch.connect(election_id=1, connect_timeout_s=60)
        self.switch.client.become_primary()
        self.switch.deploy()


@pytest.fixture
def interface(switch, tmp_path):
    made = Interface(switch, tmp_path)
    yield made
    made.weir("detach", "p2")


COMMANDS = {
    "attach": [("attach", "p2", *SHAPE), ("attach", "p2", *SHAPE, "--signal", "poll")],
    "ensure": [("ensure", "p2", *SHAPE), ("ensure", "p2", *SHAPE, "--signal", "poll"), ("ensure", "p2", "target=9ms")],
    "detach": [("detach", "p2")],
    "set": [("set", "p2", "kp=9")],
}


def test_whoever_is_killed_the_interface_forwards_and_the_next_one_is_served(interface):
    chance = random.Random(SEED)
    kills, found = Counter(), Counter(silent=0, refused=0)
    who = [*COMMANDS, "daemon", "tune", "switch"]
    steps, wanted = 0, many(20, 1000)
    # no step is a kill if the command was quicker; the bound is for a machine where all are
    while kills.total() < wanted and (steps := steps + 1) < 20 * wanted:
        victim = chance.choice(who)
        if victim == "switch":
            interface.kill_the_switch()
            kills[victim] += 1
        elif victim == "daemon":
            daemon = interface.start(WEIR, "daemon", "--config", interface.config)
            if chance.random() < 0.5:
                interface.box.sh(f"{chance.choice(CHANGES)} 2>/dev/null || true")
            kills[victim] += interface.cut_short(daemon, chance.random() ** 2)
        elif victim == "tune":
            tune = interface.start(sys.executable, "-m", "weir.cli", "tune", "--bpf", "p2", "--every-ms", "50")
            kills[victim] += interface.cut_short(tune, 3 * chance.random())
        else:
            if victim == "attach":  # else it is refused at once
                interface.weir("detach", "p2")
            command = interface.start(WEIR, *chance.choice(COMMANDS[victim]))
            kills[victim] += interface.cut_short(command, chance.random() ** 2 * 0.3)
        found["silent"] += not_forwarded(interface.switch, 8) != 0
        done = interface.weir("ensure", "p2", *SHAPE)
        found["refused"] += done.returncode != 0
        if chance.random() < 0.2:
            found["refused"] += interface.weir("detach", "p2").returncode != 0
            found["silent"] += not_forwarded(interface.switch, 8) != 0
    print(f"kills: {dict(kills)}")
    assert found == {"silent": 0, "refused": 0}
    assert kills.total() >= wanted
    assert not WHOLE or all(kills[victim] for victim in who)
    interface.weir("detach", "p2")
    until(lambda: interface.listing() == interface.before, "nothing left: no pins, qdiscs, filters or processes", 30)
