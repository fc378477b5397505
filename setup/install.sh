#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs and builds what is missing, and only that; quiet and quick when nothing is. Called by ./run with words: steps
# of the set-up (STEPS, below) and groups of setup/debian-packages.txt that what runs needs. A step asks for its
# packages, and for a compiler, only when there is something to build. Two at once wait for each other; after an
# interruption it goes on where it was. With --check first it only checks the machine. Called as root for a clone that belongs to somebody else it installs the
# packages and builds as that user, so that nothing in the clone becomes root's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build stamps=$root/build/stamps
# shellcheck source=setup/watched.sh
. "$root/setup/watched.sh"
# shellcheck source=setup/lanes.sh
. "$root/setup/lanes.sh"
# shellcheck source=setup/owner.sh
. "$root/setup/owner.sh"
# shellcheck source=setup/machine.sh
. "$root/setup/machine.sh"
# shellcheck source=setup/version.sh
. "$root/setup/version.sh"
# shellcheck source=setup/packages.sh
. "$root/setup/packages.sh"
say() { printf 'weir: %s\n' "$*" >&2; }
die() { printf 'weir: %s\n' "$*" >&2; exit 1; }
drafts=()
clean_up() { lanes_stop; watched_stop; rm -f "${drafts[@]}"; }
trap 'clean_up; exit 130' INT
trap 'clean_up; exit 143' TERM
trap 'clean_up; exit 129' HUP
trap 'clean_up; exit 141' PIPE # who reads what we say is gone: `./run ... | head`

STEPS="python xdp lab_tools first_look kernel rust p4 peers quic_peers stacks tquic go_peers python_quic trainer prometheus"
declare -A TITLES=(
  [python]="the Python environment"
  [rust]="the QUIC client and server, with quiche, and weir-icn"
  [p4]="the P4 switch"
  [xdp]="the eBPF programs and their tools"
  [lab_tools]="the lab's traffic generator"
  [first_look]="a first look at the law"
  [kernel]="the lab kernel"
  [peers]="a server on another QUIC stack, noq, to compare senders with"
  [quic_peers]="QUIC programs on quinn and quiche, to test with"
  [stacks]="QUIC programs on s2n-quic and tokio-quiche, to measure beside"
  [tquic]="tquic's server, to compare senders with"
  [go_peers]="QUIC programs on quic-go, to test with"
  [python_quic]="the Python module on the QUIC client, to test"
  [trainer]="PyTorch and what else trains policies: 3 GB to fetch"
  [prometheus]="Prometheus, to test the board with: 23 MB to fetch"
)
# Steps that begin when others are over.
declare -A AFTER=([quic_peers]=rust [stacks]=rust [tquic]=rust [python_quic]="rust quic_peers" [first_look]="python xdp lab_tools")
# Steps that measure in real time: meanwhile the others stand still.
ALONE="first_look"

# ---- what there is to do ----

# Lines of each part in setup/sources.txt.
declare -A PARTS=()
read_parts() {
  local line part=""
  while IFS= read -r line; do
    case $line in
      "#"* | "" | "import "*) ;;
      "["*) part=${line//[][]/} ;;
      *) PARTS[$part]+=$line$'\n' ;;
    esac
  done <"$root/setup/sources.txt"
}
read_parts

