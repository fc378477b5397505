# SPDX-License-Identifier: Apache-2.0
"""The package `weir` as an operator has it: installed on a bare Debian 12, a law put on an interface, upgraded,
removed, purged. And what `./run package` says."""

import json
import os
import re
import shutil
import subprocess

import pytest
from bare_debian import REPO, NoDebian, bare_debian, of_another_version, run_package

NEXT = "99.0"
SIZE_MOST_KIB = 60_000 * 1000 // 1024
"""60 MB: `weir` with all that apt installs for it on a bare Debian, by the packages' own word."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    try:
        with bare_debian(tmp_path_factory.mktemp("root")) as bare:
            yield bare
    except NoDebian as reason:
        pytest.skip(str(reason))


def test_installed_used_upgraded_removed_and_purged(package, bare, tmp_path):
    before = bare.installed_kib()
    assert bare.paths("weir") == []
    bare.install(package)
    after = bare.installed_kib()
    size = sum(kib for name, kib in after.items() if name not in before)
    print(f"weir and {len(after.keys() - before.keys()) - 1} packages for it: {size} KiB")
    assert size < SIZE_MOST_KIB
    assert not (bare.root / str(REPO).lstrip("/")).exists()

    # a law on an interface, by the installed programs alone
    bare.run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    for name in ("v0", "v1"):
        bare.run("ip", "link", "set", name, "up")
    bare.run("tc", "qdisc", "add", "dev", "v0", "root", "handle", "1:", "htb", "default", "1")
    bare.run("tc", "class", "add", "dev", "v0", "parent", "1:", "classid", "1:1", "htb", "rate", "95mbit")
    bare.run("weir-xdp", "attach", "v0")
    bare.run("weir", "gains", "--bpf", "v0", "--set", "target_us=5000")
    bare.run("weir", "gains", "--bpf", "v0", "--profile", "paper")
    bare.run("weir", "gains", "--bpf", "v0", "--profile", "tuned", "--set", "target_us=4000")
    assert "tuned but target_us=4000" in bare.run("weir", "status", "--fleet", "/etc/weir/fleet.toml").stdout

    # missing parts are named
    done = bare.run("weir", "p4", "show", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("apt install python3-grpcio")

    # upgraded: the law goes on, and what the operator wrote stays
    fleet = bare.root / "etc/weir/fleet.toml"
    fleet.write_text(fleet.read_text().replace("[devices.here]", "[devices.mine]"))
    bare.install(of_another_version(package, tmp_path, NEXT))
    assert bare.run("dpkg-query", "-W", "-f", "${Version}", "weir").stdout == NEXT
    told = bare.run("weir", "status", "--fleet", "/etc/weir/fleet.toml").stdout
    assert "mine" in told
    assert "tuned but target_us=4000" in told
    bare.run("weir-xdp", "detach", "v0")

    bare.apt("remove", "weir")
    # dpkg's and systemd's own notes stay until purge
    notes = ("/var/lib/dpkg/info/weir.", "/var/lib/systemd/deb-systemd-helper-")
    left = [path for path in bare.paths("weir") if not path.startswith(notes)]
    assert left == ["/etc/weir"]
    assert sorted((bare.root / "etc/weir").iterdir()) == [fleet, bare.root / "etc/weir/xdp.toml"]
    bare.apt("purge", "weir")
    assert bare.paths("weir") == []


def test_manual_pages_completion_and_python_are_whole(package, tmp_path):
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    pages = {path.name for path in (tmp_path / "usr/share/man").rglob("*.gz")}
    commands = {f"weir-{name}.1.gz" for name in ("status", "watch", "top", "gains", "tune", "p4", "model")}
    assert {path.name for path in (tmp_path / "usr/share/weir/boards").iterdir()} == {
        "weir.json", "rules.yml", "prometheus.yml"
    }  # fmt: skip
    assert {"weir.1.gz", "weir-sojourn.1.gz", "weir-xdp.8.gz"} | commands == pages
    shown = subprocess.run(
        ["man", "-l", next((tmp_path / "usr/share/man").rglob("weir-status.1.gz"))],
        env={**os.environ, "MANWIDTH": "100"}, capture_output=True, text=True, check=False,
    ) if shutil.which("man") else None  # fmt: skip
    if shown is not None:
        assert "weir-status - what is on each device and port now" in shown.stdout
    # bash finds the commands and options that the program's own help lists
    completion = tmp_path / "usr/share/bash-completion/completions/weir-xdp"
    program = tmp_path / "usr/bin/weir-xdp"
    script = (
        f". {completion}\n"
        f"_init_completion() {{ cur=$CUR prev=x words=({program} $CUR) cword=1; }}\n"
        '_weir; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    def completed(word):
        return subprocess.run(
            ["bash", "-c", script], env={**os.environ, "CUR": word}, capture_output=True, text=True, check=True
        ).stdout.split()

    assert {"attach", "detach", "status", "set", "watch"} <= set(completed(""))
    assert completed("att") == ["attach"]
    assert {"--gains", "--signal"} <= set(completed("--"))


def test_the_same_commit_gives_the_same_bytes(packages, tmp_path):
    """Also to those who build less at once."""
    names = ("weir", "weir-server")
    done = run_package(*names, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in names:
        again = tmp_path / packages[name].name
        assert again.read_bytes() == packages[name].read_bytes()


def test_a_control_file_says_what_a_package_is(package):
    fields = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^Depends:.*python3-rich", fields, re.M)
    assert re.search(r"^Depends:.*python3 \(<< 3\.12\)", fields, re.M)  # pydantic-core is built for 3.11
    assert json.dumps(str(REPO)) not in fields


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no package 'nothing'; there are: weir weir-switch weir-client weir-server static crates wheels"),
        (["--fast"], "unknown option '--fast'; --help shows all"),
        (["--version", "v1"], "--version v1: must begin with a digit"),
        (["--version", "1_0"], "--version 1_0: must be of letters, digits"),
        (["--out"], "--out needs a value"),
    ],
    ids=["name", "option", "version", "characters", "value"],
)
def test_a_wrong_call_is_told_before_anything_is_built(words, message):
    done = run_package(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"./run package: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_help():
    done = run_package("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ./run package [NAME ...]")
