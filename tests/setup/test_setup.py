# SPDX-License-Identifier: Apache-2.0
"""Checks by ./run before it starts: under sudo's PATH, without compilers, without packages, as root in somebody else's
clone. On a copy of this clone and of its build folder."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SUDOS_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SOURCES = (
    "run",
    "setup",
    "mininet/kernels",
    "mininet/tools",
    "xdp",
    "quic-client",
    "icn",
    "p4/switch",
    "controller/weir",
    "controller/profiles",
)
BUILT = ("cargo/release/weir-client", "cargo/release/weir-server", "cargo/release/weir-icn",
         "cargo-p4/release/weir-switch", "cargo-p4/release/weir-stf", "cargo-p4/release/weir-corpus",
         "cargo-p4/release/weir-frames", "cargo-p4/release/weir-p4c")  # fmt: skip
NOBODY = 65534
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")


@pytest.fixture(scope="session")
def built():
    """This clone's build, up to date."""
    done = subprocess.run(
        [REPO / "setup" / "install.sh", "python", "rust", "p4", "xdp", "lab_tools"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"nothing to test on: {done.stderr.strip().splitlines()[-1]}")
    return REPO / "build"


@pytest.fixture(scope="module")
def copied(built):
    """A copy that any user may read, with the programs but without any folder for a compiler to go on from."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = Path(folder) / "clone"
        copy.mkdir()
        for name in BUILT:
            (copy / "build" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(built / name, copy / "build" / name)
        shutil.copytree(built / "bin", copy / "build" / "bin", symlinks=True)
        yield copy


@pytest.fixture
def clone(copied, built, tmp_path_factory):
    """Fresh copy of the clone; changes by a test go no farther. The programs are too large to be copied for each test:
    a test that changes one puts it back."""
    subprocess.run(["chown", "-R", "-h", f"{os.geteuid()}:{os.getegid()}", copied], check=True)
    for name in ("controller", "mininet"):
        shutil.rmtree(copied / name, ignore_errors=True)
    for name in SOURCES:
        if (REPO / name).is_dir():
            shutil.rmtree(copied / name, ignore_errors=True)
            leave_out = shutil.ignore_patterns("target", "__pycache__", "tests")
            shutil.copytree(REPO / name, copied / name, symlinks=True, ignore=leave_out)
        else:
            shutil.copy2(REPO / name, copied / name)
    subprocess.run(["rm", "-rf", copied / "build" / "venv"], check=True)
    (copied / "build" / "venv").symlink_to(built / "venv")
    for name in ("stamps", "xdp", "lab"):
        shutil.rmtree(copied / "build" / name, ignore_errors=True)
        shutil.copytree(built / name, copied / "build" / name)
    for name in ("bin", "empty", "home", "users"):
        shutil.rmtree(copied.parent / name, ignore_errors=True)
    return copied


def call(clone, *words, path=SUDOS_PATH, user=None, **more):
    """`./run` as sudo starts it: no Rust on PATH, another home, no terminal to ask at."""
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    environment = {"PATH": path, "HOME": str(clone.parent), "LANG": "C.UTF-8", **more}
    return subprocess.run(
        [*become, clone / "run", *words], env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, start_new_session=True,
    )  # fmt: skip


def without_rust(clone):
    """A PATH on which there is all but cargo."""
    if not shutil.which("cargo", path=SUDOS_PATH):
        return SUDOS_PATH
    folder = clone.parent / "bin"
    folder.mkdir()
    for place in reversed(SUDOS_PATH.split(":")):
        for program in Path(place).iterdir():
            if program.name != "cargo" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def no_packages(clone):
    """A PATH whose dpkg-query knows of no package, and without sudo."""
    folder = clone.parent / "empty"
    folder.mkdir()
    for name in ("dpkg-query", "sudo"):
        (folder / name).write_text(f"#!/bin/sh\nexit {int(name == 'sudo')}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{without_rust(clone)}"


def test_clean_keeps_finished_runs_of_the_evaluation(tmp_path):
    """They take hours, and each is held against its key before it is used again."""
    copy = tmp_path / "clone"
    copy.mkdir()
    shutil.copy2(REPO / "run", copy)
    shutil.copytree(REPO / "setup", copy / "setup")
    finished = copy / "build" / "evaluation" / "a" / "run.json"
    cached = tmp_path / "cache" / "weir" / "kernel-exact"
    for file in (finished, cached, copy / "build" / "bin" / "weir-client", copy / "build" / ".hidden"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("made\n")
    (copy / "build" / "xdp").symlink_to(tmp_path / "cache")

    def clean(*words):
        done = call(copy, "clean", *words, WEIR_CACHE_HOME=str(tmp_path / "cache"))
        assert (done.returncode, done.stderr) == (0, "")

    clean()
    assert [path.name for path in (copy / "build").iterdir()] == ["evaluation"]
    assert (finished.read_text(), cached.read_text()) == ("made\n", "made\n")
    clean("--all")
    assert not (copy / "build").exists()
    assert not cached.exists()
    clean()  # nothing to remove


@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("-h", 0), ("nonsense", 2)])
def test_generate_with_an_argument_writes_nothing(tmp_path, word, status):
    copy = tmp_path / "clone"
    copy.mkdir()
    shutil.copy2(REPO / "run", copy)
    shutil.copytree(REPO / "setup", copy / "setup")
    done = call(copy, "generate", word)
    assert done.returncode == status
    assert done.stdout.startswith("usage: ./run generate") == (status == 0)
    assert sorted(path.name for path in copy.iterdir()) == ["run", "setup"]


COMMANDS = [
    ("aqm", "--help"),
    ("switch", "--help"),
    ("stf", "--help"),
    ("p4-corpus", "--help"),
    ("client", "--help"),
    ("server", "--help"),
    ("weir", "tune", "--help"),
    ("weir", "p4", "deploy", "--help"),
    ("weir", "model", "margins", "--capacity-mbit-s", "10", "--rtt-ms", "100", "--flows", "10"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_built_runs_where_there_is_no_compiler(clone, words):
    done = call(clone, *words, path=without_rust(clone))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@NEEDS_ROOT
def test_what_is_built_runs_where_the_clone_is_another_users(clone):
    done = call(clone, "client", "--help", path=without_rust(clone), user=NOBODY)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "source"),
    [
        (("client", "--help"), "quic-client/core/src/lib.rs"),
        (("switch", "--help"), "p4/switch/weir-p4/src/lib.rs"),
        (("stf", "--help"), "p4/switch/weir-p4/p4runtime.fds"),
    ],
)
def test_changed_sources_without_rust_are_said_and_nothing_old_is_run(clone, words, source):
    with open(clone / source, "a") as file:
        file.write("\n")
    os.utime(clone / source, (0, 0))  # times tell nothing
    done = call(clone, *words, path=without_rust(clone))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Rust is missing" in done.stderr
    assert "are not those that they were built from" in done.stderr
    assert "without sudo" in done.stderr


def test_a_program_that_was_built_by_hand_is_not_taken_for_ours(clone):
    program = clone / "build" / "cargo" / "release" / "weir-client"
    times = program.stat()
    program.touch()
    done = call(clone, "client", "--help", path=without_rust(clone))
    os.utime(program, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Rust is missing" in done.stderr


@pytest.mark.parametrize("place", ["home", "login shell"])
def test_rust_is_found_where_it_is_though_not_on_path(clone, place):
    """With a cargo that says it was called: what it would build is another test's."""
    with open(clone / "quic-client/core/src/lib.rs", "a") as file:
        file.write("\n")
    home = clone.parent / "home"
    folder = home / (".cargo/bin" if place != "login shell" else "opt")
    folder.mkdir(parents=True)
    (folder / "cargo").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo cargo 9.9.9 && exit\necho called >&2; exit 9\n'
    )
    (folder / "cargo").chmod(0o755)
    (home / ".profile").write_text(f"PATH={folder}:$PATH\n" if place == "login shell" else "")
    done = call(clone, "client", "--help", path=without_rust(clone), HOME=str(home))
    assert done.returncode == 1
    assert "called" in done.stderr  # by this cargo


