# SPDX-License-Identifier: Apache-2.0
"""Writes the declarations of the law's parameters from params.toml: `./run generate`, `python law/generate.py [ROOT]`.

ROOT is a clone, by default this one. Each output is a whole file, or the region of a page between two marks.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ORIGIN = "Generated from law/params.toml by law/generate.py (`./run generate`); don't edit."
BEGIN, END = "<!-- generated from law/params.toml: begin -->", "<!-- generated from law/params.toml: end -->"
GROUPS = ("paper", "time bound", "flow shares", "marking", "rate")
LEVELS = ("user", "expert")
PER_SECOND_Q40_PER_US = 2**40 / 1e6
U32_MAX = 2**32 - 1
FACTOR_END = 16
PYTHON_TYPES = {"whole": "int", "intervals": "str | int", "curve": "str"}
MOST = {"per_second": U32_MAX / PER_SECOND_Q40_PER_US, "factor": FACTOR_END, "factor_or_0": FACTOR_END, "bound": 1}
FORMS = ("whole", "per_second", "factor", "factor_or_0", "intervals", "curve", "share", "bound")


class TableError(ValueError):
    """A row that is none; the message names it."""


@dataclass(frozen=True)
class Row:
    """One parameter. `least`, `most`: of the key's value; `range`: of the law's integer."""

    name: str
    key: str
    unit: str
    form: str
    range: tuple[int, int]
    least: float
    most: float
    default: float | None
    group: str
    level: str
    symbol: str
    source: str
    help: str

    @property
    def bits(self) -> int:
        return self.range[1].bit_length()

    @property
    def probe_bits(self) -> int:
        """Width in the header of p4/programs/law_probe.p4, whose fields are whole bytes."""
        return 8 if self.bits <= 8 else 32 if self.bits <= 32 else 64

    @property
    def right(self) -> str:
        """The values that the key takes, in words."""
        return {
            "whole": f"a whole number, {self.least} .. {self.most}",
            "per_second": f"a number per second, 0 .. {self.most:.0f}",
            "factor": f"a number above 0 and below {FACTOR_END}",
            "factor_or_0": f"a number, 0 or above and below {FACTOR_END}",
            "intervals": f'"drop", "keep" or a number of intervals, {self.least} .. {self.most}',
            "curve": '"linear" or "squared"',
            "share": f"a share of target_us, 0 .. {self.most}",
            "bound": "a probability, 0 .. 1",
        }[self.form]


@dataclass(frozen=True)
class Switch:
    """A word of users' that sets a key to one of two values."""

    name: str
    key: str
    on: float
    off: float
    help: str


@dataclass(frozen=True)
class Table:
    rows: list[Row]
    switches: list[Switch]
    removed: dict[str, str]


def _row(given: dict[str, Any]) -> Row:
    name, form, span = given["name"], given["form"], given["range"]
    if form not in FORMS or given["group"] not in GROUPS or given["level"] not in LEVELS:
        raise TableError(f"{name}: form, group or level is not one of {FORMS}, {GROUPS}, {LEVELS}")
    least, most = given.get("values", (0 if form in MOST else span[0], MOST.get(form, span[1])))
    return Row(
        name=name, key=given.get("key", name), unit=given["unit"], form=form, range=(span[0], span[1]), least=least,
        most=most, default=given.get("default"), group=given["group"], level=given["level"],
        symbol=given.get("symbol", ""), source=given["source"], help=given["help"],
    )  # fmt: skip


def read(path: Path) -> Table:
    """The table. TableError, or KeyError for a row that lacks something."""
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = [_row(one) for one in given["param"]]
    for names in ([row.name for row in rows], [row.key for row in rows]):
        if len(set(names)) != len(names):
            raise TableError(f"{max(names, key=names.count)}: given twice")
    switches = [Switch(**one) for one in given.get("switch", [])]
    return Table(rows, switches, {one["key"]: one.get("instead", "") for one in given.get("removed", [])})


