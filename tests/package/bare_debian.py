# SPDX-License-Identifier: Apache-2.0
"""A bare Debian 12 to install packages on: made once by debootstrap and kept in the user's cache, copied for each use,
and entered with mount, network and process namespaces of its own. Nothing of the clone is in it."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
CACHE = Path(os.environ.get("WEIR_CACHE_HOME") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weir"
LIMIT_S = 1200
"""Of one command: only for what hangs."""
PROXIES = [f"{name}={os.environ[name]}" for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ]
PATIENCE = ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"]
"""Of apt, with an archive that does not answer."""

MOUNTS = """
mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" && mount -t bpf bpf "$1/sys/fs/bpf" &&
mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/run" && mount --bind "$2" "$1/var/cache/apt/archives" &&
ip link set lo up && read -r pid rest </proc/self/stat && echo "$pid" && exec sleep infinity
"""


class NoDebian(Exception):
    """A bare Debian can't be had here; the message is the reason."""


def run_package(*words):
    """`./run package`, whatever becomes of it."""
    return subprocess.run(
        [REPO / "run", "package", *map(str, words)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def of_another_version(package, folder, version):
    """The same package, as if the next release had changed nothing."""
    name, _, architecture = package.name.split("_")
    tree = folder / f"{name}.tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", control.read_text()))
    made = folder / f"{name}_{version}_{architecture}"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, made], check=True, capture_output=True)
    return made


def say(words):
    """Progress, past pytest's capture."""
    print(f"bare Debian: {words}", file=sys.__stderr__, flush=True)


@contextmanager
def alone():
    """One user at a time of what is kept in the cache: apt gives up at once where another has its archives."""
    folder = CACHE / f"debian-{SUITE}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sources():
    """This machine's own lines for Debian 12: (address, suite, components), the release itself first."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line.split() for line in shown.stdout.splitlines()]
    found = [words[:3] for words in lines if len(words) == 4 and words[1].startswith(SUITE) and words[3] == "Debian"]
    return sorted(found, key=lambda words: words[1] != SUITE)


def kept_root():
    """The folder of the root that is kept; makes it if it is not there yet. Raises NoDebian."""
    root = CACHE / f"debian-{SUITE}" / "root"
    if root.is_dir():
        return root
    if not shutil.which("debootstrap"):
        raise NoDebian("debootstrap is not installed")
    lines = sources()
    if not lines or lines[0][1] != SUITE:
        raise NoDebian(f"this machine's package sources have no Debian {SUITE}")
    draft = root.with_name(f"root.{os.getpid()}")
    draft.parent.mkdir(parents=True, exist_ok=True)
    say(f"debootstrap, once, into {root.parent}: a minute or two")
    try:
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, draft, lines[0][0]],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        if done.returncode:
            raise NoDebian(f"debootstrap failed: {(done.stderr + done.stdout).strip().splitlines()[-1]}")
        (draft / "etc/apt/sources.list").write_text("".join(f"deb {' '.join(words)}\n" for words in lines))
        draft.rename(root)
    except subprocess.TimeoutExpired:
        raise NoDebian(f"debootstrap took more than {LIMIT_S} s") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return root


class Bare:
    """A running copy. `root`: its folder, as seen from outside."""

    def __init__(self, root, pid):
        self.root, self.pid = root, pid

    def run(self, *words, network=False, check=True):
        """A command in it, without any network but its own; with `network`, that of the machine, to fetch packages."""
        namespaces = ["--mount", "--pid", *([] if network else ["--net"])]
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid), *namespaces, "chroot", self.root, "/usr/bin/env", "-i",
             "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
             *PROXIES, *map(str, words)],
            cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        said = done.stdout[-2000:] + done.stderr[-2000:]
        assert done.returncode == 0 or not check, f"{words}: {done.returncode}\n{said}"
        return done

    def install(self, *packages):
        """`apt install` of package files, by their paths outside: fetches what they need, then installs it without any
        network."""
        for package in packages:
            shutil.copy2(package, self.root / "srv")
        self.get(*(f"/srv/{Path(package).name}" for package in packages))

    def get(self, *names):
        """`apt install` of Debian's packages, and of package files by their paths inside."""
        say(f"apt-get install {' '.join(Path(name).name for name in names)}")
        self.apt(*PATIENCE, "install", "--download-only", *names, network=True)
        self.apt("install", *names)

    def apt(self, *words, network=False, check=True):
        """apt-get, of any kind: each takes the lock of the archives, which all copies have in common."""
        with alone():
            return self.run("apt-get", "-q", "-y", *words, network=network, check=check)

    def installed_kib(self):
        """Size of each installed package by its own word."""
        shown = self.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Installed-Size}\n").stdout
        rows = (line.split() for line in shown.splitlines())
        return {row[1]: int(row[2]) for row in rows if row[0] == "installed"}

    def paths(self, word):
        """Files and folders with that word in their names, outside of what apt itself keeps."""
        shown = self.run("find", "/", "-xdev", "-name", f"*{word}*", "-not", "-path", "/srv/*").stdout
        return sorted(shown.splitlines())


@contextmanager
def bare_debian(folder):
    """A fresh copy in that folder, entered; removed afterwards. Raises NoDebian."""
    if os.geteuid() != 0:
        raise NoDebian("needs root, for debootstrap and chroot")
    with alone():
        kept = kept_root()
    root, archives = folder / "debian", CACHE / f"debian-{SUITE}" / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", kept, root], check=True)
    (root / "etc/dpkg/dpkg.cfg.d/for-a-test").write_text("force-unsafe-io\n")  # it need not survive a power cut
    if Path("/etc/resolv.conf").exists():
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child",
         "sh", "-c", MOUNTS, "sh", root, archives],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        pid = holder.stdout.readline().strip()
        if not pid:
            raise NoDebian(f"no namespaces for it here: {holder.stderr.read().strip()}")
        bare = Bare(root, int(pid))
        update = [*PATIENCE, "-o", "APT::Update::Error-Mode=any", "update"]
        if bare.apt(*update, network=True, check=False).returncode:
            raise NoDebian("this machine's package archive can't be reached")
        yield bare
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        holder.stderr.close()
        shutil.rmtree(root, ignore_errors=True)
