# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that strangers cost little: a thread a connection, so many at a time, and none waits for ever."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

CONNECTIONS_MOST = 16
"""At once. For one more another one is ended (see `_Server._victim`): holding connections keeps nobody out."""
SILENCE_S = 10.0
"""A client that sends nothing, or takes nothing of an answer, is given up after so long."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def parse_request(self) -> bool:
        complete = super().parse_request()
        if complete:
            self.server.answers(self.connection)  # type: ignore[attr-defined]
        return complete

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


@dataclass
class _Connection:
    source: str
    answered: bool = False


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128  # connections that wait for their turn in the kernel

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._open: dict[socket.socket, _Connection] = {}  # in the order in which they came
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= CONNECTIONS_MOST:
                victim = self._victim()
                del self._open[victim]
                with contextlib.suppress(OSError):  # it has just ended by itself
                    victim.shutdown(socket.SHUT_RDWR)
            self._open[request] = _Connection(client_address[0])
        super().process_request(request, client_address)

    def _victim(self) -> socket.socket:
        """Of the address with the most connections: one that has sent nothing, else one whose request is not complete,
        else one that is being answered; the oldest of them."""
        sources = Counter(one.source for one in self._open.values())
        readable = set(self._readable())
        return min(
            self._open,
            key=lambda s: (-sources[self._open[s].source], self._open[s].answered, s.fileno() in readable),
        )

    def _readable(self) -> list[int]:
        asked = select.poll()
        for one in self._open:
            if one.fileno() >= 0:
                asked.register(one, select.POLLIN)
        return [fd for fd, _ in asked.poll(0)]

    def answers(self, request: socket.socket) -> None:
        with self._lock:
            if request in self._open:
                self._open[request].answered = True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client's broken connection is not worth a traceback."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(address: tuple[str, int], app: Callable[..., Any]) -> tuple[WSGIServer, threading.Thread]:
    """Serves a WSGI application at (host, port) on a thread of its own. Raises OSError when it can't listen there."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    server = _Server(address, family)
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    return server, thread
