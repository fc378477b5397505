# SPDX-License-Identifier: Apache-2.0
"""Runs in the exact lab: client -- router -- server, 50 ms there and back, and observers on both of the router's
interfaces while TCP, quiche (no spin bit) and aioquic (which spins) transfer something; then TCP for longer, at 10
Mbit/s, while the way to the client grows to 90 ms. Prints one JSON line a sample, and one at the growth.
"""

import asyncio
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path

from weir.rtt.observe import observe
from weirlab import paths
from weirlab.lab.net import in_namespace
from weirlab.lab.programs import IN_THE_LAB

REPO = paths.clone()

NETWORK = """
ip netns add c; ip netns add r; ip netns add s
ip link add eth0 netns c type veth peer name near netns r
ip link add eth0 netns s type veth peer name far netns r
ip -n c addr add 10.0.1.2/24 dev eth0; ip -n r addr add 10.0.1.1/24 dev near
ip -n s addr add 10.0.2.2/24 dev eth0; ip -n r addr add 10.0.2.1/24 dev far
for name in c s; do ip -n $name link set eth0 up; done
for name in near far; do ip -n r link set $name up; done
ip -n c route add default via 10.0.1.1; ip -n s route add default via 10.0.2.1
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
ip netns exec c ping -qc 1 10.0.2.2
tc -n c qdisc add dev eth0 root netem delay 5ms
tc -n s qdisc add dev eth0 root netem delay 45ms
openssl req -x509 -newkey rsa:2048 -nodes -keyout /tmp/key -out /tmp/cert -subj /CN=s -days 1 2>/dev/null
"""
AT_TEN_MBIT_S = "tc -n s qdisc replace dev eth0 root netem delay 45ms rate 10mbit limit 40"
GROWN = "tc -n c qdisc change dev eth0 root netem delay 45ms"
SERVER, TCP, QUICHE, AIOQUIC = "10.0.2.2", 80, 443, 444


async def talk_tcp(wanted: int) -> None:
    reader, writer = await asyncio.open_connection(SERVER, TCP)
    writer.write(b"%d\n" % wanted)
    await reader.read()
    writer.close()


async def grow() -> None:
    talk = asyncio.create_task(talk_tcp(10_000_000))
    await asyncio.sleep(4)
    subprocess.run(GROWN.split(), check=True)
    print(json.dumps({"grown_at_s": time.monotonic()}))
    await talk


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(int(await reader.readline())))
    writer.close()


async def talk_aioquic() -> None:
    """Small requests one upon the other, so that packets always fly and the bit turns once a round trip."""
    from aioquic.asyncio.client import connect
    from aioquic.h0.connection import H0_ALPN
    from aioquic.quic.configuration import QuicConfiguration

    settings = QuicConfiguration(alpn_protocols=H0_ALPN, verify_mode=ssl.CERT_NONE, idle_timeout=60)
    async with connect(SERVER, AIOQUIC, configuration=settings) as client:
        for _ in range(20):
            reader, writer = await client.create_stream()
            writer.write(b"GET /bytes/2000\r\n")
            writer.write_eof()
            await reader.read()


def main() -> None:
    subprocess.run(["sh", "-ec", NETWORK], check=True, stdout=sys.stderr)
    told = []

    def at(interface: str):
        def take(samples):
            told.extend((interface, time.monotonic(), sample) for sample in samples)

        return observe(interface, take, "r", sys.exit)

    pair = ["--cert", "/tmp/cert", "--key", "/tmp/key"]
    servers = [
        ["weir-server", "--listen", f"{SERVER}:{QUICHE}", *IN_THE_LAB, *pair],
        [sys.executable, REPO / "tests" / "quic" / "aioquic_server.py", "--listen", f"{SERVER}:{AIOQUIC}", *pair],
    ]
    with in_namespace("/run/netns/s"):
        servers = [subprocess.Popen(server, stdout=subprocess.PIPE, text=True) for server in servers]
        tcp = subprocess.Popen([sys.executable, Path(__file__), "tcp-server"], stdout=subprocess.PIPE, text=True)
        servers.append(tcp)
    for server in servers:
        assert "listening" in server.stdout.readline()
    with at("near"), at("far"), in_namespace("/run/netns/c"):
        for _ in range(3):
            asyncio.run(talk_tcp(100_000))
        url = f"https://{SERVER}:{QUICHE}/bytes/300000"
        subprocess.run(["weir-client", url, "--insecure", *IN_THE_LAB, "--quiet", "--json"], check=True, stdout=2)
        asyncio.run(talk_aioquic())
        subprocess.run(AT_TEN_MBIT_S.split(), check=True)
        asyncio.run(grow())
    for server in servers:
        server.terminate()
    for interface, at_s, sample in told:
        said = {name: getattr(sample, name) for name in ("flow", "rtt_us", "half", "source")}
        print(json.dumps({"interface": interface, "at_s": at_s, **said}))


async def tcp_server() -> None:
    async with await asyncio.start_server(send, SERVER, TCP) as server:
        print("listening", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["tcp-server"]:
        asyncio.run(tcp_server())
    else:
        main()
