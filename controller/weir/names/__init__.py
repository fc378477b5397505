# SPDX-License-Identifier: Apache-2.0
"""Forwarding by name (docs/design/icn.md): the bits of a name, and a model of a switch's names. Pure."""
