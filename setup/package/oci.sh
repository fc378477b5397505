#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./run package --oci: a container image that runs ./run of this clone, as an OCI archive: the release of Debian that this
# machine has, the packages that ./run needs, the clone, all that is built, and the lab kernel. Made with debootstrap and
# umoci; called by package.sh. oci.sh FOLDER VERSION prints the archive's path.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$1 version=$2
build=$root/build image_clone=/opt/weir
# Parts that are in the image: built here, and needed at run time. ./run asks install.sh for no others.
BUILT="xdp lab_tools rust p4"
RUNS="aqm quic lab packaged python"
say() { printf 'weir: %s\n' "$*" >&2; }
die() { printf './run package --oci: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || die "needs root, for debootstrap and chroot; call it with sudo"
kernel=$(XDG_CACHE_HOME=$WEIR_CACHE_HOME "$root/mininet/kernels/build-exact.sh" --where) || die "the lab kernel is not built"
codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
# shellcheck disable=SC2016  # apt-get expands these
read -r archive < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
  | awk -v release="$codename" '$2 == release && $3 == "main" && !seen++ { print $1 }') || die "this machine's package sources have no $codename"

mkdir -p "$build/package"
work=$(mktemp -d "$build/package/oci.XXXXXX")
log=$build/package/oci.log
mounted=()
clean_up() {
  local place
  for place in "${mounted[@]}"; do umount "$place" || return; done # else rm would go into them
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
image=$work/root
inside() { chroot "$image" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }
logged() { "$@" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; die "failed: $1; its whole output: $log"; }; }

: >"$log"
say "container image $version: Debian $codename"
logged debootstrap --variant=minbase "$codename" "$image" "$archive"
cp /etc/resolv.conf "$image/etc/"
cp -r /etc/apt/sources.list* "$image/etc/apt/" 2>/dev/null || true
mount -t proc proc "$image/proc"
mounted=("$image/proc")

say "container image: the clone and its programs"
mkdir -p "$image$image_clone/build/bin" "$image$image_clone/build/stamps"
git -c safe.directory="$root" -C "$root" ls-files -z | tar -C "$root" --null -T - -c | tar -C "$image$image_clone" -x
for folder in xdp lab bmv2; do cp -r "$build/$folder" "$image$image_clone/build/"; done
rm -rf "$image$image_clone"/build/*/obj
(cd "$build" && find cargo/release cargo-p4/release -maxdepth 1 -type f -executable -name 'weir-*') | while read -r program; do
  mkdir -p "$image$image_clone/build/$(dirname "$program")"
  strip -o "$image$image_clone/build/$program" "$build/$program"
done
cp -d "$build"/bin/weir-* "$image$image_clone/build/bin/"
inside useradd -m -u 1000 weir
mkdir -p "$image/home/weir/.cache/weir"
cp -r "$kernel" "$image/home/weir/.cache/weir/"

say "container image: Debian and Python packages"
mkdir -p "$image/etc/ssl/certs"
logged inside apt-get -q update
# shellcheck disable=SC2016,SC2086  # the inner shell expands these; words
logged inside env DEBIAN_FRONTEND=noninteractive bash -euc '
  root=$1 && shift
  die() { echo "$*" >&2; exit 1; }
  say() { echo "$*" >&2; }
  . "$root/setup/packages.sh"
  look_for_packages "$@"
  apt-get -q -y install --no-install-recommends "${missing[@]}"' bash "$image_clone" $RUNS
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp "$image/etc/ssl/certs/ca-certificates.crt" "$work/certificates"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/" # of a proxy here
logged inside env "PIP_CERT=/etc/ssl/certs/ca-certificates.crt" "$image_clone/setup/install.sh" python
[ ! -e "$work/certificates" ] || cp "$work/certificates" "$image/etc/ssl/certs/ca-certificates.crt"
rm -rf "$image"/root/.cache "$image"/var/lib/apt/lists/* "$image"/var/cache/apt/* "$image$image_clone"/build/*.log "$image$image_clone"/build/setup.*
chroot "$image" chown -R weir:weir "$image_clone" /home/weir
# Layers hold whole seconds, and set-up recognises a program by its time.
find "$image$image_clone/build" -type f -newermt @0 -exec touch -h -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" {} +
for step in $BUILT; do
  inside setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/weir "$image_clone/setup/install.sh" --stamp "$step" \
    || die "the programs of step $step are not all built"
done
umount "$image/proc"
mounted=()

say "container image: layer"
logged umoci init --layout "$work/oci"
logged umoci new --image "$work/oci:weir"
logged umoci insert --image "$work/oci:weir" "$image" /
logged umoci config --image "$work/oci:weir" --config.user weir --config.workingdir /home/weir \
  --config.entrypoint "$image_clone/run" --config.cmd help --config.env HOME=/home/weir --config.env LC_ALL=C.UTF-8 \
  --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
logged umoci gc --layout "$work/oci"
mkdir -p "$out"
tar -C "$work/oci" -cf "$out/weir-$version-oci.tar.part" .
mv "$out/weir-$version-oci.tar.part" "$out/weir-$version-oci.tar"
printf '%s\n' "$out/weir-$version-oci.tar"
