#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Linters, formatters and type checkers of every language, quick to slow. They change nothing but the ceiling of prose.py,
# which falls with the count. Called by check.sh and test.sh, which put the tools on PATH. With --tested clippy leaves out
# the workspaces without tests: the default tier does not build them, and clippy compiles all that they depend on.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=setup/step.sh
. "$root/setup/step.sh"
tracked() { git -c safe.directory="$root" ls-files -z "$@"; }

step "shellcheck"
tracked '*.sh' '*.qos' run .ci/run | xargs -0 shellcheck -x
step "ruff"
ruff check --quiet .
ruff format --check --quiet . || { echo "formatting differs; run: build/venv/bin/ruff format ." >&2; exit 1; }
step "clang-format"
tracked '*.c' '*.h' | xargs -0 "$("$root/setup/llvm.sh" clang-format)" --dry-run --Werror
step "language rules"
python "$root/setup/prose.py"
step "mypy"
mypy --no-error-summary -p weir -p weirlab -p weirtrain -p weir_quic
step "import-linter"
contracts=$(PYTHONPATH=controller:mininet:train lint-imports --no-cache --no-logo) || { echo "$contracts" >&2; exit 1; }
for workspace in $RUST_WORKSPACES; do
  manifest=${workspace%:*}/Cargo.toml
  step "rustfmt, clippy: ${workspace%:*}"
  cargo fmt --all --check --manifest-path "$manifest"
  case "${1:-} $RUST_TESTED " in
    --tested*" $workspace "*) ;;
    --tested*) echo "clippy: left to ./run check and the long tier"; continue ;;
  esac
  CARGO_TARGET_DIR=$root/build/${workspace#*:} \
    cargo clippy --quiet --release --locked --all-targets --manifest-path "$manifest" -- -D warnings
done
for workspace in quic-client/fuzz p4/switch/fuzz; do # built with cargo-fuzz only
  cargo fmt --check --manifest-path "$workspace/Cargo.toml"
done
