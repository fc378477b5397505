# SPDX-License-Identifier: Apache-2.0
"""weir-icn on networks as people have them: servers with several addresses of which some do not answer (RFC 8305), and
links that carry less than 1500 bytes."""

import contextlib
import signal
import subprocess

import names_rig
import pytest
import quic_rig
from names_rig import ICN
from quic_rig import OK, Holder, client

NAME, FOLDER = "two.example", "/weir/files"
WORKS, CLOSED, SILENT = "10.78.1.1", "10.78.1.3", "10.78.1.99"
WORKS6, CLOSED6, SILENT6 = "fd78::1", "fd78::3", "fd78::99"
NOWHERE = "02:00:00:00:00:99"
CONTENT = bytes(range(256)) * 2000
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def at(address: str) -> str:
    return f"[{address}]:4434" if ":" in address else f"{address}:4434"


@pytest.fixture
def hosts(tmp_path):
    """A subscriber and a publisher with addresses of both families on one link."""
    if reason := names_rig.why_not():
        pytest.skip(reason)
    near, far = Holder(), Holder()
    near.sh(f"ip link add c0 type veth peer name s0 netns {far.process.pid}; ip link set c0 up;"
            "ip addr add 10.78.1.2/24 dev c0; ip addr add fd78::2/64 dev c0 nodad;"
            f"ip neigh add {SILENT} lladdr {NOWHERE} dev c0 nud permanent;"
            f"ip neigh add {SILENT6} lladdr {NOWHERE} dev c0 nud permanent")  # fmt: skip
    far.sh("ip link set s0 up; ip link set lo up;" + "".join(f"ip addr add {a}/24 dev s0;" for a in (WORKS, CLOSED))
           + "".join(f"ip addr add {a}/64 dev s0 nodad;" for a in (WORKS6, CLOSED6)))  # fmt: skip
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "film").write_bytes(CONTENT)
    yield near, far
    near.close()
    far.close()


@contextlib.contextmanager
def running(host: Holder, *words: object):
    process = host.start(ICN, *words, **PIPES)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def publisher(far: Holder, tmp_path, listen: str):
    words = ["--name", FOLDER, "--interface", "s0", "--listen", listen, "--host", NAME]
    return running(far, "publish", tmp_path / "files", *words, "--state-dir", tmp_path / "state")


def named(host: Holder, tmp_path, *addresses: str) -> None:
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 localhost\n" + "".join(f"{a} {NAME}\n" for a in addresses))
    host.sh(f"mount --bind {file} /etc/hosts")


def fetched(near: Holder, tmp_path, key: str, interface: str = "c0") -> None:
    output = tmp_path / "film"
    words = ["--from", f"{NAME}:4434", "--ca", tmp_path / "state" / "weir-server-ca.pem", "--publisher", key]
    done = names_rig.run(near, ICN, "get", f"{FOLDER}/film", *words, "--interface", interface, "--output", output)
    assert done.returncode == OK, done
    assert output.read_bytes() == CONTENT


ORDERS = [
    ((CLOSED6, WORKS), WORKS),
    ((SILENT6, WORKS), WORKS),
    ((CLOSED, WORKS6), WORKS6),
    ((SILENT, WORKS6), WORKS6),
    ((CLOSED, WORKS), WORKS),
    ((SILENT, WORKS), WORKS),
    ((SILENT6, CLOSED6, SILENT, WORKS), WORKS),
]


@pytest.mark.parametrize(("addresses", "works"), ORDERS, ids=lambda v: " ".join(v) if isinstance(v, tuple) else "")
def test_get_tries_the_next_address(hosts, tmp_path, addresses, works):
    near, far = hosts
    named(near, tmp_path, *addresses)
    with publisher(far, tmp_path, at(works)) as process:
        names_rig.said(process, "listening")
        fetched(near, tmp_path, names_rig.said(process, "publisher"))


