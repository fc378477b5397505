# SPDX-License-Identifier: Apache-2.0
"""distutils for Mininet 2.3.0, which imports one class of it. Python 3.12 and later have no distutils, and importing
the copy in setuptools takes the exact lab 2 s. On the lab's PYTHONPATH only where Python has none (`weirlab.paths`)."""
