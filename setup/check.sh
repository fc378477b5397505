#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quick check while working on the code, called by ./run check after the set-up: linters and type checkers, then the
# tests that need neither root nor a lab and draw no pictures. --lint leaves the tests out.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=setup/step.sh
. "$root/setup/step.sh"
export PATH="$root/build/venv/bin:$root/build/bin:$PATH" PYTHONDONTWRITEBYTECODE=1

case "$*" in
  "" | --lint) ;;
  *)
    echo "./run check: unknown option '$*'; there is only --lint, which leaves out the tests" >&2
    exit 2 ;;
esac
"$root/setup/lint.sh"
[ "${1:-}" != --lint ] || exit 0
for workspace in $RUST_TESTED; do
  step "unit tests: ${workspace%:*}"
  CARGO_TARGET_DIR=$root/build/${workspace#*:} \
    cargo test --quiet --release --locked --lib --manifest-path "${workspace%:*}/Cargo.toml"
done
step "pytest, without what needs root or a lab, or draws pictures"
# Four at once on two cores, since some wait for devices that do not answer; properties with fewer examples than in test.
exec pytest -p no:cacheprovider -q -n 4 --hypothesis-profile quick --tier default \
  -m "not lab and not pictures" --deselect tests/structure/test_tiers.py controller mininet quic-client icn train tests/structure tests/docs
