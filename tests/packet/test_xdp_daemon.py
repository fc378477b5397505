# SPDX-License-Identifier: Apache-2.0
"""`weir-xdp daemon`: what its configuration asks for is there, whatever comes, goes, or is changed by others; the law
goes on without it. Assertions are about what is there in the end; how long it takes is the machine's affair."""

import contextlib
import json
import random
import signal
import subprocess

import pytest
from daemon_rig import attached, attachments
from packet_rig import HOOKS, WEIR, runs, until

SHAPED = '[rb]\nshape = "50mbit"\nbands = false\ntarget = "5ms"\n'
KILLS = 25
SEED = 17


def fits(rig) -> bool:
    """rb is as SHAPED wants it."""
    done = rig.weir("status", "rb", "--json", check=False)
    status = json.loads(done.stdout) if done.returncode == 0 else {}
    return (
        status.get("shape_bit_s") == 50_000_000
        and status["gains"]["target_us"] == 5000
        and not status["gone"]
        and "trouble" not in status
        and "rate 50Mbit" in rig.router.sh("tc class show dev rb")
    )


CHANGES = {
    "its root replaced": "tc qdisc replace dev rb root handle 9: tbf rate 10mbit burst 5000 limit 100000",
    "its root removed": "tc qdisc del dev rb root",
    "its class changed": "tc class change dev rb parent 7e1d: classid 7e1d:1 htb rate 10mbit",
    "its gains changed": f"{WEIR} set rb target=20ms",
    "detached": f"{WEIR} detach rb",
}


def test_it_attaches_and_mends(rig, daemon):
    daemon.configure(SHAPED)
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    for what, change in CHANGES.items():
        rig.router.sh(change)
        until(lambda: fits(rig), what, 60)
    daemon.looked()
    drift = {part: daemon.metric("drift_total", dev="rb", part=part) for part in ("shaper", "gains", "program")}
    assert all(drift.values()), drift
    assert daemon.metric("attached", dev="rb") == 1
    assert daemon.metric("mended_total", dev="rb") >= 3
    assert daemon.stop() == 0
    assert fits(rig)  # the law needs no daemon


@pytest.mark.parametrize("hook", HOOKS)
def test_a_program_that_is_taken_off_comes_back(rig, daemon, hook):
    daemon.configure(SHAPED + f'hook = "{hook}"\n')
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    if hook == "tcx":
        rig.router.run("bpftool", "link", "detach", "pinned", f"{rig.pins()}/link_egress")
    else:
        rig.router.run("tc", "qdisc", "del", "dev", "rb", "clsact")
    until(lambda: fits(rig), "the program again", 60)
    until(lambda: daemon.metric("drift_total", dev="rb", part="program") == 1, "its drift", 60)


def test_a_table_has_a_profile_its_keys_and_switches(rig, daemon):
    daemon.configure("[rb]\nshape = '10mbit'\nprofile = \"paper\"\nkp = 2\ntarget_us = 20_000\necn = 'on'\n")
    daemon.start()
    until(lambda: attached(rig), "attached", 60)
    gains = rig.status()["gains"]
    assert [gains[key] for key in ("kp", "z1", "target_us", "ecn_bound")] == pytest.approx([2, 1.5, 20000, 1], rel=1e-4)


def test_drift_can_be_left(rig, daemon):
    """Then it is counted once, for as long as it stands, and nothing is touched."""
    daemon.configure(SHAPED, drift="leave")
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    rig.weir("set", "rb", "target=20ms")
    until(lambda: daemon.metric("drift_left", dev="rb", part="gains") == 1, "drift", 60)
    daemon.looked()
    assert rig.status()["gains"]["target_us"] == 20000
    assert daemon.metric("drift_total", dev="rb", part="gains") == 1
    assert daemon.metric("mended_total", dev="rb") == 0
    rig.weir("set", "rb", "target=5ms")
    until(lambda: daemon.metric("drift_left", dev="rb", part="gains") == 0, "no drift", 60)


