# SPDX-License-Identifier: Apache-2.0
"""weir-xdp's commands: what they refuse and how they say it, what they leave behind (nothing), gains swapped whole."""

import errno
import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from packet_rig import (
    BACKLOG,
    BUILD,
    HAS_TCX,
    HOOKS,
    LAST,
    NEEDS_BTF,
    NEEDS_TCX,
    PROFILES,
    WEIR,
    Failed,
    by_name,
    runs,
    take,
    until,
)
from packets import packets

import weir
from weir.gains import KEYS, REQUIRED, Gains
from weir.params import REMOVED

TUNED = PROFILES / "tuned.toml"
PAPER = PROFILES / "paper.toml"
SIGNALS = {
    "veth": ("--peer", None),
    "poll": ("--signal", "poll"),
    "backlog": ("--signal", "backlog"),
    "veth-clsact": ("--peer", None, "--hook", "clsact"),
    "poll-clsact": ("--signal", "poll", "--hook", "clsact"),
    "virtual-tc": ("--rate", "10mbit", "--hook", "tc"),
    "virtual-xdp": ("--rate", "10mbit"),
}


@pytest.fixture(scope="module")
def shaped(rig):
    rig.shape("100mbit")
    yield rig
    rig.unshape()


@pytest.fixture(params=by_name(SIGNALS))
def options(request, shaped):
    return [shaped.peer if option is None else option for option in SIGNALS[request.param]]


@pytest.fixture(autouse=True)
def nothing_stays(shaped):
    """One test that fails leaves nothing for the next to stumble over."""
    yield
    for one in json.loads(shaped.weir("status", "--json", check=False).stdout):
        shaped.weir("detach", one["dev"], check=False)
    shaped.router.sh("rm -rf /sys/fs/bpf/weir; ip link del gone0 2>/dev/null || true")


def listing(rig) -> dict:
    """Everything an attach could leave behind in our three namespaces."""
    # libxdp makes a folder to lock, and keeps it
    seen = {"pins": rig.router.sh("find /sys/fs/bpf | grep -vx /sys/fs/bpf/xdp | sort")}
    for name, node, devices in (("router", rig.router, ("ra", "rb")), ("receiver", rig.receiver, ("b0",))):
        hooks = [(dev, side) for dev in devices for side in ("ingress", "egress")]
        # without a clsact the last ones fail, and that they print nothing is part of what is compared
        filters = "".join(f"; echo {dev} {side}; tc filter show dev {dev} {side} 2>&1 || true" for dev, side in hooks)
        # packets of the kernel itself and the dump of another process change these two numbers meanwhile
        seen[name] = re.sub(r" (refcnt|direct_packets_stat) \d+", "", node.sh(f"ip -o link; tc qdisc{filters}"))
        seen |= {(name, dev, side, "tcx"): node.tcx_programs(dev, side) for dev, side in hooks}
    return seen


def ids(rig, folder: str) -> set[tuple[str, int]]:
    """Kernel objects behind the pins: programs, maps, links, and the inner map of the configuration."""
    found = set()
    for pin in rig.router.sh(f"find {folder} -type f").split():
        name = pin.rsplit("/", 1)[1]
        kind = "prog" if name.startswith("prog_") else "link" if name.startswith("link_") else "map"
        found.add((kind, json.loads(rig.router.run("bpftool", "-j", kind, "show", "pinned", pin).stdout)["id"]))
        if name == "config":
            inner = json.loads(rig.router.run("bpftool", "-j", "map", "dump", "pinned", pin).stdout)
            found.add(("map", int.from_bytes(bytes(int(b, 16) for b in inner[0]["value"]), "little")))
    return found


def refused(rig, *args: object, status: int = 1, words: str) -> None:
    """The command fails with one line that holds these words, and changes nothing."""
    before = listing(rig)
    with pytest.raises(Failed) as failure:
        rig.weir(*args)
    assert failure.value.status == status
    assert failure.value.stderr.startswith("weir-xdp: ")
    assert len(failure.value.stderr.splitlines()) == 1
    assert words in failure.value.stderr
    assert listing(rig) == before


def test_detach_leaves_nothing(shaped, options):
    before = listing(shaped)
    shaped.weir("attach", "rb", "--gains", TUNED, *options)
    held = ids(shaped, shaped.pins())
    pid = shaped.status().get("poll", {}).get("pid")
    assert listing(shaped) != before
    assert len(held) >= 6
    shaped.weir("detach", "rb")
    assert listing(shaped) == before
    assert pid is None or not runs(pid)
    for kind, number in held:  # the kernel frees them after a grace period
        until(
            lambda kind=kind, number=number: (
                shaped.router.run("bpftool", kind, "show", "id", number, check=False).returncode
            ),
            f"{kind} {number} gone",
        )


def test_attaching_twice_is_refused_and_harms_nothing(shaped, options):
    with shaped.attached(*options):
        refused(shaped, "attach", "rb", "--gains", TUNED, *options, words="already attached to rb")
        assert shaped.status()["gone"] is False


def test_status_tells_signal_gains_and_counters(shaped, options, request):
    wanted = request.node.callspec.params["options"]
    with shaped.attached(*options, profile="paper"):
        status = shaped.status()
        text = shaped.weir("status").stdout
    assert status["signal"] == wanted.split("-")[0]
    hook = "xdp" if wanted == "virtual-xdp" else "clsact" if wanted.endswith("clsact") or not HAS_TCX else "tcx"
    assert status["hook"] == hook
    assert status["gains"]["kp"] == pytest.approx(1.3125, rel=1e-5)
    assert (status["gains"]["integral"], status["gains"]["probability"]) == ("drop", "linear")
    assert f"({hook}), signal {status['signal']}" in text
    assert "m1_us = 20000" in text
    assert shaped.weir("status").stdout == "nothing is attached\n"
    assert json.loads(shaped.weir("status", "--json").stdout) == []


def test_auto_takes_the_best_signal(shaped):
    with shaped.attached():
        assert shaped.status()["signal"] == ("backlog" if Path("/sys/kernel/btf/vmlinux").exists() else "poll")
    with shaped.attached("--peer", shaped.peer):
        assert shaped.status()["signal"] == "veth"
    with shaped.attached("--rate", "1mbit"):
        assert shaped.status()["signal"] == "virtual"


def test_attach_prints_its_status_as_json(shaped):
    attached = json.loads(shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "2.5mbit", "--json").stdout)
    shaped.weir("detach", "rb")
    assert (attached["dev"], attached["signal"], attached["rate_bit_s"]) == ("rb", "virtual", 2500000)


# in front of libc's: a dump of filters, which alone asks who uses clsact, gets no answer
NO_DUMP_OF_FILTERS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

ssize_t send(int sock, const void *data, size_t size, int flags)
{
	ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
	const struct nlmsghdr *head = data;

	if (size >= sizeof(*head) && head->nlmsg_type == RTM_GETTFILTER && (head->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) {
		errno = ENOBUFS;
		return -1;
	}
	return next(sock, data, size, flags);
}
"""


def test_clsact_stays_where_it_cannot_be_told_who_uses_it(shaped, tmp_path):
    """Removed, it would take everybody's filters along."""
    before = listing(shaped)
    (tmp_path / "fault.c").write_text(NO_DUMP_OF_FILTERS)
    fault = tmp_path / "fault.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", fault, tmp_path / "fault.c", "-ldl"], check=True)
    shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "1mbit", "--hook", "clsact")
    shaped.router.sh("tc filter add dev rb ingress prio 10 protocol all u32 match u32 0 0 classid 1:1")
    done = shaped.router.run(WEIR, "detach", "rb", check=False, env={"LD_PRELOAD": str(fault)})
    assert done.returncode == 1
    assert done.stderr == "weir-xdp: rb: can't tell who uses clsact (No buffer space available), so it stays\n"
    assert "u32" in shaped.router.sh("tc filter show dev rb ingress")
    assert "direct-action" not in shaped.router.sh("tc filter show dev rb egress")
    shaped.router.sh("tc filter del dev rb ingress")
    shaped.weir("detach", "rb")  # a rest can be tried again
    assert listing(shaped) == before


