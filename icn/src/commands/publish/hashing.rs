// SPDX-License-Identifier: Apache-2.0
//! Files whose hashes are being taken, and the members that wait for each. Sources take turns, so that one that asks for
//! much large content keeps no other waiting; a file that nobody waits for any longer costs nothing more.

use super::directory::Stamp;
use crate::commands::group::MemberId;
use crate::names::Name;
use crate::objects::object::lines::Request;
use crate::objects::publisher::{Content, Index, Indexed};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use weir_core::server::admission::Source;

/// Segments whose hashes are taken in a step.
const SEGMENTS_A_STEP: u32 = 512;
/// Files at once. Where there are so many, a source with fewer takes a place of one with more.
const MOST_FILES: usize = 64;
/// Of these, those that one source waits for.
const MOST_FILES_OF_SOURCE: usize = 8;

/// Members that wait, with their requests.
pub type Waiting = Vec<(MemberId, Request)>;

/// A file, and the step that took hashes of it last.
struct File<C> {
    index: Index,
    content: C,
    stamp: Stamp,
    waiting: BTreeMap<MemberId, (Source, Request)>,
    last_step: u64,
}

impl<C> File<C> {
    fn waits(&self, source: Source) -> bool {
        self.waiting.values().any(|(of, _)| *of == source)
    }
}

/// A file that is done, or can't be read.
pub struct Done<C> {
    /// Its name.
    pub name: Name,
    /// Its content.
    pub content: C,
    /// As it was when its hashing began.
    pub stamp: Stamp,
    /// Those who wait for it.
    pub waiting: Waiting,
    /// Its hashes.
    pub hashes: io::Result<Indexed>,
}

/// All of them.
pub struct Hashing<C> {
    files: BTreeMap<Name, File<C>>,
    steps: u64,
    /// The source whose turn was last.
    turn: Option<Source>,
}

impl<C> Default for Hashing<C> {
    fn default() -> Hashing<C> {
        Hashing { files: BTreeMap::new(), steps: 0, turn: None }
    }
}

impl<C: Content> Hashing<C> {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Files that a source waits for.
    pub fn files_of(&self, source: Source) -> usize {
        self.files.values().filter(|f| f.waits(source)).count()
    }

    /// One more waits for a file whose hashes are being taken; its request, if they are not.
    pub fn join(&mut self, name: &Name, member: MemberId, source: Source, request: Request) -> Option<Request> {
        let Some(file) = self.files.get_mut(name) else { return Some(request) };
        file.waiting.insert(member, (source, request));
        None
    }

    /// Makes a place for a file that this source waits for. Returns the members whose file gave way: one that only
    /// sources with more files wait for, the one with most left to do. `None`: there is no place.
    pub fn make_place(&mut self, source: Source) -> Option<Vec<MemberId>> {
        let own = self.files_of(source);
        if own >= MOST_FILES_OF_SOURCE {
            return None;
        }
        if self.files.len() < MOST_FILES {
            return Some(Vec::new());
        }
        let mut of_source: BTreeMap<Source, usize> = BTreeMap::new();
        for file in self.files.values() {
            let sources: BTreeSet<_> = file.waiting.values().map(|(source, _)| *source).collect();
            sources.into_iter().for_each(|source| *of_source.entry(source).or_default() += 1);
        }
        let least = |file: &File<C>| file.waiting.values().map(|(source, _)| of_source[source]).min().unwrap_or(0);
        // One more than its new holder has then, or the two would take it from each other.
        let (fewest, _, name) = self.files.iter().map(|(name, f)| (least(f), f.index.left(), name)).max()?;
        if fewest < own + 2 {
            return None;
        }
        let name = name.clone();
        Some(self.files.remove(&name)?.waiting.into_keys().collect())
    }

    /// Begins to take a file's hashes.
    pub fn begin(
        &mut self,
        name: Name,
        index: Index,
        (content, stamp): (C, Stamp),
        (member, source, request): (MemberId, Source, Request),
    ) {
        let waiting = BTreeMap::from([(member, (source, request))]);
        self.files.insert(name, File { index, content, stamp, waiting, last_step: 0 });
    }

    /// A member waits no longer.
    pub fn leave(&mut self, member: MemberId) {
        for file in self.files.values_mut() {
            file.waiting.remove(&member);
        }
        self.files.retain(|_, file| !file.waiting.is_empty());
    }

    /// The file whose turn it is. Each second step is for the one that is done first, so that small ones don't wait for
    /// large ones; the others go to the sources in turn, and to the files of each in turn.
    fn choose(&mut self) -> Option<Name> {
        self.steps += 1;
        if self.steps.is_multiple_of(2) {
            let shortest = self.files.iter().min_by_key(|(_, file)| file.index.left());
            return shortest.map(|(name, _)| name.clone());
        }
        let sources = || self.files.values().flat_map(|f| f.waiting.values().map(|(source, _)| *source));
        let source = sources().filter(|s| Some(*s) > self.turn).min().or_else(|| sources().min())?;
        self.turn = Some(source);
        let of_source = self.files.iter().filter(|(_, file)| file.waits(source));
        of_source.min_by_key(|(_, file)| file.last_step).map(|(name, _)| name.clone())
    }

