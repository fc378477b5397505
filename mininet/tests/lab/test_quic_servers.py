# SPDX-License-Identifier: Apache-2.0
"""The table of QUIC servers: faults in it are named, a missing program is skipped with its remedy."""

import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.lab import quic_servers
from weirlab.lab.quic_servers import Server, ServersError

ROW = '[[server]]\nname = "one"\nprogram = "{program}"\n'


@pytest.fixture
def table(tmp_path):
    def write(text: str):
        file = tmp_path / "servers.toml"
        file.write_text(text)
        return file

    return write


def test_the_table_of_this_clone_is_valid_and_has_our_server():
    servers = quic_servers.read(quic_servers.table())
    assert servers[0].name == "weir-server"
    assert {server.alpn for server in servers} == {"h3", "hq-interop"}
    for server in servers:
        for control in server.controls:
            assert Server.of_spec(server.spec(control)).argv == (*server.argv, *server.controls[control])
    assert {"quiche", "tcp"}.isdisjoint(server.name for server in servers)  # other stacks of the suite


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"rows that begin with \[\[server\]\]"),
        ("server = 3\n", r"rows that begin with \[\[server\]\]"),
        ("other = 3\n" + ROW, r"rows that begin with \[\[server\]\]"),
        ("[[server\n", "servers.toml: "),
        ('[[server]]\nname = "one"\n', "server 1: name and program are missing"),
        (ROW + "port = 3\n", "server 1: unknown key port; known: alpn, argv"),
        (ROW + 'alpn = "h2"\n', "server 1: alpn = 'h2': write h3 or hq-interop or perf"),
        (ROW + 'argv = "-p 1"\n', "server 1: argv = '-p 1': write a list of texts"),
        (ROW + 'argv = ["{host}"]\n', r"server 1: argv: \{host\} is unknown; there are \{address\}, .*\{port\}"),
        (ROW + 'controls = ["bbr"]\n', r"server 1: controls = .*: write \{ NAME = \[arguments\] \}"),
        (ROW + 'controls = { bbr = "--bbr" }\n', r"server 1: controls = .*: write \{ NAME = \[arguments\] \}"),
        (ROW + "controls = { BBR = [] }\n", "server 1: control 'BBR': write lower-case letters"),
        (ROW + 'controls = { bbr = ["{loss}"] }\n', r"server 1: argv: \{loss\} is unknown"),
        (ROW + 'bursts = "/{bytes}/{every}"\n', r"bursts: \{every\} is unknown; there are \{bytes\}, \{every_ms\}"),
        (ROW + 'endless = "/{bytes}"\n', r"endless: \{bytes\} is unknown; there are none"),
        (ROW + 'path = "{bytes}"\n', "write a path that begins with /"),
        (ROW + 'path = "/bytes/7"\n', r"write a path that begins with / and has \{bytes\}"),
        (ROW + 'endless = "unlimited"\n', "endless = 'unlimited': write a path that begins with /"),
        (ROW + 'version = { python = "" }\n', "write one of the forms"),
        (ROW + "version = { python = 4 }\n", "write one of the forms"),
        (ROW + "labels = 1\n", "server 1: labels = 1: write true or false"),
        (ROW + "path = 3\n", "server 1: path = 3: write a text"),
        (ROW + "version = { file = 3 }\n", "server 1: version = .*: write one of the forms"),
        (ROW + ROW, "two servers of the name one"),
    ],
)
def test_a_fault_is_named_with_its_row(table, text, said):
    with pytest.raises(ServersError, match=said):
        quic_servers.read(table(text))


VALUES = st.recursive(
    st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.sampled_from(["{port}", "{x}", "/{bytes}", "h3"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=5,
)
ROWS = st.dictionaries(st.sampled_from([*quic_servers.KEYS, "port"]), VALUES)


@given(ROWS, st.booleans())
def test_any_row_is_a_server_or_a_named_fault(row, named):
    try:
        server = quic_servers.checked(Path("t.toml"), 1, row | ({"name": "a", "program": "/bin/true"} if named else {}))
    except ServersError as error:
        assert "t.toml: server 1: " in str(error)  # noqa: PT017
        return
    for control in server.controls:
        assert Server.of_spec(server.spec(control)).name == server.name
    words = server.command("1.1.1.1", 5, "c", "k", "r", "f") if server.found() else []
    assert not any("{port}" in word for word in words)


def test_a_table_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ServersError, match=r"none\.toml: No such file"):
        quic_servers.read(tmp_path / "none.toml")


def test_names_choose_rows_and_an_unknown_one_is_reported(table):
    servers = quic_servers.read(table(ROW + ROW.replace("one", "two")))
    assert [server.name for server in quic_servers.chosen(servers, [])] == ["one", "two"]
    assert [server.name for server in quic_servers.chosen(servers, ["two"])] == ["two"]
    with pytest.raises(ServersError, match="no server three; there are one, two"):
        quic_servers.chosen(servers, ["three"])


def test_a_row_of_a_users_own_program(table, tmp_path, monkeypatch):
    program = tmp_path / "my-server"
    program.write_text("#!/bin/sh\necho my-server 1.2.3-rc1\n")
    program.chmod(0o755)
    text = ROW.format(program="my-server") + 'argv = ["-p", "{port}", "{root}/x"]\nversion = { argv = ["-V"] }\n'
    [missing] = quic_servers.read(table(text + 'built_by = "mine"\n'))
    assert missing.missing() == "one: my-server is missing; setup/install.sh mine builds it"
    with pytest.raises(ServersError, match="my-server is missing"):
        missing.command("127.0.0.1", 1, "", "", "", "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    [server] = quic_servers.read(table(text))
    assert server.missing() == ""
    assert server.command("127.0.0.1", 4433, "c", "k", "r", "f") == [str(program), "-p", "4433", "r/x"]
    assert server.read_version() == "1.2.3-rc1"
    [plain] = quic_servers.read(table(ROW.format(program="my-server")))
    assert plain.read_version() == "unknown"
    (tmp_path / "my-server.version").write_text("4 (abc)\n")
    assert plain.read_version() == "4 (abc)"
    assert plain.url_path(5000) == "/bytes/5000"


def test_the_certificate_is_valid_for_its_names_and_its_key(tmp_path):
    made = quic_servers.certificate(tmp_path, "127.0.0.1", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    context.load_verify_locations(made.ca)
    assert made.key.stat().st_mode & 0o077 == 0
