# SPDX-License-Identifier: Apache-2.0
"""Samples as JSON lines: one line a sample, the keys of weir-xdp's `aqm` lines plus device and port.

    {"k":"aqm","t_us":..,"device":"..","port":"..","backlog_bytes":..,"tau_us":..,"u":..,"drop_probability":..,
     "dq_rate_bit_s":..,"seen":..,"passed_bytes":..,"marks":..,"drops_aqm":..,"drops_limit":..,"row":..}

`seen` is passed + drops_aqm + drops_limit packets; `dq_rate_bit_s` is 0 while the rate is unknown, as weir-xdp has it;
`config_id` follows `row` where the device has such a thing, then `age_us` and `rate_age_us` where they are known and
`trouble` where there is one.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..files import open_log
from ..sample import Counts, Sample
from ..text import printable

KIND = "aqm"
_TEXT = ("device", "port")
_COUNTS = ("t_us", "backlog_bytes", "tau_us", "seen", "passed_bytes", "marks", "drops_aqm", "drops_limit", "row")
_OPTIONAL = ("config_id", "age_us", "rate_age_us")
_PROBABILITIES = ("u", "drop_probability")

_quoted = lru_cache(maxsize=65536)(json.dumps)


def to_line(sample: Sample) -> str:
    """One line without its line feed. Written out by hand: 1000 ports at 10 samples a second must fit in a share
    of a core, and json.dumps of a dictionary takes several times as long."""
    seen = sample.passed_packets + sample.drops_aqm_packets + sample.drops_limit_packets
    more = "" if sample.config_id is None else f',"config_id":{sample.config_id}'
    if sample.age_us is not None:
        more += f',"age_us":{sample.age_us}'
    if sample.rate_age_us is not None:
        more += f',"rate_age_us":{sample.rate_age_us}'
    if sample.trouble:
        more += f',"trouble":{_quoted(sample.trouble)}'
    return (
        f'{{"k":"aqm","t_us":{sample.t_us},"device":{_quoted(sample.device)},"port":{_quoted(sample.port)},'
        f'"backlog_bytes":{sample.backlog_bytes},"tau_us":{sample.delay_us},"u":{sample.u!r},'
        f'"drop_probability":{sample.drop_probability!r},"dq_rate_bit_s":{sample.rate_bit_s or 0},"seen":{seen},'
        f'"passed_bytes":{sample.passed_bytes},"marks":{sample.marks_packets},"drops_aqm":{sample.drops_aqm_packets},'
        f'"drops_limit":{sample.drops_limit_packets},"row":{sample.row}{more}}}'
    )


def counts_line(counts: Counts) -> str:
    """Line of a sample that has only counters."""
    return json.dumps(
        {
            "k": "counters",
            "t_us": counts.t_us,
            "device": counts.device,
            "port": counts.port,
            "forwarded_packets": counts.forwarded_packets,
            "marks": counts.marks_packets,
            "drops_aqm": counts.drops_aqm_packets,
        },
        separators=(",", ":"),
    )


def human(event: Sample | Counts, now_s: float) -> str:
    """A line for people, who have the time of day `now_s`."""
    head = f"{time.strftime('%H:%M:%S', time.localtime(now_s))}  {event.device}  port {event.port:>3}  "
    tail = f"AQM drops {event.drops_aqm_packets}  marks {event.marks_packets}"
    if isinstance(event, Counts):
        return printable(f"{head}forwarded {event.forwarded_packets}  {tail}")
    return printable(
        f"{head}delay {event.delay_us / 1e3:8.3f} ms  U {event.u:8.6f}  backlog {event.backlog_bytes:8d} B  "
        f"row {event.row}  {tail}  tail drops {event.drops_limit_packets}"
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def from_line(line: str) -> Sample:
    """The sample `to_line` wrote. ValueError names the key, its value and the right form; keys that are not a sample's
    are passed over, so that a newer writer's lines can be read."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not a line of JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"not a sample: {type(record).__name__}; must be an object")
    return from_record(record)