def test_interfaces_come_go_and_are_renamed(rig, daemon):
    """ppp, USB, VPN: made again with another number, or an interface that gets a name that is configured."""
    make = "ip link add {} type veth peer name other7; ip link set {} up; ip link set other7 up"
    daemon.configure('[ppp7]\nshape = "10mbit"\nbands = false\n')
    daemon.start()
    until(lambda: daemon.metric("looks_total", dev="ppp7") > 0, "a first look", 60)
    assert daemon.metric("attached", dev="ppp7") == 0
    for _ in range(2):
        rig.router.sh(make.format("ppp7", "ppp7"))
        until(lambda: attached(rig, "ppp7"), "the law on ppp7", 60)
        rig.router.sh("ip link del ppp7")
        until(lambda: attachments(rig) == "", "no pins", 60)
    until(lambda: daemon.metric("removed_total") == 2, "two removals", 60)
    rename = "ip link set {0} down; ip link set {0} name {1}; ip link set {1} up"
    rig.router.sh(make.format("tmp7", "tmp7") + ";" + rename.format("tmp7", "ppp7"))
    until(lambda: attached(rig, "ppp7"), "the law on the renamed one", 60)
    rig.router.sh(rename.format("ppp7", "tmp7"))
    until(lambda: not attached(rig, "tmp7"), "no law on one that nobody asks for", 60)
    assert "htb" not in rig.router.sh("tc qdisc show dev tmp7")
    rig.router.sh("ip link del tmp7")


def test_what_others_attached_is_adopted_or_left(rig, daemon):
    rig.weir("attach", "rb", "--shape", "50mbit", "--no-bands", "target=5ms")
    rig.weir("attach", "ra", "--rate", "1mbit")
    before = rig.status("rb")["attach_id"], rig.status("ra")["attach_id"]
    daemon.configure(SHAPED)
    daemon.start()
    until(lambda: daemon.metric("attached", dev="rb") == 1, "rb adopted", 60)
    daemon.looked()
    assert (rig.status("rb")["attach_id"], rig.status("ra")["attach_id"]) == before
    assert daemon.metric("attaches_total", dev="rb") == 0


def test_what_others_add_to_the_shaper_is_mended_once(rig, daemon):
    """Nor do the messages of its own changes bring the next look."""
    daemon.configure(SHAPED + 'signal = "poll"\n')
    daemon.file.write_text(daemon.file.read_text().replace("200ms", "3600s"))
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    made = rig.router.sh("tc class show dev rb")
    rig.router.sh(
        "tc class add dev rb parent 7e1d: classid 7e1d:2 htb rate 10mbit;"
        "tc filter add dev rb parent 7e1d: protocol all u32 match u32 0 0 classid 7e1d:2"
    )
    until(lambda: daemon.metric("mended_total", dev="rb") > 0, "a mended shaper", 60)
    until(lambda: rig.router.sh("tc filter show dev rb; tc class show dev rb") == made, "our shaper alone", 60)
    steps, looks = rig.status()["counters"]["updates"], daemon.metric("looks_total", dev="rb")
    until(lambda: rig.status()["counters"]["updates"] > steps + 150, "150 questions", 60)
    assert daemon.metric("mended_total", dev="rb") <= 2  # a look may come between the class and the filter
    assert daemon.metric("looks_total", dev="rb") <= looks + 4  # those that the changes brought
    assert fits(rig)


def test_an_interface_may_be_asked_for_by_another_of_its_names(rig, daemon):
    rig.shape("50mbit")
    rig.router.sh("ip link property add dev rb altname wan7")
    try:
        daemon.configure("[wan7]\n")
        daemon.start()
        until(lambda: attached(rig), "the law on rb", 60)
        first = rig.status()["attach_id"]
        for _ in range(2):
            rig.router.sh("ip link set rb down; ip link set rb up")  # messages bring a sweep
            daemon.looked("wan7")
        assert (rig.status()["attach_id"], daemon.metric("removed_total")) == (first, 0)
    finally:
        rig.router.sh("ip link property del dev rb altname wan7")


