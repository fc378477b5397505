# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install.sh and test.sh, which set `root`.

# build_version FOLDER...: the release with the commit of the last change of sources in these folders, as
# "0.7.0 (0123456789ab)"; "+changes" follows a commit that the sources differ from. Without git the release alone. Texts
# and tests are left out: programs are built again when it changes.
build_version() {
  local release commit changes="" in_git=(git -c safe.directory="$root" -C "$root")
  local sources=("$@" ':(exclude,glob)**/*.md' ':(exclude,glob)**/tests/**')
  [ "$1" != quic-client ] || sources+=(icn) # a crate of that workspace
  release=$(sed -nE 's/^## ([0-9]+\.[0-9]+\.[0-9]+) - [0-9-]+$/\1/p' "$root/CHANGELOG.md" | head -n 1)
  if [ "$("${in_git[@]}" rev-parse --show-toplevel 2>/dev/null)" = "$root" ]; then
    commit=$("${in_git[@]}" log -1 --format=%h --abbrev=12 -- "${sources[@]}")
    [ -z "$("${in_git[@]}" status --porcelain -- "${sources[@]}")" ] || changes=+changes
    [ -z "$commit" ] || release+=" ($commit$changes)"
  fi
  printf '%s' "$release"
}
