# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server for the tests of the proxy. Prints "listening ADDRESS:PORT" when it is ready."""

import argparse
import functools
import hashlib
import http.server
import ssl


@functools.cache
def content(size: int) -> bytes:
    """Content of /N: bytes that no other offset has."""
    return b"".join(hashlib.sha256(n.to_bytes(8)).digest() for n in range(size // 32 + 1))[:size]


PAGE = """<!doctype html><title>page</title><body><script>
const request = new XMLHttpRequest();
request.open("GET", "/SIZE", false);
request.overrideMimeType("text/plain; charset=x-user-defined");
request.send();
document.body.textContent = `status ${request.status} bytes ${request.responseText.length}`;
</script>"""
"""A page that is loaded when /SIZE is, and shows its status and its length."""


class Origin(http.server.BaseHTTPRequestHandler):
    """GET /N, GET /page/N, and POST, which answers with the SHA-256 of its body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        folder, _, size = self.path.strip("/").rpartition("/")
        if not size.isdigit():
            self.send_error(404)
        elif folder == "page":
            self._answer(PAGE.replace("SIZE", size).encode(), "text/html")
        else:
            self._answer(content(int(size)))

    def do_POST(self) -> None:
        self._answer(hashlib.sha256(self.rfile.read(int(self.headers["content-length"]))).hexdigest().encode())

    def _answer(self, body: bytes, kind: str = "application/octet-stream") -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class OriginServer(http.server.ThreadingHTTPServer):
    """The HTTPS server."""

    daemon_threads = True
    request_queue_size = 200

    def handle_error(self, *_: object) -> None:
        """Clients that go away are part of the tests."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("listen", help="ADDRESS:PORT")
    parser.add_argument("cert")
    parser.add_argument("key")
    args = parser.parse_args()
    host, _, port = args.listen.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.cert, args.key)
    server = OriginServer((host, int(port)), Origin)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f"listening {host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
