# SPDX-License-Identifier: Apache-2.0
"""A time of day that jumps by days, forward and back, with every look at it: no program may depend on it. The tests
check that all is as ever: packets, tables, downloads."""

import json
import subprocess
from pathlib import Path

import pytest
import quic_rig
from hostile_rig import many, not_forwarded
from p4_rig import EMBEDDED, P4Rig, hop, missing

from weir.p4runtime.client import Update

SHIM = Path(__file__).with_name("shift_clock.c")


@pytest.fixture(scope="module")
def jumping(tmp_path_factory) -> str:
    """The environment's word that makes a program's time of day jump."""
    library = tmp_path_factory.mktemp("clock") / "shift_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM], check=True)
    return f"LD_PRELOAD={library}"


def test_a_switch_with_a_jumping_clock(jumping, tmp_path):
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    audit = tmp_path / "audit.jsonl"

    options = ["--audit", str(audit), "--queue", "default:depth=1000p"]
    rig = P4Rig(EMBEDDED, tmp_path, options=options, before=["env", jumping])
    try:
        rig.deploy()
        for _ in range(many(20, 400)):
            rig.client.write([Update.insert(hop(801, 2)), Update.delete(hop(801, 2))])
        assert not_forwarded(rig, many(480, 10_000)) == 0
        times_ms = [json.loads(line)["at_unix_ms"] for line in audit.read_text().splitlines()]
        assert len(times_ms) >= many(20, 400)
        assert times_ms != sorted(times_ms), "the clock does jump"
    finally:
        rig.close()


def test_a_server_with_a_jumping_clock(jumping, authority, tmp_path, monkeypatch):
    """Retry tokens are bound to a time: it must not be the time of day."""
    name, value = jumping.split("=", 1)
    monkeypatch.setenv(name, value)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--retry", "always")
    monkeypatch.delenv(name)
    try:
        for _ in range(many(5, 100)):
            server.get("/bytes/100kB").good()
    finally:
        server.close()