def _text(value: str) -> str:
    """As a literal of C, Python and Rust."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


# C


def c_header(table: Table) -> str:
    lines = [
        "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */",
        f"/* {ORIGIN} */",
        "/* clang-format off */",
        "#ifndef WEIR_PARAMS_H",
        "#define WEIR_PARAMS_H",
        "",
        "/* Run-time data of one queue. Included by law.h, which has the types. */",
        "struct weir_params {",
    ]
    for row in table.rows:
        lines += [f"\t/* {row.help} */", f"\t__u{64 if row.bits > 32 else 32} {row.name};"]
    lines += ["};", "", "/* each(NAME) for each member. */", "#define WEIR_PARAMS(each) \\"]
    lines += [f"\teach({row.name}) \\" for row in table.rows[:-1]] + [f"\teach({table.rows[-1].name})"]
    return "\n".join([*lines, "", "#endif /* WEIR_PARAMS_H */", ""])


def c_table(table: Table) -> str:
    lines = [f"/* SPDX-License-Identifier: Apache-2.0 */\n/* {ORIGIN} */", "static const struct gain gains[] = {"]
    for row in table.rows:
        otherwise = "NAN" if row.default is None else repr(row.default)
        lines.append(
            f"\t{{{_text(row.key)}, {_text(row.help)}, {_text(row.right)}, {_text(row.group)}, {row.form.upper()},\n"
            f"\t {row.least!r}, {row.most!r}, {str(row.level == 'expert').lower()}, FIELD({row.name}), {otherwise}}},"
        )
    lines += ["};", "", "static const char *const groups[] = {"]
    lines += [f"\t{_text(group)}," for group in GROUPS]
    lines += ["};", "", "static const struct user_switch user_switches[] = {"]
    lines += [f"\t{{{_text(s.name)}, {_text(s.key)}, {_text(s.help)}, {s.on!r}, {s.off!r}}}," for s in table.switches]
    lines += ["};", "", "static const struct removed_key removed_keys[] = {"]
    lines += [f"\t{{{_text(key)}, {_text(instead) if instead else 'NULL'}}}," for key, instead in table.removed.items()]
    return "\n".join([*lines, "};", ""])


# P4


def p4_include(table: Table) -> str:
    rows = table.rows
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {ORIGIN}",
        "#ifndef WEIR_LAW_PARAMS_P4",
        "#define WEIR_LAW_PARAMS_P4",
        "",
        "struct law_params_t {",
    ]
    for row in rows:
        lines += [f"    // {row.help}", f"    bit<{row.bits}> {row.name};"]
    lines += ["}", "", "// Parameters of an action that has the law's."]
    lines += _macro("LAW_ACTION_PARAMS", [f"bit<{row.bits}> {row.name}" for row in rows], ",")
    lines += ["", "// In such an action: sets `to`, a law_params_t."]
    lines += _macro("LAW_SET_PARAMS(to)", [f"to.{row.name} = {row.name};" for row in rows])
    lines += ["", "// Sets all of `to`, a law_params_t, to 0."]
    lines += _macro("LAW_CLEAR_PARAMS(to)", [f"to.{row.name} = 0;" for row in rows])
    lines += ["", "// Fields of the probe's header."]
    lines += _macro("LAW_PROBE_FIELDS", [f"bit<{row.probe_bits}> {row.name};" for row in rows])
    lines += ["", "// Sets `to`, a law_params_t, from such a header."]
    cast = [f"(bit<{row.bits}>)" if row.bits != row.probe_bits else "" for row in rows]
    sets = [f"to.{row.name} = {cast}from.{row.name};" for row, cast in zip(rows, cast, strict=True)]
    lines += _macro("LAW_PROBE_PARAMS(to, from)", sets)
    return "\n".join([*lines, "", "#endif", ""])


def _macro(name: str, parts: list[str], between: str = "") -> list[str]:
    return [f"#define {name} \\", *[f"    {part}{between} \\" for part in parts[:-1]], f"    {parts[-1]}"]


# Rust, Python


def rust_list(table: Table) -> str:
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"//! {ORIGIN}",
        "",
        "/// Name and bytes of each parameter in the probe's header, in order.",
        "pub const PARAMS: &[(&str, usize)] = &[",
        *[f"    ({_text(row.name)}, {row.probe_bits // 8})," for row in table.rows],
        "];",
        "",
    ]
    return "\n".join(lines)


def python_module(table: Table) -> str:
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# {ORIGIN}",
        "# fmt: off",
        "# ruff: noqa: E501",
        '"""Parameters of the law: the integers of a data plane, the values of users, and a row for each."""',
        "",
        "from __future__ import annotations",
        "",
        "from dataclasses import dataclass",
        "from typing import NamedTuple",
        "",
        "",
        "class Row(NamedTuple):",
        '    """`param`: the integer, in `range`. `least`, `most`: of its key; `right` has those in words."""',
        "",
        "    param: str",
        "    form: str",
        "    range: tuple[int, int]",
        "    least: float",
        "    most: float",
        "    unit: str",
        "    group: str",
        "    level: str",
        "    right: str",
        "    doc: str",
        "",
        "",
        "class Switch(NamedTuple):",
        "    key: str",
        "    on: float",
        "    off: float",
        "    doc: str",
        "",
        "",
        "@dataclass(frozen=True)",
        "class Integers:",
        *[f"    {row.name}: int" for row in table.rows],
        "",
        "",
        "@dataclass(frozen=True, kw_only=True)",
        "class Values:",
    ]
    for row in table.rows:
        default = "" if row.default is None else f" = {row.default!r}"
        lines.append(f"    {row.key}: {PYTHON_TYPES.get(row.form, 'float')}{default}")
    lines += ["", "", "ROWS = {"]
    for row in table.rows:
        texts = ", ".join(map(_text, (row.unit, row.group, row.level, row.right, row.help)))
        numbers = f"{row.range}, {row.least!r}, {row.most!r}"
        lines.append(f"    {_text(row.key)}: Row({_text(row.name)}, {_text(row.form)}, {numbers}, {texts}),")
    lines += ["}", '"""By key."""', "", "SWITCHES = {"]
    lines += [
        f"    {_text(s.name)}: Switch({_text(s.key)}, {s.on!r}, {s.off!r}, {_text(s.help)})," for s in table.switches
    ]
    lines += ["}", '"""Words of users that set a key, by name."""', "", "REMOVED = {"]
    lines += [f"    {_text(key)}: {_text(instead)}," for key, instead in table.removed.items()]
    return "\n".join([*lines, "}", '"""Keys of earlier releases, with the key to use instead, or nothing."""', ""])


# Pages


def _profiles(root: Path) -> dict[str, dict[str, Any]]:
    folder = root / "controller" / "profiles"
    return {name: tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8")) for name in ("paper", "tuned")}


def keys_page(table: Table, root: Path) -> str:
    profiles = _profiles(root)
    lines = ["| key | group | meaning | range | `paper` | `tuned` |", "|---|---|---|---|---|---|"]
    for group in GROUPS:
        for row in (row for row in table.rows if row.group == group):
            values = " | ".join(_value(profiles[name].get(row.key, row.default)) for name in profiles)
            bounds = re.sub(r"^a (whole )?(number|share of target_us|probability)( per second)?,? ", "", row.right)
            lines.append(f"| `{row.key}` | {row.group} | {row.help} | {bounds} | {values} |")
    return "\n".join(lines)


def law_page(table: Table, root: Path) -> str:
    lines = ["| parameter | symbol | range | source |", "|---|---|---|---|"]
    for row in table.rows:
        least, most = (str(v) if v < 2**16 else f"2^{v.bit_length() - 1}" if v & (v - 1) == 0 else
                       f"2^{v.bit_length()} - 1" for v in row.range)  # fmt: skip
        lines.append(f"| `{row.name}` | {row.symbol} | {least} .. {most} | {row.source} |")
    return "\n".join(lines)


def _value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _region(page: Path, text: str) -> str:
    old = page.read_text(encoding="utf-8")
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        raise TableError(f"{page}: must have the marks {BEGIN} and {END} once")
    before, after = old.split(BEGIN)[0], old.split(END)[1]
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def outputs(root: Path) -> dict[str, str]:
    """Path below `root` and text of each output."""
    table = read(root / "law" / "params.toml")
    return {
        "xdp/include/weir/params.h": c_header(table),
        "xdp/lib/gains/table.inc": c_table(table),
        "p4/include/law_params.p4": p4_include(table),
        "p4/switch/weir-p4/tests/it/law_params.rs": rust_list(table),
        "controller/weir/params.py": python_module(table),
        "xdp/README.md": _region(root / "xdp/README.md", keys_page(table, root)),
        "docs/design/law.md": _region(root / "docs/design/law.md", law_page(table, root)),
    }


def main(words: list[str]) -> int:
    root = Path(words[0]) if words else Path(__file__).resolve().parents[1]
    try:
        found = outputs(root)
    except (OSError, KeyError, ValueError) as error:
        print(f"law/generate.py: {error}", file=sys.stderr)
        return 1
    for name, text in found.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
