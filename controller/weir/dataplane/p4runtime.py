# SPDX-License-Identifier: Apache-2.0
"""A switch that runs p4/pid_delay.p4, over P4Runtime: digests in, the `aqm` table's action data out.

Decoding is pure (`DigestReader`, `to_sample`, `backoff_s`); `P4RuntimeDevice` is one thread around a `Client`. It has a
connection at a time, gives it up at the first thing it can't explain, and makes another: whatever a restart, another
controller or a broken answer left behind, there is one way back.
"""

from __future__ import annotations

import operator
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from ..gains import GainError, Gains
from ..law import BYTES_MAX, TAU_MAX_US
from ..p4runtime.client import Client, DeviceError, NotPrimary, PipelineConfig, Standing, Update, WriteError
from ..p4runtime.connection import Tls, parse_address
from ..p4runtime.entities import Call, DigestConfig, TableEntry
from ..p4runtime.messages import Message
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from ..switch import config as configuration
from ..switch import plan
from ..switch.deploy import KINDS, deploy
from ..switch.program import PROGRAM
from .base import DataPlaneError, Device, Down, Event, GainsChanged, Note, Sample, Up

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 30.0
STEADY_S = 30.0
"""A connection that held so long was a good one: the next trouble begins with short pauses again."""

POLL_S = 5.0
"""How often the gains are read again, and with them whether the device is still there and has the same program."""

TIMEOUT_S = 5.0
"""For each request: long for a table write, short for whoever waits."""

CONNECT_TIMEOUT_S = 2.0
TAKE_OVER_PAUSE_S = 0.5
"""Of all that stand by when a primary goes, one takes over: each waits a random part of this and looks again."""

LIST_MAX = 512
LIST_TIMEOUT_NS = 100_000_000
ACK_TIMEOUT_NS = 1_000_000_000
"""Records gathered for so long at most: at 1000 ports ten messages a second instead of thousands. Acknowledged as soon
as they are read."""

FIELDS = (
    "port",
    "now_us",
    "delay_us",
    "u_q40",
    "backlog_bytes",
    "dq_time_q8_us",
    "row",
    "enqueued_packets",
    "enqueued_bytes",
    "tail_dropped_packets",
    "tail_dropped_bytes",
    "aqm_dropped_packets",
    "aqm_marked_packets",
)
"""Of the digest that is read here, in the order of a record."""

Record = tuple[int, ...]

_U_ONE_Q40 = 1 << 40
_ROWS = 5
_COUNT_MASK = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class Law:
    """What of a port's gains one must know to read its digest."""

    squared: bool
    dq_shift: int
    by_rate: bool

    @classmethod
    def of(cls, aqm: plan.Aqm) -> Law:
        return cls(aqm.gains.probability == "squared", aqm.gains.dq_shift, aqm.delay_source == "rate")


class DigestReader:
    """Reads the lists of one program's `aqm_state_t`. Decoding by names as `client.decode_digests` does takes ten times
    as long. Raises P4RuntimeError when the program has no such digest, or has it without one of FIELDS."""

    def __init__(self, info: P4Info) -> None:
        digest = info.digests[plan.AQM_DIGEST]
        self.name, self.id = digest.name, digest.id
        spec = digest.message.type_spec
        structs = info.message.type_info.structs
        if spec.WhichOneof("type_spec") != "struct" or spec.struct.name not in structs:
            raise P4RuntimeError(f"the program's digest {digest.name} is no struct: it is not p4/pid_delay.p4")
        members = structs[spec.struct.name].members
        place = {member.name: index for index, member in enumerate(members)}
        missing = [name for name in FIELDS if name not in place]
        if missing:
            raise P4RuntimeError(f"the program's digest {digest.name} has no {missing[0]}: it is not p4/pid_delay.p4")
        self._count = len(members)
        self._pick = operator.itemgetter(*(place[name] for name in FIELDS))
        widths = [members[place[name]].type_spec.bitstring.bit.bitwidth for name in FIELDS]
        self._most = tuple((1 << width) - 1 for width in widths)

    def record(self, data: Message) -> Record:
        """The values of FIELDS from one p4.v1.P4Data. P4RuntimeError: it is none of this digest's."""
        members = data.struct.members
        if len(members) != self._count:
            raise P4RuntimeError(f"a digest record of {len(members)} members; {self.name} has {self._count}")
        parts = [member.bitstring for member in members]
        if not all(parts):
            raise P4RuntimeError(f"a digest record whose member {parts.index(b'') + 1} is no number")
        record = tuple([int.from_bytes(part, "big") for part in self._pick(parts)])
        if any(map(operator.gt, record, self._most)):
            bad = next(i for i, most in enumerate(self._most) if record[i] > most)
            raise P4RuntimeError(f"a digest record with {FIELDS[bad]} = {record[bad]}: must be 0 .. {self._most[bad]}")
        if record[3] > _U_ONE_Q40 or record[6] > _ROWS:
            raise P4RuntimeError(
                f"a digest record with U = {record[3]} / 2^40, row {record[6]}: must be 0 .. 1, 0 .. 5"
            )
        return record


