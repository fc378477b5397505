# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime client: a thin shell around grpc and `entities`. One device, one role, one thread that listens.

    with Client("127.0.0.1:9559") as device:
        device.become_primary()
        device.set_pipeline(config)
        device.write([Update.insert(TableEntry("ipv4_lpm", {"dst": Lpm(0x0A000000, 8)}, Call("drop")))])

Everything that goes wrong is a P4RuntimeError: DeviceError with the device's code, NotPrimary, WriteError naming each
update that failed and the applied ones.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read on import; what it logs is said better by our own errors

import grpc
from google.protobuf.message import DecodeError

from ..text import printable
from .codec import decode, encode
from .connection import Tls, parse_address, tls_parts, why_not
from .entities import Entity, TableEntry
from .labels import describe
from .messages import METHODS, Message, code_name, rpc, v1
from .p4info import P4Info, Resource
from .values import Data, P4RuntimeError, decode_data, from_bytes, to_bytes

BATCH = 500
"""Updates in one write: well below gRPC's 4 MB, and a device that stops in the middle has lost little."""

_KEPT, _KEPT_BYTES = 10_000, 64 << 20
"""Digest lists and packets held for a caller that does not fetch them; further ones are counted as lost."""

_ANSWER_BYTES = 64 << 20
"""Of an answer, over all its messages: a million routes. An endless answer is not read to the end."""

_CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", _ANSWER_BYTES),  # a P4Info or a large table in one message
    ("grpc.max_send_message_length", 256 << 20),
    ("grpc.max_metadata_size", 1 << 20),  # a failed write's status holds an error for each update
    ("grpc.absolute_max_metadata_size", 4 << 20),
    ("grpc.enable_http_proxy", 0),  # a switch is on the management network, and proxies break long streams
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


_ROOM = (("weir-status-bytes", "1000000"),)
"""To weir-switch: we take a status this long (see above), where others would get a part of it."""

_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
)


class DeviceError(P4RuntimeError):
    """The device refused or did not answer; `code` is google.rpc.Code's name."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class NotPrimary(DeviceError):
    """Another controller is primary, or became it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "PERMISSION_DENIED")


@dataclass(frozen=True)
class Failure:
    """An update that the device refused: its index (from 0), its object, and the reason."""

    index: int
    what: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"update {self.index + 1} ({self.what}): {self.code}: {self.message or 'the device does not say why'}"


class WriteError(P4RuntimeError):
    """A write that failed. `failures`: the updates that the device refused, where it named them. `applied`: indices of
    the updates that are in; `unknown`: those whose fate is not known."""

    def __init__(
        self, reasons: list[str], total: int, applied: list[int], unknown: list[int], failures: Sequence[Failure] = ()
    ) -> None:
        self.failures, self.applied, self.unknown, self.total = list(failures), applied, unknown, total
        shown = reasons[:10]
        if len(reasons) > 10:
            shown.append(f"and {len(reasons) - 10} more")
        counts = f"{len(applied)} of {total} updates applied"
        if unknown:
            counts += f", {len(unknown)} may or may not be"
        super().__init__("; ".join([*shown, counts]))


@dataclass(frozen=True)
class Update:
    """A change to one entity. `kind`: insert, modify or delete."""

    kind: str
    entity: Entity

    @classmethod
    def insert(cls, entity: Entity) -> "Update":
        return cls("insert", entity)

    @classmethod
    def modify(cls, entity: Entity) -> "Update":
        return cls("modify", entity)

    @classmethod
    def delete(cls, entity: Entity) -> "Update":
        return cls("delete", entity)


@dataclass(frozen=True)
class PipelineConfig:
    """A program for a device: its P4Info (None: the device has its own), the device's form of it, and a number to know
    it by."""

    p4info: P4Info | None
    device_config: bytes
    cookie: int = 0


@dataclass(frozen=True)
class Standing:
    """Where this controller stands. `highest_id`: the primary's election id, or when there is no primary the highest
    that the device has seen, below which nobody becomes one."""

    is_primary: bool
    has_primary: bool
    highest_id: int


@dataclass(frozen=True)
class DigestList:
    """Records of one digest. `timestamp_ns` is the device's."""

    digest: str
    list_id: int
    timestamp_ns: int
    records: list[Data]