def test_root_takes_no_cargo_of_the_user_who_called_sudo(tmp_path):
    """Unless the clone is that user's: a program of another user would run with root's rights."""
    home, users, clone = tmp_path / "home", tmp_path / "bin", tmp_path / "clone"
    cargo = home / ".cargo/bin/cargo"
    for folder in (cargo.parent, users, clone):
        folder.mkdir(parents=True)
    cargo.write_text("#!/bin/sh\n")
    (users / "getent").write_text(
        f"#!/bin/sh\n[ $2 = somebody ] && echo somebody:x:7:7::{home}:/bin/sh || echo root:x:0:0::{clone}:/bin/sh\n"
    )
    for program in ("cut", "id", "stat"):
        (users / program).symlink_to(shutil.which(program))
    for program in (cargo, users / "getent"):
        program.chmod(0o755)
    script = f"root={clone}; . {REPO}/setup/owner.sh; find_cargo; command -v cargo || echo none"

    def found(**more):
        return subprocess.run(
            [shutil.which("bash"), "-c", script], env={"PATH": str(users), "HOME": str(clone), **more},
            capture_output=True, text=True, check=False,
        ).stdout.split()[-1]  # fmt: skip

    assert found(SUDO_USER="somebody") != str(cargo)
    assert found(HOME=str(home)) == str(cargo)


