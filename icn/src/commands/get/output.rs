// SPDX-License-Identifier: Apache-2.0
//! Where an object goes: `OUTPUT.part` until it is complete, with `OUTPUT.part.json` beside it, which says what is there;
//! or standard output, in order.

use crate::commands::options::shown;
use crate::objects::object::layout::SEGMENT_BYTES;
use crate::objects::object::manifest::Manifest;
use crate::objects::subscriber::{Segments, Store};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use weir_io::fault::{Fault, IO};
use weir_io::files;

/// List of the segments in `OUTPUT.part`.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: u32,
    name: String,
    version: String,
    segments: Vec<(u32, u32)>,
}

const FORMAT: u32 = 1;
/// A list longer than this is not from us.
const MOST_KEPT_BYTES: u64 = 64 << 20;

/// A destination.
pub enum Output {
    /// A file.
    File(PartFile),
    /// Standard output.
    Standard,
}

/// A file that is not complete.
pub struct PartFile {
    target: PathBuf,
    part: PathBuf,
    list: PathBuf,
    file: File,
    name: String,
    version: String,
    /// One behind the other, as a live stream.
    append: Option<u64>,
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Files of an incomplete download: the data, and the list of their segments.
pub fn beside_it(target: &Path) -> [PathBuf; 2] {
    [beside(target, ".part"), beside(target, ".part.json")]
}

impl Output {
    /// Opens a destination, and says what an earlier run left there.
    ///
    /// # Errors
    /// The file can't be written to.
    pub fn open(target: &Path, manifest: &Manifest, restart: bool) -> Result<(Output, Segments), Fault> {
        if target == Path::new("-") {
            return Ok((Output::Standard, Segments::default()));
        }
        let fault = |why: &str| Fault::new(IO, format!("--output {}: {why}", shown(target)));
        match fs::metadata(target) {
            Ok(m) if !m.is_file() => return Err(fault("exists and is not a plain file")),
            Ok(m) if m.permissions().readonly() => return Err(fault("is read-only")),
            _ => {}
        }
        let [part, list] = beside_it(target);
        let live = manifest.layout.is_none();
        let kept = if restart || live { None } else { read_list(&list, manifest) };
        // Only what this user left there is gone on with: others may write to the folder.
        let earlier = kept.and_then(|kept| Some((kept, files::open_own(&part, true).ok()?)));
        let (kept, file) = match earlier {
            Some((kept, file)) => (Some(kept), file),
            None => (None, files::create_new(&part).map_err(Fault::io(shown(&part)))?),
        };
        let mut output = PartFile {
            target: target.to_owned(),
            part,
            list,
            file,
            name: manifest.name.text().to_owned(),
            version: manifest.version.clone(),
            append: live.then_some(0),
        };
        let kept = kept.unwrap_or_default();
        // The list is of this content from the first moment on.
        output.save(&kept)?;
        Ok((Output::File(output), kept))
    }

    /// Whether content is to come in order.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Output::Standard)
    }

    /// Writes down what is there, for a later run.
    ///
    /// # Errors
    /// The disk is full, for example.
    pub fn save(&mut self, kept: &Segments) -> Result<(), Fault> {
        match self {
            Output::File(file) => file.save(kept),
            Output::Standard => Ok(()),
        }
    }

    /// All of it is there: it gets its name. Where that fails, what is there, `kept`, is written down for a later run.
    ///
    /// # Errors
    /// It can't be written to the disk, or renamed.
    pub fn finish(self, kept: &Segments) -> Result<(), Fault> {
        match self {
            Output::File(mut file) => file.complete().map_err(|fault| match file.save(kept) {
                Ok(()) => Fault::new(fault.code, format!("{fault}; what came is in {}", shown(&file.part))),
                // An earlier list may hold, which names fewer.
                Err(_) => fault,
            }),
            Output::Standard => io::stdout().flush().map_err(Fault::io("standard output")),
        }
    }

