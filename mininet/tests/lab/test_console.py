# SPDX-License-Identifier: Apache-2.0
"""The line of a lab's console that a failure shows, a lab's memory, and distutils for Mininet. The consoles were
captured."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from weirlab import paths
from weirlab.lab.kernels import SHM, console_error, memory_folder

BOOT = """\
[    0.000000] Using a channel type which is configured out of UML
[    0.000000] setup_one_line failed for device 1 : failed to parse channel pair
"""
MOUNT = """\
mount: /run/out: fsconfig() failed: hostfs: Unknown parameter '/home/user/run'.
       dmesg(1) may have more information after failed mount system call.
weir-lab-init: cannot mount the run's folder
[    1.000000] reboot: Power down
Powering off.
"""
REGISTERS = """\
mmapper_init - find_iomem failed
userspace - ptrace set fp regs failed, errno = 14
Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b
CPU: 0 PID: 1 Comm: init.sh Not tainted 6.1.176 #1
Call Trace:
 [<6002c0dd>] new_thread_handler+0xae/0xb0
"""
NO_INIT = "[    0.000000] Kernel panic - not syncing: Requested init /proc/self/cwd/init.sh failed (error -2).\n"
NO_JOB = "weir-lab-init: cannot enter /none\nPowering off.\n"


@pytest.mark.parametrize(
    ("console", "shown"),
    [
        (BOOT + MOUNT, MOUNT.splitlines()[0]),
        (BOOT + REGISTERS, REGISTERS.splitlines()[1]),
        (BOOT + NO_INIT, NO_INIT.strip()),
        (BOOT + NO_JOB, NO_JOB.splitlines()[0]),
        ("a\nb\nc\n\nd\n", "b | c | d"),
        ("", "empty"),
    ],
    ids=["mount", "registers", "no init", "init", "unknown", "empty"],
)
def test_the_first_line_that_reports_an_error(console, shown):
    assert console_error(console) == shown


COMPARE = """
from distutils.version import StrictVersion as V
import distutils
print(distutils.__file__)
assert V("1.9") < V("1.10") and V("2.0") > V("1.10.3") and V("1.0") == V("1.0.0") == "1.0"
assert V("1.0a1") < V("1.0b1") < V("1.0") and not V("1.9") >= V("1.10") and V("1.2") <= "1.2"
assert {V("1.0"), V("1.0.0")} == {V("1.0")} and str(V("1.0.0")) == "1.0.0"
try:
    V("one")
except ValueError:
    pass
else:
    raise AssertionError
"""


@pytest.fixture
def compat():
    return Path(paths.__file__).parent / "lab" / "compat"


def test_distutils_for_mininet_compares_versions(compat):
    """The same program holds for Python's own, up to 3.11."""
    environment = {**os.environ, "PYTHONPATH": str(compat), "SETUPTOOLS_USE_DISTUTILS": "stdlib"}
    done = subprocess.run([sys.executable, "-c", COMPARE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(compat)


@pytest.mark.parametrize(("version", "has_it"), [((3, 11), False), ((3, 12), True), ((3, 14), True)])
def test_distutils_is_there_only_where_python_has_none(monkeypatch, compat, version, has_it):
    monkeypatch.setattr(sys, "version_info", version)
    assert (str(compat) in paths.import_path().split(":")) == has_it


@pytest.mark.parametrize(
    ("blocks", "flags", "writable", "used"),
    [
        (1 << 18, 0, True, True),
        (1 << 14, 0, True, False),  # 64 MiB, as in a container
        (1 << 18, os.ST_NOEXEC, True, False),
        (1 << 18, 0, False, False),
    ],
)
def test_a_labs_memory_lies_where_it_can_be_run(monkeypatch, blocks, flags, writable, used):
    monkeypatch.setattr(os, "access", lambda *_: writable)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=blocks, f_frsize=4096, f_flag=flags))
    assert memory_folder("/scratch") == (SHM if used else "/scratch")
