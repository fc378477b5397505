#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One download with weir-client from weir-server over UDP, over names, and over names with --reliable, across one shaped
# link. To be run in the lab, from the repository's root:
#   ./run lab -- env RATE=100 DELAY=10 LOSS=0 SIZE=16MB LIMIT=400 bash "$PWD/icn/bench/lab.sh"
# RATE in Mbit/s, DELAY one way in ms, LOSS in %, LIMIT of the queue in packets.
set -euo pipefail
bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/bin
cd /tmp
mkdir -p /run/netns
for x in a b; do ip netns add $x; done
ip link add va netns a type veth peer name vb netns b
for x in a b; do
  ip -n $x link set lo up
  ip -n $x link set v$x up
  tc -n $x qdisc replace dev v$x root netem rate "${RATE}mbit" delay "${DELAY}ms" loss "${LOSS}%" limit "${LIMIT:-200}"
done
ip -n a addr add 10.0.0.1/24 dev va
ip -n b addr add 10.0.0.2/24 dev vb

download() { # LABEL ADDRESS:PORT
  ip netns exec a "$bin/weir-client" "https://$2/bytes/$SIZE" --insecure --json --gso off >out.json
  python3 -c 'import json, sys
flow = json.load(open("out.json"))["flows"][0]
print(sys.argv[1], "goodput %.3f Mbit/s" % (flow["goodput_bit_s"] / 1e6), "handshake", flow["handshake_us"], "us")' "$1"
}

ip netns exec b "$bin/weir-server" --ephemeral --listen 0.0.0.0:4433 --gso off >/dev/null &
server=$!
sleep 0.5
download udp 10.0.0.2:4433
for mode in "" --reliable; do
  ip netns exec b "$bin/weir-icn" server --interface vb --name /weir/web --to 127.0.0.1:4433 $mode >/dev/null &
  far=$!
  ip netns exec a "$bin/weir-icn" client --interface va --as /weir/hosts/phone --server /weir/web \
    --listen 127.0.0.1:4433 $mode >/dev/null &
  near=$!
  sleep 0.5
  download "names$mode" 127.0.0.1:4433
  kill -INT $far $near
  wait $far $near
done
kill $server
