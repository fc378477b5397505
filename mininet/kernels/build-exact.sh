#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the exact lab kernel (User-Mode Linux from Debian's linux-source, virtual time) into the user's cache and prints
# the path of its folder. Quiet and immediate when it is there already. Safe to run twice at once and after an interrupted
# build: the work goes on in a folder of its own that is renamed into place at the end. With --where nothing is built.
#
# WEIR_LAB_KERNEL names another version than the default. Its source is that of the package linux-source-VERSION if that
# is installed; else it is fetched, once: the newest that is in the cache is taken after that. WEIR_LAB_KERNEL_SOURCE names
# a tar file of the source in place of both; the kernel's version is then the file's, with a part of its checksum.
# edit-source.sh describes the changes to the source.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
series=${WEIR_LAB_KERNEL:-6.12}
source_tar=/usr/src/linux-source-$series.tar.xz
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weir
die() { printf 'lab kernel: %s\n' "$*" >&2; exit 1; }

[[ $series =~ ^[0-9]+\.[0-9]+$ ]] || die "'$series' is not a version of Linux; write one as 6.12"
# Sets `version` and `series` from the source in WEIR_LAB_KERNEL_SOURCE. The answer is kept: a checksum takes a second.
read_source_file() {
  local known top
  source_tar=$WEIR_LAB_KERNEL_SOURCE
  [ -r "$source_tar" ] || die "--lab-kernel-source: cannot read '$source_tar'"
  known=$cache/kernel-source-$(stat -L -c '%d-%i-%s-%.9Y' "$source_tar")
  if [ ! -e "$known" ]; then
    mkdir -p "$cache"
    top=$(tar -xOf "$source_tar" --occurrence=1 --no-wildcards-match-slash --wildcards '*/Makefile' 2>/dev/null) || top=""
    version=$(sed -nE 's/^(VERSION|PATCHLEVEL|SUBLEVEL) = ([0-9]+)$/\2/p' <<<"$top" | head -n 3 | paste -sd.)
    [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "--lab-kernel-source: '$source_tar' is no tar file of Linux's source"
    printf '%s-file-%s\n' "$version" "$(sha256sum <"$source_tar" | cut -c1-12)" >"$known.$$"
    mv "$known.$$" "$known"
  fi
  version=$(cat "$known")
  series=$(cut -d. -f1,2 <<<"$version")
  [ "${WEIR_LAB_KERNEL:-$series}" = "$series" ] \
    || die "--lab-kernel-source: '$source_tar' is Linux $series, and --lab-kernel asks for $WEIR_LAB_KERNEL"
}

version=""
if [ -n "${WEIR_LAB_KERNEL_SOURCE:-}" ]; then read_source_file
elif [ -r "$source_tar" ]; then version=$(dpkg-query -W -f '${Version}' "linux-source-$series" 2>/dev/null) || version=""; fi
key=$(cat "$here"/{exact.config,some.config,getrandom.c,clock.h,edit-source.sh} | sha256sum | cut -c1-12)
folder_of() { printf '%s\n' "$cache/kernel-exact-${1//[^A-Za-z0-9.]/_}-$key"; }
# Sets `final`, where the kernel is or will be; empty if that depends on which version is fetched.
look() {
  if [ -n "$version" ]; then final=$(folder_of "$version"); return; fi
  final=$(find "$cache" -maxdepth 1 -name "kernel-exact-${series}[._]*-$key" 2>/dev/null | sort -V | tail -n 1) || final=""
}
look
if [ -n "$final" ] && [ -x "$final/linux" ]; then printf '%s\n' "$final"; exit 0; fi
if [ "${1:-}" = --where ]; then printf '%s\n' "$final"; exit 3; fi

mkdir -p "$cache"
exec 9>"$cache/kernel-exact.lock"
flock -n 9 || { echo "lab kernel: another build is under way, waiting for it" >&2; flock 9; }
look
if [ -n "$final" ] && [ -x "$final/linux" ]; then printf '%s\n' "$final"; exit 0; fi

rm -rf "$cache"/kernel-exact-work.*   # left by a build that was killed; we hold the lock
work=$(mktemp -d "$cache/kernel-exact-work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -z "$version" ]; then
  echo "lab kernel: fetching the source of Linux $series (about 170 MB)" >&2
  "$here/fetch-source.sh" "$series" "$work" 9>&-
  version=$(cat "$work/version") source_tar=$work/source.tar.xz final=$(folder_of "$(cat "$work/version")")
fi
log=$work/build.log
echo "lab kernel: building Linux ${version} for virtual time (3 to 5 minutes on two cores, once)" >&2
tar -xf "$source_tar" -C "$work"
[ ! -e "$work/source.tar.xz" ] || rm "$work/source.tar.xz"
cd "$work"/linux*/
"$here/edit-source.sh"

# The banner, which programs can read, must not hold the date, the user or the host.
export KBUILD_BUILD_TIMESTAMP='2026-01-01' KBUILD_BUILD_USER=weir KBUILD_BUILD_HOST=lab KBUILD_BUILD_VERSION=1
cp "$here/exact.config" "$work/config"
while read -r want; do
  name=${want#CONFIG_} name=${name%%=*}
  if grep -rqE --include='Kconfig*' "^(menu)?config $name\$" .; then echo "$want" >>"$work/config"; fi
done < <(grep '^CONFIG_' "$here/some.config")
make ARCH=um allnoconfig KCONFIG_ALLCONFIG="$work/config" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "configuring failed"; }
while read -r want; do
  if ! grep -qxF "$want" .config; then die "Linux $version refuses '$want'"; fi
done < <(grep '^CONFIG_' "$work/config")

steps=1350   # lines of make output in a whole build; only the progress figure hangs on it
make ARCH=um -j"$(nproc)" linux >>"$log" 2>&1 9>&- &
make_pid=$!
trap 'kill "$make_pid" 2>/dev/null || true; rm -rf "$work"' EXIT
while kill -0 "$make_pid" 2>/dev/null; do
  percent=$(( $(wc -l <"$log") * 100 / steps )); [ "$percent" -lt 100 ] || percent=99
  if [ -t 2 ]; then printf '\rlab kernel: %3d %%' "$percent" >&2; sleep 1
  else
    if [ "$percent" -ge "${next:-25}" ]; then echo "lab kernel: $percent %" >&2; next=$((percent / 25 * 25 + 25)); fi
    sleep 1
  fi
done
wait "$make_pid" || { tail -n 20 "$log" >&2; die "the build failed"; }
[ -t 2 ] && printf '\r' >&2

mkdir "$work/out"
strip -o "$work/out/linux" linux
cc -O2 -Wall -Wextra -Werror -shared -fPIC -o "$work/out/getrandom.so" "$here/getrandom.c"
cp .config "$work/out/config"
# Bytes that the kernel keeps for a thread's extended registers; "any" where it asks the host for the size (from 6.13 on).
longs=$(sed -n 's/^#define HOST_FP_SIZE \([0-9]*\).*/\1/p' include/generated/user_constants.h)
printf '%s\n' "${longs:+$((longs * 8))}" | sed 's/^$/any/' >"$work/out/registers-bytes"
printf '%s\n' "$version" >"$work/out/version"

# Booted once on this machine before anything relies on it.
cc -O2 -Wall -Wextra -Werror -o "$work/boot-check" "$here/boot-check.c"
mkdir "$work/boot"
if ! (cd "$work/boot" && HOME=$work/boot TMPDIR=$work/boot LD_PRELOAD=$work/out/getrandom.so timeout -k 5 120 \
  "$work/out/linux" mem=64M rootfstype=hostfs rootflags=/ ro "init=$work/boot-check" con=null con0=null,fd:1 quiet \
  time-travel=inf-cpu) </dev/null >"$work/boot.log" 2>&1; then
  { grep -aE -m 1 'ptrace|not syncing' "$work/boot.log" || tail -n 1 "$work/boot.log"; } >&2
  die "the kernel was built, but runs no program on this machine ($(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo)," \
    "$(/usr/bin/python3 -I "$here/../weirlab/lab/machine.py" registers) bytes of extended registers," \
    "$(cat "$work/out/registers-bytes") reserved). Try --lab-kernel 7.3, or report this line with the console's above"
fi
mv -T "$work/out" "$final"
echo "lab kernel: ready" >&2
printf '%s\n' "$final"
