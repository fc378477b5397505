#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets of all folders, each for some minutes, as many at a time as there are processors.

A target is a program of libFuzzer (Rust by cargo-fuzz, C by clang) or a file of tests of Hypothesis. Corpora and
findings are kept below build/fuzz, so that each run begins where the last one ended. Exit status: 0; 1 after a finding
or a failed build; 2 for wrong words. A target whose tools are missing is not tried, and that is no failure.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
OUT = BUILD / "fuzz"
PYTHON_PROGRAM = BUILD / "venv" / "bin" / "python"
RUST = {"quic-client": "cargo", "p4/switch": "cargo-p4"}
"""Workspaces with a fuzz/, and the folder of build/ with their other artefacts."""
PYTHON = {
    "controller/metrics_request": "controller/tests/telemetry/test_http_input.py",
    "controller/p4info": "controller/tests/p4runtime/test_p4info_input.py",
}
SEEDS = {
    "p4/switch/bmv2_json": ["p4/switch/weir-p4/tests/bmv2"],
    "p4/switch/front_end": ["p4/switch/weir-p4/tests/stf"],
    "xdp/config": ["xdp/systemd"],
    "xdp/profile": ["controller/profiles"],
}
OPTIONS = {"p4/switch/front_end": ["-max_len=4000"]}
SHOWN_BYTES = 256
CLOCK_STEP_S = 0.1
"""Times of files are behind the clock by up to a tick of the kernel."""
BAR = 30


@dataclass
class Target:
    """A target by its full name, FOLDER/NAME."""

    name: str
    program: Path | None = None
    """Of libFuzzer; None for a test of Hypothesis."""
    status: str = "waiting"
    process: subprocess.Popen | None = None
    started: float = 0.0
    """By the monotonic clock."""
    begun: float = 0.0
    """Time of the process's start by the clock of files."""
    seed: str = ""
    """Of Hypothesis."""
    reason: str = ""
    findings: list[Path] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return OUT / "targets" / self.name

    @property
    def log(self) -> Path:
        return self.folder / "log"


def targets() -> list[str]:
    """Names of all targets."""
    found = [f"{folder}/{path.stem}" for folder in RUST for path in (ROOT / folder / "fuzz/fuzz_targets").glob("*.rs")]
    for path in (ROOT / "xdp" / "fuzz").glob("*.c"):
        if "LLVMFuzzerTestOneInput(" in path.read_text():
            found.append(f"xdp/{path.stem}")
    return sorted([*found, *PYTHON])


def run(words: list[str], log: Path, **more: object) -> int:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        return subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, check=False, **more).returncode  # type: ignore[call-overload]


