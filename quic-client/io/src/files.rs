// SPDX-License-Identifier: Apache-2.0
//! Files in folders that other users may write to (CWE-59, CWE-367): no link of theirs is followed, and a name is resolved
//! and opened in one step.

use crate::random;
use nix::unistd::geteuid;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Bits of a folder's mode: others may write to it; they may not remove others' files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The kernel asks to resolve again a path that was changed meanwhile.
const MOST_TRIES: usize = 8;
/// Pause between two tries for a lock.
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// A folder whose files are opened by name. No name leads out of it, whatever is changed in it meanwhile.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder itself.
    ///
    /// # Errors
    /// It is no folder, or the kernel lacks openat2 (Linux 5.6).
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty())?))
    }

    /// Opens a plain file below the folder for reading. Links below it are followed as long as they stay there.
    ///
    /// # Errors
    /// There is none: it lies elsewhere, is no plain file, or can't be read.
    pub fn file(&self, below: &Path) -> io::Result<(File, Metadata)> {
        // Opening a FIFO would wait for someone who writes to it, opening a terminal may take it over.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let stays = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        let file = loop {
            match openat2(&self.0, below, flags, Mode::empty(), stays) {
                Err(Errno::AGAIN) if tries < MOST_TRIES => tries += 1,
                opened => break File::from(opened?),
            }
        };
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata)),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl Folder {
    /// Whether there is a folder of this path below it; empty: itself.
    pub fn has_folder(&self, below: &Path) -> bool {
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(&self.0, below, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS).is_ok()
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether no user but this one and root can put a link in this file's place.
fn is_ours_alone(path: &Path) -> io::Result<bool> {
    let ours = |m: &Metadata| m.uid() == 0 || m.uid() == geteuid().as_raw();
    let folder = fs::metadata(folder_of(path))?;
    if !ours(&folder) {
        return Ok(false);
    }
    if folder.mode() & OTHERS_WRITE == 0 {
        return Ok(true);
    }
    // In a sticky folder our files stay where they are. A second name can be another user's hard link.
    Ok(folder.mode() & STICKY != 0 && fs::symlink_metadata(path).is_ok_and(|m| ours(&m) && m.nlink() == 1))
}

/// Makes a file, or empties it, as a log that the user names. In a folder where others may write, it must be no link and,
/// if it is there, this user's own with one name.
///
/// # Errors
/// It can't be made, or is a link or a file of another user.
pub fn create(path: &Path) -> io::Result<File> {
    if is_ours_alone(path)? {
        return File::create(path);
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        expect_own(&metadata)?;
        file.set_len(0)?;
    }
    Ok(file)
}

fn expect_own(metadata: &Metadata) -> io::Result<()> {
    let own = metadata.is_file() && metadata.uid() == geteuid().as_raw() && metadata.nlink() == 1;
    if own { Ok(()) } else { refused("it is not a file of this user with one name") }
}

/// Bits of a file's mode, for [`expect_secret`].
pub const READ_BY_OTHERS: u32 = 0o077;
/// The same for a file that a group may read.
pub const WRITTEN_BY_OTHERS: u32 = 0o022;

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned()))
}

/// Checks that a folder where keys are kept is this user's or root's, and that others can't put files there.
///
/// # Errors
/// It is not.
pub fn expect_private_folder(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
        return refused("the folder is another user's: give one of your own");
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return refused("others may write to the folder; take that from them: chmod go-w");
    }
    Ok(())
}

/// Checks that a file with a key has none of these bits of its mode.
///
/// # Errors
/// It has one.
pub fn expect_secret(path: &Path, not: u32) -> io::Result<()> {
    if fs::metadata(path)?.mode() & not != 0 {
        return refused("others may read or write this secret; `chmod 600` takes that from them");
    }
    Ok(())
}

/// Opens a plain file of this user with one name; no link.
///
/// # Errors
/// It is none.
pub fn open_own(path: &Path, write: bool) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
    expect_own(&file.metadata()?)?;
    Ok(file)
}