@NEEDS_ROOT
def test_all_that_a_machine_lacks_is_one_list_before_anything_is_done(clone):
    """An old Rust, a full disk, no ptrace and no packages: a line for each."""
    for name in ("stamps", "venv"):
        subprocess.run(["rm", "-rf", clone / "build" / name], check=True)
    path = no_packages(clone)
    tools = clone.parent / "empty"
    rust = clone.parent / "home" / ".cargo" / "bin"
    rust.mkdir(parents=True)
    probe = clone / "mininet" / "weirlab" / "lab" / "machine.py"
    probe.parent.mkdir(parents=True, exist_ok=True)
    probe.write_text("import sys\nsys.exit('no ptrace')\n")
    for place, name, text in (
        (rust, "cargo", "echo cargo 1.1.1"),
        (tools, "df", "printf 'head\\n/dev/a 9 9 77 9%% /\\n'"),
        (tools, "cc", "exit 9"),
    ):
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    before = sorted((clone / "build").rglob("*"))
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", clone, clone.parent / "home"], check=True)
    done = call(clone, "demo", path=path, user=NOBODY, HOME=str(clone.parent / "home"))
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("  ")]
    marks = ("1.1.1", "77 MiB", "no ptrace", "mininet")
    assert [[mark for mark in marks if mark in line] for line in lines] == [[mark] for mark in marks], done.stderr
    assert [path for path in sorted((clone / "build").rglob("*")) if "setup" not in path.name] == before


def venv_for_all(clone):
    """A Python environment that any user may enter, though this clone may lie where only its user may. There are no
    packages in it, so it does for what imports none."""
    venv = clone / "build" / "venv"
    venv.unlink()
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/usr/bin/python3")
    shutil.copy2(clone / "setup" / "requirements.txt", venv / "weir-lock")


def wanted(done):
    """The packages that a refusal lists."""
    assert done.returncode == 1, done.stderr
    return set(done.stderr.splitlines()[-1].rpartition("--no-install-recommends ")[2].split())


