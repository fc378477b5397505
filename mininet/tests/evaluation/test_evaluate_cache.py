# SPDX-License-Identifier: Apache-2.0
"""The evaluation's cache under damage: whatever happens to its files, what it gives is what was put in, or nothing."""

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab import paths
from weirlab.run.disk import NoRoom, check
from weirlab.store import sealed
from weirlab.store.cache import Cache, Kept, seal
from weirlab.store.sealed import Damaged

NAMES = ("one", "two", "three")
KEYS = {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES}
METRICS_KEYS = {name: hashlib.sha256(f"figures of {name}".encode()).hexdigest() for name in NAMES}
FACTS = {name: {"wall_s": 2.5 + place, "kernel": "linux"} for place, name in enumerate(NAMES)}
KEPT = Kept(notes=("log-*.txt",))
FIGURES = {name: {"queue_delay_mean_ms": 15.125 * place, "loss_percent": None} for place, name in enumerate(NAMES)}


def samples_of(name):
    return gzip.compress(f"samples of {name}\n".encode() * 40, mtime=0)


def put(cache, name):
    with cache.draft() as draft:
        (draft / "spec.json").write_text(f'{{"name": "{name}"}}\n')
        (draft / "samples.jsonl.gz").write_bytes(samples_of(name))
        (draft / "console.log").write_text("booting\n")
        entry = seal(draft, KEYS[name], FACTS[name], KEPT)
        entry.put_metrics(METRICS_KEYS[name], FIGURES[name])
        return cache.keep(entry, KEYS[name])


def filled(folder):
    cache = Cache(folder)
    for name in NAMES:
        put(cache, name)
    return cache


def taken(cache, name):
    """The figures that the cache has for a run, computed again or run again where it has none; every step that the
    evaluation takes."""
    told = []
    try:
        entry = cache.find(KEYS[name])
    except Damaged as error:
        told.append(str(error))
        assert cache.set_aside(KEYS[name]).is_relative_to(cache.folder / "damaged")
        entry = None
    if entry is None:
        assert cache.find(KEYS[name]) is None
        entry = put(cache, name)
    assert entry.facts == FACTS[name]
    assert entry.samples.read_bytes() == samples_of(name)
    try:
        found = entry.metrics(METRICS_KEYS[name])
    except Damaged as error:
        told.append(str(error))
        found = None
    assert all(line and "\n" not in line for line in told)
    if found is None:
        entry.put_metrics(METRICS_KEYS[name], FIGURES[name])
        found = entry.metrics(METRICS_KEYS[name])
    return found


FILES = st.sampled_from(["spec.json", "samples.jsonl.gz", "run.json", "metrics"])
ONE = st.sampled_from(NAMES)
DAMAGE = st.one_of(
    st.tuples(st.just("flip"), ONE, FILES, st.integers(0, 10**6), st.integers(1, 255)),
    st.tuples(st.just("cut"), ONE, FILES, st.integers(0, 10**6)),
    st.tuples(st.just("longer"), ONE, FILES, st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("garbage"), ONE, FILES, st.binary(max_size=200)),
    st.tuples(st.just("nested"), ONE, FILES),
    st.tuples(st.just("other"), ONE, FILES, ONE),  # the same file of another run
    st.tuples(st.just("gone"), ONE, FILES),
    st.tuples(st.just("folder"), ONE, FILES),
    st.tuples(st.just("link"), ONE, FILES, ONE),
    st.tuples(st.just("pipe"), ONE, FILES),
    st.tuples(st.just("swapped"), ONE, ONE),  # whole entries
    st.tuples(st.just("no entry"), ONE, st.sampled_from(["file", "empty", "link", "parent"])),
)


def file_of(cache, name, what):
    folder = cache.path(KEYS[name])
    return folder / (f"metrics-{METRICS_KEYS[name][:32]}.json" if what == "metrics" else what)


def harm(cache, kind, name, *how):
    """Do one thing to a cache; nothing where an earlier one has left nothing to do it to."""
    folder = cache.path(KEYS[name])
    if kind == "swapped":
        other = cache.path(KEYS[how[0]])
        if other != folder and folder.exists() and other.exists():
            aside = cache.folder / "aside"
            folder.rename(aside)
            other.rename(folder)
            aside.rename(other)
        return
    if kind == "no entry":
        if not folder.parent.is_dir() or folder.parent.is_symlink() or not folder.is_dir() or folder.is_symlink():
            return
        shutil.rmtree(folder)
        if how[0] == "file":
            folder.write_text("an entry\n")
        elif how[0] == "empty":
            folder.mkdir()
        elif how[0] == "link":
            folder.symlink_to(cache.folder / "nowhere")
        else:
            folder.parent.rmdir()
            folder.parent.write_text("entries\n")
        return
    path = file_of(cache, name, how[0])
    if not path.is_file() or path.is_symlink():
        return
    content = bytearray(path.read_bytes())
    if kind == "flip" and content:
        content[how[1] % len(content)] ^= how[2]
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(content[: how[1] % (len(content) + 1)])
    elif kind == "longer":
        path.write_bytes(content + how[1])
    elif kind == "garbage":
        path.write_bytes(how[1])
    elif kind == "nested":
        path.write_bytes(b"[" * 100_000)
    elif kind == "other":
        other = file_of(cache, how[1], how[0])
        if other.is_file():
            path.write_bytes(other.read_bytes())
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
            (path / "in it").write_text("hello\n")
        elif kind == "link":
            path.symlink_to(file_of(cache, how[1], how[0]))
        elif kind == "pipe":
            os.mkfifo(path)


