#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole test command, called by ./run test after the set-up: linters and type checkers, Rust tests, then pytest (whose
# counts come last). Arguments go to pytest; with arguments only pytest runs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$root/build/venv/bin:$root/build/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
# shellcheck source=setup/step.sh
. "$root/setup/step.sh"

if [ $# -eq 0 ]; then
  "$root/setup/lint.sh"
  for workspace in $RUST_WORKSPACES; do
    step "cargo test: ${workspace%:*}"
    CARGO_TARGET_DIR=$root/build/${workspace#*:} cargo test --release --locked --manifest-path "${workspace%:*}/Cargo.toml"
  done
fi
step "pytest"
exec pytest -p no:cacheprovider "$@"