@dataclass(frozen=True)
class Packet:
    """A packet to or from the CPU, its metadata by names of the P4Info's packet_in or packet_out header."""

    payload: bytes
    metadata: Mapping[str, int] = field(default_factory=dict)


EntityT = TypeVar("EntityT", bound=Entity)


# Pure parts


def to_uint128(number: int) -> Message:
    """An election id as the protocol has it."""
    return v1.Uint128(high=number >> 64, low=number & (1 << 64) - 1)


def from_uint128(message: Message) -> int:
    """The number of an election id."""
    return message.high << 64 | message.low


def _said(failed: grpc.RpcError) -> str:
    """Reason given by the device."""
    return printable(failed.details() or "the device does not say why")


def _details(failed: grpc.RpcError) -> bytes | None:
    """The serialized google.rpc.Status of a refusal."""
    for item in failed.trailing_metadata() or ():
        if item.key == "grpc-status-details-bin" and isinstance(item.value, bytes):
            return item.value
    return None


def update_errors(details: bytes, count: int) -> list[tuple[str, str]] | None:
    """(code, message) for each of `count` updates from a write's google.rpc.Status; None when it doesn't hold them."""
    try:
        status = rpc.Status.FromString(details)
    except DecodeError:
        return None
    if len(status.details) != count:
        return None
    result = []
    for any_message in status.details:
        error = v1.Error()
        if not any_message.Unpack(error):
            return None
        result.append((code_name(error.canonical_code), printable(error.message)))
    return result


def encode_metadata(header: Resource, values: Mapping[str, int]) -> list[Message]:
    """A packet-out's metadata, all fields of the header."""
    fields = header.message.metadata
    names = [f.name for f in fields]
    if set(values) != set(names):
        raise P4RuntimeError(f"{header.alias}: {dict(values)!r}: must have exactly the fields {', '.join(names)}")
    return [v1.PacketMetadata(metadata_id=f.id, value=to_bytes(values[f.name], f.bitwidth)) for f in fields]


def decode_metadata(header: Resource, messages: Iterable[Message]) -> dict[str, int]:
    """A packet-in's metadata by names."""
    fields = {f.id: f for f in header.message.metadata}
    unknown = [m.metadata_id for m in messages if m.metadata_id not in fields]
    if unknown:
        raise P4RuntimeError(f"{header.alias}: the device sent metadata {unknown[0]}, which is not in the P4Info")
    return {fields[m.metadata_id].name: from_bytes(m.value, fields[m.metadata_id].bitwidth) for m in messages}


def decode_digests(message: Message, info: P4Info) -> DigestList:
    """A p4.v1.DigestList by names."""
    digest = info.digests.by_id(message.digest_id)
    spec, types = digest.message.type_spec, info.message.type_info
    records = [decode_data(data, spec, types) for data in message.data]
    return DigestList(digest.name, message.list_id, message.timestamp, records)


