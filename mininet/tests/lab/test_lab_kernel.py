# SPDX-License-Identifier: Apache-2.0
"""Other versions of the lab's kernel, and what runs on them: dualpi2, DCTCP with ECT(1), lines passed on to tc."""

import os
import subprocess
from pathlib import Path

import pytest

from weirlab import paths
from weirlab.lab.kernels import LAB_KERNEL, ExactLab, Job, LabError
from weirlab.run.kernel import check_kernel
from weirlab.run.runner import RunError, run_one
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder

NEWER = "7.3"
SCENARIO = """\
[scenario]
name = "small"
title = "Small"
duration_s = 6
warmup_s = 2
seeds = 1
[link.access]
rate_mbit_s = 100
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 9
queue_limit_packets = 200
[[flows]]
kind = "tcp"
cc = "dctcp"
{flow}
[variants.one]
{variant}
"""


@pytest.fixture
def newer(monkeypatch):
    """A newer kernel than the default, or why there is none."""
    monkeypatch.setenv(LAB_KERNEL, NEWER)
    try:
        return ExactLab()
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(load, tmp_path):
    def run_text(variant, flow="", fresh="1"):
        for tool in ("weir-sojourn", "weir-traffic"):
            if not (paths.build() / "bin" / tool).exists():
                pytest.skip(f"{tool} is not built; ./run test builds it")
        scenario = load(SCENARIO.format(variant=variant, flow=flow))
        runs = scenario.runs()
        check_kernel(runs)
        folder = ResultsFolder.create(tmp_path / f"results-{fresh}", scenario, ["test"], runs)
        return run_one(folder, runs[0]), folder.run_path("one", 1)

    return run_text


def selected(ecn_bits):
    """fq_codel that marks those packets alone that come with these ECN bits, and drops none but for its limit."""
    words = f"fq_codel limit 200 target 9s noecn ce_threshold 1ms ce_threshold_selector {ecn_bits}/0x3"
    return f'qdisc = "args"\nqdisc_args = "{words}"'


@pytest.mark.usefixtures("exact")
def test_dctcp_sends_ect1_where_a_flow_says_so_and_ect0_where_not(run):
    for flow, own, other in (("ect1 = true", "0x1", "0x2"), ("", "0x2", "0x1")):
        result, _ = run(selected(own), flow, f"{own}-own")
        assert result.metrics["marks_packets"] > 100
        assert result.metrics["drops_limit_packets"] == 0
        assert result.metrics["queue_delay_mean_ms"] < 10  # it reacts to the marks, so they are echoed
        assert not result.failures
        result, _ = run(selected(other), flow, f"{own}-other")
        assert result.metrics["marks_packets"] == 0


@pytest.mark.usefixtures("exact")
def test_what_tc_refuses_is_said_with_the_variants_place(run):
    with pytest.raises(RunError, match=r'small\.toml:18: one, seed 1: .*handle 10: pie limitt 5.*What is "limitt"'):
        run('qdisc = "args"\nqdisc_args = "pie limitt 5"')
    with pytest.raises(RunError, match=r"small\.toml:18: .*Specified qdisc kind is unknown"):
        run('qdisc = "args"\nqdisc_args = "nosuch"', fresh="2")


PROGRAMS = (
    "weir-switch",
    "weir-frames",
    "weir-stf",
    "weir-client",
    "weir-server",
    "weir-icn",
    "weir-xdp",
    "weir-sojourn",
)


