# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments. A process that dies so can tidy nothing up: what it leaves must keep nobody from going on.
(All at one interface: test_kills_together.py. `weir tune` is killed in tests/packet/test_controller_faults.py, a
controller in the middle of a write in test_p4_robustness.py there, `weir-xdp` in test_xdp_loader.py.)"""

import random
import signal
import subprocess
import sys
import threading
import time

import quic_rig
from hostile_rig import many, not_forwarded
from p4_packets import ip4
from packet_rig import REPO, until

from weir.p4runtime.client import Update
from weir.p4runtime.entities import Call, Lpm, TableEntry
from weir.p4runtime.values import P4RuntimeError

SEED = 11


def test_a_switch_killed_while_it_works_starts_again(switch):
    """Packets flow and a controller writes all the time. Every next switch gets its ports, its address and its claims
    on the interfaces; deployed anew it forwards everything. Refused starts: 0."""
    rest = random.Random(SEED)
    ends = threading.Event()
    frame = bytes(ip4(to=2))

    def send() -> None:
        while not ends.is_set():
            switch.send(1, frame)
            time.sleep(0.001)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(many(5, 100)):
            writer = threading.Thread(target=_write_until_it_ends, args=(switch,))
            writer.start()
            time.sleep(rest.random() * 0.3)
            switch.kill()
            writer.join()
            switch.start_again()  # raises when it is refused
            switch.client.close()
            switch.client = switch.connect(election_id=1, connect_timeout_s=60)
            switch.client.become_primary()
            switch.deploy()
    finally:
        ends.set()
        sender.join()
    switch.drain()
    assert not_forwarded(switch) == 0


def _write_until_it_ends(switch) -> None:
    try:
        for block in range(1 << 16):
            key = {"hdr.ipv4.dst": Lpm((172 << 24) + (block << 8), 24)}
            switch.client.write([Update.insert(TableEntry("ipv4_lpm", key, Call("set_next_hop", {"next_hop": 1})))])
    except P4RuntimeError:
        pass  # the switch is dead, as it is meant to be


WRITER = """
import sys
from weir.p4runtime.client import Client, Update
from weir.p4runtime.entities import Call, Lpm, TableEntry
with Client(sys.argv[1], election_id=int(sys.argv[2])) as client:
    client.become_primary()
    while True:
        for change in (Update.insert, Update.delete):
            key = {"hdr.ipv4.dst": Lpm(0xAC000000 + 16 * int(sys.argv[2]), 28)}  # what the one before left stays
            client.write([change(TableEntry("ipv4_lpm", key, Call("set_next_hop", {"next_hop": 1})))] )
            print("x", flush=True)
"""


def test_controllers_killed_while_they_write(switch):
    """The next one becomes primary each time, and the packets of others never stop."""
    rest = random.Random(SEED)
    switch.client.close()
    for n in range(many(4, 100)):
        controller = subprocess.Popen(
            [sys.executable, "-c", WRITER, switch.address, str(10 + n)],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(REPO / "controller"), "PATH": ""},
            text=True,
        )
        with controller:
            assert controller.stdout.readline() == "x\n", "it was let in and wrote"
            time.sleep(rest.random() * 0.1)
            controller.send_signal(signal.SIGKILL)
    switch.client = switch.connect(election_id=1000)
    until(lambda: switch.client.arbitrate().is_primary, "the place of the last one is free")
    switch.deploy()
    assert not_forwarded(switch) == 0


def test_a_server_killed_in_the_middle_of_downloads(authority, tmp_path):
    """Clients end with a code of their table and leave no part of a file; the next server listens at the same address
    at once."""
    rest = random.Random(SEED)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0")
    address = server.address
    try:
        for n in range(many(4, 60)):
            outputs = [tmp_path / f"part-{n}-{k}" for k in range(3)]
            waiting = ["--idle-timeout-ms", "1000", "-q"]
            clients = [
                quic_rig.start(server.url("/bytes/unlimited"), *server.trust, *waiting, "--output", path)
                for path in outputs
            ]
            time.sleep(rest.random() * 0.5)
            server.process.kill()
            server.process.wait()
            codes = {quic_rig.ended(client).code for client in clients}
            assert codes <= {quic_rig.CONNECT, quic_rig.TIMEOUT, quic_rig.INCOMPLETE}, codes
            assert not [path for path in outputs if path.exists()]
            server.close()
            server = quic_rig.weir(tmp_path, authority, address)
            server.get("/bytes/100kB").good()
    finally:
        server.close()
