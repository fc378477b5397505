#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole test command, called by ./run test after the set-up: linters, Rust tests, then pytest (whose counts come
# last). Arguments go to pytest; with arguments only pytest runs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$root/build/venv/bin:$root/build/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
step() { printf '\n== %s\n' "$*"; }

if [ $# -eq 0 ]; then
  step "shellcheck"
  git -c safe.directory="$root" ls-files -z '*.sh' run .ci/run | xargs -0 shellcheck -x
  step "ruff"
  ruff check --quiet .
  ruff format --check --quiet . || { echo "formatting differs; run: build/venv/bin/ruff format ." >&2; exit 1; }
  step "clang-format"
  git -c safe.directory="$root" ls-files -z '*.c' '*.h' | xargs -0 clang-format-14 --dry-run --Werror
  for workspace in quic-client:cargo quic-client/bench:cargo p4/switch:cargo-p4; do
    manifest=${workspace%:*}/Cargo.toml
    export CARGO_TARGET_DIR=$root/build/${workspace#*:}
    step "rustfmt, clippy, cargo test: ${workspace%:*}"
    cargo fmt --all --check --manifest-path "$manifest"
    cargo clippy --quiet --release --locked --all-targets --manifest-path "$manifest" -- -D warnings
    cargo test --release --locked --manifest-path "$manifest"
  done
fi
step "pytest"
exec pytest -p no:cacheprovider "$@"
