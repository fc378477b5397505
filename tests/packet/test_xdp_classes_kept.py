# SPDX-License-Identifier: Apache-2.0
"""Laws of classes under `weir-xdp ensure` and under the daemon: whatever is attached before, each class that is asked
for has its law afterwards, with its gains and its marks; the laws of other classes stay as they are."""

import json
import os
import random
import re
import signal
import subprocess

import pytest
from class_rig import CE, ECT0, HIT, NEVER, attach, frame, law, listing, refusal
from packet_rig import LAST, NEEDS_TCX, WEIR, receive, runs, until

pytestmark = NEEDS_TCX  # by which the rig gives packets their class

ALL = ("1:10", "1:20", "1:30")


def ensure(rig, name: str, *args: object) -> dict:
    return json.loads(rig.weir("ensure", f"rb/{name}", *args, "--json").stdout)


def laws(rig) -> dict[str, int]:
    """The target of each class that has a law, in microseconds."""
    done = rig.weir("status", "rb", "--json", check=False)
    found = json.loads(done.stdout) if done.returncode == 0 else []
    if isinstance(found, dict):  # one law for the interface
        return {}
    return {one["class"]: one["gains"]["target_us"] for one in found if not one["gone"]}


def test_each_class_is_attached_then_adopted(classes):
    before = listing(classes)
    done = ensure(classes, "1:10", "target=5ms")
    assert done == {"dev": "rb/1:10", "did": "attached", "what": ["program"]}
    attach(classes, "1:20", "target=50ms")
    assert ensure(classes, "1:30") == {"dev": "rb/1:30", "did": "attached", "what": ["class"]}
    identity = law(classes, "1:10")["attach_id"], law(classes, "1:10")["config_id"]
    for name in ALL:
        assert ensure(classes, name) == {"dev": f"rb/{name}", "did": "adopted", "what": []}
    assert ensure(classes, "1:10", "target=5ms")["did"] == "adopted"
    assert classes.weir("ensure", "rb", "--class", "1:10", "--class", "1:20").stdout == "rb: adopted\n"
    assert (law(classes, "1:10")["attach_id"], law(classes, "1:10")["config_id"]) == identity
    assert laws(classes) == {"1:10": 5000, "1:20": 50000, "1:30": 15000}
    classes.weir("detach", "rb")
    assert listing(classes) == before


def test_gains_that_differ_are_replaced_and_others_stay(classes):
    attach(classes, "1:20", "target=50ms")
    ensure(classes, "1:10", "target=5ms")
    classes.weir("set", "rb/1:10", "kp=7")
    kept, beside = law(classes, "1:10")["gains"], law(classes, "1:20")["config_id"]
    assert ensure(classes, "1:10")["did"] == "adopted"
    looked = classes.weir("ensure", "rb/1:10", "target=6ms", "--look", check=False)
    assert (looked.returncode, looked.stdout) == (3, "rb/1:10: would be replaced: gains\n")
    assert law(classes, "1:10")["gains"] == kept
    assert ensure(classes, "1:10", "target=6ms") == {"dev": "rb/1:10", "did": "replaced", "what": ["gains"]}
    assert law(classes, "1:10")["gains"] == kept | {"target_us": 6000}
    assert law(classes, "1:20")["config_id"] == beside


def test_all_classes_of_an_htb_and_those_that_come(classes):
    attach(classes, "1:20", "target=50ms")
    looked = classes.weir("ensure", "rb", "--class", "1:", "--look", check=False)
    assert (looked.returncode, looked.stdout) == (3, "rb/1:: would be replaced: class\n")
    assert ensure(classes, "1:") == {"dev": "rb/1:", "did": "replaced", "what": ["class"]}
    assert laws(classes) == {"1:10": 15000, "1:20": 50000, "1:30": 15000}
    assert ensure(classes, "1:")["did"] == "adopted"
    classes.router.sh("tc class add dev rb parent 1:1 classid 1:40 htb rate 1gbit")
    assert ensure(classes, "1:")["what"] == ["class"]
    assert ensure(classes, "1:", "target=8ms")["what"] == ["gains"]
    assert laws(classes) == dict.fromkeys((*ALL, "1:40"), 8000)


