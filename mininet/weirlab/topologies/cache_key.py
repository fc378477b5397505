# SPDX-License-Identifier: Apache-2.0
"""Rules for keeping a topology's finished runs, and parts of the project that several topologies share.

A finished run is known by all that it depends on (weirlab/run/keys.py). A topology names its dependencies here: names
of parts, and for each part patterns of source files from the repository's top. Left out are files that only carry
errors and help texts, and those that the spec holds already: scenario files, their schema, profiles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from weirlab.store.cache import Kept

Spec = Mapping[str, Any]
Patterns = tuple[str, ...]

# Parts of a driver's lab, by its imports.
LAB: Patterns = (
    "mininet/kernels/init.sh",
    "mininet/kernels/getrandom.c",
    "mininet/weirlab/lab/kernels.py",
    "mininet/weirlab/paths.py",
)
QUIC_CRATES = ("core", "endpoint", "io", "quiche")  # crates of weir-client and weir-server
# Parts that only a learned congestion control runs.
LEARNED_CC: Patterns = ("quic-client/core/src/congestion/pbq/*.rs", "quic-client/core/src/report/trajectory.rs")
QUIC: Patterns = (
    "quic-client/Cargo.*",
    *(f"quic-client/{crate}/Cargo.toml" for crate in QUIC_CRATES),
    *(f"quic-client/{crate}/src/**/*.rs" for crate in QUIC_CRATES),
    "quic-client/quiche/build/*.rs",
    "quic-client/quiche/patches/*.patch",
    *(f"!{pattern}" for pattern in LEARNED_CC),
)
POLICIES: Patterns = ("quic-client/core/weights/*.weights",)
# Imported by drivers.
POLICIES_OF_RUNS: Patterns = (
    "mininet/weirlab/scenario/policies.py",
    "mininet/weirlab/scenario/congestion.py",
    "mininet/weirlab/scenario/congestion_controls.json",
)
P4: Patterns = (
    "mininet/weirlab/lab/controller_fork.py",
    "mininet/weirlab/lab/p4switch.py",
    "p4/*.p4",
    "p4/programs/*.p4",
    "p4/include/*.p4",
    "p4/switch/Cargo.*",
    "p4/switch/weir-*/Cargo.toml",
    "p4/switch/weir-*/src/**/*.rs",
    "controller/weir/*.py",
    *(f"controller/weir/{folder}/*.py" for folder in ("commands", "options", "p4runtime", "programs", "switch")),
)

NAMES: Patterns = ("icn/Cargo.toml", "icn/src/**/*.rs")
TRAFFIC: Patterns = ("mininet/tools/weir-traffic.c", "mininet/tools/program.[ch]")
PACED: Patterns = ("mininet/tools/weir-paced.c", "mininet/tools/program.[ch]")
EBPF: Patterns = (
    "xdp/src/weir_tc.bpf.c",
    "xdp/include/weir/*.h",
    "xdp/lib/**/*.[ch]",
    "xdp/tools/weir-xdp/**/*.[ch]",
)
TUNER: Patterns = (
    "controller/weir/*.py",
    *(
        f"controller/weir/{folder}/*.py"
        for folder in ("commands", "dataplane", "model", "options", "programs", "rtt", "telemetry", "tuner")
    ),
)

FLOOR_BYTES = 1 << 20
"""Space that a run's output takes for the lab itself."""
FLOOR_S = 6.0
"""Time to boot a lab and to set the run up, in seconds of wall time."""


class Keeping(ABC):
    """Differences between the topologies in keeping runs. An object holds no state."""

    not_the_runs: Patterns = ("scenario", "variant", "warmup_s", "reference_target_ms")
    """Of a spec, keys without effect in the lab: names, and settings of the figures."""
    figures: Patterns
    """The sources of the code that turns samples into figures."""
    kept = Kept(notes=("stdout", "stderr", "log-*.txt", "qdiscs.json"))
    """Files kept of a run's folder."""

    @abstractmethod
    def sources(self, spec: Spec) -> dict[str, Patterns]:
        """The parts that take part in a run, each with its sources."""

    def repeats(self, spec: Spec) -> bool:
        """Whether the run is the same again: False where something outside of the lab has a say in it."""
        return True

    @abstractmethod
    def room_bytes(self, spec: Spec) -> int:
        """Disk space of a running run, on the safe side."""

    @abstractmethod
    def expected_s(self, spec: Spec) -> float:
        """Wall time of a run in seconds, before any of its kind has been seen."""

    @abstractmethod
    def like(self, spec: Spec) -> tuple:
        """Key of runs of different scenarios that miss that expectation alike."""
