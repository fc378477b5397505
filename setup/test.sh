#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole test command, called by ./run test after the set-up: linters and type checkers, Rust tests, then pytest (whose
# counts come last). The tiers of the tests are in conftest.py. Other arguments than a tier go to pytest; with such
# arguments only pytest runs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$root/build/venv/bin:$root/build/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
# shellcheck source=setup/step.sh
. "$root/setup/step.sh"
# shellcheck source=setup/version.sh
. "$root/setup/version.sh"

case "$*" in
  "") tier=default ;;
  --long | --release) tier=${1#--} ;;
  *)
    step "pytest"
    exec pytest -p no:cacheprovider "$@" ;;
esac
step "tests of the $tier tier"

# pytest runs beside linters and Rust: a lab or a switch waits now and then, and a compiler ends on one processor. Its
# output is kept, and shown when the others are over.
log=$root/build/pytest.log
stop() {
  trap '' INT TERM HUP
  kill -INT -- "-$tests" 2>/dev/null || true
  wait "$tests" || true
  exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP
set -m # a process group of its own, which hears of Ctrl-C through us
# Two files for each processor: packets and servers are waited for half of the time. Each file has network namespaces, BPF file
# systems and labs of its own. In the order of conftest.py, the longest first; of its own, xdist has those first that
# have most tests.
workers=$((2 * $(nproc)))
pytest -p no:cacheprovider --tier "$tier" -n "$((workers > 8 ? 8 : workers))" --dist loadfile --no-loadscope-reorder \
  >"$log" 2>&1 </dev/null &
tests=$!
set +m
failed="" # each part runs whatever became of those before: a report of one fault out of five helps nobody
ignored=() clippy=(--tested) # tests marked `#[ignore = "long tier"]`; what clippy checks
if [ "$tier" != default ]; then ignored=(-- --include-ignored) clippy=(); fi
"$root/setup/lint.sh" "${clippy[@]}" || failed=" linters"
for workspace in $RUST_TESTED; do
  step "cargo test: ${workspace%:*}"
  WEIR_BUILD=$(build_version "${workspace%:*}") # as the set-up has it: else cargo builds the programs again
  export WEIR_BUILD
  CARGO_TARGET_DIR=$root/build/${workspace#*:} cargo test --release --locked --no-fail-fast \
    --manifest-path "${workspace%:*}/Cargo.toml" "${ignored[@]}" || failed="$failed ${workspace%:*}"
done
if [ "$tier" != default ]; then
  step "pytest: train with PyTorch"
  if [ -x "$root/build/venv-train/bin/python" ]; then
    "$root/build/venv-train/bin/python" -m pytest -p no:cacheprovider -q train || failed="$failed trainer"
  else
    echo "SKIPPED: ./run train alone installs PyTorch (3 GB); where it is, its tests run here"
  fi
fi
step "pytest, which began with the linters"
tail -n +1 -f --pid="$tests" "$log"
wait "$tests" || failed="$failed pytest"
if [ "$tier" != default ]; then
  step "fuzz targets, ten minutes each"
  "$root/setup/fuzz.py" || failed="$failed fuzz"
fi
if [ -n "$failed" ]; then
  echo "failed in the $tier tier:$failed; what went wrong stands above" >&2
  exit 1
fi