@pytest.mark.parametrize("hook", HOOKS)
def test_two_attachments_share_an_interface(shaped, hook):
    """The attachment that made clsact may leave first; the last one removes clsact."""
    before = listing(shaped)
    for order in (("ra", "rb"), ("rb", "ra")):
        shaped.weir("attach", "rb", "--gains", TUNED, "--peer", shaped.peer, "--hook", hook)
        shaped.weir("attach", "ra", "--gains", TUNED, "--peer", "rb", "--hook", hook)
        for dev in order:
            shaped.weir("detach", dev)
        assert listing(shaped) == before


def test_another_namespace(shaped):
    """The loader runs in one namespace, the interface is in another, and so is the peer."""
    before = listing(shaped)
    shaped.weir("attach", "b0", "--netns", shaped.receiver.netns, "--gains", TUNED, "--peer", "rb")
    status = shaped.status("b0")
    assert (status["netns"], status["gone"]) == (shaped.receiver.netns, False)
    shaped.weir("detach", "b0")
    assert listing(shaped) == before


def test_detach_from_a_wrong_namespace_is_refused(shaped):
    with shaped.attached("--rate", "1mbit"):
        there = shaped.sender.netns
        refused(shaped, "detach", "rb", "--netns", there, words=f"nothing is attached to rb in {there}")
        done = shaped.router.run("nsenter", f"--net={there}", WEIR, "detach", "rb", check=False)
        assert done.returncode == 1
        assert "rb was attached in another network namespace" in done.stderr
        assert shaped.status()["gone"] is False


@pytest.mark.parametrize("hook", HOOKS)
def test_an_interface_that_went_away(shaped, hook):
    before = listing(shaped)
    shaped.router.sh("ip link add gone0 type veth peer name gone1; ip link set gone0 up; ip link set gone1 up")
    shaped.weir("attach", "gone0", "--gains", TUNED, "--peer", "gone1", "--hook", hook)
    shaped.router.sh("ip link del gone0")
    assert shaped.status("gone0")["gone"] is True
    shaped.weir("detach", "gone0")
    assert listing(shaped) == before


@pytest.mark.parametrize("signal", ["poll", pytest.param("backlog", marks=NEEDS_BTF)])
def test_an_interface_that_went_away_with_its_qdisc(shaped, signal):
    before = listing(shaped)
    shaped.router.sh("ip link add gone0 type veth peer name gone1; ip link set gone0 up; ip link set gone1 up")
    shaped.router.sh("tc qdisc add dev gone0 root tbf rate 10mbit burst 5000 limit 100000")
    shaped.weir("attach", "gone0", "--gains", TUNED, "--signal", signal)
    shaped.router.sh("ip link del gone0")
    status = shaped.status("gone0")
    assert (status["gone"], status["backlog_bytes"]) == (True, 0)
    refused(shaped, "watch", "gone0", words="gone0 is gone")
    shaped.weir("detach", "gone0")
    assert listing(shaped) == before


@pytest.mark.parametrize("hook", HOOKS)
def test_a_program_taken_off_under_us(shaped, hook):
    before = listing(shaped)
    shaped.weir("attach", "rb", "--gains", TUNED, "--peer", shaped.peer, "--hook", hook)
    if hook == "tcx":
        shaped.router.run("bpftool", "link", "detach", "pinned", f"{shaped.pins()}/link_egress")
    else:
        shaped.router.run("tc", "qdisc", "del", "dev", "rb", "clsact")
    assert shaped.status()["gone"] is True
    assert "GONE" in shaped.weir("status", "rb").stdout
    shaped.weir("detach", "rb")
    assert listing(shaped) == before


@NEEDS_TCX
def test_a_link_someone_else_holds_does_not_keep_the_program_there(shaped):
    before = listing(shaped)
    shaped.weir("attach", "rb", "--gains", TUNED, "--peer", shaped.peer)
    shaped.router.run("bpftool", "link", "pin", "pinned", f"{shaped.pins()}/link_egress", "/sys/fs/bpf/held")
    shaped.weir("detach", "rb")
    assert shaped.router.tcx_programs("rb", "egress") == []
    shaped.router.run("rm", "/sys/fs/bpf/held")
    assert listing(shaped) == before


def test_set_changes_only_what_it_names(shaped, options):
    with shaped.attached(*options):
        before = shaped.status()["gains"]
        shaped.weir("set", "rb", "kp=4.5", "target_us=5000")
        after = shaped.status()["gains"]
        assert (after["kp"], after["target_us"]) == (pytest.approx(4.5, rel=1e-6), 5000)
        assert {k: v for k, v in after.items() if k not in ("kp", "target_us")} == {
            k: v for k, v in before.items() if k not in ("kp", "target_us")
        }
        # the bound is kept in the domain of U; users see a probability of drop
        shaped.weir("set", "rb", "ecn_bound=0.1")
        shaped.weir("set", "rb", "probability=linear")
        assert shaped.status()["gains"]["ecn_bound"] == pytest.approx(0.1, rel=1e-6)


def test_a_share_of_the_target_moves_with_it(shaped):
    def times() -> list[int]:
        params = Gains(**shaped.status()["gains"]).to_params()
        return [params.delay_bound_us, params.delay_limit_us, params.ecn_drop_us]

    with shaped.attached("--rate", "10mbit", "delay_bound_share=1.25", "delay_limit_share=2", "ecn_drop_share=4"):
        assert times() == [18750, 30000, 60000]
        shaped.weir("set", "rb", "target_us=5000")
        assert times() == [6250, 10000, 20000]
        shaped.weir("set", "rb", "target_us=6000", "delay_limit_share=5", "ecn_drop_share=0")
        assert times() == [7500, 30000, 0]


def test_a_profile_may_leave_out_what_is_off(shaped, tmp_path):
    lines = PAPER.read_text().splitlines(keepends=True)
    short = [line for line in lines if line.split(" = ")[0] not in KEYS or line.split(" = ")[0] in REQUIRED]
    assert len(short) == len(lines) - len(KEYS) + len(REQUIRED)
    (tmp_path / "short.toml").write_text("".join(short))
    with shaped.attached("--rate", "1mbit", profile="paper"):
        whole = shaped.status()["gains"]
    shaped.weir("attach", "rb", "--gains", tmp_path / "short.toml", "--rate", "1mbit")
    assert shaped.status()["gains"] == whole
    shaped.weir("detach", "rb")


def test_set_of_limits_and_rate(shaped):
    with shaped.attached("--peer", shaped.peer):
        shaped.weir("set", "rb", "limit_packets=50", "limit_bytes=60000")
        assert (shaped.status()["limit_packets"], shaped.status()["limit_bytes"]) == (50, 60000)
        refused(shaped, "set", "rb", "rate=1mbit", status=2, words="only a virtual queue")
    with shaped.attached("--rate", "1mbit"):
        shaped.weir("set", "rb", "rate=3mbit", "limit_bytes=9000")
        assert (shaped.status()["rate_bit_s"], shaped.status()["limit_bytes"]) == (3000000, 9000)
        refused(shaped, "set", "rb", "limit_packets=5", status=2, words="not with signal virtual")


def test_set_while_traffic_flows_is_never_half(shaped):
    """Two whole sets of gains alternate under load: no packet is lost, no reader sees a mixture."""
    frames = [packets()["ipv4_full-ect0"].frame] * 300
    lost, mixed, sets, stop = [], [], 0, threading.Event()

    def load():
        while not stop.is_set():
            got = shaped.through(frames)
            if got != frames:
                lost.append(len(frames) - len(got))

    with shaped.attached("--peer", shaped.peer, "--fixed-probability", "0"):
        shaped.weir("set", "rb", "kp=1", "ki=1", "kd=1")
        thread = threading.Thread(target=load)
        thread.start()
        try:
            for _ in range(40):
                value = 2 - sets % 2
                writer = shaped.router.start(WEIR, "set", "rb", f"kp={value}", f"ki={value}", f"kd={value}")
                gains = shaped.status()["gains"]
                assert writer.wait() == 0
                sets += 1
                if not gains["kp"] == gains["ki"] == gains["kd"]:
                    mixed.append(gains)
        finally:
            stop.set()
            thread.join()
        counters = shaped.status()["counters"]
    assert (lost, mixed) == ([], [])
    assert counters["seen_packets"] > 300


