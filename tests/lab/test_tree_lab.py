# SPDX-License-Identifier: Apache-2.0
"""weir-xdp's answers to trees of queue disciplines that this machine's kernel may lack: netem, flow queues, classes;
and to stock Mininet's TCLink. In the packaged lab, which has neither BTF nor JIT: signal auto is poll there."""

import json
import sys

import pytest

from weirlab import paths
from weirlab.lab.kernels import Job, LabError, open_lab

REPO = paths.clone()

DELAYS = "holds packets back for a time"
BY_FLOW = "gives each flow a queue of its own"
CLASSES = "classes under it have queues of their own"
UNSHAPED = "has no class"
REFUSED = {
    "htb over netem that delays": DELAYS,
    "netem that delays, tbf in it": DELAYS,
    "netem with jitter": DELAYS,
    "netem with slots": DELAYS,
    "fq_codel": BY_FLOW,
    "htb over fq_codel": BY_FLOW,
    "cake": BY_FLOW,
    "sfq": BY_FLOW,
    "fq": BY_FLOW,
    "prio": CLASSES,
    "hfsc without a class": UNSHAPED,
}
TAKEN = ("netem with a rate", "htb over netem with loss", "hfsc with a class", "pie")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Output of tree_in_lab.py, by case."""
    if not (REPO / "build" / "bin" / "weir-xdp").exists():
        pytest.skip("weir-xdp is not built; ./run test builds it")
    try:
        lab = open_lab("packaged")
    except LabError as error:
        pytest.skip(str(error))
    script = str(REPO / "tests" / "lab" / "tree_in_lab.py")
    done = lab.run(Job([sys.executable, script], tmp_path_factory.mktemp("tree"), wall_limit_s=400))
    assert done.status == 0, done.stderr.decode()
    found: dict[str, list[dict]] = {}
    for line in done.stdout.decode().splitlines():
        case = json.loads(line)
        found.setdefault(case.pop("case"), []).append(case)
    return found


def test_stock_mininets_rate_and_delay_on_one_link_are_refused(told):
    tree = told["TCLink"][0]["tree"]
    assert "htb" in tree
    assert "netem" in tree
    *real, virtual = (each for each in told["TCLink attach"] if not each["apart"])
    assert len(real) == 3
    for each in real:
        assert each["status"] == 1, each
        assert each["stderr"].startswith("weir-xdp: router-eth1: netem 10: under it holds packets back for a time")
        assert "--rate RATE --hook tc" in each["stderr"]
        assert len(each["stderr"].splitlines()) == 1
    assert virtual["status"] == 0, virtual


def test_stock_mininets_delay_on_another_link_is_the_remedy(told):
    apart = [each for each in told["TCLink attach"] if each["apart"]]
    assert [each["status"] for each in apart] == [0, 0, 0, 0], apart
    assert " 0% packet loss" in told["TCLink ping"][0]["text"]


@pytest.mark.parametrize("tree", REFUSED)
def test_refused(told, tree):
    (case,) = told[tree]
    assert case["plain"]["status"] == 1
    assert REFUSED[tree] in case["plain"]["stderr"]
    # one who insists gets one law for all flows and classes; what is held back stays no queue
    assert case["whole"]["status"] == (0 if REFUSED[tree] in (BY_FLOW, CLASSES) else 1), case["whole"]


@pytest.mark.parametrize("tree", TAKEN)
def test_taken(told, tree):
    (case,) = told[tree]
    assert case["plain"]["status"] == 0, case["plain"]


def test_netem_that_comes_while_the_poll_process_works_stops_the_law(told):
    (before,), (came,), (went,) = (told[f"running: {case}"] for case in ("before", "netem came", "netem went"))
    assert (before["probability"], before["trouble"]) == (1, "")
    assert came["probability"] == 0
    assert came["trouble"].startswith("the law lets all packets pass: netem 10: under it holds packets back")
    assert (went["probability"], went["trouble"]) == (1, "")
