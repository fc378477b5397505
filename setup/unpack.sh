#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# unpack.sh FOLDER [--arch ARCH] PACKAGE ...: the files of Debian packages in FOLDER, without installing them: no rights are
# needed, no service of theirs is started, and what they depend on does not come along. ARCH: as Debian names it (arm64).
set -euo pipefail
folder=$1 arch=""
shift
if [ "$1" = --arch ]; then arch=$2; shift 2; fi
draft=$folder.part
rm -rf "$draft"
mkdir -p "$draft/apt/lists/partial" "$draft/apt/archives/partial"
cd "$draft/apt"
options=(-q -o APT::Sandbox::User=root)
# Lists of our own where those of this machine are missing, too old, or of another architecture.
if [ -n "$arch" ] || ! apt-get "${options[@]}" download "$@"; then
  options+=(-o "Dir::State::lists=$draft/apt/lists" -o "Dir::Cache=$draft/apt" -o Acquire::Languages=none)
  [ -z "$arch" ] || options+=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o Dir::State::status=/dev/null)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" download "$@"
fi
for file in *.deb; do
  dpkg-deb -x "$file" "$draft"
done
rm -rf "$draft/apt" "$folder"
mv "$draft" "$folder"
