# SPDX-License-Identifier: Apache-2.0
"""Congestion controls that a policy decides for: their names, the policy in a spec, programs' options for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weirlab.scenario.congestion import LEARNED

if TYPE_CHECKING:
    from weirlab.scenario.checker import Checker

WEIGHTS = "cc_weights"
"""A setting's file of weights. A spec holds the text of the file in place of its name."""
MOST_WEIGHTS_BYTES = 1 << 20  # the sender's limit


def without_policy(option: str, cc: str) -> str:
    """Error for an option for a policy beside a control that has none."""
    return f'{option} is for {" and ".join(LEARNED)}, not {cc}; write cc = "{LEARNED[0]}"'


def text_of_weights(checker: Checker, name: str, key: str) -> str | None:
    """The text of a policy's file, which the spec holds in place of its name: so a run is known by the policy itself.
    The sender checks what is in it. None after a mistake, which the checker gets as the one at `key`."""
    try:
        content = (checker.path.parent / name).read_bytes()
        if len(content) <= MOST_WEIGHTS_BYTES:
            return content.decode("utf-8")
        wrong = f"{name}: {len(content)} bytes, more than {MOST_WEIGHTS_BYTES}; write the name of a weights file"
    except UnicodeDecodeError as error:
        wrong = f"{name}: not UTF-8 at byte {error.start}; write the name of a weights file"
    except (OSError, ValueError) as error:  # a name may hold what no path can
        why = error.strerror if isinstance(error, OSError) else error
        wrong = f"{name!r} can't be read: {why}; write a file's path from the scenario's folder"
    checker.problem(key, wrong)
    return None


def weights_words(setting: Mapping[str, Any], path: Path) -> list[str]:
    """A QUIC program's words for the policy of a setting, whose text goes into a file at `path`; none where the
    programs' own policy decides. Raises OSError."""
    if WEIGHTS not in setting:
        return []
    path.write_text(setting[WEIGHTS])
    return ["--cc-weights", str(path)]


def parts_of_runs(settings: list[Mapping[str, Any]]) -> set[str]:
    """Parts of setup/sources.txt that QUIC programs with these settings have for their policies."""
    by_policy = [setting for setting in settings if setting.get("cc") in LEARNED and not setting.get("stack")]
    own = all(WEIGHTS in setting for setting in by_policy)
    return ({"learned"} if by_policy else set()) | (set() if own else {"policies"})


def with_document(text: str, document: Mapping[str, Any]) -> str:
    """The text of a weights file with another content (docs/design/pbq-weights-format.md, "The weights file")."""
    content = json.dumps(document, indent=1) + "\n"
    format_ = text.partition("\n")[0].rpartition(":")[0]
    return f"{format_}:{hashlib.sha256(content.encode()).hexdigest()}\n{content}"


def document_of(text: str) -> dict[str, Any]:
    """The content of a weights file's text. Raises ValueError where it is not an object in JSON."""
    document = json.loads(text.partition("\n")[2])
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document
