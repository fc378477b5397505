// SPDX-License-Identifier: Apache-2.0
//! One blocking wait per iteration: descriptors and a deadline, to the nanosecond, in one system call.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

const EVENTS: usize = 64;

/// An epoll set.
pub struct Waiter {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Waiter {
    /// An empty set. Also asks the kernel to wake this thread without its usual 50 us of slack.
    pub fn new() -> io::Result<Waiter> {
        // SAFETY: no pointers involved; the descriptor returned is ours alone.
        let epoll = unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize);
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Waiter { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS] })
    }

    /// Adds a descriptor; `token` names it when it is readable.
    pub fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: `event` outlives the call.
        let rc = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes a descriptor out.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the event may be null for this operation.
        let rc = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until a descriptor is readable or `deadline` has come (`None`: without end), `now` being the time. Leaves
    /// the tokens of the readable ones in `ready`, in the kernel's order, the first that became readable first.
    pub fn wait(&mut self, now: Instant, deadline: Option<Instant>, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        let left = deadline
            .map(|d| d.saturating_duration_since(now))
            .map(|d: Duration| libc::timespec { tv_sec: d.as_secs() as _, tv_nsec: d.subsec_nanos() as _ });
        let timeout = left.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `events` has room for EVENTS entries, `timeout` is null or points at `left`; no signal mask. The raw
        // call, because C libraries before 2.35 lack it and its arguments are the same on all 64-bit machines.
        let n = unsafe {
            let fd = self.epoll.as_raw_fd();
            let no_mask = ptr::null::<libc::sigset_t>();
            libc::syscall(libc::SYS_epoll_pwait2, fd, self.events.as_mut_ptr(), EVENTS, timeout, no_mask, 0usize)
        };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(e) };
        }
        ready.extend(self.events[..n as usize].iter().map(|e| e.u64));
        Ok(())
    }
}

/// Wakes a thread that waits: an eventfd.
pub struct Wakeup {
    fd: OwnedFd,
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Wakeup {
    /// One that is not readable.
    pub fn new() -> io::Result<Wakeup> {
        // SAFETY: no pointers involved; the descriptor returned is ours alone.
        unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Wakeup { fd: OwnedFd::from_raw_fd(fd) }) }
        }
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Makes it readable.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: `one` outlives the call and has the size that is written. It fails only if the counter is full: then
        // the descriptor is readable.
        unsafe { libc::write(self.fd.as_raw_fd(), ptr::from_ref(&one).cast(), size_of::<u64>()) };
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: `count` outlives the call and has the size that is read. It fails only if the counter is 0.
        unsafe { libc::read(self.fd.as_raw_fd(), ptr::from_mut(&mut count).cast(), size_of::<u64>()) };
    }
}

/// SIGINT, SIGTERM and SIGHUP as something to wait for.
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves.
    pub fn catch() -> io::Result<Signals> {
        // SAFETY: `set` is initialised by sigemptyset before use and outlives the calls.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::sigaddset(&mut set, libc::SIGTERM);
            // A signal that is waited for arrives although it is ignored, which is what nohup asks for.
            let mut hangup: libc::sigaction = zeroed();
            if libc::sigaction(libc::SIGHUP, ptr::null(), &mut hangup) != 0 {
                return Err(io::Error::last_os_error());
            }
            if hangup.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, libc::SIGHUP);
            }
            let rc = libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            if rc != 0 {
                return Err(io::Error::from_raw_os_error(rc));
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// Keeps all signals from the calling thread: another one waits for them.
    pub fn leave_to_others() -> io::Result<()> {
        // SAFETY: `set` is initialised by sigfillset before use and outlives the call.
        let rc = unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigfillset(&mut set);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut())
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(rc)) }
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes one signal that arrived, if any.
    pub fn take(&self) -> Option<i32> {
        // SAFETY: `info` is plain data and has the size that is read.
        unsafe {
            let mut info: libc::signalfd_siginfo = zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let n = libc::read(self.fd.as_raw_fd(), ptr::from_mut(&mut info).cast(), size);
            (n == size as isize).then_some(info.ssi_signo as i32)
        }
    }
}

/// One moment as an `Instant` and as microseconds of `CLOCK_MONOTONIC` (which `Instant` is, without saying so).
pub fn moment() -> (Instant, u64) {
    let now = Instant::now();
    // SAFETY: `t` outlives the call.
    let t = unsafe {
        let mut t: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t);
        t
    };
    (now, t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_readable() {
        let mut w = Waiter::new().unwrap();
        let (a, b) =
            (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        w.add(a.as_raw_fd(), 7).unwrap();
        w.add(b.as_raw_fd(), 8).unwrap();
        a.send_to(b"x", b.local_addr().unwrap()).unwrap();
        let mut ready = Vec::new();
        w.wait(Instant::now(), None, &mut ready).unwrap();
        assert_eq!(ready, [8]);
        w.remove(b.as_raw_fd()).unwrap();
        let now = Instant::now();
        w.wait(now, Some(now), &mut ready).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn another_thread_wakes_it() {
        let mut w = Waiter::new().unwrap();
        let wakeup = Wakeup::new().unwrap();
        w.add(wakeup.fd(), 5).unwrap();
        let mut ready = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| wakeup.wake());
            w.wait(Instant::now(), None, &mut ready).unwrap();
        });
        assert_eq!(ready, [5]);
        wakeup.clear();
        let now = Instant::now();
        w.wait(now, Some(now), &mut ready).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn never_wakes_before_the_deadline() {
        let mut w = Waiter::new().unwrap();
        let mut ready = Vec::new();
        for us in [0, 1, 300, 1500] {
            let now = Instant::now();
            let deadline = now + Duration::from_micros(us);
            w.wait(now, Some(deadline), &mut ready).unwrap();
            assert!(Instant::now() >= deadline && ready.is_empty());
        }
    }
}
