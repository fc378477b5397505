# SPDX-License-Identifier: Apache-2.0
"""Labs: kernels to run a command in, behind one interface.

`exact`     User-Mode Linux built by `kernels/build-exact.sh`: virtual time, repeatable to the byte.
`packaged`  Debian's User-Mode Linux: boots with nothing built, real time.
`host`      private namespaces on the running kernel: full speed, JIT, BTF, and whatever qdiscs it happens to have.

Every lab gives back exit status, standard output, standard error and the files that the command left in its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.machine import MachineError, packaged_problem, registers_problem

# One number for all runs: the virtual clock starts at 2026-01-01 00:00:00 UTC (in nanoseconds).
TIME_TRAVEL_START_NS = 1_767_225_600 * 10**9
# Hides RDRAND (leaf 1, ECX bit 30) and RDSEED (leaf 7, EBX bit 18) from BoringSSL and OpenSSL, whose draws the
# seed would not reach.
IA32CAP_NO_HARDWARE_RANDOM = "~0x4000000000000000:~0x40000"
# Mininet imports distutils.version, which setuptools replaces by a copy of its own: importing that takes the exact lab
# 2 s. Python has distutils up to 3.11; later ones find weirlab/lab/compat.
STDLIB_DISTUTILS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"}
TIMEOUT_STATUS = 124  # timeout(1)'s status
SHM = "/dev/shm"  # a tmpfs, where a lab's memory is
LEAST_SHM_BYTES = 512 << 20
CROWDED = 3  # processes that wait for each processor; measured: at 1 a lab on one takes half the time, at 6 1.5 times
LAB_KERNEL = "WEIR_LAB_KERNEL"  # the variable that names the exact lab's version of Linux, read by build-exact.sh
LAB_KERNEL_SOURCE = "WEIR_LAB_KERNEL_SOURCE"  # the same for a file with its source


# Lines of a console that report an error: of init.sh, of its commands, and of the kernel.
ERROR_LINE = re.compile(
    r"^weir-lab-init: |^(mount|ip|modprobe): |/init\.sh: line \d+: "
    r"|failed, errno|ptrace|Kernel panic|Kernel mode signal"
)


class LabError(Exception):
    """The lab itself failed (not the command in it): one line with fault and remedy."""


@dataclass(frozen=True)
class LabResult:
    """Result of one lab run. `virtual_s` is the lab's own clock, `wall_s` ours."""

    status: int
    stdout: bytes
    stderr: bytes
    wall_s: float
    virtual_s: float
    folder: Path


@dataclass(frozen=True)
class Job:
    """One command for a lab.

    `folder` is the only place of the machine that the command can write to; inside it is `/run/out` (also in the
    variable WEIR_OUT). `wall_limit_s` and `virtual_limit_s` are seconds; on `host` and `packaged` both run alike.
    """

    command: list[str]
    folder: Path
    seed: int = 1
    wall_limit_s: float = 600
    virtual_limit_s: float = 3600
    memory_mib: int = 2048
    directory: Path = field(default_factory=paths.clone)
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.command:
            raise LabError("no command given; write one after --")
        if not 0 <= self.seed < 2**63:
            raise LabError(f"seed {self.seed} is out of range; give 0 to 2^63 - 1")
        if self.wall_limit_s <= 0 or self.virtual_limit_s <= 0:
            raise LabError("a time limit must be above 0 s")


def cache_home() -> Path:
    """Where the lab kernel is: the user's cache, or what ./run says when root calls it for another user's clone."""
    given = os.environ.get("WEIR_CACHE_HOME") or os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else Path.home() / ".cache"


