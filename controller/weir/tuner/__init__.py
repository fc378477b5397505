# SPDX-License-Identifier: Apache-2.0
"""Gains that fit the link a port finds itself on (docs/use/tuning.md).

`design` says which gains an operating point wants, `window` what the samples say, `core` what to do about it and when,
all pure; `cli` is `weir tune`. Standard library, and numpy for the model's margins.
"""