def test_more_classes_come_than_there_was_room_for(classes):
    """A larger table takes the place of the first one. It keeps each law's state: gains, marks, position."""
    attach(classes, "1:10", "--mark", "1/3", *HIT, "target=5ms")
    attach(classes, "1:20", "--others", *NEVER)
    first = law(classes, "1:10")["pins"]
    many = [f"1:{number:x}" for number in range(0x100, 0x180)]
    classes.router.sh("".join(f"tc class add dev rb parent 1:1 classid {one} htb rate 1mbit;" for one in many))
    assert ensure(classes, "1:", "kp=3") == {"dev": "rb/1:", "did": "replaced", "what": ["gains", "class"]}
    assert set(laws(classes)) == {*ALL, *many}
    assert law(classes, "1:10")["pins"] == first
    assert law(classes, "1:10")["gains"]["target_us"] == 5000
    assert {round(law(classes, one)["gains"]["kp"], 3) for one in ("1:10", "1:20", many[-1])} == {3}
    assert classes.through([frame(16), frame(1), frame(48)]) == [frame(16, CE), frame(1, CE), *passed(48)]
    assert classes.through([frame(0), frame(32)]) == passed(0, 32)  # the first is of what is left
    assert law(classes, "1:20")["counters"]["seen_packets"] == 2
    assert ensure(classes, "1:")["did"] == "adopted"


def passed(*dscps: int) -> list[bytes]:
    return [frame(dscp, ECT0) for dscp in dscps]


def test_marks_are_kept_too(classes):
    attach(classes, "1:10", *HIT)
    attach(classes, "1:20", "--mark", "3/3", *NEVER)
    one = ("--mark", "1/3")
    assert ensure(classes, "1:10", *one) == {"dev": "rb/1:10", "did": "replaced", "what": ["marks"]}
    assert ensure(classes, "1:10", *one)["did"] == ensure(classes, "1:10")["did"] == "adopted"
    assert classes.through([frame(1), frame(2)]) == [frame(1, CE), *passed(2)]
    assert ensure(classes, "1:10", "--mark", "2/3", "--others")["what"] == ["marks"]
    assert classes.through([frame(1), frame(2), frame(3)]) == [frame(1, CE), frame(2, CE), *passed(3)]
    assert law(classes, "1:10")["mark"] == 2
    for words, why in (
        (("--mark", "3/3"), "those of another class's law already"),
        (("--mark", "1/7"), "must have one mask, and others have 0x3"),
    ):
        assert why in refusal(classes, "ensure", "rb/1:10", *words)
    assert "those of another class's law already" in refusal(classes, "ensure", "rb/1:20", "--others")
    classes.weir("detach", "rb/1:20")
    assert ensure(classes, "1:10", "--mark", "1/7")["what"] == ["marks"]  # no other one has any
    assert ensure(classes, "1:20", "--mark", "2/7")["what"] == ["class", "marks"]
    assert ensure(classes, "1:20", "--mark", "2/7")["did"] == "adopted"


