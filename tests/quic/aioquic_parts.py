# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests' servers on aioquic: a program that serves until a signal, and a server in a thread."""

import asyncio
import signal
import threading
from collections.abc import Callable

from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration


async def serve_until_signal(listen: str, configuration: QuicConfiguration, protocol: Callable, **options) -> None:
    """Prints "listening ADDRESS:PORT" when it is ready and serves until SIGTERM or SIGINT."""
    host, _, port = listen.rpartition(":")
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: QuicServer(configuration=configuration, create_protocol=protocol, **options),
        local_addr=(host.strip("[]"), int(port)),
    )
    address, bound, *_ = transport.get_extra_info("sockname")
    print(f"listening {address}:{bound}", flush=True)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    server.close()
    await asyncio.sleep(0.1)  # its last datagrams


class LoopbackServer:
    """A server on 127.0.0.1 in a thread of the test's own process. `options` are those of QuicServer."""

    def __init__(self, configuration: QuicConfiguration, protocol: Callable, **options: object) -> None:
        self._configuration, self._protocol, self._options = configuration, protocol, options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10), "the server did not start"

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        transport, server = await self._loop.create_datagram_endpoint(
            lambda: QuicServer(configuration=self._configuration, create_protocol=self._protocol, **self._options),
            local_addr=("127.0.0.1", 0),
        )
        host, port = transport.get_extra_info("sockname")
        self.address = f"{host}:{port}"
        self._ready.set()
        await self._end.wait()
        server.close()

    def url(self, path: str) -> str:
        return f"https://{self.address}{path}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
