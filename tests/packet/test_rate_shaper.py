# SPDX-License-Identifier: Apache-2.0
"""`weir tune --rate` on real interfaces: a shaper at router:wan, before a slower line with a
fifo at modem:line."""

import json
import signal
import subprocess
import sys
import time

import pytest
from packet_rig import REPO, Failed, Holder

FAR, NOBODY = "10.9.1.2", "10.9.1.77"
SHAPED, LINE = "20mbit", "4mbit"
PATIENCE_S = 60
WEIR = ("env", f"PYTHONPATH={REPO / 'controller'}", sys.executable, "-m", "weir.cli")
FLOOD = """
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        sender.sendto(bytes(1400), ("10.9.1.2", 9))
    except OSError:
        pass
"""


class Road:
    """router:wan --- modem:wan, modem:line --- far:line."""

    def __init__(self) -> None:
        self.router, self.modem, self.far = Holder(), Holder(), Holder()
        pids = {name: getattr(self, name).process.pid for name in ("router", "modem", "far")}
        self.modem.sh(f"""
            ip link add wan type veth peer name wan netns {pids["router"]}
            ip link add line type veth peer name line netns {pids["far"]}
            ip addr add 10.9.0.1/24 dev wan
            ip addr add 10.9.1.1/24 dev line
            ip link set wan up
            ip link set line up
            sysctl -qw net.ipv4.ip_forward=1
            ethtool -K wan tso off gso off gro off
            tc qdisc add dev line root handle 1: htb default 1
            tc class add dev line parent 1: classid 1:1 htb rate {LINE} burst 1540 cburst 1540 quantum 1540
            tc qdisc add dev line parent 1:1 handle 10: pfifo limit 100
            ip neigh add {NOBODY} lladdr 02:00:00:00:00:77 dev line
        """)
        self.far.sh("ip addr add 10.9.1.2/24 dev line; ip link set line up; ip route add default via 10.9.1.1")
        self.router.sh(f"""
            ip addr add 10.9.0.2/24 dev wan
            ip link set wan up
            ip route add default via 10.9.0.1
            ethtool -K wan tso off gso off gro off
            tc qdisc add dev wan root handle 1: htb default 1
            tc class add dev wan parent 1: classid 1:1 htb rate {SHAPED} burst 3000 cburst 3000 quantum 1540
            tc qdisc add dev wan parent 1:1 handle 10: pfifo limit 50
        """)

    def close(self) -> None:
        for holder in (self.router, self.modem, self.far):
            holder.close()

    def rates(self) -> str:
        return self.router.sh("tc class show dev wan")


