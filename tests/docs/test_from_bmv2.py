# SPDX-License-Identifier: Apache-2.0
"""Lines of docs/use/from-bmv2.md, in their order, as one reader types them. Stand-ins: apt, pip, and for the tutorials
our own exercises in their layout. tests/package installs the wheels."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from page_commands import REPO, Block, blocks_of

PAGE = "docs/use/from-bmv2.md"
TEXT = (REPO / PAGE).read_text(encoding="utf-8")
PATIENCE_S = 240
BUILT = (REPO / "build" / "bin" / "weir-switch", REPO / "build" / "bin" / "weir-p4c")
MININET = re.compile(r"^pingall$", re.M)
FUNCTIONS = """
set -e
sudo() { "$@"; }
apt() { [ "$1" = install ]; }
pip() { [ "$*" = 'install weir_switch-*.whl weir-*.whl weirlab-*.whl' ]; }
make() { printf '%s\\n' "$MININET" | command make "$@"; }
mount -t sysfs sysfs /sys
ip link set lo up
"""
PYTHON = "import mininet.net, sys; mininet.net.Mininet.inited = True; exec(open(sys.argv[1]).read())"
"""Mininet would raise the machine's limits by sysctl."""


def blocks() -> list[Block]:
    here = f"tests/docs/{Path(__file__).name}"
    return [block for block in blocks_of(PAGE, TEXT) if block.marker and block.marker["test"] == here]


def tutorials(folder: Path) -> None:
    """A repository with one exercise in the tutorials' layout."""
    exercises = folder / "exercises"
    shutil.copytree(REPO / "tests" / "packet" / "exercises", exercises)
    basic = (exercises / "routing").rename(exercises / "basic")
    for file in basic.glob("*.json"):
        file.write_text(file.read_text().replace("build/routing.", "build/basic."))
    (basic / "solution").mkdir()
    (basic / "routing.p4").rename(basic / "solution" / "basic.p4")
    git = ["git", "-C", str(folder), "-c", "user.name=reader", "-c", "user.email=reader@example.org"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "exercises"], check=True)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables of a reader's shell."""
    if os.geteuid():
        pytest.skip("needs root, for Mininet")
    missing = [path.name for path in BUILT if not path.exists()]
    missing += [name for name in ("mnexec", "make", "ethtool", "git") if not shutil.which(name)]
    if missing:
        pytest.skip(f"not built or installed: {', '.join(missing)}")
    tutorials(tmp_path / "origin")
    (tmp_path / ".gitconfig").write_text(
        f'[url "{tmp_path}/origin"]\n\tinsteadOf = https://github.com/p4lang/tutorials\n'
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("weir", f"{sys.executable} -m weir.cli"), ("python3", os.path.realpath(sys.executable))):
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    packages = [REPO / "mininet", REPO / "controller", sysconfig.get_path("purelib")]
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "HOME": str(tmp_path),
        "PATH": f"{programs}:{BUILT[0].parent}:/usr/sbin:/sbin:/usr/bin:/bin",
        "PYTHONPATH": ":".join(map(str, packages)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "WEIR_ROOT": str(REPO),
    }


def test_the_lines_run_in_their_order(tmp_path: Path, environment: dict[str, str]) -> None:
    found = blocks()
    (typed,) = (block.text for block in found if MININET.search(block.text))
    lines = [block.text for block in found if not MININET.search(block.text)]
    assert len(lines) == 3
    python = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    (tmp_path / "two.py").write_text(python[0])
    script = tmp_path / "typed.sh"
    script.write_text(FUNCTIONS + "\n".join(lines) + f"\npython3 -c '{PYTHON}' ~/two.py\n")
    done = subprocess.run(
        ["unshare", "-nmpf", "--kill-child", "--mount-proc", "bash", str(script)],
        cwd=tmp_path, env=environment | {"MININET": typed}, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("Results: 0% dropped (6/6 received)") == 2
    assert done.stdout.count("10.0.3.0/24") == 2  # `weir p4 show`
    assert len(python) == 1
    assert "Error" not in done.stderr
