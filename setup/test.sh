#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole test command, called by ./run test after the set-up: linters, Rust tests, then pytest (whose counts come
# last). Arguments go to pytest; with arguments only pytest runs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$root/build/venv/bin:$root/build/bin:$PATH" CARGO_TARGET_DIR="$root/build/cargo" PYTHONDONTWRITEBYTECODE=1
step() { printf '\n== %s\n' "$*"; }

if [ $# -eq 0 ]; then
  step "shellcheck"
  git ls-files -z '*.sh' run .ci/run | xargs -0 shellcheck -x
  step "ruff"
  ruff check --quiet .
  ruff format --check --quiet . || { echo "formatting differs; run: build/venv/bin/ruff format ." >&2; exit 1; }
  step "clang-format"
  git ls-files -z '*.c' '*.h' | xargs -0 clang-format-14 --dry-run --Werror
  step "rustfmt, clippy"
  cargo fmt --all --check --manifest-path quic-client/Cargo.toml
  cargo clippy --quiet --release --locked --all-targets --manifest-path quic-client/Cargo.toml -- -D warnings
  step "cargo test"
  cargo test --release --locked --manifest-path quic-client/Cargo.toml
fi
step "pytest"
exec pytest -p no:cacheprovider "$@"
