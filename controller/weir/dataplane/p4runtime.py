# SPDX-License-Identifier: Apache-2.0
"""A switch that runs a program of `weir.programs`, over P4Runtime: samples of its ports in, gains out.

`P4RuntimeDevice` is one thread around a `Client`. The program names the tables and digests. It has a connection at a
time, gives it up at the first thing it can't explain, and makes another: after a restart, another controller or a
broken answer there is one way back.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from .. import bands, programs
from ..gains import GainError, Gains, Value
from ..p4runtime.client import Client, DeviceError, NotPrimary, PipelineConfig, Standing, Update, WriteError
from ..p4runtime.connection import Tls, parse_address
from ..p4runtime.entities import DigestConfig, TableEntry
from ..p4runtime.labels import describe_action
from ..p4runtime.messages import Message
from ..p4runtime.values import P4RuntimeError
from ..programs.base import PORT_MAX, DigestReader, PortLaw, Program
from ..switch import config as configuration
from ..switch.deploy import KINDS, deploy
from .base import (
    DataPlaneError,
    Device,
    DeviceStatus,
    Down,
    Event,
    GainsChanged,
    Note,
    PortSettings,
    PortStatus,
    Up,
)
from .p4registers import WITHOUT_REGISTERS, RegisterReader, read_bands

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 30.0
STEADY_S = 30.0
"""A connection that held so long was a good one: the next trouble begins with short pauses again."""

POLL_S = 5.0
"""Interval of reading the gains again, and of checking that the device is still there and has the same program."""

TIMEOUT_S = 5.0
"""For each request: long for a table write, short for a caller that waits."""

CONNECT_TIMEOUT_S = 2.0

WATCH_MS = 500
"""Between two readings of the registers of a switch that is only watched."""

STATUS_LOOK_S = 0.2
"""Between the two readings that show whether a port's registers move."""

TAKE_OVER_PAUSE_S = 0.5
"""Of all that stand by when a primary goes, one takes over: each waits a random part of this and checks again."""

LIST_MAX = 512
LIST_TIMEOUT_NS = 100_000_000
ACK_TIMEOUT_NS = 1_000_000_000
"""Records gathered for so long at most: at 1000 ports ten messages a second instead of thousands. Acknowledged as soon
as they are read."""


def backoff_s(attempt: int, part: float, last_s: float = LAST_RETRY_S) -> float:
    """The pause after the attempt of that number, from 0: doubling from FIRST_RETRY_S to `last_s`, of which the random
    `part`, 0 .. 1, takes up to a quarter, so that not all controllers come back at once."""
    return min(last_s, FIRST_RETRY_S * 2 ** min(attempt, 16)) * (1 - part / 4)


def port_number(text: str) -> int:
    """A port's number. ValueError gives the right form."""
    if not text.isascii() or not text.isdigit() or str(int(text)) != text or int(text) > PORT_MAX:
        raise ValueError(f"port {text!r}: must be a number, 0 .. {PORT_MAX}")
    return int(text)


def _now_us() -> int:
    return time.monotonic_ns() // 1000


