# SPDX-License-Identifier: Apache-2.0
"""`weir-xdp` beside a local user without rights: its sockets, folders, links and names change nothing."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from daemon_rig import attached
from packet_rig import PROFILES, WEIR, until

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--")
ATTACH = ("attach", "rb", "--gains", PROFILES / "tuned.toml", "--rate", "1mbit", "--hook", "tc")
SQUAT = """
import socket, sys, time
held = []
for name in sys.argv[1:]:
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    held[-1].bind("\\0" + name.replace("rb", str(socket.if_nametoindex("rb"))))
    held[-1].listen(16)
print(flush=True)
time.sleep(600)
"""
HOSTILE_NAME = "r\x1b[31m\x9b7m"


@pytest.fixture(autouse=True)
def nothing_stays(rig):
    yield
    rig.weir("detach", "rb", check=False)
    assert left(rig) == ""


def left(rig, pins: str = "/sys/fs/bpf/weir") -> str:
    return rig.router.sh(f"find {pins} 2>/dev/null || true")


@contextlib.contextmanager
def squatter(rig, *names: str):
    """Holds abstract sockets with these names, as a user without rights."""
    held = rig.router.start(*AS_NOBODY, sys.executable, "-c", SQUAT, *names, stdout=subprocess.PIPE)
    try:
        assert held.stdout.readline() == "\n"
        yield
    finally:
        held.kill()
        held.communicate()


def test_a_strangers_sockets_lock_nothing(rig, daemon):
    with squatter(rig, "weir-xdp-0", "weir-xdp-rb"):
        rig.weir(*ATTACH)
        rig.weir("detach", "rb")
        daemon.configure('[rb]\nrate = "1mbit"\n')
        daemon.start()
        until(lambda: attached(rig), "the daemon attached")
        assert daemon.stop() == 0
        rig.weir("detach", "rb")


@contextlib.contextmanager
def open_to_all(rig):
    """A BPF file system of mode 1777, as `mount -t bpf bpf DIR` makes it."""
    rig.router.sh("mkdir -p /run/open && mount -t bpf bpf /run/open")
    try:
        yield "/run/open/weir"
    finally:
        rig.router.sh("umount /run/open && rmdir /run/open")


def test_pins_in_a_strangers_folder_are_refused(rig):
    with open_to_all(rig) as pins:
        rig.router.run(*AS_NOBODY, "mkdir", pins)
        for command in (ATTACH, ("ensure", "rb", "--rate", "1mbit"), ("detach", "rb"), ("status",)):
            done = rig.weir(*command, "--pins", pins, check=False)
            assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), command
        assert rig.router.sh(f"find {pins} -mindepth 1") == ""


def test_pins_behind_a_strangers_link_are_refused(rig):
    with open_to_all(rig) as pins:
        rig.router.sh("mkdir /sys/fs/bpf/other")
        try:
            rig.router.run(*AS_NOBODY, "ln", "-s", "/sys/fs/bpf/other", pins)
            assert rig.weir(*ATTACH, "--pins", pins, check=False).returncode == 1
            assert rig.router.sh("find /sys/fs/bpf/other -mindepth 1") == ""
        finally:
            rig.router.sh("rmdir /sys/fs/bpf/other")


def test_roots_pins_in_a_sticky_folder_are_accepted(rig):
    with open_to_all(rig) as pins:
        rig.weir(*ATTACH, "--pins", pins)
        assert rig.router.run(*AS_NOBODY, "mv", pins, f"{pins}-taken", check=False).returncode
        rig.weir("detach", "rb", "--pins", pins)


def test_detach_without_a_record_fails(rig):
    """An empty folder in the place of the attachment's: its program stays, and detach reports a failure."""
    rig.weir(*ATTACH)
    folder = rig.pins()
    aside = folder.replace("/weir/", "/weir/x-")
    rig.router.sh(f"mv {folder} {aside}; mkdir {folder}")
    assert rig.weir("detach", "rb", check=False).returncode == 1
    rig.router.sh(f"mkdir -p /sys/fs/bpf/weir; mv {aside} {folder}")
    assert json.loads(rig.weir("status", "rb", "--json").stdout)["gone"] is False
    rig.weir("detach", "rb")


def test_a_service_user_owns_what_root_attaches(rig):
    """A user to whom root gave the folder reads, locks and detaches what root attached there."""
    rig.router.sh(f"mkdir -m 0700 /sys/fs/bpf/weir && chown {NOBODY}:{NOBODY} /sys/fs/bpf/weir")
    capabilities = ",".join(["-all", *(f"+{name}" for name in ("bpf", "net_admin", "perfmon"))])
    user = (
        "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--bounding-set={capabilities}",
        f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", "--",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the build's may be root's alone
        own = shutil.copy(WEIR, folder)
        for attacher, detacher in (((WEIR,), (*user, own)), ((*user, own), (WEIR,))):
            rig.router.run(*attacher, "attach", "rb", "--rate", "1mbit")
            assert rig.router.sh(f"find /sys/fs/bpf/weir ! -uid {NOBODY}") == ""
            rig.router.run(*detacher, "set", "rb", "target=5ms")
            assert rig.router.sh(f"find /sys/fs/bpf/weir ! -uid {NOBODY}") == ""
            rig.router.run(*detacher, "ensure", "rb", "--rate", "2mbit")
            rig.router.run(*detacher, "detach", "rb")
            assert rig.router.sh("find /sys/fs/bpf/weir -mindepth 1") == ""
    rig.router.sh("rmdir /sys/fs/bpf/weir")


@pytest.fixture
def shared(rig, tmp_path):
    """A folder of the user without rights, a link in it, and root's file that the link names."""
    target, folder = tmp_path / "of-root", tmp_path / "shared"
    target.write_text("precious")
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    link = folder / "link"
    link.symlink_to(target)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    yield link
    assert target.read_text() == "precious"


def test_metrics_do_not_follow_a_strangers_link(rig, daemon, shared):
    metrics = shared.with_name("x.prom")
    shared.rename(metrics.with_name("x.prom.part"))
    daemon.metrics_file = metrics
    daemon.configure("")
    daemon.start()
    until(metrics.exists, "the metrics")
    assert daemon.stop() == 0
    assert not metrics.is_symlink()
    assert metrics.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("make", ["link", "hard link", "pipe", "file"])
def test_watch_writes_into_no_strangers_file(rig, shared, make):
    out = shared
    if make != "link":
        out.unlink()
    if make == "hard link":
        out.hardlink_to(out.parent.parent / "of-root")
    if make == "pipe":
        os.mkfifo(out)
    if make == "file":
        out.write_text("")
        os.chown(out, NOBODY, NOBODY)
    rig.weir(*ATTACH)
    words = ("watch", "rb", "--count", "1", "--every-ms", "1", "--out")
    assert rig.weir(*words, out, check=False).returncode == 1
    for _ in range(2):  # a new file, and one of its own
        rig.weir(*words, out.with_name("own"))
    assert out.with_name("own").read_text()
    rig.weir("detach", "rb")


def test_names_of_others_do_not_reach_the_terminal(rig):
    rig.router.run("ip", "link", "add", HOSTILE_NAME, "type", "bridge")
    try:
        for command in ("attach", "detach", "status", "ensure"):
            done = rig.weir(command, HOSTILE_NAME, check=False)
            assert done.returncode in (1, 2)
            assert done.stderr.rstrip("\n").isprintable(), command
            assert "\\x1b[31m\\xc2\\x9b7m" in done.stderr
    finally:
        rig.router.run("ip", "link", "del", HOSTILE_NAME)
