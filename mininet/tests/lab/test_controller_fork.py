# SPDX-License-Identifier: Apache-2.0
"""The controller's commands in a fork: what a process of their own would answer."""

import json
import os
import subprocess
import sys

import pytest

from weirlab import paths
from weirlab.lab.p4switch import weir_command, weir_variables

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to enter network namespaces")

FORKED = """
import json, sys
from weirlab.lab import controller_fork
assert controller_fork.can_fork()
print(json.dumps([controller_fork.call("/proc/self/ns/net", words) for words in json.loads(sys.argv[1])]))
"""
CALLS = [
    ["--version"],
    ["p4", "show", "--names", "--table", "fib"],
    ["p4", "show", "--p4", "unix:/nowhere/switch", "--json"],
    ["nonsense"],
]


def test_a_fork_answers_as_a_process_of_its_own_does():
    script = [sys.executable, "-c", FORKED, json.dumps(CALLS)]
    done = subprocess.run(script, env=weir_variables(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    forked = json.loads(done.stdout)
    assert [status for status, _, _ in forked] == [0, 2, 1, 2]
    for words, answer in zip(CALLS, forked, strict=True):
        alone = subprocess.run(
            weir_command(*words), env=weir_variables(), capture_output=True, text=True, check=False, cwd=paths.clone()
        )
        assert answer == [alone.returncode, alone.stdout, alone.stderr]


def test_beside_another_thread_there_is_no_fork():
    script = (
        "import threading; from weirlab.lab import controller_fork; ends = threading.Event();"
        "threading.Thread(target=ends.wait).start(); print(controller_fork.can_fork()); ends.set()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=weir_variables(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
