// SPDX-License-Identifier: Apache-2.0
//! The clock of an event-loop iteration: it is read once when a wait ends, and stands still until the next wait ends.
//!
//! quiche reads the monotonic clock in each call to `recv`, `send` and `on_timeout`. Where that is a system call, as in
//! User-Mode Linux, these reads are two thirds of all system calls (measured: 11 of 17 per data packet). An iteration
//! handles the arrivals of one moment, so that moment is the right time for all of it. The time is then the same for
//! quiche as the `now` that the core gets as an argument.
//!
//! quiche takes no time as argument, so the function under `Instant::now` is replaced: this crate defines
//! `clock_gettime`, which the linker prefers to the C library's. Unless [`Clock::PerTurn`] is chosen, it calls the C library's.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering::Relaxed};
use std::time::Instant;
use std::{io, ptr};

static FROZEN: AtomicBool = AtomicBool::new(false);
static FROZEN_NS: AtomicI64 = AtomicI64::new(0);
static REAL: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

const NS_PER_S: i64 = 1_000_000_000;

/// Frequency of readings of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// At each call, as usual.
    PerCall,
    /// Once per iteration. For one thread only: the whole process sees its time.
    PerTurn,
}

impl Clock {
    /// An iteration begins: the time now, read from the system.
    pub fn turn(self) -> io::Result<Instant> {
        if self == Clock::PerTurn {
            let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `t` outlives the call.
            if unsafe { real(libc::CLOCK_MONOTONIC, &mut t) } != 0 {
                return Err(io::Error::last_os_error());
            }
            FROZEN_NS.store(t.tv_sec * NS_PER_S + t.tv_nsec, Relaxed);
            FROZEN.store(true, Relaxed);
        }
        Ok(Instant::now())
    }
}

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

/// The C library's `clock_gettime`, which may be the kernel's vDSO and then costs no system call.
///
/// # Safety
/// As for `clock_gettime`.
unsafe fn real(id: libc::clockid_t, t: *mut libc::timespec) -> libc::c_int {
    let mut function = REAL.load(Relaxed);
    if function.is_null() {
        // SAFETY: the name is a C string.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        REAL.store(function, Relaxed);
    }
    if function.is_null() {
        // A C library without it as a symbol of its own (static): the kernel has it.
        // SAFETY: same arguments, same meaning.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, id, t) as libc::c_int };
    }
    // SAFETY: POSIX gives the symbol this type.
    let function = unsafe { std::mem::transmute::<*mut libc::c_void, ClockGettime>(function) };
    // SAFETY: the caller's promise.
    unsafe { function(id, t) }
}

/// Replaces the C library's function of this name.
///
/// # Safety
/// `t` must be null or point at room for a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: libc::clockid_t, t: *mut libc::timespec) -> libc::c_int {
    if id == libc::CLOCK_MONOTONIC && FROZEN.load(Relaxed) && !t.is_null() {
        let ns = FROZEN_NS.load(Relaxed);
        // SAFETY: not null, and the caller's promise.
        unsafe { t.write(libc::timespec { tv_sec: ns / NS_PER_S, tv_nsec: ns % NS_PER_S }) };
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { real(id, t) }
}
