# SPDX-License-Identifier: Apache-2.0
"""Owners of interfaces and ports that a run finds. Runs that are killed are in tests/packet."""

import os
import select
import socket
import subprocess
import sys
import threading

from hypothesis import given
from hypothesis import strategies as st

from weirlab import paths
from weirlab.bmv2 import leftovers

OWN = "import sys; from weirlab.bmv2 import leftovers; print(leftovers.alias(), flush=True); sys.stdin.read()"


def started(script: str) -> subprocess.Popen:
    """A Python program that imports weirlab, with pipes at its input and output."""
    environment = {**os.environ, "PYTHONPATH": paths.import_path(), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", script]
    return subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_an_alias_is_of_a_dead_run_once_its_process_has_ended():
    with started(OWN) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        alias = run.stdout.readline().strip()
        assert f"pid={run.pid} " in alias
        assert not leftovers.is_of_dead_run(alias)
        run.stdin.close()
        assert run.wait(60) == 0
    assert leftovers.is_of_dead_run(alias)
    # A process of the same number that began later, and one of another PID namespace, which can't be seen.
    mine = leftovers.alias()
    assert not leftovers.is_of_dead_run(mine)
    assert leftovers.is_of_dead_run(mine.replace("start=", "start=1"))
    assert not leftovers.is_of_dead_run(alias.replace("pidns=", "pidns=1"))


@given(st.text())
def test_other_aliases_are_of_nobody(text: str):
    assert not leftovers.is_of_dead_run(text)


def test_the_listener_is_named():
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            listening = socket.create_server((host, 0), family=family)
        except OSError:
            continue  # no IPv6 here
        with listening:
            said = leftovers.listener(listening.getsockname()[1])
        assert said.startswith(f"process {os.getpid()} (")
    assert leftovers.listener(0) == "another program"


def test_children_end_with_the_process_and_not_with_a_thread():
    script = (
        "import subprocess, sys; from weirlab.bmv2 import leftovers; "
        "child = subprocess.Popen(['sleep', '1000'], preexec_fn=leftovers.ends_with_parent()); "
        "print(child.pid, flush=True); sys.stdin.read()"
    )
    with started(script) as run:
        assert run.stdout is not None
        child = os.pidfd_open(int(run.stdout.readline()))
        run.kill()
    try:
        assert select.select([child], [], [], 60)[0], "the child has ended"
    finally:
        os.close(child)
    found = []
    thread = threading.Thread(target=lambda: found.append(leftovers.ends_with_parent()))
    thread.start()
    thread.join()
    assert found == [None]