def test_the_law_goes_on_after_the_poll_process_is_killed(shaped):
    """U was 1 or so; nobody updates it any more, so it fades, and packets pass again."""
    frame = packets()["ipv4_full-not_ect"].frame
    shaped.shape("1mbit")
    try:
        # 2 ms: silent after 16, half of U less with each 16 more
        steep = ("ki=50", "delay_bound_slope=0", "delay_limit_share=0")
        with shaped.attached("--signal", "poll", "interval_us=2000", "min_backlog_bytes=0", *steep):
            pid = shaped.status()["poll"]["pid"]
            out = shaped.sender.tap("a0")
            with out:

                def push() -> bool:
                    for _ in range(200):  # seconds of a queue, so that U is still up when the process is killed
                        out.send(frame)
                    return shaped.status()["u"] > 0.1

                until(push, "U risen under load")
                os.kill(pid, signal.SIGKILL)
                until(lambda: not shaped.status()["poll"]["alive"], "the process dead")
                until(lambda: shaped.status()["u"] == 0, "U faded")
                dropped = shaped.status()["counters"]["dropped_aqm_packets"]
                for _ in range(100):
                    out.send(frame)
                counters = shaped.status()["counters"]
            assert counters["dropped_aqm_packets"] == dropped
            assert counters["stale"] >= 100
            assert "DEAD" in shaped.weir("status", "rb").stdout
        assert "nothing is attached" in shaped.weir("status").stdout
    finally:
        shaped.shape("100mbit")


def test_the_poll_process_ends_by_itself_when_the_interface_goes(shaped):
    shaped.router.sh(
        "ip link add gone0 type veth peer name gone1; ip link set gone0 up;"
        "tc qdisc add dev gone0 root tbf rate 1mbit burst 5k latency 50ms"
    )
    shaped.weir("attach", "gone0", "--gains", TUNED, "--signal", "poll")
    pid = shaped.status("gone0")["poll"]["pid"]
    shaped.router.sh("ip link del gone0")
    until(lambda: not runs(pid), "the poll process gone")
    shaped.weir("detach", "gone0", "--pins-only")
    assert "nothing is attached" in shaped.weir("status").stdout


def note(why: str) -> str:
    """Notice of attach on leftovers that it removed."""
    return f"weir-xdp: removed what was left of an earlier attach to {why}\n"


def test_an_attach_cut_short_is_told_and_cleared(shaped):
    """By a detach, which had nothing to detach, and by the next attach, which goes on."""
    attach = ("attach", "rb", "--gains", TUNED, "--rate", "1mbit", "--hook", "tc")
    shaped.weir(*attach)
    pins = shaped.pins()
    shaped.weir("detach", "rb")
    for mend in (("detach", "rb"), attach):
        shaped.router.sh(f"mkdir -p {pins}")
        refused(shaped, "status", "rb", words="leftovers of an attach that was cut short")
        done = shaped.weir(*mend, check=False)
        assert done.returncode == (1 if mend[0] == "detach" else 0)
        assert mend[0] == "detach" or done.stderr == note("rb: it was cut short")
        assert mend[0] != "detach" or shaped.router.sh("find /sys/fs/bpf -name '[0-9]*'") == ""
    shaped.weir("detach", "rb")
    assert shaped.weir("status").stdout == "nothing is attached\n"


# map of an attachment, and the values another version of weir-xdp gave it: shorter or longer than ours
FOREIGN = {"meta": 4096, "queue": 8, "counters": 4096}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_another_version_attached_is_left_alone(shaped, name):
    """Neither read as ours nor taken for dead; its pins go when that is asked for."""
    kind = "percpu_array" if name == "counters" else "array"
    attach = ("attach", "rb", "--gains", TUNED, "--rate", "1mbit", "--hook", "tc")
    shaped.weir(*attach)
    pins = shaped.pins()
    shaped.router.sh(
        f"mv {pins}/{name} /sys/fs/bpf/ours; "
        f"bpftool map create {pins}/{name} type {kind} key 4 value {FOREIGN[name]} entries 1 name {name}"
    )
    words = "was attached by another version of weir-xdp: detach it with that version, or remove its pins"
    refused(shaped, "status", "rb", words=f"rb {words}")
    refused(shaped, "set", "rb", "kp=1", words=f"rb {words}")
    refused(shaped, "watch", "rb", words=f"rb {words}")
    refused(shaped, "status", words=words)
    with shaped.attached("--rate", "1mbit", dev="ra"):  # others' work goes on
        assert shaped.status("ra")["gone"] is False
    if name == "meta":
        refused(shaped, *attach, words=f"rb {words}")
        refused(shaped, "detach", "rb", words=f"rb {words}")
        shaped.weir("detach", "rb", "--pins-only")
        assert shaped.weir("status").stdout == "nothing is attached\n"
        shaped.router.sh("rm /sys/fs/bpf/ours; tc qdisc del dev rb clsact 2>/dev/null || true")
    else:
        refused(shaped, *attach, words="already attached to rb")
        shaped.router.sh(f"rm {pins}/{name}; mv /sys/fs/bpf/ours {pins}/{name}")
        shaped.weir("detach", "rb")


NEW = "ip link add gone0 type veth peer name gone1"
# ways to make an attachment to gone0 dead, and attach's reason
DEATHS = {
    "interface made again": (f"ip link del gone0; {NEW}", "its interface is gone"),
    "number given again": (
        f"i=$(ip -o link show gone0 | cut -d: -f1); ip link del gone0; {NEW.replace('gone0', 'gone0 index $i')}",
        "its program was taken off",
    ),
    "clsact removed": ("tc qdisc del dev gone0 clsact", "its program was taken off"),
    "poll process killed": (
        "kill -9 $(weir-xdp status gone0 | sed -n 's/.*poll process \\([0-9]*\\).*/\\1/p')",
        "its poll process is dead",
    ),
}


@pytest.mark.parametrize("death", DEATHS)
def test_what_is_dead_is_cleared_by_the_next_attach(shaped, death):
    kill, why = DEATHS[death]
    before = listing(shaped)
    queue = "tc qdisc add dev gone0 root tbf rate 10mbit burst 5k latency 50ms"
    signal_name = "poll" if "poll" in death else "veth"
    options = ("--signal", "poll") if signal_name == "poll" else ("--peer", "gone1")
    attach = ("attach", "gone0", "--gains", TUNED, *options, "--hook", "clsact")
    shaped.router.sh(f"{NEW}; {queue}")
    try:
        shaped.weir(*attach)
        shaped.router.sh(kill)
        if signal_name == "poll":  # its last write has to be old
            until(lambda: not shaped.status("gone0")["poll"]["alive"], "the process dead")
        assert shaped.weir(*attach).stderr == note(f"gone0: {why}")
        assert shaped.status("gone0")["gone"] is False
        assert [one["dev"] for one in json.loads(shaped.weir("status", "--json").stdout)] == ["gone0"]
        refused(shaped, *attach, words=f"already attached to gone0 (signal {signal_name})")
        shaped.weir("detach", "gone0")
    finally:
        shaped.router.sh("ip link del gone0")
    assert listing(shaped) == before


def test_a_poll_process_of_another_pid_namespace_is_not_dead(shaped):
    """Its number says nothing here; that it writes does."""
    attach = (WEIR, "attach", "rb", "--gains", TUNED, "--signal", "poll")
    script = '"$@" && exec sleep 600'
    away = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh")
    container = shaped.router.start(*away, *attach, stdout=subprocess.PIPE)
    try:
        assert container.stdout.readline().startswith("attached to rb ")
        assert shaped.status()["poll"]["alive"] is True
        refused(shaped, *attach[1:], words="already attached to rb (signal poll)")
    finally:
        container.kill()  # and with it all that runs there
        container.communicate()
    until(lambda: not shaped.status()["poll"]["alive"], "the process dead")
    assert shaped.weir(*attach[1:]).stderr == note("rb: its poll process is dead")
    shaped.weir("detach", "rb")


