# SPDX-License-Identifier: Apache-2.0
"""Digests of runs, published beside their figures, and the comparison of a repeated run with what is published.

`digests.csv` has a line a run: SHA-256 of its samples as JSON lines (before they are packed), the first digits of the
run's key in the cache (spec, sources, lab kernel), and the installation that it was made with, whose facts are in
`installation.json`. Equal keys and installations mean equal digests. Any other pair of runs is compared by its figures:
a repeated run shall be within the 95 % prediction interval of the published seeds, and as many of the sample may miss
it as chance allows in 99 of 100 samples.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binom

from weirlab.metrics.estimate import student_t95
from weirlab.store.documents import ResultsError

FILE = "digests.csv"
HEAD = ("scenario", "variant", "seed", "sha256", "key", "installation")
KEY_DIGITS = 16
SCHEME = hashlib.sha256(b"SHA-256 of a run's samples, unpacked; 1").hexdigest()  # key of a digest in the cache
MISSES, BEYOND = 0.05, 0.99  # share of runs outside of their intervals by chance; how sure a failure is to be none
Name = tuple[str, str, int]


@dataclass(frozen=True, order=True)
class Digest:
    """The digest of one run, with the circumstances that it holds in."""

    scenario: str
    variant: str
    seed: int
    sha256: str
    key: str
    installation: str

    @property
    def name(self) -> Name:
        return self.scenario, self.variant, self.seed

    @property
    def words(self) -> str:
        return f"{self.scenario}/{self.variant}/{self.seed}"

    def must_equal(self, other: Digest) -> bool:
        """Whether the two runs have the same inputs, programs and installation."""
        return (self.key, self.installation) == (other.key, other.installation)


def digest_of(samples: Path) -> str:
    """Raises OSError."""
    found = hashlib.sha256()
    with gzip.open(samples, "rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def text_of(digests: Iterable[Digest]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for one in sorted(digests):
        writer.writerow([getattr(one, name) for name in HEAD])
    return out.getvalue()


def parsed(text: str, where: str) -> list[Digest]:
    """Raises ResultsError naming the line."""
    reader = csv.reader(io.StringIO(text))
    found: dict[Name, Digest] = {}
    try:
        if tuple(next(reader, ())) != HEAD:
            raise ResultsError(
                f"{where}:1: the columns are not {', '.join(HEAD)}; give a file that ./run evaluate wrote"
            )
        for cells in reader:
            line = f"{where}:{reader.line_num}"
            if len(cells) != len(HEAD) or not re.fullmatch(r"[0-9]{1,18}", cells[2]):
                raise ResultsError(f"{line}: not the {len(HEAD)} cells of a run; restore the file")
            if not re.fullmatch(r"[0-9a-f]{64}", cells[3]):
                raise ResultsError(f"{line}: sha256 is {cells[3]!r}, not 64 digits; restore the file")
            one = Digest(cells[0], cells[1], int(cells[2]), *cells[3:])
            if one.name in found:
                raise ResultsError(f"{line}: {one.words} is there twice; restore the file")
            found[one.name] = one
    except csv.Error as error:
        raise ResultsError(f"{where}:{reader.line_num}: not CSV: {error}") from None
    return list(found.values())


def read(folder: Path) -> list[Digest]:
    """Raises ResultsError."""
    path = folder / FILE
    try:
        return parsed(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: can't be read ({error}); run the suite once, it writes the file") from None


def is_within(value: float, published: Sequence[float]) -> bool | None:
    """Whether a figure is in the 95 % prediction interval of published ones (Student's t); None for fewer than two.
    Figures agree to six digits, as CSV files have them."""
    n = len(published)
    if n < 2:
        return None
    mean = math.fsum(published) / n
    sd = math.sqrt(math.fsum((one - mean) ** 2 for one in published) / (n - 1))
    return abs(value - mean) <= student_t95(n - 1) * sd * math.sqrt(1 + 1 / n) + 1e-5 * abs(mean)


def misses_allowed(runs: int) -> int:
    """As many of these runs may be outside of their intervals."""
    return int(binom.ppf(BEYOND, runs, MISSES)) if runs else 0
