# SPDX-License-Identifier: Apache-2.0
"""The RTT observer on real interfaces: what the kernel's filter lets up, floods, and interfaces that come and go."""

import contextlib
import queue
import socket
import subprocess
import threading

import pytest
from packet_rig import Failed, Holder
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from weir.rtt import observe as observing
from weir.rtt.observe import ObserveError, observe
from weirlab.lab.net import in_namespace as inside

MAC = {"a": "02:00:00:00:00:0a", "b": "02:00:00:00:00:0b"}


class Pair:
    """a:e0 --- b:e0, 10.9.0.1 and 10.9.0.2, each in a namespace of its own."""

    def __init__(self):
        self.a, self.b = Holder(), Holder()
        self.ip(self.a, f"link add e0 address {MAC['a']} type veth peer name e0 address {MAC['b']} netns", self.b)
        for side, address in ((self.a, "10.9.0.1/24"), (self.b, "10.9.0.2/24")):
            self.ip(side, f"addr add {address} dev e0")
            self.ip(side, "link set e0 up")

    @staticmethod
    def ip(side, words, peer=None):
        words = ["nsenter", f"--net={side.netns}", "ip", *words.split(), *([str(peer.process.pid)] if peer else [])]
        subprocess.run(words, check=True)

    def send(self, frames):
        """Ethernet frames from a."""
        with inside(self.a.netns):
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        with wire:
            wire.bind(("e0", 0))
            for frame in frames:
                wire.send(frame)


@pytest.fixture
def pair():
    try:
        made = Pair()
    except (Failed, subprocess.CalledProcessError) as error:
        pytest.skip(f"namespaces: {error}")
    yield made
    made.a.close()
    made.b.close()


def frame(*layers) -> bytes:
    made = Ether(src=MAC["a"], dst=MAC["b"])
    for layer in layers:
        made /= layer
    return bytes(made)


def said_on(client, told, times):
    """Observer's reports on a connection, spoken on up to so many times: any packet of it ends its handshake."""
    for _ in range(times):
        client.send(b"x")
        with contextlib.suppress(queue.Empty):
            return told.get(timeout=0.01)
    return None


def test_a_transfer_costs_user_space_its_handshake_only(pair):
    told = queue.SimpleQueue()
    with inside(pair.b.netns):
        listener = socket.create_server(("10.9.0.2", 80))
    with listener, observe("e0", told.put, netns=pair.a.netns) as observer:
        with inside(pair.a.netns):
            client = socket.create_connection(("10.9.0.2", 80))
        served, _ = listener.accept()
        with client, served:
            [sample] = said_on(client, told, 6000)
            # with what passes before the filter asks for the handshake's end no longer: some, on a busy machine
            handshake = observer.heard
            sender = threading.Thread(target=client.sendall, args=(bytes(20_000_000),))
            sender.start()
            left = 20_000_000
            while left > 0:
                left -= len(served.recv(1 << 20))
            sender.join()
        # the ACK that ends the handshake may have passed some microseconds before the filter asked for it
        assert (sample.half in ("both", "far"), sample.source) == (True, "tcp-handshake")
        assert sample.flow.endswith("> 10.9.0.2:80 tcp")
        assert 0 < sample.rtt_us < 5_000_000
        assert handshake >= 3
        assert observer.heard - handshake < 100
    assert told.empty()


def test_only_what_tells_something_comes_up(pair):
    syn = TCP(sport=1, dport=2, flags="S")
    told = queue.SimpleQueue()
    quiet = [
        frame(IP(dst="10.9.0.2") / TCP(sport=1, dport=2, flags="A")),
        frame(IP(dst="10.9.0.2", flags="MF") / syn),
        frame(IP(dst="10.9.0.2", frag=7) / syn),
        frame(IPv6(dst="fe80::1", nh=60) / syn),
        frame(Dot1Q(vlan=5) / Dot1Q(vlan=6) / IP(dst="10.9.0.2") / syn),
        frame(IP(dst="10.9.0.2", proto=17) / b"\0\1\0\2\0\x20\0\0\xc0\xff\xff\xff\xff" / bytes(20)),
        Ether(src=MAC["a"], dst=MAC["b"]).build() + bytes(50),
    ]
    heard = [frame(IP(dst="10.9.0.2", options=[]) / syn), frame(IPv6(dst="fe80::1") / syn)]
    heard.append(frame(IP(dst="10.9.0.2", proto=17) / b"\0\1\0\2\0\x20\0\0\xc0\0\0\0\1" / bytes(20)))
    with observe("e0", told.put, netns=pair.b.netns) as observer:
        pair.send(quiet)
        with inside(pair.a.netns):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("10.9.0.2", 9), timeout=60)
            began = observer.heard
        assert began <= 3  # the refused SYN, its RST unseen; nothing of the above
        pair.send(heard)
        with inside(pair.b.netns):
            listener = socket.create_server(("10.9.0.2", 80))
        with listener, inside(pair.a.netns), socket.create_connection(("10.9.0.2", 80)) as client:
            assert said_on(client, told, 1000)
        assert observer.heard - began >= len(heard) + 2


def test_a_flood_of_syns_is_let_pass_and_observing_goes_on(pair, monkeypatch):
    monkeypatch.setattr(observing, "MOST_PACKETS_S", 200)
    told = queue.SimpleQueue()
    syns = [frame(IP(src=f"10.9.1.{i % 256}", dst="10.9.0.9") / TCP(sport=i, flags="S")) for i in range(1000)]
    with observe("e0", told.put, netns=pair.b.netns) as observer:
        pair.send(syns)
        with inside(pair.b.netns):
            listener = socket.create_server(("10.9.0.2", 80))
        with listener:
            for _ in range(100):
                with inside(pair.a.netns):
                    client = socket.create_connection(("10.9.0.2", 80))
                with client:
                    if samples := said_on(client, told, 10):
                        break
            else:
                pytest.fail("no handshake was seen after the flood")
        assert samples[0].source == "tcp-handshake"
        assert observer.heard < 900


def test_an_interface_that_goes_down_is_awaited(pair, monkeypatch):
    monkeypatch.setattr(observing, "RETRY_S", 0.05)
    said = queue.SimpleQueue()
    with observe("e0", print, netns=pair.b.netns, say=said.put):
        pair.ip(pair.b, "link set e0 down")
        assert said.get(timeout=60) == "e0: Network is down; round trips are not seen until it is back"
        pair.ip(pair.b, "link set e0 up")
        assert said.get(timeout=60) == "e0: is back"
        pair.ip(pair.b, "link del e0")
        assert said.get(timeout=60) == "e0: Network is down; round trips are not seen until it is back"
    assert said.empty()


@pytest.mark.parametrize(
    ("interface", "netns", "words"),
    [
        ("nosuch", None, "nosuch: No such device"),
        ("e0", "/run/netns/no-such-weir", "network namespace /run/netns/no-such-weir: No such file or directory"),
        ("e0", "no-such-weir", "network namespace /run/netns/no-such-weir: No such file or directory"),
        ("e0", "/dev/null", "network namespace /dev/null: Invalid argument"),
    ],
)
def test_what_cannot_be_listened_on_is_named(interface, netns, words):
    with pytest.raises(ObserveError) as error:
        observe(interface, print, netns=netns).start()
    assert str(error.value) == words
