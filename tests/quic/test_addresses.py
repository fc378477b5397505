# SPDX-License-Identifier: Apache-2.0
"""Names with several addresses of which some do not answer (RFC 8305), networks that lead nowhere, and addresses of one
link (RFC 4007)."""

import json
import subprocess

import names_rig
import pytest
import quic_rig
from quic_rig import CONNECT, OK, PATHS, TIMEOUT, USAGE, Holder, client

NAME = "two.example"
WORKS, CLOSED, SILENT = "10.78.1.1", "10.78.1.3", "10.78.1.99"
WORKS6, CLOSED6, SILENT6 = "fd78::1", "fd78::3", "fd78::99"
NOWHERE = "02:00:00:00:00:99"


@pytest.fixture
def hosts():
    """A client and a server with addresses of both families."""
    if reason := quic_rig.why_no_namespaces():
        pytest.skip(reason)
    near, far = Holder(), Holder()
    near.far = far
    for host in (near, far):
        host.sh("echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad")  # its own: no second of waiting for others
    near.sh(f"ip link add c0 type veth peer name s0 netns {far.process.pid}; ip link set c0 up;"
            "ip addr add 10.78.1.2/24 dev c0; ip addr add fd78::2/64 dev c0 nodad;"
            f"ip neigh add {SILENT} lladdr {NOWHERE} dev c0 nud permanent;"
            f"ip neigh add {SILENT6} lladdr {NOWHERE} dev c0 nud permanent")  # fmt: skip
    far.sh("ip link set s0 up;" + "".join(f"ip addr add {a}/24 dev s0;" for a in (WORKS, CLOSED))
           + "".join(f"ip addr add {a}/64 dev s0 nodad;" for a in (WORKS6, CLOSED6)))  # fmt: skip
    yield near
    near.close()
    far.close()


@pytest.fixture
def serve(hosts, authority, tmp_path):
    """Starts the server on an address."""
    running = []

    def start(listen: str) -> quic_rig.Server:
        folder = tmp_path / f"server{len(running)}"
        folder.mkdir()
        made = authority.issue(NAME, WORKS, WORKS6)
        command = [quic_rig.WEIR_SERVER, "--listen", listen, "--cert", made.cert, "--key", made.key]
        process = quic_rig._run(command, hosts.far)
        address = quic_rig._listening(process)
        running.append(quic_rig.Server("weir", address, authority.ca, ("h3",), process, where=hosts.far, folder=folder))
        return running[-1]

    yield start
    for one in running:
        one.close()


def named(hosts: Holder, tmp_path, *addresses: str) -> None:
    """The name has these addresses."""
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 localhost\n" + "".join(f"{a} {NAME}\n" for a in addresses))
    hosts.sh(f"mount --bind {file} /etc/hosts")


def asked(hosts: Holder, server: quic_rig.Server, *args: object) -> dict:
    (flow,) = client(f"https://{NAME}:4433/bytes/1000", *server.trust, "--json", *args, where=hosts).good()["flows"]
    assert flow["bytes"] == 1000
    return flow


@pytest.mark.parametrize("path", [[], ["--path", "c0"], ["--path", "auto"]], ids=["", "path", "auto"])
@pytest.mark.parametrize(
    ("addresses", "works"),
    [
        ((CLOSED6, WORKS), WORKS),
        ((SILENT6, WORKS), WORKS),
        ((CLOSED, WORKS6), WORKS6),
        ((SILENT, WORKS6), WORKS6),
        ((CLOSED, WORKS), WORKS),
        ((SILENT, WORKS), WORKS),
        ((SILENT6, CLOSED6, SILENT, WORKS), WORKS),
    ],
    ids=" ".join,
)
def test_the_next_address_is_tried(hosts, serve, tmp_path, addresses, works, path):
    server = serve(f"[{works}]:4433" if ":" in works else f"{works}:4433")
    named(hosts, tmp_path, *addresses)
    flow = asked(hosts, server, *path)
    assert flow["server"] == (f"[{works}]:4433" if ":" in works else f"{works}:4433")


