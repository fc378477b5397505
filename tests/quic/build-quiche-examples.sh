#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example clients and servers of quiche, from the source that the registry sent for our own build, and prints
# the folder they are in (build/peers/quiche). Nothing is done where they are there already. The source is copied,
# because the registry's folder is not ours to write in. The lock beside this file names the same BoringSSL as
# quic-client/Cargo.lock, whose build of it is taken where there is one: that saves four minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
version=$(sed -n '/^name = "quiche"$/{n;s/^version = "\(.*\)"$/\1/p;}' "$here/quiche-examples.lock")
peers=$root/build/peers
source=$peers/quiche-$version

mkdir -p "$peers"
exec 9>"$peers/quiche.lock"
flock 9
stamp=$peers/quiche/lock
if cmp -s "$here/quiche-examples.lock" "$stamp"; then
  echo "$peers/quiche"
  exit
fi
manifest=$(cargo metadata --locked --format-version 1 --manifest-path "$root/quic-client/Cargo.toml" |
  python3 -c '
import json, sys
wanted = ("quiche", sys.argv[1])
found = [p["manifest_path"] for p in json.load(sys.stdin)["packages"] if (p["name"], p["version"]) == wanted]
if not found:
    sys.exit("quiche %s, which quiche-examples.lock is for, is no part of quic-client any more" % sys.argv[1])
print(found[0])' "$version")
rm -rf "$source" "$peers/quiche"
cp -r "$(dirname "$manifest")" "$source"
cp "$here/quiche-examples.lock" "$source/Cargo.lock"
ours=$(find "$root"/build/cargo/release/build/boring-sys-*/out/build -name libssl.a -printf '%T@ %h\n' 2>/dev/null |
  sort -n | tail -n 1 | cut -d' ' -f2)
if [ -n "$ours" ]; then
  export BORING_BSSL_PATH=$ours BORING_BSSL_INCLUDE_PATH=${ours%/build}/boringssl/include
fi
export CARGO_TARGET_DIR=$peers/cargo
cargo build --quiet --release --locked -j2 --manifest-path "$source/Cargo.toml" --examples >&2 9>&-
mkdir -p "$peers/quiche"
for name in client server http3-client http3-server; do
  cp "$CARGO_TARGET_DIR/release/examples/$name" "$peers/quiche/"
done
cp "$source/examples/cert.crt" "$source/examples/cert.key" "$peers/quiche/"
cp "$here/quiche-examples.lock" "$stamp"
echo "$peers/quiche"
