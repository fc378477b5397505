#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch-source.sh VERSION FOLDER: gets Debian's package linux-source-VERSION, which this machine need not know, and
# leaves in FOLDER `source.tar.xz` and `version` (the package's). Without such a package it says which there are.
#
# Newer kernels are in Debian's backports, in those of the release after Debian 12, and in unstable. These are read from
# where this machine has its packages, with a configuration of APT in FOLDER: the machine's own is not changed, nothing
# is installed, and no rights are needed.
set -euo pipefail
version=$1 folder=$2
later="trixie-backports sid"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
die() { printf 'lab kernel: %s\n' "$*" >&2; exit 1; }
ways="install the package linux-source-$version, or give its file or linux-$version.tar.xz of kernel.org by --lab-kernel-source FILE"

codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
format="\$(RELEASE) \$(COMPONENT) \$(REPO_URI)"
read -r _ _ address < <(apt-get indextargets --format "$format" 'Created-By: Packages' \
  | awk -v release="$codename" '$1 == release && $2 == "main" && !seen++') \
  || die "this machine's package sources have no Debian ${codename:-(unknown)}; $ways"

apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/none"
: >"$apt/status"
{
  printf 'Types: deb\nURIs: %s\nComponents: main\n' "$address"
  printf 'Suites: %s-backports %s\n' "$codename" "$later"
  [ ! -r "$keys" ] || printf 'Signed-By: %s\n' "$keys"
} >"$apt/suites.sources"
cat >"$apt/apt.conf" <<TEXT
Dir::State::status "$apt/status";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/suites.sources";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "$apt/status";
Dir::Etc::preferencesparts "$apt/none";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
APT::Sandbox::User "";
TEXT
export APT_CONFIG=$apt/apt.conf
apt-get -q update >"$apt/log" 2>&1 || tail -n 5 "$apt/log" >&2 # a mirror may lack a suite

package=linux-source-$version
if [ -z "$(apt-cache --names-only search "^linux-source-${version//./\\.}\$")" ]; then
  known=$(apt-cache --names-only search '^linux-source-[0-9]' | sed -n 's/^linux-source-\([0-9.]*\) .*/\1/p' | sort -Vu | paste -sd' ')
  die "Debian has no $package here; there are: ${known:-none}; $ways"
fi
(cd "$apt" && apt-get -q download "$package") >>"$apt/log" 2>&1 || { tail -n 5 "$apt/log" >&2; die "$package could not be had; $ways"; }
deb=$(find "$apt" -maxdepth 1 -name "$package*.deb")
dpkg-deb -f "$deb" Version >"$folder/version"
dpkg-deb --fsys-tarfile "$deb" | tar -xO -f - "./usr/src/$package.tar.xz" >"$folder/source.tar.xz" \
  || die "$package holds no usr/src/$package.tar.xz"
rm -rf "$apt"
