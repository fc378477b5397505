# SPDX-License-Identifier: Apache-2.0
"""The trainer's tests run where PyTorch is: build/venv-train/bin/python -m pytest train"""

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_torch_*.py"]
