# SPDX-License-Identifier: Apache-2.0
"""An interface with an `ingress` qdisc, as sqm-scripts leaves it. This qdisc has one block of filters for both
directions, so that a filter meant for egress runs on received packets."""

import json
import subprocess
import time

import pytest
from class_rig import HIT, NOT_ECT, frame, listing, tree
from daemon_rig import attached
from packet_rig import BUILD, HAS_TCX, NEEDS_TCX, Failed, until

CLSACT = ("--hook", "clsact")


@pytest.fixture(params=["ingress alone", "beside a redirection to an ifb"])
def ingress(rig, request):
    """The qdisc at rb, without filters and with one as sqm-scripts has it."""
    rig.shape("100mbit")
    rig.router.sh("tc qdisc add dev rb handle ffff: ingress")
    if "redirection" in request.param:
        rig.router.sh(
            "tc filter add dev rb parent ffff: prio 10 u32 match u32 0 0 action mirred egress redirect dev lo"
        )
    yield rig
    rig.weir("detach", "rb", check=False)
    for kind in ("ingress", "clsact"):
        rig.router.run("tc", "qdisc", "del", "dev", "rb", kind, check=False)
    rig.unshape()


def filters(rig, side: str) -> str:
    return rig.router.run("tc", "filter", "show", "dev", "rb", side).stdout


def rejected(rig, *args: object) -> None:
    """The command fails with one line and leaves all as it was, the root qdisc too."""
    before = (listing(rig), filters(rig, "ingress"), rig.router.sh("tc qdisc show dev rb"))
    with pytest.raises(Failed) as failure:
        rig.weir(*args)
    assert failure.value.status == 1
    assert len(failure.value.stderr.splitlines()) == 1
    assert "tc qdisc add dev rb clsact" in failure.value.stderr  # the remedy
    assert ("--hook tcx" in failure.value.stderr) is HAS_TCX
    assert (listing(rig), filters(rig, "ingress"), rig.router.sh("tc qdisc show dev rb")) == before


@pytest.mark.parametrize("signal", [("--signal", "poll"), ("--rate", "10mbit"), ("--peer",)])
@pytest.mark.parametrize("command", ["attach", "ensure"])
def test_no_law_is_attached_by_clsact(ingress, command, signal):
    signal = (*signal, ingress.peer) if signal == ("--peer",) else signal
    rejected(ingress, command, "rb", *signal, *CLSACT)


@pytest.mark.parametrize("command", ["attach", "ensure"])
def test_no_shaper_is_made_where_no_law_can_be(ingress, command):
    ingress.unshape()
    rejected(ingress, command, "rb", "--shape", "20mbit", *CLSACT)


def test_laws_of_classes_neither(ingress):
    tree(ingress, {"1:10": "1gbit", "1:20": "1gbit"})
    rejected(ingress, "attach", "rb", "--class", "1:10", *CLSACT)


@NEEDS_TCX
def test_tcx_needs_no_qdisc(ingress):
    ingress.weir("attach", "rb", "--signal", "poll", *HIT)
    assert ingress.status()["hook"] == "tcx"
    assert ingress.through([frame(1, NOT_ECT)] * 3, patience_s=0.5) == []
    assert ingress.status()["counters"]["dropped_aqm_packets"] == 3


def test_what_an_earlier_version_attached_there_is_off(ingress):
    """Such a filter counts as no law: `status` and `ensure` report it, and `ensure` takes it away."""
    ingress.router.sh("tc qdisc del dev rb ingress")
    ingress.weir("attach", "rb", "--signal", "poll", *CLSACT)
    program = f"{ingress.pins()}/prog_weir_egress"
    ingress.router.sh(
        "tc qdisc del dev rb clsact; tc qdisc add dev rb handle ffff: ingress;"
        f"tc filter add dev rb parent ffff: protocol all prio 100 handle 1 bpf da pinned {program}"
    )
    assert "weir_egress" in filters(ingress, "ingress")
    assert ingress.status()["gone"] is True
    with pytest.raises(Failed):
        ingress.weir("ensure", "rb", "--signal", "poll", *CLSACT)
    assert "weir_egress" not in filters(ingress, "ingress")


def test_the_daemon_reports_that_there_is_no_law(ingress, daemon):
    daemon.configure('[rb]\nsignal = "poll"\nhook = "clsact"\n')
    daemon.start()
    until(lambda: daemon.metric("failures_total", dev="rb") >= 1, "a failed look", 60)
    assert daemon.metric("attached", dev="rb") == 0
    assert not attached(ingress)
    # the remedy of the message
    ingress.router.sh("tc qdisc del dev rb ingress; tc qdisc add dev rb clsact")
    until(lambda: daemon.metric("attached", dev="rb") == 1, "the law on rb", 60)
    assert "weir_egress" in filters(ingress, "egress")
    assert "weir_egress" not in filters(ingress, "ingress")
    daemon.stop()


def test_the_other_end_may_have_one(rig):
    """Signal veth counts what the other end receives: there `ingress` serves as clsact does."""
    rig.shape("100mbit")
    rig.receiver.sh("tc qdisc add dev b0 handle ffff: ingress")
    try:
        with rig.attached("--peer", rig.peer, "--fixed-probability", "0", *CLSACT):
            sent = [frame(n, NOT_ECT) for n in range(20)]
            assert rig.through(sent) == sent
            until(lambda: rig.status()["backlog_packets"] == 0, "an empty queue", 60)
            counters = rig.status()["counters"]
            assert (counters["seen_packets"], counters["strays"], counters["resyncs"]) == (21, 0, 0)
        assert "ingress" in rig.receiver.run("tc", "qdisc", "show", "dev", "b0").stdout
    finally:
        rig.receiver.sh("tc qdisc del dev b0 ingress")
        rig.unshape()


@pytest.mark.parametrize("end", ["entry", "exit"])
def test_the_sampler_rejects_it_at_its_entry_only(rig, tmp_path, end):
    node, dev = (rig.router, "rb") if end == "entry" else (rig.receiver, "b0")
    node.sh(f"tc qdisc add dev {dev} handle ffff: ingress")
    out = tmp_path / "sojourn.jsonl"
    words = (BUILD / "weir-sojourn", "--hop", f"x:rb:{rig.peer}", "--out", out)
    try:
        sampler = rig.router.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = sampler.stdout.readline()
        if end == "exit":
            assert said == "ready\n"
            rig.through([frame(n, NOT_ECT) for n in range(5)])
            time.sleep(0.2)
            sampler.terminate()
        _, errors = sampler.communicate()
        if end == "entry":
            assert sampler.returncode == 1
            assert "tc qdisc add dev rb clsact" in errors
            assert filters(rig, "ingress") == ""
        else:
            lines = [json.loads(line) for line in out.read_text().splitlines()]
            total = next(line for line in lines if line["k"] == "sampler")
            assert (sampler.returncode, total["matched"], total["stamped"]) == (0, 5, 5)
    finally:
        node.sh(f"tc qdisc del dev {dev} ingress")
