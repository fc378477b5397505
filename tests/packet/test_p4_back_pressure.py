# SPDX-License-Identifier: Apache-2.0
"""Ports whose interfaces are slower than what is sent to them: packets wait in the switch's own queue, where programs
see them and where what does not fit is dropped. Port 2's interface has a tbf."""

import contextlib
import json
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from p4_rig import EMBEDDED, find, missing
from packet_rig import Holder, take, until

pytestmark = pytest.mark.skipif(missing(EMBEDDED) is not None, reason=str(missing(EMBEDDED)))
PROGRAM = Path(__file__).parent / "programs" / "depth.p4"
SLOW, FREE = 2, 3
DEPTH_PACKETS = 64
FRAME_BYTES = 1000
SOCKET_FRAMES = 12
"""Most frames that the least limit of a socket, 16 KiB, holds: each takes 1280 bytes of memory or more."""
BACKGROUND_S = 0.003


class Switch:
    """`weir-switch` with ports 1 to 3, and a station at each."""

    def __init__(self, folder: Path, options: tuple[str, ...]):
        self.stats = folder / "stats.json"
        self.box = Holder()
        self.taps: dict[int, socket.socket] = {}
        self.process: subprocess.Popen | None = None
        self.box.sh("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
        for n in (1, 2, 3):
            self.box.sh(f"ip link add s{n} type veth peer name p{n}; ip link set s{n} up; ip link set p{n} up")
            self.taps[n] = self.box.tap(f"s{n}")
        ports = [word for n in (1, 2, 3) for word in ("-i", f"{n}@p{n}")]
        words = [find("weir-switch"), "--p4", PROGRAM, "--no-grpc", *ports, "--stats-json", self.stats, *options]
        self.process = self.box.start(*words, stdout=subprocess.PIPE)
        assert self.process.stdout.readline().startswith("ready")

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        for tap in self.taps.values():
            tap.close()
        self.box.close()

    def shape(self, words: str) -> None:
        """Port 2's interface gets a tbf, or loses it."""
        self.box.sh(f"tc qdisc replace dev p2 root {words}" if words else "tc qdisc del dev p2 root")

    def send(self, to: int, numbers: Iterator[int] | range) -> int:
        """Frames from port 1, in bursts that the receive ring holds; gives their number."""
        sent = 0
        for number in numbers:
            head = (
                bytes.fromhex("0200000000")
                + bytes([to])
                + bytes.fromhex("0200000000aa88b5")
                + struct.pack(">I", number)
            )
            self.taps[1].send(head.ljust(FRAME_BYTES, b"\0"))
            sent += 1
            if sent % 32 == 0:
                time.sleep(BACKGROUND_S)
        return sent

    def arrivals(self, port: int, patience_s: float = 1.0) -> list[tuple[int, int, int, int]]:
        """Number, depth before and after, and waiting time (us) of each frame that comes out, until none comes."""
        found = []
        while select.select([self.taps[port]], [], [], patience_s)[0]:
            if frame := take(self.taps[port]):
                found.append(struct.unpack_from(">4I", frame, 14))
        return found

    def read_stats(self) -> dict:
        before = self.stats.stat().st_ino
        self.process.send_signal(signal.SIGUSR1)
        until(lambda: self.stats.stat().st_ino != before, "a new file of statistics", 30)
        return balanced(json.loads(self.stats.read_text()))

    def end(self) -> dict:
        """Ends the switch; its last statistics."""
        self.process.terminate()
        assert self.process.wait(20) == 0
        stats = balanced(json.loads(self.stats.read_text()))
        assert {port["waiting_packets"] for port in stats["ports"].values()} == {0}
        return stats


@pytest.fixture(params=["0", "1"], ids=["inline", "thread"])
def switch(request, tmp_path):
    with contextlib.closing(Switch(tmp_path, ("--send-threads", request.param))) as switch:
        yield switch


def balanced(stats: dict) -> dict:
    """Statistics in which each frame that left a queue is sent, dropped or waiting, once."""
    for queue in stats["queues"]:
        if port := stats["ports"].get(str(queue["port"])):
            dropped = sum(port["send_drops"].values())
            assert queue["dequeued_packets"] == port["sent_packets"] + dropped + port["waiting_packets"], stats
    return stats


def queue_of(stats: dict, port: int) -> dict:
    [queue] = [queue for queue in stats["queues"] if queue["port"] == port]
    return queue


def test_a_slow_interface_s_packets_wait_in_the_switch_s_queue(switch):
    switch.shape("tbf rate 4mbit burst 2kb limit 1mb")
    sent = switch.send(SLOW, range(40))
    first = switch.arrivals(SLOW)
    # No more than fit the queue: none is lost, all are in order, and their depths are those of a queue.
    assert [number for number, *_ in first] == list(range(sent))
    assert max(enq for _, enq, _, _ in first) > 10
    assert all(wait > 0 for _, enq, _, wait in first if enq)
    # Many more: the queue's own limit drops, and what is left comes out in order.
    sent = switch.send(SLOW, range(1000, 1400))
    got = switch.arrivals(SLOW)
    numbers = [number for number, *_ in got]
    assert numbers == sorted(set(numbers))
    assert max(enq for _, enq, _, _ in got) == DEPTH_PACKETS - 1
    assert DEPTH_PACKETS <= len(got) < sent
    stats = switch.end()
    queue = queue_of(stats, SLOW)
    assert queue["tail_dropped_packets"] == sent - len(got)
    assert stats["ports"][str(SLOW)]["send_drops"] == {"down": 0, "too_long": 0, "queue_full": 0, "other": 0}
    assert stats["ports"]["1"]["receive_drops"]["ring_full"] == 0


def test_a_queue_smaller_than_the_socket_loses_next_to_nothing(switch):
    switch.shape("tbf rate 4mbit burst 2kb limit 3500")
    sent = switch.send(SLOW, range(60))
    got = switch.arrivals(SLOW)
    lost = switch.end()["ports"][str(SLOW)]["send_drops"]["queue_full"]
    assert len(got) + lost == sent
    assert lost <= 4, f"{lost} of {sent} frames"


def test_other_ports_go_on_beside_one_that_takes_nothing(switch):
    switch.shape("tbf rate 8kbit burst 1100 limit 1mb")
    switch.send(SLOW, range(200))
    until(lambda: queue_of(switch.read_stats(), SLOW)["tail_dropped_packets"] > 0, "the slow port's queue is full", 30)
    sent = switch.send(FREE, range(1000))
    got = switch.arrivals(FREE)
    assert [number for number, *_ in got] == list(range(sent))
    queue = queue_of(switch.read_stats(), SLOW)
    assert queue["backlog_packets"] >= DEPTH_PACKETS - 2
    # It ends at once, and what waited is counted.
    stats = switch.end()
    assert queue_of(stats, SLOW)["dequeued_packets"] <= SOCKET_FRAMES + 8


def test_an_interface_goes_down_while_its_packets_wait_and_comes_back(switch):
    switch.shape("tbf rate 8kbit burst 1100 limit 1mb")
    switch.send(SLOW, range(200))
    until(lambda: queue_of(switch.read_stats(), SLOW)["backlog_packets"] > 50, "packets wait", 30)
    switch.box.sh("ip link set p2 down")
    until(lambda: queue_of(switch.read_stats(), SLOW)["backlog_packets"] == 0, "none waits for a port that is down", 30)
    assert switch.read_stats()["ports"][str(SLOW)]["send_drops"]["down"] >= DEPTH_PACKETS - 10
    switch.shape("")
    switch.box.sh("ip link set p2 up")
    switch.arrivals(SLOW, 0.1)

    def forwards() -> bool:
        switch.send(SLOW, range(5000, 5001))
        return bool(switch.arrivals(SLOW, 0.1))

    until(forwards, "port 2 forwards again", 30)


def test_frames_to_an_interface_without_a_carrier_are_counted(switch):
    def port() -> dict:
        return switch.read_stats()["ports"][str(FREE)]

    switch.box.sh(f"ip link set s{FREE} down")
    until(lambda: not port()["up"], "the port is down", 30)
    before = port()["send_drops"]["down"]
    sent = switch.send(FREE, range(50))
    until(lambda: port()["send_drops"]["down"] == before + sent, "all frames are counted", 30)
    switch.box.sh(f"ip link set s{FREE} up")
    switch.taps[FREE].close()  # it has an error of the time without a link
    switch.taps[FREE] = switch.box.tap(f"s{FREE}")
    until(lambda: port()["up"], "the port is up again", 30)
    sent = switch.send(FREE, range(50))
    assert len(switch.arrivals(FREE)) == sent


def test_an_interface_goes_away_while_its_packets_wait(switch):
    switch.shape("tbf rate 8kbit burst 1100 limit 1mb")
    switch.send(SLOW, range(200))
    until(lambda: queue_of(switch.read_stats(), SLOW)["backlog_packets"] > 50, "packets wait", 30)
    switch.taps.pop(SLOW).close()
    switch.box.sh("ip link del p2")
    until(lambda: queue_of(switch.read_stats(), SLOW)["backlog_packets"] == 0, "none waits for a port that is gone", 30)
    sent = switch.send(FREE, range(100))
    assert len(switch.arrivals(FREE)) == sent
    assert not switch.end()["ports"][str(SLOW)]["up"]


def test_what_a_qdisc_always_drops_holds_no_frame(switch):
    # As a policer or an eBPF law on the port: what it drops stays dropped, and the next frame passes.
    switch.shape("tbf rate 100mbit burst 900 limit 1mb mtu 900")
    sent = switch.send(SLOW, range(50))
    switch.shape("")
    more = switch.send(SLOW, range(100, 150))
    assert [number for number, *_ in switch.arrivals(SLOW)] == list(range(100, 150))
    drops = switch.end()["ports"][str(SLOW)]["send_drops"]
    assert (drops["queue_full"], more) == (sent, 50)


def test_a_port_under_load_keeps_the_order_of_its_frames(switch):
    got: list[int] = []
    for start in range(0, 8000, 64):
        for number in range(start, start + 64):
            switch.send(FREE, range(number, number + 1))
        while select.select([switch.taps[FREE]], [], [], 0)[0]:
            if frame := take(switch.taps[FREE]):
                got.append(struct.unpack_from(">I", frame, 14)[0])
    got += [number for number, *_ in switch.arrivals(FREE)]
    assert got == sorted(set(got))
    stats = switch.end()
    assert stats["ports"][str(FREE)]["sent_packets"] == len(got)
