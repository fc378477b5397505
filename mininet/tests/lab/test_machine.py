# SPDX-License-Identifier: Apache-2.0
"""The machine's extended registers beside CPUID, and the lab that shows the first look."""

import os
import shutil
import subprocess
import sys

import pytest

from weirlab.lab import machine
from weirlab.lab.kernels import ExactLab, LabError, PackagedLab
from weirlab.run import first

CPUID = """\
#include <cpuid.h>
#include <stdio.h>
int main(void)
{
	unsigned int a, enabled, all, d;

	if (!__get_cpuid_count(0xd, 0, &a, &enabled, &all, &d))
		return 1;
	printf("%u %u\\n", enabled, all);
	return 0;
}
"""
FORBID_PTRACE = """\
import ctypes, os, struct, sys
ALLOW, ERRNO_EPERM, PTRACE = 0x7FFF0000, 0x00050001, 101
rules = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, PTRACE, 6, 0, 0, ERRNO_EPERM, 6, 0, 0, ALLOW)
rules = ctypes.create_string_buffer(rules, len(rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(rules)), 16)
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program))) == 0  # PR_SET_SECCOMP
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def cpuid(tmp_path_factory):
    """Bytes of XSAVE's area for what the system has enabled, and for all that this CPU has (leaf 0xD, EBX and ECX)."""
    folder = tmp_path_factory.mktemp("cpuid")
    (folder / "cpuid.c").write_text(CPUID)
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    subprocess.run(["cc", "-o", folder / "cpuid", folder / "cpuid.c"], check=True)
    done = subprocess.run([folder / "cpuid"], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_ptrace_hands_over_no_more_than_cpuid_says(cpuid):
    enabled, everything = cpuid
    assert 512 < machine.extended_registers_bytes() <= everything
    assert enabled <= everything


def test_the_exact_labs_kernel_has_room_for_the_registers_of_this_cpu(exact, cpuid):
    reserved = (exact.folder / "registers-bytes").read_text().strip()
    assert reserved == "any" or int(reserved) >= cpuid[1]


def test_a_kernel_with_too_little_room_is_refused_before_it_boots(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "extended_registers_bytes", lambda: 11_008)
    with pytest.raises(LabError) as packaged:
        PackagedLab()
    lab = ExactLab.__new__(ExactLab)
    lab.folder = tmp_path
    (tmp_path / "registers-bytes").write_text("2696\n")
    assert {"2696", "11008"} <= set(lab._registers_problem().replace(";", " ").split())
    assert {"2696", "11008"} <= set(packaged.value.args[0].replace(";", " ").split())
    (tmp_path / "registers-bytes").write_text("any\n")
    assert lab._registers_problem() == ""


@pytest.mark.parametrize(
    ("registers_bytes", "host", "lab"),
    [(2_440, "no netem", "packaged"), (11_008, "", "host"), (11_008, "no netem", "exact")],
)
def test_the_first_look_takes_the_lab_that_is_there_soonest(monkeypatch, registers_bytes, host, lab):
    monkeypatch.setattr(machine, "extended_registers_bytes", lambda: registers_bytes)
    monkeypatch.setattr(machine, "host_problem", lambda: host)
    assert machine.first_lab() == lab


def test_a_machine_that_forbids_ptrace_is_found_out(monkeypatch):
    words = [sys.executable, "-c", FORBID_PTRACE, "-I", machine.__file__]
    for what in ("registers", "first-lab"):
        done = subprocess.run([*words, what], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1
        assert "SYS_PTRACE" in done.stderr
    machine.extended_registers_bytes.cache_clear()
    monkeypatch.setattr(machine.sys, "executable", "/bin/false")
    with pytest.raises(machine.MachineError):
        machine.packaged_problem()
    machine.extended_registers_bytes.cache_clear()
    monkeypatch.setattr(first, "first_lab", machine.first_lab)
    with pytest.raises(LabError):
        first.choose_lab()
    machine.extended_registers_bytes.cache_clear()


def test_the_running_kernel_shows_the_first_look_only_to_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.host_problem()


def test_the_running_kernel_of_a_lab_can_show_the_first_look(exact, tmp_path):
    """The exact lab's kernel has what the first look needs: there, the running kernel is the one to take."""
    from weirlab.lab.kernels import Job

    code = "from weirlab.lab import machine; print(repr(machine.host_problem()))"
    assert exact.run(Job(["python", "-c", code], tmp_path)).stdout == b"''\n"
