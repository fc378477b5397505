# SPDX-License-Identifier: Apache-2.0
"""What an evaluation writes into one folder: report.md, the page, the pictures and the small tables.

Text, page and the front page's picture are made of what the tables say, so that they can be made again from them alone:
`./run evaluate --from docs/results/evaluation`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.evaluation import tables as csv_files
from weirlab.evaluation.matrix import analysis as matrix
from weirlab.evaluation.matrix import courses as matrix_courses
from weirlab.evaluation.matrix import page, text
from weirlab.evaluation.plan import Plan
from weirlab.evaluation.state import Done, State
from weirlab.metrics.samples import SamplesError
from weirlab.scenario.model import Run
from weirlab.store import atomic

TEXT = "report.md"
OVER_TIME = "table2"  # the group whose runs are shown over time, as the paper does


def docs() -> Path:
    """Where the report of the whole matrix goes."""
    return paths.clone() / "docs" / "results" / "evaluation"


def partial() -> Path:
    """Where any other report goes."""
    return paths.clone() / "results" / "evaluation"


def of_runs(state: State, finished: Sequence[Done], missing: Sequence[Run], args: argparse.Namespace) -> bool:
    """Write the report over these runs, in the order of the matrix; False if there are none to report.

    Runs that fail their checks are told and left out: figures of a queue that was not measured compare nothing.
    """
    there = [done for done in finished if not done.failures]
    unsound = [done for done in finished if done.failures]
    if not there:
        print("no run has ended well; there is nothing to report", file=sys.stderr)
        return False
    out = args.out or (docs() if not missing and not unsound and is_the_matrix(state.plan, args) else partial())
    tables, rows = {}, []
    for group in state.plan.groups:
        of_group = [done.row for done in there if done.group == group.name]
        if of_group:
            tables[f"{group.name}.csv"] = csv_files.text_of(of_group)
            rows += csv_files.rows_of_text(tables[f"{group.name}.csv"], group.name, state.plan, f"{group.name}.csv")
    over_time = matrix_courses.pictures(courses(state, there))
    notes, said = [], sys.stderr if args.json else sys.stdout
    if missing:
        told = f"{len(missing)} of {len(missing) + len(finished)} runs of the matrix are missing"
        told += f": {missing_words(missing)}"
        notes.append(f"**Incomplete**: {told}.")
        print(told, file=said)
    if unsound:
        told = f"{len(unsound)} of {len(missing) + len(finished)} runs failed their checks and are left out of all "
        told += "that follows"
        lines = [f"- {done.words}: {'; '.join(done.failures)}" for done in unsound]
        notes.append(f"**Left out**: {told}:\n\n" + "\n".join(lines))
        print(told, file=said)
    if args.seeds_from:
        notes.append(f"Seeds {args.seeds_from} to {args.seeds_from + args.seeds - 1}, not the matrix's own.")
    found = matrix.analyse(csv_files.in_order(rows, state.plan), about(state.plan))
    write(out, found, list(over_time), notes, [], {**tables, **{f"{n}-over-time.png": p for n, p in over_time.items()}})
    print(out / TEXT, out / page.PAGE, sep="\n", file=said)
    return True


def of_tables(plan: Plan, folder: Path, out: Path | None) -> None:
    """Write text, page and picture again from the small tables in a folder, with pictures over time where it has them.

    Raises ResultsError.
    """
    batches = csv_files.batches_in(folder, plan)
    found = matrix.analyse([row for batch in batches for row in batch.rows], about(plan))
    of_group = [s.name for group in plan.groups if group.name == OVER_TIME for s in group.scenarios]
    pictures = [name for name in of_group if (folder / f"{name}-over-time.png").is_file()]
    notes = missing_notes(plan, found)
    out = out or partial()
    copied = {f"{name}-over-time.png": (folder / f"{name}-over-time.png").read_bytes() for name in pictures}
    write(out, found, pictures, notes, [batch.name for batch in batches[1:]], copied)
    print(out / TEXT, out / page.PAGE, sep="\n")


def missing_notes(plan: Plan, found: matrix.Matrix) -> list[str]:
    """What is missing of the whole matrix, if anything."""
    there = {(row.scenario, row.variant, row.seed) for s in found.scenarios for row in s.rows}
    missing = [run for run in plan.runs() if (run.scenario, run.variant, run.seed) not in there]
    told = f"{len(missing)} of {len(plan.runs())} runs of the matrix are missing: {missing_words(missing)}"
    return [f"**Incomplete**: {told}."] if missing else []


def write(
    out: Path,
    found: matrix.Matrix,
    over_time: Sequence[str],
    notes: Sequence[str],
    later: Sequence[str],
    more: Mapping[str, str | bytes],
) -> None:
    """Write all files of a report, or none; `more` are further ones. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    files = {out / name: content for name, content in {**more, **page.files(found, later)}.items()}
    files[out / TEXT] = text.results_md(found, over_time, notes, later)
    atomic.write_all(files)


def about(plan: Plan) -> dict[str, dict[str, Any]]:
    """What the scenario files say, for readers."""
    return {
        scenario.name: {"title": scenario.title, "description": scenario.description, "paper": scenario.paper}
        for group in plan.groups
        for scenario in group.scenarios
    }


def courses(state: State, there: Sequence[Done]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The runs of the group OVER_TIME by the second, by scenario and variant; each is computed once."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for done in (done for done in there if done.group == OVER_TIME):
        entry, key = state.entry(done.run), state.keys.course(done.run.spec)
        if entry is None:
            continue
        course = state.stored(done.run, entry, key)
        if course is None:
            try:
                course = matrix_courses.course(entry.samples, done.run.spec)
            except SamplesError as error:
                print(f"{done.words}: left out of the picture over time: {error}", file=sys.stderr)
                continue
            entry.put_metrics(key, course)
        found.setdefault(done.run.scenario, {}).setdefault(done.run.variant, []).append(course)
    return found


def is_the_matrix(plan: Plan, args: argparse.Namespace) -> bool:
    """Whether the options leave the matrix whole: no other one, no fewer seeds than its scenarios ask for."""
    most = max(max(scenario.seeds) for group in plan.groups for scenario in group.scenarios)
    return args.matrix is None and args.seeds_from in (None, 1) and (args.seeds is None or args.seeds >= most)


def missing_words(missing: Sequence[Run]) -> str:
    """What is missing, by variant, in a line."""
    by_variant: dict[str, int] = {}
    for run in missing:
        by_variant[run.variant] = by_variant.get(run.variant, 0) + 1
    return ", ".join(f"{count} of {variant}" for variant, count in by_variant.items())
