# SPDX-License-Identifier: Apache-2.0
"""The C header, in each way it is compiled, against the conformance vectors."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from law_build import HERE, INCLUDE, STRICT, compile_law, compiler, llvm

from weirlab.lab.kernels import ExactLab, Job, LabError

VECTORS = sorted((HERE.parents[2] / "tests" / "vectors").glob("*.jsonl"))


def replay(runner: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([runner, *arguments], capture_output=True, text=True, check=False)


def assert_all_match(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert re.fullmatch(rf"[1-9]\d+ operations in {len(VECTORS)} files, 0 differences\n", done.stdout)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gcc = compiler("gcc", "cc")
    return compile_law([gcc, *STRICT], "law_vectors.c", tmp_path_factory.mktemp("runner") / "gcc", ("-lbpf",))


@pytest.fixture(scope="module")
def bpf_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clang = llvm("clang")
    machine = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    flags = ["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", machine, "-c"]
    return compile_law([clang, *flags], "law_vectors.bpf.c", tmp_path_factory.mktemp("bpf") / "law_vectors.bpf.o")


def test_gcc(runner: Path) -> None:
    assert_all_match(replay(runner, *VECTORS))


def test_clang_with_undefined_behaviour_trapped(tmp_path: Path) -> None:
    trap = ["-g", "-fsanitize=undefined", "-fsanitize-trap=undefined"]
    clang = llvm("clang")
    target = compile_law([clang, *STRICT, *trap], "law_vectors.c", tmp_path / "clang", ("-lbpf",))
    assert_all_match(replay(target, *VECTORS))


def test_bpf_through_prog_test_run(runner: Path, bpf_object: Path) -> None:
    done = replay(runner, "--bpf", bpf_object, *VECTORS)
    if done.returncode == 3:
        pytest.skip(f"BPF programs can't be loaded here: {done.stderr.strip()}")
    assert_all_match(done)


def test_bpf_without_jit_in_the_exact_lab(runner: Path, bpf_object: Path, tmp_path: Path) -> None:
    try:
        lab = ExactLab()
    except LabError as reason:
        pytest.skip(str(reason))
    here = [tmp_path / name for name in ("runner", "law.bpf.o")]
    for source, target in zip((runner, bpf_object), here, strict=True):
        target.write_bytes(source.read_bytes())
        target.chmod(0o755)
    command = [str(here[0]), "--bpf", str(here[1]), *map(str, VECTORS)]
    done = lab.run(Job(command, tmp_path / "run", wall_limit_s=120, directory=tmp_path))
    assert_all_match(subprocess.CompletedProcess(command, done.status, done.stdout.decode(), done.stderr.decode()))


def test_bpf_object_has_no_division_and_no_calls(bpf_object: Path) -> None:
    objdump = llvm("llvm-objdump")
    text = subprocess.run([objdump, "-d", bpf_object], capture_output=True, text=True, check=True).stdout
    assert "exit" in text
    assert not re.search(r" (?:/|%|s/|s%)= |\bcall\b", text)


def test_a_changed_value_is_found(runner: Path, tmp_path: Path) -> None:
    lines = VECTORS[0].read_text().splitlines(keepends=True)
    at = max(k for k, line in enumerate(lines) if '"op":"update"' in line)
    u_q40 = int(re.search(r'"u_q40":(\d+)', lines[at])[1])
    lines[at] = lines[at].replace(f'"u_q40":{u_q40}', f'"u_q40":{u_q40 ^ 1}')
    file = tmp_path / "changed.jsonl"
    file.write_text("".join(lines))
    done = replay(runner, file)
    assert done.returncode == 1
    assert f"changed.jsonl:{at + 1}: u_q40 is {u_q40}, must be {u_q40 ^ 1}" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no vectors in it"),
        ('{"op":"tau","in_backlog_bytes":1,"tau_us":0}\n', "must begin with params"),
        ('{"op":"params","case":"x","target_us":1}\n', "key interval_us is missing"),
        ('{"op":"params","target_us":4294967296}\n', "more than 32 bits"),
        ('{"op":"params","target_us":1.5}\n', "no whole 64-bit number"),
    ],
)
def test_a_broken_file_is_refused(runner: Path, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text(text)
    done = replay(runner, file)
    assert done.returncode == 2
    assert message in done.stderr
