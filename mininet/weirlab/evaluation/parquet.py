# SPDX-License-Identifier: Apache-2.0
"""All runs of a suite as one tidy table in Parquet: a row a run, for pandas, polars, DuckDB or R.

Columns: `suite`, `group`, `scenario`, `queue`, `control` (or discipline), `stack`, `setting`, `seed`, then every figure
under the name that it has in the CSV files, which ends in its unit. The schema has each figure's definition as the
field's metadata `description`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weirlab.evaluation.plan import Plan
from weirlab.evaluation.shared.rows import RunRow
from weirlab.evaluation.tables import natural
from weirlab.store import atomic
from weirlab.store.documents import ResultsError
from weirlab.topologies.dumbbell.metrics import ALL_METRICS

KEYS = ("suite", "group", "scenario", "queue", "control", "stack", "setting", "seed")


def write(path: Path, rows: Iterable[RunRow], plan: Plan) -> None:
    """Raises ResultsError where pyarrow is missing or the file can't be written."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise ResultsError(f"--parquet {path}: pyarrow is not installed; pip install pyarrow") from None
    lines = [row_of(row, plan) for row in rows]
    figures = natural({name for line in lines for name in line} - set(KEYS))
    fields = [pa.field(name, pa.int64() if name == "seed" else pa.string()) for name in KEYS]
    fields += [pa.field(name, pa.float64(), metadata=described(name)) for name in figures]
    about = {"title": plan.title, "source": f"./run evaluate --suite {plan.name}"}
    columns = {field.name: [line.get(field.name) for line in lines] for field in fields}
    table = pa.table(columns, schema=pa.schema(fields, metadata=about))
    if path.exists() and not path.is_file():
        raise ResultsError(f"--parquet {path}: not a file; give the name of one to write")
    content = io.BytesIO()  # pyarrow removes a file that it can't write
    pyarrow.parquet.write_table(table, content, compression="zstd")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, content.getvalue())
    except OSError as error:
        raise ResultsError(f"--parquet {path}: can't be written: {error.strerror or error}") from None


def row_of(row: RunRow, plan: Plan) -> dict[str, Any]:
    """A run's keys and figures; figures that it has no value for are left out."""
    controls = plan.controls
    return {
        "suite": plan.name, "group": row.group, "scenario": row.scenario,
        "queue": controls.queues.get(row.scenario) if controls else None, "control": row.variant,
        "stack": controls.stacks.get(row.variant) if controls else None,
        "setting": row.setting.text if row.setting else None, "seed": row.seed,
        **{name: float(value) for name, value in row.metrics.items() if isinstance(value, int | float)},
    }  # fmt: skip


def described(name: str) -> dict[str, str]:
    """Metadata of a figure's column."""
    return {"description": ALL_METRICS[name]} if name in ALL_METRICS else {}
