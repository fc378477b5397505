#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One publisher brings a file to three receivers by name, through a P4 switch on this machine's kernel in real time. Each
# command is printed before it runs.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
root=$(cd "$here/../.." && pwd)

usage() {
  cat <<'TEXT'
usage: mininet/examples/one_to_three.sh [--bmv2] FILE FOLDER

Brings FILE to FOLDER/1, FOLDER/2 and FOLDER/3, by name, from one publisher to three receivers. As root. The switch is
weir-switch; with --bmv2 it is simple_switch_grpc, with p4c and simple_switch_CLI. Publisher, switch and receivers are in
network namespaces of their own, which end with this command; the machine's own interfaces are not touched.

Exit status: 0 all three have the file, 1 something failed, 2 wrong call.
TEXT
}

fail() { echo "one_to_three.sh: $1" >&2; exit "${2:-1}"; }

switch=weir-switch options=()
case ${1:-} in
  -h | --help) usage; exit ;;
  --bmv2) switch=bmv2 options=(--bmv2); shift ;;
  -*) fail "unknown option '$1'; there is only --bmv2" 2 ;;
esac
[ $# -eq 2 ] || { usage >&2; exit 2; }
if [ ! -f "$1" ] || [ ! -r "$1" ]; then fail "$1: is no file that can be read; give the file to bring" 2; fi
[ "$(id -u)" -eq 0 ] || fail "needs root, for network namespaces: sudo $0 $*" 2
file=$(readlink -f "$1") folder=$(readlink -m "$2") name=$(basename "$1")
case $name in .* | "~"*) fail "$name: a publisher does not offer names that begin with . or ~; rename the file" 2 ;; esac
for number in 1 2 3; do
  [ ! -e "$folder/$number/$name" ] || fail "$folder/$number/$name: is there already; give another folder" 2
done

if [ -z "${ONE_TO_THREE:-}" ]; then # outside: build what is missing, then go inside
  needed=(ip ethtool unshare setpriv)
  [ "$switch" = weir-switch ] || needed+=(simple_switch_grpc simple_switch_CLI)
  for program in "${needed[@]}"; do
    command -v "$program" >/dev/null || fail "$program is not on PATH"
  done
  [ "$switch" = weir-switch ] || command -v p4c-bm2-ss >/dev/null || command -v p4c >/dev/null || fail "p4c is not on PATH"
  if [ -z "${WEIR_BUILT:-}" ]; then # tests set it: they are about the programs that are there
    "$root/run" switch --help >/dev/null
    "$root/run" icn --help >/dev/null
  fi
  mkdir -p /run/netns # where `ip netns` has names; inside it is a folder of our own
  ONE_TO_THREE=inside exec unshare -nm "$0" "${options[@]}" "$file" "$folder"
fi

work=$(mktemp -d)
finish() {
  # shellcheck disable=SC2046  # a word for each job
  kill $(jobs -p) 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
export PATH="$root/build/bin:$PATH"
cd "$root"
exec 3>&1 # for the commands that are shown; what they print themselves may go elsewhere

# shown COMMAND...: prints it, and runs it. on HOST COMMAND...: runs it at a host, for `&`; it ends when we do. `switch` is
# where we are.
shown() { echo "\$ $*" >&3; "$@"; }
on() {
  local where=(ip netns exec "$1")
  [ "$1" != switch ] || where=()
  echo "$1\$ ${*:2}" >&3
  exec setpriv --pdeathsig TERM -- "${where[@]}" "${@:2}"
}
# soon WHAT PID COMMAND...: until COMMAND succeeds. The process that must make it so has to live meanwhile.
soon() {
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if "${@:3}" 2>/dev/null; then return; fi
    kill -0 "$2" 2>/dev/null || break
    sleep 0.1
  done
  sed "s/^/  /" "$work/$1.log" >&2
  fail "$1 is not ready; what it said stands above"
}
listens() { (: <"/dev/tcp/127.0.0.1/9559"); }
sent_bytes() { ip netns exec publisher cat /sys/class/net/eth0/statistics/tx_bytes; }

# The network: a link from each host to a port of the switch, which is where we are.
ip link set lo up
mount -t tmpfs tmpfs /run/netns
port=0
for host in publisher receiver1 receiver2 receiver3; do
  port=$((port + 1))
  ip netns add "$host"
  ip link add "s$port" type veth peer name eth0 netns "$host" address "02:00:00:00:00:0$port"
  ip link set "s$port" addrgenmode none up
  # else BMv2's receive ring of 2 MB holds 32 frames, 64 kB for each, and loses the rest of a burst
  ethtool -K "s$port" tso off gso off gro off >/dev/null
  ip -n "$host" addr add "10.0.0.$port/24" dev eth0
  ip -n "$host" link set eth0 addrgenmode none up
  # else packets with unfinished checksums are forwarded
  ip netns exec "$host" ethtool -K eth0 tx off tso off gso off gro off >/dev/null
done
# The publisher's link is the narrow one. While an Interest is out, those of others join it.
shown tc -n publisher qdisc add dev eth0 root tbf rate 10mbit burst 5kb limit 100kb

ports=(-i 1@s1 -i 2@s2 -i 3@s3 -i 4@s4)
if [ "$switch" = bmv2 ]; then
  on switch simple_switch_grpc --no-p4 "${ports[@]}" -- --grpc-server-addr 127.0.0.1:9559 >"$work/switch.log" 2>&1 &
else
  on switch weir-switch --no-p4 "${ports[@]}" --queue default:rate=100mbit,depth=1000p >"$work/switch.log" 2>&1 &
fi
soon switch $! listens
shown ./run weir p4 deploy --program p4/programs/edge.p4 --config mininet/examples/one_to_three.toml | tail -n 1
if [ "$switch" = bmv2 ]; then # rates are in packets/s there, and not set by P4Runtime
  for port in 2 3 4; do
    printf 'set_queue_rate 8000 %s\nset_queue_depth 1000 %s\n' "$port" "$port"
  done | shown simple_switch_CLI >"$work/queues.log"
fi

# The publisher, and three receivers at the same time.
mkdir "$work/films"
cp "$file" "$work/films/$name"
on publisher weir-icn publish "$work/films" --name /weir/files --interface eth0 --listen 10.0.0.1:4434 \
  --state-dir "$work/state" >"$work/publisher.log" 2>&1 &
publisher=$!
soon publisher "$publisher" grep -q ^publisher "$work/publisher.log"
before=$(sent_bytes)
getters=()
for number in 1 2 3; do
  mkdir -p "$folder/$number"
  on "receiver$number" weir-icn get "/weir/files/$name" --from 10.0.0.1:4434 --ca "$work/state/weir-server-ca.pem" \
    --known-publishers none --interface eth0 --quiet --output "$folder/$number/$name" &
  getters+=($!)
done
for number in 1 2 3; do
  status=0
  wait "${getters[number - 1]}" || status=$?
  [ "$status" -ne 130 ] || exit 130 # Ctrl-C reached it before it reached us
  [ "$status" -eq 0 ] || fail "receiver$number did not get the file; why stands above"
done
sent=$(($(sent_bytes) - before)) size=$(stat -c %s "$file")

[ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$folder"
for number in 1 2 3; do
  shown cmp "$file" "$folder/$number/$name" || fail "receiver$number has other bytes"
done
shown ./run weir p4 show --names --config mininet/examples/one_to_three.toml # what became of the Interests
echo "the file has $size bytes; the publisher sent $sent for all three"
