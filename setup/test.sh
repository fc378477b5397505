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

if [ "${1:-}" = --hostile ]; then
  shift
  export WEIR_HOSTILE=whole
  step "cargo test: strangers at weir-switch and weir-server"
  CARGO_TARGET_DIR=$root/build/cargo-p4 cargo test --release --locked --manifest-path p4/switch/Cargo.toml \
    -p weir-switch --test p4runtime robust
  CARGO_TARGET_DIR=$root/build/cargo cargo test --release --locked --manifest-path quic-client/Cargo.toml \
    -p weir-endpoint --test attack --test limits --test full_disk
  step "pytest"
  exec pytest -p no:cacheprovider -m hostile "$@"
fi
if [ $# -gt 0 ]; then
  step "pytest"
  exec pytest -p no:cacheprovider "$@"
fi

# pytest runs beside linters and Rust: a lab or a switch waits now and then, and a compiler ends on one processor. What it says
# is kept, and shown when the others are over.
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
# Two files at once: each has network namespaces, BPF file systems and labs of its own. In the order of conftest.py, the
# longest first; of its own, xdist has those first that have most tests.
pytest -p no:cacheprovider -n 2 --dist loadfile --no-loadscope-reorder >"$log" 2>&1 </dev/null &
tests=$!
set +m
failed="" # each part runs whatever became of those before: a report of one fault out of five helps nobody
"$root/setup/lint.sh" || failed=" linters"
for workspace in $RUST_WORKSPACES; do
  case " $RUST_TESTED " in *" $workspace "*) words=(test --no-fail-fast) ;; *) words=(build) ;; esac
  step "cargo ${words[0]}: ${workspace%:*}"
  CARGO_TARGET_DIR=$root/build/${workspace#*:} cargo "${words[@]}" --release --locked \
    --manifest-path "${workspace%:*}/Cargo.toml" || failed="$failed ${workspace%:*}"
done
step "pytest: quic-client/train with PyTorch"
if [ -x "$root/build/venv-train/bin/python" ]; then
  "$root/build/venv-train/bin/python" -m pytest -p no:cacheprovider -q quic-client/train || failed="$failed trainer"
else
  echo "SKIPPED: ./run train alone installs PyTorch (3 GB); where it is, its tests run here"
fi
step "pytest, which began with the linters"
tail -n +1 -f --pid="$tests" "$log"
wait "$tests" || failed="$failed pytest"
if [ -n "$failed" ]; then
  echo "failed:$failed; what went wrong stands above" >&2
  exit 1
fi
