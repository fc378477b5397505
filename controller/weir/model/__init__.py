# SPDX-License-Identifier: Apache-2.0
"""The fluid model of TCP under the law, its loop and its margins (docs/design/model.md).

`fluid`, `loop`, `margins` and `simulate` need numpy alone, for the tuner starts with them; drawing is in `plots`.
"""