# Sources of a part, relative to the clone, each with a zero byte behind it.
sources() {
  local line file
  local -A found=()
  while IFS= read -r line; do
    case $line in
      @*) sources "${line#@}" ;;
      !*) for file in ${line#!}; do unset "found[$file]"; done ;;
      *) for file in $line; do [ ! -f "$file" ] || found[$file]=1; done ;;
    esac
  done <<<"${PARTS[$1]}"
  [ ${#found[@]} -eq 0 ] || printf '%s\0' "${!found[@]}"
}

outputs() {
  case $1 in
    rust) printf '%s\n' cargo/release/weir-client cargo/release/weir-server cargo/release/weir-icn ;;
    p4) printf 'cargo-p4/release/%s\n' weir-switch weir-stf weir-corpus weir-frames weir-p4c ;;
    xdp) printf '%s\n' xdp/weir-xdp xdp/weir-sojourn ;;
    lab_tools) printf '%s\n' lab/weir-traffic lab/weir-paced lab/clock-reads.so ;;
    peers) printf '%s\n' cargo-peers/release/noq-server ;;
    quic_peers) printf 'cargo/release/%s\n' quinn-bench quinn-rotating quiche-hq-client quiche-hq-server quiche-http3-client \
      quiche-http3-server ;;
    stacks) printf 'cargo/release/%s\n' s2n-bench tokio-quiche-bench ;;
    tquic) echo tquic/bin/tquic_server ;;
    python_quic) echo python/weir_quic/_native.abi3.so ;;
    go_peers) printf 'peers/%s\n' quicgo quicgo-exchange quicgo-example-server quicgo-example-client ;;
  esac
}

# Content of a stamp: the sources' content as it was before the build, and when the programs were written, so that
# neither changed sources nor programs built by hand from others go unnoticed.
sources_now() { (cd "$root" && shopt -s globstar nullglob && sources "$1" | LC_ALL=C sort -zu | xargs -0 sha256sum | sha256sum); }
outputs_now() { outputs "$1" | (cd "$build" 2>/dev/null && xargs stat -L -c '%n %s %.9Y' 2>/dev/null); }

# stamp STEP SOURCES_BEFORE
stamp() {
  local made
  made=$(outputs_now "$1") || die "the build of ${TITLES[$1]} did not make all of: $(outputs "$1" | tr '\n' ' ')"
  mkdir -p "$stamps" && printf '%s\n%s\n' "$2" "$made" >"$stamps/$1"
}

done_already() {
  case $1 in
    python) [ -x "$build/venv/bin/python" ] && cmp -s "$root/setup/requirements.txt" "$build/venv/weir-lock" ;;
    trainer)
      [ -x "$build/venv-train/bin/python" ] && cmp -s "$root/train/requirements.txt" "$build/venv-train/weir-lock" ;;
    prometheus) [ -d "$build/prometheus" ] ;;
    go_peers) ! command -v go >/dev/null || stamped go_peers ;; # without Go there is nothing to do, and tests are skipped
    first_look) done_already kernel && done_already rust && done_already p4 ;; # then the demo begins at once
    kernel) XDG_CACHE_HOME=$WEIR_CACHE_HOME "$root/mininet/kernels/build-exact.sh" --where >/dev/null 2>&1 ;;
    *) stamped "$1" ;;
  esac
}

# Whether programs of a step are those that its stamp names, from the sources that there are now.
stamped() {
  local made
  [ -e "$stamps/$1" ] && made=$(outputs_now "$1") && [ "$(sources_now "$1")"$'\n'"$made" = "$(cat "$stamps/$1")" ]
}

# ---- the steps ----

packages() {
  local sudo=() log=$build/apt.log
  if [ "$(id -u)" -ne 0 ]; then
    sudo=(sudo)
  fi
  mkdir -p "$build" && : >"$log" && to_owner "$build" "$log"
  next_title "$# Debian packages: $*"
  watched "$title" "$log" meter_apt "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
    apt-get -q -o DPkg::Lock::Timeout=300 update &&
    exec apt-get -q -o DPkg::Lock::Timeout=300 -o APT::Status-Fd=1 install -y --no-install-recommends "$@"' sh "$@" \
    || die "the Debian packages could not be installed"
}

# environment FOLDER LOCK LOG: Python with the packages of a lock, which becomes its file `weir-lock`.
environment() {
  local lock=$root/$2
  # pip names each package as it fetches it; putting them in place, unseen, takes the last third of the time.
  # shellcheck disable=SC2016  # the inner shell expands these
  TOTAL=$(($(grep -c "==" "$lock") * 10 / 7)) STARTS=Collecting watched "$title" "$build/$3" meter_lines \
    bash -euc '
    rm -rf "$1"
    /usr/bin/python3 -m venv --system-site-packages "$1"
    exec "$1/bin/pip" --disable-pip-version-check install --progress-bar off --require-hashes -r "$2"
  ' bash "$build/$1" "$lock" || die "the Python packages of $2 could not be installed"
  cp "$lock" "$build/$1/weir-lock"
}

