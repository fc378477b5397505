# SPDX-License-Identifier: Apache-2.0
"""eBPF queues as a device: every interface `weir-xdp` is attached to is a port, called by its name; so is every class
that has a law of its own (eth0/1:10).

All goes through `weir-xdp`, which alone knows the layout of the maps: one `watch` process for all ports reports
samples, changes and comings and goings, `set` writes a port's gains in one swap, and only if those in force are the
ones last seen here. Nothing but the standard library: a tuner in the exact lab starts in a tenth of a second.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import stat
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any

from .. import coupled
from ..files import open_private
from ..gains import KEYS, Gains, Value, of_table
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
    Sample,
    Up,
)

PINS = "/sys/fs/bpf/weir"

_RETRY_S = (0.5, 30.0)
"""Back-off: the first wait, doubled each time up to the last; a watch that ran for the last one starts anew."""
_SILENCE_S = 5.0
_COMMAND_S = 10.0
_CLAIM_AGAIN_US = 2_000_000
_FOREIGN_S = 1.0
"""For so long after somebody else's change nothing is written, so that the tuner has heard of it."""
_LINE_MAX_BYTES = 1 << 20
_OWN_IDS = 64
_CHANGED = 3  # weir-xdp set --expect: another configuration is in force

NONSENSE = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)
"""Errors raised by a line, or an answer, of the wrong form."""

_COUNTS = (
    "t_us", "tau_us", "backlog_bytes", "dq_rate_bit_s", "seen", "passed_bytes", "marks", "drops_aqm", "drops_limit",
    "row", "config_id",
)  # fmt: skip
_AGES = ("age_us", "rate_age_us")  # the second is missing while there is no rate


@dataclass
class _Port:
    """State of one interface. `ours`: the present gains if this controller set them, and only then. `attached`: those
    that this attachment was first seen with."""

    present: bool = False
    attach_id: int | None = None
    config_id: int | None = None
    netns_inode: int = 0
    gains: Gains | None = None
    ours: Gains | None = None
    attached: Gains | None = None
    own_ids: deque[int] = field(default_factory=lambda: deque(maxlen=_OWN_IDS))
    foreign_s: float | None = None
    t_us: int | None = None
    lock: int | None = None
    holder: str | None = None
    asked_us: int = 0


def netns_path(netns: str) -> str:
    """The path of a namespace given as such, or by the name `ip netns` has for it."""
    return netns if "/" in netns else f"/run/netns/{netns}"


def _interface(port: str) -> str:
    """The name of a port's interface: a port in another namespace is called INTERFACE@PATH."""
    return port.partition("@/")[0]


def _laws(name: str) -> tuple[str, ...]:
    """Names in `weir-xdp status` of the law that it finds by `name`: without a direction that at ingress, too."""
    dev, _, of = name.partition("/")
    return (dev,) if of == "egress" else (name,) if of else (name, f"{name}/ingress")


def _whole(table: dict, key: str) -> int:
    value = table.get(key)
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} = {value!r}: must be a whole number")
    return value


def _words(table: dict, key: str) -> str:
    value = table.get(key)
    if type(value) is not str:
        raise ValueError(f"{key} = {value!r}: must be text")
    return value


def _gains(table: object) -> Gains:
    if type(table) is not dict:
        raise ValueError(f"gains = {table!r:.200}: must be a table")
    wrong = [f"{key} is missing" for key in KEYS if key not in table]
    wrong += [f"{key!r:.40} is unknown" for key in table if key not in KEYS]
    if wrong:
        shown = 5
        rest = f" and {len(wrong) - shown} more" if len(wrong) > shown else ""
        raise ValueError(f"gains: {', '.join(wrong[:shown])}{rest}")
    return of_table(table)


def _settings(one: Mapping[str, Any]) -> PortSettings:
    """Of one port in the answer of weir-xdp: its gains, and the coupling where it has two bands."""
    there = one.get("coupled", {})
    own = {key: there[key] for key in coupled.KEYS} if there else {}
    if any(type(value) not in (int, float) for value in own.values()):
        raise ValueError(f"coupled = {there!r:.200}: must have numbers")
    return PortSettings(_gains(one["gains"]), own)


def _pairs(gains: Gains) -> list[str]:
    return [f"{key}={getattr(gains, key)}" for key in KEYS]