/// Takes a lock that other processes of this user respect, until the returned file is closed. Its file is for this user
/// alone: who could open it could keep the lock.
///
/// # Errors
/// The file can't be made or is not this user's, or another process keeps the lock for longer than `within`.
pub fn lock(path: &Path, within: Duration) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    expect_own(&metadata)?;
    if metadata.mode() & READ_BY_OTHERS != 0 {
        return refused("others may open the lock; take that from them: chmod 600");
    }
    let until = Instant::now() + within;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_AGAIN),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process has the lock"));
            }
            locked => return locked.map(|()| file).map_err(io::Error::from),
        }
    }
}

/// Creates a new file. An existing file of the name is removed first: a link itself, not its target.
///
/// # Errors
/// It can't be made, or others put something there each time.
pub fn create_new(path: &Path) -> io::Result<File> {
    for _ in 0..MOST_TRIES {
        match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            },
            made => return made,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A new file beside `path` under a random name, with these permissions.
///
/// # Errors
/// It can't be made.
pub fn temporary_beside(path: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let random = random::bytes::<8>().map_err(|e| io::Error::other(e.text))?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{:016x}", u64::from_ne_bytes(random)));
    let temporary = folder_of(path).join(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    Ok((file, temporary))
}

/// Puts a file with this content in the place of `path`, whole or not at all.
///
/// # Errors
/// It can't be written or renamed.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, content, 0o666, |_| Ok(()))
}

/// The same for a file that is this user's alone; it is on the disk before it takes the place.
///
/// # Errors
/// It can't be written or renamed.
pub fn replace_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, content, 0o600, File::sync_all)
}

fn replace_with(
    path: &Path,
    content: &[u8],
    mode: u32,
    written: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let (mut file, temporary) = temporary_beside(path, mode)?;
    let replaced = file.write_all(content).and_then(|()| written(&file)).and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open_to_all(dir: &Path) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }

    #[test]
    fn no_name_leads_out_of_a_folder_while_links_are_exchanged() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(root.join("a"), "1").unwrap();
        symlink("../secret", root.join("b")).unwrap();
        symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
        let folder = Folder::open(&root).unwrap();
        assert!(folder.file(Path::new("absolute")).is_err() && folder.file(Path::new("../secret")).is_err());
        let (a, b) = (root.join("a"), root.join("b"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let relaxed = std::sync::atomic::Ordering::Relaxed;
                while !stop.load(relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, &a, CWD, &b, exchange).unwrap();
                }
            });
            for _ in 0..20_000 {
                if let Ok((_, metadata)) = folder.file(Path::new("a")) {
                    assert_eq!(metadata.len(), 1);
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_log_follows_no_link_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, &link).unwrap();
        // The user's own folder: the link is the user's own.
        create(&link).unwrap().write_all(b"mine").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        open_to_all(dir.path());
        assert!(create(&link).is_err());
        let hard = dir.path().join("hard");
        fs::hard_link(&target, &hard).unwrap();
        assert!(create(&hard).is_err());
        // As in /tmp: any user may have made the hard link.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(create(&hard).is_err());
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        let new = dir.path().join("new");
        create(&new).unwrap().write_all(b"long").unwrap();
        create(&new).unwrap().write_all(b"x").unwrap();
        assert_eq!(fs::read(&new).unwrap(), b"x");
        create(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn a_lock_is_one_processs_and_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path, Duration::ZERO).unwrap();
        assert_eq!(lock(&path, Duration::ZERO).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(held);
        drop(lock(&path, Duration::ZERO).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(lock(&path, Duration::ZERO).is_err());
        let link = dir.path().join("link");
        symlink(dir.path().join("target"), &link).unwrap();
        assert!(lock(&link, Duration::ZERO).is_err() && !dir.path().join("target").exists());
    }

    #[test]
    fn a_temporary_file_takes_the_place_of_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, &link).unwrap();
        assert!(open_own(&link, true).is_err());
        replace(&link, b"new").unwrap();
        assert_eq!((fs::read(&link).unwrap(), fs::read(&target).unwrap()), (b"new".to_vec(), b"kept".to_vec()));
        fs::remove_file(&link).unwrap();
        symlink(&target, &link).unwrap();
        create_new(&link).unwrap().write_all(b"new").unwrap();
        assert_eq!((fs::read(&link).unwrap(), fs::read(&target).unwrap()), (b"new".to_vec(), b"kept".to_vec()));
        assert!(open_own(&link, true).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
