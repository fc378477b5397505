// SPDX-License-Identifier: Apache-2.0
//! The files of `--root`. No name leads out of the folder: the kernel resolves each path below it in one step
//! ([`Folder`]), and a link that leaves it is refused.

use super::quota::{Quota, Slot};
use crate::shared::fault::Fault;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;
use weir_core::server::Head;
use weir_core::server::admission::Source;
use weir_core::server::file_request::{FilePath, Selection, Validators};
use weir_core::server::resources::{Answer, AnswerBody, Content, ContentSource, Field};
use weir_io::files::Folder;

/// Files that are open at once, and for one source.
const MOST_FILES: u32 = 2048;
const MOST_FILES_PER_SOURCE: u32 = 256;

/// The served folder.
pub struct Root {
    folder: Folder,
    quota: Quota,
}

impl Root {
    /// Opens the folder.
    ///
    /// # Errors
    /// It is no folder, or can't be read.
    pub fn open(path: &Path) -> Result<Root, Fault> {
        let folder = Folder::open(path).map_err(Fault::io(format!("--root {}", path.display())))?;
        Ok(Root { folder, quota: Quota::new(MOST_FILES, MOST_FILES_PER_SOURCE) })
    }

    /// Answers a request.
    pub fn answer(&self, head: &Head<'_>, source: Source) -> Answer {
        if !matches!(head.method, "GET" | "HEAD") {
            let text = format!("method '{}' not served for files: expected GET or HEAD", head.method);
            return Answer::text(405, text).with("allow", "GET, HEAD");
        }
        let answer = self.get(head, source).unwrap_or_else(|answer| answer);
        match head.method {
            "HEAD" => without_content(answer),
            _ => answer,
        }
    }

    fn get(&self, head: &Head<'_>, source: Source) -> Result<Answer, Answer> {
        let path = FilePath::read(head.path).map_err(|e| {
            let status = if e == weir_core::server::file_request::PathError::Hidden { 404 } else { 400 };
            Answer::text(status, e.to_string())
        })?;
        let slot = self.quota.take(source).ok_or_else(|| busy("too many open files"))?;
        let below = if path.is_folder { path.below.join("index.html") } else { path.below };
        let (file, metadata) = self.folder.file(&below).map_err(|e| self.failure(head, &below, path.is_folder, &e))?;
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(found(head, &below, OpenFile { file, _slot: slot }, &metadata))
    }

    fn failure(&self, head: &Head<'_>, below: &Path, is_index: bool, error: &io::Error) -> Answer {
        if error.kind() == io::ErrorKind::InvalidInput && self.folder.has_folder(below) {
            let (path, query) =
                head.path.split_once('?').map_or((head.path, None), |(path, query)| (path, Some(query)));
            let query = query.map_or(String::new(), |query| format!("?{query}"));
            return Answer::text(301, "a folder: its path ends in a slash").with("location", format!("{path}/{query}"));
        }
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) if is_index && below.parent().is_some_and(|folder| self.folder.has_folder(folder)) => {
                Answer::text(403, "no index.html here, and folders are not listed")
            }
            Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Answer::text(404, "no such file"),
            Some(Errno::MFILE | Errno::NFILE) => busy("too many open files"),
            Some(Errno::XDEV | Errno::LOOP) => Answer::text(403, "a link that leaves the served folder"),
            Some(Errno::ACCESS | Errno::PERM) => Answer::text(403, "not readable for the server"),
            None => Answer::text(403, "not a regular file"),
            Some(_) => Answer::text(500, "the file can't be opened"),
        }
    }
}

fn busy(text: &str) -> Answer {
    Answer::text(503, text).with("retry-after", "1")
}

fn found(head: &Head<'_>, below: &Path, file: OpenFile, metadata: &Metadata) -> Answer {
    let bytes = metadata.len();
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let etag = format!("\"{:x}-{:x}.{:x}-{bytes:x}\"", metadata.ino(), metadata.mtime(), metadata.mtime_nsec());
    let mut fields: Vec<Field> = vec![
        ("date", httpdate::fmt_http_date(SystemTime::now())),
        ("etag", etag.clone()),
        ("last-modified", httpdate::fmt_http_date(modified)),
        ("accept-ranges", "bytes".to_owned()),
    ];
    let part = match (Validators { etag, modified, bytes }).select(head) {
        Selection::NotModified => return Answer { status: 304, fields, body: AnswerBody::Empty },
        Selection::PreconditionFailed => return Answer::text(412, "the file has changed"),
        Selection::Unsatisfiable => {
            let text = format!("no such bytes: the file has {bytes}");
            return Answer::text(416, text).with("content-range", format!("bytes */{bytes}"));
        }
        Selection::Whole => None,
        Selection::Part { first, last } => Some((first, last)),
    };
    let (status, offset, length) = match part {
        None => (200, 0, bytes),
        Some((first, last)) => (206, first, last - first + 1),
    };
    fields.extend(part.map(|(first, last)| ("content-range", format!("bytes {first}-{last}/{bytes}"))));
    fields.push(("content-type", content_type(below)));
    fields.push(("content-length", length.to_string()));
    // A browser must not run text as a script.
    fields.push(("x-content-type-options", "nosniff".to_owned()));
    Answer { status, fields, body: AnswerBody::Content(Content { source: Box::new(file), offset, bytes: length }) }
}

fn content_type(below: &Path) -> String {
    let guess = mime_guess::from_path(below).first_or_octet_stream();
    if guess.type_() == mime_guess::mime::TEXT { format!("{guess}; charset=utf-8") } else { guess.to_string() }
}

// RFC 9110 9.3.2: the fields of the answer to GET.
fn without_content(mut answer: Answer) -> Answer {
    if let AnswerBody::Text(text) = &answer.body {
        answer.fields.push(("content-length", text.len().to_string()));
    }
    answer.body = AnswerBody::Empty;
    answer
}

struct OpenFile {
    file: File,
    _slot: Slot,
}

impl ContentSource for OpenFile {
    fn read_at(&mut self, offset: u64, part: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(part, offset)
    }
}
