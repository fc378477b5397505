# SPDX-License-Identifier: Apache-2.0
"""Topologies in a lab, and the queue texts and netlink parsing behind them."""

import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.lab.kernels import Job
from weirlab.lab.qdisc import attributes, causes, parse_message
from weirlab.lab.shaping import netem, shaped
from weirlab.run.scenarios import load_scenario
from weirlab.topologies.dumbbell.network import Dumbbell, Link
from weirlab.topologies.dumbbell.queues.tc import codel, queue_under_test


@pytest.fixture
def in_lab(exact, tmp_path):
    """Runs Python text in an exact lab and gives back its result."""

    def run(program: str):
        return exact.run(Job(["python", "-c", program], tmp_path, wall_limit_s=120))

    return run


DUMBBELL = """
from weirlab.lab.net import LabNet
from weirlab.topologies.dumbbell.network import Dumbbell, Link
topo = Dumbbell(senders=3, access=Link(50, 1, 0, 1000), bottleneck=Link(10, 50, 0, 1000), queue={queue!r})
with LabNet(topo) as net:
"""


def test_dumbbell_has_the_delays_it_was_given(in_lab):
    result = in_lab(
        DUMBBELL.format(queue="pie limit 1000 target 15ms")
        + "    net['sink'].cmd('ping', '-c', 1, '10.1.3.2')\n"  # neighbours are found
        + "    print(net['sink'].cmd('ping', '-c', 5, '-i', '0.2', '10.1.3.2'))\n"
    )
    assert result.status == 0, result.stderr
    # There and back: twice 1 ms and 50 ms, and 98 bytes at 50 Mbit/s twice and at 10 Mbit/s twice: 102.19 ms.
    times = [
        float(line.split("time=")[1].split()[0]) for line in result.stdout.decode().splitlines() if "time=" in line
    ]
    assert len(times) == 5
    assert times == pytest.approx([102] * 5, abs=1)


def test_the_queue_under_test_is_alone_on_its_interface(in_lab):
    result = in_lab(
        DUMBBELL.format(queue="fq_codel limit 500 target 7ms") + "    print(net['r1'].cmd('tc -j qdisc show dev bn'))\n"
    )
    found = {qdisc["kind"]: qdisc for qdisc in json.loads(result.stdout)}
    assert set(found) == {"htb", "fq_codel"}
    assert found["fq_codel"]["options"]["limit"] == 500


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("nosuchqueue limit 10", "nosuchqueue"),
        ("pie limit 1000 target 15parsecs", "15parsecs"),
        ("red limit 1 min 2 max 3", "red"),
    ],
)
def test_a_refused_queue_raises_and_names_it(in_lab, queue, said):
    result = in_lab(DUMBBELL.format(queue=queue) + "    print('went on')\n")
    last = result.stderr.decode().splitlines()[-1]
    assert result.status == 1
    assert b"went on" not in result.stdout
    assert "NetError: node r1" in last
    assert said in last


def test_a_failing_command_raises(in_lab):
    result = in_lab(DUMBBELL.format(queue="pfifo limit 9") + "    net['s1'].cmd('ls', '/nowhere')\n")
    assert "node s1: '['ls', '/nowhere']' exited with 2" in result.stderr.decode().splitlines()[-1]


def test_nothing_is_left_after_the_net(in_lab):
    result = in_lab(
        DUMBBELL.format(queue="pfifo limit 9") + "    pass\nimport subprocess\nsubprocess.run(['ip', 'netns'])\n"
        "subprocess.run(['ip', '-br', 'link', 'show', 'type', 'veth'])\n"
    )
    assert (result.status, result.stdout) == (0, b"")


def test_senders_have_addresses_of_their_own():
    assert len({Dumbbell.sender_address(i) for i in range(1, 1001)}) == 1000


def test_each_place_where_data_can_wait_is_a_hop():
    access, bottleneck = Link(50, 1, 0, 1000), Link(10, 50, 1, 1000)
    hops = Dumbbell.hops(2, access, bottleneck, packet_bytes=1454)
    assert [hop.name for hop in hops] == ["access", "access", "bottleneck", "egress", "reverse"]
    assert hops[0].propagation_us == 1000 + 233  # 1454 bytes at 50 Mbit/s
    assert next(hop for hop in hops if hop.name == "bottleneck").propagation_us == 0


def test_link_texts():
    assert netem(1, 50, 0, 1000) == ["qdisc add dev {dev} root handle 1: netem limit 1000 delay 1ms rate 50mbit"]
    assert "loss 1%" in netem(50, loss_percent=1)[0]
    assert shaped(10, "pfifo limit 5")[-1] == "qdisc add dev {dev} parent 1:1 handle 10: pfifo limit 5"


