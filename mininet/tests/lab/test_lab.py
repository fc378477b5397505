# SPDX-License-Identifier: Apache-2.0
"""Labs are booted for real; what is asserted is what a user of `./run lab` relies on."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from weirlab import paths
from weirlab.lab.kernels import LABS, TIMEOUT_STATUS, Job, LabError, folders_in_tmp, open_lab, own_processor

pytestmark = pytest.mark.lab

REPO = paths.clone()


def shell(text: str, folder: Path, **kwargs) -> Job:
    return Job(["bash", "-c", text], folder, wall_limit_s=kwargs.pop("wall_limit_s", 120), **kwargs)


def test_status_output_and_files_come_back(exact, tmp_path):
    result = exact.run(shell("echo out; echo err >&2; echo kept > $WEIR_OUT/file; exit 7", tmp_path))
    assert (result.status, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    assert (tmp_path / "file").read_text() == "kept\n"


def test_labs_do_not_share_a_processor_that_they_are_kept_on(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    processors = os.sched_getaffinity(0)
    with ExitStack() as labs:
        words = [labs.enter_context(own_processor()) for _ in range(len(processors) + 1)]
    kept = [int(last) for *_, last in filter(None, words)]
    assert len(kept) == len(set(kept))
    assert set(kept) <= processors
    assert [] in words


def test_a_lab_may_use_every_processor_of_a_crowded_machine(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    with own_processor() as words:
        assert words == []


RANDOM_RUN = """
set -e
head -c 32 /dev/urandom | od -An -tx1
ip netns add n; ip link add va type veth peer name vb netns n
ip addr add 10.0.0.1/24 dev va; ip link set va up; ip -n n addr add 10.0.0.2/24 dev vb; ip -n n link set vb up
tc qdisc add dev va root netem delay 20ms 5ms loss 20%
ping -c 30 -i 0.1 10.0.0.2
date +%s.%N
"""


def test_a_seed_names_a_run_to_the_byte(exact, tmp_path):
    once, again, other = (
        exact.run(shell(RANDOM_RUN, tmp_path / name, seed=seed)) for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert b"30 packets transmitted" in once.stdout
    assert once.stdout == again.stdout
    assert once.stdout != other.stdout


def test_sleeping_takes_the_labs_time_only(exact, tmp_path):
    result = exact.run(shell("sleep 5000", tmp_path, wall_limit_s=60, virtual_limit_s=6000))
    assert result.status == 0
    assert result.virtual_s == pytest.approx(5000, abs=0.1)


def test_virtual_limit_stops_the_command(exact, tmp_path):
    result = exact.run(shell("sleep 5000", tmp_path, virtual_limit_s=10))
    assert result.status == TIMEOUT_STATUS
    assert result.virtual_s < 20


def test_wall_limit_stops_a_lab_that_spins(exact, tmp_path):
    with pytest.raises(LabError, match="over its wall limit of 2 s"):
        exact.run(shell("while :; do :; done", tmp_path, wall_limit_s=2))


def test_waiting_on_the_clock_ends_and_reading_it_takes_no_time(exact, tmp_path):
    wait = """