def test_what_could_not_be_removed_is_removed_later(rig, daemon):
    daemon.configure(SHAPED)
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    hinders = f"{rig.pins()}/hinders"
    rig.router.run("mkdir", hinders)
    daemon.configure("")
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: (daemon.folder / "log").read_text().count(hinders) >= 4, "tries", 60)
    rig.router.run("rmdir", hinders)  # the kernel tells nobody
    until(lambda: daemon.metric("removed_total") == 1, "the removal", 60)
    assert attachments(rig) == ""


def test_it_says_that_the_law_is_off(rig, daemon):
    daemon.configure(SHAPED)
    daemon.start()
    until(lambda: daemon.metric("attached", dev="rb") == 1, "the law on rb", 60)
    rig.router.sh(f"{WEIR} detach rb; tc qdisc replace dev rb root handle 9: htb")
    until(lambda: daemon.metric("failures_total", dev="rb") > 0 or fits(rig), "a look", 60)
    if not attached(rig):
        until(lambda: daemon.metric("attached", dev="rb") == 0, "its end in the metrics", 60)
        rig.unshape()
    until(lambda: fits(rig), "the law again", 60)
    until(lambda: daemon.metric("attached", dev="rb") == 1, "the law in the metrics", 60)


def test_a_look_that_is_killed_is_made_again(rig, daemon):
    """A process of signal `poll` that was started by then lives on: the daemon waits for no word of it."""
    daemon.configure(SHAPED + 'signal = "poll"\n')
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    children = f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children"
    pins = rig.pins()
    killed = 0
    for attempt in range(60):  # a look is short, and a busy machine may miss it
        wait = f"until [ -e {pins}/queue ]; do :; done; sleep 0.0{attempt % 6}"
        done = rig.router.sh(f"{WEIR} detach rb; {wait}; kill -9 $(cat {children}) 2>/dev/null && echo killed || true")
        killed += "killed" in done
        until(lambda: fits(rig), "the law again", 60)
        if attempt >= 5 and killed:
            break
    assert killed


def test_names_that_look_like_options(rig, daemon):
    """Linux takes them as names of interfaces."""
    daemon.configure(SHAPED + '[--]\nrate = "10mbit"\n[--help]\nrate = "10mbit"\n[-]\nrate = "10mbit"\n')
    daemon.start()
    until(lambda: attached(rig), "the daemon attached")
    rig.router.sh("ip link add name --help type veth peer name plain && ip link set dev --help up")
    try:
        until(lambda: daemon.metric("looks_total", dev="--help") > 0, "the daemon has looked at it")
        assert daemon.stop() == 0
    finally:
        rig.router.sh("ip link del dev plain")


def test_a_new_configuration_is_read(rig, daemon):
    daemon.configure(SHAPED)
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    daemon.configure(SHAPED.replace("5ms", "7ms") + "kq = 1\n")
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: "goes on with the configuration it has" in (daemon.folder / "log").read_text(), "a refusal", 60)
    assert fits(rig)
    daemon.configure("")
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: not attached(rig), "no law on rb", 60)


def test_it_sleeps_while_others_only_look(rig, daemon):
    """The kernel notifies everybody of each request about a qdisc; a process of signal `poll` asks at each interval."""
    daemon.configure(SHAPED + 'signal = "poll"\n')
    daemon.file.write_text(daemon.file.read_text().replace("200ms", "3600s"))
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    until(lambda: daemon.metric("looks_total", dev="rb") >= 1, "a look in the metrics")
    steps, looks = rig.status()["counters"]["updates"], daemon.metric("looks_total", dev="rb")
    until(lambda: rig.status()["counters"]["updates"] > steps + 150, "150 questions", 60)
    assert daemon.metric("looks_total", dev="rb") <= looks + 3  # those that its attach brought
    rig.router.sh(CHANGES["its root replaced"])
    until(lambda: fits(rig), "the shaper again", 60)