class P4RuntimeDevice(Device):
    """The switch at `address` ("HOST:PORT", "unix:PATH"), whose P4Runtime device id is `device_id`.

    ports: whose samples and gains are wanted, in decimal; None: all that run the law. config: the file of
    `weir p4 deploy`; a device that comes back without its program or tables is given them again, with the last
    gains it was known to have. switch, precompiled: as in `weir p4 deploy`. digest_interval_us: how often a port
    reports, unless it does about as often already (within a factor of 2).

    election_id: as in P4Runtime. None: this controller is in charge while nobody else is, and stands by else; it never
    takes over from another. Only the one in charge gets samples and may write.

    Raises DataPlaneError for invalid values.
    """

    def __init__(
        self,
        name: str,
        address: str,
        device_id: int = 0,
        election_id: int | None = None,
        role: str = "",
        tls: Tls | None = None,
        ports: Sequence[str] | None = None,
        config: Path | None = None,
        switch: str = "auto",
        digest_interval_us: int = 100_000,
        *,
        precompiled: tuple[Path, Path] | None = None,
        poll_s: float = POLL_S,
        timeout_s: float = TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        last_retry_s: float = LAST_RETRY_S,
    ) -> None:
        self.name = name
        self._address, self._device_id, self._role, self._tls = address, device_id, role, tls
        self._election_id = election_id
        self._config, self._switch, self._precompiled = config, switch, precompiled
        self._interval_us = digest_interval_us
        self._poll_s, self._timeout_s, self._last_retry_s = poll_s, timeout_s, last_retry_s
        self._connect_timeout_s = connect_timeout_s
        self._watch_every_s: float | None = None
        try:
            self._wanted = None if ports is None else {port_number(port) for port in ports}
            parse_address(address)
        except ValueError as error:
            raise self._error(str(error)) from None
        if election_id is not None and not 0 < election_id < 1 << 128:
            raise self._error(f"election id {election_id}: must be 1 .. 2^128 - 1")
        if switch not in (*KINDS, "auto"):
            raise self._error(f"switch {switch!r}: must be one of {', '.join(KINDS)}, auto")
        if not 0 < digest_interval_us < 1 << 32:
            raise self._error(f"digest interval {digest_interval_us} us: must be 1 .. 2^32 - 1")
        if config is not None:
            try:
                configuration.load(config)
            except (OSError, configuration.ConfigError) as error:
                raise self._error(str(error)) from None
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._random = random.Random()
        self._said: dict[str, int] = {}

        self._lock = threading.RLock()
        """Held to read or write the following, requests to the device included: a poll that crosses a write would take
        our own gains for another's."""
        self._client: Client | None = None
        self._known: dict[int, PortLaw] = {}
        """Law of each port; kept while the device is away, to give it back."""
        self._unsure: dict[int, PortLaw] = {}
        """Writes that may or may not have arrived."""
        self._program: Program = programs.PID_DELAY
        self._cookie: int | None = None
        """Of the program that the device has in this connection."""
        self._replaceable: set[int | None] = {None}
        """Programs that ours may take the place of: the first one there, and ours. Another has been put there by
        somebody who meant it."""
        self._up_since_s: float | None = None
        self._leads = False
        """In charge, and nothing that others set before has been overlooked."""

    own_keys = (*PortLaw.OWN_KEYS, *bands.KEYS)
    gives_law = True

    # Called by a controller

    def place(self, port: str) -> str:
        return f"{self._address},{self._device_id},{port}"

    def start(self, events: SimpleQueue[Event]) -> None:
        self._events = events
        self._thread = threading.Thread(target=self._run, name=f"device {self.name}", daemon=True)
        self._thread.start()

    def watch(self, events: SimpleQueue[Event], every_ms: int | None = None) -> None:
        self._watch_every_s = (every_ms or WATCH_MS) / 1000
        self.start(events)

    def read_gains(self) -> dict[str, Gains]:
        return {port: one.gains for port, one in self.read_settings().items() if one.gains is not None}

    def read_settings(self) -> dict[str, PortSettings]:
        with self._lock, self._session("cannot read its gains") as client:
            return self._settings(client)

    def change(self, port: str, base: Gains | None, changes: Mapping[str, Value]) -> None:
        try:
            number = port_number(port)
        except ValueError as error:
            raise self._error(str(error)) from None
        with self._lock, self._session("gains not set") as client:
            present = self._read(client).get(number)
            if base is not None:
                law = PortLaw(base, bands=present.bands if present else None).with_changes(changes)
            elif present is not None:
                law = present.with_changes(changes)
            else:
                raise self._error("has no gains to change; give --profile too", port)
            if self._thread is None:
                client.become_primary()
            if law != present:
                there = number in dict(self._law_entries(client))
                entry = self._program.law_entry(number, law, client.info)
                client.write([Update.modify(entry) if there else Update.insert(entry)])
                if self._thread is not None:
                    self._learn(number, law)

    def read_status(self) -> DeviceStatus:
        with self._lock, self._session("cannot be read") as client:
            running = client.get_pipeline("COOKIE_ONLY")
            if running is None:
                return DeviceStatus("no program; `weir p4 deploy` gives it one", ())
            laws = {port: law for port, law in self._read(client).items() if self._is_ours(port)}
            reader = RegisterReader(client, self._program)
            reader.read(self.name, laws, _now_us())
            self._closing.wait(STATUS_LOOK_S)
            readings = {one.port: one for one in reader.read(self.name, laws, _now_us())}
            bands_of = {str(port): counts for port, counts in read_bands(client, self._program, laws).items()}
            attached = f"table {self._program.law_table}"
            ports = tuple(
                PortStatus(port, attached, settings, readings.get(port), bands=bands_of.get(port))
                for port, settings in self._settings(client).items()
            )
            notes = () if reader.has_registers else (WITHOUT_REGISTERS,)
            return DeviceStatus(f"{self._program.name}, cookie {running.cookie:#x}", ports, notes)

    @contextmanager
    def _session(self, failed: str) -> Iterator[Client]:
        """The connection of the thread; where none was started, one of its own. DataPlaneError begins with `failed`."""
        try:
            if self._thread is not None:
                yield self._connected()
                return
            with self._open() as client:
                if client.get_pipeline("COOKIE_ONLY") is not None:
                    self._program = programs.in_device(client.info)
                yield client
        except P4RuntimeError as error:
            raise self._error(f"{failed}: {error}") from None

    def _settings(self, client: Client) -> dict[str, PortSettings]:
        found = {}
        for port, entry in sorted(self._law_entries(client), key=lambda item: item[0]):
            if not self._is_ours(port):
                continue
            try:
                law = self._program.law_of(entry, client.info)
            except P4RuntimeError as error:
                found[str(port)] = PortSettings(None, what=str(error))
                continue
            what = describe_action(entry.action, client.info)
            found[str(port)] = PortSettings(None, what=what) if law is None else PortSettings(law.gains, law.own)
        return found

    def write_gains(self, port: str, gains: Gains) -> None:
        try:
            number = port_number(port)
        except ValueError as error:
            raise self._error(str(error)) from None
        with self._lock:
            client = self._connected(port)
            if number not in self._known or not self._is_ours(number):
                ours = ", ".join(str(p) for p in sorted(self._known) if self._is_ours(p)) or "none"
                raise self._error(
                    f"does not run the law under this controller; these ports do: {ours}. "
                    f"{self._law_hint(port)} gives it to a port",
                    port,
                )
            if not self._leads:
                standing = client.standing
                if standing is None or not standing.has_primary:
                    raise self._error("gains not set: this controller is not in charge", port)
                raise self._error(
                    f"gains not set: another controller (election id {standing.highest_id}) is in charge; "
                    f"--election-id {standing.highest_id + 1} takes its place until this command ends",
                    port,
                )
            # as the device will report them: its integers are coarser than a float
            gains = Gains.from_params(gains.to_params())
            aqm = self._reporting(replace(self._known[number], gains=gains))
            try:
                client.write([Update.modify(self._program.law_entry(number, aqm, client.info))])
            except P4RuntimeError as error:
                self._write_failed(client, number, aqm, error)
            self._learn(number, aqm)

    def close(self) -> None:
        self._closing.set()
        client = self._client  # not under the lock: who holds it may be waiting for the device
        if client is not None:
            client.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    # Little things

    def _error(self, text: str, port: str | None = None) -> DataPlaneError:
        where = f"device {self.name}" + (f", port {port}" if port is not None else "")
        return DataPlaneError(f"{where}: {text}")

    def _connected(self, port: str | None = None) -> Client:
        if self._client is None or self._up_since_s is None:
            raise self._error(f"no connection to {self._address} at present; it is being tried", port)
        return self._client

    def _is_ours(self, port: int) -> bool:
        return self._wanted is None or port in self._wanted

    def _note(self, text: str, port: int | None = None) -> None:
        self._events.put(Note(self.name, None if port is None else str(port), text))

    def _complain(self, text: str, port: int | None = None) -> None:
        """A Note of something that may come a thousand times: sent the 1st, 10th, 100th... time."""
        count = self._said[text] = self._said.get(text, 0) + 1
        if str(count).strip("0") == "1":
            self._note(text if count == 1 else f"{text} ({count} times by now)", port)

    def _reporting(self, aqm: PortLaw) -> PortLaw:
        """With digests about as often as wanted: a port that never reports can't be tuned."""
        if self._interval_us / 2 <= aqm.digest_interval_us <= self._interval_us * 2:
            return aqm
        return replace(aqm, digest_interval_us=self._interval_us)

    def _learn(self, port: int, aqm: PortLaw) -> None:
        self._known[port] = aqm
        self._unsure.pop(port, None)

    def _forget(self, port: int) -> None:
        self._known.pop(port, None)

    def _write_failed(self, client: Client, port: int, aqm: PortLaw, error: P4RuntimeError) -> None:
        """Finds the present gains after a write that failed: returns when it is `aqm` after all."""
        why = f"gains not set: {error}"
        if isinstance(error, WriteError) and error.unknown:
            self._unsure[port] = aqm
            try:
                found = self._read(client).get(port)
            except P4RuntimeError:  # said by the write's error already, and by Down when it stays so
                raise self._error(f"{why}; which are in force will be seen when it answers again", str(port)) from None
            if found == aqm:
                return
            self._unsure.pop(port)
        raise self._error(why, str(port)) from None

    # The thread

    def _run(self) -> None:
        attempt = 0
        while not self._closing.is_set():
            why = "the connection was closed"
            try:
                self._connection()
            except (P4RuntimeError, configuration.ConfigError, GainError, OSError) as error:
                why = str(error)
            except Exception as error:  # no answer may end the controller
                why = f"not understood: {error!r}"
            with self._lock:
                up_since_s, self._up_since_s, self._client = self._up_since_s, None, None
                self._leads = False
            if self._closing.is_set():
                return
            if up_since_s is not None and time.monotonic() - up_since_s >= STEADY_S:
                attempt = 0
            retry_s = backoff_s(attempt, self._random.random(), self._last_retry_s)
            attempt += 1
            self._events.put(Down(self.name, why, retry_s))
            self._closing.wait(retry_s)

    def _connection(self) -> None:
        """One connection, until it fails or `close`."""
        with self._open() as client:
            self._client = client
            if self._closing.is_set():
                return
            if self._watch_every_s is not None:
                self._look_on(client, self._watch_every_s)
                return
            standing = self._take_part(client)
            while not self._closing.is_set():
                if standing.is_primary:
                    self._in_charge(client)
                else:
                    self._standing_by(client, standing)
                standing = self._take_over(client)

    def _open(self) -> Client:
        return Client(
            self._address,
            self._device_id,
            election_id=self._election_id,
            role=self._role,
            tls=self._tls,
            connect_timeout_s=self._connect_timeout_s,
            timeout_s=self._timeout_s,
        )

    def _look_on(self, client: Client, every_s: float) -> None:
        """Reads registers again and again, beside the primary."""
        with self._lock:
            running = self._running(client)
            self._program = programs.in_device(client.info)
            reader = RegisterReader(client, self._program)
            found = self._read(client)
            self._compare(found)
            self._cookie, self._up_since_s = running.cookie, time.monotonic()
            gains = {str(port): aqm.gains for port, aqm in found.items() if self._is_ours(port)}
            self._events.put(Up(self.name, gains))
            if not found:
                self._note(f"no port runs the law; {self._law_hint('N')}, or weir p4 deploy, gives it one")
        if not reader.has_registers:
            self._note(WITHOUT_REGISTERS)
        due_s = poll_at_s = time.monotonic()
        poll_at_s += self._poll_s
        while not self._closing.is_set():
            with self._lock:
                laws = {port: law for port, law in self._known.items() if self._is_ours(port)}
                for event in reader.read(self.name, laws, _now_us()):
                    self._events.put(event)
            if time.monotonic() >= poll_at_s:
                self._poll(client)
                poll_at_s = time.monotonic() + self._poll_s
            due_s = max(due_s + every_s, time.monotonic())
            self._closing.wait(max(0.0, due_s - time.monotonic()))

    def _running(self, client: Client) -> PipelineConfig:
        """Program of the device. Raises DeviceError when it has none."""
        running = client.get_pipeline("COOKIE_ONLY")
        if running is None:
            raise DeviceError(
                f"device {self._device_id} at {self._address} has no program"
                + ("" if self._config else "; weir p4 deploy gives it one"),
                "FAILED_PRECONDITION",
            )
        return running

    def _law_hint(self, port: object) -> str:
        return f"weir gains --p4 {self._address} --port {port} --profile tuned"

    def _take_part(self, client: Client) -> Standing:
        """Where we stand at first. Without an election id of our own we come as one that is not a candidate: a first
        look that disturbs nobody."""
        if self._election_id is None:
            client.election_id = 0
        standing = client.arbitrate()
        if self._election_id is None and (not standing.has_primary or standing.is_primary):
            # Is primary without an id: BMv2 takes none for 0.
            return self._lead(client, standing)
        return standing

    def _lead(self, client: Client, standing: Standing) -> Standing:
        client.election_id = self._election_id or max(1, standing.highest_id)
        return client.arbitrate()

    def _take_over(self, client: Client) -> Standing:
        """After the standing has changed: takes the lead when nobody has it."""
        standing = client.standing
        if standing is not None and not standing.has_primary:
            if self._election_id is None or self._election_id >= standing.highest_id:
                standing = client.await_standing(standing, TAKE_OVER_PAUSE_S * self._random.random())
                if not standing.has_primary:
                    standing = self._lead(client, standing)
            else:
                self._note(
                    f"nobody is in charge, but election id {self._election_id} is below {standing.highest_id}, which "
                    "one has had before; give that or a higher one"
                )
        if standing is None:
            raise DeviceError(f"{self._address}: the device does not say who is in charge", "UNAVAILABLE")
        return standing

    def _in_charge(self, client: Client) -> None:
        """Until another controller takes over."""
        try:
            if self._up_since_s is not None:
                self._note("in charge now, with samples")
            reader = self._bring_up(client, is_primary=True)
            poll_at_s = time.monotonic() + self._poll_s
            while not self._closing.is_set():
                left_s = poll_at_s - time.monotonic()
                if left_s > 0:
                    for message in client.digest_messages(left_s):
                        self._take(reader, message)
                        if time.monotonic() >= poll_at_s:
                            break
                self._poll(client)
                poll_at_s = time.monotonic() + self._poll_s
        except NotPrimary as error:
            with self._lock:
                self._leads = False
            standing = client.standing
            if standing is not None and standing.is_primary:  # the stream says so a moment later than the refusal
                standing = client.await_standing(standing, self._timeout_s)
            if standing is None or standing.is_primary:
                raise DeviceError(f"{error}; yet the device says that this one is in charge", "INTERNAL") from None

    def _standing_by(self, client: Client, standing: Standing) -> None:
        """Until the one in charge goes: gains are read, samples go elsewhere."""
        self._note(
            f"another controller (election id {standing.highest_id}) is in charge: samples go to it alone; until it "
            "is gone this one can only read gains"
            if standing.has_primary
            else "nobody is in charge: no samples until a controller is"
        )
        self._bring_up(client, is_primary=False)
        while not self._closing.is_set():
            now = client.await_standing(standing, self._poll_s)
            if now != standing:
                return
            self._poll(client)

    # The device's state

    def _bring_up(self, client: Client, is_primary: bool) -> DigestReader:
        """Sees to it that the device has its program, tables and digests, as far as that is our part, and reports its
        gains. Raises P4RuntimeError."""
        with self._lock:
            running = client.get_pipeline("COOKIE_ONLY")
            if self._up_since_s is not None:
                self._same_program(running)
            cookie = None if running is None else running.cookie
            if self._replaceable == {None}:
                self._replaceable.add(cookie)
            restored = False
            if self._config is not None and is_primary and cookie in self._replaceable:
                restored = self._restore(client, self._config, running)
                running = client.get_pipeline("COOKIE_ONLY")
                self._replaceable.add(None if running is None else running.cookie)
            running = self._running(client) if running is None else running
            self._program = programs.in_device(client.info)
            reader = self._program.digest_reader(client.info)
            found = self._read(client)
            if is_primary:
                found = self._report(client, reader, found)
            self._compare(found)
            self._cookie, self._leads = running.cookie, is_primary
            was_up = self._up_since_s is not None
            if not was_up:
                self._up_since_s = time.monotonic()
            if not was_up or is_primary:  # a new primary begins anew
                gains = {str(port): aqm.gains for port, aqm in found.items() if self._is_ours(port)}
                self._events.put(Up(self.name, gains, restored))
            for port in sorted((self._wanted or set()) - set(found)):
                self._complain(f"runs no law; {self._law_hint(port)} gives it one", port)
            return reader

    def _restore(self, client: Client, file: Path, running: PipelineConfig | None) -> bool:
        """Restores the configuration `file`, but for gains: those that are on the device stay, those it has lost are
        the last known ones. Whether anything was written."""
        config = configuration.load(file)
        self._program = self._program_to_bring(client, config, running)
        present: dict[int, PortLaw] = {}
        if running is not None and self._program.law_table in client.info.tables:
            present = self._read(client)
        config = replace(config, aqm={**config.aqm, **self._known, **present})
        report = deploy(client, config, switch=self._switch, main=self._program.source, precompiled=self._precompiled)
        if report.program_pushed or report.updates:
            what = "program, " if report.program_pushed else ""
            self._note(f"brought to what {file.name} says: {what}{len(report.updates)} changes in its tables")
            return True
        return False

    def _program_to_bring(
        self, client: Client, config: configuration.Config, running: PipelineConfig | None
    ) -> Program:
        """The program that the device has, if it is one of our programs; else the one it had before; of a device that
        was never seen with one, the one that the configuration needs."""
        found = None if running is None else programs.of(client.info)
        if found is not None or self._up_since_s is not None:
            return found or self._program
        if config.names is not None:
            return programs.EDGE
        if config.advice:
            return programs.PID_DELAY_SCONE
        return programs.PID_DELAY_L4S if config.coupled else programs.PID_DELAY

    def _read(self, client: Client) -> dict[int, PortLaw]:
        """The ports that run the law."""
        found = {}
        for port, entry in self._law_entries(client):
            try:
                law = self._program.law_of(entry, client.info)
            except P4RuntimeError as error:
                self._complain(f"has gains that the law does not have: {error}", port)
                continue
            if law is not None:
                found[port] = law
        return dict(sorted(found.items()))

    def _law_entries(self, client: Client) -> Iterator[tuple[int, TableEntry]]:
        for entry in client.read(TableEntry(self._program.law_table)):
            port = self._program.law_port(entry)
            if port is None:
                self._complain(f"an entry of table {self._program.law_table} without a port")
            else:
                yield port, entry

    def _report(self, client: Client, reader: DigestReader, found: dict[int, PortLaw]) -> dict[int, PortLaw]:
        """Has the device send digests, and each of our ports make them."""
        wanted = DigestConfig(reader.name, LIST_TIMEOUT_NS, LIST_MAX, ACK_TIMEOUT_NS)
        present = client.find(DigestConfig(reader.name))
        if present != wanted:
            client.write([Update.insert(wanted) if present is None else Update.modify(wanted)])
        result = {port: self._reporting(aqm) if self._is_ours(port) else aqm for port, aqm in found.items()}
        silent = [port for port, aqm in result.items() if aqm != found[port]]
        if silent:
            client.write([Update.modify(self._program.law_entry(port, result[port], client.info)) for port in silent])
            more = f" and {len(silent) - 5} more" if len(silent) > 5 else ""
            shown = ", ".join(map(str, silent[:5]))
            self._note(f"set to report every {self._interval_us} us: ports {shown}{more}")
        return result

    def _compare(self, found: dict[int, PortLaw]) -> None:
        """Takes `found` as the present settings, and reports those that changed."""
        for port in sorted(set(self._known) - set(found)):
            self._forget(port)
            if self._is_ours(port):
                self._note(f"runs the law no longer: its entry in table {self._program.law_table} is gone", port)
        came = {}
        for port, aqm in found.items():
            before = self._known.get(port)
            is_news = before is not None and aqm.gains != before.gains and aqm != self._unsure.get(port)
            if before is None:
                came[str(port)] = aqm.gains
            elif before.digest_interval_us and aqm.digest_interval_us == 0 and self._is_ours(port):
                self._note("reports no longer: digest_interval_us was set to 0", port)
            self._learn(port, aqm)
            if is_news and self._is_ours(port):
                self._events.put(GainsChanged(self.name, str(port), aqm.gains))
        came = {port: gains for port, gains in came.items() if self._is_ours(int(port))}
        if came and self._up_since_s is not None:
            self._events.put(Up(self.name, came))

    def _same_program(self, running: PipelineConfig | None) -> None:
        """Raises when the device has another program than when this connection began: nothing that is known about it
        holds any more."""
        cookie = None if running is None else running.cookie
        if cookie == self._cookie:
            return
        what = "has lost its program" if running is None else "was given another program by another controller"
        raise DeviceError(f"device {self._device_id} at {self._address} {what}", "FAILED_PRECONDITION")

    def _poll(self, client: Client) -> None:
        with self._lock:
            self._same_program(client.get_pipeline("COOKIE_ONLY"))
            self._compare(self._read(client))
            if client.lost_digests:
                self._complain(f"{client.lost_digests} digest lists came faster than they were read")

    def _take(self, reader: DigestReader, message: Message) -> None:
        if message.digest_id != reader.id:
            return
        laws, events, name, wanted = self._known, self._events, self.name, self._wanted
        sample = self._program.sample_of_record
        for data in message.data:
            try:
                record = reader.record(data)
            except P4RuntimeError as error:
                self._complain(f"nonsense: {error}")
                continue
            law = laws.get(record[0])
            if law is not None and (wanted is None or record[0] in wanted):
                events.put(sample(name, record, law))
