# SPDX-License-Identifier: Apache-2.0
"""A network that breaks during a download through `weir-client proxy`: the download completes over the other one."""

import contextlib
import shutil
import socket
import subprocess
import threading
import time

import proxy_rig
import pytest
import quic_rig
from https_origin import content
from proxy_rig import curl, events
from roads import BREAKS, FAR, break_road, two_roads

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SIZE = 10_000_000
"""Four seconds of a road."""


class Arrivals:
    """Times and sizes of the relay's packets that arrive on both roads, read beside the proxy."""

    LARGE_BYTES = 200

    def __init__(self, roads: quic_rig.Holder):
        with roads.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.socket.settimeout(0.2)
        self.seen: list[tuple[float, str]] = []
        self.bytes = 0
        self.ended = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while not self.ended:
            with contextlib.suppress(TimeoutError):
                data, (interface, _, kind, *_) = self.socket.recvfrom(2048)
                # Not our own packets, and no acknowledgements.
                if interface in ("p1", "p2") and kind != socket.PACKET_OUTGOING and len(data) > self.LARGE_BYTES:
                    self.seen.append((time.monotonic(), interface))
                    self.bytes += len(data)

    def silence_s(self, broken: float) -> float:
        """The longest pause that ends after a moment."""
        self.ended = True
        self.thread.join()
        self.socket.close()
        pairs = zip(self.seen, self.seen[1:], strict=False)
        return max(b - a for (a, _), (b, _) in pairs if b > broken)


@pytest.fixture(params=proxy_rig.RELAYS)
def net(request, authority, tmp_path):
    """An HTTPS server and a relay at the far end, and a proxy at the near one, over two roads."""
    if reason := quic_rig.why_no_namespaces() or quic_rig.why_not(request.param):
        pytest.skip(reason)
    with two_roads() as near:
        origin = proxy_rig.origin(authority, "127.0.0.1:0", near.far)
        with proxy_rig.running(origin):
            relay = proxy_rig.RELAYS[request.param](authority, f"{FAR}:4433", near.far, tmp_path)
            with proxy_rig.running(relay):
                log = tmp_path / "events"
                program = proxy_rig.proxy(
                    tmp_path, authority, relay, "--path", "p1", "--path", "p2", "--events", log, where=near
                )
                program.near, program.log = near, log
                program.url = f"https://{relay.name}:{origin.port}"
                quic_rig.until(lambda: paths(log, "validated"), "the other road is validated")
                try:
                    yield program
                finally:
                    assert program.close() == 0


def paths(log, event: str) -> list[str]:
    return [line["path"] for line in events(log, "path") if line["event"] == event]


def handover(net, how: str, record_property, download) -> object:
    """Breaks the road in use in the middle of a download, and gives the download's result."""
    arrivals, result = Arrivals(net.near), []
    thread = threading.Thread(target=lambda: result.append(download()))
    thread.start()
    quic_rig.until(lambda: arrivals.bytes > SIZE // 10, "a part of the download")
    path = arrivals.seen[-1][1]
    # With the queue that the download keeps.
    echoes = net.near.sh(f"ping -q -c 5 -i 0.01 -I {path} 10.{path[1]}.0.1")
    rtt_s = float(echoes.rpartition("= ")[2].split("/")[1]) / 1e3
    broken = time.monotonic()
    break_road(net.near, how, int(path[1]))
    thread.join()
    silence = arrivals.silence_s(broken)
    assert {interface for _, interface in arrivals.seen} == {"p1", "p2"}
    # RFC 9002 6.2.1, with a variation of a fourth and 25 ms for delayed acknowledgements.
    pto_s = 2 * rtt_s + 0.025
    record_property("silence_ms", round(1000 * silence, 1))
    record_property("silence_ptos", round(silence / pto_s, 2))
    print(f"{how}: silence {1000 * silence:.1f} ms, {silence / pto_s:.2f} PTO of {1000 * pto_s:.1f} ms")
    return result[0]


@pytest.mark.parametrize("how", BREAKS)
def test_a_download_goes_on(net, authority, record_property, how):
    def download():
        return curl(
            f"socks5h://{net.address}", f"{net.url}/{SIZE}", "--cacert", authority.ca, where=net.near
        )  # fmt: skip

    done = handover(net, how, record_property, download)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == content(SIZE)
    tunnels = events(net.log, "tunnel")
    assert [line["outcome"] for line in tunnels] == ["complete"]
    # And the next one begins there.
    again = curl(f"http://{net.address}", f"{net.url}/1000", "--cacert", authority.ca, where=net.near)
    assert again.stdout == content(1000)


def test_a_browser_goes_on(net, record_property, tmp_path):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on this machine")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--ignore-certificate-errors", f"--proxy-server=socks5://{net.address}",
        "--proxy-bypass-list=<-loopback>", "--dump-dom",
        f"{net.url}/page/{SIZE}",
    ]  # fmt: skip

    def download():
        return subprocess.run(net.near.command(*command), capture_output=True, text=True, timeout=quic_rig.PATIENCE_S)

    done = handover(net, "silence", record_property, download)
    assert f"status 200 bytes {SIZE}" in done.stdout, done


def test_an_idle_tunnel_sends_little_and_finds_the_other_road(net):
    """A tunnel without traffic is no reason for a ping at each probe timeout, or for a move."""
    with net.near.far.inside():
        listener = socket.create_server(("127.0.0.1", 0))
    with net.near.inside():
        connection = socket.create_connection((net.host, net.port))
    with listener, connection:
        connection.settimeout(quic_rig.PATIENCE_S)
        request = b"\5\1\0\5\1\0\1" + socket.inet_aton("127.0.0.1") + listener.getsockname()[1].to_bytes(2)
        connection.sendall(request)
        server, _ = listener.accept()
        with server:
            assert len(connection.recv(2) + connection.recv(10)) == 12
            connection.sendall(b"x")
            assert server.recv(1) == b"x"
            time.sleep(1.5)
            before = sent_packets(net.near)
            time.sleep(4)
            assert sent_packets(net.near) - before < 12
            assert not events(net.log, "move")
            assert paths(net.log, "lost") == []
            # And none for the next tunnel to take the same path without a choice.
            choices = len(events(net.log, "choice"))
            with net.near.inside():
                other = socket.create_connection((net.host, net.port))
            with other:
                other.sendall(request)
                listener.accept()[0].close()
                quic_rig.until(lambda: len(events(net.log, "choice")) > choices, "a choice")
            path = events(net.log, "choice")[-1]["path"]
            break_road(net.near, "silence", int(path[1]))
            connection.sendall(b"y")
            server.settimeout(quic_rig.PATIENCE_S)
            assert server.recv(1) == b"y"
            server.sendall(b"z")
            assert connection.recv(1) == b"z"
    assert paths(net.log, "lost") == [path]


def sent_packets(near: quic_rig.Holder) -> int:
    """Packets sent over both roads so far."""
    lines = [line.split() for line in near.sh("cat /proc/net/dev").splitlines() if line.split()[0] in ("p1:", "p2:")]
    return sum(int(words[10]) for words in lines)