def to_sample(device: str, record: Record, law: Law) -> Sample:
    """What one record says of its port. Where the law has its delay by Cao Eq. 1, so has the sample; until a rate is
    known that is 0, as in the law."""
    (port, now_us, delay_us, u_q40, backlog_bytes, dq_time_q8_us, row) = record[:7]
    (in_packets, in_bytes, lost_packets, lost_bytes, dropped, marked) = record[7:]
    if law.by_rate:
        delay_us = min(min(backlog_bytes, BYTES_MAX) * dq_time_q8_us >> law.dq_shift + 8, TAU_MAX_US)
    u = u_q40 / _U_ONE_Q40
    rate_bit_s = None
    if dq_time_q8_us:
        # 2^dq_shift bytes in dq_time_q8_us / 256 us
        rate_bit_s = (8 * 256 * 1_000_000 << law.dq_shift) // dq_time_q8_us
    return Sample(
        device,
        str(port),
        now_us,
        delay_us,
        u,
        u * u if law.squared else u,
        backlog_bytes,
        rate_bit_s,
        in_packets - lost_packets & _COUNT_MASK,
        in_bytes - lost_bytes & _COUNT_MASK,
        marked,
        dropped,
        lost_packets,
        row,
    )


def backoff_s(attempt: int, part: float, last_s: float = LAST_RETRY_S) -> float:
    """The pause after the attempt of that number, from 0: doubling from FIRST_RETRY_S to `last_s`, of which the random
    `part`, 0 .. 1, takes up to a quarter, so that not all controllers come back at once."""
    return min(last_s, FIRST_RETRY_S * 2 ** min(attempt, 16)) * (1 - part / 4)


def port_number(text: str) -> int:
    """A port's number. ValueError says what is right."""
    if not text.isascii() or not text.isdigit() or str(int(text)) != text or int(text) > configuration.PORT_MAX:
        raise ValueError(f"port {text!r}: must be a number, 0 .. {configuration.PORT_MAX}")
    return int(text)


