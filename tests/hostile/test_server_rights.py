# SPDX-License-Identifier: Apache-2.0
"""weir-server --user: of root's rights none is left once its files and its port are open, and it serves as before."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import quic_rig

NOBODY = 65534


def status(pid: int) -> dict[str, str]:
    """/proc status of a process that has one thread."""
    assert len(os.listdir(f"/proc/{pid}/task")) == 1
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t") for line in lines if ":\t" in line)


def refused(code: int, *words: object, program: Sequence[object] = (quic_rig.WEIR_SERVER,)) -> str:
    """Error text of a server that does not start."""
    command = [*program, "--listen", "127.0.0.1:0", "--ephemeral", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=quic_rig.PATIENCE_S, cwd="/")
    assert (done.returncode, done.stdout) == (code, ""), done
    return done.stderr


def only_as_root() -> None:
    if os.geteuid():
        pytest.skip("to become nobody takes root")


def test_a_server_that_gave_its_rights_up_serves(authority, tmp_path):
    """Its key is one that only root may read, and so is the folder of its samples: both are opened before."""
    only_as_root()
    os.chmod(tmp_path, 0o700)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--user", "nobody")
    try:
        for _ in range(2):
            assert server.get("/bytes/3MB").good()["total"]["bytes"] == 3_000_000
            now = status(server.process.pid)
            assert "0" not in now["Uid"].split() + now["Gid"].split() + now["Groups"].split(), now
            assert [int(now[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0] * 4, now
            assert now["NoNewPrivs"] == "1", now
    finally:
        server.close()
    ends = [line for line in quic_rig.lines(tmp_path / "stats") if line["k"] == "end"]
    assert [end["bytes"] for end in ends] == [3_000_000] * 2
    assert server.process.returncode == 0


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that anybody may go through, wherever pytest's own are."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_files_that_are_made_later_are_the_users(authority, tmp_path, for_all):
    only_as_root()
    theirs, ours = for_all / "theirs", for_all / "ours"
    theirs.mkdir()
    ours.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--user", "nobody", "--qlog-dir", theirs)
    try:
        server.get("/bytes/100kB").good()
    finally:
        server.close()
    assert [path.stat().st_uid for path in theirs.iterdir()] == [NOBODY]
    said = refused(quic_rig.IO, "--user", "nobody", "--qlog-dir", ours)
    assert f"--qlog-dir {ours}: user nobody has to make files there" in said


def test_a_user_that_can_not_be_is_refused(authority):
    assert "--user weir-no-such: there is no such user" in refused(quic_rig.USAGE, "--user", "weir-no-such")
    assert "--user root: that is root" in refused(quic_rig.USAGE, "--user", "root")


def test_without_root_no_user_can_be_taken(authority, for_all):
    only_as_root()
    anybody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    program = shutil.copy(quic_rig.WEIR_SERVER, for_all)
    said = refused(quic_rig.USAGE, "--user", "daemon", program=[*anybody, program])
    assert "--user daemon: to become another user takes root" in said