class Client:
    """A connection to `address` ("host:port" or "unix:PATH"), as a controller of `device_id`.

    `election_id` decides among controllers of the same `role` ("": full access); the highest is primary. None: 1, or
    when nobody is primary the highest that the device has seen, so that the primary stays it. Close it, or use it as a
    context. Times are in seconds.
    """

    def __init__(
        self,
        address: str,
        device_id: int = 0,
        *,
        election_id: int | None = None,
        role: str = "",
        tls: Tls | None = None,
        connect_timeout_s: float = 5.0,
        timeout_s: float = 60.0,
    ) -> None:
        if election_id is not None and not 0 < election_id < 1 << 128:
            raise P4RuntimeError(f"election id {election_id}: must be 1 .. 2^128 - 1")
        try:
            parse_address(address)
        except ValueError as error:
            raise P4RuntimeError(f"address {error}") from None
        self.address, self.device_id, self.role = address, device_id, role
        self.election_id = 1 if election_id is None else election_id
        self._may_follow = election_id is None
        self._timeout_s = timeout_s
        self._info: P4Info | None = None
        self._changed = threading.Condition()
        self._standing: Standing | None = None
        self._lost: NotPrimary | None = None
        self._stream_error: P4RuntimeError | None = None
        self._requests: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._listener: threading.Thread | None = None
        self._digests: deque[Message] = deque()
        self._packets: deque[Message] = deque()
        self._idle: deque[Message] = deque()
        self._kept_bytes = 0
        self.lost_digests = 0
        self.lost_packets = 0
        self.lost_idle = 0
        self.lost_refusals = 0
        self.refused: list[str] = []
        """Packets and acknowledgements the device could not take (StreamError), in words."""
        self._channel = self._open(tls)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=connect_timeout_s)
        except grpc.FutureTimeoutError:
            self._channel.close()
            how = "with TLS" if tls else "without TLS"
            why = why_not(address, tls, connect_timeout_s)
            raise DeviceError(
                f"no connection to {address} ({how}) within {connect_timeout_s:g} s: {why}", "UNAVAILABLE"
            ) from None
        self._calls = {name: self._call(name) for name in METHODS}

    def _open(self, tls: Tls | None) -> grpc.Channel:
        if tls is None:
            return grpc.insecure_channel(self.address, options=_CHANNEL_OPTIONS)
        options: list[tuple[str, int | str]] = list(_CHANNEL_OPTIONS)
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(*tls_parts(tls)), options=options)

    def _call(self, name: str) -> Callable[..., Any]:
        method = METHODS[name]
        shape = f"{'stream' if method.client_streams else 'unary'}_{'stream' if method.server_streams else 'unary'}"
        make = getattr(self._channel, shape)
        made: Callable[..., Any] = make(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return made

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream and the connection; the device then has one controller less."""
        self._requests.put(None)
        self._channel.close()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.join()

    # Arbitration

    def arbitrate(self) -> Standing:
        """Sends our election id; returns our standing, primary or backup. May be called again after a change of
        `election_id`. An id of 0 is left out, which P4Runtime has for a controller that only wants to be a backup
        (5.3); BMv2 takes one such, and makes it primary when nobody is."""
        request = v1.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        if self.election_id:
            request.arbitration.election_id.CopyFrom(to_uint128(self.election_id))
        if self.role:
            request.arbitration.role.name = self.role
        with self._changed:
            self._standing = None
            self._requests.put(request)
            if self._listener is None:
                stream = self._calls["StreamChannel"](iter(self._requests.get, None))
                self._listener = threading.Thread(
                    target=self._listen, args=(stream,), name="p4runtime stream", daemon=True
                )
                self._listener.start()
            self._changed.wait_for(lambda: self._standing or self._stream_error, self._timeout_s)
            if self._stream_error is not None:
                raise self._stream_error
            standing = self._now()
            if standing is None:
                raise DeviceError(f"{self.address}: no answer to arbitration in {self._timeout_s:g} s", "UNAVAILABLE")
            return standing

    def become_primary(self) -> None:
        """Arbitrates, and raises NotPrimary when another controller stays in charge."""
        standing = self.arbitrate()
        if self._may_follow and not standing.has_primary and standing.highest_id > self.election_id:
            self.election_id = standing.highest_id
            standing = self.arbitrate()
        if not standing.is_primary:
            raise self._not_primary(standing)

    @property
    def standing(self) -> Standing | None:
        """The device's last answer; None before `arbitrate`."""
        with self._changed:
            return self._standing

    def await_standing(self, seen: Standing, timeout_s: float) -> Standing:
        """Where this controller stands as soon as that is not `seen`, at the latest after `timeout_s`. Raises when the
        stream ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._stream_error is not None or self._standing != seen, timeout_s)
            if self._stream_error is not None:
                raise self._stream_error
            standing = self._now()
            if standing is None:
                raise DeviceError(f"{self.address}: the device does not say who is in charge", "UNAVAILABLE")
            return standing

    def _now(self) -> Standing | None:
        """Standing, which another thread may have set meanwhile."""
        return self._standing

    def _not_primary(self, standing: Standing | None) -> NotPrimary:
        device = f"device {self.device_id} at {self.address}"
        if standing is not None and standing.has_primary:
            ours = f"this one's is {self.election_id}" if self.election_id else "this one stands by"
            return NotPrimary(
                f"a controller with election id {standing.highest_id} is primary of {device}, {ours}; stop that "
                "controller, or take over with a higher election id"
            )
        if standing is not None and standing.highest_id > self.election_id:
            return NotPrimary(
                f"{device} has no primary, and this controller's election id {self.election_id} is below "
                f"{standing.highest_id}, which one has had before; use that or a higher one"
            )
        return NotPrimary(f"{device}: this controller (election id {self.election_id}) is not primary, nobody is")

    def _require_primary(self) -> None:
        with self._changed:
            if self._stream_error is not None:
                raise self._stream_error
            if self._standing is None or not self._standing.is_primary:
                raise self._lost or self._not_primary(self._standing)

    def _listen(self, stream: Iterator[Message]) -> None:
        error: P4RuntimeError
        try:
            for message in stream:
                self._take(message)
            error = DeviceError(f"{self.address}: the device ended the stream", "UNAVAILABLE")
        except grpc.RpcError as failed:
            error = self._device_error(failed, "stream")
            if error.code == "INVALID_ARGUMENT" and self._standing is None:
                error = NotPrimary(
                    f"{error}; arbitration for device {self.device_id} with election id {self.election_id} was refused:"
                    " if another controller has that id, stop it, or use a higher one"
                )
        with self._changed:
            self._stream_error = error
            self._standing = None
            self._changed.notify_all()

    def _keep(self, kept: deque[Message], message: Message) -> bool:
        """Whether it fits."""
        size_bytes = message.ByteSize()
        if len(kept) >= _KEPT or self._kept_bytes + size_bytes > _KEPT_BYTES:
            return False
        kept.append(message)
        self._kept_bytes += size_bytes
        return True

    def _take(self, message: Message) -> None:
        kind = message.WhichOneof("update")
        with self._changed:
            if kind == "arbitration":
                arbitration = message.arbitration
                code = code_name(arbitration.status.code)
                now = Standing(code == "OK", code != "NOT_FOUND", from_uint128(arbitration.election_id))
                if self._standing is not None and self._standing.is_primary and not now.is_primary:
                    self._lost = self._not_primary(now)
                elif now.is_primary:
                    self._lost = None
                self._standing = now
            elif kind == "digest":
                self.lost_digests += not self._keep(self._digests, message.digest)
            elif kind == "packet":
                self.lost_packets += not self._keep(self._packets, message.packet)
            elif kind == "idle_timeout_notification":
                self.lost_idle += not self._keep(self._idle, message.idle_timeout_notification)
            elif kind == "error" and len(self.refused) >= _KEPT:
                self.lost_refusals += 1
            elif kind == "error":
                self.refused.append(f"{code_name(message.error.canonical_code)}: {printable(message.error.message)}")
            self._changed.notify_all()

    # Errors

    def _device_error(self, failed: grpc.RpcError, what: str) -> DeviceError:
        code = failed.code().name
        text = _said(failed)
        if code == "UNIMPLEMENTED":
            text = f"this device does not implement it ({text})"
        return DeviceError(f"{self.address}: {what}: {code}: {text}", code)

    # Pipeline

    @property
    def info(self) -> P4Info:
        """The P4Info of the program in the device; asked for when this client did not set it."""
        if self._info is None:
            found = self.get_pipeline()
            if found is None:
                raise DeviceError(
                    f"device {self.device_id} at {self.address} has no program yet", "FAILED_PRECONDITION"
                )
            self._info = found.p4info
        if self._info is None:
            raise DeviceError(f"device {self.device_id} at {self.address} gives no P4Info", "FAILED_PRECONDITION")
        return self._info

    def capabilities(self) -> str:
        """The device's P4Runtime version."""
        try:
            return self._calls["Capabilities"](v1.CapabilitiesRequest(), timeout=self._timeout_s).p4runtime_api_version
        except grpc.RpcError as failed:
            raise self._device_error(failed, "capabilities") from None

    def set_pipeline(self, config: PipelineConfig, action: str = "VERIFY_AND_COMMIT") -> None:
        """`action`: VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT or RECONCILE_AND_COMMIT. On failure the device
        keeps its old one."""
        self._require_primary()
        request = v1.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, role=self.role, action=action, election_id=to_uint128(self.election_id)
        )
        if action != "COMMIT":
            if config.p4info is not None:
                request.config.p4info.CopyFrom(config.p4info.message)
            request.config.p4_device_config = config.device_config
            request.config.cookie.cookie = config.cookie
        try:
            self._calls["SetForwardingPipelineConfig"](request, timeout=self._timeout_s)
        except grpc.RpcError as failed:
            raise self._device_error(failed, f"set pipeline ({action})") from None
        if action.endswith("COMMIT"):
            self._info = None

    def get_pipeline(self, what: str = "P4INFO_AND_COOKIE") -> PipelineConfig | None:
        """`what`: ALL, COOKIE_ONLY, P4INFO_AND_COOKIE or DEVICE_CONFIG_AND_COOKIE. None: the device has no program."""
        request = v1.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=what)
        try:
            answer = self._calls["GetForwardingPipelineConfig"](request, timeout=self._timeout_s)
        except grpc.RpcError as failed:
            # FAILED_PRECONDITION is the specification's word for "no config yet".
            if failed.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return None
            raise self._device_error(failed, "get pipeline") from None
        config = answer.config
        wants_info = what in ("ALL", "P4INFO_AND_COOKIE")
        if not answer.HasField("config") or (wants_info and not config.HasField("p4info")):
            return None
        return PipelineConfig(
            P4Info(config.p4info) if wants_info else None, config.p4_device_config, config.cookie.cookie
        )

    # Reads and writes

    def write(self, updates: Sequence[Update], atomicity: str = "CONTINUE_ON_ERROR") -> None:
        """All updates, BATCH to a request; stops after the first request in which one failed. Nothing is sent when one
        can't be encoded. A device may apply one request's updates in any order."""
        self._require_primary()
        encoded = [
            v1.Update(type=update.kind.upper(), entity=self._encode(i, update)) for i, update in enumerate(updates)
        ]
        for start in range(0, len(encoded), BATCH):
            request = v1.WriteRequest(
                device_id=self.device_id,
                role=self.role,
                election_id=to_uint128(self.election_id),
                updates=encoded[start : start + BATCH],
                atomicity=atomicity,
            )
            try:
                self._calls["Write"](request, timeout=self._timeout_s, metadata=_ROOM)
            except grpc.RpcError as failed:
                raise self._write_error(failed, updates, start, len(request.updates)) from None

    def _encode(self, index: int, update: Update) -> Message:
        try:
            return encode(update.entity, self.info)
        except P4RuntimeError as error:
            raise P4RuntimeError(f"update {index + 1}: {error}") from None

    def _write_error(self, failed: grpc.RpcError, updates: Sequence[Update], start: int, count: int) -> P4RuntimeError:
        before, batch = list(range(start)), list(range(start, start + count))
        what = [f"{updates[index].kind} {describe(updates[index].entity, self.info)}" for index in batch]
        trailer = _details(failed)
        errors = update_errors(trailer, count) if trailer else None
        if errors is not None:
            each = zip(batch, what, errors, strict=True)
            failures = [Failure(index, text, *error) for index, text, error in each if error[0] != "OK"]
            bad = {failure.index for failure in failures}
            if bad:
                applied = before + [index for index in batch if index not in bad]
                return WriteError([str(failure) for failure in failures], len(updates), applied, [], failures)
        code = failed.code()
        if code == grpc.StatusCode.PERMISSION_DENIED:
            return NotPrimary(
                f"{self.address}: write refused: {_said(failed)}; {start} of {len(updates)} updates applied"
            )
        # With these codes the device refused the request as a whole; with others nobody knows how far it came.
        lost = code not in _REFUSALS
        which = f"updates {start + 1} to {start + count}" if count > 1 else f"update {start + 1} ({what[0]})"
        reason = f"{which}: {code.name}: {_said(failed)}"
        return WriteError([reason], len(updates), before, batch if lost else [])

    def read(self, *entities: EntityT) -> list[EntityT]:
        """Entities of the device that match these; see `entities` for asking for all. P4RuntimeError: it sent something
        else."""
        request = v1.ReadRequest(
            device_id=self.device_id, role=self.role, entities=[encode(entity, self.info) for entity in entities]
        )
        found: list[EntityT] = []
        kinds = tuple({type(entity) for entity in entities})
        answer = self._calls["Read"](request, timeout=self._timeout_s, metadata=_ROOM)
        left_bytes = _ANSWER_BYTES
        try:
            for response in answer:
                left_bytes -= response.ByteSize()
                if left_bytes < 0:
                    answer.cancel()
                    what = ", ".join(describe(entity, self.info) for entity in entities)
                    said = f"{self.address}: its answer to read {what} is longer than {_ANSWER_BYTES >> 20} MiB"
                    raise DeviceError(f"{said}; read fewer things at once", "RESOURCE_EXHAUSTED")
                for message in response.entities:
                    entity = decode(message, self.info)
                    if not isinstance(entity, kinds):
                        asked = ", ".join(sorted(kind.__name__ for kind in kinds))
                        raise P4RuntimeError(f"{self.address}: sent a {type(entity).__name__}; asked for {asked}")
                    found.append(entity)
        except grpc.RpcError as failed:
            raise self._read_error(failed, entities) from None
        return found

    def _read_error(self, failed: grpc.RpcError, entities: Sequence[Entity]) -> DeviceError:
        what = [describe(entity, self.info) for entity in entities]
        trailer = _details(failed)
        errors = update_errors(trailer, len(what)) if trailer else None
        bad = [(text, *error) for text, error in zip(what, errors or (), strict=False) if error[0] != "OK"]
        if not bad:
            return self._device_error(failed, f"read {', '.join(what)}")
        reasons = "; ".join(f"read {text}: {code}: {message}" for text, code, message in bad)
        return DeviceError(f"{self.address}: {reasons}", bad[0][1])

    def find(self, entity: EntityT) -> EntityT | None:
        """The one entity asked for, None when it isn't there: some devices answer that with nothing, some with
        NOT_FOUND."""
        try:
            return next(iter(self.read(entity)), None)
        except DeviceError as error:
            if error.code == "NOT_FOUND":
                return None
            raise

    # The stream

    def _next(self, messages: deque[Message], timeout_s: float | None) -> Message | None:
        """The oldest message; those that came before the stream ended or the primary changed are still given."""

        def is_over() -> bool:
            return self._stream_error is not None or self._standing is None or not self._standing.is_primary

        with self._changed:
            self._changed.wait_for(lambda: messages or is_over(), timeout_s)
            if messages:
                message = messages.popleft()
                self._kept_bytes -= message.ByteSize()
                return message
        self._require_primary()
        return None

    def digests(self, timeout_s: float | None = None) -> Iterator[DigestList]:
        """Digest lists as they come; each is acknowledged when the next is asked for. Ends when none came for
        `timeout_s`; raises when the stream ends or another controller takes over."""
        for message in self.digest_messages(timeout_s):
            yield decode_digests(message, self.info)

    def digest_messages(self, timeout_s: float | None = None) -> Iterator[Message]:
        """As `digests`, but p4.v1.DigestList as it came, for a reader that has no time for names."""
        while True:
            message = self._next(self._digests, timeout_s)
            if message is None:
                return
            yield message
            ack = v1.DigestListAck(digest_id=message.digest_id, list_id=message.list_id)
            self._requests.put(v1.StreamMessageRequest(digest_ack=ack))

    def packets(self, timeout_s: float | None = None) -> Iterator[Packet]:
        """Packets the device sends up; ends when none came for `timeout_s`."""
        while True:
            message = self._next(self._packets, timeout_s)
            if message is None:
                return
            metadata = {}
            if message.metadata:
                metadata = decode_metadata(self.info.packet_headers["packet_in"], message.metadata)
            yield Packet(message.payload, metadata)

    def idle_entries(self, timeout_s: float | None = None) -> Iterator[list[TableEntry]]:
        """Entries whose idle timeout has passed, as the device reports them; ends as `packets` does."""
        while True:
            message = self._next(self._idle, timeout_s)
            if message is None:
                return
            entries = (decode(v1.Entity(table_entry=entry), self.info) for entry in message.table_entry)
            yield [entry for entry in entries if isinstance(entry, TableEntry)]

    def send_packet(self, packet: Packet) -> None:
        """A packet for the device to process; rejected ones appear in `refused`."""
        self._require_primary()
        message = v1.PacketOut(payload=packet.payload)
        if packet.metadata or "packet_out" in self.info.packet_headers:
            message.metadata.extend(encode_metadata(self.info.packet_headers["packet_out"], packet.metadata))
        self._requests.put(v1.StreamMessageRequest(packet=message))
