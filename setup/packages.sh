# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install.sh, with `root` set: the Debian packages that parts of Weir need, by their names in this release.

: "${root:?}"
# shellcheck source=setup/llvm.sh
. "$root/setup/llvm.sh"

# Sets `release` (debian-13), and `column`, the column of the table that it uses: its own, or that of the newest release of
# the same distribution.
find_release() {
  local id="" like="" version="" key value
  while IFS='=' read -r key value; do
    value=${value//\"/}
    case $key in ID) id=$value ;; ID_LIKE) like=$value ;; VERSION_ID) version=$value ;; esac
  done <"${WEIR_OS_RELEASE:-/etc/os-release}"
  release=$id${version:+-$version}
  column=$release
  case " $* " in *" $release "*) return ;; esac
  case "$id $like" in *ubuntu*) column=ubuntu-24.04 ;; *) column=debian-13 ;; esac
}

# Whether a package of the table is in `installed`; N stands for any version of LLVM that will do.
is_installed() {
  local version
  for version in ${LLVM_VERSIONS}; do
    case $installed in *$'\n'"installed ${1/N/$version}"$'\n'*) return 0 ;; esac
    case $1 in *N*) ;; *) return 1 ;; esac
  done
  return 1
}

# Whether a row of the table is for one of the parts in `words`.
is_wanted() {
  local part
  for part in ${1//,/ }; do
    case $words in *" $part "*) return 0 ;; esac
  done
  return 1
}

# Sets `missing`: Debian packages that these parts need and that are not installed.
look_for_packages() {
  local words=" $* " installed row index=0 name
  missing=()
  [ $# -gt 0 ] || return 0
  command -v dpkg-query >/dev/null || die "this is not a Debian system; what is needed is in setup/debian-packages.txt, under: $*"
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n') || die "dpkg-query can't tell which packages are installed"
  installed=$'\n'$installed$'\n'
  while read -r -a row; do
    case ${row[0]:-#} in
      "#"*) continue ;;
      package)
        find_release "${row[@]:2}"
        while [ "${row[index]}" != "$column" ]; do index=$((index + 1)); done
        continue ;;
    esac
    is_wanted "${row[1]}" || continue
    case ${WEIR_LAB_KERNEL_SOURCE:+given}:${row[0]} in given:linux-source-*) continue ;; esac
    case ${row[index]} in
      -) continue ;;
      =) set -- "${row[0]}" ;;
      *[!0-9]*) read -r -a row <<<"${row[index]//+/ }"; set -- "${row[@]}" ;;
      *) if is_installed "${row[0]}"; then continue; fi; set -- "${row[0]/N/${row[index]}}" ;;
    esac
    for name in "$@"; do is_installed "$name" || missing+=("$name"); done
  done <"$root/setup/debian-packages.txt"
}

warn_of_release() {
  [ "$release" = "$column" ] \
    || say "$release is not among the releases that Weir knows (setup/debian-packages.txt); names of packages are those of $column"
}
