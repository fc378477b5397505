#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./run package: Debian packages and more of what is built in this clone. `package.sh --needs WORDS` prints what the
# set-up must have ready for them; without --needs it makes them. debhelper does the work, by what is in debian/.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
tree=$build/package/tree # what debhelper sees: debian/, and files laid out as debian/*.install want them
# shellcheck source=setup/version.sh
. "$root/setup/version.sh"
say() { printf 'weir: %s\n' "$*" >&2; }
die() { printf './run package: %s\n' "$*" >&2; exit "${status:-1}"; }

DEBS="weir weir-switch weir-client weir-server"
ALL="$DEBS static crates wheels"

usage() {
  cat <<'TEXT'
usage: ./run package [NAME ... | static --arch ARCH | --oci] [--out FOLDER] [--version VERSION]

Make packages of this clone's programs, for Debian 12 on x86-64, and print their paths. The same commit gives the same
bytes. Without a NAME all are made:

  weir          weir-xdp, weir-sojourn, the controller `weir`, profiles, eBPF objects
  weir-switch   weir-switch, weir-p4c, and the P4 programs with what they include
  weir-client   weir-client, weir-icn
  weir-server   weir-server
  static        weir-xdp as one file that needs no library, for small systems
  crates        weir-p4, the P4 compiler and machine, for cargo
  wheels        the controller, the lab, weir-switch with weir-p4c, and the QUIC client's module weir_quic, for pip

  --arch ARCH         of static: x86_64 or aarch64 [x86_64]; downloads libraries of Debian for another processor
  --oci               only a container image, as an OCI archive that podman, docker and others load; needs root
  --out FOLDER        where packages go [build/package]
  --version VERSION   their version, digits first [that of CHANGELOG.md, with date and commit if it is not that release]

To install one: apt install ./weir_*.deb (docs/use/install.md)
TEXT
}

# Sets names, out, version, arch, oci and needs_only.
read_words() {
  names="" out=$build/package version="" arch="" needs_only="" oci=""
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage; exit 0 ;;
      --needs) needs_only=1 ;;
      --oci) oci=1 ;;
      --out=* | --version=* | --arch=*) set -- "${1%%=*}" "${1#*=}" "${@:2}"; continue ;;
      --out | --version | --arch)
        [ -n "${2:-}" ] || status=2 die "$1 needs a value; --help shows all options"
        case $1 in --out) out=$2 ;; --version) version=$2 ;; --arch) arch=$2 ;; esac
        shift ;;
      -*) status=2 die "unknown option '$1'; --help shows all" ;;
      *)
        case " $ALL " in *" $1 "*) names+=" $1" ;; *) status=2 die "no package '$1'; there are: $ALL" ;; esac ;;
    esac
    shift
  done
  [ -z "$oci" ] || [ -z "$names" ] || status=2 die "--oci makes an image of all programs; leave out:$names"
  [ -z "$arch" ] || [ "$names" = " static" ] || status=2 die "--arch goes with the name static alone"
  case ${arch:=x86_64} in x86_64 | aarch64) ;; *) status=2 die "--arch $arch: must be x86_64 or aarch64" ;; esac
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
  if [ -n "$oci" ]; then echo "python rust p4 xdp lab_tools kernel oci"; return; fi
  if wanted weir || wanted static; then words+=" xdp"; fi
  if wanted weir-switch || wanted wheels; then words+=" p4"; fi
  if wanted weir-client || wanted weir-server || wanted wheels; then words+=" rust"; fi
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

