# SPDX-License-Identifier: Apache-2.0
"""`./run bench proxy`: goodput of curl through `weir-client proxy` and `weir-server --relay`, over that of
`weir-client` from the same server, over the same link. Prints, asserts nothing.

The two take turns, so that a busy machine slows both; each measurement has the whole process: start, handshake,
transfer. Client and server are in private network namespaces with a link of the given rate between them. The relay's
HTTP server is in the server's namespace, so the link is crossed once in both cases.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from weirlab.bench.quic import BenchError, program, spread

NEAR, FAR = "10.88.0.2", "10.88.0.1"
RELAY, HTTP, PROXY = f"{FAR}:4433", "127.0.0.1:8080", "127.0.0.1:1080"
TOKEN = "token-of-the-benchmark"
READY_LIMIT_S = 30.0
TRANSFER_LIMIT_S = 300.0
NO_LIMIT = "none"
"""The rate of a link that only the processors limit."""
AIM = "aim: 0.9 or more"
FILE_SERVER = """
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
handler.func.log_message = lambda *_: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), handler)
print("listening", flush=True)
server.serve_forever()
"""


def link(far_pid: int, rate: str) -> None:
    """Connects this namespace to that of a process."""
    far = ["nsenter", "-t", str(far_pid), "-n"]
    commands = [
        ["ip", "link", "set", "lo", "up"],
        [*far, "ip", "link", "set", "lo", "up"],
        ["ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(far_pid)],
        ["ip", "addr", "add", f"{NEAR}/24", "dev", "near"],
        [*far, "ip", "addr", "add", f"{FAR}/24", "dev", "far"],
        ["ip", "link", "set", "near", "up"],
        [*far, "ip", "link", "set", "far", "up"],
    ]
    if rate != NO_LIMIT:
        shaper = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"]
        commands += [
            ["tc", "qdisc", "add", "dev", "near", *shaper],
            [*far, "tc", "qdisc", "add", "dev", "far", *shaper],
        ]
    for words in commands:
        subprocess.run(words, check=True)


@contextlib.contextmanager
def running(words: list[object], complaints: IO[str]) -> Iterator[None]:
    """A program that prints a line when it is ready, for as long as this lasts."""
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=complaints, text=True)
    try:
        if process.stdout is None or not process.stdout.readline().startswith("listening"):
            complaints.seek(0)
            raise BenchError(f"{words[0]} did not start: {complaints.read().strip()}")
        yield
    finally:
        process.terminate()
        process.wait()


def timed_s(words: list[object]) -> float:
    """Wall time of a program, in seconds. Raises BenchError if it fails."""
    began = time.monotonic()
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=TRANSFER_LIMIT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{words[0]} ended with status {done.returncode}: {done.stderr.strip()}")
    return time.monotonic() - began


def measure(folder: Path, rate: str, size_bytes: int, repetitions: int) -> dict:
    """Goodput in Mbit/s of both, in turn, and their ratio within a repetition."""
    with contextlib.ExitStack() as stack:
        far = stack.enter_context(subprocess.Popen(["unshare", "-n", "sleep", "infinity"]))
        stack.callback(far.kill)
        while os.readlink(f"/proc/{far.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        link(far.pid, rate)
        complaints = stack.enter_context(tempfile.TemporaryFile("w+"))
        inside = ["nsenter", "-t", far.pid, "-n"]
        token = folder / "token"
        server = [program("weir-server"), "--listen", RELAY, "--state-dir", folder / "state", "--grace-s", 0]
        server += ["--relay", "--relay-token", token, "--relay-allow", "127.0.0.0/8"]
        stack.enter_context(running([*inside, *server], complaints))
        stack.enter_context(running([*inside, sys.executable, "-c", FILE_SERVER, folder / "files"], complaints))
        proxy = [program("weir-client"), "proxy", "--relay", f"https://{RELAY}", "--insecure", "--token", token]
        stack.enter_context(running([*proxy, "--listen", PROXY], complaints))
        both: dict[str, list[object]] = {
            "weir-client": [program("weir-client"), f"https://{RELAY}/bytes/{size_bytes}", "--insecure", "--quiet"],
            "curl": ["curl", "-sSf", "-x", f"socks5h://{PROXY}", f"http://{HTTP}/data", "-o", "/dev/null"],
        }
        rows = []
        for n in range(repetitions):
            row = {name: size_bytes * 8 / timed_s(words) / 1e6 for name, words in both.items()}
            print(f"proxy: {rate}, {n + 1} of {repetitions}: {row}", file=sys.stderr)
            rows.append(row)
        subprocess.run(["ip", "link", "del", "near"], check=True)
    ratios = spread([row["curl"] / row["weir-client"] for row in rows])
    return {
        "rate": rate,
        "goodput_mbit_s": {name: spread([row[name] for row in rows]) for name in both},
        "ratio": ratios,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench_proxy", description=__doc__.split("\n\n")[0])
    parser.add_argument("--bytes", type=int, default=100_000_000, help="size of a download (default 100 MB)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--rates", nargs="+", default=["100mbit", NO_LIMIT], help=f"rates of the link; {NO_LIMIT}: no limit"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.repetitions < 1 or options.bytes < 1:
        parser.error("--repetitions and --bytes must be 1 or more")
    if not options.inside:
        words = [sys.executable, "-m", "weirlab.bench.proxy", *sys.argv[1:], "--inside"]
        return subprocess.call(["unshare", "-n", *words])
    try:
        if shutil.which("curl") is None:
            raise BenchError("curl is not on PATH (Debian: apt install curl)")
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
            folder = Path(name)
            (folder / "files").mkdir()
            with (folder / "files" / "data").open("wb") as data:
                data.truncate(options.bytes)
            (folder / "token").write_text(TOKEN + "\n")
            (folder / "token").chmod(0o600)
            found = [measure(folder, rate, options.bytes, options.repetitions) for rate in options.rates]
    except (BenchError, subprocess.SubprocessError) as e:
        print(f"bench proxy: {e}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"bench": "proxy", "bytes": options.bytes, "links": found}))
        return 0
    for row in found:
        speeds = ", ".join(f"{name} {speed['median']:.0f} Mbit/s" for name, speed in row["goodput_mbit_s"].items())
        ratio = row["ratio"]
        print(f"link {row['rate']}: {speeds}; curl / weir-client {ratio['median']:.2f} "
              f"({ratio['least']:.2f} to {ratio['most']:.2f}; {AIM})")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