class BpfDevice(Device):
    """Interfaces of this machine that run the law as eBPF; ports are their names.

    interfaces: None for all that are attached, whenever they come. pins: the folder of their pins. netns: path or
    name of the namespace they are in, if not the one they were attached from. every_ms: between samples.

    A port that is attached anew as it was before, after this controller had set its gains, gets those back (Up,
    restored); one that comes with other gains has them from an operator (GainsChanged, then Up). Detached
    ports of several are told as Note, the last one as Down; ports that come later have an Up of their own.
    """

    own_keys = tuple(coupled.KEYS)

    def __init__(
        self,
        name: str,
        interfaces: Sequence[str] | None = None,
        pins: str = PINS,
        netns: str | None = None,
        every_ms: int = 100,
        command: str = "weir-xdp",
    ):
        self.name = name
        self.interfaces = None if interfaces is None else tuple(interfaces)
        self._command = command
        self._options = ["--pins", pins] + (["--netns", netns_path(netns)] if netns else [])
        self._pins, self.netns, self._every_ms = pins, netns, every_ms
        self._ports: dict[str, _Port] = {}
        self._lock = threading.RLock()
        self._claiming = False
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen | None = None
        self._closing = threading.Event()
        self._is_up = self._told_down = False
        self._arrived: dict[str, bool] = {}
        self._missing: dict[str, str] = {}

    def is_in(self, netns: str | None) -> bool:
        """Whether its interfaces are that namespace's; None: those of this process's own."""
        return (self.netns and netns_path(self.netns)) == (netns and netns_path(netns))

    def place(self, port: str) -> str:
        known = self._ports.get(port)  # not under the lock: who holds it may be waiting for weir-xdp
        return f"{known.netns_inode if known else 0}-{_interface(port)}"

    def start(self, events: SimpleQueue[Event]) -> None:
        if self._thread is not None:
            raise self._error("started already")
        self._events = events
        self._thread = threading.Thread(target=self._run, name=f"weir-xdp {self.name}", daemon=True)
        self._thread.start()

    def watch(self, events: SimpleQueue[Event], every_ms: int | None = None) -> None:
        self._every_ms = every_ms or self._every_ms
        self.start(events)  # it only reads until something is written

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            if self._process is not None:
                self._process.kill()  # it holds nothing
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            for port in self._ports.values():
                self._release(port)

    def read_gains(self) -> dict[str, Gains]:
        return {port: _gains(one["gains"]) for port, one in self._status().items()}

    def read_settings(self) -> dict[str, PortSettings]:
        there = self._status()
        try:
            return {port: _settings(one) for port, one in there.items()}
        except NONSENSE as error:
            raise self._error(f"invalid output of {self._command} status: {error}") from None

    def read_status(self) -> DeviceStatus:
        try:
            ports = tuple(self._port_status(port, one) for port, one in self._status().items())
        except NONSENSE as error:
            raise self._error(f"invalid output of {self._command} status: {error}") from None
        return DeviceStatus("eBPF, by weir-xdp", ports)

    def read_flows(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        said = ""
        for interface in (None,) if self.interfaces is None else self.interfaces:
            done = self._ask("flows", "--json", *(() if interface is None else (interface,)))
            if done.returncode:
                said = _last_line(done.stderr) or f"exit status {done.returncode}"
            try:
                answer: Any = json.loads(done.stdout) if done.stdout.strip() else []
                for one in answer if interface is None or not answer else [answer]:
                    found[_words(one, "dev") if interface is None else interface] = one
            except NONSENSE as error:
                raise self._error(f"invalid output of {self._command} flows: {error}") from None
        if said and not found:
            raise self._error(said)
        return found

    def _port_status(self, port: str, one: dict[str, Any]) -> PortStatus:
        counters, now_us = one["counters"], time.monotonic_ns() // 1000
        reading = Sample(
            self.name, port, now_us, _whole(one, "tau_us"), float(one["u"]), float(one["drop_probability"]),
            _whole(one, "backlog_bytes"), _whole(one, "dq_rate_bit_s") or None, _whole(counters, "passed_packets"),
            _whole(counters, "passed_bytes"), _whole(counters, "marked_packets"),
            _whole(counters, "dropped_aqm_packets"), _whole(counters, "dropped_limit_packets"), _whole(one, "row"),
            _whole(one, "config_id"), _whole(one, "age_us"), one.get("rate_age_us"), one.get("trouble", ""),
        )  # fmt: skip
        troubles = [one.get("trouble", ""), one.get("bypass", ""), "its interface is gone" if one.get("gone") else ""]
        attached = f"{_words(one, 'hook')}, {_words(one, 'signal')}" + (", fixed U" if one.get("fixed") else "")
        trouble = "; ".join(text for text in troubles if text)
        return PortStatus(port, attached, _settings(one), reading, trouble)

    def change(self, port: str, base: Gains | None, changes: Mapping[str, Value]) -> None:
        own = {key: value for key, value in changes.items() if key in self.own_keys}
        present = self.read_gains()
        if port not in present:
            raise self._error(self._no_port(port, present))
        gains = (base or present[port]).with_changes({key: changes[key] for key in changes if key not in own})
        self._write(port, gains, own)

    def write_gains(self, port: str, gains: Gains) -> None:
        self._write(port, gains, {})

    def _write(self, port: str, gains: Gains, own: Mapping[str, Value]) -> None:
        """Gains, and `own_keys` that are to change, in one configuration."""
        with self._lock:
            known = self._ports.get(port)
            if self._thread is None:
                there = self._status()
                if port in there:
                    known = self._ports.setdefault(port, _Port())
                    known.gains, known.netns_inode = _gains(there[port]["gains"]), there[port]["netns_inode"]
                    known.config_id = there[port].get("config_id")  # so that what came meanwhile is not overwritten
                    known.present = True
            if known is None or not known.present:
                raise self._error(self._no_port(port))
            if self._claiming and self._hold(port, known):
                raise self._error(f"{known.holder} controls it", port)
            if known.foreign_s is not None and time.monotonic() - known.foreign_s < _FOREIGN_S:
                raise self._error("somebody else has just set its gains; they stay", port)
            self._set(port, known, gains, own)

    def claim(self) -> dict[str, str]:
        with self._lock:
            self._claiming = True
            ports = [(name, port) for name, port in self._ports.items() if port.present]
            return {name: holder for name, port in ports if (holder := self._hold(name, port))}

    # ---- one question or order to weir-xdp ----

    def _ask(self, *words: str) -> subprocess.CompletedProcess:
        if self.netns:
            _netns_inode(self.name, self.netns)
        try:
            return subprocess.run(
                [self._command, *words, *self._options], process_group=0,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_COMMAND_S,
            )  # fmt: skip
        except OSError as error:
            raise self._error(f"{self._command}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise self._error(f"{self._command} {words[0]}: no answer in {_COMMAND_S:g} s") from None

    def _status(self) -> dict[str, dict[str, Any]]:
        """The answer of weir-xdp for each port that is attached; its gains and its namespace are there and right."""
        done = self._ask("status", "--json")
        said = _last_line(done.stderr) or f"exit status {done.returncode}"
        try:
            there = json.loads(done.stdout) if done.stdout.strip() or not done.returncode else []
            if type(there) is not list:
                raise ValueError("must be a list")
            found: dict[str, dict[str, Any]] = {}
            for one in there:
                _gains(one["gains"]), _whole(one, "netns_inode")
                found[_words(one, "dev")] = one
        except NONSENSE as error:
            raise self._error(f"invalid output of {self._command} status: {error}") from None
        if self.interfaces is not None:
            for interface in self.interfaces:
                if interface not in found:  # of another namespace, or of the other direction: the only one there is
                    named = [port for port in found if _interface(port) in _laws(interface)]
                    if len(named) != 1:
                        raise self._error(f"{said if done.returncode else self._no_port(interface, found)}")
                    found[interface] = found[named[0]]
            return {interface: found[interface] for interface in self.interfaces}
        if done.returncode and not found:
            raise self._error(f"{said}")
        if self.netns:
            inode = _netns_inode(self.name, self.netns)
            found = {dev: one for dev, one in found.items() if one["netns_inode"] == inode}
        return found

    def _set(self, name: str, port: _Port, gains: Gains, own: Mapping[str, Value] = MappingProxyType({})) -> None:
        expect = ["--expect", str(port.config_id)] if port.config_id is not None else []
        own_pairs = [f"{key}={value}" for key, value in own.items()]
        done = self._ask("set", name, *_pairs(gains), *own_pairs, "--expert", "--json", *expect)
        if done.returncode == _CHANGED:
            raise self._error("somebody else has just set its gains; they stay", name)
        if done.returncode:
            said = _last_line(done.stderr) or f"{self._command} set ended with status {done.returncode}"
            raise self._error(f"{said}", name)
        try:
            answer = json.loads(done.stdout)
            config_id, now = _whole(answer, "config_id"), _gains(answer["gains"])
        except NONSENSE as error:
            raise self._error(f"invalid output of {self._command} set: {error}", name) from None
        port.config_id, port.gains, port.ours = config_id, gains, gains
        port.own_ids.append(config_id)
        if now.to_params() != gains.to_params():
            raise self._error(f"{self._command} set other gains than those requested", name)

    def _error(self, text: str, port: str | None = None) -> DataPlaneError:
        where = f"device {self.name}" + (f", port {port}" if port is not None else "")
        return DataPlaneError(f"{where}: {text}")

    def _no_port(self, port: str, there: Iterable[str] | None = None) -> str:
        names = sorted(there if there is not None else (n for n, p in self._ports.items() if p.present))
        shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        return f"no port {port}: " + (
            f"must be one of {shown}" if names else "the law is on none; `weir-xdp attach` puts it there"
        )

    # ---- right to write: a locked file for each queue ----

    def _hold(self, name: str, port: _Port) -> str | None:
        """Takes the lock of a port. None when it is held here, else its holder."""
        if port.lock is None:
            law = _interface(name).replace("/", "~")  # a class's queue is called INTERFACE/CLASS
            path = run_folder(self.name) / f"controller-{port.netns_inode}-{law}.lock"
            try:
                port.lock, port.holder = _locked(path)
            except OSError as error:
                raise self._error(f"{path}: {error.strerror}") from None
        return port.holder

    def _release(self, port: _Port) -> None:
        if port.lock is not None:
            _unlock(port.lock)
        port.lock = None

    # ---- the thread that listens ----

    def _run(self) -> None:
        delay_s = _RETRY_S[0]
        while not self._closing.is_set():
            began_s = time.monotonic()
            why = self._watch()
            if self._closing.is_set():
                return
            if time.monotonic() - began_s > _RETRY_S[1]:
                delay_s = _RETRY_S[0]
            self._forget()
            self._events.put(Down(self.name, why, delay_s))
            self._closing.wait(delay_s)
            delay_s = min(2 * delay_s, _RETRY_S[1])

    def _forget(self) -> None:
        """Nothing is known to be there any more; but settings stay known."""
        with self._lock:
            for port in self._ports.values():
                port.present = False
            self._is_up = self._told_down = False
            self._arrived.clear()
            self._missing.clear()

    def _watch(self) -> str:
        """Runs a watch to its end. Returns why it ended."""
        if self.netns and not os.path.exists(netns_path(self.netns)):
            return _no_netns(self.netns)
        which = ["--all"] if self.interfaces is None else [*self.interfaces, "--follow"]
        errors = os.memfd_create("weir-xdp")
        try:
            with self._lock:
                if self._closing.is_set():
                    return "closed"
                try:
                    process = self._process = subprocess.Popen(
                        [self._command, "watch", *which, "--every-ms", str(self._every_ms), *self._options],
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                        process_group=0,  # a terminal's Ctrl-C is for us; it ends with us, nobody reading its lines
                    )  # fmt: skip
                except OSError as error:
                    return f"{self._command}: {error.strerror}"
            output = process.stdout
            assert output is not None, "it is a pipe"
            try:
                why = self._listen(output.fileno())
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0 if why else _SILENCE_S)
            finally:
                process.kill()
                status = process.wait()
                output.close()
                with self._lock:
                    self._process = None
            said = _last_line(os.pread(errors, 1 << 16, 0).decode(errors="replace"))
            ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            return why or said or f"{self._command} watch {ended}"
        finally:
            os.close(errors)

    def _listen(self, pipe: int) -> str | None:
        """Takes a watch's lines in. None at their end, else why it can't be listened to any more."""
        silence_s = max(_SILENCE_S, self._every_ms / 100)
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        rest = b""
        while True:
            if not poller.poll(silence_s * 1000):
                return f"{self._command} watch prints nothing for {silence_s:g} s"
            data = os.read(pipe, 1 << 18)
            if not data:
                return None  # a line cut short by that is no line
            *lines, rest = (rest + data).split(b"\n")
            try:
                for line in lines:
                    self._line(line)
                if len(rest) > _LINE_MAX_BYTES:
                    line = rest
                    raise ValueError("the line has no end")
            except NONSENSE as error:
                return f"invalid output of {self._command} watch: {error}: {line[:120]!r}"

    def _line(self, line: bytes) -> None:
        said = json.loads(line)
        kind = said["k"]
        if kind == "aqm":
            self._flush()
            self._sample(said)
        elif kind == "idle":
            self._flush()
        elif kind == "new":
            self._new(said)
        elif kind == "gone":
            self._gone(_words(said, "dev"), _words(said, "why"))
        elif kind == "gains":
            self._changed(said)
        else:
            raise ValueError(f"k = {kind!r}: no such kind of line")

    def _sample(self, said: dict) -> None:
        counts = [said[key] for key in _COUNTS]
        u, probability = said["u"], said["drop_probability"]
        age_us, rate_age_us = ages = [said.get(key) for key in _AGES]
        for value in [*counts, *(age for age in ages if age is not None)]:
            if type(value) is not int or value < 0:
                raise ValueError(f"{value!r}: must be a whole number")
        trouble = _words(said, "trouble") if "trouble" in said else ""
        if not (0 <= u <= 1 and 0 <= probability <= 1):
            raise ValueError("u, drop_probability: must be 0 .. 1")
        t_us, delay_us, backlog_bytes, rate_bit_s, seen, passed_bytes, marks, drops_aqm, drops_limit, row, own = counts
        dev = said["dev"]
        port = self._ports.get(dev)
        if port is None or not port.present:
            raise ValueError(f"dev = {dev!r}: a sample of a queue that was not announced")
        before_us, port.t_us = port.t_us, t_us
        if before_us is not None and not before_us < t_us <= before_us + self._every_ms * 5000 + 1_000_000:
            self._told_time(dev, before_us, t_us)
            if t_us <= before_us:
                return
        if port.holder is not None and t_us - port.asked_us > _CLAIM_AGAIN_US:
            self._claim_again(dev, port, t_us)
        passed = max(0, seen - drops_aqm - drops_limit)  # the three are not read in one moment
        sample = Sample(
            self.name, dev, t_us, delay_us, float(u), float(probability), backlog_bytes, rate_bit_s or None,
            passed, passed_bytes, marks, drops_aqm, drops_limit, row, own, age_us, rate_age_us, trouble,
        )  # fmt: skip
        self._events.put(sample)

    def _told_time(self, dev: str, before_us: int, t_us: int) -> None:
        told = (
            f"no sample for {(t_us - before_us) / 1e6:.1f} s" if t_us > before_us
            else "a sample twice" if t_us == before_us
            else f"time went back by {(before_us - t_us) / 1e6:.6f} s"
        )  # fmt: skip
        self._events.put(Note(self.name, dev, told))

    def _new(self, said: dict) -> None:
        dev, attach_id, config_id = _words(said, "dev"), _whole(said, "attach_id"), _whole(said, "config_id")
        inode, gains = _whole(said, "netns_inode"), _gains(said["gains"])
        with self._lock:
            port = self._ports.setdefault(dev, _Port())
            again = port.attach_id is not None and port.attach_id != attach_id
            changed = not again and port.config_id not in (None, config_id) and config_id not in port.own_ids
            if again and port.ours is not None:
                known = [known.to_params() for known in (port.attached, port.ours) if known is not None]
                changed = gains.to_params() not in known
            if again or port.attach_id is None:
                port.attached = gains
            if inode != port.netns_inode:
                self._release(port)
            port.present, port.t_us, port.netns_inode = True, None, inode
            port.attach_id, port.config_id, port.gains = attach_id, config_id, gains
            restored = False
            try:
                refused = self._hold(dev, port) if self._claiming else None
                if refused:
                    self._missing[dev] = f"{refused} controls it; nothing is written until it ends"
                elif again and port.ours is not None and not changed:
                    self._set(dev, port, port.ours)
                    restored = True
            except DataPlaneError as error:
                self._missing[dev] = str(error)
            if again and not restored:
                port.ours = None
            self._arrived[dev] = restored
            if changed:  # told before Up: who hears that first takes these gains for its own
                self._theirs(port)
                self._events.put(GainsChanged(self.name, dev, gains))

    def _gone(self, dev: str, why: str) -> None:
        with self._lock:
            port = self._ports.setdefault(dev, _Port())
            port.present = False
            self._arrived.pop(dev, None)
            if not self._is_up:
                self._missing[dev] = why
            elif any(other.present for other in self._ports.values()):
                self._events.put(Note(self.name, dev, why))
            else:
                self._is_up, self._told_down = False, True
                self._events.put(Down(self.name, why, self._every_ms / 1000))

    def _changed(self, said: dict) -> None:
        dev, config_id, gains = _words(said, "dev"), _whole(said, "config_id"), _gains(said["gains"])
        with self._lock:  # waits for an order of ours that is under way: then its id is known
            port = self._ports.get(dev)
            if port is None or not port.present:
                raise ValueError(f"dev = {dev!r}: gains of a queue that was not announced")
            if config_id in port.own_ids:
                return
            port.config_id, port.gains = config_id, gains
            self._theirs(port)
            if port.holder is not None:  # the controller in charge does its work; told when this one takes over
                return
        self._flush()
        self._events.put(GainsChanged(self.name, dev, gains))

    def _theirs(self, port: _Port) -> None:
        port.ours = None
        port.foreign_s = time.monotonic()

    def _claim_again(self, dev: str, port: _Port, t_us: int) -> None:
        with self._lock:
            port.asked_us = t_us
            try:
                if self._hold(dev, port):
                    return
            except DataPlaneError as error:
                self._events.put(Note(self.name, dev, str(error)))
                return
            self._events.put(Note(self.name, dev, "the other controller has ended; this one takes over"))
            self._events.put(Up(self.name, {} if port.gains is None else {dev: port.gains}))

    def _flush(self) -> None:
        """Reports ports that came and ports that are missing, once a watch's first round is complete."""
        if not self._arrived and not self._missing and (self._is_up or self._told_down):
            return
        with self._lock:
            for restored in (False, True):
                came = [(dev, self._ports[dev].gains) for dev, back in self._arrived.items() if back is restored]
                gains = {dev: known for dev, known in came if known is not None}
                if gains:
                    self._is_up = True
                    self._events.put(Up(self.name, gains, restored))
            if self._is_up:
                for dev, why in self._missing.items():
                    self._events.put(Note(self.name, dev, why))
            elif self._missing or not self._told_down:
                self._told_down = True
                why = "; ".join(self._missing.values()) or f"nothing is attached (no pins in {self._pins})"
                self._events.put(Down(self.name, why, self._every_ms / 1000))
            self._arrived.clear()
            self._missing.clear()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("weir-xdp: ") if lines else ""


def _netns_inode(name: str, netns: str) -> int:
    try:
        return os.stat(netns_path(netns)).st_ino
    except OSError:
        raise DataPlaneError(f"device {name}: {_no_netns(netns)}") from None


def _no_netns(netns: str) -> str:
    return f"there is no network namespace {netns}" + ("" if "/" in netns else f" ({netns_path(netns)})")


def run_folder(name: str) -> Path:
    """Where controllers of this machine meet, and leave word for the next. Raises DataPlaneError."""
    own = os.environ.get("XDG_RUNTIME_DIR") if os.geteuid() else "/run"
    service = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] if os.geteuid() else ""
    if not (own or service):
        raise DataPlaneError(
            f"device {name}: no place for a controller's files: not root, and XDG_RUNTIME_DIR is not set"
        )
    folder = Path(service) if service else Path(own or "") / "weir"
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        if folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise DataPlaneError(f"device {name}: {folder}: other users can write to it")
    except OSError as error:
        raise DataPlaneError(f"device {name}: {folder}: {error.strerror}") from None
    return folder


def _locked(path: Path) -> tuple[int | None, str | None]:
    """(descriptor, None) when the lock is ours now, (None, its holder) when not. It ends with the process."""
    while True:
        lock = open_private(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            os.close(lock)
            return None, f"process {holder}" if holder.isdecimal() else "another controller"
        except OSError:
            os.close(lock)
            raise
        try:
            same = os.stat(path).st_ino == os.fstat(lock).st_ino
        except FileNotFoundError:
            same = False
        if same:
            os.truncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            return lock, None
        os.close(lock)  # its holder removed it while we waited at the door


def _unlock(lock: int) -> None:
    with suppress(OSError):
        os.unlink(os.readlink(f"/proc/self/fd/{lock}"))
    os.close(lock)
