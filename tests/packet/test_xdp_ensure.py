# SPDX-License-Identifier: Apache-2.0
"""`weir-xdp ensure`: whatever is attached before and whoever is killed at whatever moment, afterwards it is what was
asked for. The law stays on an interface while what is attached there is replaced: no packet passes it by."""

import json
import random
import re
import subprocess

import pytest
from class_rig import HIT, NOT_ECT, frame
from packet_rig import BACKLOG, HOOKS, LAST, NEEDS_BTF, WEIR, Failed, receive, until

FRAME = bytes.fromhex("020000000002020000000001") + b"\x88\xb6" + bytes(46)
KILLS = 60
FEW = ("setpriv", "--bounding-set=-all,+bpf,+net_admin,+perfmon", "--no-new-privs", "--", WEIR)
"""With the capabilities of the unit."""
SEED = 17


@pytest.fixture(scope="module")
def shaped(rig):
    rig.shape("1gbit", 100000)
    yield rig
    rig.unshape()


@pytest.fixture(autouse=True)
def nothing_stays(shaped):
    yield
    shaped.weir("detach", "rb", check=False)
    assert left(shaped) == []
    shaped.shape("1gbit", 100000)


def ensure(rig, *args: object) -> dict:
    return json.loads(rig.weir("ensure", "rb", *args, "--json").stdout)


def left(rig) -> list[str]:
    """Pins, programs at rb's hooks and poll processes: what nobody may leave behind."""
    pins = rig.router.sh("find /sys/fs/bpf/weir 2>/dev/null || true").split()
    filters = rig.router.run("tc", "filter", "show", "dev", "rb", "egress", check=False).stdout.splitlines()
    return [*pins, *filters, *map(str, rig.router.tcx_programs("rb", "egress"))]


def attach_id(rig) -> int:
    return rig.status()["attach_id"]


def test_it_attaches_then_adopts(shaped):
    assert ensure(shaped) == {"dev": "rb", "did": "attached", "what": ["program"]}
    first = attach_id(shaped)
    assert ensure(shaped) == {"dev": "rb", "did": "adopted", "what": []}
    assert shaped.weir("ensure", "rb").stdout == "rb: adopted\n"
    assert attach_id(shaped) == first


def test_what_is_not_asked_for_stays(shaped):
    """A tuner's gains, say, under an `ensure` that names no gains, or only others."""
    ensure(shaped)
    shaped.weir("set", "rb", "kp=7")
    kept = shaped.status()["gains"]
    assert ensure(shaped)["did"] == "adopted"
    assert ensure(shaped, "target=5ms") == {"dev": "rb", "did": "replaced", "what": ["gains"]}
    assert shaped.status()["gains"] == kept | {"target_us": 5000}
    assert ensure(shaped, "target=5ms")["did"] == "adopted"
    assert ensure(shaped, "--gains", "tuned") == {"dev": "rb", "did": "replaced", "what": ["gains"]}


def test_looking_changes_nothing(shaped):
    done = shaped.weir("ensure", "rb", "--look", check=False)
    assert (done.returncode, done.stdout) == (3, "rb: would be attached\n")
    assert left(shaped) == []
    ensure(shaped)
    before = shaped.status()["config_id"]
    done = shaped.weir("ensure", "rb", "--look", "target=5ms", check=False)
    assert (done.returncode, done.stdout) == (3, "rb: would be replaced: gains\n")
    assert shaped.status()["config_id"] == before
    assert shaped.weir("ensure", "rb", "--look").stdout == "rb: adopted\n"
    done = shaped.weir("ensure", "rb", "--look", "target=5ms", "--json", check=False)
    assert json.loads(done.stdout) == {"dev": "rb", "did": "replaced", "what": ["gains"], "look": True}


@pytest.mark.parametrize("signal", [BACKLOG, "poll"])
def test_another_root_is_what_the_law_goes_by_then(shaped, signal):
    ensure(shaped, "--signal", signal)
    shaped.router.sh("tc qdisc replace dev rb root handle 9: tbf rate 1gbit burst 100000 limit 1000000")
    assert "root qdisc was htb 1:" in shaped.status()["trouble"]
    assert ensure(shaped) == {"dev": "rb", "did": "replaced", "what": ["queue"]}
    assert "trouble" not in shaped.status()


