# SPDX-License-Identifier: Apache-2.0
"""Trains the policies of PBQ in the lab. docs/design/pbq-weights-format.md is the contract with the sender."""
