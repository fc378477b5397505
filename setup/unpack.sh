#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# unpack.sh FOLDER PACKAGE ...: the files of Debian packages in FOLDER, without installing them: no rights are needed, no
# service of theirs is started, and what they depend on does not come along.
set -euo pipefail
folder=$1
shift
draft=$folder.part
rm -rf "$draft"
mkdir -p "$draft/apt/lists/partial" "$draft/apt/archives/partial"
cd "$draft/apt"
options=(-q -o APT::Sandbox::User=root)
if ! apt-get "${options[@]}" download "$@"; then # this machine's lists are missing or too old: lists of our own
  options+=(-o "Dir::State::lists=$draft/apt/lists" -o "Dir::Cache=$draft/apt" -o Acquire::Languages=none)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" download "$@"
fi
for file in *.deb; do
  dpkg-deb -x "$file" "$draft"
done
rm -rf "$draft/apt" "$folder"
mv "$draft" "$folder"
