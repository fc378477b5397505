# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install.sh, with `root`, `stamps` and TITLES set: checks that this machine has what the steps ahead need,
# before anything is installed or built for them.

: "${root:?}" "${stamps:?}"
declare -A MANIFESTS=([rust]=quic-client/Cargo.toml [p4]=p4/switch/Cargo.toml [peers]=mininet/peers/noq/Cargo.toml
  [quic_peers]=quic-client/bench/Cargo.toml [stacks]=quic-client/bench/stacks/Cargo.toml
  [python_quic]=quic-client/python/Cargo.toml)
# Free disk space that a step takes, in MiB, rounded up from a build on Debian 12; 1 GiB of memory is what the largest C++
# unit and the largest Rust crate take side by side.
declare -A DISK_MIB=([python]=700 [xdp]=100 [kernel]=4000 [rust]=2500 [p4]=1500 [peers]=1000 [quic_peers]=700 [stacks]=1200 [tquic]=1500 [go_peers]=400
  [python_quic]=500 [trainer]=6000 [prometheus]=400)
MEMORY_MIB=1024

# rust_problem STEP: one line that names what is wrong with this machine's Rust and the remedy; nothing if it will do.
rust_problem() {
  local wanted have stale="" get="install Rust with rustup (https://rustup.rs: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh)"
  if [ -n "$(apt-cache --names-only search '^rustup$' 2>/dev/null)" ]; then get="apt-get install rustup && rustup default stable"; fi
  [ ! -e "$stamps/$1" ] || stale=" (the sources of ${TITLES[$1]} are not those that they were built from)"
  if ! find_cargo; then
    echo "Rust is missing$stale: $get; or, if another user of this machine has it, call ./run as that user once, without sudo"
    return
  fi
  wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$root/${MANIFESTS[$1]}")
  if ! have=$(cargo --version 2>&1 | cut -d' ' -f2) || [[ ! $have =~ ^[0-9] ]]; then
    echo "cargo does not run: $(command -v cargo): ${have:-no output}"
  elif [ "$(printf '%s\n%s\n' "${wanted:-0}" "$have" | sort -V | head -n 1)" != "${wanted:-0}" ]; then
    case $(readlink -f "$(command -v cargo)") in
      /usr/bin/*) echo "Rust $have is too old, $wanted or newer is needed: $get" ;;
      *) echo "Rust $have is too old, $wanted or newer is needed: rustup update stable" ;;
    esac
  fi
}

# crates_problem MANIFEST: whether the crates of a lock file are here or can be fetched; they are fetched then.
crates_problem() {
  local said
  said=$(cargo fetch --locked --manifest-path "$root/$1" 2>&1 </dev/null) \
    || echo "the crates of $1 can't be fetched: $(tail -n 1 <<<"$said"); look at the network, or at the proxy in cargo's configuration"
}

# file_system FOLDER: free MiB and name of the file system that FOLDER is on, or will be.
file_system() {
  local folder=$1
  until [ -e "$folder" ]; do folder=$(dirname "$folder"); done
  df -Pm "$folder" | awk 'NR == 2 { print $4, $1 }'
}

# disk_problems STEP...: a line for each file system that is too small for what these steps write.
disk_problems() {
  local step here=0 cache=0 free cache_free here_disk cache_disk
  for step in "$@"; do
    case $step in kernel) cache=${DISK_MIB[kernel]} ;; *) here=$((here + ${DISK_MIB[$step]:-0})) ;; esac
  done
  read -r free here_disk < <(file_system "$root")
  read -r cache_free cache_disk < <(file_system "$WEIR_CACHE_HOME")
  if [ "$here_disk" = "$cache_disk" ]; then here=$((here + cache)) cache=0; fi
  [ "$free" -ge "$here" ] \
    || echo "disk space: $free MiB are free at $root, $here MiB are needed; make room, or clone onto another disk"
  [ "$cache_free" -ge "$cache" ] || echo "disk space: $cache_free MiB are free at $WEIR_CACHE_HOME, $cache MiB are" \
    "needed; make room, or set XDG_CACHE_HOME to a folder on another disk"
}

# machine_problems STEP...: a line for each thing that is missing for these steps.
machine_problems() {
  local step words=" $* " memory_mib
  [ "$(uname -m)" = x86_64 ] || echo "CPU: this is $(uname -m); Weir's lab and packages are for x86-64 only"
  for step in rust p4 peers quic_peers stacks python_quic; do
    case $words in
      *" $step "*)
        local why
        why=$(rust_problem "$step")
        if [ -n "$why" ]; then echo "$why"; break; fi ;;
    esac
  done
  disk_problems "$@"
  case $words in
    *" rust "* | *" p4 "* | *" kernel "*)
      memory_mib=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
      [ "${memory_mib:-$MEMORY_MIB}" -ge "$MEMORY_MIB" ] \
        || echo "memory: $memory_mib MiB are available, $MEMORY_MIB MiB are needed to compile; end other programs" ;;
  esac
  case $words in *" kernel "* | *" first_look "*) lab_problem ;; esac
}

# A lab needs ptrace. Without Python, which is one of the packages ahead, this is asked again once they are there.
lab_problem() {
  [ ! -x /usr/bin/python3 ] || { /usr/bin/python3 -I "$root/mininet/weirlab/lab/machine.py" registers >/dev/null; } 2>&1 || true
}

# check_machine STEP...: ends with one list if something is missing. `missing` holds the packages to be installed.
check_machine() {
  local step problems=() checked=()
  mapfile -t problems < <(machine_problems "$@")
  if [ ${#problems[@]} -eq 0 ]; then
    for step in "$@"; do
      if [ -n "${MANIFESTS[$step]:-}" ]; then checked+=("${MANIFESTS[$step]}"); fi
    done
    if [ ${#checked[@]} -gt 0 ]; then find_cargo; fi
    for step in "${checked[@]}"; do mapfile -t -O ${#problems[@]} problems < <(crates_problem "$step"); done
  fi
  # shellcheck disable=SC2154  # install.sh sets it
  [ ${#missing[@]} -eq 0 ] || warn_of_release
  if [ ${#missing[@]} -gt 0 ] && ! may_install; then problems+=("$(install_words "${missing[@]}")"); fi
  [ ${#problems[@]} -gt 0 ] || return 0
  say "this machine lacks what is needed; nothing was installed or built:"
  printf '  %s\n' "${problems[@]}" >&2
  exit 1
}

may_install() {
  [ "$(id -u)" -ne 0 ] || return 0
  command -v sudo >/dev/null || return 1
  say "installing Debian packages needs root: ${missing[*]}"
  sudo -v
}

install_words() { echo "Debian packages are missing; as root: apt-get update && apt-get install --no-install-recommends $*"; }
