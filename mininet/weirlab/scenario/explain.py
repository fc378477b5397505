# SPDX-License-Identifier: Apache-2.0
"""Pydantic's errors in words: fault of a section's key, and the right form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from weirlab.scenario.errors import as_toml, nearest
from weirlab.scenario.sections import Section

# The one key whose value may be a list.
LIST_KEY = "seeds"


def explain(error: Any, key: str, value: Any, model: type[Section], allowed: Sequence[str]) -> str:
    """Pydantic's error in our words: fault; right form."""
    kind, ctx = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        meant = likely_key(key, allowed)
        if meant and meant.startswith(key + "_"):
            return f"unit left out; write {meant} = {as_toml(value)}"
        if meant and stem(meant) == stem(key):
            return f"another unit than ours; write {meant} and convert the value"
        return f"unknown key; {nearest(key, allowed)}"
    if kind == "missing":
        return f"missing; write {key} = {wanted(model, key)}"
    if isinstance(value, list) and key != LIST_KEY:
        return "a list can't stand here; write one value, or put the list in [sweep] under the dotted key"
    if kind == "literal_error" and isinstance(value, str):
        names = re.findall(r"'([^']+)'", ctx["expected"])
        return f"unknown name {value!r}; {nearest(value, names)}"
    return f"{as_toml(value)} is not valid; write {wanted(model, key)}"


def wanted(model: type[Section], key: str) -> str:
    """In words, the values a key may have, from its JSON schema."""
    schema = model.model_json_schema()["properties"][key]
    words = []
    for option in schema.get("anyOf", [schema]):
        if "enum" in option or "const" in option:
            words.append("one of " + ", ".join(f'"{name}"' for name in option.get("enum", [option.get("const")])))
        elif option.get("type") == "array":
            words.append("a list of different whole numbers")
        elif option.get("type") in ("number", "integer"):
            bounds = [
                f"{word} {option[name]:.10g}"
                for name, word in (
                    ("exclusiveMinimum", "above"),
                    ("minimum", "from"),
                    ("exclusiveMaximum", "below"),
                    ("maximum", "to"),
                )
                if name in option
            ]
            words.append(" ".join(["a number" if option["type"] == "number" else "a whole number", *bounds]))
        elif option.get("type") == "boolean":
            words.append("true or false")
        elif option.get("type") == "string":
            name = "a name of lower-case letters, digits, - and _"
            name += f", at most {option['maxLength']}" if "maxLength" in option else ""
            words.append(name if "pattern" in option else "a text in quotes")
    return " or ".join(words)


def stem(key: str) -> str:
    """A key without its unit: the first words, up to the one that starts a unit."""
    return re.sub(r"_(?:[kmg]?bits?_s|[munk]?s|percent|packets|[km]?bytes|ms|bps|mbps|kbps|pct|sec)$", "", key)


def likely_key(key: str, allowed: Sequence[str]) -> str | None:
    """The key that an unknown key was probably meant to be: the unit left out, another unit, a slip of the pen."""
    for candidate in allowed:
        if candidate != stem(candidate) and stem(key) == stem(candidate):
            return candidate
    units = [candidate for candidate in allowed if candidate.startswith(key + "_") and candidate != stem(candidate)]
    return units[0] if units else next(iter(difflib.get_close_matches(key, allowed, n=1)), None)
