# SPDX-License-Identifier: Apache-2.0
"""Gains that fit the link a port finds itself on (docs/use/tuning.md).

`design` says which gains an operating point wants, `window` summarises the samples, `core` decides, all pure; `cli` is
`weir tune`. Standard library, and numpy for the model's margins.
"""