python() { environment venv setup/requirements.txt python.log; }

trainer() { environment venv-train train/requirements.txt trainer.log; }

# Cargo on PATH, of the version wanted; or one line that says what to do.
toolchain() {
  local why
  why=$(rust_problem "$1")
  [ -z "$why" ] || die "$why"
  find_cargo
}

# cargo_build STEP TARGET_FOLDER MANIFEST LOG
cargo_build() {
  watched "$title" "$build/$4" meter_cargo env CARGO_TARGET_DIR="$build/$2" WEIR_BUILD="$(build_version "${3%/*}")" \
    CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 \
    cargo build --color never --release --locked --manifest-path "$root/$3" || die "the build of ${TITLES[$1]} failed"
}

rust() {
  local before
  before=$(sources_now rust)
  toolchain rust
  # Measured once: two thirds of the crates take a tenth of the time, BoringSSL and quiche, for which all wait, half of it.
  CURVE="657:110,750:210,880:310,886:480,897:590,946:640,951:840,1000:1000" cargo_build rust cargo quic-client/Cargo.toml rust.log
  ln -sf ../cargo/release/weir-client ../cargo/release/weir-server ../cargo/release/weir-icn "$build/bin/"
  stamp rust "$before"
}

# build/bmv2 has the switch and the compiler by BMv2's names, for PATH: in build/bin they would be taken for BMv2.
p4() {
  local before name
  before=$(sources_now p4)
  toolchain p4
  cargo_build p4 cargo-p4 p4/switch/Cargo.toml p4.log
  ln -sf ../cargo-p4/release/weir-switch ../cargo-p4/release/weir-stf ../cargo-p4/release/weir-corpus \
    ../cargo-p4/release/weir-frames ../cargo-p4/release/weir-p4c "$build/bin/"
  mkdir -p "$build/bmv2"
  for name in simple_switch simple_switch_grpc; do ln -sf ../cargo-p4/release/weir-switch "$build/bmv2/$name"; done
  for name in p4c p4c-bm2-ss; do ln -sf ../cargo-p4/release/weir-p4c "$build/bmv2/$name"; done
  stamp p4 "$before"
}

no_meter() { :; }

xdp() {
  local before
  before=$(sources_now xdp)
  watched "$title" "$build/xdp.log" no_meter \
    make --no-print-directory -C "$root/xdp" OUT="$build/xdp" WEIR_BUILD="$(build_version xdp controller/profiles)" || die "the eBPF build failed"
  for tool in "$build"/xdp/weir-*; do
    if [ -f "$tool" ] && [ -x "$tool" ]; then ln -sf "../xdp/${tool##*/}" "$build/bin/"; fi
  done
  stamp xdp "$before"
}

lab_tools() {
  local before
  before=$(sources_now lab_tools)
  watched "$title" "$build/lab_tools.log" no_meter \
    make --no-print-directory -C "$root/mininet/tools" OUT="$build/lab" || die "the lab's tools could not be built"
  ln -sf ../lab/weir-traffic ../lab/weir-paced "$build/bin/"
  stamp lab_tools "$before"
}

# A step without which the others go on. Its tables are shown when it is over.
first_look() {
  if watched "$title" "$build/first_look.log" no_meter "$root/run" demo --first; then
    cat "$build/first_look.log"
  else
    say "there is no first look, then; the rest goes on"
  fi
}

# The kernel's own build keeps its log where it works; in a whole one are about so many lines.
meter_kernel() {
  local log lines=1350
  for log in "$WEIR_CACHE_HOME"/weir/kernel-exact-work.*/build.log; do
    if [ -e "$log" ]; then echo $(($(wc -l <"$log") * 1000 / lines)); fi
  done
}