KILLS = 10


@pytest.mark.parametrize("signal_name", ["poll-clsact", "veth-clsact", "virtual-xdp", BACKLOG])
def test_an_attach_killed_at_any_moment_is_cleared_by_the_next(shaped, signal_name):
    """Killed after ever longer delays, from before anything is done to after all is. Attach says `already attached`
    only where that is so, and never stumbles over the remains."""
    options = [shaped.peer if option is None else option for option in SIGNALS[signal_name]]
    attach = ("attach", "rb", "--gains", TUNED, *options)
    before = listing(shaped)
    whole_s = math.inf
    for _ in range(3):  # the first one finds nothing in the caches
        began = time.monotonic()
        shaped.weir(*attach)
        whole_s = min(whole_s, time.monotonic() - began)
        shaped.weir("detach", "rb")
    cut_short = kill = 0
    while kill < KILLS or (not cut_short and kill < 10 * KILLS):  # later, where the machine is slower than it was
        process = shaped.router.start(WEIR, *attach, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole_s * kill / KILLS)
        process.kill()  # nsenter has become weir-xdp by then, or will not
        process.wait()
        done = shaped.weir(*attach, check=False)
        if done.returncode:  # the poll process may have brought it to its end without the one that was killed
            assert "already attached to rb" in done.stderr
        elif done.stderr:
            assert done.stderr == note("rb: it was cut short")
            cut_short += 1
        assert shaped.status()["gone"] is False
        shaped.weir("detach", "rb")
        kill += 1
    assert listing(shaped) == before
    assert cut_short, "no kill came between"