class P4RuntimeDevice(Device):
    """The switch at `address` ("HOST:PORT", "unix:PATH"), whose P4Runtime device id is `device_id`.

    ports: whose samples and gains are wanted, in decimal; None: all that run the law. config: the file of
    `weir switch deploy`; a device that comes back without its program or tables is given them again, with the last
    gains it was known to have. switch, precompiled: as in `weir switch deploy`. digest_interval_us: how often a port
    reports, unless it does about as often already (within a factor of 2).

    election_id: as in P4Runtime. None: this controller is in charge while nobody else is, and stands by else; it never
    takes over from another. Only the one in charge gets samples and may write.

    Raises DataPlaneError for what can't be meant.
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
        last_retry_s: float = LAST_RETRY_S,
    ) -> None:
        self.name = name
        self._address, self._device_id, self._role, self._tls = address, device_id, role, tls
        self._election_id = election_id
        self._config, self._switch, self._precompiled = config, switch, precompiled
        self._interval_us = digest_interval_us
        self._poll_s, self._timeout_s, self._last_retry_s = poll_s, timeout_s, last_retry_s
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
        """Held for what reads or writes the following, requests to the device included: a poll that crosses a write
        would take our own gains for another's."""
        self._client: Client | None = None
        self._known: dict[int, plan.Aqm] = {}
        """What each port runs; kept while the device is away, to give it back."""
        self._unsure: dict[int, plan.Aqm] = {}
        """Writes that may or may not have arrived."""
        self._laws: dict[int, Law] = {}
        self._cookie: int | None = None
        """Of the program that the device has in this connection."""
        self._replaceable: set[int | None] = {None}
        """Programs that ours may take the place of: what was there at first, and ours. Another has been put there by
        somebody who meant it."""
        self._up_since_s: float | None = None
        self._leads = False
        """In charge, and nothing that others set before has been overlooked."""

    # What a controller calls

    def place(self, port: str) -> str:
        return f"{self._address},{self._device_id},{port}"

    def start(self, events: SimpleQueue[Event]) -> None:
        self._events = events
        self._thread = threading.Thread(target=self._run, name=f"device {self.name}", daemon=True)
        self._thread.start()

    def read_gains(self) -> dict[str, Gains]:
        with self._lock:
            client = self._connected()
            try:
                found = self._read(client)
            except P4RuntimeError as error:
                raise self._error(f"cannot read its gains: {error}") from None
            return {str(port): aqm.gains for port, aqm in found.items() if self._is_ours(port)}

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
                    f"weir switch gains --port {port} --profile tuned gives it to a port",
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
            # as the device will tell them: its integers are coarser than a float
            gains = Gains.from_params(gains.to_params())
            aqm = self._reporting(replace(self._known[number], gains=gains))
            try:
                client.write([Update.modify(plan.aqm_entry(number, aqm, client.info))])
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
        """A Note of something that may come a thousand times: told the 1st, 10th, 100th... time."""
        count = self._said[text] = self._said.get(text, 0) + 1
        if str(count).strip("0") == "1":
            self._note(text if count == 1 else f"{text} ({count} times by now)", port)

    def _reporting(self, aqm: plan.Aqm) -> plan.Aqm:
        """With digests about as often as wanted: a port that never reports can't be tuned."""
        if self._interval_us / 2 <= aqm.digest_interval_us <= self._interval_us * 2:
            return aqm
        return replace(aqm, digest_interval_us=self._interval_us)

    def _learn(self, port: int, aqm: plan.Aqm) -> None:
        self._known[port] = aqm
        self._unsure.pop(port, None)
        self._laws[port] = Law.of(aqm)

    def _forget(self, port: int) -> None:
        self._known.pop(port, None)
        self._laws.pop(port, None)

    def _write_failed(self, client: Client, port: int, aqm: plan.Aqm, error: P4RuntimeError) -> None:
        """Finds out what is in force after a write that failed: returns when it is `aqm` after all."""
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
            except Exception as error:  # whatever an answer makes of our code must not end the controller
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
        client = Client(
            self._address,
            self._device_id,
            election_id=self._election_id,
            role=self._role,
            tls=self._tls,
            connect_timeout_s=CONNECT_TIMEOUT_S,
            timeout_s=self._timeout_s,
        )
        with client:
            self._client = client
            if self._closing.is_set():
                return
            standing = self._take_part(client)
            while not self._closing.is_set():
                if standing.is_primary:
                    self._in_charge(client)
                else:
                    self._standing_by(client, standing)
                standing = self._take_over(client)

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
        """Sees to it that the device has its program, tables and digests, as far as that is ours, and tells the gains
        it runs. Raises P4RuntimeError."""
        with self._lock:
            running = client.get_pipeline("COOKIE_ONLY")
            if self._up_since_s is not None:
                self._same_program(running)
            cookie = None if running is None else running.cookie
            if self._replaceable == {None}:
                self._replaceable.add(cookie)
            restored = False
            if self._config is not None and is_primary and cookie in self._replaceable:
                restored = self._restore(client, running)
                running = client.get_pipeline("COOKIE_ONLY")
                self._replaceable.add(None if running is None else running.cookie)
            if running is None:
                raise DeviceError(
                    f"device {self._device_id} at {self._address} has no program"
                    + ("" if self._config else "; weir switch deploy gives it one"),
                    "FAILED_PRECONDITION",
                )
            reader = DigestReader(client.info)
            found = self._read(client)
            if is_primary:
                found = self._report(client, reader, found)
            self._compare(found)
            self._cookie, self._leads = running.cookie, is_primary
            was_up = self._up_since_s is not None
            if not was_up:
                self._up_since_s = time.monotonic()
            if not was_up or is_primary:  # who comes to be in charge begins anew
                gains = {str(port): aqm.gains for port, aqm in found.items() if self._is_ours(port)}
                self._events.put(Up(self.name, gains, restored))
            for port in sorted((self._wanted or set()) - set(found)):
                self._complain(f"runs no law; weir switch gains --port {port} --profile tuned gives it one", port)
            return reader

    def _restore(self, client: Client, running: PipelineConfig | None) -> bool:
        """What the configuration file says, but for gains: those that are on the device stay, those it has lost are
        what it was last known to have. Whether anything was written."""
        config = configuration.load(self._config)
        present: dict[int, plan.Aqm] = {}
        if running is not None and plan.AQM in client.info.tables:
            present = self._read(client)
        config = replace(config, aqm={**config.aqm, **self._known, **present})
        report = deploy(client, config, switch=self._switch, main=PROGRAM, precompiled=self._precompiled)
        if report.program_pushed or report.updates:
            what = "program, " if report.program_pushed else ""
            self._note(f"brought to what {self._config.name} says: {what}{len(report.updates)} changes in its tables")
            return True
        return False

    def _read(self, client: Client) -> dict[int, plan.Aqm]:
        """The ports that run the law."""
        found = {}
        law = client.info.actions["pid_delay"].name
        for entry in client.read(TableEntry(plan.AQM)):
            if "egress_port" not in entry.match:
                self._complain("an entry of table aqm without a port")
                continue
            port = entry.match["egress_port"].value
            if isinstance(entry.action, Call) and entry.action.action == law:
                try:
                    found[port] = plan.aqm_of(dict(entry.action.params))
                except P4RuntimeError as error:
                    self._complain(f"has gains that the law does not have: {error}", port)
        return dict(sorted(found.items()))

    def _report(self, client: Client, reader: DigestReader, found: dict[int, plan.Aqm]) -> dict[int, plan.Aqm]:
        """Has the device send digests, and each of our ports make them."""
        wanted = DigestConfig(reader.name, LIST_TIMEOUT_NS, LIST_MAX, ACK_TIMEOUT_NS)
        present = client.find(DigestConfig(reader.name))
        if present != wanted:
            client.write([Update.insert(wanted) if present is None else Update.modify(wanted)])
        result = {port: self._reporting(aqm) if self._is_ours(port) else aqm for port, aqm in found.items()}
        silent = [port for port, aqm in result.items() if aqm != found[port]]
        if silent:
            client.write([Update.modify(plan.aqm_entry(port, result[port], client.info)) for port in silent])
            more = f" and {len(silent) - 5} more" if len(silent) > 5 else ""
            shown = ", ".join(map(str, silent[:5]))
            self._note(f"told to report every {self._interval_us} us: ports {shown}{more}")
        return result

    def _compare(self, found: dict[int, plan.Aqm]) -> None:
        """Takes `found` for what is in force, and tells of what is not what it was."""
        for port in sorted(set(self._known) - set(found)):
            self._forget(port)
            if self._is_ours(port):
                self._note("runs the law no longer: its entry in table aqm is gone", port)
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
        laws, events, name, wanted = self._laws, self._events, self.name, self._wanted
        for data in message.data:
            try:
                record = reader.record(data)
            except P4RuntimeError as error:
                self._complain(f"nonsense: {error}")
                continue
            law = laws.get(record[0])
            if law is not None and (wanted is None or record[0] in wanted):
                events.put(to_sample(name, record, law))
