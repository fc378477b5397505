# SPDX-License-Identifier: Apache-2.0
"""A QUIC client that sends the frames that a test gives it, whatever its peer allows. aioquic does the handshake, the
acknowledgements and the encryption (its keys and packet numbers have no public interface)."""

import socket
import time
from collections.abc import Iterable
from pathlib import Path

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted
from aioquic.tls import Epoch
from scripted import varint

CRYPTO, STREAM = 0x06, 0x0E
"""Types of frames (RFC 9000 19.6, and 19.8 with an offset and a length)."""
MOST_FRAMES_BYTES, LEAST_FRAMES_BYTES = 1400, 1150
"""Size of one packet's frames; an Initial one is padded, so that its datagram has 1200 bytes (RFC 9000 14.1)."""
TAG_BYTES = 16
SILENCE_S = 0.05
"""Nothing is lost on loopback but what a full buffer does not take: then nobody answers."""


def stream(number: int, offset: int, data: bytes) -> bytes:
    """A STREAM frame."""
    return bytes([STREAM]) + varint(number) + varint(offset) + varint(len(data)) + data


def crypto(offset: int, data: bytes) -> bytes:
    """A CRYPTO frame."""
    return bytes([CRYPTO]) + varint(offset) + varint(len(data)) + data


class RawClient:
    """A connection that is up when it is made, or one that has only begun: nothing was sent on it yet."""

    def __init__(self, address: str, ca: Path, begin_only: bool = False):
        host, _, port = address.rpartition(":")
        self.to = (host, int(port))
        self.is_up = False
        configuration = QuicConfiguration(alpn_protocols=["h3"], server_name=host, idle_timeout=600)
        configuration.load_verify_locations(str(ca))
        self._quic = QuicConnection(configuration=configuration)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(self.to)
        self._quic.connect(self.to, time.monotonic())
        if begin_only:
            return
        end = time.monotonic() + 20
        while not self.is_up and self.over is None and time.monotonic() < end:
            self.turn(SILENCE_S)
        # Packets after the handshake: the server then knows that it is done.
        self.turn(SILENCE_S)

    @property
    def over(self) -> ConnectionTerminated | None:
        """The server's close event, if there is one. (It comes when the server has no state of the connection any
        more.)"""
        return self._quic._close_event

    def turn(self, patience_s: float = 0) -> None:
        """Waits so long for something to come, and takes in and answers what came."""
        now = time.monotonic()
        if (timer := self._quic.get_timer()) is not None and timer <= now:
            self._quic.handle_timer(now)
        self._answer()
        self._socket.settimeout(patience_s)
        try:
            self._take(self._socket.recv(65536))
            self._socket.setblocking(False)
            while True:
                self._take(self._socket.recv(65536))
        except (BlockingIOError, TimeoutError, ConnectionRefusedError):
            pass
        self._answer()

    def _take(self, datagram: bytes) -> None:
        self._quic.receive_datagram(datagram, self.to, time.monotonic())
        while (event := self._quic.next_event()) is not None:
            self.is_up |= isinstance(event, HandshakeCompleted)

    def _answer(self) -> None:
        for datagram, _ in self._quic.datagrams_to_send(time.monotonic()):
            self._socket.send(datagram)

    def packet(self, frames: bytes) -> None:
        """Sends these frames in a packet: until the connection is up in an Initial one."""
        quic = self._quic
        number = quic._packet_number.to_bytes(4, "big")
        quic._packet_number += 1
        if self.is_up:
            epoch, header = Epoch.ONE_RTT, b"\x43" + quic._peer_cid.cid + number
        else:
            epoch, cids = Epoch.INITIAL, [quic._peer_cid.cid, quic.host_cid]
            frames = frames.ljust(LEAST_FRAMES_BYTES, b"\0")
            header = b"\xc3\0\0\0\1" + b"".join(bytes([len(cid)]) + cid for cid in cids) + b"\0"
            header += varint(len(number) + len(frames) + TAG_BYTES, 2) + number
        self._socket.send(quic._cryptos[epoch].encrypt_packet(header, frames, int.from_bytes(number)))

    def flood(self, frames: Iterable[bytes]) -> int:
        """Sends all of these frames, in as few packets as they fit in, until the connection is over. After a few
        packets it waits until the server has answered. Gives how many packets it sent."""
        packet, size, sent = [], 0, 0

        def leave() -> None:
            nonlocal sent
            self.packet(b"".join(packet))
            sent += 1
            if sent % 8 == 0 and self.is_up:
                self.turn(SILENCE_S)

        for frame in frames:
            if size + len(frame) > MOST_FRAMES_BYTES:
                leave()
                packet, size = [], 0
                if self.over:
                    return sent
            packet.append(frame)
            size += len(frame)
        if packet:
            leave()
        if self.is_up:
            self.turn(SILENCE_S)
        return sent

    def close(self) -> None:
        """Without a word to the server."""
        self._socket.close()
