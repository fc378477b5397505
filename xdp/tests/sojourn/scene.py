# SPDX-License-Identifier: Apache-2.0
"""Scenes for weir-sojourn, played inside a lab: `scene.py NAME BINARY`. Results go to $WEIR_OUT/result.json.

Each scene has a veth from `sa` here to `sb` in the namespace `b`. Nothing is judged here.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

OUT = Path(os.environ.get("WEIR_OUT", "."))
HERE, THERE = "10.9.0.1", "10.9.0.2"
NETNS = "/run/netns/b"


def sh(command: str, check: bool = True) -> str:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{command}: {done.stderr or done.stdout}")
    return done.stdout + done.stderr


def wire() -> None:
    """The veth, without offloads and without words of the kernel's own on it."""
    sh("ip netns add b && ip link add sa type veth peer name sb netns b")
    sh("ip link set sa addrgenmode none && ip -n b link set sb addrgenmode none")
    sh("ethtool -K sa tx off tso off gso off gro off && ip netns exec b ethtool -K sb tx off tso off gso off gro off")
    sh(f"ip addr add {HERE}/24 dev sa && ip -n b addr add {THERE}/24 dev sb")
    sh("ip link set sa up && ip -n b link set sb up && ip -n b link set lo up")
    mac = json.loads(sh("ip -n b -j link show sb"))[0]["address"]
    sh(f"ip neigh add {THERE} lladdr {mac} dev sa nud permanent")


def shape(limit_packets: int) -> None:
    """10 Mbit/s with a burst of one packet."""
    sh("tc qdisc add dev sa root handle 1: htb default 1")
    sh("tc class add dev sa parent 1: classid 1:1 htb rate 10mbit burst 1540 cburst 1540 quantum 1540")
    sh(f"tc qdisc add dev sa parent 1:1 handle 10: pfifo limit {limit_packets}")


def start(binary: str, *options: str, out: str = "samples.jsonl") -> subprocess.Popen:
    """The sampler, once it is ready."""
    argv = [binary, "--hop", f"queue:sa:sb@{NETNS}", "--out", str(OUT / out), *options]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        raise SystemExit(f"the sampler said: {process.stderr.read()}")
    return process


def stop(process: subprocess.Popen) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=20)


def lines(name: str = "samples.jsonl") -> list[dict]:
    return [json.loads(line) for line in (OUT / name).read_text().splitlines()]


def udp() -> socket.socket:
    """Not connected: the port is closed, and only a connected socket is told so instead of sending."""
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def send(sender: socket.socket, number: int, size_bytes: int = 972) -> None:
    sender.sendto(struct.pack("!I", number).ljust(size_bytes, b"x"), (THERE, 9999))


def burst(binary: str) -> dict:
    """30 packets of 1014 bytes at once into a queue of 20 at 10 Mbit/s; two of them are CE."""
    wire()
    shape(20)
    process = start(binary, "--every-ms", "2", "--lost-after-ms", "500")
    senders = udp(), udp()
    senders[1].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3)
    for number in range(30):
        send(senders[number in (2, 3)], number)
    time.sleep(2.2)
    status = stop(process)
    return {"status": status, "lines": lines()}


def ethernet(ether_type: int, payload: bytes, tags: tuple[int, ...] = ()) -> bytes:
    words = b"".join(struct.pack("!HH", tpid, 5) for tpid in tags)
    return b"\x02\0\0\0\0\x02" + b"\x02\0\0\0\0\x01" + words + struct.pack("!H", ether_type) + payload


def ipv4(protocol: int, payload: bytes, ident: int, *, options: bytes = b"", fragment: int = 0, tos: int = 0) -> bytes:
    length = 20 + len(options) + len(payload)
    addresses = socket.inet_aton(HERE) + socket.inet_aton("10.9.0.77")
    ihl = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | ihl, tos, length, ident, fragment, 64, protocol, 0) + addresses
    return head + options + payload


def ipv6(protocol: int, payload: bytes, flow: int) -> bytes:
    addresses = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, "fd00::77")
    return struct.pack("!IHBB", 6 << 28 | flow, len(payload), protocol, 64) + addresses + payload


