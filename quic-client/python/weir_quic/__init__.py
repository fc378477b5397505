# SPDX-License-Identifier: Apache-2.0
"""QUIC and HTTP/3 client that uses several networks: each request takes the path that is expected to answer first.

>>> from weir_quic import connect
>>> with connect("https://example.org/", paths=["wlan0", "wwan0"]) as connection:  # doctest: +SKIP
...     response = connection.get("/")
...     print(response.status, response.read(), connection.status().path)

Calls that wait release the interpreter's lock, and KeyboardInterrupt ends them within about 0.1 s. Linux only.
"""

import atexit
from collections.abc import Iterable
from typing import Any

from weir_quic import _native
from weir_quic._native import Client, Connection, Events, Response, Status
from weir_quic.errors import (
    BusyError,
    ClosedError,
    ConnectError,
    Error,
    IncompleteError,
    IoError,
    NotServedError,
    PathError,
    Timeout,
    TlsError,
    TooLargeError,
    UsageError,
)
from weir_quic.strategy import Sample, Strategy, Task

__all__ = [
    "BusyError",
    "Client",
    "ClosedError",
    "ConnectError",
    "Connection",
    "Error",
    "Events",
    "IncompleteError",
    "IoError",
    "NotServedError",
    "PathError",
    "Response",
    "Sample",
    "Status",
    "Strategy",
    "Task",
    "Timeout",
    "TlsError",
    "TooLargeError",
    "UsageError",
    "connect",
]

# Strategies run on a client's thread, which must not enter an interpreter that exits.
atexit.register(_native.end_calls)


def connect(url: str, *, paths: Iterable[str] = (), **settings: Any) -> Connection:
    """A connection to the server of an https URL by a client of its own, with the settings of `Client`.

    Raises the errors of `Client` and of `Client.connect`.
    """
    return Client(list(paths), **settings).connect(url)