from time import monotonic_ns as now
began = now()
print(now() - began)
while now() < began + 10**6: pass
"""
    result = exact.run(Job(["python3", "-c", wait], tmp_path, wall_limit_s=120))
    assert (result.status, result.stdout) == (0, b"0\n"), result.stderr
    # A program that tries for a file again and again lets time pass too, and with it the program that makes the file.
    again = "(sleep 0.001; touch /tmp/made) & while [ ! -e /tmp/made ]; do :; done; echo found"
    assert exact.run(shell(again, tmp_path)).stdout == b"found\n"


def test_the_machine_is_read_only_but_for_the_runs_folder(exact, tmp_path):
    target = REPO / "build" / f"written-by-the-lab-{os.getpid()}"
    result = exact.run(shell(f"touch {target} /etc/written || true; touch /tmp/x /run/x $WEIR_OUT/x", tmp_path))
    assert result.status == 0
    assert result.stderr.count(b"Read-only file system") == 2
    assert not target.exists()
    assert not Path("/etc/written").exists()
    assert (tmp_path / "x").exists()


def test_several_labs_at_once(exact, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: exact.run(shell(f"sleep 3; echo {i}", tmp_path / str(i))), range(4)))
    assert [result.stdout for result in results] == [f"{i}\n".encode() for i in range(4)]


def test_programs_and_libraries_of_a_job_below_tmp_are_found(exact, tmp_path):
    program = tmp_path / "bmv2" / "bin" / "simple_switch_grpc"
    (tmp_path / "bmv2" / "share").mkdir(parents=True)
    (tmp_path / "bmv2" / "share" / "text").write_text("seen\n")
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nexec cat "$(dirname "$0")/../share/text"\n')
    program.chmod(0o755)
    environment = {"PATH": f"/usr/bin:/bin:{program.parent}"}
    result = exact.run(shell("simple_switch_grpc", tmp_path / "run", environment=environment))
    assert result.stdout == b"seen\n", result.stderr


def test_folders_of_variables_are_those_below_tmp():
    variables = {"PATH": "/usr/bin:/tmp/a/bin:/tmp/bin:/tmp/b/tools", "LD_LIBRARY_PATH": "/tmp/a/lib:/opt/lib:"}
    assert folders_in_tmp(variables) == [Path("/tmp/a"), Path("/tmp/bin"), Path("/tmp/b/tools")]


def test_a_working_folder_below_tmp_is_seen(exact, tmp_path):
    (tmp_path / "here").write_text("seen\n")
    result = exact.run(Job(["cat", "here"], tmp_path / "run", directory=tmp_path, wall_limit_s=60))
    assert result.stdout == b"seen\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_no_root_is_needed(exact, tmp_path):
    # A user of ours without rights, who has the kernel in a cache of his own.
    home = Path("/var/tmp") / f"weir-test-{os.getpid()}"
    home.mkdir(mode=0o755)
    try:
        shutil.copytree(exact.folder, home / "weir" / exact.folder.name)
        program = (
            "from pathlib import Path; from weirlab.lab.kernels import *\n"
            f"job = Job(['id', '-u'], Path({str(home / 'job')!r}), wall_limit_s=60, directory=Path('/'))\n"
            "r = ExactLab().run(job)\n"
            "print(r.status, r.stdout)"
        )
        os.chown(home, 65534, 65534)
        readable = home / "mininet"
        shutil.copytree(REPO / "mininet", readable, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REPO / "run", home)
        shutil.copytree(REPO / "setup", home / "setup")
        subprocess.run(["chown", "-R", "65534:65534", home], check=True)
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", program],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(readable),
                "XDG_CACHE_HOME": str(home),
                "HOME": str(home),
            },
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "0 b'0\\n'\n", done.stderr
    finally:
        shutil.rmtree(home)


def test_packaged_boots_and_loads_modules(tmp_path):
    try:
        lab = open_lab("packaged")
    except LabError as error:
        pytest.skip(str(error))
    result = lab.run(
        shell("ip link add dum type dummy && tc qdisc add dev dum root pie && tc qdisc show dev dum", tmp_path)
    )
    assert result.status == 0, result.stderr
    assert b"qdisc pie" in result.stdout


def test_a_lab_runs_where_dev_shm_has_no_room_for_its_memory():
    private = ["unshare", "-m", *([] if os.geteuid() == 0 else ["-Ur"])]
    if subprocess.run([*private, "true"], check=False).returncode:
        pytest.skip("this machine gives no private mounts to this user")
    try:
        open_lab("packaged").binary()
    except LabError as error:
        pytest.skip(str(error))
    lab = f"exec {sys.executable} -m weirlab.cli lab --kernel packaged -- true"
    done = subprocess.run(
        [*private, "sh", "-c", f"mount -t tmpfs -o size=8M shm /dev/shm && {lab}"],
        env={**os.environ, "PYTHONPATH": paths.import_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_host_is_private(tmp_path):
    if subprocess.run(["unshare", "-nmpf", *([] if os.geteuid() == 0 else ["-Ur"]), "true"], check=False).returncode:
        pytest.skip("this machine gives no private namespaces to this user")
    result = open_lab("host").run(shell("ip -br link; ip link add v0 type veth && exit 3", tmp_path))
    assert result.status == 3, result.stderr
    assert result.stdout.split()[0] == b"lo"
    assert len(result.stdout.splitlines()) == 1


def test_unknown_kernel_and_bad_limits_are_said():
    with pytest.raises(LabError, match="unknown kernel 'vax'; choose one of exact, packaged, host"):
        open_lab("vax")
    with pytest.raises(LabError, match="no command given"):
        Job([], Path("x"))
    with pytest.raises(LabError, match="a time limit must be above 0 s"):
        Job(["true"], Path("x"), wall_limit_s=0)
    with pytest.raises(LabError, match="out of range"):
        Job(["true"], Path("x"), seed=-1)


@pytest.mark.parametrize("kernel", LABS)
def test_run_lab_passes_output_and_status_through(kernel):
    try:
        open_lab(kernel)
    except LabError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "weirlab.cli", "lab", "--kernel", kernel, "--", "bash", "-c", "echo hello; exit 5"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths.import_path()},
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 1 and ("kernel is missing" in done.stderr or "not built yet" in done.stderr):
        pytest.skip(done.stderr.strip())
    assert done.stdout == "hello\n"
    assert done.returncode == 5
    assert f"lab {kernel}: status 5" in done.stderr


def test_what_a_command_leaves_is_kept_where_it_is_told(exact, tmp_path):
    command = [
        sys.executable,
        "-m",
        "weirlab.cli",
        "lab",
        "--out",
        str(tmp_path),
        "--",
        "sh",
        "-c",
        "pwd > $WEIR_OUT/f",
    ]
    environment = {**os.environ, "PYTHONPATH": paths.import_path()}
    subprocess.run(command, env=environment, cwd=REPO, capture_output=True, check=True)
    assert (tmp_path / "f").read_text() == f"{REPO}\n"
