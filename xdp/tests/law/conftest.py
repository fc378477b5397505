# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the law's tests."""

from pathlib import Path

import pytest
from law_build import STRICT, compile_law, llvm


@pytest.fixture(scope="session")
def law_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The header as a shared library, undefined behaviour turned into a trap."""
    clang = llvm("clang")
    trap = ["-fsanitize=undefined", "-fsanitize-trap=undefined"]
    target = tmp_path_factory.mktemp("law") / "law.so"
    return compile_law([clang, *STRICT, *trap, "-shared", "-fPIC"], "law_shared.c", target)