@pytest.mark.parametrize(("words", "root"), [((), "7e1f"), (("--no-bands",), "7e1d")])
def test_the_shaper_is_kept_too(shaped, words, root):
    shaped.unshape()
    assert ensure(shaped, "--shape", "95mbit", *words)["did"] == "attached"
    assert ensure(shaped, "--shape", "95mbit")["did"] == "adopted"
    assert ensure(shaped, "--shape", "50mbit") == {"dev": "rb", "did": "replaced", "what": ["shaper"]}
    for change in (
        f"tc class change dev rb parent {root}: classid {root}:1 htb rate 10mbit",
        "tc qdisc replace dev rb root handle 9: tbf rate 10mbit burst 5000 limit 100000",
        "tc qdisc del dev rb root",
    ):
        shaped.router.sh(change)
        assert ensure(shaped, "--shape", "50mbit")["what"] == ["shaper"]
        assert "rate 50Mbit ceil 50Mbit" in shaped.router.sh("tc class show dev rb")
        assert "trouble" not in shaped.status()
    shaped.weir("detach", "rb")
    assert "htb" not in shaped.router.sh("tc qdisc show dev rb")


ADDED = {
    "a class": "tc class add dev rb parent 7e1f: classid 7e1f:9 htb rate 10mbit",
    "a filter": "tc filter add dev rb parent 7e1f: protocol all u32 match u32 0 0 classid 7e1f:3",
}


@pytest.mark.parametrize("added", ADDED.values(), ids=ADDED)
def test_what_somebody_added_to_our_shaper_goes(shaped, added):
    shaped.unshape()
    ensure(shaped, "--shape", "50mbit")
    made = tree(shaped)
    shaped.router.sh(added)
    assert ensure(shaped, "--shape", "50mbit") == {"dev": "rb", "did": "replaced", "what": ["shaper"]}
    assert ensure(shaped, "--shape", "50mbit")["did"] == "adopted"
    assert tree(shaped) == made
    assert len(shaped.through([FRAME] * 50)) == 50


def tree(rig) -> list[str]:
    """Qdiscs, classes and filters at rb, without their counters."""
    show = "tc qdisc show dev rb; tc class show dev rb; tc filter show dev rb"
    return [line for line in rig.router.sh(show).splitlines() if "clsact" not in line]


def test_a_shaper_takes_no_root_of_somebody_elses(shaped):
    """The law was put on his tree: what a first call refuses a second one doesn't take."""
    ensure(shaped)
    before = tree(shaped)
    for _ in range(2):
        with pytest.raises(Failed, match=r"it has a root qdisc already, htb 1::.* leave --shape out"):
            ensure(shaped, "--shape", "50mbit")
        assert tree(shaped) == before
    assert "shape_bit_s" not in shaped.status()
    assert ensure(shaped)["did"] == "adopted"
    shaped.weir("detach", "rb")
    assert tree(shaped) == before


def test_a_shaper_takes_the_place_of_the_kernels_own_root(shaped):
    """His was taken away since the law was put on it."""
    ensure(shaped)
    shaped.unshape()
    assert "shaper" in ensure(shaped, "--shape", "50mbit")["what"]
    assert "rate 50Mbit" in shaped.router.sh("tc class show dev rb")
    shaped.weir("detach", "rb")
    assert "htb" not in shaped.router.sh("tc qdisc show dev rb")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_program_that_somebody_took_off_comes_back(shaped, hook):
    ensure(shaped, "--hook", hook)
    if hook == "tcx":
        shaped.router.run("bpftool", "link", "detach", "pinned", f"{shaped.pins()}/link_egress")
    else:
        shaped.router.run("tc", "qdisc", "del", "dev", "rb", "clsact")
    assert shaped.status()["gone"] is True
    assert ensure(shaped, "--hook", hook)["did"] == "attached"
    assert shaped.status()["gone"] is False


@pytest.mark.parametrize("hook", HOOKS)
def test_the_other_ends_program_comes_back_too(shaped, hook):
    options = ("--peer", shaped.peer, "--hook", hook)
    ensure(shaped, *options)
    assert ensure(shaped, *options)["did"] == "adopted"
    if hook == "tcx":
        shaped.router.run("bpftool", "link", "detach", "pinned", f"{shaped.pins()}/link_peer")
    else:
        shaped.receiver.run("tc", "qdisc", "del", "dev", "b0", "clsact")
    assert ensure(shaped, *options)["did"] == "attached"
    assert ensure(shaped, *options)["did"] == "adopted"
    assert len(shaped.through([FRAME] * 50)) == 50
    assert shaped.status()["counters"]["seen_packets"] == 51


