# SPDX-License-Identifier: Apache-2.0
"""`./run bench hostile`: throughput under attacks."""