def test_where_none_answers(hosts, authority, tmp_path):
    named(hosts, tmp_path, CLOSED6, CLOSED)
    done = client(f"https://{NAME}:4433/bytes/1000", "--insecure", where=hosts)
    done.bad(CONNECT, NAME)


def test_the_next_address_of_connect(hosts, serve, tmp_path):
    """A name in --connect stands for its addresses too."""
    server = serve(f"{WORKS}:4433")
    file = tmp_path / "hosts"
    file.write_text(f"{CLOSED6} other.example\n{SILENT} other.example\n{WORKS} other.example\n")
    hosts.sh(f"mount --bind {file} /etc/hosts")
    assert asked(hosts, server, "--connect", "other.example")["server"] == f"{WORKS}:4433"
    assert asked(hosts, server, "--connect", "other.example:4433")["server"] == f"{WORKS}:4433"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("paths", [["auto"], ["c0", "docker0"]], ids="-".join)
def test_a_network_that_leads_nowhere(hosts, serve, tmp_path, paths, seed):
    """As of containers: up, an address, no way to the server."""
    # A bridge without a carrier counts as down on some systems.
    hosts.sh("ip link add docker0 type veth peer name void; ip link set void up; ip link set docker0 up;"
             "ip addr add 172.17.0.1/16 dev docker0; ip route add 10.78.1.0/24 dev docker0 metric 2000;"
             f"ip neigh add {WORKS} lladdr {NOWHERE} dev docker0 nud permanent")  # fmt: skip
    server, events = serve(f"{WORKS}:4433"), tmp_path / "events"
    named(hosts, tmp_path, WORKS)
    args = [word for path in paths for word in ("--path", path)]
    asked(hosts, server, *args, "--seed", seed, "--events", events)
    (task,) = [line for line in quic_rig.lines(events) if line["k"] == "task"]
    assert task["path"] == "c0"
    if paths == ["auto"]:
        # it began where the route to the server leads
        assert next(line for line in quic_rig.lines(events) if line["k"] == "path")["path"] == "c0"


def link_local(host: Holder, device: str) -> str:
    """The device's address, once it can be used."""

    def usable() -> list[str]:
        """None yet where the kernel has not noticed that the link is up."""
        words = ("ip", "-6", "-j", "addr", "show", "dev", device, "scope", "link", "-tentative")
        shown = json.loads(host.run(*words).stdout or "[]")
        return [one["local"] for interface in shown for one in interface.get("addr_info", []) if one]

    quic_rig.until(usable, "a link-local address")
    (address,) = usable()
    return address


@pytest.mark.parametrize("form", ["%25c0", "%c0"])
@pytest.mark.parametrize("connect", [False, True], ids=["url", "connect"])
def test_an_address_of_one_link(hosts, serve, form, connect):
    server = serve("[::]:4433")
    link_local(hosts, "c0")
    address = link_local(hosts.far, "s0")
    if connect:
        what = [f"https://{NAME}:4433/bytes/1000", "--connect", f"[{address}{form}]:4433", *server.trust]
    else:
        what = [f"https://[{address}{form}]:4433/bytes/1000", "--insecure"]
    (flow,) = client(*what, "--json", where=hosts).good()["flows"]
    assert flow["bytes"] == 1000


def test_a_link_that_is_not_there(hosts):
    client("https://[fe80::1%25nowhere0]:4433/bytes/1", "--insecure", where=hosts).bad(USAGE, "nowhere0")


@pytest.mark.parametrize("zone", ["s0", "index"])
def test_a_server_on_an_address_of_one_link(hosts, serve, zone):
    far = link_local(hosts.far, "s0")
    if zone == "index":
        zone = hosts.far.sh("ip -o link show dev s0").split(":")[0]
    link_local(hosts, "c0")
    serve(f"[{far}%{zone}]:4433")
    report = client(f"https://[{far}%25c0]:4433/bytes/100000", "--insecure", "--json", where=hosts).good()
    assert report["total"]["bytes"] == 100_000


