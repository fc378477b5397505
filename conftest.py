# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: no time limit on a single example, which only a busy machine would fail."""

from hypothesis import settings

settings.register_profile("weir", deadline=None)
settings.load_profile("weir")
