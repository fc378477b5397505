// SPDX-License-Identifier: Apache-2.0
//! Rights that are given up once ports are open: another user in root's place, and no capability but the one that
//! interfaces which come back need.
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use rustix::thread::{Gid, Uid};
use std::ffi::CString;
use std::io::{Error, Result};
use std::mem::zeroed;
use std::ptr::null_mut;

/// Packet sockets, whenever a port's interface appears. Its send buffer is then as large as net.core.wmem_max allows: to
/// go beyond takes CAP_NET_ADMIN, with which one can also change the whole network.
const KEPT: CapabilitySet = CapabilitySet::NET_RAW;

/// User and group of a name in the system's list of users.
///
/// # Errors
/// There is no such user, or the list can't be read.
fn look_up(name: &str) -> std::result::Result<(Uid, Gid), String> {
    let c_name = CString::new(name).map_err(|_| format!("{name:?} can't be a user's name"))?;
    let mut buffer = vec![0; 16 << 10];
    // SAFETY: passwd is plain data; all pointers are to variables that live as long as the call, with their true sizes.
    let (code, found) = unsafe {
        let (mut entry, mut found): (libc::passwd, *mut libc::passwd) = (zeroed(), null_mut());
        let code = libc::getpwnam_r(c_name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found);
        (code, (!found.is_null()).then_some((entry.pw_uid, entry.pw_gid)))
    };
    match found {
        Some((uid, gid)) => Ok((Uid::from_raw(uid), Gid::from_raw(gid))),
        None if code == 0 => Err(format!("there is no user {name}")),
        None => Err(format!("user {name}: {}", Error::from_raw_os_error(code))),
    }
}

/// Becomes a user, for good: no group but his own, no capability but [`KEPT`], and no program run later gets more. To be
/// called while there is one thread: rights are a thread's own.
///
/// # Errors
/// There is no such user, it is root, there are other threads, or the kernel does not let this process change.
pub fn become_user(name: &str) -> std::result::Result<(), String> {
    let (uid, gid) = look_up(name)?;
    if uid.is_root() {
        return Err(format!("user {name} is root; name one with less rights"));
    }
    alone()?;
    change(uid, gid).map_err(|e| format!("user {name}: {e}; to become another user takes root"))
}

/// Gives up the capabilities of another user than root beyond [`KEPT`], as a service manager's ambient capabilities.
/// Root keeps its own: without [`become_user`] nothing else changes for it. To be called while there is one thread.
///
/// # Errors
/// There are other threads, or the kernel does not let this process change.
pub fn give_up_capabilities() -> std::result::Result<(), String> {
    // SAFETY: the call takes nothing and can't fail.
    if unsafe { libc::geteuid() } == 0 {
        return Ok(());
    }
    alone()?;
    keep().map_err(|e| format!("capabilities can't be given up: {e}"))
}

/// Makes sure that no other thread would keep its rights.
fn alone() -> std::result::Result<(), String> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|e| format!("/proc/self/task: {e}"))?.count();
    if threads != 1 {
        return Err(format!("{threads} threads run already; each would keep its rights"));
    }
    Ok(())
}

fn change(uid: Uid, gid: Gid) -> Result<()> {
    for bit in (0..64).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        // The kernel knows the number of capabilities: it rejects the first that does not exist.
        match thread::capability_is_in_bounding_set(bit) {
            Ok(true) if bit != KEPT => thread::remove_capability_from_bounding_set(bit)?,
            Ok(_) => (),
            Err(_) => break,
        }
    }
    thread::set_keep_capabilities(true)?;
    thread::set_thread_groups(&[gid])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid)?;
    thread::set_keep_capabilities(false)?;
    keep()
}

/// Leaves [`KEPT`], if it is there. A capability that is no longer permitted is no longer ambient either
/// (capabilities(7)).
fn keep() -> Result<()> {
    let kept = thread::capabilities(None)?.permitted & KEPT;
    let none = CapabilitySet::empty();
    thread::set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })?;
    thread::set_no_new_privs(true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_root_is_none() {
        assert!(look_up("root").unwrap().0.is_root());
        assert_eq!(look_up("weir-no-such").unwrap_err(), "there is no user weir-no-such");
        assert!(look_up("a\0b").unwrap_err().contains("can't be a user's name"));
        assert_eq!(become_user("root").unwrap_err(), "user root is root; name one with less rights");
    }
}