@pytest.mark.parametrize(
    ("option", "given"), [("--path", "address"), ("--path", "name"), ("--path", "auto"), ("--bind", "address")]
)
def test_a_path_from_an_address_of_one_link(hosts, serve, option, given):
    far, near = link_local(hosts.far, "s0"), link_local(hosts, "c0")
    serve("[::]:4433")
    value = {"address": f"{near}%c0", "name": "c0", "auto": "auto"}[given]
    what = [f"https://[{far}%25c0]:4433/bytes/1000", "--insecure", "--json", option, value]
    (flow,) = client(*what, where=hosts).good()["flows"]
    assert flow["bytes"] == 1000


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["https://[fe80::1]:4433/bytes/1"], USAGE),
        (["https://[fd78::1%25c0]:4433/bytes/1"], USAGE),
        (["https://[fe80::1%25c0]:4433/bytes/1", "--path", "fe80::1%nowhere0"], PATHS),
        (["https://[fe80::1%25c0]:4433/bytes/1", "--path", "fe80::1"], PATHS),
        (["https://[fe80::1%25c0]:4433/bytes/1", "--path", "fe80::dead%c0"], PATHS),
        (["https://[fe80::1%25c0]:4433/bytes/1", "--bind", "fe80::1%nowhere0"], USAGE),
        (["https://[fe80::1%25c0]:4433/bytes/1", "--bind", "fd78::2"], OK),
        (["https://[fd78::1]:4433/bytes/1", "--bind", "fe80::1%c0"], USAGE),
        (["https://[fe80::1%25c0]:4433/bytes/1", "--bind", "10.78.1.2"], USAGE),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_zones_that_can_not_be_used(hosts, words, code):
    if code == OK:
        code = TIMEOUT  # nobody is there
        words = [*words, "--max-time", "1"]
    done = client(*words, "--insecure", where=hosts)
    assert done.code == code, done


ICN = quic_rig.BUILD / "bin" / "weir-icn"


@pytest.mark.parametrize(
    "words",
    [
        [quic_rig.WEIR_SERVER, "--ephemeral", "--listen"],
        [ICN, "client", "--interface", "c0", "--as", "/a", "--server", "/b", "--listen"],
        [ICN, "server", "--interface", "c0", "--name", "/a", "--to"],
        [ICN, "publish", ".", "--name", "/a", "--interface", "c0", "--ephemeral", "--listen"],
        [ICN, "edge", "--of", "192.0.2.1:1", "--ephemeral", "--listen"],
        [ICN, "edge", "--listen", "127.0.0.1:0", "--ephemeral", "--of"],
        [ICN, "get", "/a", "--interface", "c0", "--insecure", "--output", "-", "--from"],
    ],
    ids=lambda words: " ".join(map(str, [words[0].name, *words[1:2], words[-1]])),
)
@pytest.mark.parametrize("address", ["[fe80::1%nowhere0]:4433", "[fe80::1]:4433", "[fd78::2%c0]:4433", "fe80::1%c0"])
def test_each_program_rejects_them(hosts, tmp_path, words, address):
    process = hosts.start(*words, address, cwd=tmp_path)
    process.communicate(timeout=quic_rig.PATIENCE_S)
    assert process.returncode == USAGE


def test_names_over_an_address_of_one_link(hosts, tmp_path):
    """A publisher on such an address, asked there; the data comes by name over the same link."""
    far = link_local(hosts.far, "s0")
    link_local(hosts, "c0")
    (tmp_path / "files").mkdir()
    content = bytes(range(256)) * 400
    (tmp_path / "files" / "film").write_bytes(content)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    words = [
        "publish",
        tmp_path / "files",
        "--name",
        "/weir/files",
        "--interface",
        "s0",
        "--listen",
        f"[{far}%s0]:4434",
    ]
    publisher = hosts.far.start(ICN, *words, "--state-dir", tmp_path / "state", **pipes)
    try:
        names_rig.said(publisher, "listening")
        key = names_rig.said(publisher, "publisher")
        asked = ["--from", f"[{far}%c0]:4434", "--ca", tmp_path / "state" / "weir-server-ca.pem", "--publisher", key]
        words = ["get", "/weir/files/film", *asked, "--interface", "c0", "--output", tmp_path / "film"]
        done = names_rig.run(hosts, ICN, *words)
        assert done.returncode == OK, done
        assert (tmp_path / "film").read_bytes() == content
    finally:
        publisher.kill()
        publisher.communicate()