def lab_path(*more: str) -> str:
    """PATH in a lab: what this clone has built, the machine's own, then `more`."""
    built = [str(paths.build() / "venv" / "bin"), str(paths.build() / "bin")]
    return ":".join([*built, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", *more])


BMV2_PROGRAMS = ("simple_switch_grpc", "simple_switch_CLI", "p4c-bm2-ss", "p4c")


def bmv2_environment() -> dict[str, str]:
    """Variables by which a lab finds BMv2 and p4c where this machine's PATH has them: they come from elsewhere."""
    found = map(paths.of_others, BMV2_PROGRAMS)
    libraries = os.environ.get("LD_LIBRARY_PATH")
    return {
        "PATH": lab_path(*dict.fromkeys(str(Path(path).parent) for path in found if path)),
        **({"LD_LIBRARY_PATH": libraries} if libraries else {}),
    }


def folders_in_tmp(environment: Mapping[str, str]) -> list[Path]:
    """Folders below /tmp, which a lab hides, of a job's variables for programs and libraries. Of a folder
    `bin` or `lib` the one above it: programs find their other files from there."""
    named = [Path(each) for key in ("PATH", "LD_LIBRARY_PATH") for each in environment.get(key, "").split(":") if each]
    whole = [each.parent if each.name in ("bin", "lib") and len(each.parts) > 3 else each for each in named]
    return [each for each in dict.fromkeys(whole) if each.parts[:2] == ("/", "tmp") and len(each.parts) > 2]


def _another_installation() -> dict[str, str]:
    """With WEIR_LAB_CLOCK_READS=N each program in the lab reads the clock and opens a missing file N times more as it
    starts: a run as another installation of Debian makes it. For tests: what they assert must hold there too."""
    reads = os.environ.get("WEIR_LAB_CLOCK_READS")
    return {"WEIR_LAB_CLOCK_READS": reads, "LD_PRELOAD": str(paths.build() / "lab" / "clock-reads.so")} if reads else {}


def _variables(job: Job, kernel: str, out: str) -> dict[str, str]:
    return {
        "PATH": lab_path(),
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": paths.import_path(),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **STDLIB_DISTUTILS,
        "OPENSSL_ia32cap": IA32CAP_NO_HARDWARE_RANDOM,
        "WEIR_LAB": kernel,
        "WEIR_SEED": str(job.seed),
        "WEIR_OUT": out,
        **_another_installation(),
        **job.environment,
    }


_running: set[subprocess.Popen] = set()
_stopping = False


def stop_all() -> None:
    """End every lab of this process, from any thread, and let no other start: for Ctrl-C."""
    global _stopping
    _stopping = True
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def stopping() -> bool:
    """Whether labs end because this process was stopped: their errors then are no failures."""
    return _stopping


def _run_process(argv: list[str], limit_s: float, **kwargs: Any) -> tuple[int | None, float]:
    """Status (None when the wall limit cut it off) and seconds. Nothing of it survives, whatever happens here."""
    started = time.monotonic()
    # If we are killed outright, the lab goes too: a lab in virtual time would otherwise spin on for ever.
    argv = ["/usr/bin/setpriv", "--pdeathsig", "KILL", *argv]
    process = subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL, **kwargs)
    _running.add(process)
    try:
        if _stopping:
            raise LabError("the lab was stopped")
        status = process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _running.discard(process)
    return status, time.monotonic() - started


@contextlib.contextmanager
def own_processor() -> Iterator[list[str]]:
    """Words that keep a lab on a processor where no other lab is; none if there is a lab on each, or too much else.

    User-Mode Linux and the programs in it alternate, twice at every system call. Control is handed on within one
    processor in a fraction of the time that another takes to wake up: a run takes half as long. On a crowded machine
    nobody sleeps, and who may run on one processor only gets less time than the others. The locks are on folders of
    sysfs, which all users of a machine can read; the kernel gives them back when we end.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if os.getloadavg()[0] > CROWDED * len(allowed):
        allowed = []
    for number in allowed:
        try:
            folder = os.open(f"/sys/devices/system/cpu/cpu{number}", os.O_RDONLY)
        except OSError:
            continue
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(folder)
            continue
        try:
            yield ["/usr/bin/taskset", "--cpu-list", str(number)]
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)  # closing is not enough: a process forked meanwhile has it open, too
            os.close(folder)
        return
    yield []


def bytecode_folders() -> list[str]:
    """Folders of compiled Python below those that programs in a lab import from.

    A lab sees them empty. Modules that are read there in place of being compiled let Python's threads take turns at
    other points, and the run takes another course.
    """
    return [
        folder
        for place in paths.import_path().split(":")
        for folder, _, _ in os.walk(place)
        if Path(folder).name == "__pycache__"
    ]


def memory_folder(scratch: str) -> str:
    """The folder for the file that is a lab's memory: a tmpfs, or `scratch` where the tmpfs is too small for a lab or
    noexec, as in a container."""
    if not os.access(SHM, os.W_OK):
        return scratch
    room = os.statvfs(SHM)
    usable = room.f_blocks * room.f_frsize >= LEAST_SHM_BYTES and not room.f_flag & os.ST_NOEXEC
    return SHM if usable else scratch


def console_error(console: str) -> str:
    """The first line of a lab's console that reports an error, which those after it follow from; without one the last
    three lines."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    return next((line for line in lines if ERROR_LINE.search(line)), " | ".join(lines[-3:])) or "empty"


def _within(path: str, folder: Path) -> bool:
    return Path(path).resolve().is_relative_to(folder)


class Lab(ABC):
    """Base of all labs. `run` is safe to call from several threads and processes at once."""

    name = ""
    lacks = ""  # one line, said before a run by the command line

    def run(self, job: Job) -> LabResult:
        """Run `job` and return its result. Raises LabError when the lab, not the command, failed."""
        job.folder.mkdir(parents=True, exist_ok=True)
        for stale in ("status", "stdout", "stderr"):
            (job.folder / stale).unlink(missing_ok=True)
        wall_s = self._run(job)
        try:
            status, began_s, ended_s = (job.folder / "status").read_text().split()
        except FileNotFoundError:
            raise LabError(self._failure(job, wall_s)) from None
        except ValueError:
            raise LabError(f"the {self.name} lab's status is cut short; is the disk of {job.folder} full?") from None
        return LabResult(
            status=int(status),
            stdout=(job.folder / "stdout").read_bytes(),
            stderr=(job.folder / "stderr").read_bytes(),
            wall_s=wall_s,
            virtual_s=float(ended_s) - float(began_s),
            folder=job.folder,
        )

    @abstractmethod
    def _run(self, job: Job) -> float:
        """Run the job to its end or to its wall limit, and give back the seconds it took."""

    def _console(self, job: Job) -> str:
        console = job.folder / "console.log"
        return console.read_text(errors="replace") if console.exists() else ""

    def _failure(self, job: Job, wall_s: float) -> str:
        why = (
            f"over its wall limit of {job.wall_limit_s:g} s" if wall_s >= job.wall_limit_s else "ended without a status"
        )
        return f"the {self.name} lab {why}; console: {console_error(self._console(job))}"


def _unless_forbidden(problem: Callable[[], str]) -> str:
    try:
        return problem()
    except MachineError as error:
        raise LabError(str(error)) from None


class UmlLab(Lab):
    """A lab on User-Mode Linux: an ordinary process, so no root is needed, and several can run at once."""

    modules = ""  # folder of the kernel's modules, if it has any

    @abstractmethod
    def binary(self) -> Path:
        """The kernel's executable."""

    def arguments(self) -> list[str]:
        return []

    def host_environment(self, job: Job) -> dict[str, str]:
        return {}

    def _run(self, job: Job) -> float:
        if job.folder.resolve().parts[1:2] in (("dev",), ("proc",), ("sys",)):
            raise LabError(f"the lab cannot see {job.folder}: it has its own /dev, /proc and /sys; choose another")
        binary = self.binary()
        cache = cache_home() / "weir"
        variables = _variables(job, self.name, "/run/out")
        places = [paths.clone(), cache, job.directory.resolve()]
        places += [Path(folder) for folder in paths.import_path().split(":") if not _within(folder, paths.clone())]
        places += folders_in_tmp(job.environment)
        keep = [str(path) for path in dict.fromkeys(places) if path.exists()]
        lines = [
            f"keep=({shlex.join(keep)})",
            f"hidden=({shlex.join(bytecode_folders())})",
            f"modules={shlex.quote(self.modules)}",
            f"directory={shlex.quote(str(job.directory))}",
            f"limit_s={job.virtual_limit_s:g}",
            f"variables=({shlex.join(f'{k}={v}' for k, v in sorted(variables.items()))})",
            f"command=({shlex.join(job.command)})",
        ]
        (job.folder / "job.sh").write_text("\n".join(lines) + "\n")
        shutil.copy(paths.kernels() / "init.sh", job.folder / "init.sh")
        # The kernel's memory file must lie on a tmpfs for speed, and each lab needs a folder of its own for its
        # control socket.
        with (
            tempfile.TemporaryDirectory(prefix="weir-lab-") as scratch,
            open(job.folder / "console.log", "wb") as console,
            own_processor() as on_one,
        ):
            argv = [
                *on_one,
                str(binary),
                f"mem={job.memory_mib}M",
                "rootfstype=hostfs",
                "rootflags=/",
                "ro",
                "init=/proc/self/cwd/init.sh",
                "con=null",
                "con0=null,fd:1",
                "quiet",
                *self.arguments(),
            ]
            environment = {
                "PATH": "/usr/bin:/bin",
                "HOME": scratch,
                "TMPDIR": memory_folder(scratch),
                **self.host_environment(job),
            }
            _, wall_s = _run_process(
                argv, job.wall_limit_s, cwd=job.folder, env=environment, stdout=console, stderr=subprocess.STDOUT
            )
        return wall_s

    def _failure(self, job: Job, wall_s: float) -> str:
        said = super()._failure(job, wall_s)
        if "Kernel mode signal 7" in self._console(
            job
        ):  # SIGBUS: what a tmpfs answers who touches a page that it has no room for
            size_mib = shutil.disk_usage(SHM).total >> 20
            said = f"the {self.name} lab's memory does not fit into {SHM}, which has {size_mib} MiB; give it 1 GiB"
        return said


class ExactLab(UmlLab):
    """Virtual time: computing takes none of it, sleeping takes no wall time. Same seed, same bytes."""

    name = "exact"
    lacks = "one CPU, no JIT, no BTF, CPU cost is invisible (computing takes no virtual time)"

    def __init__(self) -> None:
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache_home())}
        found = subprocess.run(
            [paths.kernels() / "build-exact.sh", "--where"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if found.returncode != 0:
            version = os.environ.get(LAB_KERNEL)
            how = f"./run lab --lab-kernel {version} -- true" if version else "./run lab (or demo, or test)"
            raise LabError(
                f"the exact lab's kernel{f' {version}' if version else ''} is not built yet; {how} builds it"
            )
        self.folder = Path(found.stdout.strip())
        if why := _unless_forbidden(self._registers_problem):
            raise LabError(f"{why}; build it anew: ./run clean --all, then this command")

    def _registers_problem(self) -> str:
        reserved = (self.folder / "registers-bytes").read_text().strip()
        return "" if reserved == "any" else registers_problem(int(reserved), "the exact lab's kernel")

    def binary(self) -> Path:
        return self.folder / "linux"

    def version(self) -> str:
        """Of Debian's package that the kernel was built from."""
        return (self.folder / "version").read_text().strip()

    def arguments(self) -> list[str]:
        return ["time-travel=inf-cpu", f"time-travel-start={TIME_TRAVEL_START_NS}"]

    def host_environment(self, job: Job) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.folder / "getrandom.so"), "WEIR_LAB_SEED": str(job.seed)}


