# SPDX-License-Identifier: Apache-2.0
"""A law for each queue of mq (docs/design/classes.md). The kernel picks a packet's queue after the law has seen it, so
what is tested first is that both mean the same one."""

import json
import re
import select
import subprocess
import sys

import pytest
from class_rig import ECT0, HIT, NEVER, NOT_ECT, PACED, TUNED
from packet_rig import WEIR, take, until
from scapy.all import IP, UDP, Ether, Raw

QUEUES = 4
FLOWS = 64
LAWS = [f"1:{n + 1}" for n in range(QUEUES)]


def frame(flow: int, ecn: int = NOT_ECT) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.9.1.1", dst="10.9.1.2", id=1, tos=ecn)
        / UDP(sport=1000 + flow, dport=9)
        / Raw(bytes(1000))
    )


class Link:
    """c0 in the sender's namespace, the router's qi, bridged to qo, which has four queues, and d0 at its other end."""

    def __init__(self, rig, sender_queues: int):
        self.rig = rig
        near, far = rig.sender.process.pid, rig.receiver.process.pid
        rig.router.sh(
            f"ip link add name qi numrxqueues {sender_queues} numtxqueues {sender_queues} type veth "
            f"peer name c0 numrxqueues {sender_queues} numtxqueues {sender_queues} netns {near};"
            f"ip link add name qo numtxqueues {QUEUES} numrxqueues {QUEUES} type veth "
            f"peer name d0 numtxqueues {QUEUES} numrxqueues {QUEUES} netns {far};"
            "ip link add name qs type bridge stp_state 0 mcast_snooping 0;"
            "ip link set qi master qs; ip link set qo master qs;"
            "for i in qi qo; do ethtool -K $i tso off gso off gro off tx off >/dev/null; ip link set $i up; done;"
            "ip link set qs up; tc qdisc replace dev qo root handle 1: mq"
        )
        for node, name in ((rig.sender, "c0"), (rig.receiver, "d0")):
            node.sh(f"ethtool -K {name} tso off gso off gro off tx off >/dev/null; ip link set {name} up")

    def close(self) -> None:
        self.rig.weir("detach", "qo", check=False)
        self.rig.router.sh("ip link del qi; ip link del qo; ip link del qs")

    def through(self, frames: list[bytes], count: int | None = None, patience_s: float = 10.0) -> list[bytes]:
        """Sends frames at c0; returns those that come in at d0, up to this count, or until nothing comes any more."""
        out, back = self.rig.sender.tap("c0"), self.rig.receiver.tap("d0")
        got, wanted = [], len(frames) if count is None else count
        with out, back:
            for one in frames:
                out.send(one)
            while len(got) < wanted and select.select([back], [], [], patience_s)[0]:
                if (one := take(back)) is not None:
                    got.append(one)
            return got

    def sent(self) -> dict[str, int]:
        """Packets that each queue has sent, as the kernel counts them."""
        shown = self.rig.router.run("tc", "-s", "class", "show", "dev", "qo").stdout
        return {m[1]: int(m[2]) for m in re.finditer(r"class mq (1:\d+) .*\n Sent \d+ bytes (\d+) pkt", shown)}

    def laws(self) -> dict[str, dict]:
        return {one["class"]: one for one in json.loads(self.rig.weir("status", "qo", "--json").stdout)}

    def seen(self, name: str = "seen_packets") -> dict[str, int]:
        return {law: one["counters"][name] for law, one in self.laws().items()}

    def backlog_packets(self, law: str) -> int:
        shown = self.rig.router.run("tc", "-s", "class", "show", "dev", "qo").stdout
        return int(re.search(rf"class mq {law} .*\n.*\n backlog \S+ (\d+)p", shown)[1])

    def attach(self, *words: object) -> None:
        self.rig.weir("attach", "qo", "--class", "1:", "--gains", TUNED, *words)


@pytest.fixture
def link(rig):
    made = Link(rig, 1)
    yield made
    made.close()


@pytest.fixture(params=[1, QUEUES], ids=["by hash", "by the queue they came from"])
def either(rig, request):
    made = Link(rig, request.param)
    yield made
    made.close()


