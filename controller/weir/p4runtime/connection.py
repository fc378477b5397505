# SPDX-License-Identifier: Apache-2.0
"""Where a P4Runtime server is, TLS to it, and why there is no connection: gRPC itself only says that there is none."""

import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from .values import P4RuntimeError

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")
_SILENT = "TLS works, but nothing that speaks gRPC answers; is it the P4Runtime port?"


@dataclass(frozen=True)
class Tls:
    """Files in PEM. `ca`: the issuer of the server's certificate; `cert` and `key`: the client's own, where asked for;
    `server_name`: the name in the server's certificate when the address is another."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""


def parse_address(address: str) -> str | tuple[str, int]:
    """(host, port) of "HOST:PORT", the path of "unix:PATH". Raises ValueError."""
    if address.startswith("unix:") and len(address) > len("unix:"):
        path = address.removeprefix("unix:")
        return path.removeprefix("//") if path.startswith("///") else path
    found = _HOST_PORT.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ValueError(f"{address!r}: must be HOST:PORT (127.0.0.1:9559, [::1]:9559; port 1 .. 65535) or unix:PATH")
    return found["v6"] or found["host"], int(found["port"])


def tls_parts(tls: Tls) -> tuple[bytes | None, bytes | None, bytes | None]:
    """The contents of CA, key and certificate. P4RuntimeError names the file that can't be read or holds no such
    thing."""
    if (tls.cert is None) != (tls.key is None):
        raise P4RuntimeError("TLS: a client certificate and its key must be given together")
    parts = []
    for what, path in (("CA", tls.ca), ("key", tls.key), ("certificate", tls.cert)):
        try:
            parts.append(path.read_bytes() if path else None)
        except OSError as error:
            raise P4RuntimeError(f"TLS: cannot read the {what} {path}: {error.strerror}") from None
    for what, path in (("CA", tls.ca), ("certificate", tls.cert)):
        if path:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
            except ssl.SSLError:
                raise P4RuntimeError(
                    f"TLS: the {what} {path} holds no certificate; must be PEM, -----BEGIN CERTIFICATE-----"
                ) from None
    try:
        _context(tls)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise P4RuntimeError(f"TLS: the key {tls.key} is not that of the certificate {tls.cert}") from None
        raise P4RuntimeError(
            f"TLS: the key {tls.key} holds no key that can be used; must be PEM, -----BEGIN PRIVATE KEY-----, "
            "without a passphrase"
        ) from None
    ca, cert, key = parts
    return ca, cert, key


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    context.set_alpn_protocols(["h2"])
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key, password="")  # or it would ask for one at the terminal
    return context


def _connect(where: str | tuple[str, int], timeout_s: float) -> socket.socket:
    if isinstance(where, tuple):
        return socket.create_connection(where, timeout_s)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        connection.connect(where)
    except OSError:
        connection.close()
        raise
    return connection


def why_not(address: str, tls: Tls | None, timeout_s: float) -> str:
    """Reason why gRPC does not reach a P4Runtime server, found by connecting once more."""
    where = parse_address(address)
    try:
        with _connect(where, timeout_s) as connection:
            return _why_no_tls(connection, where, tls) if tls else _why_no_plain(connection)
    except OSError as error:
        return f"no P4Runtime server answers there ({_reason(error)})"


def _reason(error: OSError) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)


def _why_no_plain(connection: socket.socket) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # only to see whether it speaks TLS
    try:
        context.wrap_socket(connection).close()
    except OSError:
        return "something listens there, but neither gRPC nor TLS is spoken; is it the P4Runtime port?"
    return "the server speaks TLS; say who signed its certificate (--tls-ca FILE)"


def _why_no_tls(connection: socket.socket, where: str | tuple[str, int], tls: Tls) -> str:
    name = tls.server_name or (where[0] if isinstance(where, tuple) else "localhost")
    trusted = str(tls.ca) if tls.ca else "the usual authorities"
    try:
        secured = _context(tls).wrap_socket(connection, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, .._IP_ADDRESS_MISMATCH
            return f"TLS: the server's certificate is not for {name!r}; give the name in it (--tls-server-name NAME)"
        return f"TLS: the server's certificate is not signed by {trusted} ({error.verify_message}); see --tls-ca FILE"
    except OSError as error:
        if getattr(error, "reason", None) in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"):
            return "something listens there, but does not speak TLS; leave the --tls-... options out"
        return f"TLS: no handshake ({getattr(error, 'reason', None) or _reason(error)})"
    # In TLS 1.3 a server says only after the handshake that it minds the client's certificate; some just hang up.
    ended = "hangs up"
    try:
        with secured:
            if secured.recv(1):
                return _SILENT
    except TimeoutError:
        return _SILENT
    except OSError as error:
        ended = getattr(error, "reason", None) or _reason(error)
    if tls.cert is None:
        wanted = "it seems to want a client certificate; give --tls-cert FILE --tls-key FILE"
    else:
        wanted = f"it seems not to trust the client certificate {tls.cert}"
    return f"TLS: after the handshake the server ends the connection ({ended}): {wanted}"
