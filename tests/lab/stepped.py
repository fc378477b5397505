# SPDX-License-Identifier: Apache-2.0
"""A program that is killed at its n-th system call: at any moment, and at the same one each time."""

import ctypes
import os
import signal
import sys

_TRACEME, _SYSCALL, _SETOPTIONS = 0, 24, 0x4200
_EXITKILL = 0x100000
_LIBC = ctypes.CDLL(None, use_errno=True)


def run_until(calls: int, *words: object) -> bool:
    """Runs a program and kills it after so many entries into and returns from system calls. False: it ended before."""
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (1, 2):
            os.dup2(quiet, fd)
        _LIBC.ptrace(_TRACEME, 0, None, None)
        os.execv(str(words[0]), [str(word) for word in words])
    os.waitpid(child, 0)
    _LIBC.ptrace(_SETOPTIONS, child, None, ctypes.c_void_p(_EXITKILL))
    passed = 0
    while calls:
        _LIBC.ptrace(_SYSCALL, child, None, ctypes.c_void_p(passed))
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            return False
        stopped = os.WSTOPSIG(status)
        passed = 0 if stopped == signal.SIGTRAP else stopped
        calls -= 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


if __name__ == "__main__":
    sys.exit(0 if run_until(int(sys.argv[1]), *sys.argv[2:]) else 3)  # 3: not killed
