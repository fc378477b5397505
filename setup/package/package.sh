#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./run package: Debian packages and wheels of what is built in this clone. `package.sh --needs WORDS` prints what the
# set-up must have ready for them; without --needs it makes them. debhelper does the work, by what is in debian/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
tree=$build/package/tree # what debhelper sees: debian/, and files laid out as debian/*.install want them
say() { printf 'weir: %s\n' "$*" >&2; }
die() { printf './run package: %s\n' "$*" >&2; exit "${status:-1}"; }

ALL="weir wheels"

usage() {
  cat <<'TEXT'
usage: ./run package [NAME ...] [--out FOLDER] [--version VERSION]

Make packages of this clone's programs, for Debian 12 on x86-64, and print their paths. The same commit gives the same
bytes. Without a NAME all are made:

  weir          weir-xdp, weir-sojourn, the controller `weir`, profiles, eBPF objects
  wheels        the controller and the lab, for pip

  --out FOLDER        where packages go [build/package]
  --version VERSION   their version, digits first [that of CHANGELOG.md, with date and commit if it is not that release]

To install one: apt install ./weir_*.deb (docs/use/install.md)
TEXT
}

# Sets names, out, version and needs_only.
read_words() {
  names="" out=$build/package version="" needs_only=""
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --needs) needs_only=1 ;;
      --out=* | --version=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
      --out | --version)
        [ -n "${2:-}" ] || status=2 die "$1 needs a value; --help shows all options"
        if [ "$1" = --out ]; then out=$2; else version=$2; fi
        shift ;;
      -*) status=2 die "unknown option '$1'; --help shows all" ;;
      *)
        case " $ALL " in *" $1 "*) names+=" $1" ;; *) status=2 die "no package '$1'; there are: $ALL" ;; esac ;;
    esac
    shift
  done
  names=${names:- $ALL}
  case $version in
    "" | [0-9]*) ;;
    *) status=2 die "--version $version: must begin with a digit, as Debian wants it" ;;
  esac
  case $version in *[!0-9A-Za-z.+~]*) status=2 die "--version $version: must be of letters, digits and . + ~" ;; esac
}