kernel() {
  watched "$title" "$build/kernel.log" meter_kernel env XDG_CACHE_HOME="$WEIR_CACHE_HOME" \
    "$root/mininet/kernels/build-exact.sh" || die "the lab kernel could not be built"
}

peers() {
  local before
  before=$(sources_now peers)
  toolchain peers
  cargo_build peers cargo-peers mininet/peers/noq/Cargo.toml peers.log
  ln -sf ../cargo-peers/release/noq-server "$build/bin/"
  stamp peers "$before"
}

quic_peers() {
  local before
  before=$(sources_now quic_peers)
  toolchain quic_peers
  cargo_build quic_peers cargo quic-client/bench/Cargo.toml quic_peers.log
  stamp quic_peers "$before"
}

# Needs a newer compiler than the rest; measurements can be skipped, so that a failure keeps nobody from the others.
stacks() {
  local before
  before=$(sources_now stacks)
  if (cargo_build stacks cargo quic-client/bench/stacks/Cargo.toml stacks.log); then
    stamp stacks "$before"
  else
    say "the programs on s2n-quic and tokio-quiche could not be built; measurements go on without them"
  fi
}

# Of the registry as it is, BoringSSL included; like `stacks` nothing else needs it.
tquic() {
  local before
  before=$(sources_now tquic)
  # shellcheck disable=SC2016  # the inner shell expands these
  if find_cargo && watched "$title" "$build/tquic.log" meter_cargo env CARGO_TERM_PROGRESS_WHEN=always \
    CARGO_TERM_PROGRESS_WIDTH=100 CARGO_TARGET_DIR="$build/cargo-tquic" bash -euc '
      cargo install --color never --locked --version "$(cat "$1")" --bin tquic_server --root "$2" tquic_tools
    ' bash "$root/mininet/peers/tquic.version" "$build/tquic"; then
    rm -rf "$build/cargo-tquic"
    ln -sf ../tquic/bin/tquic_server "$build/bin/"
    stamp tquic "$before"
  else
    say "tquic's server could not be built; comparisons go on without it"
  fi
}