def test_each_law_sees_the_packets_of_its_own_queue(either):
    either.attach(*NEVER)
    before = either.sent()
    frames = [frame(flow) for flow in range(FLOWS)] * 3
    assert sorted(either.through(frames)) == sorted(frames)
    moved = {law: count - before[law] for law, count in either.sent().items()}
    assert either.seen() == moved
    assert sum(moved.values()) == len(frames)
    assert sum(count > 0 for count in moved.values()) > 1, "packets are in more than one queue"


def test_a_law_hits_its_own_queue_only(link):
    link.attach(*NEVER)
    queue_of = {}
    for flow in range(FLOWS):
        before = link.seen()
        link.through([frame(flow)])
        [queue_of[flow]] = [law for law, count in link.seen().items() if count > before[law]]
        if len(set(queue_of.values())) > 1:
            break
    hit = queue_of[0]
    link.rig.weir("detach", f"qo/{hit}")
    assert len(link.through([frame(flow) for flow in queue_of])) == len(queue_of)
    link.rig.weir("attach", "qo", "--class", hit, "--gains", TUNED, *HIT)
    frames = [frame(flow, ecn) for flow in queue_of for ecn in (NOT_ECT, ECT0)]
    expected = [frame(flow, ecn) for flow in queue_of if queue_of[flow] != hit for ecn in (NOT_ECT, ECT0)]
    expected += [frame(flow, 3) for flow in queue_of if queue_of[flow] == hit]  # CE; Not-ECT is dropped
    assert sorted(link.through(frames, len(expected))) == sorted(expected)
    assert link.seen("dropped_aqm_packets")[hit] == len(frames) - len(expected)


FLOOD = f"""{PACED}
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as flood:
    flood.bind(("c0", 0))
    flood.setsockopt(socket.SOL_SOCKET, 32, 16 << 20)  # SO_SNDBUFFORCE: or the socket would wait for the queue
    frame = bytes.fromhex(sys.argv[1])
    send_for_ever(lambda: flood.send(frame), 400)
"""


def test_a_flooded_queue_is_short_and_the_others_are_left_alone(link):
    """2 Mbit/s a queue, and more for one of them: its fifo alone would hold up to 1000 packets."""
    for n, law in enumerate(LAWS):
        link.rig.router.sh(f"tc qdisc add dev qo parent {law} handle 1{n}: tbf rate 2mbit burst 3000 limit 1100000")
    flood = link.rig.sender.start(sys.executable, "-c", FLOOD, frame(0).hex())
    try:
        until(lambda: max(map(link.backlog_packets, LAWS)) > 300, "without a law the queue grows", 60)
        [full] = [law for law in LAWS if link.backlog_packets(law) > 300]
        link.attach()
        until(lambda: link.backlog_packets(full) < 200, "the law brings it down", 60)
        seen, most = link.seen()[full], 0
        while link.seen()[full] < seen + 1000:
            most = max(most, link.backlog_packets(full))
        assert 0 < most < 200
        dropped = link.seen("dropped_aqm_packets")
        assert dropped.pop(full) > 0
        assert set(dropped.values()) == {0}
        assert "trouble" not in link.laws()[full]
    finally:
        flood.kill()
        flood.wait()


def test_another_number_of_queues_is_mended_by_ensure(link):
    link.attach(*NEVER)
    link.rig.router.sh("ethtool -L qo tx 2")
    looked = link.rig.weir("ensure", "qo/1:1", "--look", check=False)
    assert (looked.returncode, looked.stdout) == (3, "qo/1:1: would be replaced: queue\n")
    assert link.rig.weir("ensure", "qo/1:1").stdout == "qo/1:1: replaced: queue\n"
    assert link.rig.weir("ensure", "qo/1:1").stdout == "qo/1:1: adopted\n"
    before, seen = link.sent(), link.seen()
    frames = [frame(flow) for flow in range(FLOWS)]
    assert len(link.through(frames)) == len(frames)
    moved = {law: count - before[law] for law, count in link.sent().items()}
    assert {law: count - seen[law] for law, count in link.seen().items()} == moved
    assert moved["1:3"] == moved["1:4"] == 0 < moved["1:1"]


