// SPDX-License-Identifier: Apache-2.0
//! Files that the user names, in folders that other users may write to (CWE-59): no link of theirs is followed.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::geteuid;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bits of a folder's mode: others may write to it; they may not remove others' files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Whether no user but this one and root can put a link in this file's place.
fn is_ours_alone(path: &Path) -> Result<bool> {
    let ours = |m: &Metadata| m.uid() == 0 || m.uid() == geteuid().as_raw();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::metadata(folder)?;
    if !ours(&folder) {
        return Ok(false);
    }
    // A second name can be another user's hard link.
    let kept = || folder.mode() & STICKY != 0 && fs::symlink_metadata(path).is_ok_and(|m| ours(&m) && m.nlink() == 1);
    Ok(folder.mode() & OTHERS_WRITE == 0 || kept())
}

/// Opens a file for writing with these options, or makes it. In a folder where others may write it must be no link and, if it
/// is a plain file, this user's own with one name.
///
/// # Errors
/// It can't be opened, or is a link or a file of another user.
pub fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    if is_ours_alone(path)? {
        return options.open(path);
    }
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && (metadata.uid() != geteuid().as_raw() || metadata.nlink() != 1) {
        return Err(Error::new(ErrorKind::PermissionDenied, "it is not a file of this user with one name"));
    }
    Ok(file)
}

/// Makes a file, or empties it, as [`open`] does. A pipe must have a reader: none is waited for.
///
/// # Errors
/// As for [`open`].
pub fn create(path: &Path) -> Result<File> {
    let flags = libc::O_NONBLOCK;
    let file = open(path, OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags))?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Puts a file with this content in the place of `path`, whole or not at all. An existing temporary file of the name is
/// removed first: a link itself, not its target.
///
/// # Errors
/// It can't be written or renamed.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    let replaced = file.write_all(content).and_then(|()| fs::rename(&new, path));
    replaced.inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn no_link_that_others_laid_is_followed() {
        let dir = std::env::temp_dir().join(format!("weir-switch-files-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (target, link, hard) = (dir.join("target"), dir.join("link"), dir.join("hard"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, &link).unwrap();
        fs::hard_link(&target, &hard).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(create(&link).is_err() && create(&hard).is_err());
        assert!(open(&link, OpenOptions::new().append(true).create(true)).is_err());
        // As in /tmp: any user may have made the hard link.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(create(&hard).is_err());
        replace(&link, b"new").unwrap();
        assert_eq!((fs::read(&target).unwrap(), fs::read(&link).unwrap()), (b"kept".to_vec(), b"new".to_vec()));
        create(&dir.join("own")).unwrap().write_all(b"long").unwrap();
        create(&dir.join("own")).unwrap().write_all(b"x").unwrap();
        assert_eq!(fs::read(dir.join("own")).unwrap(), b"x");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(&target, &link).unwrap();
        // The user's own folder: the link is the user's own.
        create(&link).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"");
        fs::remove_dir_all(&dir).unwrap();
    }
}
