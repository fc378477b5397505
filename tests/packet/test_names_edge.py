# SPDX-License-Identifier: Apache-2.0
"""An edge server between subscribers and their publisher: they share its connection, and are members of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from names_net import Net, bridged

EDGE = "10.9.0.11:4434"
IN_CERTIFICATE = ("--host", "10.9.0.11")
SUBSCRIBERS_AT_ONCE = 60


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with bridged(tmp_path) as net:
        yield net


def report(server: subprocess.Popen) -> dict:
    """Ends an edge server; what it says of itself."""
    server.send_signal(signal.SIGINT)
    said = json.loads(server.stdout.read())
    assert server.wait() == 0
    return said


def has_begun(out: Path) -> bool:
    """Whether a subscriber has something of what it records."""
    part = Path(f"{out}.part")
    return part.exists() and part.stat().st_size > 0


def keys_told(path: Path) -> list[list[int]]:
    """Epochs of the keys that came after the first, line by line."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event["data"]["epochs"] for event in events if event["name"] == "icn:keys"][1:]


def said_until(publisher: subprocess.Popen, done: Callable[[], bool]) -> str:
    """Goes on with a live stream until this is so; returns the output."""
    said = ""
    while not done():
        line = os.urandom(1000).hex()
        publisher.stdin.write(line)
        publisher.stdin.flush()
        said += line
        time.sleep(0.02)
    return said


def test_more_subscribers_than_a_connection_takes(net):
    """Fifty share one, so the edge server has two connections for sixty."""
    publisher = net.publish("--live", *IN_CERTIFICATE, name="/weir/radio", stdin=subprocess.PIPE)
    edge = net.edge(1)
    outs = [net.folder / f"out-{i}" for i in range(SUBSCRIBERS_AT_ONCE)]
    getters = [net.get(2 + i % 2, "/weir/radio", out, at=EDGE) for i, out in enumerate(outs)]
    said = said_until(publisher, lambda: all(has_begun(out) for out in outs) or any(g.poll() for g in getters))
    publisher.stdin.close()
    for getter, out in zip(getters, outs, strict=True):
        _, errors = getter.communicate()
        assert getter.returncode == 0, errors
        got = out.read_bytes()
        assert got
        assert said.encode().endswith(got)
    told = report(edge)
    assert (told["uplinks"], told["group"]["silent"]) == (2, 0)
    assert told["handed_on"] >= SUBSCRIBERS_AT_ONCE


def test_who_leaves_an_edge_server_does_not_get_the_next_key(net):
    publisher = net.publish("--live", *IN_CERTIFICATE, name="/weir/radio", stdin=subprocess.PIPE)
    edge = net.edge(1)
    events, out = net.folder / "events", net.folder / "out"
    stays = net.get(2, "/weir/radio", out, "--events", events, at=EDGE)
    leaves = net.get(3, "/weir/radio", net.folder / "left", at=EDGE)
    said = said_until(publisher, lambda: has_begun(out) and has_begun(net.folder / "left"))
    # One more comes when the manifest is known there, and begins where the stream is.
    late = net.get(3, "/weir/radio", net.folder / "late", at=EDGE)
    said += said_until(publisher, lambda: has_begun(net.folder / "late") or late.poll() is not None)
    leaves.send_signal(signal.SIGINT)
    leaves.communicate()
    said += said_until(publisher, lambda: keys_told(events) or stays.poll() is not None)
    said += said_until(publisher, iter([False] * 20 + [True]).__next__)
    publisher.stdin.close()
    for getter, path in ((stays, out), (late, net.folder / "late")):
        _, errors = getter.communicate()
        assert getter.returncode == 0, errors
        got = path.read_bytes()
        assert got
        assert said.encode().endswith(got)
    assert (net.folder / "late").stat().st_size < out.stat().st_size
    assert json.loads(publisher.stdout.read())["publisher"]["rekeys"] >= 1
    assert report(edge)["uplinks"] == 1


LINES = """
import asyncio, json, ssl, sys
from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration

async def ask(line):
    configuration = QuicConfiguration(alpn_protocols=["weir-icn/1"], verify_mode=ssl.CERT_NONE)
    async with connect("10.9.0.11", 4434, configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        writer.write(line.encode() + b"\\n")
        return "error" in json.loads(await reader.readline())

base = json.dumps({"get": "/weir/radio", "have": ""})
lengths = [int(length) for length in sys.argv[1:]]
lines = [base.replace('""', '"' + "A" * (length - len(base)) + '"') for length in lengths]
print(json.dumps([asyncio.run(ask(line)) for line in lines]))
"""
"""One connection a line of that length, as long as a request may be with and without a member."""


def test_a_line_that_would_be_too_long_with_a_member_ends_nobody_else(net):
    pytest.importorskip("aioquic")
    publisher = net.publish("--live", *IN_CERTIFICATE, name="/weir/radio", stdin=subprocess.PIPE)
    edge = net.edge(1)
    out = net.folder / "out"
    getter = net.get(2, "/weir/radio", out, at=EDGE)
    said = said_until(publisher, lambda: has_begun(out) or getter.poll() is not None)
    done = subprocess.run(
        net.hosts[3].command(sys.executable, "-c", LINES, "1990", "2040", "2047"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == [True] * 3, done.stderr
    said += said_until(publisher, iter([False] * 20 + [True]).__next__)
    publisher.stdin.close()
    _, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert said.encode().endswith(out.read_bytes())
    told = json.loads(publisher.stdout.read())
    # The connection that members share was never closed: another one would go on from its ticket.
    assert (told["group"]["resumed"], told["connections"]) == (0, 1)
    assert report(edge)["uplinks"] == 1