FLOOD = f"""
import socket
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("a0", 0))
while True:
    out.send(bytes.fromhex("{FRAME.hex()}"))
"""


def seen(rig, counters: str) -> int:
    """Packets that met the program whose counters are pinned there."""
    shown = json.loads(rig.router.run("bpftool", "-j", "map", "dump", "pinned", counters).stdout)[0]["values"]
    return sum(int.from_bytes(bytes(int(b, 16) for b in one["value"][:8]), "little") for one in shown)


def left_the_queue(rig) -> int:
    shown = json.loads(rig.router.run("tc", "-s", "-j", "qdisc", "show", "dev", "rb").stdout)
    return next(one["packets"] for one in shown if one.get("root"))


@pytest.mark.parametrize("hook", HOOKS)
@NEEDS_BTF
def test_no_packet_passes_the_law_by_while_it_is_replaced(shaped, hook):
    """Signals change, and with them programs and maps, while packets run: each packet met the old or the new one."""
    ensure(shaped, "--hook", hook, "--signal", "poll")
    for signal in ("backlog", "poll"):
        held, now = "/sys/fs/bpf/held", f"{shaped.pins()}/counters"
        shaped.router.run("bpftool", "map", "pin", "pinned", now, held)
        first_old, first_sent = seen(shaped, held), left_the_queue(shaped)
        flood = shaped.sender.start("python3", "-c", FLOOD)
        try:
            until(lambda pin=held, first=first_old: seen(shaped, pin) > first, "packets before the change")
            done = ensure(shaped, "--hook", hook, "--signal", signal)
            until(lambda pin=now: seen(shaped, pin) > 0, "packets after the change")
        finally:
            flood.kill()
            flood.wait()
        assert done == {"dev": "rb", "did": "replaced", "what": ["program", "signal"]}
        until(lambda: shaped.backlog_bytes() == 0, "an empty queue")
        met = seen(shaped, held) - first_old + seen(shaped, now)
        assert met == left_the_queue(shaped) - first_sent
        shaped.router.run("rm", held)


def test_a_dead_poll_process_is_replaced(shaped):
    ensure(shaped, "--signal", "poll")
    assert len(shaped.through([FRAME] * 50)) == 50
    before = shaped.status()
    shaped.router.sh(f"kill -9 {before['poll']['pid']}")
    until(lambda: not shaped.status()["poll"]["alive"], "the process dead")
    assert ensure(shaped) == {"dev": "rb", "did": "replaced", "what": ["process"]}
    after = shaped.status()
    assert after["poll"]["alive"] is True
    # the program stays, and so do its counters
    assert after["attach_id"] == before["attach_id"]
    assert after["counters"]["seen_packets"] >= 50


def test_whole_tree_reaches_a_poll_process_that_runs(shaped):
    """Its tree has got a second class since, which the law passes all packets for."""
    frames = [frame(1, NOT_ECT)] * 20
    shaped.weir("attach", "rb", "--signal", "poll", *HIT)
    shaped.router.sh("tc class add dev rb parent 1: classid 1:2 htb rate 1mbit")
    until(lambda: shaped.through(frames, patience_s=0.5) != [], "packets that pass", 60)
    assert ensure(shaped, "--whole-tree") == {"dev": "rb", "did": "replaced", "what": ["queue"]}
    assert shaped.through(frames, patience_s=0.5) == []
    assert ensure(shaped, "--whole-tree")["did"] == "adopted"


