# SPDX-License-Identifier: Apache-2.0
"""The readers of profiles of weir-xdp and of the controller: both accept a text, with equal integers, or neither."""

import ctypes
import re
import subprocess
from dataclasses import asdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from law_build import INCLUDE, STRICT, llvm
from params_strategy import ordered_params
from test_law_properties import CParams

from weir.gains import GainError, Gains
from weir.params import REMOVED, ROWS
from weir.resources import PROFILES
from weir.settings import dumps, load
from weir.settings import loads as loads_python

TUNED = dumps(load(PROFILES / "tuned.toml"))
SOURCES = ("gains/gains.c", "gains/profile.c", "gains/toml.c", "gains/units.c", "error.c", "printable.c")
LIB = INCLUDE.parent / "lib"
GAINS_MAX = 40
NUMBERS = """
0 1 2 17 -1 +1 -0 +0 00 01 1_0 15_000 1__0 _1 1_ 0_0 12a 1,5 true false 1979-05-27 07:32:00
0x10 0X10 0xf_f 0x_f 0x 0o17 0o8 0b101 0b2 -0x1 +0x1 0xffffffff 0x1_0000_0000
0.0 -0.0 1.0 15000.0 1.5 .5 1. 1_0.2_5 1._5 1.5_ 1e3 1E3 1e+3 1e-3 1e 1e_3 1e1_0 1.5e0 15e3 1e999 -1e999 1e-999
inf +inf -inf nan 4294967295 4294967296 16777215 16777216 9007199254740993 99999999999999999999999999
0.99999 1.00001 3906.24 3906.25 3906.3 15.99999999 16 16.0 0.999999999999999999999
""".split()  # noqa: SIM905 - a column of words is easier to read
WORDS = """
keep drop linear squared Keep 15ms 15MS 250us 1s 1.5ms 1.0005ms 0.0001ms .5ms 5.ms 15000 15 ms 15m 0x10 1.5
15.0000000ms 1234567890123us 15.000000000000000000000000001ms
""".split()  # noqa: SIM905
WORDS += ["", "15ms ", "\uff11ms", "1m\u017f"]  # digits and letters that are not ASCII
STRINGS = [f"{quote}{word}{quote}" for word in WORDS for quote in ('"', "'", '"""')]
STRINGS += [r'"\u006beep"', r'"keep\u0000"', r'"keep\n"', r'"k\eep"', r'"\U0000006beep"', r'"\ud800"', r'"\U00110000"']
STRINGS += ["keep", '"kee', "'kee", "'''keep'''", "'''\nkeep'''", '"""\nkeep"""', '"""ke\\\n   \n  ep"""']
STRINGS += [
    '"""ke\\  \nep"""',
    '"""keep""""',
    '""""keep"""',
    '"""ke\\ ep"""',
    "'''keep''''",
    '"keep" "drop"',
    '"ke\nep"',
]
STRINGS += ['"ke"ep', '"keep" # "', "'keep'#", '"keep"x', "[1]", "[]", "{}", "{ a = 1 }", "[ 1 ] # x", ""]
DOCUMENTS = {
    "empty": "",
    "comments": "# a\n\n  \t# b\n" + TUNED + "#end",
    "CRLF": TUNED.replace("\n", "\r\n"),
    "CR alone": TUNED.replace("\n", "\r", 1),
    "CR in a comment": TUNED + "# a\rb\n",
    "no newline at the end": TUNED.rstrip("\n"),
    "a byte order mark": "\ufeff" + TUNED,
    "letters of other languages in a comment": TUNED + "# \u00e9\u4e2d\U0001f600\n",
    "a control character in a comment": TUNED + "# \x01\n",
    "DEL in a comment": TUNED + "# \x7f\n",
    "NUL": TUNED + "\0",
    "quoted keys": re.sub(r"(?m)^(\w+) =", r'"\1" =', TUNED),
    "keys in single quotes": re.sub(r"(?m)^(\w+) =", r"'\1'=", TUNED),
    "an escape in a key": TUNED.replace("kp =", r'"\u006bp" ='),
    "a key of three quotes": TUNED.replace("kp =", "'''kp''' ="),
    "a dotted key": TUNED + "a.b = 1\n",
    "a key that is dotted in quotes": TUNED + '"a.b" = 1\n',
    "a known key that is dotted": TUNED.replace("kp =", "kp.x ="),
    "a table": TUNED + "[law]\n",
    "a table first": "[law]\n" + TUNED,
    "tables": TUNED + "[[law]]\n",
    "a key twice": TUNED + "kp = 2\n",
    "a key twice, once quoted": TUNED + '"kp" = 2\n',
    "a key twice, once without its unit": TUNED + 'target = "5ms"\n',
    "no unit": TUNED.replace("target_us = 15000", "target = 15000"),
    "a unit": TUNED.replace("target_us = 15000", "target = '15ms'"),
    "a unit and _us": TUNED.replace("target_us = 15000", "target_us = '15ms'"),
    "an unknown key": TUNED + "kq = 1\n",
    "an empty key": TUNED + '"" = 1\n',
    "no key": TUNED + "= 1\n",
    "two pairs on a line": TUNED + "z1 = 1.5 z2 = 1.2\n",
    "a missing key": TUNED.replace("kp =", "# kp ="),
    "spaces": TUNED.replace(" = ", "\t =  "),
    "other space": TUNED.replace(" = ", "\u00a0= ", 1),
    "form feed": TUNED.replace(" = ", "\f= ", 1),
    "a line that goes on": TUNED.replace("kp = ", "kp =\n", 1),
    "m2 above m1": TUNED.replace("m2_us = 10000", "m2_us = 20000"),
    "z out of order": TUNED.replace("z3 = 0.999", "z3 = 1.2"),
    "limit below bound": TUNED.replace("delay_limit_share = 1.75", "delay_limit_share = 1.2"),
    "space_least above space_most": TUNED.replace("space_least = 1.0", "space_least = 3"),
    "a share beyond the longest delay": TUNED.replace("ecn_drop_share = 6.0", "ecn_drop_share = 1118.5"),
    "linear": TUNED.replace('"squared"', "'linear'"),
    "long": TUNED + "#" + "x" * 2**20,
    "a long line": TUNED + "# " + "x" * 5000 + "\n",
    "a long number": TUNED.replace("kp = 20.0", "kp = 20." + "0" * 5000),
    "digits by the thousand": TUNED.replace("kp = 20.0", "kp = " + "9" * 5000),
    **{f"{k} at {v}": f"{TUNED}{k} = {v}\n" for k in REMOVED for v in ("0", "0.0", "-0", "1", "'0'", "false")},
    **{f"{key} twice": f"{TUNED}{key} = 0\n{key} = 0\n" for key in REMOVED},
}


