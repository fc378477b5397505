# SPDX-License-Identifier: Apache-2.0
"""By what a run and its figures are known in the evaluation's cache: the content of all that they depend on.

A run's key is made of its spec, the lab's kernel and the sources of what takes part in that run, so that a change of
the tuner asks for the tuner's runs again and leaves the kernel's queue disciplines alone. Sources rather than programs
are hashed: `./run` builds what is not up to date before it comes here, and a build is not the same bytes twice.
Comments and docstrings of Python don't count.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.kernels import ExactLab
from weirlab.topologies.dumbbell.traffic import LEARNED, PACED_KINDS, is_noq

DRIVER = ("drive", "hops", "network", "rates", "topology", "traffic")
QUIC_CRATES = ("core", "endpoint", "io", "quiche")  # what weir-client and weir-server are made of
# What takes part, as patterns from the repository's top. Left out is what only carries errors and help texts, and what
# the spec holds already: scenario files, their schema, profiles.
SOURCES: dict[str, tuple[str, ...]] = {
    "lab": (
        "mininet/kernels/init.sh",
        "mininet/kernels/getrandom.c",
        "mininet/weirlab/lab/kernels.py",
        "mininet/weirlab/paths.py",
    ),
    "driver": (
        *(f"mininet/weirlab/lab/{name}.py" for name in ("net", "programs", "qdisc", "shaping")),
        *(f"mininet/weirlab/topologies/dumbbell/{name}.py" for name in DRIVER),
        *(f"mininet/weirlab/topologies/dumbbell/queues/{name}.py" for name in ("tc", "red", "dualpi2")),
        "mininet/weirlab/run/runner.py",
    ),
    "sampler": (
        "xdp/tools/weir-sojourn/*.[ch]",
        "xdp/src/sojourn.bpf.c",
        "xdp/include/weir/sojourn.h",
        "xdp/include/weir/packet.h",
    ),
    "traffic": ("mininet/tools/weir-traffic.c", "mininet/tools/program.[ch]"),
    "paced": ("mininet/tools/weir-paced.c", "mininet/tools/program.[ch]"),
    "quic": (
        "quic-client/Cargo.*",
        *(f"quic-client/{crate}/Cargo.toml" for crate in QUIC_CRATES),
        *(f"quic-client/{crate}/src/**/*.rs" for crate in QUIC_CRATES),
        "quic-client/quiche/build/*.rs",
    ),
    "noq": ("mininet/peers/noq/Cargo.*", "mininet/peers/noq/src/*.rs"),
    "policies": ("quic-client/core/weights/*.weights",),
    "ebpf": (
        "xdp/src/weir_tc.bpf.c",
        "xdp/include/weir/*.h",
        "xdp/lib/**/*.[ch]",
        "xdp/tools/weir-xdp/**/*.[ch]",
    ),
    "p4": (
        "mininet/weirlab/lab/p4switch.py",
        "p4/*.p4",
        "p4/programs/*.p4",
        "p4/include/*.p4",
        "p4/switch/Cargo.*",
        "p4/switch/weir-*/Cargo.toml",
        "p4/switch/weir-*/src/**/*.rs",
        "controller/weir/*.py",
        *(f"controller/weir/{folder}/*.py" for folder in ("commands", "p4runtime", "programs", "switch")),
    ),
    "tuner": (
        "controller/weir/*.py",
        *(
            f"controller/weir/{folder}/*.py"
            for folder in ("commands", "dataplane", "model", "programs", "rtt", "telemetry", "tuner")
        ),
    ),
}
# What turns samples into figures.
FIGURES = (
    "bands", "course", "fairness", "hops", "metrics", "paced", "rates", "return_way", "samples", "senders", "traffic",
)  # fmt: skip
METRICS_SOURCES = (
    "mininet/weirlab/metrics/*.py",
    *(f"mininet/weirlab/topologies/dumbbell/{name}.py" for name in FIGURES),
)
METRICS_LIBRARIES = ("numpy", "scipy")
# Of a spec, what no program in the lab acts on: names, and what figures are made with.
NOT_THE_RUNS = ("scenario", "variant", "warmup_s", "reference_target_ms", "compares")


def parts(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Which of SOURCES take part in a run of the dumbbell."""
    kinds = {flow["kind"] for flow in spec["flows"]}
    quic = {kind for kind in kinds if kind.startswith("quic")}
    aqm = spec["aqm"]
    p4 = aqm["qdisc"] == "p4"
    tune = bool(aqm.get("tune"))
    wanted = {
        "quic": bool(quic),
        "noq": any(is_noq(flow.get("cc", "")) for flow in spec["flows"]),
        "policies": any(flow.get("cc") in LEARNED and "cc_weights" not in flow for flow in spec["flows"]),
        "traffic": bool(kinds - quic - set(PACED_KINDS)),
        "paced": bool(kinds & set(PACED_KINDS)),
        "ebpf": aqm["qdisc"] == "weir",
        "p4": p4,
        "tuner": tune,
    }
    return tuple(name for name in SOURCES if wanted.get(name, True))


def digest(patterns: Iterable[str]) -> str:
    """SHA-256 over the names and contents of the files that match. A pattern without a file adds nothing."""
    found = {path for pattern in patterns for path in paths.clone().glob(pattern) if path.is_file()}
    total = hashlib.sha256()
    for path in sorted(found):
        stat = path.stat()
        content = _content_digest(path, stat.st_mtime_ns, stat.st_size)
        total.update(f"{path.relative_to(paths.clone()).as_posix()} {content}\n".encode())
    return total.hexdigest()


@lru_cache(maxsize=4096)
def _content_digest(path: Path, mtime_ns: int, size: int) -> str:
    """Of a Python file, the digest of what it does: words and layout may change under finished runs."""
    content = path.read_bytes()
    if path.suffix == ".py":
        content = ast.dump(_without_docstrings(ast.parse(content))).encode()
    return hashlib.sha256(content).hexdigest()


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


@cache
def lab_kernel() -> str:
    """The lab kernel's version and configuration, as its folder's name tells them. Raises LabError if there is none."""
    return ExactLab().folder.name


class Keys:
    """Keys by the sources as they are now: make a new one to look again."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def _part(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = digest(SOURCES[name])
        return self._digests[name]

    def facts(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """All that a run's samples depend on."""
        return {
            "spec": {key: value for key, value in spec.items() if key not in NOT_THE_RUNS},
            "kernel": lab_kernel(),
            "sources": {name: self._part(name) for name in parts(spec)},
        }

    def run(self, spec: Mapping[str, Any]) -> str:
        """The key of a run's samples; `spec` has the seed in it."""
        return _sha256(self.facts(spec))

    def metrics(self, spec: Mapping[str, Any]) -> str:
        """The key of what is computed from those samples."""
        if "metrics" not in self._digests:
            self._digests["metrics"] = digest(METRICS_SOURCES)
        libraries = {name: version(name) for name in METRICS_LIBRARIES}
        return _sha256({"spec": spec, "sources": self._digests["metrics"], "libraries": libraries})

    def course(self, spec: Mapping[str, Any]) -> str:
        """The key of a run by the second, which is computed from them, too."""
        if "course" not in self._digests:
            self._digests["course"] = digest(("mininet/weirlab/evaluation/matrix/courses.py",))
        return _sha256({"metrics": self.metrics(spec), "sources": self._digests["course"]})


def _sha256(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
