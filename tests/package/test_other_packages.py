# SPDX-License-Identifier: Apache-2.0
"""The packages `weir-switch`, `weir-client` and `weir-server` as their users have them: on a bare Debian 12 the
installed controller sets up a switch, and a file comes over QUIC from one host to another through it."""

import os
import subprocess
from pathlib import Path

import pytest
from bare_debian import REPO, NoDebian, bare_debian, of_another_version

NEXT = "99.0"

HOSTS = """
set -e
for n in 1 2; do
  ip netns add h$n
  ip link add p$n type veth peer name eth0 netns h$n
  ip link set p$n up
  nsenter --net=/run/netns/h$n ip link set lo up
  nsenter --net=/run/netns/h$n ip link set eth0 address 02:00:00:00:00:0$n up
  nsenter --net=/run/netns/h$n ip address add 10.0.$n.1/24 dev eth0
  nsenter --net=/run/netns/h$n ip neigh add 10.0.$n.254 lladdr 02:00:00:00:01:0$n dev eth0
  nsenter --net=/run/netns/h$n ip route add default via 10.0.$n.254
  nsenter --net=/run/netns/h$n ethtool -K eth0 tx off tso off gso off gro off
done
"""
"""Two hosts, each on a port of the switch, with no other road between them. (`ip -n` wants a root that is
a mount.)"""

SWITCH = "weir-switch --p4 /usr/share/weir/p4/pid_delay.p4 -i 1@p1 -i 2@p2 >/srv/switch.log 2>&1 &"

CONFIG = """
[ports.1]
mac = "02:00:00:00:01:01"
[ports.2]
mac = "02:00:00:00:01:02"
[neighbours.h1]
port = 1
mac = "02:00:00:00:00:01"
[neighbours.h2]
port = 2
mac = "02:00:00:00:00:02"
[routes]
"10.0.1.0/24" = "h1"
"10.0.2.0/24" = "h2"
[aqm.port.1]
profile = "tuned"
"""

