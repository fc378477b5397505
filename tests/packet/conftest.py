# SPDX-License-Identifier: Apache-2.0
"""Builds what is tested, and says why where it can't run."""

import json
import os
import shutil
import subprocess

import pytest
from class_rig import tree
from daemon_rig import Daemon
from p4_rig import BMV2, EMBEDDED, P4Rig, missing
from packet_rig import BUILD, REPO, Failed, Holder, Rig

_NEEDED = ("bpftool", "ip", "tc", "ethtool", "nsenter", "unshare", "make")


@pytest.fixture(scope="session")
def tools():
    """The loader, freshly made; skips where the machine can't run it."""
    path = f"/usr/sbin:/sbin:{os.environ['PATH']}"
    missing = [name for name in _NEEDED if not shutil.which(name, path=path)]
    if subprocess.run([REPO / "setup" / "llvm.sh", "clang"], capture_output=True, check=False).returncode:
        missing.append("clang")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if os.geteuid():
        pytest.skip("needs root, for namespaces and eBPF")
    try:
        Holder(bpffs=True).close()
    except Failed as error:
        pytest.skip(f"no namespaces with a BPF file system here: {error}")
    subprocess.run(["make", "-s", "-C", REPO / "xdp", f"OUT={BUILD}"], check=True)


@pytest.fixture(scope="module")
def rig(tools):
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def jumbo(tools):
    rig = Rig(mtu=9000)
    yield rig
    rig.close()


@pytest.fixture
def classes(rig):
    """Three classes, so fast that nothing waits; packets are in them by their DSCP."""
    tree(rig, dict.fromkeys(("1:10", "1:20", "1:30"), "1gbit"))
    with rig.router.classifying("rb"):
        yield rig
        rig.weir("detach", "rb", check=False)
    rig.unshape()


@pytest.fixture
def daemon(rig, tmp_path):
    made = Daemon(rig, tmp_path)
    yield made
    made.stop()
    for one in json.loads(rig.weir("status", "--json", check=False).stdout or "[]"):
        rig.weir("detach", one["dev"], check=False)
    rig.unshape()
    rig.router.sh("ip link del ppp7 2>/dev/null || true; rm -rf /sys/fs/bpf/weir")


@pytest.fixture(scope="module", params=[EMBEDDED, BMV2])
def target(request):
    """The kind of P4 switch a test is about; skips where it isn't."""
    if reason := missing(request.param):
        pytest.skip(reason)
    return request.param


@pytest.fixture(scope="module")
def switch(target, tmp_path_factory):
    """p4/pid_delay.p4 with a route to each station, no AQM, and ARP flooded; tests leave it as they found it."""
    switch = P4Rig(target, tmp_path_factory.mktemp("switch"))
    try:
        switch.deploy()
        yield switch
    finally:
        switch.close()