class Tuned:
    """`weir tune --rate` in the router, its decisions and its standard error."""

    def __init__(self, road: Road, folder, *words: str, device: str = "wan") -> None:
        self.decisions, self.said = folder / "rates.jsonl", folder / "said.txt"
        command = [*WEIR, "tune", "--rate", device, "--decisions", str(self.decisions)]
        with open(self.said, "w") as said:
            self.process = road.router.start(*command, *words, stdout=subprocess.DEVNULL, stderr=said)

    def lines(self) -> list[dict]:
        if not self.decisions.exists():
            return []
        return [json.loads(line) for line in self.decisions.read_text().splitlines(True) if line.endswith("\n")]

    def until(self, met):
        """Waits for an event; its value."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := met()):
            assert self.process.poll() is None, self.said.read_text()
            assert time.monotonic() < deadline, (self.said.read_text(), self.lines()[-5:])
            time.sleep(0.05)
        return found

    def begun(self) -> "Tuned":
        self.until(lambda: "tuning" in self.said.read_text())
        return self

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_S)


BOUNDS = ("--min-mbit-s", "1", "--max-mbit-s", "40")


@pytest.fixture
def road():
    try:
        made = Road()
    except Failed as error:
        pytest.skip(f"namespaces with htb: {error}")
    yield made
    made.close()


@pytest.fixture
def flood(road):
    process = road.router.start(sys.executable, "-c", FLOOD)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_rate_falls_to_the_lines_and_is_given_back(road, flood, tmp_path, number):
    before = road.rates()
    tuned = Tuned(road, tmp_path, *BOUNDS, "--reflector", FAR).begun()
    tuned.until(lambda: any(line["rate_bit_s"] < 5e6 and line["line_bit_s"] for line in tuned.lines()))
    assert road.rates() != before
    assert tuned.end(number) == 0
    assert road.rates() == before


def test_probes_do_not_wait_in_the_shaper(road, flood, tmp_path):
    """At 1 Mbit/s its fifo of 50 packets holds 580 ms, and the line's nothing."""
    road.router.sh("tc class change dev wan parent 1: classid 1:1 htb rate 1mbit burst 3000 cburst 3000 quantum 1540")
    bounds = ("--min-mbit-s", "1", "--max-mbit-s", "1.5", "--reflector", FAR)
    tuned = Tuned(road, tmp_path, *bounds).begun()
    tuned.until(lambda: any(line["rate_bit_s"] > 1.2e6 for line in tuned.lines()))
    delays_us = [line["delay_us"] for line in tuned.lines() if line["delay_us"] is not None]
    assert sorted(delays_us)[len(delays_us) // 2] < 100_000
    assert tuned.end() == 0


def test_answers_do_not_wait_in_the_shaper_of_downloads(road, tmp_path):
    """Downloads pass ifb0 at 1 Mbit/s; the answers are taken at wan, before it."""
    road.router.sh("""
        ip link add ifb0 type ifb
        ip link set ifb0 up
        tc qdisc add dev wan ingress
        tc filter add dev wan parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0
        tc qdisc add dev ifb0 root handle 2: htb default 1
        tc class add dev ifb0 parent 2: classid 2:1 htb rate 1mbit burst 3000 cburst 3000 quantum 1540
        tc qdisc add dev ifb0 parent 2:1 handle 20: pfifo limit 50
    """)
    flood = road.far.start(sys.executable, "-c", FLOOD.replace(FAR, "10.9.0.2"))
    try:
        words = ("--min-mbit-s", "1", "--max-mbit-s", "1.5", "--reflector", FAR, "--probe-device", "wan")
        tuned = Tuned(road, tmp_path, *words, device="ifb0").begun()
        tuned.until(lambda: any(line["rate_bit_s"] > 1.2e6 for line in tuned.lines()))
    finally:
        flood.kill()
        flood.wait()
    delays_us = [line["delay_us"] for line in tuned.lines() if line["delay_us"] is not None]
    assert sorted(delays_us)[len(delays_us) // 2] < 100_000
    assert tuned.end() == 0


def test_a_reflector_that_does_not_answer_is_left_out(road, flood, tmp_path):
    tuned = Tuned(road, tmp_path, *BOUNDS, "--reflector", FAR, "--reflector", NOBODY).begun()
    tuned.until(lambda: NOBODY in tuned.said.read_text())
    tuned.until(lambda: any(line["rate_bit_s"] < 5e6 and line["line_bit_s"] for line in tuned.lines()))
    assert tuned.end() == 0


def test_a_rate_set_by_another_stays(road, tmp_path):
    tuned = Tuned(road, tmp_path, *BOUNDS, "--reflector", FAR).begun()
    tuned.until(tuned.lines)
    road.router.sh("tc class change dev wan parent 1: classid 1:1 htb rate 7mbit burst 1600 cburst 1600 quantum 1540")
    changed = road.rates()
    assert tuned.process.wait(timeout=PATIENCE_S) == 1
    assert road.rates() == changed


def test_a_class_that_goes_away_ends_it(road, tmp_path):
    tuned = Tuned(road, tmp_path, *BOUNDS, "--reflector", FAR).begun()
    tuned.until(tuned.lines)
    road.router.sh("tc qdisc del dev wan root")
    assert tuned.process.wait(timeout=PATIENCE_S) == 1
    assert "1:1" in tuned.said.read_text()


def test_a_dry_run_sets_nothing(road, flood, tmp_path):
    before = road.rates()
    tuned = Tuned(road, tmp_path, *BOUNDS, "--reflector", FAR, "--dry-run").begun()
    tuned.until(lambda: len(tuned.lines()) > 3)
    assert road.rates() == before
    assert tuned.end() == 0


def test_the_class_can_be_named(road, tmp_path):
    road.router.sh("tc class add dev wan parent 1: classid 1:2 htb rate 3mbit")
    words = (*BOUNDS, "--reflector", FAR)
    tuned = Tuned(road, tmp_path, *words)
    assert tuned.process.wait(timeout=PATIENCE_S) == 1
    assert "1:1, 1:2" in tuned.said.read_text()
    tuned = Tuned(road, tmp_path, *words, "--class", "1:2").begun()
    assert {line["class"] for line in tuned.until(tuned.lines)} == {"1:2"}
    assert tuned.end() == 0


def test_an_address_of_the_other_family_answers_too(road, tmp_path):
    for holder, words in (
        (road.router, "ip addr add fd09::2/64 dev wan nodad; ip route add default via fd09::1"),
        (road.modem, "sysctl -qw net.ipv6.conf.all.forwarding=1; ip addr add fd09::1/64 dev wan nodad; "
                     "ip addr add fd0a::1/64 dev line nodad"),
        (road.far, "ip addr add fd0a::2/64 dev line nodad; ip route add default via fd0a::1"),
    ):  # fmt: skip
        holder.sh(words)
    tuned = Tuned(road, tmp_path, *BOUNDS, "--base-mbit-s", "10", "--reflector", "fd0a::2", "--probe-every-ms", "10")
    tuned.begun()
    flood = road.router.start(sys.executable, "-c", FLOOD)
    try:
        tuned.until(lambda: any(line["delay_us"] is not None for line in tuned.lines()))
    finally:
        flood.kill()
        flood.wait()
    assert tuned.end() == 0


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--min-mbit-s", "5", "--max-mbit-s", "2", "--reflector", FAR), "--min-mbit-s"),
        (("--min-mbit-s", "0", "--max-mbit-s", "2", "--reflector", FAR), "--min-mbit-s"),
        (("--min-mbit-s", "nan", "--max-mbit-s", "2", "--reflector", FAR), "--min-mbit-s"),
        (("--min-mbit-s", "1", "--max-mbit-s", "inf", "--reflector", FAR), "--max-mbit-s"),
        ((*BOUNDS, "--base-mbit-s", "50", "--reflector", FAR), "--base-mbit-s"),
        (BOUNDS, "--reflector"),
        ((*BOUNDS, "--reflector", FAR, "--reflector", FAR), "--reflector"),
        ((*BOUNDS, "--reflector", FAR, "--delay-ms", "0"), "--delay-ms"),
        ((*BOUNDS, "--reflector", FAR, "--probe-every-ms", "1"), "--probe-every-ms"),
        ((*BOUNDS, "--reflector", FAR, "--class", "one"), "--class"),
        ((*BOUNDS, "--reflector", FAR, "--class", "0:0"), "--class"),
        (("--max-mbit-s", "2", "--reflector", FAR), "--min-mbit-s"),
    ],
)
def test_a_wrong_call_names_its_option(road, words, names):
    before = road.rates()
    done = road.router.run(*WEIR, "tune", "--rate", "wan", *words, check=False)
    assert done.returncode == 2
    assert names in done.stderr
    assert road.rates() == before


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--rate", "nowhere", "--reflector", FAR), "nowhere"),
        (("--rate", "lo", "--reflector", FAR), "lo"),
        (("--rate", "wan", "--reflector", FAR, "--probe-device", "nowhere"), "nowhere"),
        (("--rate", "wan", "--reflector", "no.such.host.invalid"), "no.such.host.invalid"),
        (("--rate", "wan", "--reflector", FAR, "--class", "1:9"), "1:9"),
        (("--rate", "wan", "--reflector", FAR, "--decisions", "/nowhere/rates.jsonl"), "/nowhere/rates.jsonl"),
    ],
)
def test_what_is_not_there_is_named(road, words, names):
    before = road.rates()
    done = road.router.run(*WEIR, "tune", *words, *BOUNDS, check=False)
    assert done.returncode == 1
    assert names in done.stderr
    assert road.rates() == before
