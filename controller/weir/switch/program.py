# SPDX-License-Identifier: Apache-2.0
"""A P4 program in the form a device takes: packaged source for the embedded switch, p4c's output for BMv2."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from ..p4runtime.client import PipelineConfig
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError

COMPILERS = ("p4c-bm2-ss", "p4c")
TARGETS_OWN = frozenset({"core.p4", "v1model.p4"})
PACKAGE_HEADER = "weir-package.json"

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class ProgramError(P4RuntimeError):
    """A program that can't be read, packaged or compiled; the message says which file and why."""


class UnreadableProgram(ProgramError):
    """A file of the program can't be read."""


class NoCompiler(ProgramError):
    """Nothing on this machine compiles the program."""


def _read(path: Path, wanted_by: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableProgram(f"cannot read {path}{wanted_by}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path}: not UTF-8 at byte {error.start}; P4 source is text") from None


def source_files(main: Path) -> dict[Path, str]:
    """`main` and every file it includes, by resolved path, in the order met. core.p4 and v1model.p4 are the target's
    own; others are looked for beside the file that includes them, then beside `main`, as p4c does."""
    main = main.resolve()
    files = {main: _read(main, "")}
    waiting = [main]
    while waiting:
        file = waiting.pop(0)
        for found in _INCLUDE.finditer(_COMMENT.sub("", files[file])):
            name = found[1] or found[2]
            if name in TARGETS_OWN:
                continue
            candidates = [folder / name for folder in (file.parent, main.parent)]
            path = next((candidate.resolve() for candidate in candidates if candidate.is_file()), None)
            if path is None:
                raise ProgramError(f"{file}: includes {name}, which is neither beside it nor beside {main.name}")
            if path not in files:
                files[path] = _read(path, f", included by {file}")
                waiting.append(path)
    return files


def package(main: Path) -> bytes:
    """The packaged program: a ustar archive, first member weir-package.json, with the source files under the names
    they include each other by. The same files give the same bytes."""
    files = source_files(main)
    root = Path(os.path.commonpath([path.parent for path in files]))
    header = {"format": 1, "main": main.resolve().relative_to(root).as_posix()}
    members = [(PACKAGE_HEADER, json.dumps(header).encode())]
    members += sorted((path.relative_to(root).as_posix(), text.encode()) for path, text in files.items())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            try:
                tar.addfile(member, io.BytesIO(data))
            except ValueError as error:
                raise ProgramError(f"{name}: cannot be in a ustar archive: {error}") from None
    return archive.getvalue()


def cookie(config: PipelineConfig) -> int:
    """A number that says which program it is, so that the same one is not pushed twice."""
    digest = hashlib.sha256(config.device_config)
    if config.p4info is not None:
        digest.update(config.p4info.message.SerializeToString(deterministic=True))
    return int.from_bytes(digest.digest()[:8], "big")


def _with_cookie(p4info: P4Info | None, device_config: bytes) -> PipelineConfig:
    config = PipelineConfig(p4info, device_config)
    return PipelineConfig(p4info, device_config, cookie(config))


def for_embedded(main: Path) -> PipelineConfig:
    """For weir-switch: it compiles the source itself and makes the P4Info."""
    return _with_cookie(None, package(main))


def find_compiler() -> str:
    """p4c for BMv2, on PATH. A link of that name to weir-p4c is passed over: its programs run on weir-switch only."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [path for name in COMPILERS for folder in folders if (path := shutil.which(name, path=folder))]
    ours = [path for path in found if Path(path).resolve().name == "weir-p4c"]
    for path in found:
        if path not in ours:
            return path
    links = f" ({ours[0]} is weir-p4c, which compiles for weir-switch)" if ours else ""
    raise ProgramError(
        f"neither {' nor '.join(COMPILERS)} is on PATH{links}, and BMv2 takes only compiled programs: "
        "install p4c, or compile elsewhere and give --p4info FILE --device-config FILE"
    )


def for_bmv2(main: Path) -> PipelineConfig:
    """For simple_switch_grpc: compiled by p4c to JSON and P4Info."""
    _read(main, "")
    compiler = find_compiler()
    with tempfile.TemporaryDirectory(prefix="weir-p4c-") as folder:
        json_file, info_file = Path(folder) / "program.json", Path(folder) / "program.p4info.txtpb"
        output = ["-o", str(json_file)] if compiler.endswith(COMPILERS[0]) else ["--target", "bmv2", "-o", folder]
        command = [compiler, "--arch", "v1model", *output, "--p4runtime-files", str(info_file), main.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=main.parent)
        except OSError as error:
            raise ProgramError(
                f"{main}: cannot run {Path(compiler).name}: {error.filename}: {error.strerror}"
            ) from None
        if done.returncode != 0:
            raise ProgramError(f"{main}: {Path(compiler).name} refuses it:\n{(done.stderr or done.stdout).strip()}")
        if not json_file.exists():
            json_file = Path(folder) / f"{main.stem}.json"
        # The driver compiles a temporary file and notes its name: put the program's, so that it is the same each time.
        compiled = json.loads(json_file.read_text(encoding="utf-8")) | {"program": main.name}
        _not_of_weir_p4c(compiled, compiler)
        return _with_cookie(P4Info.from_file(info_file.read_bytes(), str(main)), json.dumps(compiled).encode())


def local_p4info(main: Path) -> P4Info:
    """The P4Info of a program that no device has yet, by asking the embedded switch's compiler on this machine."""
    compiler = shutil.which("weir-switch")
    if compiler is None:
        raise NoCompiler(
            f"the switch does not have {main.name} yet, and weir-switch, which would say what tables it has before it "
            "replaces what runs, is not on PATH: `./run weir p4 deploy` builds it and puts it there"
        )
    with tempfile.TemporaryDirectory(prefix="weir-p4info-") as folder:
        info_file = Path(folder) / "program.p4info.txtpb"
        command = [compiler, "--check", "--p4", str(main), "--p4info-out", str(info_file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProgramError(f"{main}: weir-switch refuses it:\n{done.stderr.strip()}")
        return P4Info.from_file(info_file.read_bytes(), str(main))


def precompiled(p4info: Path, device_config: Path) -> PipelineConfig:
    """From files that p4c wrote."""
    data = []
    for path in (p4info, device_config):
        try:
            data.append(path.read_bytes())
        except OSError as error:
            raise UnreadableProgram(f"cannot read {path}: {error.strerror}") from None
    return _with_cookie(P4Info.from_file(data[0], str(p4info)), data[1])


_BMV2_PARTS = ("header_types", "headers", "parsers", "deparsers", "actions", "pipelines")
_BMV2_KINDS = {"optional": "ternary"}
"""P4Info's match kinds that BMv2 has under another name."""


def check_bmv2(config: PipelineConfig, source: str) -> None:
    """Checks that the device configuration is a program for BMv2 and matches the P4Info. BMv2 itself lets anything pass
    and breaks when it is to run it. ProgramError names `source` and what does not fit."""
    try:
        program = json.loads(config.device_config)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ProgramError(f"{source}: not JSON ({error}); must be what p4c-bm2-ss wrote for BMv2") from None
    parts = program if isinstance(program, dict) else {}
    _not_of_weir_p4c(parts, source)
    missing = [part for part in _BMV2_PARTS if not isinstance(parts.get(part), list)]
    if missing:
        raise ProgramError(f"{source}: no program for BMv2: has no {missing[0]}; must be what p4c-bm2-ss wrote")
    try:
        tables = {
            table["name"]: [(key["match_type"], key["name"]) for key in table["key"]]
            for pipeline in parts["pipelines"]
            for table in pipeline["tables"]
        }
        actions = {
            action["name"]: [(data["name"], data["bitwidth"]) for data in action["runtime_data"]]
            for action in parts["actions"]
        }
    except (TypeError, KeyError) as error:
        raise ProgramError(f"{source}: no program for BMv2 in its tables and actions ({error!r})") from None
    if config.p4info is None:
        raise ProgramError(f"{source}: has no P4Info, which says what a program for BMv2 has")
    for table in config.p4info.tables:
        keys = [(_BMV2_KINDS.get(field.kind, field.kind), field.name) for field in table.fields]
        _same(source, f"table {table.name}", keys, tables.get(table.name))
    for action in config.p4info.actions:
        params = [(param.name, param.bitwidth) for param in action.params]
        _same(source, f"action {action.name}", params, actions.get(action.name))


def _not_of_weir_p4c(program: dict, source: str) -> None:
    """Rejects weir-p4c's JSON: it has the tables of a program for BMv2, but its source in the place of the code."""
    if {"format", "files"} <= program.keys():
        raise ProgramError(f"{source}: weir-p4c wrote the program, for weir-switch; BMv2 needs what p4c-bm2-ss writes")


def _same(source: str, what: str, wanted: list[tuple], found: list[tuple] | None) -> None:
    if found is None:
        raise ProgramError(f"{source}: has no {what}, which the P4Info has; give both files of one compilation")
    if found != wanted:
        raise ProgramError(
            f"{source}: {what}: {found} where the P4Info has {wanted}; give both files of one compilation"
        )
