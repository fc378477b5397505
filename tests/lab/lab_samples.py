# SPDX-License-Identifier: Apache-2.0
"""A run's samples as tests read them."""

import gzip
import json
from collections import defaultdict

import numpy as np


class Samples:
    """A run's samples by kind, and its packets by hop: exit, entry (in s of the run) and bytes."""

    def __init__(self, path):
        self.kinds = defaultdict(list)
        with gzip.open(path) as file:
            for line in file:
                record = json.loads(line)
                self.kinds[record["k"]].append(record)
        self.start_us = self.kinds["start"][0]["t_us"]
        exits = defaultdict(list)
        for record in self.kinds["pkt"]:
            exits[record["hop"]].append((record["t_us"] - self.start_us, record["sojourn_us"], record["bytes"]))
        self.packets = {hop: np.array(rows, dtype=float).T for hop, rows in exits.items()}

    def mbit_s(self, hop, from_s, to_s):
        t_us, _, size_bytes = self.packets[hop]
        within = (t_us >= from_s * 1e6) & (t_us < to_s * 1e6)
        return size_bytes[within].sum() * 8 / 1e6 / (to_s - from_s)

    def sojourn_us(self, hop, from_s, to_s):
        t_us, sojourn_us, _ = self.packets[hop]
        entry_us = t_us - sojourn_us
        return sojourn_us[(entry_us >= from_s * 1e6) & (entry_us < to_s * 1e6)]
