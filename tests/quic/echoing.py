# SPDX-License-Identifier: Apache-2.0
"""A server on aioquic that echoes requests, redirects and compresses, in a thread of the test's own process.

| request | answer |
|---|---|
| /echo | method, header fields and body of the request, as JSON |
| /to/STATUS/PATH | a redirect with this status to /PATH |
| /away | a redirect to another origin |
| /bytes/N | N zero bytes |
| /gzip | a text compressed by gzip, if the request accepts it |
| /bomb | 10 MB of zeros, compressed by gzip |
"""

import gzip
import json
from collections import defaultdict

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent
from aioquic_parts import LoopbackServer

TEXT = b"some text, " * 1000

Answer = tuple[int, dict[str, str], bytes]


def answer(fields: dict[str, str], body: bytes) -> Answer:
    """Status, header fields and body for a request."""
    path = fields[":path"]
    if path == "/echo":
        return 200, {"x-echo": "yes"}, json.dumps({"fields": fields, "body": body.decode()}).encode()
    if path.startswith("/to/"):
        _, _, status, target = path.split("/", 3)
        return int(status), {"location": f"/{target}"}, b"moved"
    if path.startswith("/bytes/"):
        return 200, {}, bytes(int(path.removeprefix("/bytes/")))
    if path == "/away":
        return 302, {"location": "https://elsewhere.example/"}, b""
    if path == "/gzip" and "gzip" in fields.get("accept-encoding", ""):
        return 200, {"content-encoding": "gzip"}, gzip.compress(TEXT)
    if path == "/bomb":
        return 200, {"content-encoding": "gzip"}, gzip.compress(bytes(10_000_000))
    return 404, {}, b"no such page"


class Speaker(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._http: H3Connection | None = None
        self._fields: dict[int, dict[str, str]] = {}
        self._bodies: dict[int, bytes] = defaultdict(bytes)

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(self._quic)
        if self._http is None:
            return
        for part in self._http.handle_event(event):
            if isinstance(part, HeadersReceived):
                self._fields[part.stream_id] = {name.decode(): value.decode() for name, value in part.headers}
            elif isinstance(part, DataReceived):
                self._bodies[part.stream_id] += part.data
            if isinstance(part, HeadersReceived | DataReceived) and part.stream_ended:
                status, fields, body = answer(self._fields[part.stream_id], self._bodies[part.stream_id])
                fields |= {":status": str(status), "content-length": str(len(body))}
                pairs = sorted((name.encode(), value.encode()) for name, value in fields.items())
                self._http.send_headers(part.stream_id, pairs)
                self._http.send_data(part.stream_id, body, end_stream=True)
        self.transmit()


class Echoing(LoopbackServer):
    """The server, on loopback."""

    def __init__(self, cert: object, key: object, protocol: type[Speaker] = Speaker, **options: object) -> None:
        configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"], idle_timeout=20.0)
        configuration.load_cert_chain(cert, key)
        if versions := options.pop("supported_versions", None):
            configuration.supported_versions = versions
        super().__init__(configuration, protocol, **options)
