# SPDX-License-Identifier: Apache-2.0
"""Files of an evaluation in one folder: report.md, the page, the pictures and the small tables.

Text, page and the front page's picture are made of what the tables say, so that they can be made again from them alone:
`./run evaluate --from docs/results/evaluation`.

Each suite builds its own report: matrix/ for matrices, envelope/ for envelopes, cc/ for congestion controls.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from weirlab import paths
from weirlab.evaluation import digests, parquet
from weirlab.evaluation import tables as csv_files
from weirlab.evaluation.cc import analysis as controls
from weirlab.evaluation.cc import page as controls_page
from weirlab.evaluation.envelope import analysis as envelope
from weirlab.evaluation.envelope import page as envelope_page
from weirlab.evaluation.matrix import analysis as matrix
from weirlab.evaluation.matrix import courses as matrix_courses
from weirlab.evaluation.matrix import page
from weirlab.evaluation.plan import CONTROLS, ENVELOPE, Plan
from weirlab.evaluation.shared.pages import TEXT, SuiteReport
from weirlab.evaluation.shared.rows import RunRow
from weirlab.evaluation.state import Done, State
from weirlab.evaluation.verify import made
from weirlab.lab.kernels import LAB_KERNEL
from weirlab.metrics.samples import SamplesError
from weirlab.report.model import Block, Bullets, Paragraph, Prose
from weirlab.run.series import words_of
from weirlab.scenario.model import Run
from weirlab.store import atomic, installation, provenance
from weirlab.store.documents import ResultsError, dumps, read_json
from weirlab.topologies.dumbbell.path_facts import path_facts

MADE = "made.json"  # version and commit with which the tables of a folder were measured, and the runs left out
LEFT_OUT = "left_out"
OVER_TIME = "table2"  # the group whose runs are shown over time, as the paper does


FOLDERS = {"matrix": "evaluation"}  # of suites that go by another name than their own


def docs(plan: Plan) -> Path:
    """Where the report of a whole suite goes."""
    return paths.clone() / "docs" / "results" / FOLDERS.get(plan.name, plan.name)


def partial(plan: Plan) -> Path:
    """Where any other report goes."""
    return paths.clone() / "results" / FOLDERS.get(plan.name, plan.name)


def of_runs(state: State, finished: Sequence[Done], missing: Sequence[Run], args: argparse.Namespace) -> bool:
    """Write the report over these runs, in the order of the suite; False if there are none to report.

    Runs that fail their checks are reported and left out: figures of a queue that was not measured compare nothing.
    """
    there = [done for done in finished if not done.failures]
    unsound = [done for done in finished if done.failures]
    if not there:
        print("no run has ended well; there is nothing to report", file=sys.stderr)
        return False
    plan = state.plan
    out = args.out or (docs(plan) if not missing and not unsound and is_whole(plan, args) else partial(plan))
    tables, rows = {}, []
    for group in plan.groups:
        of_group = [done.row for done in there if done.group == group.name]
        if of_group:
            tables[f"{group.name}.csv"] = csv_files.text_of(of_group, csv_files.head_of(plan))
            rows += csv_files.rows_of_text(tables[f"{group.name}.csv"], group.name, plan, f"{group.name}.csv")
    notes: list[Block] = []
    said = sys.stderr if args.json else sys.stdout
    if missing:
        told = f"{len(missing)} of {len(missing) + len(finished)} runs of the {plan.suite} are missing"
        told += f": {missing_words(plan, missing)}"
        notes.append(Paragraph(Prose(f"**Incomplete**: {told}.")))
        print(told, file=said)
    left_out = [f"{done.words}: {'; '.join(done.failures)}" for done in unsound]
    if left_out:
        told = left_out_words(left_out, len(missing) + len(finished))
        notes += left_out_notes(left_out, len(missing) + len(finished))
        print(told, file=said)
    if args.seeds_from:
        last = args.seeds_from + args.seeds - 1
        notes.append(Paragraph(f"Seeds {args.seeds_from} to {last}, not the {plan.suite}'s own."))
    ordered = csv_files.in_order(rows, plan)
    if args.parquet:
        parquet.write(args.parquet, ordered, plan)
    files: dict[str, str | bytes] = {**tables}
    if plan.suite in OTHERS:
        found = OTHERS[plan.suite](plan, ordered, notes)
        files |= digests_of(state, there) if plan.suite == CONTROLS else {}
    else:
        over_time = matrix_courses.pictures(courses(state, there))
        found = page.suite_report(matrix.analyse(ordered, about(plan)), list(over_time), notes)
        files |= {f"{name}-over-time.png": picture for name, picture in over_time.items()}
    write(out, files, found, said, dumps({"weir": provenance.weir()} | ({LEFT_OUT: left_out} if left_out else {})))
    if args.qlog:
        print(*copy_qlogs(state, there, out), sep="\n", file=said)
        for line in without_qlogs(state, there):
            print(line, file=sys.stderr)
    return True


def digests_of(state: State, there: Sequence[Done]) -> dict[str, str]:
    """The files of digests and of the installation; none for runs that are not in the cache."""
    found = [one for done in there if (one := made(state, done.run)) is not None]
    if not found:
        return {}
    facts = installation.facts()
    return {
        digests.FILE: digests.text_of(found),
        installation.FILE: dumps({"name": installation.name_of(facts), "facts": facts}),
    }


def copy_qlogs(state: State, there: Sequence[Done], out: Path) -> list[Path]:
    """Put the runs' qlogs into OUT/qlog/SCENARIO/VARIANT/seed-N/SENDER/; the folders of runs that have some. Raises
    OSError that names a file."""
    folders = []
    for done in there:
        entry = state.entry(done.run)
        found = sorted((entry.folder / "qlog").glob("*/*")) if entry is not None else []
        place = out / "qlog" / done.run.scenario / done.run.variant / f"seed-{done.run.seed}"
        for file in found:
            target = place / file.parent.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            atomic.copy(file, target, link=True)
        folders += [place] if found else []
    return folders


def without_qlogs(state: State, there: Sequence[Done]) -> list[str]:
    """A line on the controls of QUIC whose runs have no qlog; none if all have some."""
    ran: dict[str, bool] = {}
    for done in there:
        entry = state.entry(done.run)
        if entry is not None and any(flow["kind"].startswith("quic") for flow in done.run.spec["flows"]):
            ran[done.run.variant] = ran.get(done.run.variant, False) or any((entry.folder / "qlog").glob("*/*"))
    names = ", ".join(variant for variant, has_some in ran.items() if not has_some)
    why = "their servers wrote none, or have no `qlog` in mininet/peers/servers.toml or {qlog} in --stack-argv"
    return [f"no qlog of {names}: {why}"] if names else []


def of_tables(
    plan: Plan, folder: Path, out: Path | None, table: Path | None = None, wanted: Plan | None = None
) -> None:
    """Write text, page and picture again from the small tables in a folder, with pictures over time where it has them,
    and all runs as one Parquet file `table`. Runs of `wanted` (default: of the plan) that are missing are noted.

    Raises ResultsError.
    """
    batches = csv_files.batches_in(folder, plan)
    rows = [row for batch in batches for row in batch.rows]
    left_out = left_out_of(folder)
    notes = missing_notes(wanted or plan, rows, left_out)
    if table:
        parquet.write(table, rows, plan)
    out = out or partial(plan)
    if plan.suite in OTHERS:
        write(out, {}, OTHERS[plan.suite](plan, rows, notes), sys.stdout, made_of(folder))
        return
    found = matrix.analyse(rows, about(plan))
    of_group = [s.name for group in plan.groups if group.name == OVER_TIME for s in group.scenarios]
    pictures = [name for name in of_group if (folder / f"{name}-over-time.png").is_file()]
    copied = {f"{name}-over-time.png": (folder / f"{name}-over-time.png").read_bytes() for name in pictures}
    later = [batch.name for batch in batches[1:]]
    write(out, copied, page.suite_report(found, pictures, notes, later), sys.stdout, made_of(folder))


def left_out_of(folder: Path) -> list[str]:
    """Runs that failed their checks when the tables of a folder were measured, each with the reason. Raises
    ResultsError."""
    lines = read_json(folder / MADE).get(LEFT_OUT, []) if (folder / MADE).is_file() else []
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise ResultsError(f"{folder / MADE}: {LEFT_OUT} is not a list of texts, each of a run and a reason")
    return lines


def left_out_words(lines: Sequence[str], runs: int) -> str:
    return f"{len(lines)} of {runs} runs failed their checks and are left out of all that follows"


def left_out_notes(lines: Sequence[str], runs: int) -> list[Block]:
    return [Paragraph(Prose(f"**Left out**: {left_out_words(lines, runs)}:")), Bullets(lines)]


def missing_notes(plan: Plan, rows: Iterable[RunRow], left_out: Sequence[str] = ()) -> list[Block]:
    """Notes on runs of the whole suite that are missing, and on those that were left out, if there are any."""
    failed = {line.partition(": ")[0] for line in left_out}
    there = {(row.scenario, row.variant, row.seed, row.setting if plan.points else None) for row in rows}
    missing = [
        run
        for run in plan.runs()
        if (run.scenario, plan.variant(run.variant), run.seed, plan.setting(run) if plan.points else None) not in there
        and words_of(run) not in failed
    ]
    told = f"{len(missing)} of {len(plan.runs())} runs of the {plan.suite} are missing: {missing_words(plan, missing)}"
    notes: list[Block] = [Paragraph(Prose(f"**Incomplete**: {told}."))] if missing else []
    return notes + (left_out_notes(left_out, len(plan.runs())) if left_out else [])


def envelope_report(plan: Plan, rows: Sequence[RunRow], notes: Sequence[Block]) -> SuiteReport:
    return envelope_page.suite_report(envelope.analyse(rows, plan.kinds, about(plan)), notes)


def controls_report(plan: Plan, rows: Sequence[RunRow], notes: Sequence[Block]) -> SuiteReport:
    assert plan.controls is not None
    titles = {group.name: group.title for group in plan.groups}
    return controls_page.suite_report(controls.analyse(rows, plan.controls, titles, about(plan)), notes)


OTHERS = {ENVELOPE: envelope_report, CONTROLS: controls_report}  # suites that are no matrix


def made_of(folder: Path) -> str:
    """Version and commit of the measurements in a folder; empty if it has no record. Raises ResultsError."""
    return dumps(read_json(folder / MADE)) if (folder / MADE).is_file() else ""


def footer(made: str) -> str:
    """The last line of text and page: versions and commits of the measurements."""
    return f"Measured with Weir {json.loads(made)['weir']}." if made else ""


def write(out: Path, files: Mapping[str, str | bytes], found: SuiteReport, said: TextIO, made: str) -> None:
    """Write a report and other files, or none, and print the paths of its text and page. `made` is the content of MADE.
    Raises OSError."""
    rendered = found.files(footer(made))
    content = {**files, **rendered} | ({MADE: made} if made else {})
    for folder in {(out / name).parent for name in content}:
        folder.mkdir(parents=True, exist_ok=True)
    atomic.write_all({out / name: text for name, text in content.items()})
    print(*(out / name for name in rendered if name == TEXT or name.endswith(".html")), sep="\n", file=said)


def about(plan: Plan) -> dict[str, dict[str, Any]]:
    """Title, description, source and paper of each scenario, from its file, with facts of its path (`path_facts`)."""
    return {
        scenario.name: {
            "title": scenario.title,
            "description": scenario.description,
            "source": scenario.source,
            "paper": scenario.paper,
            **path_facts(next(iter(scenario.cases.values()))),
        }
        for group in plan.groups
        for scenario in group.scenarios
    }


def courses(state: State, there: Sequence[Done]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The runs of the group OVER_TIME by the second, by scenario and variant; each is computed once."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for done in (done for done in there if done.group == OVER_TIME):
        entry, key = state.entry(done.run), state.keys.further(done.run.spec, matrix_courses.__name__)
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


def is_whole(plan: Plan, args: argparse.Namespace) -> bool:
    """Whether the options leave the suite whole: one of ours on the lab's own kernel, no fewer seeds than its scenarios
    ask for."""
    most = max(max(scenario.seeds) for group in plan.groups for scenario in group.scenarios)
    ours = plan.path.parent == paths.evaluation() and LAB_KERNEL not in os.environ
    ours = ours and not args.variants and not args.stack and not args.quick
    ours = ours and not args.qlog
    return ours and args.seeds_from in (None, 1) and (args.seeds is None or args.seeds >= most)


def missing_words(plan: Plan, missing: Sequence[Run]) -> str:
    """Missing runs by variant, in a line."""
    by_variant: dict[str, int] = {}
    for run in missing:
        variant = plan.variant(run.variant)
        by_variant[variant] = by_variant.get(variant, 0) + 1
    return ", ".join(f"{count} of {variant}" for variant, count in by_variant.items())