class CGains(ctypes.Structure):
    _fields_ = (("value", ctypes.c_double * GAINS_MAX), ("given", ctypes.c_bool * GAINS_MAX))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("gains")
    (folder / "profiles.inc").write_text('{"none", ""},\n')
    flags = [
        *STRICT,
        "-Wno-sign-conversion",
        "-D_GNU_SOURCE",
        f"-I{LIB}",
        f"-I{folder}",
        "-shared",
        "-fPIC",
        "-Wl,-z,defs",
    ]
    trap = ["-fsanitize=undefined", "-fsanitize-trap=undefined"]
    target = folder / "gains.so"
    sources = [str(LIB / source) for source in SOURCES]
    command = [llvm("clang"), *flags, *trap, *sources, "-lm", "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(target))


def in_c(library: ctypes.CDLL, text: bytes) -> dict[str, int] | None:
    gains, params, why = CGains(), CParams(), ctypes.create_string_buffer(1024)
    # exactly as large as promised, so that a byte more is found
    room = ctypes.create_string_buffer(text, len(text) + 1)
    if len(text) > 2**20:  # as read_file has it
        return None
    library.weir_error_into(why, len(why))
    try:
        if library.weir_gains_parse(ctypes.byref(gains), b"test", room, ctypes.c_size_t(len(text))):
            return None
        if library.weir_gains_check(ctypes.byref(gains)):
            return None
    finally:
        library.weir_error_into(None, 0)
    library.weir_gains_to_params(ctypes.byref(gains), ctypes.byref(params))
    return {row.param: getattr(params, row.param) for row in ROWS.values()}


def explained_in_c(library: ctypes.CDLL, text: str) -> str:
    gains, why, line = CGains(), ctypes.create_string_buffer(1024), text.encode()
    library.weir_error_into(why, len(why))
    library.weir_gains_parse(
        ctypes.byref(gains), b"test", ctypes.create_string_buffer(line, len(line) + 1), ctypes.c_size_t(len(line))
    )
    library.weir_error_into(None, 0)
    return why.value.decode()


def in_python(text: bytes) -> dict[str, int] | None:
    try:
        return asdict(loads_python(text.decode("utf-8")).to_params())
    except (UnicodeDecodeError, GainError):
        return None


def with_value(key: str, literal: str) -> str:
    return re.sub(rf"(?m)^{key} = .*$", lambda _: f"{key} = {literal}", TUNED)


@given(ordered_params())
@settings(deadline=None)
def test_what_the_controller_writes_is_read(library: ctypes.CDLL, params) -> None:
    assert in_c(library, dumps(Gains.from_params(params)).encode()) == asdict(params)


@pytest.mark.parametrize("key", ROWS)
def test_every_form_of_a_value(library: ctypes.CDLL, key: str) -> None:
    """Numbers and strings as TOML has them, and what is none."""
    differ = {
        literal: (found, wanted)
        for literal in [*NUMBERS, *STRINGS]
        if (found := in_c(library, with_value(key, literal).encode()))
        != (wanted := in_python(with_value(key, literal).encode()))
    }
    assert differ == {}


def test_forms_that_toml_has_are_read(library: ctypes.CDLL) -> None:
    for key, literals in {
        "target_us": ("15_000", "0x3a98", "+15000", "'15ms'", '"0.015s"'),
        "integral": ("'keep'", '"keep"', '"""keep"""', r'"\u006beep"'),
        "kp": ("20", "2e1", "2_0.0"),
    }.items():
        for literal in literals:
            assert in_c(library, with_value(key, literal).encode()) == in_python(TUNED.encode()), (key, literal)


@pytest.mark.parametrize("value", ['"5 ms"', '"5"', "5", '""', '"-5ms"', '"5min"', "5.5"])
def test_a_time_without_its_unit_is_explained_alike(library: ctypes.CDLL, value: str) -> None:
    text = TUNED.replace("target_us = 15000", f"target = {value}")
    with pytest.raises(GainError) as error:
        loads_python(text)
    assert explained_in_c(library, text).partition(": ")[2] == str(error.value).partition(": ")[2]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(library: ctypes.CDLL, name: str) -> None:
    text = DOCUMENTS[name].encode()
    assert in_c(library, text) == in_python(text)


NOT_UTF_8 = (
    b"\xff", b"\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xc3", b"\xf0\x9f\x98",
)  # fmt: skip


@pytest.mark.parametrize("bad", NOT_UTF_8)
def test_bytes_that_are_not_utf_8(library: ctypes.CDLL, bad: bytes) -> None:
    for text in (TUNED.encode() + b"# " + bad + b"\n", TUNED.encode() + b"# " + bad):
        assert in_c(library, text) is None
        assert in_python(text) is None


edits = st.lists(
    st.tuples(
        st.integers(0, len(TUNED) - 1),
        st.integers(0, 3),
        st.one_of(
            st.text(alphabet="\"'\\#=[]{}.,_-+ \t\n\r0123456789abefinoux\u00e9", max_size=4),
            st.sampled_from([*NUMBERS, *STRINGS, "target", "kp", "burst_us = 0\n", '"""', "'''"]),
        ),
    ),
    min_size=1,
    max_size=3,
)


@given(edits)
@example([(0, 0, "\r\n")])
@settings(deadline=None, max_examples=1500)
def test_texts_with_small_changes(library: ctypes.CDLL, changes: list[tuple[int, int, str]]) -> None:
    text = TUNED
    for at, without, more in changes:
        text = text[:at] + more + text[at + without :]
    assert in_c(library, text.encode()) == in_python(text.encode())
