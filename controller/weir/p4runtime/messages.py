# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's message classes and methods, made from the descriptors, in a pool of their own.

`v1.WriteRequest()`, `config.P4Info()`, `rpc.Status()`: attribute names are the messages' full names below the package.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from .descriptors import file_set

_pool = descriptor_pool.DescriptorPool()
for _file in file_set().file:
    _pool.Add(_file)

if hasattr(message_factory, "GetMessageClass"):
    _class_of = message_factory.GetMessageClass
else:  # before protobuf 4.22: Debian 12 has 4.21
    _class_of = message_factory.MessageFactory(_pool).GetPrototype  # type: ignore[attr-defined]


def _package(file: str) -> SimpleNamespace:
    descriptor = _pool.FindFileByName(file)
    classes = {n: _class_of(d) for n, d in descriptor.message_types_by_name.items()}
    return SimpleNamespace(**classes)


v1 = SimpleNamespace(**vars(_package("p4/v1/p4data.proto")), **vars(_package("p4/v1/p4runtime.proto")))
config = SimpleNamespace(**vars(_package("p4/config/v1/p4types.proto")), **vars(_package("p4/config/v1/p4info.proto")))
rpc = _package("google/rpc/status.proto")

_CODES = _pool.FindEnumTypeByName("google.rpc.Code")

Message = Any
"""A protobuf message of the classes above; they are made at run time, so no type says which."""


def code_name(code: int) -> str:
    """google.rpc.Code by its name, `ALREADY_EXISTS`; a number the enum doesn't know stays one."""
    value = _CODES.values_by_number.get(code)
    return value.name if value else f"code {code}"


@dataclass(frozen=True)
class Method:
    """A method of the service: gRPC path, classes, which sides stream."""

    path: str
    request: Any
    response: Any
    client_streams: bool
    server_streams: bool


_SERVICE = _pool.FindServiceByName("p4.v1.P4Runtime")
METHODS = {
    method.name: Method(
        f"/{_SERVICE.full_name}/{method.name}",
        _class_of(method.input_type),
        _class_of(method.output_type),
        method.client_streaming,
        method.server_streaming,
    )
    for method in _SERVICE.methods
}
