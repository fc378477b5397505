# SPDX-License-Identifier: Apache-2.0
"""Reasons why a connection or a request failed. Each is an `Error`."""


class Error(Exception):
    """A connection or a request failed."""


class UsageError(Error, ValueError):
    """A URL, a header or a setting is not valid."""


class PathError(Error):
    """A requested path does not exist or has no usable address."""


class ConnectError(Error, ConnectionError):
    """No connection: the name was not resolved, or the server refused or was unreachable."""


class TlsError(Error):
    """TLS or ALPN failed: an untrusted certificate, or no common protocol or version."""


class Timeout(Error, TimeoutError):
    """Nothing was received for the idle timeout, or a request made no progress for the read timeout."""


class IncompleteError(Error, ConnectionError):
    """The answer or the connection ended early: reset, truncated, malformed, closed."""


class NotServedError(Error):
    """The server does not serve the resource."""


class TooLargeError(Error):
    """The answer is larger than it may be."""


class ClosedError(Error):
    """The request or the connection was closed by this program."""


class BusyError(Error):
    """1,000 requests wait on the connection. Send again when others have ended."""


class IoError(Error, OSError):
    """A file, a socket or a system call failed."""
