#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2154  # job.sh is written for each run
# Process 1 of a User-Mode Linux lab. Its own folder on the host is found through the kernel process's working
# directory, not through the kernel command line: programs can read that line, so it must be the same in every run. The
# folder holds `job.sh` (what to run and how) and receives stdout, stderr and status.
run=$(readlink /proc/self/cwd)          # still the host's /proc, seen through hostfs: the kernel process's folder
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022
# A container has no init system to bring poweroff; perl is a part of every Debian (169: reboot(2) of x86-64).
power_off() {
  if command -v poweroff >/dev/null; then poweroff -f; fi
  perl -e 'syscall(169, 0xfee1dead, 0x28121969, 0x4321fedc, 0)'
}
fail() { echo "weir-lab-init: $*"; dmesg | tail -n 3; power_off; }

mount -t proc proc /proc || fail "cannot mount proc"
mount -t sysfs sys /sys || fail "cannot mount sysfs"
mount -t tmpfs run /run || fail "cannot mount tmpfs on /run"
mkdir -p /run/out /run/keep /run/lock
# hostfs takes its folder as the option string of mount(2); it rejects the calls of util-linux 2.39 and later.
LIBMOUNT_FORCE_MOUNT2=always mount -t hostfs none /run/out -o "$run" || fail "cannot mount the run's folder"
. /run/out/job.sh || fail "cannot read job.sh"   # sets: keep, hidden, modules, command, directory, limit_s, variables

# /tmp becomes the lab's own; what the job needs from the host's /tmp or /run (a clone kept there) stays visible.
n=0
for path in "${keep[@]}"; do
  case "$path/" in
    /tmp/*) n=$((n + 1)); mkdir "/run/keep/$n"; mount --bind "$path" "/run/keep/$n" || fail "cannot keep $path" ;;
    /run/*) fail "the project cannot lie below /run" ;;
  esac
done
mount -t tmpfs tmp /tmp -o mode=1777 || fail "cannot mount tmpfs on /tmp"
n=0
for path in "${keep[@]}"; do
  case "$path/" in
    /tmp/*) n=$((n + 1)); mkdir -p "$path"; mount --bind "/run/keep/$n" "$path" || fail "cannot keep $path" ;;
  esac
done
for path in "${hidden[@]}"; do mount -t tmpfs hidden "$path" || fail "cannot hide $path"; done
mount -t tmpfs shm /dev/shm 2>/dev/null || mkdir -p /dev/shm
mkdir -p /dev/pts /dev/net
mount -t devpts devpts /dev/pts -o newinstance,ptmxmode=0666,mode=0620 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
if [ -n "$modules" ]; then   # the kernel's modules are not where modprobe looks for the machine's own
  mkdir -p /run/modules/lib
  ln -s "$modules" /run/modules/lib/modules
  printf '#!/bin/sh\nexec /sbin/modprobe -d /run/modules "$@"\n' >/run/modprobe
  chmod +x /run/modprobe
  echo /run/modprobe >/proc/sys/kernel/modprobe
  /run/modprobe ipv6 # links are set up by netlink, which does not ask for it
fi
ip link set lo up
hostname lab
sleep 1 # getting here has taken no time of the lab's, and some take the time 0 for none

cd "$directory" || fail "cannot enter $directory"
read -r started _ </proc/uptime
setsid timeout --kill-after=5 "$limit_s" env -i "${variables[@]}" "${command[@]}" \
  >/run/out/stdout 2>/run/out/stderr </dev/null
status=$?
read -r ended _ </proc/uptime
printf '%s %s %s\n' "$status" "$started" "$ended" >/run/out/status
sync
power_off
