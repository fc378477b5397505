# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with another kernel, for kernel features that the running one lacks.

`WEIR_VM_KERNEL` is a folder /lib/modules/VERSION, or a copy of one, with `vmlinuz` in it (of Debian 13, the packages
linux-binary-VERSION and linux-modules-VERSION, unpacked). The machine has an initramfs with BusyBox and programs of
this one, and counts time by instructions: a busy host changes nothing.
"""

import lzma
import os
import shutil
import subprocess
from pathlib import Path, PurePosixPath

_NEEDED = ("qemu-system-x86_64", "busybox", "ip", "tc", "ping", "bpftool")
_PATH = f"/usr/sbin:/sbin:{os.environ['PATH']}"
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s 2>/dev/null
export PATH=/weir:/usr/sbin:/usr/bin:/sbin:/bin HOME=/
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs run /run; mount -t bpf bpf /sys/fs/bpf; mkdir -p /tmp /run/netns
for m in $(cat /modules/order); do insmod /modules/$m.ko; done
/weir/ip link set lo up
echo # after the firmware's escape sequences
. /script
echo; echo RESULT exit $?
poweroff -f
"""
SECONDS = 900
"""Limit of one run, for a busy host."""


def missing() -> str:
    """Reason for which no virtual machine can be started here, or an empty text."""
    absent = [name for name in _NEEDED if not shutil.which(name, path=_PATH)]
    folder = os.environ.get("WEIR_VM_KERNEL", "")
    if absent:
        return f"not installed: {', '.join(absent)}"
    return "" if folder and Path(folder, "vmlinuz").exists() else "no kernel for qemu (WEIR_VM_KERNEL)"


class _Files:
    """Files of an initramfs: path, mode and content."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, bytes]] = {}

    def add(self, path: str, data: bytes, mode: int = 0o100755) -> None:
        self.files[path.lstrip("/")] = (mode, data)

    def program(self, source: Path, path: str) -> None:
        """A program with its libraries."""
        self.add(path, source.read_bytes())
        listed = subprocess.run(["ldd", source], capture_output=True, text=True, check=False).stdout
        for word in listed.split():
            if word.startswith("/"):
                self.add(word, Path(word).read_bytes())

    def modules(self, folder: Path, names: tuple[str, ...]) -> None:
        """Modules in the order in which they are loaded; names that the kernel has built in are left out."""
        known = {path.name.split(".")[0].replace("-", "_"): path for path in folder.rglob("*.ko*")}
        order: list[str] = []

        def load(name: str) -> None:
            if name in order or name not in known:
                return
            data = known[name].read_bytes()
            data = lzma.decompress(data) if known[name].suffix == ".xz" else data
            start = data.find(b"\0depends=") + len(b"\0depends=")
            for other in data[start : data.index(b"\0", start)].decode().split(","):
                load(other.replace("-", "_"))
            order.append(name)
            self.add(f"modules/{name}.ko", data)

        for name in names:
            load(name)
        self.add("modules/order", "\n".join(order).encode())

    def write(self, path: Path) -> None:
        """The archive, in the format `newc` of cpio."""
        folders = {str(p) for name in self.files for p in PurePosixPath(name).parents if str(p) != "."}
        folders |= {"dev", "proc", "sys", "run", "sbin", "usr", "usr/bin", "usr/sbin"}
        entries = [(name, 0o040755, b"") for name in sorted(folders)]
        entries += [(name, mode, data) for name, (mode, data) in sorted(self.files.items())]
        with path.open("wb") as out:
            for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
                fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
                head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
                out.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))


def run(script: str, programs: dict[str, Path], modules: tuple[str, ...], folder: Path) -> dict[str, list[str]]:
    """Runs a shell script in the machine; programs: more of them, by name. The result has the words behind each line
    `RESULT NAME`; a script that did not end has no `exit`."""
    kernel = Path(os.environ["WEIR_VM_KERNEL"])
    files = _Files()
    files.add("init", _INIT.encode())
    files.add("script", script.encode())
    files.add("bin/busybox", Path(shutil.which("busybox", path=_PATH)).read_bytes())
    for name in ("ip", "tc", "ping", "bpftool"):
        files.program(Path(shutil.which(name, path=_PATH)).resolve(), f"weir/{name}")
    for name, path in programs.items():
        files.program(path, f"weir/{name}")
    files.modules(kernel, modules)
    archive = folder / "initramfs"
    files.write(archive)
    words = ["qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=0", "-cpu", "max", "-m", "1024"]
    words += ["-nographic", "-nodefaults", "-no-reboot", "-serial", "stdio", "-kernel", str(kernel / "vmlinuz")]
    words += ["-initrd", str(archive), "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"]
    words += os.environ.get("WEIR_VM_OPTIONS", "").split()
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    text = ran.stdout.decode(errors="replace")
    (folder / "console").write_text(text + ran.stderr.decode(errors="replace"))
    lines = (line.split() for line in text.replace("\r", "\n").split("\n"))
    return {words[1]: words[2:] for words in lines if len(words) > 1 and words[0] == "RESULT"}
