// SPDX-License-Identifier: Apache-2.0
//! Another user in root's place, once everything that takes root's rights is open.

use crate::fault::{Fault, USAGE};
use nix::errno::Errno;
use nix::unistd::{Uid, setgroups, setresgid, setresuid};
use rustix::fs::{Access, access};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::path::Path;

/// A user whom the system knows, with fewer rights than root.
#[derive(Debug)]
pub struct User(nix::unistd::User);

impl User {
    /// The user of this name, for a process that may become another user.
    ///
    /// # Errors
    /// There is no such user, it is root, the system's list of users can't be read, or this process is not root's.
    pub fn find(name: &str) -> Result<User, Fault> {
        let fault = |what: String| Fault::new(USAGE, format!("--user {name}: {what}"));
        let found = nix::unistd::User::from_name(name).map_err(|e| fault(e.to_string()))?;
        let user = found.ok_or_else(|| fault("there is no such user".to_owned()))?;
        if user.uid.is_root() {
            return Err(fault("that is root; expected a user with fewer rights".to_owned()));
        }
        if !Uid::effective().is_root() {
            return Err(fault("to become another user takes root; start as root, or without --user".to_owned()));
        }
        Ok(User(user))
    }

    /// Becomes that user, for good: no group but its own, no capability, and no program run later gets more. To be called
    /// while there is one thread: capabilities are a thread's own.
    ///
    /// # Errors
    /// The kernel does not let this process change.
    pub fn become_now(&self) -> Result<(), Fault> {
        let User(user) = self;
        let ids = || {
            setgroups(&[user.gid])?;
            setresgid(user.gid, user.gid, user.gid)?;
            setresuid(user.uid, user.uid, user.uid)
        };
        // The kernel takes root's capabilities with its number, unless this process's parent prevented it.
        let none = CapabilitySet::empty();
        let rights = || {
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
            set_no_new_privs(true)
        };
        let fault = |e: std::io::Error| Fault::io(format!("--user {}", user.name))(e);
        ids().map_err(|e: Errno| fault(e.into()))?;
        rights().map_err(|e| fault(e.into()))
    }

    /// Checks that a folder in which files are made later is one where the user, which this process is by now, may.
    ///
    /// # Errors
    /// It may not.
    pub fn may_write_into(&self, option: &str, folder: &Path) -> Result<(), Fault> {
        let what = || format!("{option} {}: user {} has to make files there", folder.display(), self.0.name);
        access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| Fault::io(what())(e.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_will_not_do_is_refused_with_the_reason() {
        for (name, said) in [("weir-no-such", "there is no such user"), ("root", "that is root")] {
            let fault = User::find(name).unwrap_err();
            assert_eq!(fault.code, USAGE);
            assert!(fault.text.contains(said) && fault.text.contains(name), "{fault}");
        }
    }
}