class PackagedLab(UmlLab):
    """Debian's own User-Mode Linux."""

    name = "packaged"
    lacks = "real time at HZ 100, so not repeatable and timers round to 10 ms; an older kernel; no JIT, no BTF; no seed"
    modules = "/usr/lib/uml/modules"

    def __init__(self) -> None:
        if why := _unless_forbidden(packaged_problem):
            raise LabError(f"the packaged lab can't run on this CPU: {why}; use the exact lab: --kernel exact")

    def binary(self) -> Path:
        binary = Path("/usr/bin/linux.uml")
        if not binary.exists():
            raise LabError("the packaged lab's kernel is missing: apt-get install user-mode-linux")
        return binary


class HostLab(Lab):
    """Private network, mount and PID namespaces on the running kernel."""

    name = "host"
    lacks = "real time, so not repeatable; only the qdiscs of the running kernel; the file system is the machine's own"

    def _run(self, job: Job) -> float:
        out = job.folder.resolve()
        variables = _variables(job, self.name, str(out))
        inner = "\n".join(
            [
                "mount -t tmpfs run /run && mkdir -p /run/lock /run/netns || exit 125",
                "mount -t bpf bpf /sys/fs/bpf 2>/dev/null",
                "mount -t sysfs sys /sys 2>/dev/null && mount -t bpf bpf /sys/fs/bpf 2>/dev/null",
                "ip link set lo up",
                'read -r started _ </proc/uptime; cd "$1" || exit 125; shift',
                f'timeout --kill-after=5 {job.virtual_limit_s:g} env -i "$@" >"{out}/stdout" 2>"{out}/stderr" \\',
                "</dev/null",
                "status=$?; read -r ended _ </proc/uptime",
                f'printf "%s %s %s\\n" $status $started $ended >"{out}/status"',
            ]
        )
        root = os.geteuid() == 0
        argv = ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", *([] if root else ["-Ur"])]
        argv += ["bash", "-c", inner, "lab", str(job.directory), *(f"{k}={v}" for k, v in variables.items())]
        with open(out / "console.log", "wb") as console:
            _, wall_s = _run_process([*argv, *job.command], job.wall_limit_s, stdout=console, stderr=subprocess.STDOUT)
        return wall_s


LABS = {lab.name: lab for lab in (ExactLab, PackagedLab, HostLab)}


def open_lab(kernel: str) -> Lab:
    """The lab named `kernel`. Raises LabError for an unknown name or a kernel that is not there."""
    if kernel not in LABS:
        raise LabError(f"unknown kernel '{kernel}'; choose one of {', '.join(LABS)}")
    return LABS[kernel]()