@pytest.mark.parametrize("hook", HOOKS)
def test_attach_and_detach_at_the_same_time(shaped, hook):
    """In any order: in the end the output of `status` is right, and detach leaves nothing."""
    before = listing(shaped)
    attach = ("attach", "rb", "--gains", TUNED, "--peer", shaped.peer, "--hook", hook)
    for _ in range(20):
        commands = [attach, ("detach", "rb"), attach, ("detach", "rb")]
        running = [
            shaped.router.start(WEIR, *command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
            for command in commands
        ]
        for command, process in zip(commands, running, strict=True):
            said = process.communicate()[1]
            wanted = "already attached to rb" if command is attach else "nothing is attached to rb"
            assert not said or said.startswith(f"weir-xdp: {wanted}"), said
        attached = json.loads(shaped.weir("status", "--json").stdout)
        filters = shaped.router.run("tc", "filter", "show", "dev", "rb", "egress", check=False).stdout
        programs = filters.count("direct-action") + len(shaped.router.tcx_programs("rb", "egress"))
        assert [one["gone"] for one in attached] == [False] * programs
        if attached:
            shaped.weir("detach", "rb")
    assert listing(shaped) == before


def test_who_is_at_work_is_waited_for(shaped):
    """A stopped attach holds the lock of its interface, and of no other; it ends with it, even when killed."""
    shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "1mbit")
    folder = Path(shaped.pins())
    shaped.weir("detach", "rb")
    lock = folder.with_name("lock-" + folder.name.removesuffix("-ingress"))
    hold = "import fcntl, os, sys, time; os.makedirs(sys.argv[1]);"
    hold += "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(flush=True); time.sleep(600)"
    holder = shaped.router.start(sys.executable, "-c", hold, lock, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        waits = shaped.router.start(WEIR, "attach", "rb", "--gains", TUNED, "--rate", "1mbit")
        with shaped.attached("--rate", "1mbit", dev="ra"):
            assert waits.poll() is None
            assert [one["dev"] for one in json.loads(shaped.weir("status", "--json").stdout)] == ["ra/ingress"]
    finally:
        holder.kill()
        holder.communicate()
    assert waits.wait() == 0
    shaped.weir("detach", "rb")


def test_one_name_in_two_namespaces(shaped):
    """Both at once, each asked for by itself: pins go by namespace and number."""
    before = listing(shaped)
    far = shaped.sender.netns
    shaped.router.sh("ip link add two0 type veth peer name two1")
    shaped.sender.sh("ip link add two0 type veth peer name two1")
    try:
        attach = ("attach", "two0", "--gains", TUNED, "--hook", "tc")
        shaped.weir(*attach, "--rate", "1mbit")
        shaped.weir(*attach, "--rate", "2mbit", "--netns", far)
        refused(shaped, *attach, "--rate", "1mbit", "--netns", far, words="already attached to two0")
        listed = {one["dev"]: one["rate_bit_s"] for one in json.loads(shaped.weir("status", "--json").stdout)}
        assert listed == {"two0": 1000000, f"two0@{far}": 2000000}
        for words in (("two0", "--netns", far), (f"two0@{far}",)):
            assert json.loads(shaped.weir("status", *words, "--json").stdout)["rate_bit_s"] == 2000000
        shaped.weir("set", f"two0@{far}", "rate=3mbit")
        assert {dev: shaped.status(dev)["rate_bit_s"] for dev in listed} == {"two0": 1000000, f"two0@{far}": 3000000}
        lines = shaped.weir("watch", "--all", "--count", "1", "--every-ms", "1").stdout.splitlines()
        assert {line["dev"] for line in map(json.loads, lines) if line["k"] == "aqm"} == set(listed)
        there = shaped.weir("watch", "--all", "--netns", far, "--count", "1", "--every-ms", "1").stdout.splitlines()
        assert {json.loads(line)["dev"] for line in there} == {"two0"}
        shaped.weir("detach", "two0")
        assert json.loads(shaped.weir("status", f"two0@{far}", "--json").stdout)["gone"] is False
        shaped.weir("detach", f"two0@{far}")
    finally:
        shaped.router.sh("ip link del two0")
        shaped.sender.sh("ip link del two0")
    assert listing(shaped) == before


FILTERS = {
    "u32 with a class": ("u32 match u32 0 0 classid 1:1", "filter u32 of priority 10", "ends the chain"),
    "u32 that redirects": ("u32 match u32 0 0 action mirred egress redirect dev lo", "filter u32 of", "ends the chain"),
    "bytecode": ("bpf bytecode '1,6 0 0 4294967295' classid 1:1", "filter bpf of priority 10", "ends the chain"),
    "a program": (f"bpf da object-file {BUILD}/empty.bpf.o section tc", "filter bpf of priority 10", "can end"),
}


@pytest.mark.parametrize("case", FILTERS)
def test_a_filter_that_keeps_packets_from_the_law_is_told(shaped, case):
    """At attach and in status; behind ours, or with our program at TCX, it does no harm."""
    words, *said = FILTERS[case]
    attach = ("attach", "rb", "--gains", TUNED, "--signal", "poll", "--hook", "clsact")
    shaped.router.sh(f"tc qdisc add dev rb clsact; tc filter add dev rb egress prio 10 protocol all {words}")
    try:
        note = shaped.weir(*attach).stderr
        status = shaped.status()
        for word in said:
            assert word in note
            assert word in status["bypass"]
        assert f"BYPASS: {status['bypass']}" in shaped.weir("status", "rb").stdout
        if case == "u32 with a class":  # and what it does shows in the counters
            shaped.through([packets()["ipv4_full-not_ect"].frame] * 300)
            status = shaped.status()
            assert (status["counters"]["seen_packets"], "100 % never reached the law" in status["bypass"]) == (0, True)
        shaped.weir("detach", "rb")
        if HAS_TCX:
            with shaped.attached("--signal", "poll", "--hook", "tcx"):
                assert "bypass" not in shaped.status()
        shaped.router.sh(f"tc filter del dev rb egress; tc filter add dev rb egress prio 200 protocol all {words}")
        assert shaped.weir(*attach).stderr == ""
        assert "bypass" not in shaped.status()
        shaped.weir("detach", "rb")
    finally:
        shaped.router.run("tc", "qdisc", "del", "dev", "rb", "clsact")


@NEEDS_TCX
def test_a_tcx_program_before_the_law_is_told(shaped):
    with shaped.router.tcx_programs_at("rb", "egress", 1):
        done = shaped.weir("attach", "rb", "--gains", TUNED, "--peer", shaped.peer)
        assert "TCX program filler (id " in done.stderr
        assert shaped.status()["bypass"] in done.stderr
    assert "bypass" not in shaped.status()  # it is gone
    shaped.weir("detach", "rb")


def test_a_renamed_interface_and_one_with_a_dot(shaped):
    """Found by the name it has now; and a VLAN's name is no trouble, though no pin may be called so."""
    before = listing(shaped)
    shaped.router.sh("ip link add gone.100 type veth peer name gone1")
    try:
        shaped.weir("attach", "gone.100", "--gains", TUNED, "--rate", "1mbit")
        assert shaped.status("gone.100")["dev"] == "gone.100"
        shaped.router.sh("ip link set gone.100 name gone0")
        assert shaped.status("gone0")["gone"] is False
        refused(shaped, "status", "gone.100", words="gone0")  # the line names it as it is called now
        shaped.weir("detach", "gone0")
    finally:
        shaped.router.run("ip", "link", "del", "gone1")
    assert listing(shaped) == before


def test_a_failing_attach_takes_back_what_it_did(shaped):
    """The peer's end is attached first; then the near one finds its place taken."""
    clsact = ("--hook", "clsact")
    shaped.router.sh(
        "tc qdisc add dev rb clsact; tc filter add dev rb egress prio 100 handle 1 bpf da"
        f" object-file {BUILD}/empty.bpf.o section tc"
    )
    try:
        refused(
            shaped, "attach", "rb", "--gains", TUNED, "--peer", shaped.peer, *clsact,
            words="priority 100 at egress is taken",
        )  # fmt: skip
        for signal_name in ("auto", "poll"):
            refused(
                shaped, "attach", "rb", "--gains", TUNED, "--signal", signal_name, *clsact, words="is taken by another"
            )
    finally:
        shaped.router.run("tc", "qdisc", "del", "dev", "rb", "clsact")


@NEEDS_TCX
def test_a_failing_attach_takes_its_links_back(shaped):
    with shaped.router.tcx_programs_at("rb", "egress"):
        for options in (("--peer", shaped.peer), ("--signal", "auto"), ("--signal", "poll")):
            refused(shaped, "attach", "rb", "--gains", TUNED, *options, words="rb: can't attach at egress: as many")


@NEEDS_TCX
def test_attaching_twice_from_another_folder_of_pins_is_refused(shaped):
    with shaped.attached("--peer", shaped.peer):
        for options in (("--peer", shaped.peer), ("--signal", "poll")):
            refused(
                shaped, "attach", "rb", "--gains", TUNED, *options, "--pins", "/sys/fs/bpf/other",
                words="a program of ours is at",
            )  # fmt: skip


@pytest.mark.skipif(HAS_TCX, reason="this kernel has TCX")
def test_without_tcx_hook_tcx_is_refused(shaped):
    refused(shaped, "attach", "rb", "--gains", TUNED, "--peer", shaped.peer, "--hook", "tcx", words="clsact works here")


@pytest.mark.skipif(Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has BTF")
def test_without_btf_signal_backlog_is_refused(shaped):
    refused(shaped, "attach", "rb", "--gains", TUNED, "--signal", "backlog", words="this kernel has no BTF")


def test_another_xdp_program_is_left_alone(shaped):
    shaped.router.run("ip", "link", "set", "dev", "rb", "xdp", "obj", BUILD / "empty.bpf.o", "sec", "xdp")
    try:
        refused(
            shaped,
            "attach",
            "rb",
            "--gains",
            TUNED,
            "--rate",
            "1mbit",
            words="another XDP program is on it (empty_xdp)",
        )
    finally:
        shaped.router.run("ip", "link", "set", "dev", "rb", "xdp", "off")


# ways of another loader to attach our object
LOADERS = {
    "ip": "ip link set dev rb xdp obj {object} sec xdp",
    "bpftool": (
        "bpftool prog load {object} /sys/fs/bpf/theirs type xdp;"
        "bpftool net attach xdp pinned /sys/fs/bpf/theirs dev rb; rm /sys/fs/bpf/theirs"
    ),
    "xdp-loader": "xdp-loader load rb {object} >&2",
}


@pytest.mark.parametrize("loader", LOADERS)
def test_a_program_that_another_loader_put_there_is_adopted(shaped, loader):
    """It lets everything pass until it has a configuration, and again when that is taken away; it stays theirs."""
    if loader == "xdp-loader" and not shutil.which("xdp-loader"):
        pytest.skip("not installed: xdp-loader (package xdp-tools)")
    adopt = ("adopt", "rb", "--gains", TUNED, "--rate", "10mbit")
    frames = [packets()["ipv4_full-not_ect"].frame] * 20
    *sent_back, last = [frame[6:12] + frame[:6] + frame[12:] for frame in (*frames, LAST)]

    def arrive() -> int:
        """Number of these that come in at rb and out at ra."""
        count, out, back = 0, shaped.receiver.tap("b0"), shaped.sender.tap("a0")
        back.settimeout(60)  # a patience, not a measurement
        with out, back:
            for frame in (*sent_back, last):
                out.send(frame)
            while (frame := take(back)) != last:
                count += frame in sent_back
        return count

    def dropped() -> bool:
        counters = shaped.status()["counters"]
        return counters["dropped_limit_packets"] == counters["seen_packets"] == len(frames)

    refused(shaped, *adopt, words="no XDP program weir_ingress is on it")
    shaped.router.sh(LOADERS[loader].format(object=BUILD / "weir_xdp.bpf.o"))
    try:
        refused(shaped, "attach", "rb", "--gains", TUNED, "--rate", "1mbit", words="`weir-xdp adopt rb`")
        there = listing(shaped)
        assert arrive() == len(frames)  # without a configuration it lets all pass
        shaped.weir(*adopt)
        refused(shaped, *adopt, words="already attached to rb/ingress (signal virtual)")
        refused(shaped, *adopt, "--pins", "/sys/fs/bpf/other", words="weir_ingress has a configuration")
        status = shaped.status()
        assert (status["hook"], status["signal"], status["gone"]) == ("xdp", "virtual", False)
        assert (status["xdp_owner"], status["counters"]["seen_packets"]) == ("another loader", 0)
        shaped.weir("set", "rb", "limit_bytes=1")
        with shaped.receiver.tap("b0") as out:
            for frame in sent_back:
                out.send(frame)
        until(dropped, "all dropped by the limit")
        shaped.weir("detach", "rb")
        assert arrive() == len(frames)
        assert listing(shaped) == there
        shaped.weir(*adopt)
        shaped.router.run("ip", "link", "set", "dev", "rb", "xdp", "off")
        assert shaped.status()["gone"] is True
        shaped.weir("detach", "rb")
    finally:
        shaped.router.run("ip", "link", "set", "dev", "rb", "xdp", "off")
        shaped.router.sh("rm -rf /sys/fs/bpf/xdp/dispatch*")


def test_ours_and_another_xdp_program_run_in_libxdps_dispatcher(shaped):
    """xdp-loader's program and ours beside each other, whoever comes first; each goes without the other."""
    if not shutil.which("xdp-loader"):
        pytest.skip("not installed: xdp-loader (package xdp-tools)")
    theirs = ("xdp-loader", "load", "rb", BUILD / "empty.bpf.o", "-s", "xdp")

    def there() -> list[str]:
        lines = shaped.router.run("xdp-loader", "status", "rb").stdout.splitlines()
        return sorted(name for line in lines for name in ("weir_ingress", "empty_xdp") if name in line.split())

    try:
        shaped.router.run(*theirs)
        if "xdp_dispatcher" not in shaped.router.run("xdp-loader", "status", "rb").stdout:
            shaped.router.run("xdp-loader", "unload", "rb", "--all")
            with shaped.attached("--rate", "1mbit"):  # as xdp-loader does it: alone
                assert (shaped.status()["xdp_owner"], there()) == ("weir-xdp", ["weir_ingress"])
                assert "alone" in shaped.status()["why"]
            assert there() == []
            pytest.skip("libxdp's dispatcher does not work on this kernel (xdp-loader loads a program alone, too)")
        shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "1mbit")
        assert (shaped.status()["xdp_owner"], there()) == ("libxdp", ["empty_xdp", "weir_ingress"])
        shaped.weir("detach", "rb")
        assert there() == ["empty_xdp"]
        shaped.router.run("xdp-loader", "unload", "rb", "--all")
        with shaped.attached("--rate", "1mbit"):
            shaped.router.run(*theirs)
            assert shaped.status()["gone"] is False
            assert there() == ["empty_xdp", "weir_ingress"]
    finally:
        shaped.router.run("xdp-loader", "unload", "rb", "--all", check=False)


def test_watch_writes_one_json_line_a_sample(shaped, options, tmp_path, request):
    out = tmp_path / "samples"
    with shaped.attached(*options, "--fixed-probability", "0.5"):
        shaped.weir("watch", "rb", "--every-ms", "1", "--count", "5", "--name", "here", "--out", out)
        printed = shaped.weir("watch", "rb", "--every-ms", "1", "--count", "1").stdout
    samples = [json.loads(line) for line in out.read_text().splitlines()]
    fields = {
        "k", "t_us", "dev", "hop", "backlog_bytes", "backlog_packets", "tau_us", "u", "drop_probability",
        "dq_rate_bit_s", "seen", "passed_bytes", "marks", "drops_aqm", "drops_limit", "row", "config_id", "age_us",
    }  # fmt: skip
    if request.node.callspec.params["options"].startswith("virtual"):
        fields = fields - {"backlog_packets"} | {"rate_age_us"}  # elsewhere no rate is known yet
    assert len(samples) == 5
    assert all(set(sample) == fields for sample in samples)
    assert all((s["k"], s["hop"], s["u"], s["drop_probability"]) == ("aqm", "here", 0.5, 0.25) for s in samples)
    assert sorted(s["t_us"] for s in samples) == [s["t_us"] for s in samples]
    assert json.loads(printed)["hop"] == "bottleneck"


def test_times_take_units_and_profiles_have_names(shaped, tmp_path):
    """Without --gains the profile is `tuned`, with --coupled `coupled`; a file says the same with units or without."""

    def gains(*args: object) -> dict:
        shaped.weir("attach", "rb", "--rate", "10mbit", *args)
        try:
            return shaped.status()["gains"]
        finally:
            shaped.weir("detach", "rb")

    tuned = gains("--gains", TUNED)
    assert gains() == gains("--gains", "tuned") == tuned
    assert gains("--gains", "paper") == gains("--gains", PAPER)
    assert gains("target=5ms", "m1=0.03s", "idle_halflife=250us") == tuned | {
        "target_us": 5000, "m1_us": 30000, "idle_halflife_us": 250,
    }  # fmt: skip
    (tmp_path / "units.toml").write_text(TUNED.read_text().replace("target_us = 15000", 'target = "15ms"'))
    assert gains("--gains", tmp_path / "units.toml") == tuned
    (tmp_path / "twice.toml").write_text(TUNED.read_text() + 'target = "15ms"\n')
    refused(shaped, "attach", "rb", "--rate", "10mbit", "--gains", tmp_path / "twice.toml", words="target: given twice")
    with shaped.attached("--rate", "10mbit"):
        shaped.weir("set", "rb", "target=5ms", "rate=20mbit")
        assert (shaped.status()["gains"]["target_us"], shaped.status()["rate_bit_s"]) == (5000, 20_000_000)


def test_keys_of_experts_need_an_option_or_a_profile(shaped, tmp_path):
    """Users set the target, and switch marks and flows on and off."""
    (tmp_path / "mine.toml").write_text(TUNED.read_text().replace("kp = 20.0", "kp = 7.0"))
    with shaped.attached("--rate", "10mbit"):
        wrong = shaped.router.run("sh", "-c", f"{WEIR} set rb kp=3", check=False)
        assert (wrong.returncode, shaped.status()["gains"]["kp"]) == (2, pytest.approx(20))
        assert "--expert" in wrong.stderr
        shaped.router.sh(f"{WEIR} set rb kp=3 --expert; {WEIR} set rb target=5ms ecn=off flows=off")
        found = shaped.status()["gains"]
        assert [found[key] for key in ("kp", "target_us", "ecn_bound", "share_least")] == pytest.approx([3, 5000, 0, 0])
        shaped.router.sh(f"{WEIR} set rb ecn=on flows=on")
        assert (shaped.status()["gains"]["ecn_bound"], shaped.status()["gains"]["share_least"]) == (1, 1)
        assert shaped.router.run(WEIR, "set", "rb", "ecn=2", check=False).returncode == 2
    for option in ("--profile", "--gains"):
        with shaped.attached("--rate", "10mbit", option, tmp_path / "mine.toml"):
            assert shaped.status()["gains"]["kp"] == pytest.approx(7)
    keys = {words: _keys_of_help(shaped, words) for words in (("--help",), ("--expert", "--help"), ("set", "--help"))}
    assert keys[("--expert", "--help")] >= set(KEYS)
    assert keys[("--help",)] & set(KEYS) == keys[("set", "--help")] & set(KEYS) == {"target_us"}


def _keys_of_help(shaped, words: tuple[str, ...]) -> set[str]:
    lines = shaped.weir(*words).stdout.splitlines()
    return {line.split()[0] for line in lines if line.startswith("  ")}


def test_a_profile_of_an_earlier_release_is_read_where_its_keys_had_no_effect(shaped, tmp_path):
    for key in REMOVED:
        (tmp_path / "old.toml").write_text(f"{TUNED.read_text()}{key} = 0\n")
        with shaped.attached("--rate", "10mbit", "--profile", tmp_path / "old.toml"):
            assert shaped.status()["gains"]["kp"] == pytest.approx(20)
        (tmp_path / "old.toml").write_text(f"{TUNED.read_text()}{key} = 3\n")
        words = REMOVED[key] or key
        refused(shaped, "attach", "rb", "--profile", tmp_path / "old.toml", "--rate", "10mbit", words=words)


def test_versions():
    for tool in (WEIR, BUILD / "weir-sojourn"):
        for line in (["--version"], ["attach", "--version"])[: 2 if tool == WEIR else 1]:
            said = subprocess.run([tool, *line], capture_output=True, text=True, check=True).stdout
            assert re.fullmatch(rf"{tool.name} {re.escape(weir.__version__)}( \(.*\))?\n", said)


def all_of_terminal(master: int) -> str:
    """Text written to a terminal that no process holds open. One read returns no more than a buffer of the kernel."""
    text = b""
    with open(master, "rb", buffering=0) as stream:
        try:
            while more := stream.read(4096):
                text += more
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal's end of file
                raise
    return text.decode()


def test_watch_has_rows_for_people(shaped, tmp_path):
    """On a terminal, or with --text; elsewhere JSON as ever."""
    with shaped.attached("--rate", "1mbit", "--fixed-probability", "0.5"):
        head, first, second = shaped.weir("watch", "rb", "--every", "1ms", "--count", "2", "--text").stdout.splitlines()
        here, there = pty.openpty()
        watch = shaped.router.start(WEIR, "watch", "rb", "--every", "1ms", "--count", "1", stdout=there)
        assert watch.wait() == 0
        os.close(there)
        on_terminal = all_of_terminal(here)
        said = shaped.weir("watch", "rb", "--every", "1ms", "--count", "1", "--json").stdout
    assert head.split()[:4] == ["interface", "queue", "packets", "delay"]
    assert first.split() == ["rb", "0", "B", "0", "us", "1", "Mbit/s", "25.00%"]  # one sample has no rates
    assert second.split() == ["rb", "0", "B", "0", "us", "1", "Mbit/s", "0", "bit/s", "25.00%", "0", "0", "0"]
    assert on_terminal.splitlines() == [head, first]
    assert json.loads(said)["k"] == "aqm"


def test_watch_ends_when_the_queue_is_detached(shaped):
    shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "1mbit")
    watch = shaped.router.start(WEIR, "watch", "rb", "--every-ms", "10", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch.stdout.readline()
    shaped.weir("detach", "rb")
    _, stderr = watch.communicate()
    assert watch.returncode == 1
    assert stderr == "weir-xdp: rb was detached\n"


def test_watch_ends_well_on_a_signal(shaped):
    with shaped.attached("--rate", "1mbit"):
        watch = shaped.router.start(WEIR, "watch", "rb", "--every-ms", "10", stdout=subprocess.PIPE)
        watch.stdout.readline()
        watch.terminate()
        watch.communicate()
    assert watch.returncode == 0


def test_watch_all_follows_what_comes_and_goes(shaped):
    """Attached, changed, detached and attached anew: each is reported, with the present configuration."""
    watch = shaped.router.start(WEIR, "watch", "--all", "--every-ms", "10", stdout=subprocess.PIPE)

    def told(kind: str) -> dict:
        while True:
            line = json.loads(watch.stdout.readline())
            if line["k"] == kind:
                return line

    told("idle")
    shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "10mbit")
    new, sample = told("new"), told("aqm")
    assert (new["dev"], new["config_id"]) == (sample["dev"], sample["config_id"])
    assert new["dev"] == "rb/ingress"
    assert {key: shaped.status()[key] for key in ("gains", "attach_id")} == {
        key: new[key] for key in ("gains", "attach_id")
    }
    shaped.weir("set", "rb", "target_us=5000")
    changed, sample = told("gains"), told("aqm")
    assert (changed["dev"], changed["gains"]["target_us"]) == ("rb/ingress", 5000)
    assert new["config_id"] != changed["config_id"] == sample["config_id"]
    shaped.weir("detach", "rb")
    assert told("gone")["why"] == "rb/ingress was detached"
    shaped.weir("attach", "rb", "--gains", TUNED, "--rate", "10mbit")
    assert told("new")["attach_id"] != new["attach_id"]
    shaped.weir("detach", "rb")
    told("idle")
    watch.stdout.close()  # also with nothing to write it notices
    assert watch.wait() == 1


