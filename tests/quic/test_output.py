# SPDX-License-Identifier: Apache-2.0
"""--output: a file appears when it is whole, and otherwise nothing does, however the download ended."""

import signal

import pytest
import quic_rig
from quic_rig import INCOMPLETE, INTERRUPTED, IO, NOT_SERVED, TIMEOUT, USAGE, Holder, client

SIZE = 1_000_000


@pytest.fixture(scope="module")
def server(servers):
    return servers("weir")


@pytest.fixture
def folder(tmp_path):
    """Where the file goes; at a test's end there is nothing but what the test put there."""
    path = tmp_path / "target"
    path.mkdir()
    return path


def names(folder) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def test_a_file_is_whole(servers, folder):
    for kind in ("weir", "quic-go", "aioquic"):
        if quic_rig.why_not(kind):
            continue
        target = folder / kind
        servers(kind).get(f"/bytes/{SIZE}", "-o", target).good()
        assert target.read_bytes() == bytes(SIZE)
        target.unlink()
        assert names(folder) == []


def test_a_file_is_replaced_at_once(server, folder):
    target = folder / "x"
    target.write_text("before")
    server.get("/bytes/5", "-o", target).good()
    assert target.read_bytes() == bytes(5)
    server.get("/nothing", "-o", target).bad(NOT_SERVED, "/nothing")
    assert (target.read_bytes(), names(folder)) == (bytes(5), ["x"])


def test_targets_that_are_none(server, folder):
    (folder / "folder").mkdir()
    for target in (folder / "folder", folder / "missing" / "x", "/dev/full"):
        client(server.url("/bytes/5"), *server.trust, "-o", target).bad(IO, str(target))
    assert names(folder) == ["folder"]
    two = client(server.url("/bytes/5"), *server.trust, "-o", folder / "x", "--requests", 2)
    two.bad(USAGE, "--output")
    assert names(folder) == ["folder"]


@pytest.fixture
def disk(tmp_path):
    """Mounts a disk of 64 kB that only the holder's namespace sees."""
    if reason := quic_rig.why_no_namespaces():
        pytest.skip(reason)
    holder = Holder()
    mounted = tmp_path / "disk"
    mounted.mkdir()

    def mount(options: str) -> str:
        holder.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", mounted)
        return mounted

    yield holder, mount
    holder.close()


def in_namespace(holder, server, *args):
    """A client that sees the holder's mounts, but the network of the server."""
    command = ["nsenter", "-t", holder.process.pid, "-m", "--", quic_rig.CLIENT, server.url(f"/bytes/{SIZE}")]
    command += [*server.trust, *args]
    process = quic_rig.subprocess.Popen(
        list(map(str, command)), stdout=quic_rig.subprocess.PIPE, stderr=quic_rig.subprocess.PIPE, text=True
    )
    return quic_rig.ended(process)


def test_a_full_disk(server, disk):
    holder, mount = disk
    folder = mount("size=64k")
    in_namespace(holder, server, "-o", folder / "x").bad(IO, str(folder / "x"), "No space left")
    assert holder.run("ls", "-A", folder).stdout == ""


def test_a_read_only_disk(server, disk):
    holder, mount = disk
    folder = mount("ro")
    in_namespace(holder, server, "-o", folder / "x").bad(IO, str(folder), "ead-only")


def test_interrupted(server, folder, tmp_path):
    stats = tmp_path / "stats"
    args = [server.url("/bytes/100GB"), *server.trust, "-o", folder / "x", "--stats", stats, "--stats-every-ms", 10]
    for number in (signal.SIGINT, signal.SIGTERM):
        process = quic_rig.start(*args)
        quic_rig.until(lambda: stats.exists() and any(line["bytes"] for line in quic_rig.lines(stats)), "bytes")
        assert "x" not in names(folder)
        process.send_signal(number)
        quic_rig.ended(process).bad(INTERRUPTED)
        assert names(folder) == []
        stats.unlink()


def fall_silent(quic):
    """Send the queued packets and nothing after them, no acknowledgement either: the server's host has died."""
    send, queued = quic.datagrams_to_send, iter((True,))
    quic.datagrams_to_send = lambda now: send(now) if next(queued, False) else []


def test_answers_cut_short(authority, folder):
    pytest.importorskip("aioquic")
    from scripted import DATA, REQUEST, Script, Scripted, frame, ok

    made = authority.issue("127.0.0.1")
    scripted = Scripted(made.cert, made.key)
    part = ok(10) + frame(DATA, bytes(5))
    ways = {
        "its end": (Script(part), INCOMPLETE),
        "a reset": (Script(part, fin=False, then=lambda quic: quic.reset_stream(REQUEST, 0x102)), INCOMPLETE),
        "a close": (Script(part, fin=False, then=lambda quic: quic.close(0x102)), INCOMPLETE),
        "silence": (Script(part, fin=False, then=fall_silent), TIMEOUT),
        "too much": (Script(ok(3) + frame(DATA, bytes(5))), INCOMPLETE),
        "a broken frame": (Script(part + frame(4)), INCOMPLETE),
    }
    try:
        for name, (script, code) in ways.items():
            with scripted.saying(script):
                args = ["--insecure", "--idle-timeout-ms", 1000, "-o", folder / "x"]
                client(scripted.url("/file"), *args).bad(code)
            assert names(folder) == [], name
    finally:
        scripted.close()
