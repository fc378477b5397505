# SPDX-License-Identifier: Apache-2.0
"""Weir's controller: the law's golden model, its gains, and what drives data planes with them."""

__version__ = "0.6.0"  # the newest of CHANGELOG.md; tests/structure/test_versions.py holds it
