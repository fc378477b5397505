# SPDX-License-Identifier: Apache-2.0
"""`weir-icn get` and keys of publishers across runs: the first one of a name is kept, another one is refused."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from names_net import PROGRAM, Net, bridged

NAME = "/weir/files/film"
INCOMPLETE, FILES = 6, 8
"""Exit codes."""


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with bridged(tmp_path, subscribers=2) as net:
        yield net


def offer(net: Net, content: bytes) -> tuple[subprocess.Popen, str]:
    """A publisher with a key of its own, in place of any before, and that key."""
    for old in net.running:
        old.kill()
        old.wait()
    (net.folder / "files").mkdir(exist_ok=True)
    (net.folder / "files" / "film").write_bytes(content)
    key = net.folder / "state" / "weir-icn-publisher.pem"
    key.unlink(missing_ok=True)
    publisher = net.publish(net.folder / "files")
    made = subprocess.run(
        ["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"], capture_output=True, check=True
    )
    return publisher, made.stdout[-32:].hex()


def got(net: Net, *options: object, known: Path | str, name: str = NAME) -> tuple[int, str]:
    getter = net.get(1, name, net.folder / "out", "--restart", *options, known=known)
    out, errors = getter.communicate()
    outcome = json.loads(out)["objects"][0]["outcome"] if out else errors
    if getter.returncode == 0:
        (net.folder / "out").unlink()
    return getter.returncode, outcome


def test_a_key_that_changed_is_refused_until_it_is_accepted(net):
    known = net.folder / "kept" / "known"
    _, first = offer(net, b"first" * 1000)
    assert got(net, known=known)[0] == 0
    assert known.stat().st_mode & 0o777 == 0o600
    lines = known.read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [f"{NAME} ed25519 {first}"]
    assert got(net, known=known)[0] == 0
    assert known.read_text().splitlines() == lines
    _, other = offer(net, b"other" * 1000)
    assert first != other
    code, outcome = got(net, known=known)
    assert code == INCOMPLETE
    for part in (f"{known}:{lines.index(f'{NAME} ed25519 {first}') + 1}", first, other, "--publisher"):
        assert part in outcome
    assert not (net.folder / "out").exists()
    assert known.read_text().splitlines() == lines
    # The user's word counts, and changes nothing.
    assert got(net, "--publisher", other, known=known)[0] == 0
    assert got(net, "--publisher", first, known=known)[0] == INCOMPLETE
    assert known.read_text().splitlines() == lines
    assert got(net, known="none")[0] == 0
    assert got(net, known=net.folder / "elsewhere" / "known")[0] == 0
    known.write_text("\n".join(line for line in lines if first not in line) + "\n")
    assert got(net, known=known)[0] == 0
    assert known.read_text().count(other) == 1
    assert not [path for path in known.parent.iterdir() if path.name not in ("known", "known.lock")]


def test_the_users_own_file_is_below_the_folder_for_state(net, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(net.folder / "home"))
    _, first = offer(net, b"first" * 1000)
    words = [PROGRAM, "get", NAME, "--from", "10.9.0.1:4434", "--interface", "e0", "--quiet"]
    words += ["--ca", net.folder / "state" / "weir-server-ca.pem", "--output", net.folder / "out"]
    getter = net.hosts[1].start(*words)
    assert getter.wait() == 0
    known = net.folder / "home" / "weir" / "known_publishers"
    assert first in known.read_text()
    assert known.stat().st_mode & 0o777 == 0o600
    assert known.parent.stat().st_mode & 0o777 == 0o700
    offer(net, b"other" * 1000)
    getter = net.hosts[1].start(*words)
    assert getter.wait() == INCOMPLETE
    # A file that others could have written is no proof.
    os.chmod(known, 0o666)
    getter = net.hosts[1].start(*words)
    assert getter.wait() == FILES


def test_several_runs_at_once_keep_all_lines(net):
    known = net.folder / "kept" / "known"
    known.parent.mkdir(mode=0o700)
    publisher, key = offer(net, b"x" * 5000)
    files = net.folder / "files"
    for i in range(12):
        (files / f"d{i}").mkdir()
        shutil.copy(files / "film", files / f"d{i}" / "film")
    getters = [net.get(1 + i % 2, f"/weir/files/d{i}/film", net.folder / f"out{i}", known=known) for i in range(12)]
    for getter in getters:
        _, errors = getter.communicate()
        assert getter.returncode == 0, errors
    lines = [line for line in known.read_text().splitlines() if not line.startswith("#")]
    assert sorted(lines) == sorted(f"/weir/files/d{i}/film ed25519 {key}" for i in range(12))
    publisher.send_signal(signal.SIGINT)
    publisher.communicate()
