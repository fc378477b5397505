# SPDX-License-Identifier: Apache-2.0
"""Files of samples: one JSON object a line, each of a known kind, with the fields of its kind."""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class SamplesError(Exception):
    """A samples file that can't be used; the message names the file, the line if there is one, and the fault."""


def read_kinds(
    path: Path, fields: Mapping[str, Sequence[str]], numbers: Mapping[str, Iterable[str]]
) -> dict[str, list[dict[str, Any]]]:
    """The lines of a samples file by kind, in the file's order, exactly one of them a `start`.

    A line must have the fields of its kind, and where `numbers` names some for the kind, those it has must be numbers.
    Raises SamplesError naming file and line.
    """
    return by_kind_of(path, records_of(path), fields, numbers)


def by_kind_of(
    path: Path, records: Iterable[Any], fields: Mapping[str, Sequence[str]], numbers: Mapping[str, Iterable[str]]
) -> dict[str, list[dict[str, Any]]]:
    by_kind: dict[str, list[dict[str, Any]]] = {kind: [] for kind in fields}
    for number, record in enumerate(records, start=1):
        kind = record.get("k") if isinstance(record, dict) else None
        if not isinstance(kind, str) or kind not in fields:
            raise SamplesError(
                f"{path}:{number}: unknown kind {kind!r}; a line is an object with k in {listed(fields)}"
            )
        by_kind[kind].append(record)
        for field in fields[kind]:
            if field not in record:
                raise SamplesError(f"{path}:{number}: {field} is missing; a {kind} line has {listed(fields[kind])}")
        for field in numbers.get(kind, ()):
            if field in record and not is_number(record[field]):
                raise SamplesError(f"{path}:{number}: {field} is {record[field]!r}; it must be a number")
    if len(by_kind["start"]) != 1:
        raise SamplesError(f"{path}: {len(by_kind['start'])} start lines; there must be exactly one")
    return by_kind


def records_of(path: Path) -> list[Any]:
    """The objects of a file of JSON lines; the whole file at once, since that is twice as fast as line by line."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SamplesError(f"{path}: cut short or not gzip ({error}); the run was interrupted, repeat it") from None
    lines = data.split(b"\n")
    if lines.pop():
        raise SamplesError(f"{path}:{len(lines) + 1}: the last line is cut short; the run was interrupted, repeat it")
    records = parsed_lines(lines)
    if records is not None:
        return records
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise SamplesError(f"{path}:{number}: not JSON ({error}); a line holds one object") from None
    return records


def parsed_lines(lines: Sequence[bytes]) -> list[Any] | None:
    """The values of so many lines of JSON; None if they don't hold one each."""
    try:
        records = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        return None
    return records if len(records) == len(lines) else None


def grouped(records: list[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> dict[Any, list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def column(path: Path, records: list[dict[str, Any]], field: str) -> np.ndarray:
    """One field of all records, 0 where it was left out."""
    column = np.array([record.get(field, 0) for record in records])
    if column.dtype.kind not in "iuf" or not np.isfinite(column).all():
        record = next(record for record in records if not is_number(record.get(field, 0)))
        raise SamplesError(f"{path}: {field} is {record[field]!r} in a {record['k']} line; it must be a number")
    return column.astype(float)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)