    /// Takes hashes for a while. A file, once it is done.
    pub fn step(&mut self) -> Option<Done<C>> {
        let name = self.choose()?;
        let file = self.files.get_mut(&name)?;
        file.last_step = self.steps;
        let hashed = match file.index.step(&file.content, SEGMENTS_A_STEP) {
            Ok(false) => return None,
            Ok(true) => Ok(()),
            Err(e) => Err(e),
        };
        let File { index, content, stamp, waiting, .. } = self.files.remove(&name)?;
        let waiting = waiting.into_iter().map(|(member, (_, request))| (member, request)).collect();
        Some(Done { name, content, stamp, waiting, hashes: hashed.map(|()| index.finish()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::net::IpAddr;
    use std::rc::Rc;

    const GIGABYTE: u64 = 1_000_000_000;

    /// Reads of each file, by its name.
    type Reads = Rc<RefCell<HashMap<String, u64>>>;

    struct Counted(String, Reads);

    impl Content for Counted {
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            *self.1.borrow_mut().entry(self.0.clone()).or_default() += 1;
            Ok(())
        }
    }

    fn source(last: u8) -> Source {
        IpAddr::from([10, 0, 0, last]).into()
    }

    fn begin(hashing: &mut Hashing<Counted>, reads: &Reads, name: &str, bytes: u64, asks: (MemberId, u8)) {
        let content = (Counted(name.to_owned(), Rc::clone(reads)), Stamp::default());
        let asks = (asks.0, source(asks.1), Request::default());
        hashing.begin(Name::new(name).unwrap(), Index::new(bytes).unwrap(), content, asks);
    }

    #[test]
    fn a_file_that_nobody_waits_for_any_longer_is_read_no_further() {
        let (mut hashing, reads) = (Hashing::default(), Reads::default());
        for i in 0..MOST_FILES_OF_SOURCE as u64 {
            begin(&mut hashing, &reads, &format!("/a/{i}"), GIGABYTE, ((1, 4 * i), 1));
        }
        assert_eq!((hashing.make_place(source(1)), hashing.make_place(source(2))), (None, Some(Vec::new())));
        (0..20).for_each(|_| assert!(hashing.step().is_none()));
        // One of the two who wait for a file stays.
        assert!(hashing.join(&Name::new("/a/3").unwrap(), (2, 0), source(2), Request::default()).is_none());
        (0..MOST_FILES_OF_SOURCE as u64).for_each(|i| hashing.leave((1, 4 * i)));
        let before = reads.take();
        (0..20).for_each(|_| assert!(hashing.step().is_none()));
        assert_eq!(reads.borrow().keys().collect::<Vec<_>>(), ["/a/3"]);
        assert!(hashing.make_place(source(1)).is_some() && before.len() > 1);
        hashing.leave((2, 0));
        reads.take();
        assert!(hashing.is_empty() && hashing.step().is_none() && reads.borrow().is_empty());
    }

    #[test]
    fn sources_with_many_files_keep_no_other_out() {
        let (mut hashing, reads) = (Hashing::default(), Reads::default());
        for source in 1..=8 {
            for i in 0..8u64 {
                let bytes = GIGABYTE + u64::from(source) * 1_000_000;
                begin(&mut hashing, &reads, &format!("/{source}/{i}"), bytes, ((u64::from(source), 4 * i), source));
            }
        }
        // A file that one with a single file waits for too stays.
        assert!(hashing.join(&Name::new("/8/7").unwrap(), (100, 0), source(100), Request::default()).is_none());
        // One of the eighth's, which has most to do, gives way.
        let gave_way = hashing.make_place(source(9)).unwrap();
        assert_eq!(gave_way.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [8]);
        assert_eq!((hashing.files_of(source(8)), hashing.files_of(source(1))), (7, 8));
        begin(&mut hashing, &reads, "/9", GIGABYTE, ((9, 0), 9));
        // Each of many others gets one.
        for last in 10..=63 {
            assert!(hashing.make_place(source(last)).is_some_and(|gave_way| gave_way.len() == 1), "{last}");
            begin(&mut hashing, &reads, &format!("/{last}"), GIGABYTE, ((u64::from(last), 0), last));
        }
        assert!(hashing.files.len() == MOST_FILES && hashing.files_of(source(100)) == 1);
        // Equals take nothing from each other.
        assert_eq!(hashing.make_place(source(63)), None);
        for of in 1..=63 {
            assert!((1..=2).contains(&hashing.files_of(source(of))), "{of}");
        }
    }

    #[test]
    fn sources_take_turns_and_small_files_do_not_wait_for_large_ones() {
        let (mut hashing, reads) = (Hashing::default(), Reads::default());
        for i in 0..MOST_FILES_OF_SOURCE as u64 {
            begin(&mut hashing, &reads, &format!("/a/{i}"), GIGABYTE, ((1, 4 * i), 1));
        }
        begin(&mut hashing, &reads, "/b", 2 * GIGABYTE, ((2, 0), 2));
        begin(&mut hashing, &reads, "/c", 2 * GIGABYTE, ((3, 0), 3));
        (0..600).for_each(|_| assert!(hashing.step().is_none()));
        let reads_of = |name: &str| reads.borrow()[name] / u64::from(SEGMENTS_A_STEP);
        // Half of all steps are for the shortest; a third of the rest for each source.
        assert_eq!((reads_of("/b"), reads_of("/c")), (100, 100));
        let own: Vec<_> = (0..8).map(|i| reads_of(&format!("/a/{i}"))).collect();
        assert!(own.iter().sum::<u64>() == 400 && own.iter().all(|steps| *steps >= 12), "{own:?}");
        begin(&mut hashing, &reads, "/d", 3, ((4, 0), 4));
        let done = (0..2).find_map(|_| hashing.step()).unwrap();
        assert_eq!((done.name.text(), done.waiting.len(), done.hashes.is_ok()), ("/d", 1, true));
    }
}