def test_a_dead_process_is_started_again(classes):
    attach(classes, "1:10", *HIT)
    pid = law(classes, "1:10")["poll"]["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not law(classes, "1:10")["poll"]["alive"], "status says so")
    seen = law(classes, "1:10")["counters"]["seen_packets"]
    assert ensure(classes, "1:10") == {"dev": "rb/1:10", "did": "replaced", "what": ["process"]}
    assert law(classes, "1:10")["poll"]["alive"]
    assert law(classes, "1:10")["counters"]["seen_packets"] >= seen
    classes.weir("detach", "rb")
    assert not runs(pid)


@pytest.mark.parametrize("command", ["ensure", "attach"])
def test_a_class_that_comes_just_after_the_process_died_gets_its_law(classes, command):
    """For a second a dead process seems to live, because it wrote not long ago."""
    attach(classes, "1:10")
    pid = law(classes, "1:10")["poll"]["pid"]
    os.kill(pid, signal.SIGKILL)
    classes.weir(command, "rb", "--class", "1:20", "target=5ms")
    assert laws(classes) == {"1:10": 15000, "1:20": 5000}
    again = law(classes, "1:20")["poll"]
    assert again["alive"]
    assert again["pid"] != pid


def test_another_versions_program_is_replaced_with_all_laws(classes):
    """An upgrade: the attachment says that another program made it. No packet passes the laws by meanwhile."""
    attach(classes, "1:10", "--mark", "1/3", *HIT, "target=5ms")
    attach(classes, "1:20", *NEVER, "target=50ms")
    old = classes.router.tcx_programs("rb", "egress")
    classes.as_of_another_version(law(classes, "1:10")["pins"])
    assert "of another version" in refusal(classes, "attach", "rb", "--class", "1:30")
    out, back = classes.sender.tap("a0"), classes.receiver.tap("b0")
    with out, back:
        update = classes.router.start(WEIR, "ensure", "rb/1:30", "--json", stdout=subprocess.PIPE)
        sent = 0
        while update.poll() is None:
            out.send(frame(16))
            sent += 1
        assert json.loads(update.stdout.read())["what"] == ["program", "class"]
        out.send(LAST)
        came = receive(back)
    assert came == [frame(16, CE)] * sent
    assert len(set(classes.router.tcx_programs("rb", "egress")) - set(old)) == 1
    assert laws(classes) == {"1:10": 5000, "1:20": 50000, "1:30": 15000}
    assert classes.through([frame(16), frame(1), frame(32)]) == [frame(16, CE), frame(1, CE), *passed(32)]
    assert ensure(classes, "1:10")["did"] == "adopted"


def test_a_program_that_somebody_took_off_comes_back_with_all_laws(classes):
    attach(classes, "1:10", *HIT, "target=5ms")
    attach(classes, "1:20", *NEVER, "target=50ms", "--others")
    pins = law(classes, "1:10")["pins"]
    classes.router.run("bpftool", "link", "detach", "pinned", f"{pins}/link_egress")
    assert classes.through([frame(16)]) == passed(16)
    assert ensure(classes, "1:20") == {"dev": "rb/1:20", "did": "attached", "what": ["program"]}
    assert classes.through([frame(16), frame(32)]) == [frame(16, CE), *passed(32)]
    assert laws(classes) == {"1:10": 5000, "1:20": 50000}
    assert "already" in refusal(classes, "ensure", "rb/1:10", "--others")


@pytest.mark.parametrize("hook", ["tcx", "clsact"])
def test_laws_of_classes_take_the_place_of_one_law(classes, hook):
    before = listing(classes)
    classes.weir("ensure", "rb", "--signal", "poll", "--whole-tree", "--hook", hook)
    pid = classes.status()["poll"]["pid"]
    done = ensure(classes, "1:10", "target=5ms")
    assert done == {"dev": "rb/1:10", "did": "replaced", "what": ["signal", "class"]}
    assert not runs(pid)
    assert (laws(classes), law(classes, "1:10")["hook"]) == ({"1:10": 5000}, hook)
    assert ensure(classes, "1:10", "target=5ms")["did"] == "adopted"
    classes.weir("detach", "rb")
    assert listing(classes) == before


REFUSED = {
    "no such class": ("rb/1:99", "class 1:99 is not there; `tc class show dev rb`"),
    "an inner class": ("rb/1:1", "class 1:1 has classes below it"),
    "no such htb": ("rb/2:", "htb 2: has no class that packets wait in"),
    "no class": ("rb/1:x", "must be a class as tc has it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_is_not_there_is_one_clear_line(classes, name):
    asked, why = REFUSED[name]
    assert why in refusal(classes, "ensure", asked)
    assert classes.weir("status").stdout == "nothing is attached\n"
    ensure(classes, "1:10")
    assert why in refusal(classes, "ensure", asked)
    assert laws(classes) == {"1:10": 15000}


def test_one_law_with_another_end_does_not_become_laws_of_classes(classes):
    with classes.attached("--peer", classes.peer, "--whole-tree"):
        assert "with the other end" in refusal(classes, "ensure", "rb/1:10")
    with classes.attached("--rate", "1gbit"):  # of the other direction
        classes.weir("ensure", "rb/1:10")
        classes.weir("detach", "rb/egress")


KILLS = 25
SEED = 17


def test_whoever_is_killed_the_next_one_finishes(classes):
    """Packets of the class are forwarded after each kill, and the next `ensure` ends with the law on."""
    before = listing(classes)
    chance = random.Random(SEED)
    asked = [
        ("ensure", "rb/1:10", "--mark", "1/3"),
        ("ensure", "rb", "--class", "1:"),
        ("ensure", "rb/1:20", "target=5ms", "--others"),
        ("ensure", "rb", "--signal", "poll", "--whole-tree"),
        ("detach", "rb/1:10"),
        ("detach", "rb"),
        ("set", "rb/1:20", "kp=9"),
    ]
    killed = 0
    for _ in range(KILLS):
        process = classes.router.start(
            WEIR, *chance.choice(asked), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(chance.random() ** 2 * 0.4)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
        assert len(classes.through([frame(16), frame(1)])) == 2
        assert re.match(
            "rb/1:10: (attached|adopted|replaced)", classes.weir("ensure", "rb/1:10", "--mark", "1/3").stdout
        )
        found = law(classes, "1:10")
        assert (found["gone"], found["poll"]["alive"], found["mark"]) == (False, True, 1)
    classes.weir("detach", "rb")
    assert listing(classes) == before
    assert killed


TABLES = """
["rb/1:10"]
target = "5ms"
mark = "1/3"

["rb/1:20"]
target = "50ms"
others = true

["rb/1:"]
target = "30ms"
"""
KEPT = {"1:10": 5000, "1:20": 50000, "1:30": 30000}


def kept(rig) -> bool:
    """Each class is as TABLES want it."""
    if laws(rig) != KEPT:
        return False
    found = json.loads(rig.weir("status", "rb", "--json").stdout)
    return all(one["poll"]["alive"] for one in found) and {one.get("mark") for one in found} == {None, 1}


def test_the_daemon_keeps_a_law_a_class(classes, daemon):
    daemon.configure(TABLES)
    daemon.start()
    until(lambda: kept(classes), "the laws", 60)
    again = (
        "tc qdisc del dev rb root;"
        + "tc qdisc add dev rb root handle 1: htb default 30;"
        + "".join(f"tc class add dev rb parent 1: classid {name} htb rate 1gbit;" for name in ALL)
    )
    link = f"{law(classes, '1:10')['pins']}/link_egress"
    for what, change in {
        "its gains changed": f"{WEIR} set rb --class 1: target=20ms",
        "one law detached": f"{WEIR} detach rb/1:10",
        "all detached": f"{WEIR} detach rb",
        "its program taken off": f"bpftool link detach pinned {link}",
        "its process killed": "kill -9 {pid}",
        "its tree made again": again,
        "a class made again": "tc class del dev rb classid 1:10;"
        "tc class add dev rb parent 1: classid 1:10 htb rate 9mbit",
    }.items():
        classes.router.sh(change.format(pid=law(classes, "1:10")["poll"]["pid"]))
        until(lambda: kept(classes), what, 60)
    daemon.looked("rb/1:10")
    tables = [f"rb/{one}" for one in ("1:10", "1:20", "1:")]
    for part in ("gains", "class", "program"):  # the program is the affair of whichever finds it
        assert sum(daemon.metric("drift_total", dev=dev, part=part) for dev in tables) >= 1, part
    until(lambda: all(daemon.metric("attached", dev=dev) == 1 for dev in tables), "metrics", 60)
    assert "trouble" not in law(classes, "1:10")
    assert daemon.stop() == 0
    assert kept(classes)  # the laws need no daemon


def test_the_daemon_waits_for_a_class_and_says_so(classes, daemon):
    daemon.configure('["rb/1:40"]\ntarget = "5ms"\n["rb/1:10"]\n')
    daemon.start()
    until(lambda: laws(classes) == {"1:10": 15000}, "the law of the other one", 60)
    until(lambda: daemon.metric("failures_total", dev="rb/1:40") > 0, "a failure", 60)
    assert daemon.metric("attached", dev="rb/1:40") == 0
    assert "class 1:40 is not there" in (daemon.folder / "log").read_text()
    for _ in range(2):
        classes.router.sh("tc class add dev rb parent 1:1 classid 1:40 htb rate 1gbit")
        until(lambda: daemon.metric("attached", dev="rb/1:40") == 1, "its law", 60)
        assert laws(classes) == {"1:10": 15000, "1:40": 5000}
        classes.router.sh("tc class del dev rb classid 1:40")
        until(lambda: daemon.metric("attached", dev="rb/1:40") == 0, "no law without its class", 60)


def test_drift_of_a_class_can_be_left(classes, daemon):
    daemon.configure(TABLES, drift="leave")
    daemon.start()
    until(lambda: kept(classes), "the laws", 60)
    classes.weir("set", "rb/1:10", "target=20ms")
    classes.weir("detach", "rb/1:20")
    until(lambda: daemon.metric("drift_left", dev="rb/1:10", part="gains") == 1, "drift of gains", 60)
    until(lambda: daemon.metric("drift_left", dev="rb/1:20", part="class") == 1, "a law that is missing", 60)
    daemon.looked("rb/1:20")
    assert laws(classes) == {"1:10": 20000, "1:30": 30000}
    assert daemon.metric("attached", dev="rb/1:20") == 0
    assert daemon.metric("drift_left", dev="rb/1:", part="gains") == 0  # 1:10 is not its affair
    classes.weir("set", "rb/1:10", "target=5ms")
    until(lambda: daemon.metric("drift_left", dev="rb/1:10", part="gains") == 0, "no drift", 60)


def test_tables_of_classes_come_and_go(classes, daemon):
    """Laws that no table asks for are removed, unless somebody else attached them; marks go from one to another."""
    attach(classes, "1:30", "target=40ms")
    daemon.configure('["rb/1:10"]\nmark = "1/3"\n["rb/1:20"]\nmark = "2/3"\n')
    daemon.start()
    until(lambda: set(laws(classes)) == set(ALL), "the laws", 60)
    daemon.configure('["rb/1:10"]\nmark = "2/7"\n["rb/1:20"]\nmark = "1/7"\n')
    daemon.process.send_signal(signal.SIGHUP)
    marks = ("1:10", 2), ("1:20", 1)
    until(lambda: all(law(classes, name).get("mark") == mark for name, mark in marks), "the new marks", 60)
    daemon.configure('["rb/1:20"]\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: set(laws(classes)) == {"1:20", "1:30"}, "no law without its table", 60)
    daemon.configure("")
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: laws(classes) == {"1:30": 40000}, "only the law of somebody else", 60)
    classes.weir("detach", "rb")
    daemon.configure('["rb/1:20"]\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: set(laws(classes)) == {"1:20"}, "a law again", 60)
    daemon.configure("[rb]\nwhole_tree = true\n")
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: "class" not in one_law(classes) and one_law(classes), "one law for the interface", 60)
    daemon.configure('["rb/1:20"]\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: set(laws(classes)) == {"1:20"}, "a law of a class in its place", 60)


def one_law(rig) -> dict:
    """Status of the attachment, where that is one law for the interface."""
    found = json.loads(rig.weir("status", "rb", "--json", check=False).stdout or "[]")
    return {} if isinstance(found, list) else found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["rb/1:x"]\n', "xdp.toml:1: [rb/1:x]: must be a class as tc has it"),
        ('["rb/1:a"]\n["rb/1:0a"]\n', "xdp.toml:2: [rb/1:a]: given twice"),
        ('[rb]\n["rb/1:a"]\n', "xdp.toml:2: [rb/1:a]: beside [rb]: either one law for the interface"),
        ("[rb]\nmark = 1\n", "xdp.toml:1: [rb]: --mark goes with --class"),
        ('["rb/1:"]\nothers = true\n', "xdp.toml:1: [rb/1:]: --others goes with one --class"),
        ('["rb/1:a"]\nshape = "1mbit"\n', "xdp.toml:1: [rb/1:a]: --class: a law of a class takes neither"),
        ('["rb/1:a"]\nmark = "4/3"\n', "xdp.toml:1: [rb/1:a]: --mark 4/3: must be a mark"),
        ('["rb/1:a"]\nmark = 1\n["rb/1:b"]\nmark = 1\n', "xdp.toml:3: [rb/1:b]: mark 0x1: [rb/1:a] has it already"),
        ('["rb/1:a"]\nmark = "1/1"\n["rb/1:b"]\nmark = "2/3"\n', "must have one mask, and [rb/1:a] has 0x1"),
        ('["rb/1:a"]\nothers = true\n["rb/1:b"]\nothers = true\n', "xdp.toml:3: [rb/1:b]: others: [rb/1:a] has it"),
    ],
)
def test_a_wrong_table_of_a_class_is_one_clear_line(rig, tmp_path, text, words):
    (tmp_path / "xdp.toml").write_text(text)
    done = rig.weir("daemon", "--config", tmp_path / "xdp.toml", check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert words in done.stderr
