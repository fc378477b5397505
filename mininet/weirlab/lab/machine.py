# SPDX-License-Identifier: Apache-2.0
"""Facts of this machine that decide which lab can run on it. The set-up runs this file alone, before any package of the
clone's Python environment is there: only the standard library is imported.

User-Mode Linux runs its programs under ptrace. At each switch it reads and writes all of a thread's registers, the
extended ones (x87, SSE, AVX, AMX: XSAVE's area) into a buffer of fixed size. Linux rejects a write from a buffer that
is smaller than the area of this CPU (PTRACE_SETREGSET: EFAULT).
"""

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PACKAGED_RESERVES_BYTES = 2696
"""Of Debian's user-mode-linux: HOST_FP_SIZE in arch/x86/um/user-offsets.c of Linux 6.1."""

PTRACE_TRACEME = 0
PTRACE_GETREGSET = 0x4204
NT_X86_XSTATE = 0x202
BUFFER_BYTES = 1 << 16

FIRST_LOOK_QDISCS = ("netem", "fq_codel", "pfifo")


class MachineError(Exception):
    """This machine forbids a lab's needs: one line with the cause and the remedy."""


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def cpu_model() -> str:
    """Model name of the first processor, as Linux reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def measure_extended_registers_bytes() -> int:
    """Size of the area that PTRACE_GETREGSET returns for a stopped thread. Raises OSError where ptrace is forbidden.

    Forks: to be called in a process with a single thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)

    def ptrace(request: int, pid: int, address: int, data: int) -> int:
        answer = libc.ptrace(request, pid, address, data)
        return ctypes.get_errno() if answer == -1 else 0

    child = os.fork()
    if child == 0:
        error = ptrace(PTRACE_TRACEME, 0, 0, 0)
        if error == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(error)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        raise OSError(os.WEXITSTATUS(status), os.strerror(os.WEXITSTATUS(status)))
    try:
        area = ctypes.create_string_buffer(BUFFER_BYTES)
        iov = _IoVec(ctypes.addressof(area), BUFFER_BYTES)
        # Writing the area back is the call that fails in a User-Mode Linux whose buffer is too small.
        for request in (PTRACE_GETREGSET, PTRACE_GETREGSET + 1):
            if error := ptrace(request, child, NT_X86_XSTATE, ctypes.addressof(iov)):
                raise OSError(error, os.strerror(error))
        return iov.bytes
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@functools.cache
def extended_registers_bytes() -> int:
    """As above, by a process of its own. Raises MachineError."""
    done = subprocess.run([sys.executable, "-I", __file__, "registers"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(done.stderr.strip() or f"the probe of ptrace ended with status {done.returncode}")
    return int(done.stdout)


def registers_problem(reserved_bytes: int, kernel: str) -> str:
    """Reason why a User-Mode Linux with this buffer can't run here, or an empty text. Raises MachineError."""
    needed_bytes = extended_registers_bytes()
    if needed_bytes <= reserved_bytes:
        return ""
    return (
        f"{kernel} reserves {reserved_bytes} bytes for a thread's extended registers; "
        f"this CPU ({cpu_model()}) has {needed_bytes}"
    )


def packaged_problem() -> str:
    """Reason why Debian's packaged User-Mode Linux can't run on this CPU, or an empty text. Raises MachineError."""
    return registers_problem(PACKAGED_RESERVES_BYTES, "Debian's User-Mode Linux")


def host_problem() -> str:
    """Reason why private namespaces of the running kernel can't show the first look, or an empty text."""
    if os.geteuid() != 0:
        return "eBPF on the running kernel needs root"
    if not (shutil.which("tc") and shutil.which("unshare")):
        return "tc or unshare is missing"
    for name in FIRST_LOOK_QDISCS:
        words = ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", name]
        words += ["limit", "100"] if name != "fq_codel" else []
        if subprocess.run(words, capture_output=True, check=False).returncode != 0:
            return f"the running kernel has no {name}"
    return ""


def first_lab() -> str:
    """Name of the lab that can show the first look soonest: `packaged`, `host` or `exact`. Raises MachineError."""
    if not packaged_problem():
        return "packaged"
    return "host" if not host_problem() else "exact"


def main(words: list[str]) -> int:
    try:
        if words == ["first-lab"]:
            print(first_lab())
            return 0
        if words == ["registers"]:
            print(measure_extended_registers_bytes())
            return 0
    except MachineError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"the lab needs ptrace, which this machine forbids ({error.strerror}): in a container allow it with "
            "--cap-add SYS_PTRACE or a seccomp profile that has ptrace; elsewhere look at kernel.yama.ptrace_scope "
            "(3 forbids it)",
            file=sys.stderr,
        )
        return 1
    print("usage: machine.py registers | first-lab", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