def test_watch_of_several(shaped):
    with shaped.attached("--rate", "1mbit"), shaped.attached("--rate", "1mbit", dev="ra"):
        lines = shaped.weir("watch", "rb", "ra", "--every-ms", "1", "--count", "2").stdout.splitlines()
    assert [json.loads(line)["dev"] for line in lines] == ["rb", "ra", "rb", "ra"]


def test_set_with_an_expectation(shaped):
    with shaped.attached("--rate", "1mbit"):
        first = shaped.status()["config_id"]
        done = json.loads(shaped.weir("set", "rb", "kp=2", "--expect", first, "--json").stdout)
        status = shaped.status()
        assert (done["dev"], done["config_id"], done["gains"]) == ("rb", status["config_id"], status["gains"])
        refused(shaped, "set", "rb", "kp=3", "--expect", first, status=3, words="its gains were changed: configuration")
        assert shaped.status()["gains"] == status["gains"]


def test_a_set_cut_short_at_any_point_is_mended_by_the_next(shaped):
    """Killed before the swap it leaves the pin of a map that never came to be, after it one of the map before."""
    with shaped.attached("--rate", "10mbit"):
        pins = shaped.pins()
        before = shaped.status()["config_id"]
        shaped.router.sh(f"bpftool map pin id {before} {pins}/config_next")
        shaped.weir("set", "rb", "target_us=5000")
        shaped.router.sh(f"rm {pins}/config_now; bpftool map pin pinned {pins}/meta {pins}/config_now")
        assert shaped.status()["gains"]["target_us"] == 5000
        shaped.weir("set", "rb", "target_us=6000")
        assert shaped.status()["gains"]["target_us"] == 6000
        now = json.loads(shaped.router.run("bpftool", "-j", "map", "show", "pinned", f"{pins}/config_now").stdout)
        assert now["id"] == shaped.status()["config_id"]
        assert "config_next" not in shaped.router.sh(f"ls {pins}")


