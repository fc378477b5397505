# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the network and the weights file (docs/design/pbq-weights-format.md), for golden vectors.

`python network_reference.py FOLDER` writes two weights files with random numbers, and `golden.jsonl`: for each of them
states with the mean that the network gives, and numbers with their tanh, 2^x and ln. Doubles are written as their bits,
16 hexadecimal digits, since it is the bits that must agree.
"""

import hashlib
import json
import struct
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

LN_2, LOG2_E, SQRT_2 = 0.6931471805599453, 1.4426950408889634, 1.4142135623730951
EXP2_SERIES = (
    *(1.0, 0.6931471805599453, 0.24022650695910072, 0.05550410866482158, 0.009618129107628477),
    *(0.0013333558146428443, 0.0001540353039338161, 1.5252733804059841e-05, 1.321548679014431e-06),
    *(1.01780860092397e-07, 7.054911620801123e-09, 4.4455382718708116e-10, 2.5678435993488206e-11),
    1.3691488853904128e-12,
)
LN_TERMS = 12


def exp2(x: np.ndarray) -> np.ndarray:
    """2^x of doubles from -1022 to below 1023, by the series of the part beside the nearest whole number."""
    whole = np.floor(x + 0.5)
    part = x - whole
    total = np.zeros_like(part)
    for term in reversed(EXP2_SERIES):
        total = total * part + term
    return total * np.ldexp(1.0, whole.astype(int))


def tanh(x: np.ndarray) -> np.ndarray:
    small = exp2(np.maximum(np.abs(x) * (-2.0 * LOG2_E), -1022.0))
    return np.copysign((1.0 - small) / (1.0 + small), x)


def ln(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of positive normal doubles."""
    half, power = np.frexp(x)
    part, power = half * 2.0, power - 1
    large = part > SQRT_2
    part, power = np.where(large, part * 0.5, part), np.where(large, power + 1, power)
    s = (part - 1.0) / (part + 1.0)
    series = np.zeros_like(s)
    for k in reversed(range(LN_TERMS)):
        series = series * (s * s) + 1.0 / (2 * k + 1)
    return power * LN_2 + 2.0 * s * series


def mean(layers: list[tuple[np.ndarray, np.ndarray]], output: str, state: np.ndarray) -> float:
    """The network: of each layer weights [units, units before] and bias [units], IEEE singles. Sums are made from the
    bias on, in the order of the inputs."""
    values = state
    for n, (weights, bias) in enumerate(layers):
        sums = bias.astype(np.float64)
        for column, value in zip(weights.T, values, strict=True):
            sums = sums + value * column.astype(np.float64)
        values = tanh(sums) if n + 1 < len(layers) or output == "tanh" else sums
    return float(values[0])


def singles(numbers: np.ndarray) -> str:
    return numbers.astype(">f4").tobytes().hex()


def weights_file(document: dict, layers: list[tuple[np.ndarray, np.ndarray]]) -> bytes:
    """A weights file: everything but its layers is in `document`."""
    text = [{"weights": [singles(row) for row in weights], "bias": singles(bias)} for weights, bias in layers]
    content = json.dumps(document | {"layers": text}, indent=1).encode() + b"\n"
    return b"weir-pbq-weights 1 sha256:" + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def random_layers(random: np.random.Generator, sizes: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (random.normal(0, before**-0.5, (units, before)).astype(np.float32), random.normal(0, 0.3, units).astype("f4"))
        for before, units in pairwise(sizes)
    ]


PAPER = {
    "profile": "pbq-paper",
    "interval_ms": 100,
    "interval_least_rtts": 0,
    "inputs": ["window_bdp", "interval_ratio", "rate_ratio", "rtt_mean_ratio", "loss_share"],
    "history": 1,
    "memory_intervals": 0,
    "normalisation": {"shift": [1, 1, 0.5, 1, 0], "scale": [0.5, 1, 2, 0.7, 10], "clip": 5},
    "output": "tanh",
    "log_deviation": -0.5,
    "action_bound": 1,
    "window_packets": [2, 20000],
    "pacing": "bbr",
    "start": "initial-window",
    "growth": "always",
    "guard": None,
    "ranges": {"rate_greatest_bytes_s": [1e4, 3e5], "rtt_least_s": [0.028, 0.1]},
    "provenance": {"commit": "none", "seed": 1, "command": "network_reference.py", "steps": 0},
}
OWN = PAPER | {
    "profile": "pbq",
    "interval_least_rtts": 1,
    "history": 3,
    "memory_intervals": 100,
    "output": "linear",
    "action_bound": 0.5,
    "start": "after-startup",
    "growth": "when-used",
    "guard": {"after": 3, "back_after": 10},
}
FILES = {"paper.weights": (PAPER, [5, 64, 1]), "own.weights": (OWN, [15, 12, 7, 1])}


def bits(number: float) -> str:
    return struct.pack(">d", number).hex()


def write(folder: Path) -> None:
    random = np.random.default_rng(14)
    lines = []
    for name, (document, sizes) in FILES.items():
        layers = random_layers(random, sizes)
        (folder / name).write_bytes(weights_file(document, layers))
        for spread in (0.0, 0.01, 0.3, 1, 1, 1, 3, 1000):
            state = np.clip(random.normal(0, spread, sizes[0]), -5, 5)
            given = mean(layers, document["output"], state)
            lines.append({"weights": name, "state": [bits(x) for x in state], "mean": bits(given)})
    for x in [0.0, 1.0, -1.0, 1e-300, 1e-9, 0.5, -0.5, 18.7, -40.0, *random.normal(0, 3, 40)]:
        lines.append({"x": bits(x), "exp2": bits(exp2(np.array(x)).item()), "tanh": bits(tanh(np.array(x)).item())})
    for x in [1.0, 2.0, 0.5, SQRT_2, 1e-300, *random.exponential(1, 40)]:
        lines.append({"x": bits(x), "ln": bits(ln(np.array(x)).item())})
    (folder / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