@given(st.lists(DAMAGE, min_size=1, max_size=5))
def test_whatever_happens_to_its_files_the_cache_gives_what_was_put_in(damage):
    with tempfile.TemporaryDirectory() as folder:
        cache = filled(Path(folder))
        for what in damage:
            harm(cache, *what)
        cache = Cache(Path(folder))  # the cache of the next command
        for name in NAMES:
            assert taken(cache, name) == FIGURES[name]
        for name in NAMES:
            assert cache.find(KEYS[name]).metrics(METRICS_KEYS[name]) == FIGURES[name]


@pytest.mark.parametrize("what", ["spec.json", "samples.jsonl.gz", "run.json", "metrics"])
def test_any_single_byte_that_counts_is_noticed(tmp_path, what):
    """Of the sealed files only bytes that leave their content the same (none here) could go unnoticed."""
    cache = filled(tmp_path)
    path = file_of(cache, "one", what)
    content = path.read_bytes()
    for place in range(len(content)):
        if content[place : place + 1].isspace():
            continue  # between two tokens of JSON any space will do
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        with pytest.raises(Damaged):
            cache.find(KEYS["one"]).metrics(METRICS_KEYS["one"])


def test_figures_of_other_samples_are_not_taken(tmp_path):
    """A run that was made again, elsewhere, under the same key has other samples: old figures beside it are not its."""
    cache = filled(tmp_path)
    path = file_of(cache, "one", "metrics")
    figures = path.read_bytes()
    cache.set_aside(KEYS["one"])
    with cache.draft() as draft:
        (draft / "spec.json").write_text('{"name": "one"}\n')
        (draft / "samples.jsonl.gz").write_bytes(samples_of("another"))
        cache.keep(seal(draft, KEYS["one"], FACTS["one"], KEPT), KEYS["one"])
    path.write_bytes(figures)
    with pytest.raises(Damaged, match="belongs to another run"):
        cache.find(KEYS["one"]).metrics(METRICS_KEYS["one"])


def test_what_lies_about_in_a_cache_ends_nothing(tmp_path):
    cache = filled(tmp_path)
    for room in ("drafts", "damaged", "runs"):
        (cache.folder / room / "notes.txt").write_text("hello\n")
        (cache.folder / room / "nowhere").symlink_to("/nowhere")
    assert Cache(tmp_path).find(KEYS["two"]).facts == FACTS["two"]


def test_an_entry_from_before_there_were_checksums_is_made_anew(tmp_path):
    cache = filled(tmp_path)
    file_of(cache, "one", "run.json").write_text('{"wall_s": 2.5}\n')
    with pytest.raises(Damaged, match=r"run\.json: has no checksum"):
        cache.find(KEYS["one"])


def test_sealing_leaves_nothing_half_written_where_there_is_no_room(tmp_path):
    """By the process's own limit on file sizes, which ends a write in the middle as a full disk does."""
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from weirlab.store import sealed\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    sealed.write(Path(sys.argv[1]), 'key', ['x' * 100] * 100)\n"
        "except OSError as error:\n"
        "    print(error.filename)\n"
    )
    path = tmp_path / "figures.json"
    sealed.write(path, "key", 1)
    environment = {**os.environ, "PYTHONPATH": paths.import_path()}
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.stdout, done.stderr) == (f"{path}\n", "")
    assert [file.name for file in tmp_path.iterdir()] == ["figures.json"]
    assert sealed.read(path, "key") == 1


def test_room_is_asked_for_before_a_run_not_after(tmp_path):
    class Big:
        spec = {"topology": "dumbbell", "link": {"bottleneck": {"rate_mbit_s": 1e9}}, "duration_s": 1e6}  # noqa: RUF012

    with pytest.raises(NoRoom) as caught:
        check(tmp_path, [Big()])
    said = str(caught.value)
    assert said.startswith(f"not enough space in {tmp_path}: ")
    assert " are needed; free " in said
    assert "--cache" in said