def from_record(record: dict[str, Any]) -> Sample:
    """As `from_line`, for a line that has been read already."""
    if record.get("k") != KIND:
        raise ValueError(f'k = {record.get("k")!r}: not a sample; must be "{KIND}"')

    def value(key: str) -> Any:
        if key not in record:
            raise ValueError(f"{key} is missing; a sample must have it")
        return record[key]

    for key in _TEXT:
        if not isinstance(value(key), str):
            raise ValueError(f"{key} = {record[key]!r}: must be text")
    for key in _COUNTS:
        if not _is_count(value(key)):
            raise ValueError(f"{key} = {record[key]!r}: must be a whole number, 0 or more")
    for key in _PROBABILITIES:
        given = value(key)
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= 1:
            raise ValueError(f"{key} = {given!r}: must be a probability, 0 .. 1")
    rate = value("dq_rate_bit_s")
    if isinstance(rate, float) and math.isfinite(rate) and rate.is_integer():
        rate = int(rate)
    if rate is not None and not _is_count(rate):
        raise ValueError(f"dq_rate_bit_s = {rate!r}: must be bit/s, 0 while unknown")
    for key in _OPTIONAL:
        if record.get(key) is not None and not _is_count(record[key]):
            raise ValueError(f"{key} = {record[key]!r}: must be a whole number, 0 or more")
    trouble = record.get("trouble", "")
    if not isinstance(trouble, str):
        raise ValueError(f"trouble = {trouble!r}: must be text")
    passed = record["seen"] - record["drops_aqm"] - record["drops_limit"]
    if passed < 0:
        raise ValueError(f"seen = {record['seen']}: below the sum of drops_aqm and drops_limit, which it includes")
    return Sample(
        device=record["device"],
        port=record["port"],
        t_us=record["t_us"],
        delay_us=record["tau_us"],
        u=float(record["u"]),
        drop_probability=float(record["drop_probability"]),
        backlog_bytes=record["backlog_bytes"],
        rate_bit_s=rate or None,
        passed_packets=passed,
        passed_bytes=record["passed_bytes"],
        marks_packets=record["marks"],
        drops_aqm_packets=record["drops_aqm"],
        drops_limit_packets=record["drops_limit"],
        row=record["row"],
        config_id=record.get("config_id"),
        age_us=record.get("age_us"),
        rate_age_us=record.get("rate_age_us"),
        trouble=trouble,
    )


def _on_standard_error(text: str) -> None:
    with suppress(OSError):  # nowhere else is left to tell it
        print(f"weir: {printable(text)}", file=sys.stderr, flush=True)


class Writer:
    """Appends lines to a file, whole or not at all, and outlives a full disk: it reports it once, drops and counts what
    does not fit, and goes on when there is space again. The constructor raises OSError when the file can't be opened;
    `write` never does. Not for several threads at once."""

    def __init__(self, path: str | Path, say: Callable[[str], None] = _on_standard_error) -> None:
        self.path = Path(path)
        self.dropped = 0  # lines, since the start
        self._say = say
        self._failing_since_dropped: int | None = None  # `dropped` when writing began to fail
        self._file = open_log(self.path)
        self._regular = stat.S_ISREG(os.fstat(self._file).st_mode)
        self._in_line = self._ends_in_a_line()

    def _ends_in_a_line(self) -> bool:
        """Whether who wrote here before was stopped in the middle of a line, which ours must not continue."""
        size = os.fstat(self._file).st_size
        if not self._regular or not size:
            return False
        with open(self.path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def write(self, *lines: str) -> None:
        """Append lines (given without line feeds), with one call of the kernel for all of them."""
        if not lines:
            return
        data = "".join(f"{line}\n" for line in lines).encode()
        if self._in_line:
            data = b"\n" + data
        try:
            written = os.write(self._file, data)
        except OSError as error:
            self._failed(len(lines), error.strerror or str(error))
            return
        if written == len(data):
            self._in_line = False
            if self._failing_since_dropped is not None:
                missing = self.dropped - self._failing_since_dropped
                self._failing_since_dropped = None
                self._say(f"{self.path}: can be written again; {missing} lines are missing")
            return
        kept = data.rfind(b"\n", 0, written) + 1
        self._in_line = not self._cut(written - kept) or (self._in_line and kept == 0)
        whole = data[:kept].count(b"\n") - (data.startswith(b"\n") and kept > 0)
        self._failed(len(lines) - whole, "not enough space for all lines")

    def _cut(self, surplus: int) -> bool:
        """Take back the last bytes written. False where that can't be done: then the next line starts on a new one."""
        if not surplus:
            return True
        try:
            os.ftruncate(self._file, os.fstat(self._file).st_size - surplus)
        except OSError:
            return False
        return True

    def _failed(self, lines: int, why: str) -> None:
        if self._failing_since_dropped is None:
            self._failing_since_dropped = self.dropped
            self._say(f"{self.path}: {why}; lines are dropped until it can be written again")
        self.dropped += lines

    def close(self) -> None:
        """Let go of the file, and report its missing lines if that has not been reported."""
        if self._failing_since_dropped is not None:
            self._say(f"{self.path}: {self.dropped - self._failing_since_dropped} lines are missing at its end")
            self._failing_since_dropped = None
        os.close(self._file)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