TRANSFER = """
rm -f /srv/server.log # else the last one would be looked at
nsenter --net=/run/netns/h2 weir-server --ephemeral --listen 10.0.2.1:4433 >/srv/server.log 2>/srv/server.err &
until grep -q listening /srv/server.log; do kill -0 $! || { cat /srv/server.err >&2; exit 1; }; sleep 0.1; done
nsenter --net=/run/netns/h1 weir-client https://10.0.2.1:4433/bytes/1000000 --insecure --output /srv/received
status=$?
kill $! && wait $!
exit $status
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    try:
        with bare_debian(tmp_path_factory.mktemp("root")) as bare:
            yield bare
    except NoDebian as reason:
        pytest.skip(str(reason))


def test_a_transfer_through_the_switch_over_an_upgrade_then_all_removed_and_purged(packages, bare, tmp_path):
    assert bare.paths("weir") == []
    bare.install(*packages.values())
    bare.get("ethtool")
    assert not (bare.root / str(REPO).lstrip("/")).exists()
    for program in ("pid_delay_l4s", "pid_delay_scone", "edge", "icn"):
        bare.run("weir-switch", "--check", "--p4", f"/usr/share/weir/p4/programs/{program}.p4")
    assert "publish" in bare.run("weir-icn", "--help").stdout

    bare.run("sh", "-c", HOSTS)
    bare.run("sh", "-c", SWITCH)
    (bare.root / "srv/s1.toml").write_text(CONFIG)
    bare.run("weir", "p4", "deploy", "--connect-timeout-s", "60", "--config", "/srv/s1.toml")
    assert "10.0.2.0/24" in bare.run("weir", "p4", "show").stdout
    received = bare.root / "srv/received"
    bare.run("sh", "-c", TRANSFER)
    assert received.stat().st_size == 1_000_000
    received.unlink()

    # upgraded: the switch goes on with what it holds
    bare.install(*(of_another_version(path, tmp_path, NEXT) for path in packages.values()))
    for name in packages:
        assert bare.run("dpkg-query", "-W", "-f", "${Version}", name).stdout == NEXT
    assert "tuned" in bare.run("weir", "status", "--p4", "127.0.0.1:9559").stdout
    bare.run("sh", "-c", TRANSFER)
    assert received.stat().st_size == 1_000_000

    for name in reversed(packages):
        listed = [bare.root / line[1:] for line in bare.run("dpkg", "--listfiles", name).stdout.splitlines()]
        files = [path for path in listed if not path.is_dir() and bare.root / "etc" not in path.parents]
        assert files
        bare.apt("remove", name)
        assert [path for path in files if os.path.lexists(path)] == []
        bare.run("dpkg", "--purge", name)  # apt no longer knows those that left nothing
        state = bare.run("dpkg-query", "-W", "-f", "${db:Status-Status}", name, check=False).stdout
        assert state in ("", "not-installed")  # dpkg keeps the name where another package speaks of it
    assert bare.paths("weir") == []


def test_manual_pages_and_completion_are_whole(packages, tmp_path):
    commands = {f"weir-icn-{name}.1.gz" for name in ("client", "server", "publish", "get", "cache", "edge")}
    wanted = {
        "weir-switch": {"weir-switch.8.gz", "weir-p4c.1.gz"},
        "weir-client": {"weir-client.1.gz", "weir-icn.1.gz"} | commands,
        "weir-server": {"weir-server.1.gz"},
    }
    for name, pages in wanted.items():
        subprocess.run(["dpkg-deb", "--extract", packages[name], tmp_path / name], check=True)
        assert {path.name for path in (tmp_path / name / "usr/share/man").rglob("*.gz")} == pages
        programs = {path.name for path in (tmp_path / name / "usr/bin").iterdir()}
        completions = {path.name for path in (tmp_path / name / "usr/share/bash-completion/completions").iterdir()}
        assert completions == programs
    script = (
        f". {tmp_path}/weir-client/usr/share/bash-completion/completions/weir-icn\n"
        f"_init_completion() {{ cur=pub prev=x words=({tmp_path}/weir-client/usr/bin/weir-icn pub) cword=1; }}\n"
        '_weir; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout == "publish\n"


def test_programs_do_not_tell_where_they_were_built(packages, tmp_path):
    for name in tuple(packages)[1:]:
        subprocess.run(["dpkg-deb", "--extract", packages[name], tmp_path], check=True)
    programs = {path.name: path.read_bytes() for path in (tmp_path / "usr/bin").iterdir()}
    assert set(programs) == {"weir-switch", "weir-p4c", "weir-client", "weir-icn", "weir-server"}
    cargo = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
    for program, data in programs.items():
        assert f"{REPO}/build".encode() not in data, program
        assert cargo.encode() not in data, program


WITHOUT_PLACES = REPO / "setup/package/without_places.py"


def without_places(*words):
    return subprocess.run(
        ["/usr/bin/python3", WITHOUT_PLACES, *map(str, words)], capture_output=True, text=True, check=False
    )


def test_a_place_becomes_a_word_of_the_same_length(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"\0/home/ada/weir/build/a.rs/home/ada/weir/build/b.rs\0/home/ada/weir/other\0")
    done = without_places(program, "--place", "/home/ada/weir/build/", "build/")
    assert (done.returncode, done.stderr) == (0, "")
    short = b"build" + b"/" * 16
    assert program.read_bytes() == b"\0" + short + b"a.rs" + short + b"b.rs\0/home/ada/weir/other\0"


@pytest.mark.parametrize(
    ("place", "word", "message"),
    [
        ("/elsewhere/build/", "build/", "no path in it begins with /elsewhere/build/: it was built elsewhere"),
        ("/srv/", "longer/", "/srv/ and longer/: both must end with a slash, and the second be no longer"),
        ("/srv", "w/", "/srv and w/: both must end with a slash, and the second be no longer"),
    ],
    ids=["not-there", "longer", "no-slash"],
)
def test_a_place_that_can_not_be_taken_out_is_an_error(tmp_path, place, word, message):
    program = tmp_path / "program"
    program.write_bytes(b"\0/srv/a.rs\0")
    done = without_places(program, "--place", place, word)
    assert (done.returncode, done.stderr) == (1, f"{program}: {message}\n")
    assert program.read_bytes() == b"\0/srv/a.rs\0"
