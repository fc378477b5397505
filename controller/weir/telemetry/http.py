# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that strangers cost little: a thread a connection, so many at a time, and none waits for ever."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

CONNECTIONS_MOST = 16
"""At once. For one more the oldest is ended: who only holds connections keeps nobody out."""
SILENCE_S = 10.0
"""A client that sends nothing, or takes nothing of an answer, is given up after so long."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128  # connections that wait for their turn in the kernel

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._open: dict[socket.socket, None] = {}  # in the order in which they came
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= CONNECTIONS_MOST:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):  # it has just ended by itself
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What a client does to its own connection is not worth a traceback."""
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