@pytest.mark.parametrize("addresses", [(SILENT6, WORKS), (CLOSED, WORKS6)], ids=" ".join)
def test_an_edge_server_tries_the_next_address(hosts, tmp_path, addresses):
    """Of its publisher, which is on another host than itself."""
    near, far = hosts
    named(near, tmp_path, *addresses)
    with publisher(far, tmp_path, at(addresses[1])) as process:
        names_rig.said(process, "listening")
        key = names_rig.said(process, "publisher")
        words = [
            "--of",
            f"{NAME}:4434",
            "--ca",
            tmp_path / "state" / "weir-server-ca.pem",
            "--listen",
            "127.0.0.1:4435",
        ]
        near.sh("ip link set lo up")
        with running(
            near, "edge", *words, "--state-dir", tmp_path / "edge", "--ticket-keys", tmp_path / "keys"
        ) as edge:
            names_rig.said(edge, "listening")
            output = tmp_path / "film"
            words = ["--from", "127.0.0.1:4435", "--ca", tmp_path / "edge" / "weir-server-ca.pem", "--publisher", key]
            done = names_rig.run(near, ICN, "get", f"{FOLDER}/film", *words, "--interface", "c0", "--output", output)
            assert done.returncode == OK, done
            assert output.read_bytes() == CONTENT


@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
@pytest.mark.parametrize("size", [1500, 9000])
def test_a_connection_carried_by_name_finds_its_size(hosts, authority, tmp_path, size, upload):
    """The programs at the ends probe as on any path."""
    near, far = hosts
    near.sh(f"ip link set lo up; ip link set c0 mtu {size}")
    far.sh(f"ip link set s0 mtu {size}")
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:4433", far)
    try:
        words = ["server", "--interface", "s0", "--name", "/weir/web", "--to", server.address]
        with running(far, *words) as there:
            names_rig.said(there, "serving")
            words = ["client", "--interface", "c0", "--as", "/weir/phone", "--server", "/weir/web"]
            with running(near, *words, "--listen", "127.0.0.1:0") as here:
                url = f"https://{names_rig.said(here, 'listening')}"
                what = [url, "--upload", "--bytes", 500_000] if upload else [f"{url}/bytes/500000"]
                report = client(*what, *server.trust, "--max-payload", 1400, "--json", where=near).good()
                (flow,) = report["flows"]
                assert flow["bytes"] == 500_000
                assert 1200 <= flow["payload_bytes"] < size
                for process in (here, there):
                    process.send_signal(signal.SIGINT)
                    assert process.wait(quic_rig.PATIENCE_S) == OK
    finally:
        server.close()


def test_a_link_that_carries_too_little_for_names(hosts, tmp_path):
    near, far = hosts
    far.sh("ip link set s0 mtu 1400")
    near.sh("ip link set c0 mtu 1400")
    for words in (
        ["server", "--interface", "c0", "--name", "/weir/web", "--to", "127.0.0.1:1"],
        ["client", "--interface", "c0", "--as", "/weir/phone", "--server", "/weir/web", "--listen", "127.0.0.1:0"],
        ["get", "/weir/web", "--interface", "c0", "--from", "127.0.0.1:1", "--insecure", "--output", tmp_path / "film"],
    ):
        done = names_rig.run(near, ICN, *words)
        assert done.returncode in (quic_rig.USAGE, quic_rig.IO), done
        assert b"1500" in done.stderr


@pytest.mark.parametrize("size", [1228, 1280, 1400])
def test_keys_over_a_path_that_carries_less(hosts, tmp_path, size):
    """Manifest and keys come over IP, the data by name on another link. IPv6 would need 1280."""
    near, far = hosts
    named(near, tmp_path, WORKS)
    near.sh(
        f"ip link add n0 type veth peer name n1 netns {far.process.pid}; ip link set n0 up; ip link set c0 mtu {size}"
    )
    far.sh(f"ip link set n1 up; ip link set s0 mtu {size}")
    words = [
        "--name",
        FOLDER,
        "--interface",
        "n1",
        "--listen",
        at(WORKS),
        "--host",
        NAME,
        "--state-dir",
        tmp_path / "state",
    ]
    with running(far, "publish", tmp_path / "files", *words) as process:
        names_rig.said(process, "listening")
        fetched(near, tmp_path, names_rig.said(process, "publisher"), interface="n0")