ALL_QUEUES = """
[scenario]
name = "queues"
title = "every queue"
duration_s = 1
[link.access]
rate_mbit_s = 50
[link.bottleneck]
rate_mbit_s = 10
[[flows]]
kind = "tcp"
[variants.pfifo]
qdisc = "pfifo"
[variants.pie]
qdisc = "pie"
alpha = 3
beta = 25
ecn = true
bytemode = true
dq_rate_estimator = true
[variants.red]
qdisc = "red"
min_bytes = 15000
max_bytes = 45000
adaptive = true
ecn = true
[variants.codel]
qdisc = "codel"
ce_threshold_ms = 3
ecn = true
[variants.fq_pie]
qdisc = "fq_pie"
flows = 32
quantum_bytes = 300
memory_limit_bytes = 2000000
ecn = true
[variants.fq_codel]
qdisc = "fq_codel"
flows = 64
memory_limit_bytes = 1000000
[variants.cake]
qdisc = "cake"
isolation = "flows"
memory_limit_bytes = 100000
"""


def test_the_kernel_takes_every_queue_of_the_schema(in_lab, tmp_path):
    path = tmp_path / "queues.toml"
    path.write_text(ALL_QUEUES)
    texts = [queue_under_test(run.spec["aqm"], 1000, 10) for run in load_scenario(path).runs(seeds=1)]
    assert len(texts) == 7
    result = in_lab(
        "from weirlab.lab.net import LabNet\nfrom weirlab.topologies.dumbbell.network import Dumbbell, Link\n"
        f"for queue in {texts!r}:\n"
        "    with LabNet(Dumbbell(1, Link(50, 1, 0, 100), Link(10, 5, 0, 100), queue)) as net:\n"
        "        print(net['r1'].cmd('tc qdisc show dev bn parent 1:1').strip())\n"
    )
    assert result.status == 0, result.stderr
    lines = result.stdout.decode().splitlines()
    assert [line.split()[1] for line in lines] == ["pfifo", "pie", "red", "codel", "fq_pie", "fq_codel", "cake"]
    assert "alpha 3 beta 25" in lines[1]
    assert "ecn" in lines[2]
    assert "adaptive" in lines[2]
    assert "ce_threshold 3ms" in lines[3]
    assert "flows 32" in lines[4]
    assert "ecn" in lines[4].replace("ecn_prob", "").split()
    assert "memory_limit 1000000" in lines[5].replace("1000000b", "1000000")
    assert " flows " in lines[6]


def test_codel_says_no_to_ecn_by_name():
    aqm = {"qdisc": "codel", "target_ms": 5.0, "interval_ms": 100.0, "ecn": False}
    assert codel(aqm, 1000) == "codel limit 1000 target 5ms interval 100ms noecn"


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_refused(data):
    kept = 0
    with contextlib.suppress(ValueError):
        for _kind, value in attributes(data):
            kept += 4 + len(value)
    assert kept <= len(data)


def test_a_captured_pie_message():
    def attribute(kind: int, value: bytes) -> bytes:
        return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)

    basic = attribute(1, struct.pack("=QI4x", 1000, 7))
    queue = attribute(3, struct.pack("=IIIII", 3, 4362, 5, 0, 2))
    pie = attribute(4, struct.pack("=QIIIIIIII", 2**62, 1500, 0, 0, 12, 5, 2, 9, 4))
    header = struct.pack("=B3xiIII", 0, 2, 0x100000, 0x10001, 2)
    got = parse_message(header + attribute(1, b"pie\0") + attribute(7, basic + queue + pie))
    assert (got.kind, got.handle, got.sent_packets) == ("pie", 0x100000, 7)
    assert (got.backlog_packets, got.backlog_bytes) == (3, 4362)
    assert (got.drops, got.drops_aqm, got.drops_limit) == (None, 3, 2)
    assert (got.probability, got.marks) == (0.25, 4)


def test_a_qdisc_that_does_not_tell_causes_keeps_them_together():
    assert causes("pfifo", 9, None) == {"drops": None, "drops_limit": 9}
    assert causes("cake", 9, b"\0" * 64) == {"drops": 9}
    assert causes("fq_pie", 9, struct.pack("=9I", 12, 9, 4, 0, 5, 0, 0, 0, 0)) == {
        "drops": None, "drops_aqm": 5, "drops_limit": 4, "marks": 5
    }  # fmt: skip
    assert causes("codel", 9, struct.pack("=3IiiII", 0, 0, 0, 0, 0, 4, 1))["drops_aqm"] == 5
