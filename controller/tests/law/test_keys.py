# SPDX-License-Identifier: Apache-2.0
"""A gain is declared once in each language. Wherever its key or its parameter is listed, the lists agree; a key that is
added in one place alone is found, and the place is named."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from places import BUILT, REPOSITORY

from weir import gains, law
from weir.gains import DECLARED, KEYS
from weir.law import RANGES
from weir.programs import PID_DELAY, PortLaw
from weir.programs.pid_delay import action_data
from weir.settings import profile

PARAMS = tuple(dict.fromkeys(key.param for key in DECLARED.values()))


def _between(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


def _c_table(text: str) -> list[str]:
    return re.findall(r'^\t\{"(\w+)", "', _between(text, "} gains[] = {", "\n};"), re.MULTILINE)


def _c_fields(text: str) -> list[str]:
    """Some have two keys."""
    return list(dict.fromkeys(re.findall(r"FIELD(?:_OR)?\((\w+)", _between(text, "} gains[] = {", "\n};"))))


def _c_struct(text: str) -> list[str]:
    return re.findall(r"^\t__u\d+ (\w+);", _between(text, "struct weir_params {", "\n};"), re.MULTILINE)


def _p4_struct(text: str) -> list[str]:
    return re.findall(r"^    bit<\d+> (\w+);", _between(text, "struct law_params_t {", "\n}"), re.MULTILINE)


def _p4_action(text: str) -> list[str]:
    params = re.findall(r"bit<\d+> (\w+)", _between(text, "action pid_delay(", ")"))
    return [name for name in params if name not in PortLaw.OWN_KEYS]


def _p4_assigned(text: str) -> list[str]:
    body = _between(text, "action pid_delay(", "\n    }")
    return [left for left, right in re.findall(r"\.law\.(\w+) = (\w+);", body) if left == right]


def _p4_probe(text: str) -> list[str]:
    return [
        left for left, right in re.findall(r"^\s+p\.(\w+) = .*hdr\.probe\.(\w+)", text, re.MULTILINE) if left == right
    ]


def _law_page(text: str) -> list[str]:
    """The page has `kp, ki, kd` for parameters whose names have their unit."""
    table = _between(text, "## Parameters", "\n## ")
    listed = [name for row in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) for name in row.split(", ")]
    full = {param.split("_q40")[0].removesuffix("_q16"): param for param in PARAMS}
    return [full.get(name, name) for name in listed]


def _xdp_page(text: str) -> list[str]:
    table = _between(text, "\n## Keys\n", "\n## ")
    rows = re.findall(r"^\| (`.+?`) \| ", table, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def _vectors(text: str) -> list[str]:
    record = json.loads(text.splitlines()[0])
    return [name for name in record if name not in ("op", "case")]


@dataclass(frozen=True)
class Place:
    """Where keys (or parameters) are listed: a file, how they are read, what they must be, and one of them there."""

    path: str
    read: Callable[[str], list[str]]
    wanted: tuple[str, ...]

    def wrong(self, text: str) -> str | None:
        """Difference, with its place; None for nothing."""
        found = self.read(text)
        if len(found) == len(set(found)) and set(found) == set(self.wanted):
            return None
        extra, missing = sorted(set(found) - set(self.wanted)), sorted(set(self.wanted) - set(found))
        return f"{self.path} ({self.read.__name__}): not declared in Python: {extra}, missing there: {missing}"


PLACES = [
    Place("controller/profiles/paper.toml", lambda text: list(tomllib.loads(text)), KEYS),
    Place("controller/profiles/tuned.toml", lambda text: list(tomllib.loads(text)), KEYS),
    Place("xdp/lib/gains/gains.c", _c_table, KEYS),
    Place("xdp/lib/gains/gains.c", _c_fields, PARAMS),
    Place("xdp/include/weir/law.h", _c_struct, PARAMS),
    Place("xdp/README.md", _xdp_page, KEYS),
    Place("p4/include/law_types.p4", _p4_struct, PARAMS),
    Place("p4/include/aqm_ingress.p4", _p4_action, PARAMS),
    Place("p4/include/aqm_ingress.p4", _p4_assigned, PARAMS),
    Place("p4/programs/law_probe.p4", _p4_probe, PARAMS),
    Place("docs/design/law.md", _law_page, PARAMS),
    Place("tests/vectors/steady.jsonl", _vectors, PARAMS),
]
IDS = [f"{place.path} {place.read.__name__.strip('_<>')}" for place in PLACES]


def _text(place: Place) -> str:
    return (REPOSITORY / place.path).read_text(encoding="utf-8")


def _with_one_more(place: Place, text: str) -> str:
    """The file with a `new_us` beside each `burst_us` that is read there."""
    if place.path.endswith(".jsonl"):
        return text.replace('"burst_us":', '"new_us":1,"burst_us":', 1)
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if re.search(r"\bburst_us\b", line):
            # a C entry may go on on the next line, with its FIELD
            size = 2 if place.path.endswith("gains.c") and not line.endswith("},") else 1
            more = [re.sub(r"\bburst_us\b", "new_us", one) for one in lines[index : index + size]]
            changed = "\n".join([*lines[:index], *more, *lines[index:]]) + "\n"
            if place.read(changed) != place.read(text):
                return changed
    raise AssertionError(f"{place.path}: no burst_us is read there")


def _without_one(place: Place, text: str) -> str:
    return re.sub(r"\bschedule_weight_shift\b", "dq_shift_", text)


@pytest.mark.parametrize("place", PLACES, ids=IDS)
def test_each_list_of_keys_is_pythons(place: Place) -> None:
    assert place.wrong(_text(place)) is None


@pytest.mark.parametrize("change", [_with_one_more, _without_one])
@pytest.mark.parametrize("place", PLACES, ids=IDS)
def test_a_key_in_one_place_alone_is_found(place: Place, change: Callable[[Place, str], str]) -> None:
    said = place.wrong(change(place, _text(place)))
    assert said is not None
    assert said.startswith(place.path)
    assert ("new_us" if change is _with_one_more else "schedule_weight_shift") in said


def test_gains_and_params_are_declared_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(PARAMS) == sorted(RANGES)
    monkeypatch.setattr(gains, "RANGES", RANGES | {"new_us": (0, 1)})
    with pytest.raises(TypeError, match="do not declare the same parameters: new_us"):
        gains._declared()


def test_a_field_without_its_declaration_is_found() -> None:
    assert list(law.Params.__dataclass_fields__) == list(RANGES)
    assert all(key.doc and key.unit and key.right for key in DECLARED.values())
    assert all(name in gains.help_text() for name in KEYS)


def test_what_a_switch_is_sent_follows() -> None:
    assert set(action_data(PortLaw(profile("tuned")))) == {*PARAMS, *PortLaw.OWN_KEYS}
    action = _p4_action((PID_DELAY.source.parents[1] / "include" / "aqm_ingress.p4").read_text())
    assert set(action) == set(PARAMS)


def test_the_loader_that_was_built_has_the_same_keys() -> None:
    path = shutil.which("weir-xdp", path=str(BUILT))
    if path is None:
        pytest.skip("weir-xdp is not built")
    said = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    section = re.search(r"^Keys[^\n]*:\n(.*?)\n\n", said, re.DOTALL | re.MULTILINE)
    assert section is not None, "weir-xdp --help lists no keys; is the built one older than the sources?"
    assert {line.split()[0] for line in section[1].splitlines()} == set(KEYS)