def test_every_program_starts_without_a_vdso(newer, tmp_path):
    """User-Mode Linux 7.3 gives programs none."""
    missing = [name for name in PROGRAMS if not (paths.build() / "bin" / name).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not built; ./run test builds them")
    lines = [f"{name} --help >/dev/null; echo {name} $?" for name in PROGRAMS]
    switch = "weir-switch --no-p4 & sleep 1; kill $!; wait $!; echo stopped $?"
    result = newer.run(Job(["bash", "-c", "\n".join([*lines, switch])], tmp_path, wall_limit_s=120))
    ended = dict(line.split() for line in result.stdout.decode().splitlines() if not line.startswith("ready"))
    assert ended == {**dict.fromkeys(PROGRAMS, "0"), "stopped": "0"}, result.stderr


@pytest.mark.usefixtures("newer")
def test_dualpi2_keeps_scalable_flows_at_its_step(run):
    result, folder = run('qdisc = "dualpi2"\nstep_thresh_ms = 2.0', "ect1 = true")
    assert not result.failures
    assert result.metrics["drops_aqm_packets"] == result.metrics["drops_limit_packets"] == 0
    assert result.metrics["marks_packets"] > 100
    assert result.metrics["queue_delay_mean_ms"] < 10  # a queue of ECT(0) would stand at the target of 15
    shown = read_json(folder / "qdiscs.json")["r1"]  # by lines, as tc does not know it
    assert any("dualpi2 10:" in line for line in shown)


@pytest.mark.usefixtures("newer")
def test_a_line_for_tc_may_name_what_tc_does_not_know(run):
    result, _ = run('qdisc = "args"\nqdisc_args = "dualpi2"', fresh="plain")
    assert result.metrics["drops_aqm_packets"] is not None
    assert result.metrics["goodput_total_mbit_s"] > 5


@pytest.mark.usefixtures("newer")
def test_ends_of_the_ranges_of_dualpi2_are_taken(run):
    least = {
        "target_ms": 0.01, "tupdate_ms": 0.1, "alpha_hz": 0.004, "beta_hz": 0.004, "step_thresh_packets": 1,
        "coupling_factor": 1, "classic_protection_percent": 0,
    }  # fmt: skip
    most = {
        "target_ms": 1e5, "tupdate_ms": 4e3, "alpha_hz": 1e6, "beta_hz": 1e6, "step_thresh_ms": 4e3,
        "coupling_factor": 255, "classic_protection_percent": 100, "min_qlen_step_packets": 1_000_000,
        "memory_limit_bytes": 1 << 31,
    }  # fmt: skip
    for n, options in enumerate((least, most)):
        words = "\n".join(["qdisc = 'dualpi2'", *(f"{key} = {value!r}" for key, value in options.items())])
        result, _ = run(words, "ect1 = true", str(n))
        assert result.metrics["rx_packets"] > 0


def test_a_version_is_named_as_linux_names_it():
    build = paths.kernels() / "build-exact.sh"
    environment = {**os.environ, LAB_KERNEL: "latest"}
    done = subprocess.run([build, "--where"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "'latest' is not a version of Linux; write one as 6.12" in done.stderr


def test_a_version_that_is_not_built_is_not_taken_for_another(tmp_path, monkeypatch):
    monkeypatch.setenv("WEIR_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(LAB_KERNEL, "9.9")
    with pytest.raises(LabError, match=r"kernel 9\.9 is not built yet; \./run lab --lab-kernel 9\.9 -- true builds it"):
        ExactLab()


def source_file(folder, name, version):
    """A tar file as Linux's: its Makefile, and one in a folder before it."""
    top = folder / name.split(".tar")[0]
    (top / "Documentation").mkdir(parents=True)
    (top / "Documentation" / "Makefile").write_text("# none\n")
    numbers = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version, strict=True)
    (top / "Makefile").write_text("".join(f"{key} = {number}\n" for key, number in numbers) + "EXTRAVERSION =\n")
    words = ["tar", "-caf", folder / name, "-C", folder, f"{top.name}/Documentation", f"{top.name}/Makefile"]
    subprocess.run(words, check=True)
    return folder / name


@pytest.fixture
def where(tmp_path):
    def ask(source, **more):
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "WEIR_LAB_KERNEL_SOURCE": str(source)}
        environment.pop(LAB_KERNEL, None)
        build = [paths.kernels() / "build-exact.sh", "--where"]
        return subprocess.run(build, env={**environment, **more}, capture_output=True, text=True, check=False)

    return ask


@pytest.mark.parametrize("name", ["linux-6.12.tar.xz", "linux-source-6.12.tar.gz"])
def test_a_kernel_from_a_file_has_its_version_and_checksum(where, tmp_path, name):
    source = source_file(tmp_path, name, (6, 12, 9))
    first = where(source)
    assert first.returncode == 3
    assert "/kernel-exact-6.12.9_file_" in first.stdout
    assert where(source).stdout == first.stdout
    assert where(source, **{LAB_KERNEL: "6.12"}).stdout == first.stdout
    with open(source, "ab") as file:
        file.write(b"\0" * 512)
    assert where(source).stdout.rpartition("-")[0] != first.stdout.rpartition("-")[0]


def test_a_kernel_from_a_file_is_found_without_the_file_later(where, tmp_path):
    kernel = Path(where(source_file(tmp_path, "linux-6.98.tar.gz", (6, 98, 1))).stdout.strip())
    kernel.mkdir()
    (kernel / "linux").write_text("")
    (kernel / "linux").chmod(0o755)
    found = where("", **{LAB_KERNEL: "6.98"})
    assert (found.returncode, found.stdout.strip()) == (0, str(kernel))


def test_a_file_that_is_no_source_of_the_version_is_refused(where, tmp_path):
    source = source_file(tmp_path, "linux-6.12.tar.gz", (6, 12, 9))
    assert where(source, **{LAB_KERNEL: "7.3"}).returncode == 1
    other = tmp_path / "other.tar"
    subprocess.run(["tar", "-cf", other, "-C", tmp_path, "linux-6.12/Documentation"], check=True)
    for file in (other, tmp_path / "linux-6.12" / "Makefile", tmp_path / "none.tar"):
        done = where(file)
        assert done.returncode == 1
        assert str(file) in done.stderr
        assert done.stdout == ""
