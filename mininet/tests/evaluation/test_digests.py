# SPDX-License-Identifier: Apache-2.0
"""Digests of runs: the published file, the sample that is repeated, and what a repeated run is compared by."""

import contextlib
import gzip
import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.evaluation.digests import Digest, digest_of, is_within, misses_allowed, parsed, text_of
from weirlab.evaluation.verify import Verdict, chosen, compared, told
from weirlab.store import installation
from weirlab.store.documents import ResultsError

names = st.from_regex(r"[a-z0-9_-]{1,20}", fullmatch=True)
digits = st.text("0123456789abcdef", min_size=64, max_size=64)
digests = st.builds(Digest, names, names, st.integers(0, 10**9), digits, names, names)
some = st.lists(digests, max_size=8, unique_by=lambda one: one.name)
ONE = Digest("leaving", "pbq", 1, "a" * 64, "key", "here")


@given(some)
def test_the_file_has_what_was_written(found):
    assert sorted(parsed(text_of(found), "digests.csv")) == sorted(found)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    head = text_of([])
    for given_text in (text, head + text):
        with contextlib.suppress(ResultsError):
            assert all(len(one.sha256) == 64 for one in parsed(given_text, "digests.csv"))


def test_a_run_that_is_there_twice_is_refused():
    line = text_of([ONE]).splitlines()[1]
    with pytest.raises(ResultsError, match=r"digests.csv:3: leaving/pbq/1 is there twice"):
        parsed(text_of([ONE]) + line + "\n", "digests.csv")


def test_the_digest_is_of_the_lines_and_not_of_their_packing(tmp_path):
    content = b'{"k":"start"}\n' * 1000
    for level in (1, 9):
        path = tmp_path / f"{level}.gz"
        path.write_bytes(gzip.compress(content, level))
        assert digest_of(path) == hashlib.sha256(content).hexdigest()


@given(some, st.integers(1, 10), st.integers(1, 5), st.randoms())
def test_a_sample_is_of_the_published_runs_and_repeats(found, count, seed, random_):
    sample = chosen(found, count, seed)
    assert len(sample) == len(set(sample)) == min(count, len(found))
    assert set(sample) <= set(found)
    shuffled = list(found)
    random_.shuffle(shuffled)
    assert chosen(shuffled, count, seed) == sample


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=10), st.floats(0.1, 10))
def test_the_mean_is_within_and_what_is_far_is_not(values, factor):
    mean, spread = sum(values) / len(values), max(values) - min(values)
    assert is_within(mean, values)
    assert is_within(mean + 100 * spread + factor * mean, values) is False
    assert is_within(mean, values[:1]) is None


def test_a_run_is_compared_by_digest_or_by_figures():
    """Same inputs and installation: by digest. Else by the interval of the published seeds."""
    published = {("leaving", "pbq", "throughput_mbit_s"): [9.0, 9.1, 9.2]}

    def verdict(now, throughput=9.1):
        return compared(ONE, now, SimpleNamespace(metrics={"throughput_mbit_s": throughput}), published)

    assert (verdict(ONE).failed, verdict(replace(ONE, key="x", installation="y")).failed) == (False, False)
    other = replace(ONE, sha256="b" * 64)
    assert verdict(other).failed is True
    for now in (replace(other, key="changed"), replace(other, installation="there")):
        assert (verdict(now).failed, verdict(now).missed) == (None, False)
        assert (verdict(now, 8.0).failed, verdict(now, 8.0).missed) == (None, True)
        assert verdict(now, 1.0).failed is verdict(now, 9100).failed is True
    alone = compared(ONE, replace(other, key="x"), SimpleNamespace(metrics={"throughput_mbit_s": 1.0}), {})
    assert (alone.failed, alone.missed) == (None, False)


def test_the_status_is_of_digests_and_of_more_misses_than_chance(capsys):
    same, differs = Verdict("a/b/1", False, False, "same"), Verdict("a/b/2", True, False, "DIFFERS")
    within, missed = Verdict("a/b/3", None, False, "within"), Verdict("a/b/4", None, True, "outside")
    assert told([same, within], []) == 0
    assert told([same, differs], []) == 1
    assert told([same], ["a/b/9: no lab"]) == 1
    allowed = misses_allowed(20)
    assert 0 < allowed < 20
    assert told([missed] * allowed + [within] * (20 - allowed), []) == 0
    assert told([missed] * (allowed + 1) + [within] * (19 - allowed), []) == 1
    assert "a/b/2: DIFFERS" in capsys.readouterr().out


def test_facts_of_an_installation_have_one_name():
    facts = {"python": "3.11", "libc6": "2.36"}
    assert installation.name_of(facts) == installation.name_of(dict(reversed(facts.items())))
    assert installation.name_of(facts) != installation.name_of({**facts, "libc6": "2.41"})
