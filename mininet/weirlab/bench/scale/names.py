# SPDX-License-Identifier: Apache-2.0
"""A publisher, a switch with `edge.p4`, a cache and receivers, each a program of its own in real time: processor time a
packet. The same switch with a QUIC download for comparison. And what a publisher and an edge server need for each
member."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.bench.names import OFFLOADS_OFF, QUIC_PORT, BenchError, host, program
from weirlab.bench.scale.common import cpu_us, inside, packets, progress, resident_kb, spread
from weirlab.bench.scale.switch import tables, weir_switch

PUBLISHER, CACHE, FIRST_RECEIVER = 1, 2, 3
AT_ONCE = (1, 4, 16)
"""Receivers of a file that the cache has."""
FILE_BYTES = 10_485_760
SEGMENT_BYTES = 1440
GROUP_PORT, EDGE_PORT = 4434, 5434
MEMBERS = (1, 10, 100)
JOIN_LIMIT_S = 120.0
POLL_S = 0.05
REST_S = 3.0


def segments(size_bytes: int) -> int:
    """Of a file's content; its hashes come besides."""
    return -(-size_bytes // SEGMENT_BYTES)


@dataclass
class Chain:
    """Hosts and programs of the chain: `there[n]` are the words that run a program at port n's host."""

    there: dict[int, list[str]]
    publisher: subprocess.Popen
    cache: subprocess.Popen
    server: subprocess.Popen
    switch: subprocess.Popen
    folder: Path

    def get(self, port: int, name: str) -> subprocess.Popen:
        words = [*self.there[port], program("weir-icn"), "get", f"/weir/files/{name}", "--interface", "eth0", "--quiet",
                 "--from", f"10.0.{PUBLISHER}.2:{GROUP_PORT}", "--insecure", "--known-publishers", "none",
                 "--output", str(self.folder / f"got-{port}"), "--restart"]  # fmt: skip
        return subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def download(self, port: int, size_bytes: int) -> subprocess.Popen:
        words = [*self.there[port], program("weir-client"), f"https://10.0.{PUBLISHER}.2:{QUIC_PORT}/bytes/{size_bytes}",
                 "--insecure", "--quiet"]  # fmt: skip
        return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def ended_us(process: subprocess.Popen) -> float:
    """Waits for a program of ours; the processor time that it took."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchError(f"a receiver ended with status {process.returncode}; see above")
    return (used.ru_utime + used.ru_stime) * 1e6


def measure(chain: Chain, started: list[subprocess.Popen], source: int) -> dict[str, float]:
    """Processor time in us of each program until those that were just started have ended, and packets: `answers` from
    the host of port `source`, `asked` to it, `forwarded` by the switch."""
    running = {"publisher": chain.publisher, "cache": chain.cache, "server": chain.server, "switch": chain.switch}
    links = [f"s{port}" for port in chain.there]
    before = {name: cpu_us(one.pid) for name, one in running.items()}
    (answers, asked), (_, forwarded) = packets(f"s{source}"), packets(*links)
    taken_us = sum(ended_us(one) for one in started)
    row = {f"{name}_us": cpu_us(one.pid) - before[name] for name, one in running.items()}
    (answers_after, asked_after), (_, forwarded_after) = packets(f"s{source}"), packets(*links)
    return row | {
        "receivers_us": taken_us, "answers": answers_after - answers, "asked": asked_after - asked,
        "forwarded": forwarded_after - forwarded,
    }  # fmt: skip


def start(stack: ExitStack, folder: Path, files: list[str]) -> Chain:
    """Hosts on the switch's ports, and what runs there."""
    count = FIRST_RECEIVER + max(AT_ONCE) - 1
    there = {}
    for port in range(1, count + 1):
        there[port] = stack.enter_context(host(f"s{port}"))
        address = ["ip", "addr", "add", f"10.0.{port}.2/16", "dev", "eth0"]
        subprocess.run([*there[port], *address], check=True)
        subprocess.run([*there[port], "ip", "link", "set", "eth0", "address", f"02:00:00:00:00:{port:02x}"], check=True)
        for place, link in ((there[port], "eth0"), ([], f"s{port}")):
            subprocess.run([*place, "ethtool", "-K", link, *OFFLOADS_OFF], check=True, stdout=subprocess.DEVNULL)
    (folder / "films").mkdir()
    for name in files:
        (folder / "films" / name).write_bytes(os.urandom(FILE_BYTES))
    names = f"""
[flood]
ports = [{", ".join(map(str, there))}]
[names]
quota = 16384
[[names.route]]
prefix = "/weir/files"
port = {CACHE}
other = {PUBLISHER}
"""
    switch = stack.enter_context(weir_switch([f"s{port}" for port in there], names + tables(count), folder))
    icn = program("weir-icn")
    publish = [*there[PUBLISHER], icn, "publish", str(folder / "films"), "--name", "/weir/files", "--interface", "eth0",
               "--listen", f"10.0.{PUBLISHER}.2:{GROUP_PORT}", "--state-dir", str(folder / "state")]  # fmt: skip
    serve = [*there[PUBLISHER], program("weir-server"), "--ephemeral", "--listen", f"10.0.{PUBLISHER}.2:{QUIC_PORT}"]
    return Chain(
        there,
        stack.enter_context(inside(publish, "publisher")),
        stack.enter_context(inside([*there[CACHE], icn, "cache", "--interface", "eth0", "--memory", "200MB"], "ready")),
        stack.enter_context(inside(serve, "listening")),
        switch,
        folder,
    )


def chain(repetitions: int, folder: Path) -> dict[str, Any]:
    """One receiver by the cache, which does not have the file yet; then 1 to 16 at once of what it has; then a QUIC
    download of as much. Costs in us a packet, and the rows that they come from."""
    files = [f"film-{number}" for number in range(repetitions)]
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        made = start(stack, folder, files)
        for repetition, name in enumerate(files):
            progress(f"names: a file through the cache, {repetition + 1} of {repetitions}")
            row = measure(made, [made.get(FIRST_RECEIVER, name)], PUBLISHER)
            rows.append({"way": "miss", "receivers": 1, **row, "cache_kb": resident_kb(made.cache.pid)})
            for receivers in AT_ONCE:
                progress(f"names: {receivers} receivers of what the cache has, {repetition + 1} of {repetitions}")
                started = [made.get(FIRST_RECEIVER + number, name) for number in range(receivers)]
                rows.append({"way": "hit", "receivers": receivers, **measure(made, started, CACHE)})
            progress(f"names: a QUIC download, {repetition + 1} of {repetitions}")
            row = measure(made, [made.download(FIRST_RECEIVER, FILE_BYTES)], PUBLISHER)
            rows.append({"way": "unicast", "receivers": 1, **row})
    return {"file_bytes": FILE_BYTES, "rows": rows, "costs": chain_costs(rows)}


def chain_costs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians, least and most of each row."""

    def of(way: str, receivers: int, cost: Any) -> dict[str, float]:
        return spread([cost(row) for row in rows if row["way"] == way and row["receivers"] == receivers])

    file_segments = segments(FILE_BYTES)
    caches_kb = [row["cache_kb"] for row in rows if row["way"] == "miss"]
    found: dict[str, Any] = {
        "publisher_data_us": of("miss", 1, lambda row: row["publisher_us"] / row["answers"]),
        "cache_miss_us": of("miss", 1, lambda row: row["cache_us"] / row["asked"]),
        "receiver_data_us": of("miss", 1, lambda row: row["receivers_us"] / file_segments),
        "switch_names_us": of("miss", 1, lambda row: row["switch_us"] / row["forwarded"]),
        "sender_packet_us": of("unicast", 1, lambda row: row["server_us"] / row["answers"]),
        "client_packet_us": of("unicast", 1, lambda row: row["receivers_us"] / row["answers"]),
        "switch_unicast_us": of("unicast", 1, lambda row: row["switch_us"] / row["forwarded"]),
        "quic_acks": of("unicast", 1, lambda row: row["asked"] / row["answers"]),
        "quic_payload_bytes": of("unicast", 1, lambda row: FILE_BYTES / row["answers"]),
    }
    if len(caches_kb) > 1:  # from one file to the next: what the cache is without any is not known
        grown_kb = (caches_kb[-1] - caches_kb[0]) / (len(caches_kb) - 1)
        found["cache_kb_a_segment"] = grown_kb / file_segments
    for receivers in AT_ONCE:
        found[f"cache_hit_us_{receivers}"] = of("hit", receivers, lambda row: row["cache_us"] / row["answers"])
        asked = of("hit", receivers, lambda row: row["asked"] / file_segments)
        found[f"cache_answers_a_segment_{receivers}"] = asked
    return found


def members(repetitions: int, folder: Path) -> list[dict[str, Any]]:
    """Processor time and resident memory for each member, of a publisher and of an edge server before it. Members are
    programs that ask for a file which never comes, at an interface where nobody answers."""
    # An interface for each: at one for all, each would hear what the others ask.
    links = [("far", "near"), *((f"m{number}", f"void{number}") for number in range(max(MEMBERS)))]
    batch = "".join(
        f"link add {one} type veth peer name {other}\n"
        f"link set {one} addrgenmode none up\nlink set {other} addrgenmode none up\n"
        for one, other in links
    )
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
    films = folder / "members"
    films.mkdir()
    (films / "film").write_bytes(os.urandom(100_000))
    icn, state = program("weir-icn"), str(folder / "members-state")
    publish = [icn, "publish", str(films), "--name", "/weir/files", "--interface", "far",
               "--listen", f"127.0.0.1:{GROUP_PORT}", "--state-dir", state]  # fmt: skip
    edge = [icn, "edge", "--of", f"127.0.0.1:{GROUP_PORT}", "--insecure", "--listen", f"127.0.0.1:{EDGE_PORT}",
            "--state-dir", state, "--most-from-one", "500"]  # fmt: skip
    found = []
    for where, port in (("publisher", GROUP_PORT), ("edge server", EDGE_PORT)):
        for count in MEMBERS:
            of_count = []
            for repetition in range(repetitions):
                progress(f"members: {count} of the {where}, {repetition + 1} of {repetitions}")
                with ExitStack() as stack:
                    servers = {"publisher": stack.enter_context(inside(publish, "publisher"))}
                    if where != "publisher":
                        servers[where] = stack.enter_context(inside(edge, "listening"))
                    of_count.append(joined(servers, port, count, folder))
            found.append({
                "where": where, "members": count,
                **{key: spread([row[key] for row in of_count]) for key in of_count[0]},
            })  # fmt: skip
    return found


def joined(servers: dict[str, subprocess.Popen], port: int, count: int, folder: Path) -> dict[str, float]:
    """For each server what so many members cost it: us of processor time to take one in, kB that it is larger for each,
    and percent of a core while they stay."""
    cost_us = {name: cpu_us(one.pid) for name, one in servers.items()}
    size_kb = {name: resident_kb(one.pid) for name, one in servers.items()}
    logs = [folder / f"member-{number}.jsonl" for number in range(count)]
    for log in logs:
        log.unlink(missing_ok=True)
    words = [program("weir-icn"), "get", "/weir/files/film", "--from", f"127.0.0.1:{port}", "--insecure",
             "--known-publishers", "none", "--quiet", "--give-up-s", "600", "--restart"]  # fmt: skip
    members = []
    try:
        for number, log in enumerate(logs):
            own = ["--interface", f"m{number}", "--output", str(folder / f"member-{number}"), "--events", str(log)]
            members.append(subprocess.Popen([*words, *own], stderr=subprocess.DEVNULL))
            # A few at a time: handshakes that wait too long are begun again.
            if number % 10 == 9:
                wait_for_keys(logs[: number + 1], members)
        wait_for_keys(logs, members)
        row = {}
        for name, one in servers.items():
            row[f"{name} us"] = (cpu_us(one.pid) - cost_us[name]) / count
            row[f"{name} kb"] = (resident_kb(one.pid) - size_kb[name]) / count
        before = {name: (cpu_us(one.pid), time.monotonic()) for name, one in servers.items()}
        time.sleep(REST_S)
        for name, one in servers.items():
            used_us, began = before[name]
            row[f"{name} core_percent"] = (cpu_us(one.pid) - used_us) / 1e4 / (time.monotonic() - began)
    finally:
        for member in members:
            member.send_signal(signal.SIGKILL)
        for member in members:
            member.wait()
    return row


def wait_for_keys(logs: list[Path], members: list[subprocess.Popen]) -> None:
    """Until each member has keys."""
    end = time.monotonic() + JOIN_LIMIT_S
    waiting = list(logs)
    while waiting:
        waiting = [log for log in waiting if not (log.exists() and "icn:keys" in log.read_text())]
        if any(member.poll() is not None for member in members):
            raise BenchError("a member ended before it had keys")
        if waiting and time.monotonic() > end:
            raise BenchError(f"{len(waiting)} of {len(logs)} members had no keys after {JOIN_LIMIT_S:.0f} s")
        time.sleep(POLL_S)


def show_chain(found: dict[str, Any]) -> None:
    print(f"\nby name through weir-switch and a cache, {FILE_BYTES / 1e6:.1f} MB; us of CPU a packet, if not said")
    for name, value in found["costs"].items():
        if isinstance(value, dict):
            print(f"  {name:32}  {value['median']:8.2f} ({value['least']:.2f} to {value['most']:.2f})")
        else:
            print(f"  {name:32}  {value:8.2f}")


def show_members(found: list[dict[str, Any]]) -> None:
    print("\nmembers: CPU to take one in, memory for each, and CPU of all while they stay and nothing is sent")
    for row in found:
        for name in ("publisher", "edge server"):
            if f"{name} us" not in row:
                continue
            us, kb, core = (row[f"{name} {unit}"] for unit in ("us", "kb", "core_percent"))
            print(f"  {row['members']:4} at the {row['where']:12} {name:12} {us['median'] / 1e3:7.2f} ms "
                  f"({us['least'] / 1e3:.2f} to {us['most'] / 1e3:.2f})  {kb['median']:7.1f} kB "
                  f"({kb['least']:.1f} to {kb['most']:.1f})  {core['median']:6.2f} % of a core")  # fmt: skip
