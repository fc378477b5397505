# SPDX-License-Identifier: Apache-2.0
"""An htb of three classes at the rig's rb, packets for them, and what their laws say."""

import json

from packet_rig import NEARLY_ONE, PROFILES
from scapy.all import IP, UDP, Ether, Raw

TUNED = PROFILES / "tuned.toml"
ALWAYS_HIT = (
    "min_backlog_bytes=0",
    "min_delay_share=0",
    "share_least=0",
    "space_least=0",
    "space_most=0",
    "ecn_bound=1",
)
HIT = ("--fixed-probability", NEARLY_ONE, *ALWAYS_HIT)
NEVER = ("--fixed-probability", 0)
NOT_ECT, ECT0, CE = 0, 2, 3
N = 20
PACED = """
import time

def send_for_ever(send, packets_per_s):
    # A process that waited for its CPU makes up for 20 packets at most: more at once would be a queue by themselves.
    due_s = time.monotonic()
    while True:
        due_s = max(due_s, time.monotonic() - 20 / packets_per_s)
        while due_s < time.monotonic():
            send()
            due_s += 1 / packets_per_s
        time.sleep(0.003)
"""
"""Beginning of the script of a sender that has a rate."""


def frame(dscp: int, ecn: int = ECT0, port: int = 2000) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.9.0.1", dst="10.9.0.2", id=4711, tos=dscp << 2 | ecn)
        / UDP(sport=1000, dport=port)
        / Raw(bytes(200))
    )


def number(name: str) -> int:
    """Of class 1:10 that is 16, which is the DSCP its packets have."""
    return int(name.removeprefix("1:"), 16)


def tree(rig, rates: dict[str, str]) -> None:
    rig.unshape()
    rig.router.sh(
        "tc qdisc add dev rb root handle 1: htb default 30;"
        "tc class add dev rb parent 1: classid 1:1 htb rate 1gbit;"
        # With a burst, frames that come at once do not wait: else LAST, in another class, would overtake them.
        + "".join(
            f"tc class add dev rb parent 1:1 classid {name} htb rate {rate} burst 100k cburst 100k;"
            for name, rate in rates.items()
        )
        + "".join(f"tc qdisc add dev rb parent {name} pfifo limit 2000;" for name in rates)
    )


def attach(rig, name: str, *options: object) -> None:
    rig.weir("attach", "rb", "--class", name, "--gains", TUNED, *options)


def law(rig, name: str) -> dict:
    return json.loads(rig.weir("status", f"rb/{name}", "--json").stdout)


def refusal(rig, *words: object) -> str:
    done = rig.weir(*words, check=False)
    assert done.returncode in (1, 2), done.stdout
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def listing(rig) -> tuple:
    """State that an attachment can leave behind."""
    pins = rig.router.run("find", "/sys/fs/bpf", check=False).stdout
    return pins, rig.router.tcx_programs("rb", "egress"), rig.router.sh("tc qdisc show dev rb; tc class show dev rb")
