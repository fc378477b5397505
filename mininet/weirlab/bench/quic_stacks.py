# SPDX-License-Identifier: Apache-2.0
"""Downloads on other QUIC stacks for `./run bench quic`: each stack's own pair, its client with weir-server, and
weir-client with its server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weirlab.lab.quic_servers import Certificate

OURS = "weir"
LARGE_BYTES = 16383
"""Payload of a datagram: loopback carries it, as links with jumbo frames do 9 kB."""
S2N_MTU_BYTES, QUINN_BYTES = 9001, 6000
"""Large packets of s2n-quic and quinn: with larger ones the segments of a system call are more than 64 kB, and lost."""
DEFAULT, LARGE = "default", "large packets"
STACKS = ("quinn", "s2n-quic", "tokio-quiche")


@dataclass(frozen=True)
class Peer:
    """A server and a client to fetch `bytes` from it. `mode`: its own defaults, or the same settings for all."""

    name: str
    mode: str
    server: list
    client: list
    cwd: Path | None = None
    tcp: bool = False

    @property
    def label(self) -> str:
        return f"{self.name} ({self.mode})"


@dataclass(frozen=True)
class Stack:
    """Command lines of a stack for one mode; `protocol` is the one that its programs speak."""

    protocol: str
    server: list
    client: list


def stack(name: str, mode: str, built: Path, made: Certificate, here: str, size_bytes: int) -> Stack:
    """A stack's programs of `built`, at the address `here`."""
    large = mode == LARGE
    tls, size = ["--cert", made.cert, "--key", made.key], ["--bytes", str(size_bytes)]
    if name == "quinn":
        more = ["--max-payload", str(QUINN_BYTES)] if large else []
        program = built / "quinn-bench"
        return Stack("hq-interop", [program, "server", "--listen", here, *more],
                     [program, "client", here, *size, "--hq", *more])  # fmt: skip
    if name == "s2n-quic":
        more = ["--max-mtu", str(S2N_MTU_BYTES)] if large else []
        program = built / "s2n-bench"
        return Stack("hq-interop", [program, "server", "--listen", here, *tls, *more],
                     [program, "client", here, "--ca", made.ca, *size, *more])  # fmt: skip
    more = ["--max-payload", str(LARGE_BYTES)] if large else []
    program = built / "tokio-quiche-bench"
    return Stack("h3", [program, "server", "--listen", here, *tls, *more], [program, "client", here, *size, *more])


def weir(mode: str, programs: tuple[Path, Path], made: Certificate, here: str, size_bytes: int, alpn: str) -> Stack:
    """weir-client and weir-server, in that order in `programs`, with the stacks' certificate."""
    client, server = programs
    more = ["--max-payload", str(LARGE_BYTES)] if mode == LARGE else []
    fetch = [client, f"https://{here}/bytes/{size_bytes}", "--insecure", "--alpn", alpn, "--quiet", *more]
    return Stack(alpn, [server, "--listen", here, "--cert", made.cert, "--key", made.key, *more], fetch)


def pairs(
    built: Path, programs: tuple[Path, Path], made: Certificate, here: str, size_bytes: int
) -> tuple[list[Peer], list[str]]:
    """All pairs, and reasons for those that are missing."""
    found, reasons = [], []
    for name in STACKS:
        first = stack(name, DEFAULT, built, made, here, size_bytes)
        if not first.server[0].exists():
            reasons.append(f"{name}: {first.server[0].name} is not built; setup/install.sh stacks builds it")
            continue
        for mode in (DEFAULT, LARGE):
            other = stack(name, mode, built, made, here, size_bytes)
            ours = weir(mode, programs, made, here, size_bytes, other.protocol)
            found += [
                Peer(name, mode, other.server, other.client),
                Peer(f"weir-client, {name}", mode, other.server, ours.client),
                Peer(f"{name}, weir-server", mode, ours.server, other.client),
            ]
    return found, reasons
