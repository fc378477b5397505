# SPDX-License-Identifier: Apache-2.0
"""Pins that are lost: their folder or one of them was deleted, or their file system was unmounted. `ensure` and the
daemon bring the law back, once, and `detach` removes what is left. Programs of others stay."""

import contextlib
import json
import subprocess
import sys

import pytest
from class_rig import HIT, NOT_ECT, frame
from packet_rig import BUILD, HOOKS, NEEDS_BTF, NEEDS_TCX, WEIR, Holder, until

FRAMES = [frame(1, NOT_ECT)] * 20
LOST = "/run/lost"
PINS = ("--pins", f"{LOST}/weir")
FEW = ("setpriv", "--bounding-set=-all,+bpf,+net_admin,+perfmon", "--no-new-privs", "--", WEIR)
ROOT = (
    "tc qdisc replace dev rb root handle 1: htb default 1; tc class replace dev rb parent 1: classid 1:1 htb rate 1gbit"
)


@pytest.fixture(autouse=True)
def pins(rig):
    """A BPF file system of their own, which a test may unmount."""
    rig.router.sh(f"mkdir -p {LOST}; mount -t bpf -o mode=0700 bpf {LOST}; {ROOT}")
    yield
    rig.weir("detach", "rb", *PINS, check=False)
    rig.weir("detach", "rb", check=False)
    rig.router.sh(
        "tc qdisc del dev rb clsact 2>/dev/null || true; ip link set dev rb xdp off;"
        f"rm -rf /sys/fs/bpf/weir; umount {LOST}; rmdir {LOST}"
    )
    rig.receiver.sh("tc qdisc del dev b0 clsact 2>/dev/null || true")
    rig.unshape()


def delete(rig) -> None:
    rig.router.sh(f"rm -r {LOST}/weir")


def unmount(rig) -> None:
    rig.router.sh(f"umount -l {LOST}; mount -t bpf -o mode=0700 bpf {LOST}")


LOSSES = {"folder": delete, "mount": unmount}


def ensure(rig, *args: object) -> dict:
    return json.loads(rig.weir("ensure", "rb", *PINS, *args, "--json").stdout)


def status(rig) -> dict:
    return json.loads(rig.weir("status", "rb", *PINS, "--json").stdout)


def there(rig) -> list[str]:
    """State of rb and the other end: filters, TCX and XDP programs, clsact and the shaper."""
    show = "tc filter show dev {0} ingress; tc filter show dev {0} egress; tc qdisc show dev {0}"
    lines = rig.router.sh(show.format("rb")) + rig.receiver.sh(show.format("b0")) + rig.router.sh("ip link show dev rb")
    found = [line for line in lines.splitlines() if any(word in line for word in ("bpf", "clsact", "7e1", "prog/xdp"))]
    return found + [str(one) for one in rig.router.tcx_programs("rb", "egress")]


def alive(rig, pid: int) -> bool:
    return rig.router.run("grep", "-q", "^State:[[:space:]]*[^Z]*$", f"/proc/{pid}/status", check=False).returncode == 0


