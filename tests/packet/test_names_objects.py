# SPDX-License-Identifier: Apache-2.0
"""`weir-icn publish` and `get` as a user runs them: a publisher and three subscribers on a Linux bridge, each in a
namespace of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from names_net import (
    OVERHEAD_BYTES,
    SEGMENT_BYTES,
    SUBSCRIBERS,
    Net,
    bridged,
    events_of,
    progressed,
    slow,
    wait_for,
)


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with bridged(tmp_path) as net:
        yield net


def folder(net: Net, bytes_count: int) -> tuple[Path, bytes]:
    (net.folder / "files").mkdir()
    content = os.urandom(bytes_count)
    (net.folder / "files" / "film").write_bytes(content)
    return net.folder / "files", content


def test_one_publisher_and_three_subscribers(net):
    files, content = folder(net, 3_000_000)
    publisher = net.publish(files)
    getters = [net.get(i, "/weir/files/film", net.folder / f"out{i}") for i in range(1, 1 + SUBSCRIBERS)]
    for i, getter in enumerate(getters, 1):
        out, errors = getter.communicate()
        assert getter.returncode == 0, errors
        found = json.loads(out)["objects"][0]
        assert (found["outcome"], found["bytes"], found["counts"]["wrong"]) == ("complete", len(content), 0)
        assert (net.folder / f"out{i}").read_bytes() == content
    assert not list(net.folder.glob("*.part*"))
    report = net.end(publisher)
    copy = len(content) + len(content) / SEGMENT_BYTES * OVERHEAD_BYTES
    assert report["face"]["sent_bytes"] < 2 * copy, "three subscribers share what is sent"


def test_what_is_not_there_is_said(net):
    files, _ = folder(net, 1000)
    publisher = net.publish(files)
    for name, output, code, part in [
        ("/weir/files/other", net.folder / "out", 7, "no such object"),
        ("/weir/files/film", "/dev/full", 8, "not a plain file"),
        ("/weir/files/film", net.folder / "none" / "out", 8, "No such file"),
    ]:
        getter = net.get(1, name, output)
        _, errors = getter.communicate()
        assert getter.returncode == code, errors
        assert part in errors
    stranger = net.get(1, "/weir/files/film", net.folder / "out", "--publisher", "00" * 32)
    _, errors = stranger.communicate()
    assert stranger.returncode == 6
    assert "not by --publisher" in errors
    assert not (net.folder / "out").exists()
    net.end(publisher)


def test_a_partial_file_goes_on_and_is_checked_again(net):
    files, content = folder(net, 1_000_000)
    net.end(net.publish(files))  # makes the certificate
    # As an earlier run left it, but for one byte.
    partial = bytearray(content[: 300 * SEGMENT_BYTES])
    partial[5 * SEGMENT_BYTES] ^= 1
    output = net.folder / "out"
    publisher = net.publish(files)
    first = net.get(1, "/weir/files/film", output, "--events", net.folder / "events")
    assert first.wait() == 0
    events = [json.loads(line) for line in (net.folder / "events").read_text().splitlines()]
    version = next(e["data"]["version"] for e in events if e["name"] == "icn:manifest")
    output.unlink()
    Path(f"{output}.part").write_bytes(partial)
    kept = {"format": 1, "name": "/weir/files/film", "version": version, "segments": [[0, 299]]}
    Path(f"{output}.part.json").write_text(json.dumps(kept))
    second = net.get(1, "/weir/files/film", output)
    out, errors = second.communicate()
    assert second.returncode == 0, errors
    counts = json.loads(out)["objects"][0]["counts"]
    assert (counts["resumed"], counts["spoiled"]) == (299, 1)
    assert output.read_bytes() == content
    net.end(publisher)


def test_a_live_stream_has_a_signed_end(net):
    publisher = net.publish("--live", name="/weir/radio", stdin=subprocess.PIPE)
    getter = net.get(1, "/weir/radio", net.folder / "out")
    said = b""

    def say() -> None:
        nonlocal said
        part = f"line {len(said):08}\n" * 40
        publisher.stdin.write(part)
        publisher.stdin.flush()
        said += part.encode()

    heard = net.folder / "out.part"
    while getter.poll() is None and not (heard.exists() and heard.stat().st_size):
        say()
        time.sleep(0.01)
    for _ in range(200):
        say()
    publisher.stdin.close()
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    got = (net.folder / "out").read_bytes()
    assert got
    assert said.endswith(got), "who joins begins with the present, and misses nothing from there on"


def outcomes(report: str) -> list[str]:
    return [found["outcome"] for found in json.loads(report)["objects"]]


def test_an_object_that_has_no_place_leaves_the_others(net):
    files, _ = folder(net, 100_000)
    (files / "note").write_text("short")
    publisher = net.publish(files)
    output = net.folder / "out"
    (output / "film").mkdir(parents=True)
    getter = net.get(1, "/weir/files/film", output, "/weir/files/note")
    out, errors = getter.communicate()
    assert getter.returncode == 8, errors
    first, second = outcomes(out)
    assert "film: exists and is not a plain file" in first
    assert second == "complete"
    assert (output / "note").read_text() == "short"
    net.end(publisher)


def put_aside(file: Path) -> Path:
    """Puts a folder in the place of a file that is replaced now and then; where the file is now."""
    aside = file.with_name("aside")
    while not file.is_dir():
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            file.rename(aside)
            file.mkdir()
    return aside


def test_a_list_that_can_not_be_written_leaves_the_others_and_what_it_said_before(net):
    files, content = folder(net, 2_000_000)
    (files / "note").write_text("short")
    slow(net)
    publisher = net.publish(files)
    output, events = net.folder / "out", net.folder / "events"
    output.mkdir()
    getter = net.get(1, "/weir/files/film", output, "/weir/files/note", "--events", events)
    wait_for(lambda: progressed(events), getter)
    said_before = put_aside(output / "film.part.json")  # as a disk that takes no more
    out, errors = getter.communicate()
    assert getter.returncode == 8, errors
    first, second = outcomes(out)
    assert "film.part.json: Is a directory" in first
    assert errors.count("film.part.json") == 1, "it is said once"
    assert second == "complete"
    ends = [event["data"]["name"] for event in events_of(events) if event["name"] == "icn:end"]
    assert ends == ["/weir/files/film", "/weir/files/note"]
    (output / "film.part.json").rmdir()
    said_before.rename(output / "film.part.json")
    getter = net.get(1, "/weir/files/film", output)
    out, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert json.loads(out)["objects"][0]["counts"]["resumed"] > 100
    assert (output / "film").read_bytes() == content
    net.end(publisher)


def test_events_on_a_full_disk_do_not_end_what_is_fetched(net):
    files, content = folder(net, 100_000)
    publisher = net.publish(files)
    getter = net.get(1, "/weir/files/film", net.folder / "out", "--events", "/dev/full")
    out, errors = getter.communicate()
    assert getter.returncode == 8, errors
    assert outcomes(out) == ["complete"]
    assert (net.folder / "out").read_bytes() == content
    said, count = errors.splitlines()
    assert "--events /dev/full: No space left" in said
    assert "lines could not be written" in count
    net.end(publisher)


def test_a_certificate_that_is_not_trusted_ends_it_at_the_first_name(net):
    files, _ = folder(net, 1000)
    net.end(net.publish(files))  # makes a certificate
    trusted = net.folder / "state" / "weir-server-ca.pem"
    earlier = trusted.read_text()
    shutil.rmtree(net.folder / "state")
    publisher = net.publish(files)
    trusted.write_text(earlier)
    output = net.folder / "out"
    output.mkdir()
    getter = net.get(1, "/weir/files/film", output, "/weir/files/note")
    out, errors = getter.communicate()
    assert getter.returncode == 4, errors
    assert len(outcomes(out)) == 1
    net.end(publisher)


CROWD = """
import asyncio, collections, contextlib, json, ssl
from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration

async def ask(connection):
    reader, writer = await connection.create_stream()
    writer.write(b'{"get":"/weir/files/film"}\\n')
    answer = json.loads(await reader.readline())
    return answer.get("error", "welcome")

async def main():
    configuration = QuicConfiguration(alpn_protocols=["weir-icn/1"], verify_mode=ssl.CERT_NONE)
    async with contextlib.AsyncExitStack() as stack:
        connections, answers = [], []
        for _ in range(33):
            connection = await stack.enter_async_context(connect("10.9.0.1", 4434, configuration=configuration))
            connections.append(connection)
            answers += await asyncio.gather(*(ask(connection) for _ in range(64)))
            # Silent for 20 s, an earlier one would be over.
            await asyncio.gather(*(each.ping() for each in connections))
        print(json.dumps(collections.Counter(answers)), flush=True)
        await asyncio.to_thread(input)
        # All at once: each waits until it has drained.
        for connection in connections:
            connection.close()

# A connection that ends leaves its pings without an answer.
asyncio.run(asyncio.wait_for(main(), 300))
"""
"""33 connections that ask 64 times each, and stay."""


def test_one_address_takes_a_part_of_all_places(net):
    pytest.importorskip("aioquic")
    files, content = folder(net, 10_000)
    publisher = net.publish(files)
    crowd = net.hosts[1].start(sys.executable, "-c", CROWD, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    net.running.append(crowd)
    answers = json.loads(crowd.stdout.readline())
    assert answers.pop("welcome") == 2048
    (refused,) = answers
    assert refused.startswith("2048 subscribers come from your address")
    assert answers[refused] == 33 * 64 - 2048
    getter = net.get(2, "/weir/files/film", net.folder / "out")
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert (net.folder / "out").read_bytes() == content
    crowd.communicate("\n")
    getter = net.get(1, "/weir/files/film", net.folder / "again")
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    net.end(publisher)


LARGE = """
import asyncio, ssl
from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration

