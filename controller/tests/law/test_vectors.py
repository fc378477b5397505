# SPDX-License-Identifier: Apache-2.0
"""The committed vectors are what the golden model says now, and they reach what they claim to."""

import json
from pathlib import Path

from places import VECTORS

from weir import vectors


def test_committed_files_equal_the_model() -> None:
    wanted = dict(vectors.generate())
    assert sorted(wanted) == sorted(path.name for path in VECTORS.glob("*.jsonl"))
    for name, text in wanted.items():
        same = (VECTORS / name).read_text(encoding="utf-8") == text
        assert same, f"{name} is out of date: `./run generate`, and read what differs"


def test_every_row_verdict_and_clamp_occurs() -> None:
    lines = [json.loads(line) for _, text in vectors.generate() for line in text.splitlines()]
    steps = [line for line in lines if line["op"] == "update" and line["stepped"]]
    assert {line["row"] for line in steps} == {1, 2, 3, 4, 5}
    assert {line["verdict"] for line in lines if line["op"] == "decide"} == {0, 1, 2}
    assert {0, vectors.U_ONE_Q40} <= {line["u_q40"] for line in steps}
    assert any(line["op"] == "update" and not line["stepped"] for line in lines)
    assert sum(len(text) for _, text in vectors.generate()) < 2_000_000


def test_one_command_writes_every_vector_of_python(tmp_path: Path) -> None:
    assert vectors.main([str(tmp_path)]) == 0
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.json*")}
    assert {Path("coupled/decide.jsonl"), Path("icn/names.json")} < written
    assert {path for path in written if (tmp_path / path).read_bytes() != (VECTORS / path).read_bytes()} == set()
