# SPDX-License-Identifier: Apache-2.0
"""The input of `weir watch` and `weir top`: devices, or files of samples and decisions, as one queue of events."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

from ..dataplane.base import Event, Note
from ..dataplane.fleet import Fleet, FleetError
from ..options.arguments import complain, status_of, whole
from ..options.devices import add_devices, fleet_of
from .jsonl import KIND, from_record
from .view import Decision

FOLLOW_S = 0.2  # interval of reading a file that is followed
LINE_MAX_BYTES = 1 << 20
BACKLOG_MAX = 20_000  # events read ahead of who takes them
_CHUNK_BYTES = 1 << 16

P4_NOTE = """\
Any number of commands can read eBPF queues and the registers of P4 switches, beside `weir tune` or another controller.
The tail drops of a P4 port are an upper bound: they are the difference of two registers that are read one after the
other. BMv2's registers cannot be read: it has counters only, or with --digests the samples that its ports send to the
controller in charge. With --digests this command takes charge if no controller has, and turns the digests on. It
changes no gains."""


class End:
    """A file that is not followed has been read."""


def parse(line: bytes) -> Event | Decision | None:
    """A line of samples or decisions; None for kinds that are neither. ValueError gives the fault."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a line of JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"not a sample or a decision: {type(record).__name__}; must be an object")
    return parsed(record)


def parsed(record: dict[str, Any]) -> Event | Decision | None:
    """The same of a line that has been read already."""
    if record.get("k") == KIND:
        return from_record(record)
    if record.get("k") in ("decision", "effect"):
        for key in ("device", "port"):
            if not isinstance(record.get(key), str):
                raise ValueError(f"{key} = {record.get(key)!r}: must be text")
        changed = record.get("changed", {})
        if not isinstance(changed, dict) or not all(isinstance(of, list) and len(of) == 2 for of in changed.values()):
            raise ValueError(f"changed = {changed!r}: must be the old and the new value of each key")
        return Decision(record)
    return None


