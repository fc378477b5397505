# SPDX-License-Identifier: Apache-2.0
"""The names of congestion controls in scenarios are those of the program."""

import json
import subprocess

import pytest

from weirlab import paths
from weirlab.scenario.congestion import TABLE


def test_the_committed_table_is_the_programs():
    client = paths.build() / "bin" / "weir-client"
    if not client.exists():
        pytest.skip("weir-client is not built")
    made = subprocess.run([client, "--list-cc", "--json"], check=True, capture_output=True)
    rows = json.loads(made.stdout)
    text = json.dumps(rows, indent=4) + "\n"
    assert TABLE.read_text(encoding="utf-8") == text, "weir-client --list-cc --json | python3 -m json.tool > " + str(
        TABLE
    )