    /// It was broken off. Of a file there is written down what is there, `kept`, for a later run. Of a live stream
    /// nothing comes later: what was given on gets its name. Says in which file there is something that can be used.
    ///
    /// # Errors
    /// It can't be written to the disk, or renamed.
    pub fn stop(mut self, kept: &Segments) -> Result<Option<PathBuf>, Fault> {
        let Output::File(file) = &self else { return Ok(None) };
        let (live, used) = (file.append.is_some(), file.append.map_or(!kept.is_empty(), |bytes| bytes > 0));
        let path = if live { file.target.clone() } else { file.part.clone() };
        match (live, used) {
            (true, true) => self.finish(kept)?,
            // The earlier list holds if the disk is full: it names fewer.
            (false, true) => self.save(kept)?,
            (_, false) => self.discard(),
        }
        Ok(used.then_some(path))
    }

    /// Nothing of it can be used: it is deleted.
    fn discard(self) {
        if let Output::File(PartFile { part, list, .. }) = self {
            let _ = fs::remove_file(part);
            let _ = fs::remove_file(list);
        }
    }
}

impl PartFile {
    fn complete(&self) -> Result<(), Fault> {
        // On the disk before it has its name: a crash must not leave a name with nothing behind it.
        self.file.sync_all().map_err(Fault::io(shown(&self.part)))?;
        fs::rename(&self.part, &self.target).map_err(Fault::io(shown(&self.target)))?;
        let _ = fs::remove_file(&self.list);
        Ok(())
    }

    fn save(&mut self, kept: &Segments) -> Result<(), Fault> {
        if self.append.is_some() {
            return Ok(());
        }
        let list = Kept {
            format: FORMAT,
            name: self.name.clone(),
            version: self.version.clone(),
            segments: kept.ranges().collect(),
        };
        let text = crate::commands::options::to_json(&list)?;
        // Whole or not at all.
        files::replace(&self.list, text.as_bytes()).map_err(Fault::io(shown(&self.list)))
    }
}

/// Segments of this very content from an earlier run's list. A list that can't be read counts as none.
fn read_list(list: &Path, manifest: &Manifest) -> Option<Segments> {
    let mut text = Vec::new();
    files::open_own(list, false).ok()?.take(MOST_KEPT_BYTES + 1).read_to_end(&mut text).ok()?;
    if text.len() as u64 > MOST_KEPT_BYTES {
        return None;
    }
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    let same = kept.format == FORMAT && kept.name == manifest.name.text() && kept.version == manifest.version;
    let segments = manifest.layout?.content_segments();
    let inside = kept.segments.into_iter().filter(|(_, last)| *last < segments);
    same.then(|| Segments::from_ranges(inside))
}

impl Store for Output {
    fn write(&mut self, segment: u32, content: &[u8]) -> Result<(), String> {
        match self {
            Output::File(file) => {
                let at = file.append.unwrap_or(u64::from(segment) * SEGMENT_BYTES as u64);
                if let Some(end) = &mut file.append {
                    *end += content.len() as u64;
                }
                file.file.write_all_at(content, at).map_err(|e| format!("{}: {e}", shown(&file.part)))
            }
            Output::Standard => io::stdout().write_all(content).map_err(|e| format!("standard output: {e}")),
        }
    }