def datagram(payload: bytes, checksum: int = 0x1234) -> bytes:
    return struct.pack("!HHHH", 4000, 4001, 8 + len(payload), checksum) + payload


# Name, frame, whether it is timed.
FRAMES = [
    ("udp", ethernet(0x0800, ipv4(17, datagram(b"hello world"), 1)), True),
    ("udp without payload", ethernet(0x0800, ipv4(17, datagram(b""), 2)), True),
    ("udp of one byte", ethernet(0x0800, ipv4(17, datagram(b"1"), 3)), True),
    ("udp without checksum", ethernet(0x0800, ipv4(17, datagram(b"x" * 40, 0), 4)), True),
    ("udp, largest frame", ethernet(0x0800, ipv4(17, datagram(bytes(range(256)) * 5 + b"y" * 192), 5)), True),
    ("tcp", ethernet(0x0800, ipv4(6, struct.pack("!HHIIHHHH", 1, 2, 3, 4, 0x5010, 9, 7, 0), 6)), True),
    ("icmp", ethernet(0x0800, ipv4(1, struct.pack("!BBHHH", 8, 0, 7, 8, 9) + b"z" * 48, 7)), True),
    ("unknown protocol", ethernet(0x0800, ipv4(253, b"?" * 30, 8)), True),
    ("ip options", ethernet(0x0800, ipv4(17, datagram(b"opt"), 9, options=b"\x01" * 8)), True),
    ("first fragment", ethernet(0x0800, ipv4(17, datagram(b"f" * 24), 10, fragment=0x2000)), True),
    ("second fragment", ethernet(0x0800, ipv4(17, b"g" * 24, 10, fragment=4)), True),
    ("ce", ethernet(0x0800, ipv4(17, datagram(b"ce"), 11, tos=3)), True),
    ("ect0", ethernet(0x0800, ipv4(17, datagram(b"ect0"), 22, tos=2)), True),
    ("ect1", ethernet(0x0800, ipv4(17, datagram(b"ect1"), 23, tos=1)), True),
    ("ipv6 udp", ethernet(0x86DD, ipv6(17, datagram(b"six" * 20), 12)), True),
    ("ipv6 extension", ethernet(0x86DD, ipv6(0, b"\x11\0\x01\x04\0\0\0\0" + datagram(b"e"), 13)), True),
    ("ipv6 without payload", ethernet(0x86DD, ipv6(59, b"", 14)), True),
    ("vlan", ethernet(0x0800, ipv4(17, datagram(b"vlan"), 15), (0x8100,)), True),
    ("two vlans", ethernet(0x86DD, ipv6(17, datagram(b"vlan" * 9), 16), (0x88A8, 0x8100)), True),
    ("length beyond the frame", ethernet(0x0800, ipv4(17, datagram(b"l" * 60), 17)[:60]), True),
    ("padding behind the packet", ethernet(0x0800, ipv4(17, datagram(b"pad"), 18) + bytes(20)), True),
    ("cut ip header", ethernet(0x0800, ipv4(17, datagram(b""), 19)[:12]), False),
    ("cut ipv6 header", ethernet(0x86DD, ipv6(59, b"", 20)[:30]), False),
    ("not version 4", ethernet(0x0800, b"\x65" + ipv4(17, datagram(b"v"), 21)[1:]), False),
    ("arp", ethernet(0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + bytes(20)), False),
    ("lldp", ethernet(0x88CC, b"\x02\x07" + bytes(40)), False),
]


def receiver() -> socket.socket:
    """A packet socket on sb."""
    with open("/proc/self/ns/net") as home, open(NETNS) as there:
        libc = __import__("ctypes").CDLL(None, use_errno=True)
        if libc.setns(there.fileno(), 0):
            raise SystemExit("setns failed")
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        packets.bind(("sb", 3))
        if libc.setns(home.fileno(), 0):
            raise SystemExit("setns failed")
    packets.settimeout(0.5)
    return packets


