# SPDX-License-Identifier: Apache-2.0
"""Progress of the set-up: on a terminal, without one, when a build fails, when it is stopped."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
# The command under watch says in a pipe that it is there and waits for a word in another, so that no time matters.
SCRIPT = f"""
set -euo pipefail
. {REPO}/setup/watched.sh
trap 'watched_stop; exit 130' INT
watched "step 1 of 2: a build" "$1/build.log" meter_cargo bash -c "$2" bash "$1"
"""
COUNTED = """
for n in 1 2 3 4; do printf '\\r    Building [=>   ] %d/8: crate%d' $n $n >&2; done
echo started; echo $$ >"$1/pid"; read -r _ <"$1/go"
"""


@pytest.fixture
def folder(tmp_path):
    os.mkfifo(tmp_path / "go")
    return tmp_path


def start(folder, command, **kwargs):
    words = ["bash", "-c", SCRIPT, "bash", folder, command]
    return subprocess.Popen(words, env={**os.environ, "WATCHED_EVERY_S": "0"}, **kwargs)


def read_until(stream, word):
    """Output up to a word. A stream that ends first fails the test."""
    seen = b""
    while word not in seen:
        more = os.read(stream, 1000)
        assert more, seen
        seen += more
    return seen


def go(folder):
    (folder / "go").write_text("go\n")


def test_without_a_terminal_it_writes_lines_and_no_word_of_the_compiler(folder):
    process = start(folder, COUNTED, stderr=subprocess.PIPE)
    said = read_until(process.stderr.fileno(), b"so far")
    go(folder)
    said += process.stderr.read()
    assert process.wait() == 0
    assert b"\r" not in said
    lines = said.decode().splitlines()
    assert lines[0] == "step 1 of 2: a build"
    assert "done in" in lines[-1]
    assert b"crate" not in said
    assert "crate4" in (folder / "build.log").read_text()
    assert "started" in (folder / "build.log").read_text()


def test_on_a_terminal_it_writes_one_line_over_and_over(folder):
    ours, its = pty.openpty()
    process = start(folder, COUNTED, stderr=its)
    os.close(its)
    said = read_until(ours, b"so far")
    go(folder)
    said += read_until(ours, b"done in")
    process.wait()
    os.close(ours)
    assert b"\n" not in said[: said.index(b"done in")].rstrip()
    assert said.count(b"\r\x1b[K") >= 2


@pytest.mark.parametrize(
    ("seconds", "part", "before", "said"),
    [
        (100, "", 0, "2 min so far"),
        (100, 500, 0, "2 min so far, 50 %, about 2 min left"),
        (40, 200, 0, "40 s so far, 20 %, about 3 min left"),
        (40, 960, 950, "40 s so far, 20 %, about 3 min left"),  # earlier parts are no pace
        (4, 500, 0, "4 s so far, 50 %"),  # too early to say
        (40, 10, 0, "40 s so far, 1 %"),
        (40, 950, 950, "40 s so far"),
        (40, 1000, 0, "40 s so far, 99 %, about 0 s left"),
    ],
)
def test_the_time_left_is_what_the_rest_takes_at_the_pace_so_far(seconds, part, before, said):
    words = [
        "bash",
        "-c",
        f'. {REPO}/setup/watched.sh; watched_words "$@"',
        "bash",
        str(seconds),
        str(part),
        str(before),
    ]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == said


@pytest.mark.parametrize(
    ("meter", "log", "told"),
    [
        ("meter_cargo", "   Compiling x\n    Building [=>  ] 3/4: x(build)\r    Building [=>  ] 30/120: y, z", "250\n"),
        ("meter_cargo", "   Compiling x\n", ""),
        ("CURVE=500:100,1000:1000 meter_cargo", "Building [ ] 50/100: x", "100\n"),
        ("CURVE=500:100,1000:1000 meter_cargo", "Building [ ] 75/100: x", "550\n"),
        ("meter_cargo", "\u2013" * 800 + "Building [ ] 50/100: x", "500\n"),  # cut within a character
        ("meter_apt", "dlstatus:1:20.0:Retrieving\n", "100\n"),
        ("meter_apt", "dlstatus:1:100:x\npmstatus:libc6:40.1:Unpacking\n", "700\n"),
        ("meter_apt", "Reading package lists...\n", ""),
        ("TOTAL=4 STARTS=Collecting meter_lines", "Collecting a\n  Downloading a\nCollecting b\n", "500\n"),
    ],
)
def test_meters_read_what_the_programs_write(tmp_path, meter, log, told):
    (tmp_path / "log").write_text(log)
    words = ["bash", "-euo", "pipefail", "-c", f". {REPO}/setup/watched.sh; {meter} {tmp_path}/log"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == told


def test_a_build_that_fails_shows_its_last_words_and_keeps_its_status(folder):
    process = start(
        folder, "for n in {1..100}; do echo line $n; done; echo error: no such crate >&2; exit 7", stderr=-1
    )
    _, said = process.communicate()
    assert process.returncode == 7
    lines = said.decode().splitlines()
    assert lines[-1] == "  | error: no such crate"
    assert f"the last lines of {folder}/build.log" in said.decode()
    assert 10 < len(lines) < 30


def test_a_stop_ends_what_was_started(folder):
    # A shell in the background may have had the signal ignored.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = start(folder, COUNTED, stderr=subprocess.PIPE, **heard)
    read_until(process.stderr.fileno(), b"so far")
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        pass
    pid = int((folder / "pid").read_text())
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


LANES = f"""
set -euo pipefail
. {REPO}/setup/watched.sh
. {REPO}/setup/lanes.sh
clean_up() {{ lanes_stop; watched_stop; }}
trap 'clean_up; exit 143' TERM
STEPS="one two three" folder=$1 number=0 total=3
declare -A AFTER=()
next_title() {{ number=$((number + 1)); title="weir: step $number of $total: $1"; }}
meter() {{ :; }}
build() {{ watched "$title" "$folder/$1.log" meter bash -c "$2"; }}
"""


def lanes(folder, script, **kwargs):
    words = ["bash", "-c", LANES + script, "bash", folder]
    return subprocess.Popen(words, stderr=subprocess.PIPE, env={**os.environ, "WATCHED_EVERY_S": "0"}, **kwargs)


def test_two_steps_run_at_once_and_a_third_after_the_one_that_it_needs(tmp_path):
    for name in ("ping", "pong"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "said.alone").touch()  # of a set-up that was killed
    process = lanes(
        tmp_path,
        """
        one() { build one "echo there >$folder/ping; read -r _ <$folder/pong; touch $folder/one"; }
        two() { build two "read -r _ <$folder/ping; echo there >$folder/pong"; }
        three() { build three "test -e $folder/one"; }
        AFTER[three]=one
        lanes "$folder/said" 2 three one two
        """,
    )
    _, said = process.communicate()
    assert process.returncode == 0, said
    lines = said.decode().splitlines()
    started = [line for line in lines if re.fullmatch(r"weir: step \d of 3: \w+", line)]
    assert started[-1] == "weir: step 3 of 3: three"
    assert sorted(line.split()[-1] for line in started) == ["one", "three", "two"]
    assert len([line for line in lines if "done in" in line]) == 3
    assert not list(tmp_path.glob("said*"))


def test_a_step_that_fails_stops_the_others(tmp_path):
    os.mkfifo(tmp_path / "never")
    process = lanes(
        tmp_path,
        """
        one() { build one "echo \\$\\$ >$folder/pid; read -r _ <$folder/never"; }
        two() { build two "until [ -s $folder/pid ]; do :; done; echo no disk >&2; exit 7"; }
        lanes "$folder/said" 2 one two
        """,
    )
    _, said = process.communicate()
    assert process.returncode == 7
    assert b"  | no disk" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not list(tmp_path.glob("said*"))


def test_a_stop_ends_all_steps_and_what_they_are_at_can_be_read(tmp_path):
    os.mkfifo(tmp_path / "never")
    process = lanes(
        tmp_path,
        """
        one() { build one "echo \\$\\$ >$folder/pid1; read -r _ <$folder/never"; }
        two() { build two "echo \\$\\$ >$folder/pid2; read -r _ <$folder/never"; }
        lanes "$folder/said" 2 one two
        """,
    )
    pids = [tmp_path / "pid1", tmp_path / "pid2"]
    while not all(path.exists() and path.read_text() for path in pids):
        pass
    said = tmp_path / "said"
    while not (said.exists() and re.search("step 1: .* so far; step 2: .* so far", said.read_text())):
        pass
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    for path in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)
    assert not list(tmp_path.glob("said*"))


def test_while_a_step_measures_the_others_stand_still(tmp_path):
    process = lanes(
        tmp_path,
        """
        one() { build one "until [ -e $folder/looked ]; do sleep 0.01; done"; }
        two() { until pgrep --runstates T -f "$folder" >/dev/null; do sleep 0.01; done; touch $folder/looked; }
        three() { [ -e $folder/looked ]; }
        AFTER[three]=two ALONE=two
        lanes "$folder/said" 2 one two three
        """,
    )
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert b"step 1 of 3: one: done in" in said
