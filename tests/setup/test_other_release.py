# SPDX-License-Identifier: Apache-2.0
"""Set-up and quick tests on another release of Debian: in a root made by debootstrap, with a copy of this clone, by a
user without rights. Needs root, debootstrap and the machine's own package archive; else skipped with the reason."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SUITE = "trixie"
USER = 1000
LIMIT_S = 3600
"""Of one command: only for what hangs."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PASSED_ON = re.compile(r"(?i)(https?_proxy|no_proxy|pip_.*|ssl_cert_file|requests_ca_bundle)$")
MOUNTS = """
mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
mount -t tmpfs tmpfs "$1/run" && read -r pid rest </proc/self/stat && echo "$pid" && exec sleep infinity
"""


def archive():
    """The address that this machine has Debian's packages from, or None."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT) $(ORIGIN)", "Created-By: Packages"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    found = (line.split() for line in shown.splitlines())
    return next((words[0] for words in found if words[1:] == ["main", "Debian"]), None)


class Root:
    """A root of that release; commands in it see the machine's network."""

    def __init__(self, folder):
        self.folder = folder
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
             "sh", "-c", MOUNTS, "sh", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pid = self.holder.stdout.readline().strip()
        if not self.pid:
            pytest.skip(f"no namespaces for it here: {self.holder.stderr.read().strip()}")

    def run(self, *words, user=0):
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        given = [f"{key}={value}" for key, value in os.environ.items() if PASSED_ON.match(key)]
        return subprocess.run(
            ["nsenter", "--target", self.pid, "--mount", "--pid", "chroot", self.folder, "/usr/bin/env", "-i",
             "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={'/home/user' if user else '/root'}", "LC_ALL=C.UTF-8",
             "DEBIAN_FRONTEND=noninteractive", *given, *become, *words],
            cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip

    def must(self, *words, user=0):
        done = self.run(*words, user=user)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def as_user(self, text):
        return self.must("bash", "-euc", f"cd /home/user/weir\n{text}", user=USER)

    def end(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root, for debootstrap and chroot")
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is not installed")
    address = archive()
    if not address:
        pytest.skip("this machine's package sources have no Debian")
    folder = tmp_path_factory.mktemp("other") / SUITE
    root = None
    try:
        words = ["debootstrap", "--variant=minbase", SUITE, folder, address]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"debootstrap failed: {(done.stderr + done.stdout).strip().splitlines()[-1]}")
        (folder / "etc/dpkg/dpkg.cfg.d/for-a-test").write_text("force-unsafe-io\n")
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        clone = folder / "home/user/weir"
        clone.mkdir(parents=True)
        tracked = subprocess.run(["git", "-C", REPO, "ls-files", "-z"], capture_output=True, check=True).stdout
        here = b"\0".join(name for name in tracked.split(b"\0") if name and os.path.lexists(REPO / os.fsdecode(name)))
        packed = subprocess.run(
            ["tar", "-C", REPO, "--null", "-T", "-", "-c"], input=here, capture_output=True, check=True
        )
        subprocess.run(["tar", "-C", clone, "-x"], input=packed.stdout, check=True)
        root = Root(folder)
        root.must("useradd", "-M", "-u", str(USER), "user")
        root.must("chown", "-R", f"{USER}:{USER}", "/home/user")
        yield root
    finally:
        if root:
            root.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def set_up(release):
    """Packages installed by the names that the set-up lists, then Python and the eBPF programs, as a user."""
    words = ["python", "xdp", "lab_tools", "lab", "test"]
    refused = release.run("/home/user/weir/setup/install.sh", *words, user=USER)
    assert refused.returncode == 1
    listed = re.search(r"--no-install-recommends (.*)", refused.stderr)
    assert listed, refused.stderr
    assert listed[1].split()
    release.must("apt-get", "-q", "update")
    release.must("apt-get", "-q", "-y", "install", "--no-install-recommends", *listed[1].split())
    if Path(CERTIFICATES).exists():  # of a proxy that this machine trusts
        shutil.copy(CERTIFICATES, release.folder / CERTIFICATES.lstrip("/"))
    release.as_user("setup/install.sh " + " ".join(words))
    return release


def test_no_package_is_missing_after_the_set_up(set_up):
    assert set_up.as_user("setup/install.sh python xdp lab_tools lab test 2>&1") == ""
    assert "Python 3.1" in set_up.as_user("build/venv/bin/python --version")
    assert "weir-xdp" in set_up.as_user("build/bin/weir-xdp --help")


def test_linters(set_up):
    set_up.as_user("""
git init -q . && git add -A
PATH=$PWD/build/venv/bin:$PATH
git ls-files -z '*.sh' run .ci/run | xargs -0 shellcheck -x
ruff check --quiet . && ruff format --check --quiet .
git ls-files -z '*.c' '*.h' | xargs -0 "$(setup/llvm.sh clang-format)" --dry-run --Werror
mypy --no-error-summary -p weir -p weirlab -p weirtrain
""")


def test_quick_tests(set_up):
    """Tests that need neither root, a lab nor Rust."""
    shown = set_up.as_user("""
export PATH=$PWD/build/venv/bin:$PWD/build/bin:$PATH PYTHONDONTWRITEBYTECODE=1
pytest -p no:cacheprovider -q -n 2 --hypothesis-profile quick -m 'not lab and not pictures' \\
  controller/tests/law controller/tests/model mininet/tests/scenario mininet/tests/lab \\
  xdp/tests/law tests/structure 2>&1
""")
    counts = shown.strip().splitlines()[-1]
    print(f"Debian {SUITE}: {counts}", file=sys.__stderr__, flush=True)
    assert re.search(r"\d+ passed", counts)
    assert "failed" not in counts