def test_another_version_takes_over_the_laws_of_all_queues(link):
    link.attach(*NEVER)
    link.rig.as_of_another_version(link.laws()["1:1"]["pins"])
    assert link.rig.weir("ensure", "qo", "--class", "1:").stdout == "qo/1:: replaced: program\n"
    before = link.sent()
    frames = [frame(flow) for flow in range(FLOWS)]
    assert len(link.through(frames)) == len(frames)
    assert link.seen() == {law: count - before[law] for law, count in link.sent().items()}


def test_a_queue_that_one_law_can_not_go_by_lets_all_pass(link):
    link.attach(*HIT)
    for n, law in enumerate(LAWS):
        link.rig.router.sh(f"tc qdisc replace dev qo parent {law} handle 1{n}: htb default 1")
    until(lambda: link.through([frame(0)], patience_s=2) == [frame(0)], "the laws let all packets pass")
    assert "class 1:1 has classes below it" in link.laws()["1:1"]["trouble"]
    link.rig.router.sh("tc qdisc del dev qo root; tc qdisc replace dev qo root handle 1: mq")
    until(lambda: "trouble" not in link.laws()["1:1"], "the queues are back")
    until(lambda: not link.through([frame(0)], patience_s=2), "the laws act again")


def test_what_the_law_can_not_see_is_refused(link):
    def refusal(*words: str) -> str:
        done = link.rig.weir(*words, check=False)
        assert done.returncode == 1, done.stdout
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert "give each a law (--class 1:" in refusal("attach", "qo")
    assert "goes with classes of htb" in refusal("attach", "qo", "--class", "1:1", "--mark", "1")
    assert "class 1:5 is not there" in refusal("attach", "qo", "--class", "1:5")
    link.rig.router.sh("ethtool -L qo tx 2")
    assert "1:3 is a queue that it does not use: it has 2" in refusal("attach", "qo", "--class", "1:3")
    link.rig.router.sh("ethtool -L qo tx 4; tc qdisc add dev qo parent 1:2 handle 20: htb")
    link.rig.router.sh("tc class add dev qo parent 20: classid 20:1 htb rate 1mbit")
    link.rig.weir("attach", "qo", "--class", "20:1")
    assert "have none at once" in refusal("attach", "qo", "--class", "1:1")
    assert "goes with classes of htb" in refusal("ensure", "qo/1:1", "--others")
    link.rig.weir("detach", "qo")
    link.rig.router.sh("tc qdisc del dev qo root; tc qdisc add dev qo root mq")
    assert link.rig.weir("status").stdout == "nothing is attached\n"


def test_one_rate_for_all_queues_takes_the_place_of_mq(link):
    """Laws of the queues have no common rate: the error has the command after which one shaper serves all of them."""
    remedy = "tc qdisc del dev qo root"
    for words in (("--shape", "20mbit"), ("--shape", "20mbit", "--bands")):
        done = link.rig.weir("attach", "qo", *words, check=False)
        assert (done.returncode, remedy in done.stderr, "leave --shape out" in done.stderr) == (1, True, False)
    assert "--shape" in link.rig.weir("attach", "qo", check=False).stderr
    link.rig.router.sh(remedy)
    link.rig.weir("attach", "qo", "--shape", "20mbit", "--no-bands", *NEVER)
    frames = [frame(flow) for flow in range(FLOWS)]
    assert sorted(link.through(frames)) == sorted(frames)
    status = json.loads(link.rig.weir("status", "qo", "--json").stdout)
    assert (status["shape_bit_s"], status["counters"]["seen_packets"]) == (20_000_000, len(frames))


def test_queues_that_go_by_the_cpu_are_refused(link):
    """Where /sys is that of the interface's namespace, as it is on a router."""
    write = "mount -t sysfs sysfs /sys; mount -t bpf bpf /sys/fs/bpf; echo 1 > /sys/class/net/qo/queues/tx-0/xps_cpus"
    attach = link.rig.router.command("unshare", "-m", "sh", "-c", f'{write}; exec "$0" attach qo --class 1:', WEIR)
    done = subprocess.run(attach, capture_output=True, text=True)
    assert (done.returncode, "XPS picks its queues by CPU" in done.stderr) == (1, True), done.stderr
