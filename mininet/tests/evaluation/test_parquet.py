# SPDX-License-Identifier: Apache-2.0
"""All runs as one Parquet table."""

import os

import generated_controls
import pyarrow.parquet
import pytest

from weirlab.evaluation import parquet
from weirlab.evaluation.suites import load_suite
from weirlab.store.documents import ResultsError


@pytest.fixture(scope="module")
def plan():
    return load_suite("cc")


def test_a_row_is_a_run_and_a_column_has_its_definition(plan, tmp_path):
    rows = generated_controls.rows(plan, 1)
    path = tmp_path / "new" / "runs.parquet"
    parquet.write(path, rows, plan)
    table = pyarrow.parquet.read_table(path)
    assert table.num_rows == len(rows)
    assert table.column_names[: len(parquet.KEYS)] == list(parquet.KEYS)
    assert b"over the time after warm-up" in table.field("throughput_mbit_s").metadata[b"description"]
    by_name = {(line["scenario"], line["control"]): line for line in table.to_pylist()}
    for row in rows:
        line = by_name[row.scenario, row.variant]
        assert line["stack"] == plan.controls.stacks[row.variant]
        assert line["queue"] == ("auto" if row.scenario.endswith("-auto") else "fifo")
        for name, value in row.metrics.items():
            assert line.get(name) == value


def test_a_file_that_can_t_be_written_is_named(plan, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"--parquet .*runs\.parquet: can't be written"):
        parquet.write(tmp_path / "file" / "runs.parquet", [], plan)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ResultsError, match="not a file"):
        parquet.write(tmp_path / "fifo", [], plan)
    assert (tmp_path / "fifo").is_fifo()
