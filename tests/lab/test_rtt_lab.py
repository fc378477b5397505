# SPDX-License-Identifier: Apache-2.0
"""Round trips seen by a router in the exact lab, of real stacks over netem: they are what netem says."""

import json
import sys

import pytest

from weirlab import paths
from weirlab.lab.kernels import ExactLab, Job, LabError

REPO = paths.clone()


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    try:
        lab = ExactLab()
    except LabError as error:
        pytest.skip(str(error))
    for tool in ("weir-server", "weir-client"):
        if not (REPO / "build" / "bin" / tool).exists():
            pytest.skip(f"{tool} is not built; ./run test builds it")
    script = str(REPO / "tests" / "lab" / "rtt_in_lab.py")
    done = lab.run(Job([sys.executable, script], tmp_path_factory.mktemp("rtt"), wall_limit_s=300, virtual_limit_s=60))
    assert done.status == 0, done.stderr.decode()
    grown, *samples = (json.loads(line) for line in done.stdout.splitlines())
    return [{**each, "grown": each["at_s"] > grown["grown_at_s"]} for each in samples]


@pytest.mark.parametrize("interface", ["near", "far"])
@pytest.mark.parametrize(
    ("source", "server", "least"),
    [("tcp-handshake", ":80 tcp", 4), ("quic-handshake", ":443 quic", 1), ("quic-handshake", ":444 quic", 1)],
)
def test_handshakes(seen, interface, source, server, least):
    found = [each for each in seen if each["interface"] == interface and each["flow"].endswith(server)]
    found = [each for each in found if each["source"] == source]
    assert len(found) == least
    assert {each["half"] for each in found} == {"both"}
    for each in found:
        assert each["rtt_us"] == pytest.approx(50_000, abs=1000)


@pytest.mark.parametrize("interface", ["near", "far"])
def test_tcp_data_and_acks_follow_a_way_that_grows(seen, interface):
    told = [each for each in seen if each["interface"] == interface and each["source"] == "tcp-ack"]
    before = [each["rtt_us"] for each in told if not each["grown"]]
    after = [each["rtt_us"] for each in told if each["grown"]][2:]  # the middle one of three, so two late
    assert min(len(before), len(after)) >= 3
    assert before == pytest.approx([50_000] * len(before), abs=1000)
    assert after == pytest.approx([90_000] * len(after), abs=1000)


def test_spin_bit(seen):
    """aioquic sends a request a round trip, so a flip of the bit is a round trip, by both directions' edges."""
    for interface in ("near", "far"):
        told = [e["rtt_us"] for e in seen if e["interface"] == interface and e["source"] == "spin-bit"]
        assert len(told) > 10
        assert sorted(told)[len(told) // 2] == pytest.approx(50_000, rel=0.1)
    assert not [each for each in seen if each["source"] == "spin-bit" and ":443 " in each["flow"]]  # quiche doesn't
