# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by run and install.sh, with `root` set: whose clone this is, and what that means when root calls (sudo ./run).

: "${root:?}"

# To run a command as the clone's owner: words before it, none if that is us. A user that this machine doesn't know
# (a clone mounted into a container) can't be asked for a home or a toolchain: then we stay root, and hand over after.
owner_words=()
home_of() { getent passwd "$1" | cut -d: -f6 || true; }
HOME=${HOME:-$(home_of "$(id -u)")}
[ -n "$HOME" ] || { echo "weir: HOME is not set, and there is no user $(id -u); set HOME to a folder of yours" >&2; exit 1; }
export HOME
owner_home=$HOME
if [ "$(id -u)" -eq 0 ] && owner=$(getent passwd "$(stat -c %u "$root")") && [ "${owner%%:*}" != root ]; then
  IFS=: read -r owner_name _ owner_id owner_group _ owner_home _ <<<"$owner"
  owner_words=(setpriv --reuid="$owner_id" --regid="$owner_group" --init-groups env
    HOME="$owner_home" USER="$owner_name" LOGNAME="$owner_name")
fi
as_owner() { "${owner_words[@]}" "$@"; }

# Where the lab kernel is kept: with the user whose clone this is. Nothing else is looked for there.
if [ "$owner_home" = "$HOME" ]; then cache=${XDG_CACHE_HOME:-$HOME/.cache}; else cache=$owner_home/.cache; fi
export WEIR_CACHE_HOME="${WEIR_CACHE_HOME:-$cache}"

# Gives files that root has made in the clone to its owner.
to_owner() {
  local path
  [ "$(id -u)" -eq 0 ] && [ "$(stat -c %u "$root")" -ne 0 ] || return 0
  for path in "$@"; do
    [ ! -e "$path" ] || find "$path" -uid 0 -exec chown -h --reference="$root" {} +
  done
}

# Cargo on PATH. sudo leaves out what a user has there, so look where rustup puts it, for us and for the clone's owner, and
# then where our own login shell finds it. Never with SUDO_USER, who need not own what root runs here.
find_cargo() {
  local home found
  ! command -v cargo >/dev/null || return 0
  for home in "$HOME" "$owner_home"; do
    if [ -n "$home" ] && [ -x "$home/.cargo/bin/cargo" ]; then
      PATH=$home/.cargo/bin:$PATH
      [ "$home" = "$HOME" ] || export RUSTUP_HOME="${RUSTUP_HOME:-$home/.rustup}"
      return 0
    fi
  done
  found=$(bash -lc 'command -v cargo' 2>/dev/null </dev/null) && [ -x "$found" ] && PATH=$(dirname "$found"):$PATH
}
