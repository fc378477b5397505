# SPDX-License-Identifier: Apache-2.0
"""The switch in BMv2's place on a bare Debian 12: from the Debian package, by alternatives, and from the wheel, by a
folder of links. Each compiles a program and starts it with BMv2's command line."""

from pathlib import Path

import pytest
from bare_debian import REPO, NoDebian, bare_debian, run_package

NAMES = ("simple_switch", "simple_switch_grpc", "p4c", "p4c-bm2-ss")
PROGRAM = REPO / "p4" / "switch" / "weir-p4" / "tests" / "bmv2" / "forward.p4"

STARTED = """
set -e
PATH=$1:$PATH
cd /srv
p4c-bm2-ss --p4v 16 --p4runtime-files forward.p4info.txtpb -o forward.json forward.p4
p4c --target bmv2 --arch v1model --std p4-16 -o out forward.p4
cmp forward.json out/forward.json
ip link show p1 >/dev/null 2>&1 || ip link add p1 type veth peer name h1
ip link set p1 up && ip link set h1 up
simple_switch_grpc -i 1@p1 --nanolog ipc:///tmp/log.ipc forward.json --log-console -- --grpc-server-addr 0.0.0.0:50051 \
  >switch.log 2>&1 &
until grep -q '^ready: 1 ports' switch.log; do kill -0 $! || { cat switch.log >&2; exit 1; }; sleep 0.1; done
kill $! && wait $!
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Paths of the Debian package and of the wheel."""
    done = run_package("weir-switch", "wheels", "--out", tmp_path_factory.mktemp("packages"))
    assert done.returncode == 0, done.stderr
    paths = [Path(line) for line in done.stdout.splitlines()]
    (deb,) = (path for path in paths if path.suffix == ".deb")
    (wheel,) = (path for path in paths if path.name.startswith("weir_switch-"))
    return deb, wheel


@pytest.fixture
def bare(tmp_path):
    try:
        with bare_debian(tmp_path) as bare:
            (bare.root / "srv/forward.p4").write_bytes(PROGRAM.read_bytes())
            bare.get("iproute2")
            yield bare
    except NoDebian as reason:
        pytest.skip(str(reason))


def started(bare, folder):
    """Asserts that the names in that folder compile and start a program."""
    bare.run("bash", "-c", STARTED, "bash", folder)
    assert "no effect: --nanolog" in (bare.root / "srv/switch.log").read_text()


def test_the_debian_package_has_alternatives(made, bare):
    bare.install(made[0])
    started(bare, "/usr/bin")
    for name in NAMES:
        assert "weir-" in bare.run(name, "--version").stdout
    bare.apt("remove", "weir-switch")
    assert [name for name in NAMES if (bare.root / "usr/bin" / name).is_symlink()] == []


def test_the_wheel_makes_a_folder_of_links(made, bare):
    bare.get("python3-venv")
    bare.run("python3", "-m", "venv", "/srv/venv")
    (bare.root / "srv" / made[1].name).write_bytes(made[1].read_bytes())
    bare.run("/srv/venv/bin/pip", "install", "--no-index", f"/srv/{made[1].name}")
    bare.run("/srv/venv/bin/weir-switch", "--install-links", "/srv/bmv2")
    assert sorted(path.name for path in (bare.root / "srv/bmv2").iterdir()) == sorted(NAMES)
    started(bare, "/srv/bmv2")
    bare.run("/srv/venv/bin/pip", "uninstall", "--yes", "weir-switch")
    assert not (bare.root / "srv/venv/bin/weir-switch").exists()
