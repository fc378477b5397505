# SPDX-License-Identifier: Apache-2.0
"""Starts the servers that weir-client is tried on, and says why where one can't run."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "packet"))  # for its Holder of namespaces

import quic_rig
from quic_rig import Authority, Server


@pytest.fixture(scope="session")
def authority(tmp_path_factory) -> Authority:
    if not quic_rig.CLIENT.exists():
        pytest.skip(f"{quic_rig.CLIENT} is not built; ./run test builds it")
    pytest.importorskip("cryptography")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def servers(authority, tmp_path_factory):
    """Gives the server of a kind, started when first asked for."""
    running: dict[str, Server] = {}
    holders = []

    def server(kind: str) -> Server:
        if reason := quic_rig.why_not(kind):
            pytest.skip(reason)
        if kind not in running:
            folder = tmp_path_factory.mktemp("server")
            if kind.startswith("quiche example"):
                if reason := quic_rig.why_no_namespaces():
                    pytest.skip(reason)
                holders.append(quic_rig.Holder())
                running[kind] = quic_rig.quiche_example(folder, authority, kind.split("(")[1].rstrip(")"), holders[-1])
            elif kind == "quiche-server":
                if reason := quic_rig.why_no_namespaces():
                    pytest.skip(reason)
                holders.append(quic_rig.Holder())
                running[kind] = quic_rig.quiche_apps(folder, authority, "127.0.0.1:4433", holders[-1])
            else:
                start = {"weir": quic_rig.weir, "aioquic": quic_rig.aioquic, "quic-go": quic_rig.quicgo}[kind]
                running[kind] = start(folder, authority, "127.0.0.1:0")
        return running[kind]

    yield server
    for one in running.values():
        one.close()
    for holder in holders:
        holder.close()
