# SPDX-License-Identifier: Apache-2.0
"""P4 programs made ready for devices."""

import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from weir.p4runtime.client import PipelineConfig
from weir.p4runtime.p4info import P4Info
from weir.programs import PID_DELAY
from weir.switch import program
from weir.switch.program import ProgramError

P4INFO = Path(__file__).parents[1] / "p4runtime" / "p4info_everything.txtpb"


def members(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read().decode() for member in tar}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / next(iter(files))


def test_a_package_holds_what_the_program_includes_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "main.p4": '#include <core.p4>\n  # include "include/a.p4"\n// #include "gone.p4"\n/* #include "gone.p4" */\n',
        "include/a.p4": '#include "b.p4"\n#include <include/c.p4>\n',
        "include/b.p4": '#include "a.p4"\n',
        "include/c.p4": "const bit<8> C = 1;\n",
    }
    main = write(tmp_path, files | {"include/other.p4": ""})
    data = program.package(main)
    found = members(data)
    assert next(iter(found)) == "weir-package.json"
    assert json.loads(found.pop("weir-package.json")) == {"format": 1, "main": "main.p4"}
    assert found == files
    os.utime(main, (1, 1))
    assert program.package(main) == data


def test_files_beside_the_programs_folder_keep_their_places(tmp_path: Path) -> None:
    main = write(tmp_path, {"p4/main.p4": '#include "../shared/a.p4"\n', "shared/a.p4": ""})
    found = members(program.package(main))
    assert list(found) == ["weir-package.json", "p4/main.p4", "shared/a.p4"]
    assert json.loads(found["weir-package.json"])["main"] == "p4/main.p4"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    main = write(tmp_path, {"main.p4": '#include "a.p4"\n', "a.p4": '#include "none.p4"\n'})
    with pytest.raises(ProgramError, match=r"a\.p4: includes none\.p4, which is neither beside it nor beside main\.p4"):
        program.package(main)
    with pytest.raises(ProgramError, match=r"cannot read .*absent\.p4: No such file"):
        program.package(tmp_path / "absent.p4")
    with pytest.raises(ProgramError, match=r"cannot read .*absent\.p4: No such file"):
        program.for_bmv2(tmp_path / "absent.p4")
    (tmp_path / "a.p4").write_bytes(b"\xff")
    with pytest.raises(ProgramError, match=r"a\.p4: not UTF-8 at byte 0"):
        program.package(main)


def test_a_program_is_known_by_all_that_makes_it(tmp_path: Path) -> None:
    one = program.for_embedded(write(tmp_path, {"main.p4": "a"}))
    assert program.for_embedded(write(tmp_path, {"main.p4": "a"})) == one
    assert program.for_embedded(write(tmp_path, {"main.p4": "b"})).cookie != one.cookie
    info = P4Info.from_file(P4INFO.read_bytes(), "x")
    assert program.cookie(PipelineConfig(info, b"a")) != program.cookie(PipelineConfig(None, b"a"))


def test_the_program_here_can_be_packaged() -> None:
    found = members(program.package(PID_DELAY.source))
    assert {"programs/pid_delay.p4", "include/law.p4"} <= set(found)
    assert all(name == "weir-package.json" or name.endswith(".p4") for name in found)


