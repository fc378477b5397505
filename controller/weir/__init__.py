# SPDX-License-Identifier: Apache-2.0
"""Weir's controller: the law's golden model, its gains, and the drivers of data planes."""

__version__ = "0.12.0"  # the newest of CHANGELOG.md; tests/structure/test_versions.py holds it
