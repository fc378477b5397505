# SPDX-License-Identifier: Apache-2.0
"""The README's lines that bring one file to three receivers by name, run as they stand there; and what the command
behind them leaves when it is interrupted or called wrongly."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from names_net import OVERHEAD_BYTES, PROGRAM, SEGMENT_BYTES
from p4_rig import BMV2, EMBEDDED
from packet_rig import REPO, until

SCRIPT = "mininet/examples/one_to_three.sh"
RECEIVERS = 3


def readme_lines() -> list[str]:
    """Of the block of commands in README.md that has the script; without `sudo`, since tests are root."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (REPO / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (block,) = (block for block in blocks if SCRIPT in block)
    return [line.split("#")[0].strip().removeprefix("sudo ") for line in block.splitlines()]


def is_of(line: str, kind: str) -> bool:
    """Whether a line of the README is for this kind of switch. Only the script's lines are for one."""
    return SCRIPT not in line or ("--bmv2" in line) == (kind == BMV2)


@pytest.fixture
def clone(tmp_path, target, monkeypatch) -> Path:
    """Where the README's lines can be run: files that they make are beside the clone's, and not in it. A test builds
    nothing."""
    monkeypatch.setenv("WEIR_BUILT", "1")
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built; ./run test builds it")
    (tmp_path / "mininet").symlink_to(REPO / "mininet")
    return tmp_path


def test_the_readmes_lines_bring_three_copies_for_one(clone, target):
    lines = [line for line in readme_lines() if is_of(line, target)]
    (command,) = (line for line in lines if SCRIPT in line)
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines)], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name, folder = command.split()[-2:]
    content = (clone / name).read_bytes()
    assert len(content) > 1_000_000
    for number in range(1, 1 + RECEIVERS):
        assert (clone / folder / str(number) / name).read_bytes() == content
    said = re.search(r"the file has (\d+) bytes; the publisher sent (\d+) for all three", done.stdout)
    assert int(said[1]) == len(content)
    copy = len(content) + len(content) / SEGMENT_BYTES * OVERHEAD_BYTES
    assert copy < int(said[2]) < 2 * copy, "three receivers share what is sent"
    counts = dict(re.findall(r"^ (\w+) +(\d+) *$", done.stdout, re.MULTILINE))
    assert int(counts["interests_joined"]) > len(content) / SEGMENT_BYTES, "the switch makes one Interest of several"


def listed(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def own_links() -> set[str]:
    """Interfaces of this machine with a name that the script uses in its namespaces."""
    names = (line.split()[0].split("@")[0] for line in listed("ip", "-br", "link").splitlines())
    return {name for name in names if re.fullmatch(r"s[1-4]", name)}


def left_by(process: subprocess.Popen) -> list[str]:
    """Processes whose group is that of an ended one."""
    return [line for line in listed("ps", "-eo", "pgid=,args=").splitlines() if line.split()[0] == str(process.pid)]


def test_an_interrupted_one_leaves_nothing(clone, target):
    (clone / "film").write_bytes(os.urandom(20_000_000))
    temporary = clone / "temporary"
    temporary.mkdir()
    words = [SCRIPT, *(["--bmv2"] if target == BMV2 else []), "film", "received"]
    env = {**os.environ, "TMPDIR": str(temporary)}
    before = own_links()
    with subprocess.Popen(words, cwd=clone, env=env, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        parts = [clone / "received" / str(number) / "film.part" for number in range(1, 1 + RECEIVERS)]
        until(lambda: process.poll() is not None or all(part.exists() for part in parts), "a part of each", 180)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    assert process.returncode == 128 + signal.SIGINT
    assert not left_by(process)
    assert not list(temporary.iterdir())
    assert own_links() == before
    assert "receiver1" not in listed("ip", "netns", "list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["film"], "usage"),
        (["none", "received"], "none: is no file that can be read"),
        (["--bmw2", "film", "received"], "unknown option '--bmw2'"),
        ([".film", "received"], "rename the file"),
        (["film", "there"], "is there already"),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_made(tmp_path, words, said):
    if os.geteuid():
        pytest.skip("needs root: without it that is what is said")
    for file in (tmp_path / "film", tmp_path / ".film", tmp_path / "there" / "2" / "film"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"content")
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run([REPO / SCRIPT, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_both_kinds_of_switch_stand_in_the_readme():
    scripts = [line for line in readme_lines() if SCRIPT in line]
    assert [[is_of(line, kind) for kind in (EMBEDDED, BMV2)] for line in scripts] == [[True, False], [False, True]]
