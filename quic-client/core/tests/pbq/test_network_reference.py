# SPDX-License-Identifier: Apache-2.0
"""The reference of PBQ's network in numpy: it gives the golden vectors that the Rust tests replay, and writes the files
that these read."""

import json
import struct
from pathlib import Path

import network_reference as reference
import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent


def number(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def read(name: str) -> tuple[dict, list]:
    document = json.loads((FOLDER / name).read_bytes().split(b"\n", 1)[1])

    def singles(text: str) -> np.ndarray:
        return np.frombuffer(bytes.fromhex(text), ">f4").astype(np.float32)

    layers = [(np.stack([singles(row) for row in layer["weights"]]), singles(layer["bias"]))
              for layer in document.pop("layers")]  # fmt: skip
    return document, layers


@pytest.mark.parametrize("name", reference.FILES)
def test_a_file_is_written_as_it_is_read(name):
    document, layers = read(name)
    assert reference.weights_file(document, layers) == (FOLDER / name).read_bytes()


def test_the_golden_vectors_are_the_references():
    lines = [json.loads(line) for line in (FOLDER / "golden.jsonl").read_text().splitlines()]
    files = {name: read(name) for name in reference.FILES}
    for line in lines:
        if "weights" in line:
            document, layers = files[line["weights"]]
            state = np.array([number(bits) for bits in line["state"]])
            assert reference.bits(reference.mean(layers, document["output"], state)) == line["mean"]
        for name in ("exp2", "tanh", "ln"):
            if name in line:
                given = getattr(reference, name)(np.array(number(line["x"]))).item()
                assert reference.bits(given) == line[name], name
    assert sum("mean" in line for line in lines) == 16


def test_the_functions_are_what_they_are_called():
    x = np.random.default_rng(1).normal(0, 5, 10_000)
    assert np.max(np.abs(reference.tanh(x) - np.tanh(x))) < 4e-16
    assert np.max(np.abs(reference.exp2(x) / np.exp2(x) - 1)) < 1e-15
    assert np.max(np.abs(reference.ln(np.abs(x)) - np.log(np.abs(x)))) < 4e-15
