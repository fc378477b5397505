# SPDX-License-Identifier: Apache-2.0
"""A folder of Python packages for Debian's package of Weir: `python_folder.py FOLDER WHEEL NAME ...`
unpacks a wheel, and beside it copies the named packages from the environment that runs this, which has them from
setup/requirements.txt."""

import shutil
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

LEFT_OUT = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Files that an installer writes beside a package; they name places of this machine."""

OLD_INTERFACES = ("pydantic/v1/",)
"""Left out too, for their size: nothing of ours is written for pydantic's first version."""


def copy(name: str, folder: Path) -> None:
    """All files of an installed package but bytecode and commands. PackageNotFoundError when it is not installed."""
    for file in distribution(name).files or []:
        if str(file).startswith(OLD_INTERFACES):
            continue
        if ".." in file.parts or "__pycache__" in file.parts or file.name in LEFT_OUT:
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.locate(), target)


def main(folder: Path, wheel: Path, names: list[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for name in names:
        copy(name, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
