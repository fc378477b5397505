# SPDX-License-Identifier: Apache-2.0
"""Weir's controller: the law's golden model, its gains, and what drives data planes with them."""
