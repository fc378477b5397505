# SPDX-License-Identifier: Apache-2.0
"""Gains: units, checks, files."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from params_strategy import ordered_params

from weir.gains import KEYS, REQUIRED, SHARES, GainError, Gains, differences
from weir.law import ALWAYS, Params
from weir.resources import PROFILES
from weir.settings import dumps, load, loads, save

PAPER = load(PROFILES / "paper.toml")
TUNED = load(PROFILES / "tuned.toml")


def test_paper_is_table_ii() -> None:
    assert (PAPER.kp, PAPER.ki, PAPER.kd) == (1.3125, 1.25, 0.125)
    assert (PAPER.z1, PAPER.z2, PAPER.z3, PAPER.m1_us, PAPER.m2_us) == (1.5, 1.2, 0.8, 20000, 10000)
    params = PAPER.to_params()
    assert params.integral_drop_max == ALWAYS
    assert (params.kp_q40_per_us, params.z2_q16, params.squared) == (1443109, 78643, 0)


def test_squared_profiles_bound_u_by_the_root() -> None:
    assert TUNED.probability == "squared"
    assert (TUNED.to_params().ecn_bound_q32 / 2**32) ** 2 == pytest.approx(TUNED.ecn_bound, rel=1e-9)
    assert replace(TUNED, probability="linear").to_params().ecn_bound_q32 == round(TUNED.ecn_bound * 2**32)


@given(ordered_params())
def test_integers_survive_the_way_through_users_units_and_a_file(params: Params) -> None:
    gains = Gains.from_params(params)
    assert gains.to_params() == params
    assert loads(dumps(gains)) == gains


def test_a_limit_in_time_is_at_least_the_bound() -> None:
    bound = replace(PAPER, delay_bound_us=20000)
    assert replace(bound, delay_limit_us=20000).to_params().delay_limit_us == 20000
    with pytest.raises(GainError, match="delay_limit_us = 19999: must be 0, or at least the bound in time, 20000 us"):
        replace(bound, delay_limit_us=19999)
    with pytest.raises(GainError, match=r"delay_limit_share = 1.3: must be 0, or at least the bound in time, 20000 us"):
        replace(bound, delay_limit_share=1.3)
    assert replace(bound, delay_limit_share=1.5).to_params().delay_limit_us == 22500


@pytest.mark.parametrize(("share", "time"), SHARES.items())
def test_a_share_of_the_target_moves_with_it_and_a_time_does_not(share: str, time: str) -> None:
    by_share, by_time = replace(PAPER, **{share: 1.25}), replace(PAPER, **{time: 18750})
    assert by_share.to_params() == by_time.to_params()
    assert getattr(by_share.with_changes({"target_us": 4000}).to_params(), time) == 5000
    assert getattr(by_time.with_changes({"target_us": 4000}).to_params(), time) == 18750
    assert loads(dumps(by_share)) == by_share


@pytest.mark.parametrize(("share", "time"), SHARES.items())
def test_what_a_data_plane_gives_back_is_a_share(share: str, time: str) -> None:
    """The same value in another form is no difference."""
    given = replace(PAPER, **{time: 18750})
    back = Gains.from_params(given.to_params())
    assert (getattr(back, time), getattr(back, share)) == (0, 1.25)
    assert differences(given, back) == {}
    assert differences(given, replace(back, **{share: 1.5})) == {time: (18750, 0), share: (0.0, 1.5)}


@pytest.mark.parametrize(("share", "time"), SHARES.items())
def test_a_time_is_given_once(share: str, time: str) -> None:
    both = f"{time} = 18750, {share} = 1.25: both say the same; give only one of them"
    with pytest.raises(GainError, match=re.escape(both)):
        replace(PAPER, **{time: 18750, share: 1.25})
    with pytest.raises(GainError, match=re.escape(both)):
        loads(dumps(replace(PAPER, **{time: 18750})).replace(f"{share} = 0.0", f"{share} = 1.25"), "mine.toml")
    by_share = replace(PAPER, **{share: 1.25})
    assert by_share.with_changes({time: 30000}) == replace(PAPER, **{time: 30000})
    assert by_share.with_changes({time: 0}) == PAPER
    assert by_share.with_changes({time: 0, share: 1.5}) == replace(PAPER, **{share: 1.5})
    assert replace(PAPER, **{time: 30000}).with_changes({share: 1.25}) == by_share
    with pytest.raises(GainError, match=f"{share} = 1118.5: must be at most 1118.48, which is 16777215 us"):
        replace(PAPER, **{share: 1118.5})


def test_keys_that_came_later_may_be_left_out_of_a_profile() -> None:
    """They are off then; the others, and keys that nobody knows, are asked for as ever."""
    later = [key for key in KEYS if key not in REQUIRED]
    off = replace(PAPER, min_delay_share=0.0)
    lines = dumps(off).splitlines()
    assert loads("\n".join(line for line in lines if line.split(" = ")[0] in REQUIRED)) == off
    for key in later:
        assert loads("\n".join(line for line in lines if not line.startswith(f"{key} = "))) == off
    for key in REQUIRED:
        with pytest.raises(GainError, match=f"{key} is missing; a profile must have {key}$"):
            loads("\n".join(line for line in lines if not line.startswith(f"{key} = ")))
    with pytest.raises(GainError, match="share_most = 1: no such key"):
        loads("\n".join([*lines, "share_most = 1"]))


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("target_us", 0, "a whole number, 1 .. 16777215"),
        ("target_us", 15.5, "a whole number"),
        ("target_us", True, "a whole number"),
        ("interval_us", 2**24, "a whole number, 1 .. 16777215"),
        ("min_delay_share", 1.001, "a share of target_us, 0 .. 1"),
        ("min_delay_share", "0.7", "a share of target_us"),
        ("kp", -0.1, "a number per second, 0 .. 3906"),
        ("ki", float("nan"), "a number per second"),
        ("kd", 3907, "a number per second"),
        ("kd", "8", "a number per second"),
        ("z1", 16, "above 0 and below 16"),
        ("z1", 15.999999, "above z2 = 1.2 and below 16"),
        ("z1", 1.2, "above z2 = 1.2"),
        ("z2", 1.0, "above 1"),
        ("z2", 1.6, "above z2 = 1.6"),
        ("z3", 1.0, "above 0 and below 1"),
        ("z3", 1e-9, "above 0 and below 1"),
        ("z3", 0, "above 0"),
        ("m2_us", 20000, "below m1_us = 20000"),
        ("space_most", 16, "0 or above and below 16"),
        ("space_least", 0.85, "at most space_most = 0.0"),
        ("delay_bound_slope", -1, "a number per second, 0 .. 3906"),
        ("delay_limit_us", 2**24, "a whole number, 0 .. 16777215"),
        ("delay_bound_share", -0.1, "a share of target_us, 0 .. 16777215"),
        ("delay_guard_bytes", 1.5, "a whole number"),
        ("share_least", 16, "0 or above and below 16"),
        ("share_shift", 9, "a whole number, 10 .. 24"),
        ("ecn_weight_shift", 16, "a whole number, 0 .. 15"),
        ("ecn_drop_us", 0.5, "a whole number, 0 .. 16777215"),
        ("mark_gain", -0.5, "0 or above and below 16"),
        ("m1_us", -1, "a whole number"),
        ("integral", "sometimes", '"drop", "keep", or a number of intervals'),
        ("integral", 0, '"drop", "keep", or a number of intervals'),
        ("probability", "cubic", '"linear" or "squared"'),
        ("burst_us", 2**32, "a whole number, 0 .. 4294967295"),
        ("idle_halflife_us", -1, "a whole number"),
        ("min_backlog_bytes", "2 packets", "a whole number"),
        ("ecn_bound", 1.01, "a probability, 0 .. 1"),
        ("dq_shift", 9, "a whole number, 10 .. 24"),
        ("dq_weight_shift", 9, "a whole number, 0 .. 8"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(key: str, value: object, right: str) -> None:
    with pytest.raises(GainError, match=re.escape(right)) as caught:
        replace(PAPER, **{key: value})
    assert "\n" not in str(caught.value)
    if not (key == "z2" and value == 1.6):  # there z1 is the one reported
        assert str(caught.value).startswith(f"{key} = {value!r}: must be ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text + "nothing = 3\n", "nothing = 3: no such key; must be one of target_us"),
        (lambda text: text.replace("kp = ", "# kp = "), "kp is missing"),
        (lambda text: text + "[law]\nkp = 1\n", "[law]: a profile has no tables"),
        (lambda text: text + "kp = 2\n", "not a profile"),
        (lambda text: text.replace("z1 = 1.5", "z1 = 0.5"), "z1 = 0.5: must be above z2"),
        (lambda text: "kp 3", "not a profile"),
    ],
)
def test_a_wrong_profile_is_named(tmp_path: Path, change, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(change((PROFILES / "paper.toml").read_text()))
    with pytest.raises(GainError, match=re.escape(message)) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GainError, match="not UTF-8"):
        load(file)


def test_save_replaces_whole_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    save(PAPER, file)
    save(replace(TUNED, integral=4), file)
    assert load(file) == replace(TUNED, integral=4)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.toml"]


def test_every_profile_kept_here_has_every_key() -> None:
    files = sorted(PROFILES.glob("*.toml"))
    assert {"paper", "tuned"} <= {file.stem for file in files}
    for file in files:
        assert set(KEYS) == {line.split(" = ")[0] for line in dumps(load(file)).splitlines()[1:]}