# rust_programs NAME ...: programs in Rust, without what only debuggers read and without the places they were built in.
rust_programs() {
  local name places
  mkdir -p "$tree/bin"
  for name in "$@"; do
    strip -o "$tree/bin/$name" "$build/bin/$name"
    places=(--place "${CARGO_HOME:-$HOME/.cargo}/registry/src/" crates/ --place "$build/" build/)
    # Its sources are outside its workspace, so the compiler gives them whole paths.
    if [ "$name" = weir-icn ]; then places+=(--place "$root/" ./); fi
    "$build/venv/bin/python" "$here/without_places.py" "$tree/bin/$name" "${places[@]}" \
      || die "a program would tell where it was built"
  done
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
  put sqm "$root"/xdp/openwrt/weir.qos "$root"/xdp/openwrt/weir.qos.help
  put bin "$here/weir"
  wheel controller
  "$build/venv/bin/python" "$here/python_folder.py" "$tree/python" "$build"/package/wheels/weir-*.whl \
    pydantic pydantic-core annotated-types typing-extensions typing-inspection prometheus-client
  rm -r "$tree/python/weir/profiles" # debian/weir.links
  build_version controller >"$tree/python/weir/build.txt"
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

tree_weir-switch() {
  rust_programs weir-switch weir-p4c
  put p4 "$root"/p4/*.p4
  put p4/include "$root"/p4/include/*.p4
  put p4/programs "$root"/p4/programs/*.p4
  rm "$tree/p4/programs/law_probe.p4" # for tests of the law alone
  man 8 weir-switch "runs a P4 program on network interfaces" weir-switch
  man 1 weir-p4c "compiles a P4 program for weir-switch" weir-p4c
}

tree_weir-client() {
  local name about
  rust_programs weir-client weir-icn
  man 1 weir-client "sends requests over QUIC, each on the best of several networks" weir-client
  man 1 weir-icn "QUIC programs and files over links that forward by name" weir-icn
  while read -r name about; do
    man 1 "weir-icn-$name" "$about" "weir-icn $name"
  done < <(weir_icn_commands)
}

# The commands of weir-icn as its help lists them: a name, and the first sentence about it, which may go on over lines.
weir_icn_commands() {
  "$build/bin/weir-icn" --help | awk '
    /^[A-Z]/ { listing = /^Commands:/ }
    listing && /^  [a-z]/ { names[++n] = $1; $1 = "" }
    listing { sub(/^ +/, ""); about[n] = about[n] " " $0 }
    END { for (i = 1; i <= n; i++) if (names[i] != "help") { sub(/[.]( .*)?$/, "", about[i]); print names[i] about[i] } }'
}

tree_weir-server() {
  rust_programs weir-server
  man 1 weir-server "serves bulk transfers over QUIC" weir-server
}

# Units and configuration that a part of Weir keeps in its own folder `systemd` go with its package.
units() {
  local folder=$root/$2/systemd
  [ -d "$folder" ] || return 0
  mkdir -p "$tree/units/$1" && cp -R "$folder"/. "$tree/units/$1/"
  find "$tree/units/$1" -name '*.md' -delete
}

debs() {
  local packages=() name file log=$build/package/debhelper.log
  for name in $DEBS; do
    if wanted "$name"; then packages+=("$name"); fi
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  rm -rf "$tree" "$build/package/wheels"
  mkdir -p "$tree"
  cp -R "$here/debian" "$here/etc" "$tree/"
  mkdir "$tree/completions"
  for name in weir weir-client weir-icn weir-p4c weir-server weir-sojourn weir-switch weir-xdp; do
    cp "$here/completion.bash" "$tree/completions/$name" # bash looks for one by the name of the program
  done
  cp "$root/CHANGELOG.md" "$tree/"
  cp -R "$root/docs/use" "$tree/guides"
  for name in "${packages[@]}"; do "tree_$name"; done
  if wanted weir; then units weir xdp; fi
  if wanted weir-switch; then units weir-switch p4/switch; fi
  printf 'weir (%s) stable; urgency=low\n\n  * The changes are in changelog.gz.\n\n -- The Weir project <weir@localhost>  %s\n' \
    "$version" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$tree/debian/changelog"
  say "packages $version: ${packages[*]}"
  (cd "$tree" && env -u MAKEFLAGS DH_OPTIONS="${packages[*]/#/-p}" DEB_RULES_REQUIRES_ROOT=no LC_ALL=C.UTF-8 \
    dpkg-architecture -c debian/rules binary) \
    >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "debhelper failed; the whole of it: $log"; }
  for name in "${packages[@]}"; do
    no_trace_of_the_clone "$tree/debian/$name"
    into_out "$build/package/${name}_${version}_"*.deb
  done
}

# An installed program must not look into the clone that it was built in, nor tell where that was.
no_trace_of_the_clone() {
  local found
  found=$(grep -rlF -- "$root" "$1") || return 0
  die "the path of this clone is in: $(tr '\n' ' ' <<<"$found")"
}

# into_out FILE ...: moves what is made to where it was asked for, and prints the paths.
into_out() {
  local file
  mkdir -p "$out"
  for file in "$@"; do
    if [ ! "$file" -ef "$out/${file##*/}" ]; then mv "$file" "$out/"; fi
    printf '%s\n' "$out/${file##*/}"
  done
}

