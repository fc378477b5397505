// SPDX-License-Identifier: Apache-2.0
//! Virtual time for one test thread. quiche reads the monotonic clock by itself, so the function under `Instant::now`
//! is replaced, as in `weir-io`'s clock; here the simulation sets the time, and only in its own thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

const NS_PER_S: i64 = 1_000_000_000;

thread_local! {
    static NOW_NS: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Time stands still in this thread from now on, at a day after the clock's zero.
pub fn start() -> Instant {
    NOW_NS.set(Some(86_400 * NS_PER_S));
    Instant::now()
}

/// It is `now`; time does not run backwards.
pub fn set(now: Instant) {
    let ahead = now.duration_since(Instant::now());
    NOW_NS.set(NOW_NS.get().map(|ns| ns + Duration::as_nanos(&ahead) as i64));
}

/// Stands before the C library's function of this name.
///
/// # Safety
/// `t` must be null or point at room for a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: libc::clockid_t, t: *mut libc::timespec) -> libc::c_int {
    // A thread that is ending has no such variable any more, and no simulation.
    let virtual_ns = NOW_NS.try_with(Cell::get).ok().flatten();
    match virtual_ns {
        Some(ns) if id == libc::CLOCK_MONOTONIC && !t.is_null() => {
            // SAFETY: not null, and the caller's promise.
            unsafe { t.write(libc::timespec { tv_sec: ns / NS_PER_S, tv_nsec: ns % NS_PER_S }) };
            0
        }
        // SAFETY: same arguments, same meaning.
        _ => unsafe { libc::syscall(libc::SYS_clock_gettime, id, t) as libc::c_int },
    }
}
