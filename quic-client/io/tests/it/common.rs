// SPDX-License-Identifier: Apache-2.0
//! Network namespaces for tests: a thread's own, which goes with the thread.

use std::io;
use std::process::Command;

/// Moves this thread into a new network namespace; false, and says why, where that is not allowed.
pub fn private_network() -> bool {
    // SAFETY: no pointers involved; a network namespace is a thread's own.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        return true;
    }
    eprintln!("SKIP: a private network namespace: {} (needs CAP_SYS_ADMIN)", io::Error::last_os_error());
    false
}

/// Whether this kernel has IPv6; says so where it has not.
#[allow(dead_code)] // not every test's
pub fn ipv6() -> bool {
    let there = std::path::Path::new("/proc/self/net/if_inet6").exists();
    if !there {
        eprintln!("SKIP: this kernel has no IPv6");
    }
    there
}

/// Runs `ip` with these words; it must succeed.
pub fn ip(words: &str) {
    let out = Command::new("ip").args(words.split_whitespace()).output().expect("iproute2 is installed");
    assert!(out.status.success(), "ip {words}: {}", String::from_utf8_lossy(&out.stderr));
}
