# SPDX-License-Identifier: Apache-2.0
"""The lab: kernels to run in, topologies, scenarios, the runner and the report."""
