# SPDX-License-Identifier: Apache-2.0
"""Options that weir-client has from curl, with a server that echoes requests."""

import json
import re

import pytest
from quic_rig import NOT_SERVED, TOO_LARGE, USAGE, client

pytest.importorskip("aioquic")


@pytest.fixture(scope="module")
def server(authority):
    from echoing import Echoing

    made = authority.issue("127.0.0.1")
    server = Echoing(made.cert, made.key)
    yield server
    server.close()


@pytest.fixture
def fetch(server, authority, tmp_path):
    """Content of the answer to a request with these options."""

    def run(path, *options):
        file = tmp_path / "answer"
        client(server.url(path), "--ca", authority.ca, "--json", "--output", file, *options).good()
        return file.read_bytes()

    return run


def test_header_fields_replace_ours(fetch):
    echo = json.loads(fetch("/echo", "-H", "X-A: b", "-H", "User-Agent: other", "-H", "x-empty:"))
    assert echo["fields"][":method"] == "GET"
    assert {name: echo["fields"][name] for name in ("x-a", "user-agent", "x-empty")} == {
        "x-a": "b", "user-agent": "other", "x-empty": "",
    }  # fmt: skip


def test_data(fetch, tmp_path):
    (tmp_path / "body").write_text("from a file\n")
    for data, body in (("a=b", "a=b"), (f"@{tmp_path / 'body'}", "from a file\n"), ("", "")):
        echo = json.loads(fetch("/echo", "-d", data))
        fields = echo["fields"]
        assert (fields[":method"], echo["body"], fields["content-length"]) == ("POST", body, str(len(body)))
        assert fields["content-type"] == "application/x-www-form-urlencoded"
    echo = json.loads(fetch("/echo", "-X", "PUT", "-d", "x", "-H", "Content-Type: text/plain"))
    assert (echo["fields"][":method"], echo["fields"]["content-type"]) == ("PUT", "text/plain")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_within_the_origin(fetch, status):
    assert json.loads(fetch(f"/to/{status}/to/{status}/echo", "-L"))["fields"][":path"] == "/echo"


def test_redirects_that_are_not_followed(server, authority):
    get = lambda path, *options: client(server.url(path), "--ca", authority.ca, *options)  # noqa: E731
    get("/to/302/echo").bad(NOT_SERVED, "status 302")
    get("/away", "-L").bad(NOT_SERVED, "another origin")
    get("/to/302" * 11 + "/echo", "-L").bad(NOT_SERVED, "too many redirects")
    get("/to/302/echo", "-L", "-d", "x").bad(NOT_SERVED, "status 302")
    for method in ("DELETE", "POST"):  # RFC 9110 15.4.4: the next one would be a GET
        get("/to/303/echo", "-L", "-X", method).bad(NOT_SERVED, "status 303")


def test_data_is_sent_again_where_a_redirect_keeps_the_method(fetch):
    echo = json.loads(fetch("/to/307/echo", "-L", "-d", "twice"))
    assert (echo["fields"][":method"], echo["body"]) == ("POST", "twice")


def test_compressed_answers(fetch, server, authority):
    from echoing import TEXT

    assert fetch("/gzip", "--compressed") == TEXT
    args = ["--ca", authority.ca, "--compressed"]
    client(server.url("/bomb"), *args, "--max-size", "1MB").bad(TOO_LARGE, "--max-size")


def test_headers_in_the_output(fetch):
    head, _, body = fetch("/echo", "-i").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/3 200\r\n")
    assert b"x-echo: yes" in head
    assert json.loads(body)["body"] == ""
    head, _, body = fetch("/gzip", "-i", "--compressed").partition(b"\r\n\r\n")
    assert re.search(rb"content-encoding: gzip", head)
    assert body.startswith(b"some text")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-H", "nothing"], "NAME:VALUE"),
        (["-H", "Connection: close"], "HTTP/3 has no field connection"),
        (["-X", "CONNECT"], "not a method"),
        (["-d", "x", "--upload", "--bytes", "1"], "--data"),
        (["-i"], "--output"),
    ],
)
def test_options_that_are_refused(server, options, text):
    ended = client(server.url("/echo"), *options)
    assert (ended.code, text in ended.err) == (USAGE, True), ended
