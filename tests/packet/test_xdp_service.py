# SPDX-License-Identifier: Apache-2.0
"""`weir-xdp daemon` as its unit runs it: a user of its own with ambient capabilities, which sees its pins alone."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest
from daemon_rig import Daemon, attached
from packet_rig import REPO, WEIR, until

USER = 65534
UNIT = (REPO / "xdp/systemd/weir-xdp.service").read_text()
CAPABILITIES = re.search("^AmbientCapabilities=(.*)$", UNIT, re.MULTILINE)
SHAPED = '[rb]\nshape = "50mbit"\nbands = false\n'


class Service(Daemon):
    """The daemon behind what systemd would set up."""

    def __init__(self, rig, folder):
        super().__init__(rig, folder)
        folder.chmod(0o755)
        self.program = folder / "weir-xdp"  # the build's folder may be root's alone
        shutil.copy(WEIR, self.program)
        run = folder / "run"
        run.mkdir()
        shutil.chown(run, USER, USER)
        self.metrics_file = run / "xdp.prom"

    def start(self) -> None:
        start_pre = re.search(r"^ExecStartPre=\+/bin/sh -c '(.*)'$", UNIT, re.MULTILINE)[1]
        self.rig.router.sh(start_pre.replace("weir:weir", f"{USER}:{USER}"))
        sets = ",".join(["-all", *(f"+{name[4:].lower()}" for name in CAPABILITIES[1].split())])
        become = f"--reuid={USER} --regid={USER} --clear-groups --no-new-privs"
        become += f" --bounding-set={sets} --inh-caps={sets} --ambient-caps={sets}"
        script = (
            "mkdir -p /run/pins && mount --bind /sys/fs/bpf/weir /run/pins && mount -t tmpfs -o mode=0755 t /sys/fs/bpf"
            " && mkdir /sys/fs/bpf/weir && mount --move /run/pins /sys/fs/bpf/weir && mount -o remount,ro /sys/fs/bpf"
            f" && umask 077 && exec setpriv {become} -- {self.program} daemon --config {self.file}"
        )
        with (self.folder / "log").open("a") as log:
            self.process = self.rig.router.start(
                "unshare", "-m", "--propagation", "private", "sh", "-ec", script, stderr=log
            )


@pytest.fixture
def service(rig):
    rig.router.sh("mount -t bpf -o mode=0700 bpf /sys/fs/bpf")  # as systemd mounts it
    with tempfile.TemporaryDirectory() as folder:
        made = Service(rig, Path(folder))
        yield made
        made.stop()
    rig.weir("detach", "rb", check=False)
    rig.router.sh("umount /sys/fs/bpf")
    rig.unshape()


def test_the_daemon_needs_no_root(rig, service):
    """It attaches, mends and measures; root sees and detaches what it attached, and it attaches again."""
    service.configure(SHAPED)
    service.start()
    until(lambda: attached(rig), "the law", 60)
    assert rig.router.sh(f"find /sys/fs/bpf/weir ! -uid {USER}") == ""
    service.looked()
    assert service.metric("attached", dev="rb") == 1
    assert service.metrics_file.stat().st_mode & 0o777 == 0o644
    rig.weir("detach", "rb")
    until(lambda: attached(rig), "the law again", 60)
    rig.weir("set", "rb", "target=7ms")
    service.looked()
    assert service.metric("failures_total", dev="rb") == 0
    assert service.stop() == 0
    assert attached(rig)


def test_what_root_attached_before_is_the_services(rig, service):
    rig.shape("50mbit")
    rig.weir("attach", "rb", "--signal", "poll")
    service.configure('[rb]\nsignal = "poll"\n')
    service.start()
    service.looked()
    assert service.metric("attached", dev="rb") == 1
    assert service.metric("failures_total", dev="rb") == 0
    assert rig.router.sh(f"find /sys/fs/bpf/weir ! -uid {USER}") == ""
    assert service.stop() == 0