def build_rust(folder: str, wanted: list[Target]) -> str:
    """Builds targets of a workspace. Gives why they can't be, or an empty string."""
    try:
        subprocess.run(["cargo", "+nightly", "fuzz", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not-tried: needs a nightly toolchain of Rust and cargo-fuzz (quic-client/fuzz/README.md)"
    env = dict(os.environ)
    boring = sorted((BUILD / RUST[folder] / "release" / "build").glob("boring-sys-*/out/build/libcrypto.a"))
    if boring and "BORING_BSSL_PATH" not in env:  # set-up has built it; the fuzzers would build it once more
        env["BORING_BSSL_PATH"] = str(boring[-1].parent)
        env["BORING_BSSL_INCLUDE_PATH"] = str(boring[-1].parents[1] / "boringssl" / "include")
    log = OUT / f"{folder.replace('/', '-')}.log"
    words = ["cargo", "+nightly", "fuzz", "build", "--target-dir", str(OUT / RUST[folder])]
    for target in wanted if len(wanted) == 1 else [None]:
        more = [target.name.rpartition("/")[2]] if target else []
        if run([*words, *more], log, cwd=ROOT / folder, env=env):
            return f"broken: see {log.relative_to(ROOT)}"
    for target in wanted:
        name = target.name.rpartition("/")[2]
        target.program = next((OUT / RUST[folder]).glob(f"*/release/{name}"), None)
        if not target.program:
            return f"broken: {name} was not built; see {log.relative_to(ROOT)}"
    return ""


def build_c(wanted: list[Target]) -> str:
    """As build_rust, for the targets of xdp/."""
    probe = OUT / "probe"
    probe.parent.mkdir(parents=True, exist_ok=True)
    clang = subprocess.run([ROOT / "setup" / "llvm.sh", "clang"], capture_output=True, text=True, check=False)
    source = "int LLVMFuzzerTestOneInput(const char *data, long size) { return 0; }"
    words = [clang.stdout.strip(), "-fsanitize=fuzzer,address,undefined", "-x", "c", "-", "-o", str(probe)]
    if clang.returncode or subprocess.run(words, input=source, text=True, capture_output=True, check=False).returncode:
        return "not-tried: needs clang with libFuzzer (libclang-rt-N-dev)"
    log = OUT / "xdp.log"
    if run(["make", "-s", "-C", str(ROOT / "xdp"), f"OUT={BUILD / 'xdp'}", "fuzz"], log):
        return f"broken: see {log.relative_to(ROOT)}"
    for target in wanted:
        target.program = BUILD / "xdp" / "fuzz" / target.name.rpartition("/")[2]
    return ""


def build_python() -> str:
    if not PYTHON_PROGRAM.exists() or run([str(PYTHON_PROGRAM), "-c", "import hypothesis, pytest"], OUT / "python.log"):
        return "not-tried: needs pytest and Hypothesis (./run check installs them)"
    return ""


def build(wanted: list[Target]) -> None:
    groups: dict[str, list[Target]] = {}
    for target in wanted:
        groups.setdefault(target.name.rpartition("/")[0], []).append(target)
    for folder, some in groups.items():
        print(f"building the fuzz targets of {folder}", file=sys.stderr)
        why = build_rust(folder, some) if folder in RUST else build_c(some) if folder == "xdp" else build_python()
        for target in some if why else []:
            target.status, _, target.reason = why.partition(": ")


def start(target: Target, seconds: float) -> None:
    corpus = target.folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    target.status, target.started = "running", target.started or time.monotonic()
    target.begun, target.seed = time.time(), str(time.time_ns())
    left = max(1, round(target.started + seconds - time.monotonic()))
    if target.program:
        seeds = [str(ROOT / seed) for seed in SEEDS.get(target.name, [])]
        words = [str(target.program), str(corpus), *seeds, f"-artifact_prefix={target.folder}/", "-timeout=120",
                 "-rss_limit_mb=4096", f"-max_total_time={left}", "-print_final_stats=1",
                 *OPTIONS.get(target.name, ["-max_len=4096"])]  # fmt: skip
    else:
        words = [str(PYTHON_PROGRAM), "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x", "--hypothesis-profile=fuzz",
                 "--hypothesis-seed", target.seed, PYTHON[target.name]]  # fmt: skip
    # Some constants of BoringSSL are linked twice: a report of the sanitizer, and no fault of the target.
    env = os.environ | {"ASAN_OPTIONS": "detect_odr_violation=0"}
    target.process = subprocess.Popen(
        words, stdout=target.log.open("wb"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT, env=env
    )


def check(target: Target, seconds: float) -> None:
    """Whether a running target has ended, and how. Tests of Hypothesis begin anew until their time is over."""
    if target.process is None:
        return
    is_over = time.monotonic() - target.started >= seconds
    if target.process.poll() is None:
        # Its findings so far are in .hypothesis, and fail at once next time.
        if target.program is None and is_over:
            target.process.terminate()
            target.process.wait()
            target.status = "passed"
        return
    if target.process.returncode:
        target.status = "found"
        kept = [path for path in target.folder.iterdir() if path.is_file() and path != target.log]
        new = [path for path in kept if path.stat().st_mtime >= target.begun - CLOCK_STEP_S]
        target.findings = sorted(new, key=lambda path: path.stat().st_mtime)
    elif target.program is None and not is_over:
        start(target, seconds)
    else:
        target.status = "passed"


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def report(target: Target) -> Iterator[str]:
    """Findings, with the input and the command that runs it again."""
    yield f"{target.status} {target.name}{': ' * bool(target.reason)}{target.reason}"
    if target.status != "found":
        return
    for path in target.findings[-1:]:
        data = path.read_bytes()
        yield f"  input ({len(data)} bytes): {data[:SHOWN_BYTES]!r}{'...' if len(data) > SHOWN_BYTES else ''}"
        yield f"  replay: {shown(target.program or Path('python'))} {shown(path)}"
    if target.program is None:
        seed = f"--hypothesis-profile=fuzz --hypothesis-seed={target.seed}"
        yield f"  replay: build/venv/bin/python -m pytest {PYTHON[target.name]} {seed}"
    yield f"  log: {shown(target.log)}"


def draw(all_targets: list[Target], seconds: float) -> None:
    """One line on a terminal, drawn anew: share of the whole time, targets that are over, those that run."""
    now = time.monotonic()
    tried = [t for t in all_targets if t.status not in ("not-tried", "broken")]
    done = sum(1.0 if t.status in ("passed", "found") else min(1.0, (now - t.started) / seconds)
               for t in tried if t.status != "waiting")  # fmt: skip
    over = sum(t.status in ("passed", "found") for t in tried)
    filled = round(BAR * done / max(1, len(tried)))
    running = " ".join(t.name for t in tried if t.status == "running")
    width = shutil.get_terminal_size().columns
    line = f"[{'#' * filled}{'.' * (BAR - filled)}] {over} of {len(tried)} targets  {running}"
    print(f"\r\x1b[K{line[: width - 1]}", end="", file=sys.stderr, flush=True)


def fuzz(all_targets: list[Target], seconds: float, jobs: int) -> None:
    terminal = sys.stderr.isatty()
    said: set[str] = set()
    try:
        while any(t.status in ("waiting", "running") for t in all_targets):
            for target in all_targets:
                if target.status == "running":
                    check(target, seconds)
            free = jobs - sum(t.status == "running" for t in all_targets)
            for target in [t for t in all_targets if t.status == "waiting"][: max(0, free)]:
                start(target, seconds)
            for target in all_targets:
                if target.status not in ("waiting", "running") and target.name not in said:
                    said.add(target.name)
                    print("\r\x1b[K" * terminal + "\n".join(report(target)), flush=True)
            if terminal:
                draw(all_targets, seconds)
            time.sleep(0.2)
    finally:
        for target in all_targets:
            if target.process and target.process.poll() is None:
                target.process.terminate()
                target.process.wait()
    if terminal:
        print("\r\x1b[K", end="", file=sys.stderr)
    for target in all_targets:
        if target.name not in said:
            print("\n".join(report(target)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run fuzz", description="Runs fuzz targets, each for some minutes.")
    parser.add_argument("target", nargs="*", help="FOLDER/NAME, a folder, or a name; all without one")
    parser.add_argument("--minutes", type=float, default=10, help="for each target (default: 10)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time (default: processors)")
    parser.add_argument("--list", action="store_true", help="list the targets")
    asked = parser.parse_args()
    names = targets()
    matches = {word: [n for n in names if word in (n, *n.rsplit("/", 1))] for word in asked.target}
    for word, found in matches.items():
        if not found:
            parser.error(f"there is no target {word}; --list has them")
    if asked.minutes <= 0 or asked.jobs < 1:
        parser.error("--minutes and --jobs are above 0")
    chosen = [n for n in names if not asked.target or any(n in found for found in matches.values())]
    if asked.list:
        print("\n".join(chosen))
        return 0
    all_targets = [Target(name) for name in chosen]
    build(all_targets)
    fuzz(all_targets, asked.minutes * 60, asked.jobs)
    count = {
        status: sum(t.status == status for t in all_targets) for status in ("passed", "found", "broken", "not-tried")
    }
    print(", ".join(f"{n} {status}" for status, n in count.items()))
    return 1 if count["found"] or count["broken"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