@NEEDS_BTF
def test_three_capabilities_suffice_and_a_poll_process_goes_on(shaped):
    """Those of the unit. A process that polls lives on when its pins get their final name, and when gains are set."""

    def goes_on() -> None:
        steps = shaped.status()["counters"]["updates"]
        until(lambda: shaped.status()["counters"]["updates"] > steps + 40, "steps of the poll process")

    for signal in ("backlog", "poll", "backlog", "poll"):
        shaped.router.run(*FEW, "ensure", "rb", "--signal", signal)
    pid = shaped.status()["poll"]["pid"]
    goes_on()
    for gain in ("kp=3", "kp=4"):
        shaped.router.run(*FEW, "set", "rb", gain)
        goes_on()
    assert shaped.router.run(*FEW, "ensure", "rb").stdout == "rb: adopted\n"
    assert shaped.status()["poll"]["pid"] == pid
    shaped.router.run(*FEW, "detach", "rb")


def test_what_cannot_be_done_in_place_is_refused(shaped):
    ensure(shaped, "--hook", "clsact")
    before = attach_id(shaped)
    for args in (("--rate", "1mbit", "--hook", "tc"), ("--peer", shaped.peer)):
        with pytest.raises(Failed, match="in place: detach first"):
            ensure(shaped, *args)
    assert attach_id(shaped) == before


BUILDS = {
    "poll": ("--signal", "poll"),
    "poll-clsact": ("--signal", "poll", "--hook", "clsact"),
    "veth": ("--peer", None),
    "veth-clsact": ("--peer", None, "--hook", "clsact"),
    "virtual-tc": ("--rate", "1gbit", "--hook", "tc"),
    "virtual-xdp": ("--rate", "1gbit"),
}


@pytest.mark.parametrize("kind", BUILDS)
def test_another_versions_programs_are_replaced_and_the_law_goes_on(shaped, kind):
    """An upgrade: the attachment says that other programs made it. Both ends of a veth get new ones."""
    options = [shaped.peer if option is None else option for option in BUILDS[kind]]

    def program() -> int:
        [pin] = shaped.router.sh(f"ls {shaped.pins()}/prog_weir_*gress").split()
        return json.loads(shaped.router.run("bpftool", "-j", "prog", "show", "pinned", pin).stdout)["id"]

    ensure(shaped, *options, "--gains", "paper")
    gains, old = shaped.status()["gains"], program()
    shaped.as_of_another_version(shaped.pins())
    # the unit's capabilities suffice, but not to enter the other end's namespace
    command = (WEIR,) if shaped.peer in options else FEW
    done = shaped.router.run(*command, "ensure", "rb", *options, "--json")
    dev = "rb/ingress" if kind == "virtual-xdp" else "rb"
    assert json.loads(done.stdout) == {"dev": dev, "did": "replaced", "what": ["program"]}
    assert program() != old
    assert len(shaped.through([FRAME] * 50)) == 50
    status = shaped.status()
    assert (status["gains"], status["gone"], status["counters"]["strays"]) == (gains, False, 0)
    assert status["counters"]["seen_packets"] == (0 if kind == "virtual-xdp" else 51)  # at ingress nothing came in
    assert ensure(shaped, *options)["did"] == "adopted"


def forwards(rig, count: int = 5) -> bool:
    out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
    with out, back:
        for frame in [*[FRAME] * count, LAST]:
            out.send(frame)
        return len(receive(back)) >= count


def test_whoever_is_killed_the_next_one_finishes(shaped):
    """ensure, attach, detach and set are killed at random moments. After each packets pass and the next ensure is done,
    and after a detach nothing is left."""
    chance = random.Random(SEED)
    asked = [
        ("ensure", "rb"),
        ("ensure", "rb", "--signal", "poll"),
        ("ensure", "rb", "--hook", "clsact", "--signal", "poll"),
        ("ensure", "rb", "target=5ms"),
        ("attach", "rb"),
        ("detach", "rb"),
        ("set", "rb", "kp=9"),
    ]
    silent = refused = killed = 0
    for _ in range(KILLS):
        process = shaped.router.start(WEIR, *chance.choice(asked), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(chance.random() ** 2 * 0.6)
        except subprocess.TimeoutExpired:
            # nsenter has become weir-xdp
            process.kill()
            process.wait()
            killed += 1
        silent += not forwards(shaped)
        done = shaped.weir("ensure", "rb", check=False)
        refused += done.returncode != 0
        if shaped.status()["gone"] or not re.match("rb: (attached|adopted|replaced)", done.stdout):
            refused += 1
        if chance.random() < 0.3:
            shaped.weir("detach", "rb")
            assert left(shaped) == []
    assert (silent, refused) == (0, 0)
    assert killed
