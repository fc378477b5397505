# SPDX-License-Identifier: Apache-2.0
"""Each signal holds a real htb queue near its target under a load that drop-tail answers with a standing queue.

On the host's clock and a busy machine, so the bounds are generous: this shows that signal, law and verdict hang
together. The quality of control is measured in the lab, in virtual time.
"""

import json
import statistics
import sys
import time

import pytest
from packet_rig import BACKLOG, by_name, until

RATE_MBIT = 10
TARGET_BYTES = RATE_MBIT * 1e6 / 8 * 0.015

UDP = """
import socket, sys, time
rate_bit_s, seconds = float(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# the kernel charges what waits at the bottleneck to this socket: it must never be what holds us back
s.setsockopt(socket.SOL_SOCKET, 32, 64 << 20)  # 32: SO_SNDBUFFORCE
end = time.monotonic() + seconds
due = time.monotonic()
while (now := time.monotonic()) < end:
    due = max(due, now - 0.02)  # after a pause on a busy machine: no burst to make up for it
    while due < now:
        s.sendto(bytes(1372), ("10.9.0.2", 9))
        due += 1400 * 8 / rate_bit_s
    time.sleep(0.002)
"""

SINK = """
import socket
s = socket.create_server(("10.9.0.2", 5001))
print("ready", flush=True)
c, _ = s.accept()
n = 0
while data := c.recv(65536):
    n += len(data)
print(n)
"""

TCP = """
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
s.connect(("10.9.0.2", 5001))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    s.sendall(bytes(16384))
"""

SIGNALS = {
    "veth": ("--peer", None, "--limit-packets", 1000),
    "poll": ("--signal", "poll"),
    "backlog": ("--signal", "backlog"),
    # its queue drains a little slower than the real one, so that the real one stays short
    "virtual-tc": ("--rate", "9.5mbit", "--hook", "tc"),
    "virtual-xdp": ("--rate", "9.5mbit"),
}


@pytest.fixture
def shaped(rig):
    rig.shape(f"{RATE_MBIT}mbit", limit=2000)
    yield rig
    rig.unshape()


def samples_under(rig, load, dev: str, seconds: float) -> list[dict]:
    """Samples of `watch` in the second half of a load's time."""
    process = rig.sender.start(sys.executable, "-c", *load)
    try:
        out = rig.weir("watch", dev, "--every-ms", 20, "--count", int(seconds / 0.02)).stdout
    finally:
        process.wait()
    samples = [json.loads(line) for line in out.splitlines()]
    return samples[len(samples) // 2 :]


def real_backlogs_under(rig, load) -> list[int]:
    process = rig.sender.start(sys.executable, "-c", *load)
    try:
        backlogs = []
        while process.poll() is None:
            backlogs.append(rig.backlog_bytes())
            time.sleep(0.02)  # in the lab's virtual time nothing else lets it pass
    finally:
        process.wait()
    return backlogs[len(backlogs) // 2 :]


@pytest.mark.parametrize("name", by_name(SIGNALS))
def test_holds_the_queue_under_udp(shaped, name):
    options = [shaped.peer if option is None else option for option in SIGNALS[name]]
    dev = "ra" if name == "virtual-xdp" else "rb"
    with shaped.attached(*options, dev=dev):
        load = (UDP, "15e6", "3.2")
        samples = samples_under(shaped, load, dev, 3)
        status = shaped.status(dev)
    mean_bytes = statistics.mean(s["backlog_bytes"] for s in samples)
    # drop-tail: 2000 packets, 2.8 MB; the target: 19 kB
    assert 0.1 * TARGET_BYTES < mean_bytes < 6 * TARGET_BYTES
    assert status["counters"]["dropped_aqm_packets"] > 100
    assert status["counters"]["dropped_limit_packets"] == 0
    assert sum(status["counters"]["rows"]) == status["counters"]["updates"] > 50
    # A third must go. A sender that a busy machine lets run in bursts loses more; with U at its end nothing would pass.
    assert 0.2 < status["counters"]["dropped_aqm_packets"] / status["counters"]["seen_packets"] < 0.9
    expected = 9.5e6 if name.startswith("virtual") else RATE_MBIT * 1e6
    assert statistics.median(s["dq_rate_bit_s"] for s in samples) == pytest.approx(expected, rel=0.25)


def test_holds_the_real_queue_where_it_only_sees_arrivals(shaped):
    load = (UDP, "15e6", "2.5")
    without = real_backlogs_under(shaped, load)
    until(lambda: not shaped.backlog_bytes(), "the queue empty again")
    with shaped.attached("--rate", "9mbit", dev="ra"):
        with_aqm = real_backlogs_under(shaped, load)
    assert statistics.mean(with_aqm) < 0.2 * statistics.mean(without)


@pytest.mark.parametrize("name", ["veth", BACKLOG])
def test_holds_the_queue_under_tcp(shaped, name):
    options = [shaped.peer if option is None else option for option in SIGNALS[name]]
    sink = shaped.receiver.start(sys.executable, "-c", SINK, stdout=-1)
    assert sink.stdout.readline() == "ready\n"
    with shaped.attached(*options):
        samples = samples_under(shaped, (TCP, "4.2"), "rb", 4)
        received_bytes = int(sink.communicate()[0])
    assert statistics.mean(s["backlog_bytes"] for s in samples) < 4 * TARGET_BYTES
    assert received_bytes * 8 / 4.2 > 0.5 * RATE_MBIT * 1e6