@NEEDS_ROOT
def test_each_command_asks_for_its_own_packages_only(clone):
    venv_for_all(clone)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", clone], check=True)
    path = no_packages(clone)

    def asked(*words):
        return wanted(call(clone, *words, path=path, user=NOBODY))

    assert asked("aqm", "--help") == {"iproute2"}  # it is built: no compiler
    assert asked("client", "--help") == {"ca-certificates"}
    assert "mininet" in asked("lab", "--", "true")
    assert "user-mode-linux" not in asked("lab", "--", "true")
    assert "user-mode-linux" in asked("lab", "--kernel", "packaged", "--", "true")
    assert {"shellcheck", "iproute2", "user-mode-linux"} < asked("test")
    assert call(clone, "switch", "--help", path=path, user=NOBODY).returncode == 0
    assert call(clone, "weir", "tune", "--help", path=path, user=NOBODY).returncode == 0
    shutil.rmtree(clone / "build" / "stamps")
    aqm = asked("aqm", "--help")
    assert {"iproute2", "libbpf-dev"} < aqm
    assert any(name.startswith("clang-") for name in aqm)
    assert not {"linux-source-6.12", "mininet", "cmake", "python3-venv"} & aqm
    switch = asked("switch", "--help")
    assert not any(name.startswith(("clang-", "mininet")) for name in switch)


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("status", "aqm xdp"),
        ("status --json", "aqm xdp"),
        ("status --bpf eth0 --p4 h:1", "aqm xdp"),
        ("status --p4 h:1", ""),
        ("status --fleet fleet.toml", "aqm xdp p4"),
        ("gains", "aqm xdp"),
        ("gains --p4 h:1 --port 2", ""),
        ("gains --help", ""),
        ("watch --text", "aqm xdp"),
        ("watch --p4 h:1", ""),
        ("watch --from FILE", ""),
        ("top", "aqm xdp"),
        ("tune --bpf all", "aqm xdp"),
        ("p4 deploy --config s1.toml", "p4"),
        ("p4 deploy --config s1.toml --p4info x --device-config y", ""),
        ("p4 deploy --switch bmv2 --config s1.toml", ""),
        ("p4 show --p4 h:1", ""),
        ("p4 digests", ""),
        ("switch deploy --config s1.toml", "p4"),
        ("switch watch", ""),
        ("model margins", ""),
        ("", ""),
    ],
)
def test_what_a_weir_command_needs_beside_python(words, needs):
    function = re.search(r"^weir_needs\(\) \{$.*?^\}$", (REPO / "run").read_text(), re.MULTILINE | re.DOTALL)
    command = ["bash", "-euc", f'{function[0]}\nweir_needs "$@"', "run", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == needs


@pytest.mark.parametrize("words", [("--from", "FILE"), ("--from=FILE",)], ids=" ".join)
@pytest.mark.parametrize("room", ["top", "watch"])
def test_what_reads_a_file_builds_no_ebpf_tools(clone, room, words):
    shutil.rmtree(clone / "build" / "stamps")
    missing = clone.parent / "no-such-recording"
    words = [word.replace("FILE", str(missing)) for word in words]
    done = call(clone, "weir", room, *words, path=no_packages(clone))
    assert str(missing) in done.stderr
    assert "--no-install-recommends" not in done.stderr
    assert "step" not in done.stderr


def test_a_page_drawn_again_from_its_files_builds_no_stacks(clone, tmp_path):
    shutil.rmtree(clone / "build" / "stamps")
    for name in ("controller", "mininet"):
        leave_out = shutil.ignore_patterns("target", "__pycache__", "tests")
        shutil.rmtree(clone / name)
        shutil.copytree(REPO / name, clone / name, symlinks=True, ignore=leave_out)
    out = tmp_path / "out"
    done = call(clone, "evaluate", "--suite", "cc", "--from", REPO / "docs/results/cc", "--out", out)
    assert done.returncode == 0, done.stderr
    assert (out / "cc.html").exists()
    assert "step" not in done.stderr


def test_a_path_with_a_space_is_refused_before_anything_is_built(tmp_path):
    copy = tmp_path / "a clone"
    copy.mkdir()
    shutil.copy2(REPO / "run", copy)
    shutil.copytree(REPO / "setup", copy / "setup")
    done = call(copy, "aqm", "--help")
    assert done.returncode == 1
    assert "space" in done.stderr
    assert str(copy) in done.stderr
    assert not (copy / "build").exists()


def test_a_test_that_can_be_skipped_keeps_nobody_from_the_others(tmp_path):
    """Prometheus, which only the tests of the board need, can't be had: no network, another distribution."""
    shutil.copytree(REPO / "setup", tmp_path / "clone" / "setup")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apt-get").write_text("#!/bin/sh\necho no network >&2\nexit 100\n")
    (tmp_path / "bin" / "apt-get").chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:{SUDOS_PATH}", "HOME": str(tmp_path)}
    words = [tmp_path / "clone" / "setup" / "install.sh", "prometheus"]
    for _ in range(2):  # it is tried again
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "no network" in done.stderr
        assert "tests that need it are skipped" in done.stderr
        assert not (tmp_path / "clone" / "build" / "prometheus").exists()


@pytest.mark.parametrize("status", [0, 1, None], ids=["built", "go fails", "no go"])
def test_peers_on_quic_go_are_built_once_and_can_be_skipped(tmp_path, status):
    """Go is there, is too old or has no network, or is missing."""
    clone = tmp_path / "clone"
    shutil.copytree(REPO / "setup", clone / "setup")
    shutil.copytree(REPO / "tests" / "quic" / "quicgo", clone / "tests" / "quic" / "quicgo")
    (tmp_path / "bin").mkdir()
    if status is not None:
        (tmp_path / "bin" / "go").write_text(f'#!/bin/sh\necho >>"{tmp_path}/calls"\ntouch "$3"\nexit {status}\n')
        (tmp_path / "bin" / "go").chmod(0o755)
    elif shutil.which("go", path=SUDOS_PATH):
        pytest.skip("Go is installed for all users")
    environment = {"PATH": f"{tmp_path}/bin:{SUDOS_PATH}", "HOME": str(tmp_path)}
    for _ in range(2):
        words = [clone / "setup" / "install.sh", "go_peers"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    calls = len((tmp_path / "calls").read_text()) if status is not None else 0
    assert calls == {0: 4, 1: 2, None: 0}[status], "four programs once; a failure is tried again"
    assert (clone / "build" / "stamps" / "go_peers").exists() == (status == 0)


@NEEDS_ROOT
def test_what_root_builds_in_a_users_clone_is_the_users(clone):
    """sudo ./run of a clone's owner: the owner's later ./run must find nothing that is root's."""
    shutil.rmtree(clone / "build" / "lab")
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", clone], check=True)
    install = [clone / "setup" / "install.sh", "lab_tools"]
    environment = {"PATH": SUDOS_PATH, "HOME": "/root"}
    done = subprocess.run(install, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "step 1 of 1" in done.stderr
    made = [clone / "build" / "lab" / "weir-traffic", clone / "build" / "lab_tools.log", clone / "build" / "setup.lock"]
    assert all(path.exists() for path in made)
    found = subprocess.run(["find", clone, "-uid", "0"], capture_output=True, text=True, check=True).stdout
    assert found == ""
    with open(clone / "mininet" / "tools" / "weir-traffic.c", "a") as file:
        file.write("\n")
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    subprocess.run([*user, *install], env={"PATH": SUDOS_PATH, "HOME": "/tmp"}, capture_output=True, check=True)