wanted() { case "$names " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

needs() {
  local words="python package"
  if wanted weir; then words+=" xdp"; fi
  echo "$words"
}

in_git() { git -c safe.directory="$root" -C "$root" "$@"; }

# Sets version and SOURCE_DATE_EPOCH: of the commit, else of the newest release in CHANGELOG.md.
find_version() {
  local line release date dirty=""
  line=$(grep -m 1 -E '^## [0-9]+\.[0-9]+\.[0-9]+ - [0-9-]+$' "$root/CHANGELOG.md") || die "CHANGELOG.md names no release"
  read -r _ release _ date <<<"$line"
  if [ "$(in_git rev-parse --show-toplevel 2>/dev/null)" != "$root" ]; then
    : "${SOURCE_DATE_EPOCH:=$(date -u -d "$date" +%s)}"
    version=${version:-$release}
  else
    : "${SOURCE_DATE_EPOCH:=$(in_git log -1 --format=%ct)}"
    [ -z "$(in_git status --porcelain)" ] || dirty=.changed
    if [ -z "$version" ] && [ "$(in_git tag --points-at HEAD "v$release")$dirty" = "v$release" ]; then
      version=$release
    elif [ -z "$version" ]; then
      version=$release+git$(date -u -d "@$(in_git log -1 --format=%ct)" +%Y%m%d%H%M%S).$(in_git rev-parse --short=8 HEAD)$dirty
    fi
  fi
  export SOURCE_DATE_EPOCH
}

# ---- what goes into the tree ----

put() { # put FOLDER FILE ...
  mkdir -p "$tree/$1" && cp -L --preserve=mode "${@:2}" "$tree/$1/"
}

# man SECTION NAME ABOUT COMMAND: a manual page from what COMMAND --help prints.
man() {
  mkdir -p "$tree/man"
  PATH="$tree/stubs:$build/bin:$PATH" help2man --no-info --section "$1" --version-string "$version" --name "$3" "$4" \
    | sed -e "s|^\\(\\.TH \\)\"\\?[^ \"]*\"\\?|\\1\"${2^^}\"|" -e "/^\\.SH NAME/{n;s|^.* \\\\- |${2//-/\\\\-} \\\\- |}" \
      >"$tree/man/$2.$1" || die "no manual page could be made of: $4 --help"
}

# wheel FOLDER: builds the wheel of a Python package into $build/package/wheels.
wheel() {
  local log=$build/package/wheel.log
  mkdir -p "$build/package/wheels"
  (cd "$root/$1" && "$build/venv/bin/python" -c \
    'from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])' "$build/package/wheels") \
    >"$log" 2>&1 || { cat "$log" >&2; die "the wheel of $1 could not be built"; }
}

# The controller as an installed package, with the Python packages that Debian lacks, or has too old, from our lock.
tree_weir() {
  local about name
  put bin "$build/bin/weir-xdp" "$build/bin/weir-sojourn"
  put bpf "$build"/xdp/weir_*.bpf.o
  put profiles "$root"/controller/profiles/*.toml
  put boards "$root"/controller/boards/*.json "$root"/controller/boards/*.yml
  put bin "$here/weir"
  wheel controller
  "$build/venv/bin/python" "$here/python_folder.py" "$tree/python" "$build"/package/wheels/weir-*.whl \
    pydantic pydantic-core annotated-types typing-extensions typing-inspection prometheus-client
  rm -r "$tree/python/weir/profiles" # debian/weir.links
  PYTHONPATH=$root/controller PYTHONDONTWRITEBYTECODE=1 "$build/venv/bin/python" -m weir.p4runtime.descriptors \
    "$tree/python/weir/p4runtime/p4runtime.fds"
  mkdir -p "$tree/stubs"
  printf '#!/bin/sh\nPYTHONPATH=%s PYTHONDONTWRITEBYTECODE=1 exec %s -m weir.cli "$@"\n' \
    "$root/controller" "$build/venv/bin/python" >"$tree/stubs/weir"
  chmod +x "$tree/stubs/weir"
  man 8 weir-xdp "puts the PID-Delay law on network interfaces, as eBPF" weir-xdp
  man 1 weir-sojourn "measures how long packets stay in a queue" weir-sojourn
  man 1 weir "shows what data planes do, sets them up, keeps their gains right" weir
  while read -r name about; do
    man 1 "weir-$name" "$about" "weir $name"
  done < <(PYTHONPATH=$root/controller "$build/venv/bin/python" -c \
    'from weir.cli import GROUPS
for group in GROUPS.values():
    for name, (_, about) in group.items():
        print(name, about)')
}

# Units and configuration that a part of Weir keeps in its own folder `systemd` go with its package.
units() {
  local folder=$root/$2/systemd
  [ -d "$folder" ] || return 0
  mkdir -p "$tree/units/$1" && cp -R "$folder"/. "$tree/units/$1/"
  find "$tree/units/$1" -name '*.md' -delete
}

debs() {
  local name file log=$build/package/debhelper.log
  rm -rf "$tree" "$build/package/wheels"
  mkdir -p "$tree"
  cp -R "$here/debian" "$here/etc" "$tree/"
  mkdir "$tree/completions"
  for name in weir weir-sojourn weir-xdp; do
    cp "$here/completion.bash" "$tree/completions/$name" # bash looks for one by the name of the program
  done
  cp "$root/CHANGELOG.md" "$tree/"
  cp -R "$root/docs/use" "$tree/guides"
  tree_weir
  units weir xdp
  printf 'weir (%s) stable; urgency=low\n\n  * The changes are in changelog.gz.\n\n -- The Weir project <weir@localhost>  %s\n' \
    "$version" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$tree/debian/changelog"
  say "package weir $version"
  (cd "$tree" && env -u MAKEFLAGS DEB_RULES_REQUIRES_ROOT=no LC_ALL=C.UTF-8 \
    dpkg-architecture -c debian/rules binary) \
    >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "debhelper failed; the whole of it: $log"; }
  no_trace_of_the_clone weir
  file=$(find "$build/package" -maxdepth 1 -name "weir_${version}_*.deb")
  mkdir -p "$out"
  if [ ! "$file" -ef "$out/${file##*/}" ]; then mv "$file" "$out/"; fi
  printf '%s\n' "$out/${file##*/}"
}

# An installed program must neither look into the clone that it was built in nor differ with the clone's place.
no_trace_of_the_clone() {
  local found
  found=$(grep -rlF -- "$root" "$tree/debian/$1" | sed "s|^$tree/debian/$1||") || return 0
  die "$1 has the path of this clone in: $(tr '\n' ' ' <<<"$found")"
}

read_words "$@"
if [ -n "$needs_only" ]; then needs; exit; fi
find_version
mkdir -p "$build/package"
if wanted weir; then debs; fi
if wanted wheels; then
  rm -rf "$build/package/wheels"
  wheel controller
  wheel mininet
  mkdir -p "$out"
  for file in "$build"/package/wheels/*.whl; do
    mv "$file" "$out/"
    printf '%s\n' "$out/${file##*/}"
  done
fi
