# SPDX-License-Identifier: Apache-2.0
"""Forwarding by name (docs/design/icn.md): what the bits of a name are, and a model of a switch's names. Pure."""
