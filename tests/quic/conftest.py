# SPDX-License-Identifier: Apache-2.0
"""Starts the servers that weir-client is tried on, and says why where one can't run."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "packet"))  # for its Holder of namespaces

import names_rig
import quic_rig
from quic_rig import Authority, Server

EXAMPLE = "quiche example"
APPS = "quiche-server"
KINDS = {
    "weir": (quic_rig.weir, (), False),
    "weir that forbids it": (quic_rig.weir, ("--forbid-migration",), False),
    "weir of three ids": (quic_rig.weir, ("--max-cids", 3), False),
    "aioquic": (quic_rig.aioquic, (), False),
    "quic-go": (quic_rig.quicgo, (), False),
    "quinn": (quic_rig.quinn, ("--cid-lifetime-ms", 60_000), False),
    f"{EXAMPLE} (h3)": (quic_rig.quiche_example, ("h3",), True),
    f"{EXAMPLE} (hq-interop)": (quic_rig.quiche_example, ("hq-interop",), True),
    APPS: (quic_rig.quiche_apps, (), True),
    f"{APPS} that allows it": (quic_rig.quiche_apps, ("--enable-active-migration", "--max-active-cids", 8), True),
    f"{APPS} of two ids": (quic_rig.quiche_apps, ("--enable-active-migration", "--max-active-cids", 2), True),
}
"""Start of each kind of server: its options, and whether in a namespace of its own."""


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
        if kind not in running:
            start, extra, alone = KINDS[kind]
            if reason := quic_rig.why_not(kind) or (quic_rig.why_no_namespaces() if alone else None):
                pytest.skip(reason)
            where = None
            if alone:
                holders.append(where := quic_rig.Holder())
            listen = "127.0.0.1:4433" if alone else "127.0.0.1:0"
            running[kind] = start(tmp_path_factory.mktemp("server"), authority, listen, where, *extra)
        return running[kind]

    yield server
    for one in running.values():
        one.close()
    for holder in holders:
        holder.close()


@pytest.fixture(scope="module")
def link():
    """Two hosts that reach each other by name only."""
    if reason := names_rig.why_not():
        pytest.skip(reason)
    with names_rig.linked() as hosts:
        yield hosts