async def main():
    configuration = QuicConfiguration(alpn_protocols=["weir-icn/1"], verify_mode=ssl.CERT_NONE)
    async with connect("10.9.0.1", 4434, configuration=configuration) as connection:
        for i in range(20):
            _, writer = await connection.create_stream()
            writer.write(b'{"get":"/weir/files/large%d"}\\n' % i)
        await connection.ping()
        print(flush=True)
        input()

asyncio.run(main())
"""
"""A connection that asks for 20 large files, and closes."""


def test_large_files_that_are_asked_for_keep_nobody_waiting_and_cost_nothing_once_nobody_waits(net):
    pytest.importorskip("aioquic")
    files, content = folder(net, 3)
    bytes_of_each = 4_000_000_000
    for i in range(20):
        with (files / f"large{i}").open("wb") as large:
            large.truncate(bytes_of_each)
    publisher = net.publish(files)
    crowd = net.hosts[1].start(sys.executable, "-c", LARGE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    net.running.append(crowd)
    crowd.stdout.readline()
    getter = net.get(2, "/weir/files/film", net.folder / "out")
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert (net.folder / "out").read_bytes() == content
    crowd.communicate("\n")

    def read_bytes() -> int:
        counts = Path(f"/proc/{publisher.pid}/io").read_text()
        return int(counts.split("rchar: ")[1].split()[0])

    # It rests, though it has not read all that it was asked for.
    before = -1
    while before != (before := read_bytes()):
        time.sleep(0.5)
    assert before < bytes_of_each
    net.end(publisher)


def test_one_address_takes_a_part_of_an_edge_servers_places(net):
    at = "10.9.0.13:4434"
    publisher = net.publish("--live", "--host", "10.9.0.13", name="/weir/radio", stdin=subprocess.PIPE)
    edge = net.edge(3, "--most-from-one", 2)

    def subscribes(host: int, number: int) -> subprocess.Popen | None:
        """A subscriber that has its manifest; None: it was refused."""
        events = net.folder / f"events-{number}"
        getter = net.get(host, "/weir/radio", net.folder / f"out-{number}", "--events", events, at=at)
        while not any(event["name"] == "icn:manifest" for event in events_of(events)):
            if getter.poll() is not None:
                _, errors = getter.communicate()
                assert getter.returncode == 7, errors
                assert "2 subscribers come from your address, as many as this edge server takes from one" in errors
                return None
            time.sleep(0.02)
        return getter

    first, second = subscribes(1, 1), subscribes(1, 2)
    assert first
    assert second
    assert subscribes(1, 3) is None
    assert subscribes(2, 4)
    # A member that leaves makes room, once its connection has drained.
    first.send_signal(signal.SIGINT)
    first.communicate()
    while subscribes(1, 5) is None:
        pass
    assert net.end(edge)["members"] == 3
    net.end(publisher)