# Sets other: words of make for weir-xdp of another processor. What it is compiled with stays in $build.
other_processor() {
  local gcc llvm log=$build/package/static.log sysroot=$build/sysroot-$arch
  gcc=$(gcc -dumpversion) llvm=$("$root/setup/llvm.sh" clang) || exit 1
  llvm=$("$llvm" --version | sed -nE 's/.*version ([0-9]+)\..*/\1/p' | head -n 1)
  say "libraries for $arch, lld-$llvm"
  [ -d "$sysroot" ] || "$root/setup/unpack.sh" "$sysroot" --arch arm64 \
    musl-dev libbpf-dev libelf-dev zlib1g-dev linux-libc-dev "libgcc-${gcc%%.*}-dev" >"$log" 2>&1 \
    || { tail -n 20 "$log" >&2; die "no libraries for $arch; the whole of it: $log"; }
  [ -d "$build/lld-$llvm" ] || "$root/setup/unpack.sh" "$build/lld-$llvm" "lld-$llvm" >"$log" 2>&1 \
    || { tail -n 20 "$log" >&2; die "no lld-$llvm; the whole of it: $log"; }
  other=(ARCH="$arch" SYSROOT="$sysroot" LLD="$build/lld-$llvm/usr/lib/llvm-$llvm/bin/ld.lld")
}

static() {
  local log=$build/package/static.log file=$build/package/weir-xdp-$version-$arch other=()
  [ "$arch" = x86_64 ] || other_processor
  say "weir-xdp $version, static, $arch"
  make --no-print-directory -C "$root/xdp" OUT="$build/xdp" WEIR_BUILD="$(build_version xdp controller/profiles)" "${other[@]}" \
    static >"$log" 2>&1 \
    || { tail -n 20 "$log" >&2; die "the static weir-xdp could not be built; the whole of it: $log"; }
  if [ "$arch" = x86_64 ]; then strip -o "$file" "$build/xdp/static/weir-xdp"; else cp "$build/xdp/static-$arch/weir-xdp" "$file"; fi
  no_trace_of_the_clone "$file"
  into_out "$file"
}

# Those that cargo takes: of the others docs/use/install.md says why not.
crates() {
  local log=$build/package/crates.log
  command -v cargo >/dev/null || die "crates need cargo; install Rust with rustup (https://rustup.rs)"
  say "crate weir-p4"
  rm -rf "$build/package/cargo"
  cargo package --locked --no-verify --allow-dirty -p weir-p4 --manifest-path "$root/p4/switch/Cargo.toml" \
    --target-dir "$build/package/cargo" >"$log" 2>&1 || { cat "$log" >&2; die "cargo could not package weir-p4"; }
  into_out "$build"/package/cargo/package/weir-p4-*.crate
}

# The wheel of the QUIC client's module, with the objects of the set-up and without the places they were built in.
wheel_of_client() {
  local log=$build/package/wheel.log python=$build/venv/bin/python made=$build/package/wheel-of-client
  rm -rf "$made"
  command -v cargo >/dev/null || die "wheels need cargo; install Rust with rustup (https://rustup.rs)"
  CARGO_TARGET_DIR=$build/cargo "$build/venv/bin/maturin" build --release --locked \
    --manifest-path "$root/quic-client/python/Cargo.toml" --out "$made" >"$log" 2>&1 \
    || { cat "$log" >&2; die "the wheel of quic-client/python could not be built"; }
  "$python" -m wheel unpack --dest "$made" "$made"/weir_quic-*.whl >"$log"
  "$python" "$here/without_places.py" "$made"/weir_quic-*/weir_quic/_native.abi3.so --place "$build/" build/ \
    --place "${CARGO_HOME:-$HOME/.cargo}/registry/src/" crates/ --place "$root/" ./ || die "the module would tell where it was built"
  "$python" -m wheel pack --dest-dir "$build/package/wheels" "$made"/weir_quic-*/ >"$log"
}

wheels() {
  rm -rf "$build/package/wheels"
  wheel controller
  wheel mininet
  rust_programs weir-switch weir-p4c
  WEIR_PROGRAMS=$tree/bin wheel p4/switch
  wheel_of_client
  into_out "$build"/package/wheels/*.whl
}

read_words "$@"
if [ -n "$needs_only" ]; then needs; exit; fi
find_version
mkdir -p "$build/package"
exec 8>>"$build/package/lock" # two at once wait for each other
flock 8
if [ -n "$oci" ]; then exec "$here/oci.sh" "$out" "$version"; fi
debs
for name in static crates wheels; do
  if wanted "$name"; then "$name"; fi
done