    fn read(&mut self, segment: u32, bytes: usize) -> Option<Vec<u8>> {
        let Output::File(file) = self else { return None };
        let mut buffer = vec![0; bytes];
        file.file.read_exact_at(&mut buffer, u64::from(segment) * SEGMENT_BYTES as u64).ok()?;
        Some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Name;
    use crate::objects::object::layout::Layout;

    fn manifest(version: &str) -> Manifest {
        Manifest {
            name: Name::new("/a/b").unwrap(),
            version: version.to_owned(),
            layout: Layout::of(10 * 1440),
            top: Vec::new(),
            publisher: [0; 32],
            repair: None,
            issued_s: None,
        }
    }

    #[test]
    fn whole_or_a_part_that_says_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let (mut out, kept) = Output::open(&target, &manifest("1"), false).unwrap();
        assert!(kept.is_empty());
        out.write(3, b"three").unwrap();
        out.save(&Segments::from_ranges([(3, 3), (9, 9)])).unwrap();
        drop(out);
        assert!(!target.exists());
        let (mut out, kept) = Output::open(&target, &manifest("1"), false).unwrap();
        assert_eq!(kept.ranges().collect::<Vec<_>>(), [(3, 3), (9, 9)]);
        assert_eq!(out.read(3, 5).as_deref(), Some(&b"three"[..]));
        assert_eq!(out.read(9, 5), None);
        out.finish(&kept).unwrap();
        assert!(target.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_can_not_get_its_name_is_kept_for_a_later_run() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let (out, _) = Output::open(&target, &manifest("1"), false).unwrap();
        fs::create_dir(&target).unwrap();
        let e = out.finish(&Segments::from_ranges([(0, 9)])).unwrap_err();
        assert!(e.code == IO && e.text.contains("x: Is a directory") && e.text.ends_with("x.part"), "{e}");
        fs::remove_dir(&target).unwrap();
        let (_, kept) = Output::open(&target, &manifest("1"), false).unwrap();
        assert_eq!(kept.ranges().collect::<Vec<_>>(), [(0, 9)]);
    }

    #[test]
    fn another_version_or_a_spoiled_list_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let begin = |version: &str, restart| Output::open(&target, &manifest(version), restart).unwrap();
        let kept = Segments::from_ranges([(0, 5)]);
        begin("1", false).0.save(&kept).unwrap();
        assert!(begin("2", false).1.is_empty());
        begin("1", false).0.save(&kept).unwrap();
        assert!(begin("1", true).1.is_empty());
        fs::write(beside(&target, ".part.json"), "nonsense").unwrap();
        assert!(begin("1", false).1.is_empty());
        begin("1", false).0.save(&Segments::from_ranges([(0, 5), (7, 4000)])).unwrap();
        assert_eq!(begin("1", false).1.len(), 6);
        assert_eq!(begin("1", false).0.stop(&kept).unwrap(), Some(beside(&target, ".part")));
        assert_eq!(begin("1", false).1.len(), 6);
        assert_eq!(begin("1", false).0.stop(&Segments::default()).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_came_of_a_live_stream_stays_when_it_is_broken_off() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("film");
        let live = Manifest { layout: None, ..manifest("1") };
        let (mut output, _) = Output::open(&target, &live, false).unwrap();
        output.write(400, b"one").unwrap();
        output.write(440, b"two").unwrap();
        assert_eq!(output.stop(&Segments::default()).unwrap(), Some(target.clone()));
        assert_eq!(fs::read(&target).unwrap(), b"onetwo");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // Nothing that came replaces nothing.
        let (output, _) = Output::open(&target, &live, false).unwrap();
        assert_eq!(output.stop(&Segments::default()).unwrap(), None);
        assert_eq!(fs::read(&target).unwrap(), b"onetwo");
    }

    #[test]
    fn no_link_that_others_laid_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, victim) = (dir.path().join("x"), dir.path().join("victim"));
        let [part, list] = beside_it(&target);
        for live in [false, true] {
            for link in [&part, &list, &beside(&list, ".new")] {
                fs::write(&victim, "kept").unwrap();
                let _ = fs::remove_file(link);
                std::os::unix::fs::symlink(&victim, link).unwrap();
                let manifest = Manifest { layout: Layout::of(14_400).filter(|_| !live), ..manifest("1") };
                let (mut output, _) = Output::open(&target, &manifest, false).unwrap();
                output.write(0, b"content").unwrap();
                output.save(&Segments::from_ranges([(0, 0)])).unwrap();
                assert_eq!(fs::read(&victim).unwrap(), b"kept", "{link:?}");
            }
        }
        // Our list, and a part that leads elsewhere.
        Output::open(&target, &manifest("1"), false).unwrap().0.save(&Segments::from_ranges([(0, 3)])).unwrap();
        fs::remove_file(&part).unwrap();
        std::os::unix::fs::symlink(&victim, &part).unwrap();
        let (mut output, kept) = Output::open(&target, &manifest("1"), false).unwrap();
        output.write(0, b"content").unwrap();
        assert!(kept.is_empty() && fs::read(&victim).unwrap() == b"kept");
    }

    #[test]
    fn what_is_no_file_to_write_is_named() {
        for target in ["/tmp", "/dev/null", "/nonexistent/x"] {
            let e = Output::open(Path::new(target), &manifest("1"), false).err().unwrap();
            assert!(e.code == IO && e.text.contains(target), "{e}");
        }
    }
}
