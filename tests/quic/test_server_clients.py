# SPDX-License-Identifier: Apache-2.0
"""weir-server and clients that nobody here wrote, where it asks for their address first (Retry)."""

import asyncio
import ssl
import subprocess

import pytest
import quic_rig
from quic_rig import PATIENCE_S

BYTES = 300_000


@pytest.fixture(params=["always", "auto"])
def server(request, authority, tmp_path):
    if not quic_rig.WEIR_SERVER.exists():
        pytest.skip(f"{quic_rig.WEIR_SERVER} is not built; ./run test builds it")
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--retry", request.param)
    server.asks = request.param == "always"
    yield server
    server.close()


async def download(server) -> tuple[bytes, list[dict]]:
    """The answer to an aioquic client, and what its log has of packets that came."""
    from aioquic.asyncio.client import connect
    from aioquic.h0.connection import H0_ALPN
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.logger import QuicLogger

    log = QuicLogger()
    configuration = QuicConfiguration(alpn_protocols=H0_ALPN, verify_mode=ssl.CERT_REQUIRED, quic_logger=log)
    configuration.load_verify_locations(str(server.ca))
    host, _, port = server.address.rpartition(":")
    async with connect(host, int(port), configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        writer.write(f"GET /bytes/{BYTES}\r\n".encode())
        writer.write_eof()
        body = await reader.read()
    events = [event for trace in log.to_dict()["traces"] for event in trace["events"]]
    return body, [e["data"]["header"] for e in events if e["name"] == "transport:packet_received"]


def test_aioquic(server):
    if reason := quic_rig.why_not("aioquic"):
        pytest.skip(reason)
    body, headers = asyncio.run(asyncio.wait_for(download(server), PATIENCE_S))
    assert body == bytes(BYTES)
    assert any(header["packet_type"] == "retry" for header in headers) == server.asks


def test_quinn(server):
    if reason := quic_rig.why_not("quinn"):
        pytest.skip(reason)
    command = [quic_rig.rust_peer("quinn-bench"), "client", server.address, "--hq", "--bytes", str(BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