# build/python has the package as a wheel has it, for PYTHONPATH.
python_quic() {
  local before package=$root/quic-client/python/weir_quic
  before=$(sources_now python_quic)
  toolchain python_quic
  cargo_build python_quic cargo quic-client/python/Cargo.toml python_quic.log
  rm -rf "$build/python" && mkdir -p "$build/python/weir_quic"
  cp "$package"/*.py "$package"/*.pyi "$package/py.typed" "$build/python/weir_quic/"
  cp "$build/cargo/release/libweir_quic_python.so" "$build/python/weir_quic/_native.abi3.so"
  stamp python_quic "$before"
}

# Tests with these programs can be skipped, so a failure (Go is too old, no network) keeps nobody from the others.
go_peers() {
  local before
  before=$(sources_now go_peers)
  mkdir -p "$build/peers"
  # shellcheck disable=SC2016  # the inner shell expands these
  if watched "$title" "$build/go_peers.log" no_meter bash -euc '
    cd "$1"
    go build -o "$2/quicgo" .
    go build -o "$2/quicgo-exchange" ./exchange
    go build -o "$2/quicgo-example-server" github.com/quic-go/quic-go/example
    go build -o "$2/quicgo-example-client" github.com/quic-go/quic-go/example/client
  ' bash "$root/tests/quic/quicgo" "$build/peers"; then
    stamp go_peers "$before"
  else
    say "the programs on quic-go could not be built; the tests that need them are skipped"
  fi
}

# Unpacked, not installed: Debian's packages start services that listen at all of the machine's addresses. Its tests can
# be skipped, so that a failure keeps nobody from the others.
prometheus() {
  watched "$title" "$build/prometheus.log" no_meter \
    "$root/setup/unpack.sh" "$build/prometheus" prometheus prometheus-node-exporter \
    || say "Prometheus could not be had; the tests that need it are skipped"
}

# ---- all together ----

# Sets `todo` (steps, in order) and `missing` (packages) for the words that we were called with.
plan() {
  local words=" $* " step groups=()
  todo=()
  for step in $STEPS; do
    case $words in *" $step "*) done_already "$step" || todo+=("$step") ;; esac
    words=${words// $step / }
  done
  read -r -a groups <<<"$words"
  look_for_packages "${groups[@]}" "${todo[@]}"
}

# Sets `title` for the next step, by its name in TITLES or by its own words.
next_title() {
  number=$((number + 1))
  title="weir: step $number of $total: ${TITLES[$1]:-$1}"
}

# Until the lock is ours, what the other ./run is at.
wait_for_another() {
  local began=$SECONDS next=${WATCHED_EVERY_S:-30} words
  until flock -w 1 8; do
    words=$(cat "$build/setup.said" 2>/dev/null) || words=
    [ -n "$words" ] || continue
    if [ -t 2 ]; then
      one_line "weir: $words"
    elif [ $((SECONDS - began)) -ge "$next" ]; then
      printf '  %s\n' "$words" >&2
      next=$((SECONDS - began + ${WATCHED_EVERY_S:-30}))
    fi
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

# --check: only reports what this machine lacks for these words.
check_only=""
if [ "${1:-}" = --check ]; then check_only=1; shift; fi
# --stamp STEP: its programs were made elsewhere from these sources, as those of a container image.
if [ "${1:-}" = --stamp ]; then stamp "$2" "$(sources_now "$2")"; exit; fi
for word in "$@"; do
  case $word in
    python | rust | p4 | xdp | lab_tools | first_look | kernel | peers | quic_peers | stacks | tquic | go_peers | python_quic | trainer | prometheus | aqm | quic | lab | packaged | bench | package | oci | test) ;;
    *) die "unknown word '$word' for the set-up" ;;
  esac
done

plan "$@"
[ $((${#todo[@]} + ${#missing[@]})) -gt 0 ] || exit 0

case $root in
  *[[:space:]]*) die "the clone's path has a space in it, and make can't build there: '$root'; move the clone to a path without spaces" ;;
esac
if ! as_owner mkdir -p "$build/bin" 2>/dev/null || ! as_owner test -w "$build"; then
  die "cannot write to $build: this clone belongs to $(stat -c %U "$root"); use one of your own"
fi
if [ -e "$build/setup.lock" ] && ! as_owner test -w "$build/setup.lock"; then
  die "$build was made by $(stat -c %U "$build/setup.lock"); remove it as that user, or use a clone of your own"
fi
# Where root calls for another user's clone, that user's process checks: its Rust, its ptrace.
if [ ${#owner_words[@]} -eq 0 ]; then check_machine "${todo[@]}"; fi
[ -z "$check_only" ] || exit 0
number=${WEIR_STEPS_BEFORE:-0}
if [ ${#missing[@]} -gt 0 ]; then
  total=$((number + ${#todo[@]} + 1))
  packages "${missing[@]}"
fi
[ ${#todo[@]} -gt 0 ] || exit 0
if [ ${#owner_words[@]} -gt 0 ]; then # the rest is for whoever the clone belongs to
  exec "${owner_words[@]}" WEIR_STEPS_BEFORE="$number" "${BASH_SOURCE[0]}" "$@"
fi

exec 8>>"$build/setup.lock"
if ! flock -n 8; then
  say "another ./run is setting up this clone, waiting for it"
  wait_for_another
fi
plan "$@" # another may have done it
case " ${todo[*]} " in
  *" kernel "* | *" first_look "*)
    problem=$(lab_problem)
    [ -z "$problem" ] || die "$problem" ;;
esac
# Where Debian's packaged lab can't run, the first look waits for the exact lab, whose virtual time no compiler disturbs.
case " ${todo[*]} " in
  *" first_look "*)
    if [ "$(/usr/bin/python3 -I "$root/mininet/weirlab/lab/machine.py" first-lab)" = exact ]; then
      AFTER[first_look]+=" kernel" ALONE=""
    fi ;;
esac
total=$((number + ${#todo[@]}))
lanes "$build/setup.said" 2 "${todo[@]}"