KINDS = {
    "tcx": pytest.param(("--signal", "poll", "--hook", "tcx"), marks=NEEDS_TCX),
    "clsact": ("--signal", "poll", "--hook", "clsact"),
    "peer": ("--peer", "PEER", "--hook", "clsact"),
    "xdp": ("--rate", "10mbit"),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_ensure_brings_the_law_back_and_detach_leaves_nothing(rig, options, lose):
    options = [rig.peer if word == "PEER" else word for word in options]
    before = there(rig)
    rig.weir("attach", "rb", *PINS, *options, *HIT)
    pid = status(rig).get("poll", {}).get("pid")
    lose(rig)
    assert rig.weir("ensure", "rb", *PINS, *options, "--look", check=False).returncode == 3
    assert ensure(rig, *options)["did"] == "attached"
    assert ensure(rig, *options)["did"] == "adopted"
    assert len(rig.through(FRAMES)) == len(FRAMES)  # the old program dropped them
    assert pid is None or (until(lambda: not alive(rig, pid), "the old poll process ended", 60) or True)
    rig.weir("detach", "rb", *PINS)
    assert there(rig) == before
    rig.weir("attach", "rb", *PINS, *options)
    lose(rig)
    rig.weir("detach", "rb", *PINS, check=False)
    assert there(rig) == before
    assert rig.weir("detach", "rb", *PINS, check=False).returncode == 1


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("bands", [("--no-bands",), ("--bands",)], ids=["one", "bands"])
def test_the_shaper_is_taken_back(rig, lose, bands):
    rig.unshape()
    rig.weir("attach", "rb", *PINS, "--shape", "50mbit", *bands)
    for command in ("ensure", "attach"):
        lose(rig)
        rig.weir(command, "rb", *PINS, "--shape", "40mbit", *bands)
        assert (status(rig)["shape_bit_s"], status(rig)["gone"]) == (40_000_000, False)
        assert "rate 40Mbit" in rig.router.sh("tc class show dev rb")
    lose(rig)
    rig.weir("ensure", "rb", *PINS, *bands)
    assert status(rig)["shape_bit_s"] == 40_000_000
    lose(rig)
    rig.weir("detach", "rb", *PINS)
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")


@pytest.mark.parametrize("line", ["--ptm", "--atm", ""])
def test_its_framing_is_taken_back(rig, line):
    rig.unshape()
    rig.weir("attach", "rb", *PINS, "--shape", "50mbit", "--no-bands", "--overhead", "22", "--mpu", "64", *line.split())
    delete(rig)
    assert ensure(rig)["did"] == "attached"
    shown = status(rig)
    assert (shown["shape_bit_s"], shown["gone"]) == (50_000_000, False)
    assert (shown["framing"]["line"], shown["framing"]["mpu_bytes"]) == (line.strip("-") or "plain", 64)
    delete(rig)
    rig.weir("detach", "rb", *PINS)
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")


def test_a_shaper_of_somebody_else_stays(rig):
    """By its number, or because its classes were changed."""
    rig.unshape()
    rig.weir("attach", "rb", *PINS, "--shape", "50mbit", "--no-bands")
    delete(rig)
    rig.router.sh("tc class add dev rb parent 7e1d: classid 7e1d:9 htb rate 1mbit")
    assert rig.weir("detach", "rb", *PINS, check=False).returncode == 1
    assert "7e1d:" in rig.router.sh("tc qdisc show dev rb")
    rig.router.sh(ROOT)
    assert rig.weir("ensure", "rb", *PINS, "--shape", "50mbit", "--no-bands", check=False).returncode == 1


@NEEDS_TCX
def test_one_law_where_another_hook_takes_over(rig):
    """A filter without pins, a TCX program beside it from an earlier version, and then `ensure` or `detach`."""
    rig.weir("attach", "rb", *PINS, "--hook", "clsact", "--signal", "poll", *HIT)
    delete(rig)
    assert ensure(rig, "--hook", "tcx", "--signal", "poll") == {
        "dev": "rb", "did": "attached", "what": ["program", "pins"],
    }  # fmt: skip
    assert len(rig.through(FRAMES)) == len(FRAMES)
    assert len(there(rig)) == 1


def test_a_program_with_pins_elsewhere_stays(rig):
    """A law of another folder: neither of the two commands removes it, and there is no second law beside it."""
    rig.weir("attach", "rb", "--hook", "clsact", "--signal", "poll")
    before = there(rig)
    for command in (["attach", "rb"], ["attach", "rb", "--hook", "clsact"], ["ensure", "rb"], ["detach", "rb"]):
        assert rig.weir(*command, *PINS, check=False).returncode == 1, command
        assert there(rig) == before
    rig.weir("detach", "rb")


@pytest.mark.parametrize("hook", ["clsact", "xdp"])
def test_programs_of_others_stay(rig, hook):
    theirs = {
        "clsact": "tc qdisc add dev rb clsact;"
        f"tc filter add dev rb egress prio 100 handle 1 bpf da object-file {BUILD}/empty.bpf.o section tc",
        "xdp": f"ip link set dev rb xdp obj {BUILD}/empty.bpf.o sec xdp",
    }
    rig.router.sh(theirs[hook])
    before = there(rig)
    assert rig.weir("detach", "rb", *PINS, check=False).returncode == 1
    assert there(rig) == before


def test_an_adopted_program_passes_all_packets_again_and_stays(rig):
    rig.router.sh(f"ip link set dev rb xdp obj {BUILD}/weir_xdp.bpf.o sec xdp")
    before = there(rig)
    for again in (["adopt", "rb", "--rate", "10mbit"], ["detach", "rb"]):
        rig.weir("adopt", "rb", "--rate", "10mbit", *PINS)
        delete(rig)
        rig.weir(*again, *PINS)
        if again[0] == "adopt":
            assert status(rig)["gone"] is False
            rig.weir("detach", "rb", *PINS)
        assert there(rig) == before


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_the_daemon_brings_it_back_and_stays_alone(rig, daemon, lose):
    rig.unshape()
    daemon.configure('[rb]\nshape = "50mbit"\nbands = false\n')
    words = [WEIR, "daemon", "--config", daemon.file, *PINS]
    with (daemon.folder / "log").open("a") as log:
        daemon.process = rig.router.start(*words, stderr=log)
    until(lambda: "rb" in rig.weir("status", *PINS).stdout, "the daemon attached", 60)
    lose(rig)
    until(lambda: "rb" in rig.weir("status", *PINS).stdout, "the daemon attached again", 60)
    assert status(rig)["shape_bit_s"] == 50_000_000
    assert rig.router.run("timeout", "10", *words, check=False).returncode == 1
    assert daemon.stop() == 0


@pytest.mark.parametrize("hook", HOOKS)
def test_few_capabilities_suffice_for_filters_and_the_shaper(rig, hook):
    """Filters have names; programs can't be read by their numbers."""
    rig.unshape()
    options = ["rb", *PINS, "--shape", "50mbit", "--no-bands", "--signal", "poll", "--hook", hook]
    rig.weir("attach", *options, *HIT)
    delete(rig)
    rig.router.run(*FEW, "ensure", *options)
    assert len(rig.through(FRAMES)) == len(FRAMES)


ONE_LAW = ["config", "config_now", "queue", "counters", "drain", "flows", "meta", "prog_weir_egress"]
ALONE = {
    "poll": (("--signal", "poll"), ONE_LAW),
    "clsact": (("--signal", "poll", "--hook", "clsact"), ONE_LAW),
    "backlog": (("--signal", "backlog"), [*ONE_LAW, "link_departures"]),
    "xdp": (("--rate", "10mbit"), ["config", "config_now", "queue", "counters", "flows", "meta", "prog_weir_ingress"]),
    "classes": (
        ("--class", "1:"),
        [*(one for one in ONE_LAW if one != "drain"), "class", "minors", "tells", "telling", "config_now-1"],
    ),
}


@pytest.mark.parametrize("kind", [pytest.param(one, marks=NEEDS_BTF) if one == "backlog" else one for one in ALONE])
def test_a_missing_pin_comes_back_and_the_law_goes_on(rig, kind):
    options, names = ALONE[kind]
    classes = kind == "classes"
    if classes:
        rig.router.sh("tc qdisc add dev rb parent 1:1 pfifo limit 1000")
    rig.weir("attach", "rb", *PINS, *options)
    name = "rb/1:1" if classes else "rb"
    rig.weir("set", name, *PINS, "target=7ms")
    folder = rig.router.sh(f"find {LOST}/weir -maxdepth 1 -name '[0-9]*'").strip()
    whole = sorted(rig.router.sh(f"ls {folder}").split())
    assert set(names) <= set(whole)
    for pin in names:
        rig.router.sh(f"rm {folder}/{pin}")
        assert rig.weir("ensure", "rb", *PINS, *options, "--look", check=False).returncode == 3, pin
        done = ensure(rig, *options)
        assert (done["did"], done["what"] != []) == ("replaced", True), pin
        assert sorted(rig.router.sh(f"ls {folder}").split()) == whole, pin
        assert ensure(rig, *options)["did"] == "adopted", pin
        shown = json.loads(rig.weir("status", name, *PINS, "--json").stdout)
        assert shown["gains"]["target_us"] == 7000, pin


@pytest.mark.parametrize("kind", ["clsact", "xdp"])
def test_detach_without_its_record_leaves_nothing(rig, kind):
    before = there(rig)
    rig.weir("attach", "rb", *PINS, *KINDS[kind])
    rig.router.sh(f"rm {LOST}/weir/[0-9]*/meta")
    rig.weir("detach", "rb", *PINS)
    assert there(rig) == before


def test_a_missing_pin_is_no_obstacle_to_attach_with_few_capabilities(rig):
    rig.weir("attach", "rb", *PINS, "--signal", "poll")
    rig.router.sh(f"rm {LOST}/weir/[0-9]*/queue")
    rig.router.run(*FEW, "ensure", "rb", *PINS, "--signal", "poll")
    assert status(rig)["gone"] is False


def test_programs_end_with_their_attachment(rig):
    """Although they keep its record."""
    rig.weir("attach", "rb", *PINS, "--hook", "clsact", "--signal", "poll")
    [pin] = rig.router.sh(f"ls {LOST}/weir/[0-9]*/prog_weir_egress").split()
    number = json.loads(rig.router.run("bpftool", "-j", "prog", "show", "pinned", pin).stdout)["id"]
    rig.weir("detach", "rb", *PINS)
    until(
        lambda: rig.router.run("bpftool", "prog", "show", "id", number, check=False).returncode, "the program gone", 60
    )


HOLD = """
import fcntl, os, sys, time
os.makedirs(sys.argv[1])
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def test_set_and_status_wait_for_an_attach(rig):
    """An attach at work has no record yet. One that was killed is not awaited."""
    rig.weir("attach", "rb", *PINS, "--rate", "100mbit", "--hook", "tc")
    [folder] = rig.router.sh(f"ls -d {LOST}/weir/[0-9]*").split()
    lock = folder.replace("/weir/", "/weir/lock-")
    commands = [("status", "rb", *PINS), ("status", *PINS), ("set", "rb", *PINS, "target=9ms")]
    rig.router.sh(f"mv {folder}/meta {folder}/aside")
    for command in commands:
        assert rig.weir(*command, check=False).returncode == 1
    with rig.router.start(sys.executable, "-c", HOLD, lock, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        waiting = [rig.router.start(WEIR, *command, stdout=subprocess.DEVNULL) for command in commands]
        assert all(one.poll() is None for one in waiting)
        rig.router.sh(f"mv {folder}/aside {folder}/meta")
        assert [one.wait() for one in waiting] == [0, 0, 0]
        holder.stdin.close()
    assert status(rig)["gains"]["target_us"] == 9000


@pytest.mark.parametrize("options", [("--signal", "poll"), ("--rate", "1mbit")], ids=["egress", "ingress"])
def test_set_on_an_interface_that_is_gone_fails(rig, options):
    rig.router.sh(
        "ip link add gone0 type veth peer name gone1; ip link set gone0 up; tc qdisc add dev gone0 root pfifo limit 9"
    )
    rig.weir("attach", "gone0", *PINS, *options)
    rig.router.sh("ip link del gone0")
    assert rig.weir("set", "gone0", *PINS, "target=9ms", check=False).returncode == 1
    rig.weir("detach", "gone0", *PINS)


def test_status_names_the_device_of_a_namespace_that_is_gone(rig):
    with contextlib.closing(Holder()) as other:
        other.sh(
            "ip link add far0 type veth peer name far1; ip link set far0 up; tc qdisc add dev far0 root pfifo limit 9"
        )
        rig.weir("attach", f"far0@{other.netns}", *PINS, "--signal", "poll")
    for command in (("status", "far0"), ("status",), ("status", "--json")):
        done = rig.weir(*command, *PINS, check=False)
        assert (done.returncode, len(done.stderr.splitlines()), "far0" in done.stderr) == (1, 1, True), command
    done = rig.weir("watch", "--all", "--count", "1", *PINS)
    assert done.stderr == ""
    rig.weir("detach", "far0", *PINS, check=False)
    rig.weir("detach", "far0", "--pins-only", *PINS, check=False)


SUBREAPER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: a process without a parent becomes ours, and stays a zombie
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(flush=True)
sys.stdin.read()
"""


def test_a_poll_process_that_nobody_waits_for_is_dead(rig):
    """Its interval is so long that silence alone would be no sign yet."""
    words = [WEIR, "--expert", "attach", "rb", *PINS, "--signal", "poll", "interval=1s"]
    with rig.router.start(
        sys.executable, "-c", SUBREAPER, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout.readline() == "\n"
        pid = status(rig)["poll"]["pid"]
        rig.router.sh(f"kill -9 {pid}")
        until(lambda: not alive(rig, pid), "the process ended", 60)
        assert status(rig)["poll"]["alive"] is False
        assert "weir-xdp ensure rb" in rig.weir("status", "rb", *PINS).stdout
        assert ensure(rig)["what"] == ["process"]
        parent.stdin.close()


def test_a_poll_process_keeps_the_words_that_it_was_started_with(rig):
    rig.router.sh("tc qdisc add dev rb parent 1:1 pfifo limit 1000")
    rig.weir("attach", "rb/1:1", *PINS, "--signal", "poll")
    pid = json.loads(rig.weir("status", "rb/1:1", *PINS, "--json").stdout)["poll"]["pid"]
    assert "rb/1:1" in rig.router.sh(f"cat /proc/{pid}/cmdline").split("\0")


@pytest.mark.parametrize("table", ['["rb/ingress"]\n', '["rb/ingress"]\ntarget = "5ms"\n'])
def test_a_table_of_received_packets_without_a_rate_is_a_wrong_configuration(rig, tmp_path, table):
    (tmp_path / "xdp.toml").write_text(table)
    done = rig.router.run("timeout", "10", WEIR, "daemon", "--config", tmp_path / "xdp.toml", *PINS, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("word", ["target=5", "kp=fast", "nothing=1", "target", "rate=5"])
@pytest.mark.parametrize("command", ["attach", "ensure", "set"])
def test_a_wrong_word_is_a_wrong_call(rig, command, word):
    assert rig.weir("--expert", command, "rb", word, *PINS, check=False).returncode == 2
