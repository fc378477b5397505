# SPDX-License-Identifier: Apache-2.0
"""`./run bench hostile`: what is forwarded and served beside attacks."""