def test_precompiled_files(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_bytes(b"{}")
    config = program.precompiled(P4INFO, tmp_path / "program.json")
    assert config.device_config == b"{}"
    assert config.p4info.tables["acl"].size == 64
    with pytest.raises(ProgramError, match=r"cannot read .*none"):
        program.precompiled(tmp_path / "none", tmp_path / "program.json")


def bmv2(change) -> PipelineConfig:
    """A P4Info and what BMv2 would be given with it, changed by `change`."""
    info = P4Info.from_file(P4INFO.read_bytes(), "x")
    kinds = {"optional": "ternary"}
    tables = [
        {"name": t.name, "key": [{"match_type": kinds.get(f.kind, f.kind), "name": f.name} for f in t.fields]}
        for t in info.tables
    ]
    actions = [
        {"name": a.name, "runtime_data": [{"name": p.name, "bitwidth": p.bitwidth} for p in a.params]}
        for a in info.actions
    ]
    parts = {name: [] for name in ("header_types", "headers", "parsers", "deparsers")}
    made = parts | {"pipelines": [{"tables": tables}], "actions": actions}
    change(made)
    return PipelineConfig(info, json.dumps(made).encode())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.pop("parsers"), "x.json: no program for BMv2: has no parsers"),
        (lambda p: p.update(actions={}), "x.json: no program for BMv2: has no actions"),
        (lambda p: p["actions"].pop(), "x.json: has no action "),
        (lambda p: p["pipelines"][0].pop("tables"), "x.json: no program for BMv2 in its tables and actions (KeyError"),
        (lambda p: p.update(format=1, files={}), "x.json: weir-p4c wrote the program, for weir-switch"),
        (lambda p: p["pipelines"][0]["tables"].pop(), "x.json: has no table "),
        (lambda p: p["pipelines"][0]["tables"][0]["key"].pop(), "x.json: table "),
        (lambda p: next(a for a in p["actions"] if a["runtime_data"])["runtime_data"].clear(), "x.json: action "),
    ],
)
def test_what_bmv2_would_break_on_is_refused(change, message: str) -> None:
    program.check_bmv2(bmv2(lambda _: None), "x.json")
    with pytest.raises(ProgramError, match=f"^{re.escape(message)}"):
        program.check_bmv2(bmv2(change), "x.json")


def test_without_a_compiler_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match=r"neither p4c-bm2-ss nor p4c is on PATH.*--p4info FILE"):
        program.for_bmv2(PID_DELAY.source)
    with pytest.raises(
        ProgramError, match="weir-switch, which would say what tables it has before it replaces what runs, is not"
    ):
        program.local_p4info(PID_DELAY.source)


def test_links_to_weir_p4c_compile_nothing_for_bmv2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, folder, other = tmp_path / "weir-p4c", tmp_path / "links", tmp_path / "other"
    for path in (folder, other):
        path.mkdir()
    ours.write_text("#!/bin/sh\nexit 9\n")
    ours.chmod(0o755)
    (folder / "p4c-bm2-ss").symlink_to(ours)
    (folder / "p4c").symlink_to(ours)
    monkeypatch.setenv("PATH", f"{folder}:{other}")
    with pytest.raises(ProgramError, match=r"nor p4c is on PATH \(.*/links/p4c-bm2-ss is weir-p4c, which"):
        program.for_bmv2(PID_DELAY.source)
    # A copy, which its output gives away.
    copy = other / "p4c-bm2-ss"
    copy.write_text("""#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo '{"format": 1, "files": {}}' >"$2"
""")
    copy.chmod(0o755)
    assert program.find_compiler() == str(copy)
    with pytest.raises(ProgramError, match=r"^.*/other/p4c-bm2-ss: weir-p4c wrote the program, for weir-switch; BMv2"):
        program.for_bmv2(PID_DELAY.source)


def test_p4c_makes_the_program_for_bmv2() -> None:
    try:
        program.find_compiler()
    except ProgramError as error:
        pytest.skip(str(error))
    config = program.for_bmv2(PID_DELAY.source)
    assert json.loads(config.device_config)["program"] == PID_DELAY.source.name
    assert program.for_bmv2(PID_DELAY.source).cookie == config.cookie
    assert "aqm" in config.p4info.tables


def test_what_p4c_refuses_is_repeated(tmp_path: Path) -> None:
    try:
        program.find_compiler()
    except ProgramError as error:
        pytest.skip(str(error))
    with pytest.raises(ProgramError, match=r"p4c.* refuses it:\n.*main\.p4"):
        program.for_bmv2(write(tmp_path, {"main.p4": "#include <core.p4>\nparser p("}))