class Tail:
    """A thread that reads a file's lines into `events`, from its start; with `follow` also what is added later, and
    another file of that name, should it be replaced or begun anew. A file that is followed need not be there yet."""

    def __init__(self, path: str | Path, events: SimpleQueue, follow: bool) -> None:
        self._path, self._events, self._follow = Path(path), events, follow
        self._closing = threading.Event()
        self._wrong = self._lines = 0
        self._rest = b""
        self._skipping = False
        self._thread = threading.Thread(target=self._run, name=f"tail {path}", daemon=True)
        if not follow:
            open(path, "rb").close()  # OSError at once and not in the thread

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with open(self._path, "rb") as file:
                    self._read(file)
            except OSError as error:
                if not self._follow or not isinstance(error, FileNotFoundError):
                    self._note(f"{error.strerror}")
            if not self._follow:
                break
            self._rest, self._skipping, self._lines = b"", False, 0
            self._closing.wait(FOLLOW_S)
        self._events.put(End())

    def _read(self, file: BinaryIO) -> None:
        """Until its end; when it is followed, until another takes its name."""
        while not self._closing.is_set():
            data = file.read(_CHUNK_BYTES)
            if data:
                self._take(data)
                while self._events.qsize() > BACKLOG_MAX and not self._closing.wait(0.02):
                    pass
            elif not self._follow:
                if self._rest:
                    self._line(self._rest)
                return
            elif self._is_other(file):
                return
            else:
                self._closing.wait(FOLLOW_S)

    def _is_other(self, file: BinaryIO) -> bool:
        here = os.fstat(file.fileno())
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False  # it may come back; until then this one may grow
        return (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino) or here.st_size < file.tell()

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
            else:
                self._line(line)
        self._rest = rest
        if len(rest) > LINE_MAX_BYTES:
            self._rest = b""
            if not self._skipping:
                self._skipping = True
                self._lines += 1
                self._complain(f"longer than {LINE_MAX_BYTES} bytes")

    def _line(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip():
            return
        try:
            event = parse(line)
        except ValueError as error:
            self._complain(str(error))
            return
        if event is not None:
            self._events.put(event)

    def _complain(self, words: str) -> None:
        """The 1st, 10th, 100th... line that is wrong."""
        self._wrong += 1
        if str(self._wrong).strip("0") == "1":
            self._note(f"line {self._lines}: {words}" + (f" ({self._wrong} such lines)" if self._wrong > 1 else ""))

    def _note(self, text: str) -> None:
        self._events.put(Note(str(self._path), None, text))


class Source:
    """Devices or a file, and a file of decisions beside them: `next` returns their events. `with` closes it.
    in_charge: be a controller of the devices, else they are only watched, with a sample each `every_ms`. ends: how many
    End there will be; devices and files that are followed have none."""

    def __init__(
        self,
        fleet: Fleet | None,
        file: Path | None,
        follow: bool,
        decisions: Path | None,
        every_ms: int | None = None,
        in_charge: bool = False,
    ) -> None:
        self._every_ms, self._in_charge = every_ms, in_charge
        self.events: SimpleQueue = SimpleQueue() if fleet is None else fleet.events
        self.fleet = fleet
        follow = follow or fleet is not None
        self._tails = [Tail(path, self.events, follow) for path in (file, decisions) if path is not None]
        self.ends = 0 if follow else len(self._tails)

    def start(self) -> None:
        for tail in self._tails:
            tail.start()
        if self.fleet is None:
            return
        if self._in_charge:
            self.fleet.start()
        else:
            self.fleet.watch(self._every_ms)

    def next(self, timeout_s: float | None, most: int = 1000) -> list[Event | Decision | End]:
        """Next events, at most so many; waits for the first. Empty when nothing came in `timeout_s`."""
        found = []
        with suppress(Empty):
            found.append(self.events.get(timeout=timeout_s))
            while len(found) < most:
                found.append(self.events.get_nowait())
        return found

    def close(self) -> None:
        for tail in self._tails:
            tail.close()
        if self.fleet is not None:
            self.fleet.close()

    def __enter__(self) -> Source:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def add_source(parser: argparse.ArgumentParser) -> None:
    """The options that name the input."""
    add_devices(parser)
    reading = parser.add_argument_group("how devices are read")
    reading.add_argument(
        "--every-ms", type=whole(1, 86_400_000), metavar="N",
        help="time between samples of a port (default: eBPF 100, or every_ms of a fleet's file; P4 500)",
    )  # fmt: skip
    reading.add_argument(
        "--digests",
        action="store_true",
        help="take charge of P4 switches and receive their digests, instead of reading registers",
    )
    files = parser.add_argument_group("or a file")
    files.add_argument("--from", dest="file", type=Path, metavar="FILE", help="samples as JSON lines, not devices")
    files.add_argument("--follow", action="store_true", help="wait for lines that are appended to it")


def open_source(args: argparse.Namespace, decisions: Path | None = None) -> Source:
    """Source named by those options, not yet started; by default all eBPF queues of this machine. Raises FleetError,
    OSError."""
    if args.file is not None:
        if args.fleet is not None or args.bpf or args.p4:
            raise FleetError("--from: goes without --fleet, --bpf and --p4")
        return Source(None, args.file, args.follow, decisions)
    if args.follow:
        raise FleetError("--follow: goes with --from FILE; devices are followed anyway")
    if args.digests and args.every_ms is not None:
        raise FleetError("--every-ms: goes without --digests, which come when the switch sends them")
    if args.election_id is not None and not args.digests:
        raise FleetError("--election-id: goes with --digests; else watching takes part in no election")
    return Source(fleet_of(args, default_all=True), None, False, decisions, args.every_ms, args.digests)


def until(source: Source, seconds: float | None) -> Iterator[list[Event | Decision]]:
    """Batches of events for so long, or for ever; if all of it is files, until their end in any case."""
    ends = 0
    end_s = None if seconds is None else time.monotonic() + seconds
    while True:
        left_s = None if end_s is None else end_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            return
        batch = source.next(left_s)
        ends += sum(isinstance(event, End) for event in batch)
        yield [event for event in batch if not isinstance(event, End)]
        if ends and ends == source.ends:
            return


def _stopped(*_: object) -> None:
    raise KeyboardInterrupt


def run(name: str, work: Callable[[], int]) -> int:
    """The status of a command that runs until it is stopped, which is no failure; its errors are one line."""
    before = {number: signal.signal(number, _stopped) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        return work()
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ValueError as error:  # FleetError, MetricsAddressError
        said, status = str(error), 2
    except OSError as error:  # MetricsError too
        said, status = f"{error.filename or 'standard output'}: {error.strerror}", status_of(error)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    complain(name, said)
    return status
