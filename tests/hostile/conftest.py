# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the hostile suite, and reasons to skip it."""

import sys
from pathlib import Path

import pytest

# for their switches, servers and namespaces
sys.path.append(str(Path(__file__).resolve().parents[1] / "packet"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quic"))

import quic_rig
from p4_rig import EMBEDDED, P4Rig, missing


@pytest.fixture
def switch(tmp_path):
    """weir-switch with pid_delay.p4, a route to each of its four stations, and queues that hold what a test sends."""
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    rig = P4Rig(EMBEDDED, tmp_path, options=["--queue", "default:depth=1000p"])
    try:
        rig.deploy()
        yield rig
    finally:
        rig.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory) -> quic_rig.Authority:
    """Authority that signs the certificates of the servers here."""
    if not quic_rig.CLIENT.exists():
        pytest.skip(f"{quic_rig.CLIENT} is not built; ./run test builds it")
    pytest.importorskip("cryptography")
    return quic_rig.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(authority, tmp_path):
    """weir-server on loopback."""
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0")
    try:
        yield server
    finally:
        server.close()