def pass_frames() -> list[str]:
    """Sends all frames and returns those that came out of the other end, as hexadecimal."""
    packets = receiver()
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("sa", 0))
    for _name, frame, _timed in FRAMES:
        sender.send(frame)
    seen = []
    with contextlib.suppress(TimeoutError):
        while len(seen) < len(FRAMES) + 10:
            frame, address = packets.recvfrom(4096)
            if address[2] != socket.PACKET_OUTGOING:
                seen.append(frame.hex())
    return seen


def transparent(binary: str) -> dict:
    """The same frames through the wire without, and with the sampler."""
    wire()
    without = pass_frames()
    process = start(binary)
    inside = pass_frames()
    status = stop(process)
    return {"status": status, "without": without, "with": inside, "lines": lines()}


def same_packets(binary: str) -> dict:
    """Two packets alike to the last bit in the queue at once, behind 20 others."""
    wire()
    shape(100)
    process = start(binary)
    with udp() as sender:
        for number in range(20):
            send(sender, number, 1400)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind(("sa", 0))
    for _ in range(2):
        sender.send(FRAMES[0][1])
    time.sleep(0.5)
    return {"status": stop(process), "lines": lines()}


def hooks() -> list[str]:
    """Hooks on both ends: clsact and filters."""
    asked = ("tc qdisc show dev sa", "tc filter show dev sa egress", "tc filter show dev sa ingress")
    asked += tuple(f"ip netns exec b {line.replace(' sa', ' sb')}" for line in asked)
    text = "".join(sh(command, check=False) for command in asked)
    return [line for line in text.splitlines() if "clsact" in line or "sojourn" in line or "u32" in line]


def life(binary: str) -> dict:
    """Starts, ends, deaths and rivals."""
    wire()
    seen = {"before": hooks()}
    first = start(binary)
    seen["attached"] = hooks()
    rival = subprocess.run([binary, "--hop", f"x:sa:sb@{NETNS}", "--out", str(OUT / "rival.jsonl")],
                           capture_output=True, text=True, check=False)  # fmt: skip
    seen["rival"] = [rival.returncode, rival.stdout, rival.stderr, (OUT / "rival.jsonl").exists()]
    seen["with rival"] = hooks()
    first.kill()
    first.wait()
    seen["killed"] = hooks()
    second = start(binary)
    with udp() as sender:
        send(sender, 1)
    seen["restarted"] = hooks()
    seen["second status"] = stop(second)
    seen["second lines"] = lines()
    seen["after second"] = hooks()

    sh("tc qdisc add dev sa clsact")
    sh("tc filter add dev sa egress prio 7 protocol ip u32 match u32 0 0 classid 1:1")
    third = start(binary)
    stop(third)
    seen["foreign clsact"] = hooks()
    sh("tc qdisc del dev sa clsact")

    fourth = start(binary)
    sh("tc filter add dev sa egress prio 7 protocol ip u32 match u32 0 0 classid 1:1")
    stop(fourth)
    seen["foreign filter on ours"] = hooks()
    sh("tc qdisc del dev sa clsact")

    fifth = start(binary)
    sh("ip link del sa")
    seen["device gone"] = stop(fifth)
    return seen


def both_ways(binary: str) -> dict:
    """Two hops that share devices, one each way, and an earlier filter that drops one port."""
    wire()
    sh("tc qdisc add dev sa clsact")
    drop = "tc filter add dev sa egress prio 5 protocol ip u32 match ip dport 7777 0xffff action drop"
    dropping = "Error" not in sh(drop, check=False) and "u32" in sh("tc filter show dev sa egress")
    argv = [
        binary,
        "--hop",
        f"there:sa:sb@{NETNS}",
        "--hop",
        f"back:sb@{NETNS}:sa",
        "--out",
        str(OUT / "samples.jsonl"),
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    sh(f"ping -c 4 -i 0.01 {THERE}")
    for port in (7777, 7777, 7778):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"to a port", (THERE, port))
    time.sleep(0.2)
    status = stop(process)
    return {"status": status, "dropping": dropping, "lines": lines(), "hooks": hooks()}


SCENES = {scene.__name__: scene for scene in (burst, transparent, same_packets, life, both_ways)}

if __name__ == "__main__":
    (OUT / "result.json").write_text(json.dumps(SCENES[sys.argv[1]](sys.argv[2])))