# command line, exit status, words of the message
ERRORS = {
    "no command": ((), 2, "no command given"),
    "unknown command": (("atach", "rb"), 2, "no command atach"),
    "no interface": (("attach",), 2, "which interface"),
    "unknown option": (("attach", "rb", "--gain", "x", "--frob"), 2, "no such option"),
    "option of another command": (("status", "--rate", "10mbit"), 2, "--rate: not an option of status"),
    "option without a value": (("attach", "rb", "--rate"), 2, "--rate: needs a value"),
    "too many": (("detach", "rb", "ra"), 2, "ra is one argument too many"),
    "impossible name": (("detach", "../rb"), 2, "not a name an interface can have"),
    "alias": (("attach", "rb:1", "--gains", TUNED, "--rate", "10mbit"), 2, "rb:1: names an address of interface rb"),
    "alias to detach": (("detach", "rb:1"), 2, "not an interface: give rb"),
    "alias to watch": (("watch", "ra", "rb:1"), 2, "rb:1: names an address of interface rb"),
    "alias as peer": (("attach", "rb", "--gains", TUNED, "--peer", "ra:1"), 2, "--peer ra:1: names an address of"),
    "alias elsewhere": (("set", "rb:1@/run/netns/nix", "kp=1"), 2, "rb:1: names an address of interface rb"),
    "two namespaces": (("status", "rb@/x", "--netns", "/y"), 2, "rb@/x: the namespace is given twice"),
    "missing interface": (("attach", "nix0", "--gains", TUNED, "--rate", "10mbit"), 1, "no interface nix0"),
    "missing peer": (("attach", "rb", "--gains", TUNED, "--peer", "nix0"), 1, "no interface nix0"),
    "peer is itself": (("attach", "rb", "--gains", TUNED, "--peer", "rb"), 1, "must be the other end"),
    "missing namespace": (
        ("attach", "rb", "--gains", TUNED, "--rate", "10mbit", "--netns", "/run/netns/nix"),
        1,
        "/run/netns/nix: can't enter this network namespace: No such file",
    ),
    "no namespace": (
        ("attach", "rb", "--gains", TUNED, "--rate", "10mbit", "--netns", "/etc/passwd"),
        1,
        "/etc/passwd: can't enter this network namespace: it is not one",
    ),
    "no such profile": (("attach", "rb", "--gains", "tunde"), 1, "tunde: No such file"),
    "a time without its unit": (
        ("attach", "rb", "target=5"),
        2,
        "target = 5: must be a time with its unit (250us, 5ms, 1s); target_us takes microseconds without one",
    ),
    "a time with a wrong unit": (("attach", "rb", "target=5min"), 2, "target = 5min: must be a time with its unit"),
    "a broken time": (("attach", "rb", "target=0.5us"), 2, "target = 0.5us: must be a whole number, 1 .. 16777215"),
    "a time beyond the range": (("attach", "rb", "target=99999s"), 2, "1 .. 16777215 us"),
    "a number of bytes": (("--expert", "attach", "rb", "delay_guard_bytes=-1"), 2, "0 .. 4294967295 bytes"),
    "watch every what": (("watch", "rb", "--every", "5"), 2, "--every 5: must be a time with its unit, 1ms .. 86400s"),
    "watch as text and JSON": (("watch", "rb", "--text", "--json"), 2, "--json or --text, not both"),
    "missing file": (("attach", "rb", "--gains", "/nix.toml"), 1, "/nix.toml: No such file"),
    "unknown key": (("attach", "rb", "--gains", TUNED, "kq=1"), 2, "kq: no such key"),
    "bad number": (("attach", "rb", "--gains", TUNED, "kp=fast"), 2, "kp = fast: must be a number per second"),
    "negative gain": (("attach", "rb", "--gains", TUNED, "kp=-1"), 2, "kp = -1: must be a number per second"),
    "infinite gain": (("attach", "rb", "--gains", TUNED, "kp=inf"), 2, "kp = inf: must be a number per second"),
    "target zero": (("attach", "rb", "--gains", TUNED, "target_us=0"), 2, "must be a whole number, 1 .. 16777215"),
    "target broken": (("attach", "rb", "--gains", TUNED, "target_us=1.5"), 2, "must be a whole number"),
    "z3 above 1": (("attach", "rb", "--gains", TUNED, "z3=1.1"), 2, "z3 = 1.1: must be above 0 and below 1"),
    "z2 below 1": (("attach", "rb", "--gains", TUNED, "z2=0.9"), 2, "z2 = 0.9: must be above 1"),
    "z1 below z2": (("attach", "rb", "--gains", TUNED, "z1=1.0001"), 2, "z1 = 1.0001: must be above z2 = 1.0005"),
    "z1 sixteen": (("attach", "rb", "--gains", TUNED, "z1=16"), 2, "must be a number above 0 and below 16"),
    "least above most": (("attach", "rb", "--gains", TUNED, "space_least=3"), 2, "must be at most space_most = 2"),
    "limit below bound": (
        ("attach", "rb", "--gains", TUNED, "delay_limit_share=1.2"),
        2,
        "delay_limit_share = 1.2: must be 0, or at least delay_bound_share = 1.25",
    ),
    "share too long": (
        ("attach", "rb", "--gains", TUNED, "delay_limit_share=1118.5"),
        2,
        "delay_limit_share = 1118.5: must be at most 1118.48, which is 16777215 us with target_us = 15000",
    ),
    "m2 above m1": (("attach", "rb", "--gains", TUNED, "m2_us=30000"), 2, "must be below m1_us = 20000"),
    "integral": (("attach", "rb", "--gains", TUNED, "integral=no"), 2, 'must be "drop", "keep" or a number'),
    "probability": (("attach", "rb", "--gains", TUNED, "probability=cubic"), 2, '"linear" or "squared"'),
    "bound": (("attach", "rb", "--gains", TUNED, "ecn_bound=2"), 2, "must be a probability, 0 .. 1"),
    "no value": (("attach", "rb", "--gains", TUNED, "kp"), 2, "kp: must be KEY=VALUE"),
    "signal": (("attach", "rb", "--gains", TUNED, "--signal", "magic"), 2, "must be auto, backlog, poll"),
    "veth without peer": (("attach", "rb", "--gains", TUNED, "--signal", "veth"), 1, "needs the other end"),
    "virtual without rate": (("attach", "rb", "--gains", TUNED, "--signal", "virtual"), 1, "virtual needs the rate"),
    "rate without unit": (("attach", "rb", "--gains", TUNED, "--rate", "10"), 2, "must be a number with its unit"),
    "rate zero": (("attach", "rb", "--gains", TUNED, "--rate", "0mbit"), 2, "must be a number with its unit"),
    "shape without unit": (("attach", "rb", "--shape", "95"), 2, "--shape 95: "),
    "option before the command": (("--netns", "/run/netns/nix", "status"), 2, "--netns: options follow the command"),
    "rate with poll": (
        ("attach", "rb", "--gains", TUNED, "--signal", "poll", "--rate", "10mbit"),
        1,
        "--rate goes with signals virtual and qdisc only",
    ),
    "limit with poll": (
        ("attach", "rb", "--gains", TUNED, "--signal", "poll", "--limit-packets", "9"),
        1,
        "--limit-packets goes with signals veth and qdisc only",
    ),
    "hook": (
        ("attach", "rb", "--gains", TUNED, "--hook", "sideways"),
        2,
        "--hook sideways: must be tc, tcx, clsact, xdp or qdisc",
    ),
    "hook xdp with poll": (
        ("attach", "rb", "--gains", TUNED, "--signal", "poll", "--hook", "xdp"),
        1,
        "--hook xdp goes with signal virtual only",
    ),
    "limit zero": (("attach", "rb", "--gains", TUNED, "--limit-bytes", "0"), 2, "--limit-bytes 0: must be"),
    "fixed": (("attach", "rb", "--gains", TUNED, "--fixed-probability", "1.1"), 2, "must be 0 .. 1"),
    "no queue": (("attach", "ra", "--gains", TUNED, "--signal", "poll"), 1, "it has no queue; put a shaper on it"),
    "no BPF file system": (
        ("attach", "rb", "--gains", TUNED, "--rate", "10mbit", "--pins", "/sys/weir"),
        1,
        "is in no BPF file system: mount -t bpf",
    ),
    "detach of nothing": (("detach", "rb"), 1, "nothing is attached to rb"),
    "status of nothing": (("status", "rb"), 1, "nothing is attached to rb"),
    "set of nothing": (("set", "rb", "kp=1"), 1, "nothing is attached to rb"),
    "watch of nothing": (("watch", "rb"), 1, "nothing is attached to rb"),
    "set without a key": (("set", "rb"), 2, "nothing to set"),
    "watch of what": (("watch",), 2, "which interfaces"),
    "watch of all and one": (("watch", "rb", "--all"), 2, "which interfaces"),
    "watch of an impossible name": (("watch", "rb", "a/b"), 2, "a/b: not a name an interface can have"),
    "expectation": (("set", "rb", "kp=1", "--expect", "0"), 2, "--expect 0: must be a whole number"),
    "watch never": (("watch", "rb", "--count", "0"), 2, "--count 0: must be a whole number"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_clear_line(shaped, case):
    args, status, words = ERRORS[case]
    refused(shaped, *args, status=status, words=words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kp = 1\nkq = 2\n", "profile.toml:2: kq: no such key"),
        ("kp = 1\nkp = 2\n", "profile.toml:2: kp: given twice"),
        ("kp 1\n", "profile.toml:1: must be a line `key = value`"),
        ('# fine\n\nintegral = "keep\n', "profile.toml:3: "),
        ("[gains]\nkp = 1\n", "profile.toml:1: "),
        ("kp =\n", "profile.toml:1: must be a line `key = value`"),
        ("kp = 1 # per second\n", "no value for target_us"),
        ("kp = " + "1" * 600 + "\n", "profile.toml:1: kp = 1111"),
        ("kp = 1 # \n\nintegral = '''\n\nkeep'''\nz1 = [1]\n", "profile.toml:3: "),
    ],
)
def test_errors_in_a_profile_name_the_line(shaped, tmp_path, text, words):
    (tmp_path / "profile.toml").write_text(text)
    refused(shaped, "attach", "rb", "--gains", tmp_path / "profile.toml", "--rate", "1mbit", words=words)


def test_bad_gains_are_not_written(shaped):
    with shaped.attached("--rate", "1mbit"):
        before = shaped.status()["gains"]
        refused(shaped, "set", "rb", "kp=2", "z3=2", status=2, words="z3 = 2: must be above 0 and below 1")
        assert shaped.status()["gains"] == before


def test_without_permission_there_is_one_clear_line(shaped):
    drop = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups", "--")
    with shaped.attached("--rate", "1mbit"), tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the clone's own may be root's alone
        profile = shutil.copy(TUNED, folder)
        for args in (("attach", "ra", "--gains", profile, "--rate", "1mbit"), ("status",), ("detach", "rb")):
            done = shaped.router.run(*drop, WEIR, *args, check=False)
            assert done.returncode == 1
            assert len(done.stderr.splitlines()) == 1
            missing = "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON" if args[0] == "detach" else "to own the pins"
            assert f"not permitted (needs root, or {missing}" in done.stderr
        assert shaped.status()["gone"] is False


def test_help_teaches(shaped):
    text = shaped.weir("--help").stdout
    assert text == shaped.weir("attach", "--help").stdout
    for word in ("attach", "detach", "status", "watch", "--signal", "Examples:", "htb", "target_us", "flows"):
        assert word in text
