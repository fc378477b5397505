# SPDX-License-Identifier: Apache-2.0
"""The name of this topology in scenario files, specs and results: here alone."""

NAME = "campus"
