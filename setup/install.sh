#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs and builds what is missing, and only that; quiet and quick when nothing is. Called by ./run with the steps
# wanted: packages python rust xdp p4 lab_tools kernel. Two at once wait for each other; after an interruption it goes on where it was.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
say() { printf 'weir: %s\n' "$*" >&2; }
die() { printf 'weir: %s\n' "$*" >&2; exit 1; }
trap 'exit 130' INT
trap 'exit 143' TERM

if ! mkdir -p "$build/bin" 2>/dev/null || [ ! -w "$build" ]; then
  die "cannot write to $build: this clone belongs to $(stat -c %U "$root"); use one of your own"
fi
if [ -e "$build/setup.lock" ] && [ ! -w "$build/setup.lock" ]; then
  die "$build was made by $(stat -c %U "$build/setup.lock"); remove it as that user, or use a clone of your own"
fi
[ -n "${HOME:-}" ] || die "HOME is not set; the lab kernel and Rust are found through it"
exec 8>"$build/setup.lock"
flock -n 8 || { say "another ./run is setting up this clone, waiting for it"; flock 8; }

packages() {
  command -v dpkg-query >/dev/null || die "this is not a Debian system; the packages needed are in setup/debian-packages.txt"
  local wanted missing=()
  mapfile -t wanted < <(grep -v '^#' "$root/setup/debian-packages.txt")
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
  for package in "${wanted[@]}"; do
    grep -qxF "$package" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "Debian packages are missing; as root: apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log=$build/apt.log
  "${sudo[@]}" apt-get -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "apt-get update failed; see build/apt.log"; }
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
    --no-install-recommends "${missing[@]}" >>"$log" 2>&1 8>&- || { tail -n 10 "$log" >&2; die "apt-get install failed; see build/apt.log"; }
}

python() {
  local lock=$root/setup/requirements.txt stamp=$build/venv/weir-lock
  if ! cmp -s "$lock" "$stamp"; then
    say "making the Python environment (build/venv) from setup/requirements.txt"
    rm -rf "$build/venv"
    /usr/bin/python3 -m venv --system-site-packages "$build/venv"
    "$build/venv/bin/pip" --quiet --disable-pip-version-check install --require-hashes -r "$lock" \
      || die "the Python packages of setup/requirements.txt could not be installed"
    cp "$lock" "$stamp"
  fi
}

toolchain() {
  command -v cargo >/dev/null || die "Rust is missing. Install it with rustup (https://rustup.rs: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh), then call this again"
  local wanted have
  wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$root/quic-client/Cargo.toml")
  have=$(cargo --version | cut -d' ' -f2)
  [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] \
    || die "Rust $have is too old, $wanted or newer is needed: rustup update stable"
}

rust() {
  toolchain
  local quiet=(--quiet)
  if [ ! -x "$build/cargo/release/weir-client" ]; then
    say "building the QUIC client and server with quiche (about 5 minutes on two cores, once)"
    quiet=()
  fi
  CARGO_TARGET_DIR=$build/cargo cargo build --release --locked "${quiet[@]}" --manifest-path "$root/quic-client/Cargo.toml" 8>&- \
    || die "the Rust build failed"
  ln -sf ../cargo/release/weir-client ../cargo/release/weir-server "$build/bin/"
}

# The P4Runtime messages that both languages read, then the embedded P4 target.
p4() {
  toolchain
  local descriptors=$build/proto/p4runtime.fds
  if [ ! "$descriptors" -nt "$build/venv/weir-lock" ] || [ ! "$descriptors" -nt "$root/controller/weir/p4runtime/descriptors.py" ]; then
    mkdir -p "$build/proto"
    PYTHONPATH=$root/controller PYTHONDONTWRITEBYTECODE=1 "$build/venv/bin/python" -m weir.p4runtime.descriptors "$descriptors" \
      || die "the P4Runtime descriptors could not be made"
  fi
  local quiet=(--quiet)
  if [ ! -x "$build/cargo-p4/release/weir-switch" ]; then
    say "building the embedded P4 target (about 2 minutes on two cores, once)"
    quiet=()
  fi
  CARGO_TARGET_DIR=$build/cargo-p4 cargo build --release --locked "${quiet[@]}" --manifest-path "$root/p4/switch/Cargo.toml" 8>&- \
    || die "the build of the P4 target failed"
  ln -sf ../cargo-p4/release/weir-switch ../cargo-p4/release/weir-stf ../cargo-p4/release/weir-frames "$build/bin/"
}

xdp() {
  make --no-print-directory -s -C "$root/xdp" OUT="$build/xdp" 8>&- || die "the eBPF build failed"
  for tool in "$build"/xdp/weir-*; do
    if [ -f "$tool" ] && [ -x "$tool" ]; then ln -sf "../xdp/${tool##*/}" "$build/bin/"; fi
  done
}

lab_tools() {
  make --no-print-directory -s -C "$root/mininet/tools" OUT="$build/lab" 8>&- || die "the lab's tools could not be built"
  ln -sf ../lab/weir-traffic "$build/bin/"
}

kernel() { "$root/mininet/kernels/build-exact.sh" >/dev/null 8>&- || die "the lab kernel could not be built"; }

for step in "$@"; do
  case $step in
    packages | python | rust | xdp | p4 | lab_tools | kernel) "$step" ;;
    *) die "unknown set-up step '$step'" ;;
  esac
done
