# SPDX-License-Identifier: Apache-2.0
"""Files where another user may have put a link, and locks that nobody else may hold."""

import errno
import os
from dataclasses import replace

import pytest

from weir.dataplane.base import DataPlaneError
from weir.dataplane.bpf import run_folder
from weir.files import open_private, write_whole
from weir.model import plots
from weir.resources import PROFILES
from weir.settings import load, save
from weir.telemetry.jsonl import Writer


@pytest.fixture
def target(tmp_path):
    file = tmp_path / "of-root"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"


def test_a_draft_follows_no_link(target, tmp_path) -> None:
    gains = replace(load(PROFILES / "tuned.toml"), target_us=7000)
    path = tmp_path / "x.toml"
    for name in ("x.toml.part", f"x.toml.{os.getpid()}.part", "x.toml"):
        (tmp_path / name).symlink_to(target)
    save(gains, path)
    assert not path.is_symlink()
    assert load(path) == gains
    write_whole(path, b"again")
    assert path.read_bytes() == b"again"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_nobody_else_can_open_a_lock(tmp_path, mode) -> None:
    path = tmp_path / "x.lock"
    path.touch(mode)
    path.chmod(mode)
    os.close(open_private(path))
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    os.close(open_private(path))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("make", ["symlink", "link", "fifo"])
def test_a_lock_is_a_file_of_its_own(target, tmp_path, make) -> None:
    path = tmp_path / "x.lock"
    if make == "symlink":
        path.symlink_to(target)
    elif make == "link":
        path.hardlink_to(target)
    else:
        os.mkfifo(path)
    with pytest.raises(OSError) as failure:  # noqa: PT011
        os.close(open_private(path))
    assert failure.value.errno in (errno.EPERM, errno.ELOOP)
    path.unlink()


# 0o1777 as /tmp: a link there is its owner's, but any user may have made a hard link.
@pytest.mark.parametrize(("make", "mode"), [("symlink", 0o777), ("link", 0o777), ("fifo", 0o777), ("link", 0o1777)])
def test_a_log_among_others_files_is_a_file_of_its_own(target, tmp_path, make, mode) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    path = folder / "samples.jsonl"
    if make == "symlink":
        path.symlink_to(target)
    elif make == "link":
        path.hardlink_to(target)
    else:
        os.mkfifo(path)
    with pytest.raises(OSError) as failure:  # noqa: PT011
        Writer(path).close()
    assert failure.value.errno in (errno.EPERM, errno.ELOOP, errno.ENXIO)
    path.unlink()
    for line in ("1", "2"):
        with Writer(path) as log:
            log.write(line)
    assert path.read_text() == "1\n2\n"
    path.unlink()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_plot_follows_no_link(target, tmp_path, kind) -> None:
    path = tmp_path / f"x.{kind}"
    path.symlink_to(target)
    plots.save(plots.plt.figure(), path)
    assert path.stat().st_size > 0
    assert not path.is_symlink()


def test_a_log_in_a_folder_of_ones_own_may_be_a_link(tmp_path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "log")
    for name in ("link", "log", "link"):
        with Writer(tmp_path / name) as log:
            log.write(name)
    assert (tmp_path / "log").read_text() == "link\nlog\nlink\n"


def test_controllers_meet_in_a_folder_that_others_cannot_write_to(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 990)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{tmp_path / 'weir'}:{tmp_path / 'second'}")
    assert run_folder("s1") == tmp_path / "weir"  # as systemd has it
    (tmp_path / "weir").chmod(0o777)
    with pytest.raises(DataPlaneError):
        run_folder("s1")
