# SPDX-License-Identifier: Apache-2.0
"""Files of weir-server --root, with a client on aioquic."""

import asyncio
import os
import random
import subprocess

import pytest
import quic_rig

pytest.importorskip("aioquic")

from masque_rig import Stream, connected

CONTENT = random.Random(1).randbytes(1_000_000)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "bytes").mkdir()
    (folder / "a b.bin").write_bytes(CONTENT)
    (folder / "index.html").write_text("<p>top")
    (folder / "sub" / "index.html").write_text("<p>sub")
    (folder / "none.txt").touch()
    (folder / "bytes" / "7").write_text("a file")
    (folder / ".hidden").write_text("secret")
    (tmp_path / "secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("../secret")
    (folder / "in").symlink_to("sub/index.html")
    os.mkfifo(folder / "fifo")
    return folder


@pytest.fixture
def server(authority, tmp_path, root):
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--root", root)
    yield server
    server.close()


def asked(server, *requests: tuple[str, dict]) -> list[Stream]:
    """The answers to requests of one connection."""

    async def ask():
        async with connected(server) as client:
            streams = [client.get(path, **fields) for path, fields in requests]
            return [await client.whole(stream) for stream in streams]

    return asyncio.run(ask())


def test_files_and_their_types(server):
    named = {
        "/a%20b.bin": (CONTENT, "application/octet-stream"),
        "/": (b"<p>top", "text/html; charset=utf-8"),
        "/sub/": (b"<p>sub", "text/html; charset=utf-8"),
        "/in?query": (b"<p>sub", "application/octet-stream"),
        "/none.txt": (b"", "text/plain; charset=utf-8"),
        "/bytes/7": (b"a file", "application/octet-stream"),
    }
    for (path, (body, kind)), answer in zip(named.items(), asked(server, *((p, {}) for p in named)), strict=True):
        assert (path, answer.status, bytes(answer.body)) == (path, 200, body)
        assert (answer.fields["content-type"], int(answer.fields["content-length"])) == (kind, len(body))
    zeros, folder, head = asked(server, ("/bytes/9", {}), ("/sub?x=1", {}), ("/a%20b.bin", {"method": "HEAD"}))
    assert (zeros.status, bytes(zeros.body)) == (200, bytes(9))
    assert (folder.status, folder.fields["location"]) == (301, "/sub/?x=1")
    assert (head.status, head.fields["content-length"], bytes(head.body)) == (200, str(len(CONTENT)), b"")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/missing", 404), ("/index.html/x", 404), ("/.hidden", 404), ("/" + "a" * 300, 404),
        ("/sub/empty/", 403), ("/out", 403), ("/up", 403), ("/fifo", 403),
        ("/../secret", 400), ("/sub/../../secret", 400), ("/%2e%2e/secret", 400), ("/..%2fsecret", 400),
        ("/sub%2findex.html", 400), ("/a%00b", 400), ("//secret", 400), ("/sub/./index.html", 400),
    ],
)  # fmt: skip
def test_what_is_no_file_below_the_folder(server, path, status):
    [answer] = asked(server, (path, {}))
    assert answer.status == status
    assert b"secret" not in answer.body.replace(b"/secret", b"")


def test_a_file_that_the_server_may_not_read(server, root):
    (root / "closed").write_text("secret")
    (root / "closed").chmod(0)
    [answer] = asked(server, ("/closed", {}))
    assert answer.status == (200 if os.geteuid() == 0 else 403)


def test_methods(server):
    post, put, upload = asked(
        server, ("/none.txt", {"method": "POST"}), ("/", {"method": "PUT"}), ("/upload", {"method": "POST"})
    )
    assert [answer.status for answer in (post, put, upload)] == [405, 405, 200]
    assert post.fields["allow"] == put.fields["allow"] == "GET, HEAD"
    assert bytes(upload.body) == b"0\n"


def test_ranges_and_preconditions(server):
    path, size = "/a%20b.bin", len(CONTENT)
    [whole] = asked(server, (path, {}))
    tag, date = whole.fields["etag"], whole.fields["last-modified"]
    cases = [
        ({"range": "bytes=10-19"}, 206, CONTENT[10:20], f"bytes 10-19/{size}"),
        ({"range": "bytes=-5", "if_range": tag}, 206, CONTENT[-5:], f"bytes {size - 5}-{size - 1}/{size}"),
        ({"range": "bytes=999990-", "if_range": date}, 206, CONTENT[999990:], f"bytes 999990-{size - 1}/{size}"),
        ({"range": "bytes=0-9", "if_range": '"other"'}, 200, CONTENT, None),
        ({"range": "bytes=0-1,4-5"}, 200, CONTENT, None),
        ({"range": f"bytes={size}-"}, 416, None, f"bytes */{size}"),
        ({"if_none_match": f'"x", {tag}'}, 304, b"", None),
        ({"if_modified_since": date}, 304, b"", None),
        ({"if_match": '"x"'}, 412, None, None),
    ]
    for (fields, status, body, content_range), answer in zip(
        cases, asked(server, *((path, c[0]) for c in cases)), strict=True
    ):
        assert (fields, answer.status, answer.fields.get("content-range")) == (fields, status, content_range)
        assert body is None or bytes(answer.body) == body


def test_a_file_that_shrinks_meanwhile_resets_its_stream(server, root):
    big = root / "big"
    with big.open("wb") as file:
        file.truncate(50_000_000)

    async def ask():
        async with connected(server, max_data=1 << 20, max_stream_data=1 << 18) as client:
            stream = client.get("/big")
            await client.until(lambda: len(client.streams[stream].body) > 0)
            os.truncate(big, 1000)
            return await client.whole(stream), await client.whole(client.get("/none.txt"))

    broken, other = asyncio.run(ask())
    assert (broken.ended, broken.reset, other.status) == (False, 0x102, 200)


def test_weir_client_over_both_protocols(server, tmp_path):
    for alpn in ("h3", "hq-interop"):
        out = tmp_path / alpn
        server.get("/a%20b.bin", "--alpn", alpn, "--output", out).good()
        assert out.read_bytes() == CONTENT
        server.get("/missing", "--alpn", alpn, "--output", out).bad(quic_rig.NOT_SERVED)


def test_quiches_client(server):
    program = quic_rig.rust_peer("quiche-http3-client")
    if not program.exists():
        pytest.skip("programs on quiche are not built; setup/install.sh quic_peers builds them")
    done = subprocess.run(
        [program, server.url("/sub/")], capture_output=True, text=True, timeout=quic_rig.PATIENCE_S, check=False
    )
    assert (done.returncode, "<p>sub" in done.stdout) == (0, True), done


def test_many_files_of_one_client_leave_some_for_others(server, root):
    """One client that reads nothing holds its part of the files that may be open; another one gets its own."""
    with (root / "big").open("wb") as file:
        file.truncate(50_000_000)

    async def ask():
        async with connected(server, max_data=1 << 16, max_stream_data=1 << 12) as slow:
            for _ in range(90):
                slow.get("/big")
            async with connected(server) as other:
                return (await other.whole(other.get("/sub/"))).status

    assert asyncio.run(ask()) == 200


def test_a_folder_that_is_none(tmp_path):
    command = [quic_rig.WEIR_SERVER, "--listen", "127.0.0.1:0", "--ephemeral", "--root", tmp_path / "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=quic_rig.PATIENCE_S, check=False)
    assert (done.returncode, "--root" in done.stderr) == (quic_rig.IO, True)
