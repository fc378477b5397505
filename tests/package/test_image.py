# SPDX-License-Identifier: Apache-2.0
"""The container image: its archive, and the main picture in a container where this machine can run one."""

import json
import os
import shutil
import subprocess
import tarfile

import pytest
from bare_debian import run_package, say

LIMIT_S = 3600
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
WAYS = ([], LIMITS, [*LIMITS, "--runtime", "runc"])
"""Options of podman to try in turn: without the right to raise limits, and beside cgroups that crun rejects."""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Path of the image."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for debootstrap and chroot")
    folder = tmp_path_factory.mktemp("image")
    done = run_package("--oci", "--out", folder)
    assert done.returncode == 0, done.stderr
    yield done.stdout.strip()
    shutil.rmtree(folder)


@pytest.fixture
def podman(image, tmp_path):
    """`podman` with a store of its own in which that image is `weir`; skips where containers can't run."""
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")

    def call(*words):
        store = ["--root", tmp_path / "root", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
        return subprocess.run(
            ["podman", *store, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT_S,
        )  # fmt: skip

    loaded = call("pull", f"oci-archive:{image}")
    assert loaded.returncode == 0, loaded.stderr
    name = loaded.stdout.split()[-1]
    for way in WAYS:
        tried = call("run", "--rm", "--network", "none", *way, "--entrypoint", "/bin/true", name)
        if tried.returncode == 0:
            break
    else:
        pytest.skip(f"this machine runs no containers: {tried.stderr.strip().splitlines()[-1]}")
    yield lambda *words: call("run", "--rm", "--network", "none", *way, name, *words)
    call("rmi", "--force", name)


def test_the_archive_starts_run_as_a_user(image):
    with tarfile.open(image) as archive:
        names = {name.removeprefix("./"): name for name in archive.getnames()}

        def document(name):
            return json.load(archive.extractfile(names[name]))

        def blob(part):
            return document("blobs/" + part["digest"].replace(":", "/"))

        manifest = blob(document("index.json")["manifests"][0])
        config = blob(manifest["config"])["config"]
    assert config["Entrypoint"] == ["/opt/weir/run"]
    assert config["User"] == "weir"


def test_the_demo_in_a_container(podman):
    done = podman("demo", "--aqm", "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert "step 1" not in done.stderr
    say(f"container: {done.stdout[-400:]}")
