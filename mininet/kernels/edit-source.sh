#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# edit-source.sh: changes the source of Linux in the working directory for the exact lab. Fails where a version's source
# differs from what is expected here.
#
# - HZ 100 -> 1000. At 100 the timers of PIE and RED round to 10 ms.
# - The clock counts single ns. Neither reading the clock nor a system call that fails takes virtual time, except for a
#   program that tries again and again (clock.h).
# - The kernel's random state comes from the host's getrandom() alone, which the lab answers from the seed (getrandom.c).
#   Times of interrupts, devices and the command line are not mixed in.
# - Room for the extended registers of a thread: 16,384 bytes in place of 2,696. A CPU with AMX has 11,008 bytes of them
#   (CPUID leaf 0xD), and ptrace rejects a smaller buffer. From Linux 6.13 on the kernel asks the host for the size.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { printf 'lab kernel: %s\n' "$*" >&2; exit 1; }

# edit FILE SED-SCRIPT WANTED: FILE must then have a line that matches WANTED (grep -E).
edit() {
  sed -i "$2" "$1"
  grep -qE "$3" "$1" || die "$1 of the kernel's source differs from what $(basename "$0") expects to change"
}

edit arch/um/Kconfig '/^config HZ$/,/^$/s/default 100$/default 1000/' '^\s+default 1000$'
cp "$here/clock.h" arch/um/kernel/
time_c=arch/um/kernel/time.c
edit $time_c '/^static u64 timer_read(/i #include "clock.h"\n' '^#include "clock.h"$'
edit $time_c '/^static u64 timer_read(/,/^}/s/time_travel_update_time_rel(TIMER_M[A-Z]*)/time_travel_try(CLOCK_READ_NS)/' \
  '^\s+time_travel_try\(CLOCK_READ_NS\);$'
edit arch/um/kernel/skas/syscall.c \
  's/um_udelay(1);/{ void time_travel_failed_call(long error); time_travel_failed_call(ret); }/' \
  'time_travel_failed_call\(ret\);'
edit drivers/char/random.c 's/blake2s_update(&input_pool.hash, buf, len);/(void)buf;/' '^\s\(void\)buf;$'
if grep -q HOST_FP_SIZE arch/x86/um/user-offsets.c; then
  edit arch/x86/um/user-offsets.c 's/DEFINE_LONGS(HOST_FP_SIZE, 2696)/DEFINE_LONGS(HOST_FP_SIZE, 16384)/' \
    'DEFINE_LONGS\(HOST_FP_SIZE, 16384\)'
fi