def test_the_other_end_may_be_in_another_namespace(rig, daemon):
    """At each look anew, not at the first only."""
    rig.shape("50mbit")
    daemon.configure(f'[rb]\npeer = "{rig.peer}"\n')
    daemon.start()
    until(lambda: daemon.metric("attached", dev="rb") == 1, "the law on rb", 60)
    daemon.looked()
    rig.weir("detach", "rb")
    until(lambda: attached(rig), "the law again", 60)
    daemon.looked()
    assert rig.status()["signal"] == "veth"
    assert daemon.metric("failures_total", dev="rb") == 0


def test_only_one_daemon(rig, daemon):
    daemon.configure(SHAPED)
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    done = rig.weir("daemon", "--config", daemon.file, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "No such file"),
        ("shape = 1\n", "xdp.toml:1: shape: must be drift, check or metrics, or stand below the [NAME]"),
        ('drift = "no"\n', 'xdp.toml:1: drift = no: must be "mend" or "leave"'),
        ("check = 5\n", "xdp.toml:1: check = 5: must be a time with its unit"),
        ('metrics = "here"\n', "xdp.toml:1: metrics = here: must be an absolute path"),
        ("[rb\n", "xdp.toml:1: must be a line `key = value`, or `[NAME]`"),
        ("[a/b]\n", "xdp.toml:1: a/b: not a name an interface can have"),
        ('[rb]\n[ "rb"]\n', "xdp.toml:2: must be a line"),
        ('[rb]\n["rb"]\n', "xdp.toml:2: [rb]: given twice"),
        ("\n[rb]\nkq = 1\n", "xdp.toml:3: kq: no key of an interface: must be shape, rate, peer"),
        *(
            (f"[rb]\n{key} = {value}\n", f"xdp.toml:2: {key}: no key of an interface")
            for key, value in {
                "help": "true",
                "version": "true",
                "netns": '"/proc/1/ns/net"',
                "pins": '"/sys/fs/bpf/other"',
                "look": "true",
                "json": "true",
                "verbose": "false",
            }.items()
        ),
        ("[rb]\nwhole_tree = 1\n", "xdp.toml:2: whole_tree = 1: must be true or false"),
        ('[rb]\npeer = "@here"\n', "xdp.toml:1: [rb]: --peer @here: must be DEV or DEV@NETNS"),
        ('[rb]\nshape = "5"\nbands = false\n', "xdp.toml:1: [rb]: --shape 5: must be a number with its unit"),
        ("[rb]\ntarget = 5\n", "xdp.toml:1: [rb]: argument: target = 5: must be a time with its unit"),
        ("[rb]\n" + "kp = 1\n" * 70, "more than 64 words"),
        ("[rb]\nx = " + "1" * 600 + "\n", "xdp.toml:2: longer than a line may be"),
    ],
)
def test_a_wrong_configuration_is_one_clear_line(rig, tmp_path, text, words):
    if text:
        (tmp_path / "xdp.toml").write_text(text)
    done = rig.weir("daemon", "--config", tmp_path / "xdp.toml", check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert words in done.stderr


def test_it_is_killed_at_any_moment(rig, daemon):
    """kill -9 of the daemon while others change what it keeps: the next one adopts or mends, and nothing is left."""
    chance = random.Random(SEED)
    daemon.configure(SHAPED + 'signal = "poll"\n')
    for _ in range(KILLS):
        daemon.start()
        if chance.random() < 0.5:
            rig.router.sh(chance.choice(list(CHANGES.values())) + " 2>/dev/null || true")
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.process.wait(chance.random() ** 2)
        daemon.stop(signal.SIGKILL)
    rig.unshape()  # a root that somebody put there while nothing was attached is his, and no daemon's to take away
    daemon.start()
    until(lambda: fits(rig), "the law on rb", 60)
    daemon.looked()
    assert daemon.stop() == 0
    pid = rig.status()["poll"]["pid"]
    rig.weir("detach", "rb")
    assert not runs(pid)
    assert attachments(rig) == ""
    assert rig.router.tcx_programs("rb", "egress") == []
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")
    assert rig.router.sh("pgrep -x weir-xdp --nslist net --ns $$ || true") == ""
