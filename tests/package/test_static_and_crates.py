# SPDX-License-Identifier: Apache-2.0
"""The static `weir-xdp`, in a root that holds nothing else, and the crate `weir-p4`, away from its workspace."""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from bare_debian import REPO, run_package

# $1: the root. A law on a veth from inside it: the shaper made, gains changed, all taken off again.
INSIDE = """
set -e
mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" && mount -t bpf bpf "$1/sys/fs/bpf"
mount -t tmpfs tmpfs "$1/run"
ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up
weir() { chroot "$1" /weir-xdp "${@:2}"; }
weir "$1" attach v0 --shape 95mbit >&2
weir "$1" set v0 target=4ms >&2
weir "$1" status v0 --json
tc qdisc show dev v0 >&2
weir "$1" detach v0 >&2
"""


def made(name, folder, *words):
    done = run_package(name, *words, "--out", folder)
    assert done.returncode == 0, done.stderr
    (path,) = map(Path, done.stdout.splitlines())
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for namespaces and chroot")
def test_a_law_from_one_file_alone(tmp_path):
    program = made("static", tmp_path)
    print(f"{program.name}: {program.stat().st_size} bytes")
    assert str(REPO).encode() not in program.read_bytes()
    root = tmp_path / "root"
    for name in ("proc", "sys", "run"):
        (root / name).mkdir(parents=True)
    shutil.copy(program, root / "weir-xdp")
    done = subprocess.run(
        ["unshare", "--mount", "--net", "bash", "-c", INSIDE, "bash", root], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gains"]["target_us"] == 4000
    assert " htb " in done.stderr


def emulator(folder):
    """qemu for programs of aarch64: of this machine, else unpacked."""
    if found := shutil.which("qemu-aarch64-static"):
        return found
    unpack = [REPO / "setup" / "unpack.sh", folder / "qemu", "qemu-user-static"]
    if subprocess.run(unpack, capture_output=True, check=False).returncode:
        pytest.skip("no qemu-user-static here")
    return folder / "qemu" / "usr" / "bin" / "qemu-aarch64-static"


def test_one_file_for_aarch64(tmp_path):
    """It needs no library, starts, has the commands of this machine's program and reads its command line."""
    program = made("static", tmp_path, "--arch", "aarch64")
    content = program.read_bytes()
    assert str(REPO).encode() not in content
    assert (content[:4], struct.unpack_from("<H", content, 18)) == (b"\x7fELF", (183,))  # EM_AARCH64
    assert b"/lib/ld-" not in content

    def run(*words):
        return subprocess.run([emulator(tmp_path), program, *words], capture_output=True, text=True, check=False)

    here = subprocess.run([REPO / "build" / "bin" / "weir-xdp", "--help"], capture_output=True, text=True, check=True)
    assert run("--help").stdout == here.stdout
    assert run("--version").returncode == 0
    assert run("attach", "lo", "--shape", "nothing").returncode == 2


def test_the_package_of_openwrt(tmp_path):
    """Its Makefile, with the variables that the SDK gives it, builds for aarch64 and installs program and script."""
    made("static", tmp_path, "--arch", "aarch64")  # the libraries
    sysroot, sdk = REPO / "build" / "sysroot-aarch64", Path(__file__).parent / "openwrt"
    clang = subprocess.run([REPO / "setup" / "llvm.sh", "clang"], capture_output=True, text=True, check=True)
    (toolchain := tmp_path / "toolchain").mkdir()
    (toolchain / "include").symlink_to(sysroot / "usr" / "include" / "aarch64-linux-gnu")
    variables = {
        "TOPDIR": sdk, "SYSROOT": sysroot, "TOOLCHAIN": toolchain, "CLANG": clang.stdout.strip(),
        "LLD": next(REPO.glob("build/lld-*/usr/lib/llvm-*/bin/ld.lld")),
        "MORE_OBJECTS": REPO / "build/xdp/static-aarch64/obj/static/glibc.o",
        "PKG_BUILD_DIR": tmp_path / "build", "DESTINATION": tmp_path / "root",
    }  # fmt: skip
    words = [f"{name}={value}" for name, value in variables.items()]
    make = ["make", "-s", "--no-print-directory", "-C", REPO / "xdp" / "openwrt", *words]
    needed = subprocess.run([*make, "dependencies"], capture_output=True, text=True, check=True).stdout.split()
    done = subprocess.run([*make, "all"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = tmp_path / "root" / "usr" / "sbin" / "weir-xdp"
    version = subprocess.run(
        [emulator(tmp_path), program, "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert version.split()[:2] == ["weir-xdp", needed[0]]
    assert {"+libelf", "+zlib", "+kmod-sched-core", "+kmod-sched-bpf"} <= set(needed)
    installed = tmp_path / "root" / "usr" / "lib" / "sqm"
    assert {path.name for path in installed.iterdir()} == {"weir.qos", "weir.qos.help"}


@pytest.mark.parametrize("words", [("weir", "--arch", "aarch64"), ("static", "--arch", "vax"), ("--arch", "aarch64")])
def test_other_processors_are_of_static_alone(words):
    assert run_package(*words).returncode == 2


def test_the_crate_compiles_away_from_its_workspace(tmp_path):
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed here")
    shutil.unpack_archive(made("crates", tmp_path), tmp_path, "gztar")
    (folder,) = tmp_path.glob("weir-p4-*/")
    done = subprocess.run(
        ["cargo", "check", "--lib", "--offline", "--locked", "--manifest-path", folder / "Cargo.toml"],
        env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
