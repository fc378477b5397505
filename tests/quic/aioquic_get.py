# SPDX-License-Identifier: Apache-2.0
"""GET over HTTP/3 with aioquic, on its public interface: the body goes to standard output."""

import argparse
import asyncio
import ssl
import sys
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.client import connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent


class Asking(QuicConnectionProtocol):
    """A connection with one request."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.answer = asyncio.get_running_loop().create_future()
        self.status, self.body = b"", bytearray()

    def ask(self, authority: str, path: str) -> None:
        headers = {":method": "GET", ":scheme": "https", ":authority": authority, ":path": path}
        stream = self._quic.get_next_available_stream_id()
        words = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.http.send_headers(stream, words, end_stream=True)
        self.transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated) and not self.answer.done():
            self.answer.set_exception(ConnectionError(f"{event.error_code} {event.reason_phrase}"))
        for came in self.http.handle_event(event):
            match came:
                case HeadersReceived():
                    self.status = dict(came.headers)[b":status"]
                case DataReceived():
                    self.body += came.data
            if came.stream_ended and not self.answer.done():
                self.answer.set_result((self.status, bytes(self.body)))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--ca", required=True, help="vouches for the server, PEM")
    args = parser.parse_args()
    url = urlsplit(args.url)
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_REQUIRED)
    configuration.load_verify_locations(args.ca)
    async with connect(url.hostname, url.port, configuration=configuration, create_protocol=Asking) as client:
        client.ask(url.netloc, url.path)
        status, body = await client.answer
    assert status == b"200", status
    sys.stdout.buffer.write(body)


if __name__ == "__main__":
    asyncio.run(main())
