// SPDX-License-Identifier: Apache-2.0
//! Sending threads: each sends the frames of some ports, batch by batch, in the order in which they were handed over.
use super::line::{Batch, Line, Space};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Frames of a port with its thread below which the packet thread hands over more.
pub const RESUME_FRAMES: usize = 64;

/// Empty batches that are kept for their memory.
const SPARE_BATCHES: usize = 8;

/// [`Space::Unlimited`].
const UNLIMITED: usize = usize::MAX;

/// A line that the packet thread and one sending thread use.
pub struct SharedLine {
    line: Mutex<Line>,
    /// Frames handed over and not sent yet.
    handed: AtomicUsize,
    /// The packet thread waits for `handed` to fall.
    is_waited_for: AtomicBool,
    /// [`Space`] as of the last change, in bytes.
    space: AtomicUsize,
}

impl SharedLine {
    pub fn new(line: Line) -> SharedLine {
        SharedLine {
            line: Mutex::new(line),
            handed: AtomicUsize::new(0),
            is_waited_for: AtomicBool::new(false),
            space: AtomicUsize::new(UNLIMITED),
        }
    }

    /// The line itself.
    pub fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames handed over and not sent yet.
    pub fn handed(&self) -> usize {
        self.handed.load(Ordering::SeqCst)
    }

    /// Sends frames behind those that wait.
    pub fn send(&self, batch: &Batch) -> Space {
        self.note(|line| line.send(batch))
    }

    /// Sends the frames that wait, after the socket has become writable.
    pub fn writable(&self, now_ns: u64) -> Space {
        self.note(|line| line.writable(now_ns))
    }

    fn note(&self, f: impl FnOnce(&mut Line) -> Space) -> Space {
        let mut line = self.lock();
        let space = f(&mut line);
        let bytes = match space {
            Space::Unlimited => UNLIMITED,
            Space::Bytes(bytes) => bytes,
        };
        self.space.store(bytes, Ordering::SeqCst);
        space
    }

    /// Space as of the last change.
    pub fn space(&self) -> Space {
        match self.space.load(Ordering::SeqCst) {
            UNLIMITED => Space::Unlimited,
            bytes => Space::Bytes(bytes),
        }
    }

    /// Has the thread report that it has sent most of what was handed over. False: it has already.
    pub fn wait(&self) -> bool {
        self.is_waited_for.store(true, Ordering::SeqCst);
        self.handed() > RESUME_FRAMES || !self.is_waited_for.swap(false, Ordering::SeqCst)
    }

    /// The thread's work on one batch. True: the packet thread is to hear of it.
    fn send_handed(&self, batch: &Batch) -> bool {
        let space = self.send(batch);
        let left = self.handed.fetch_sub(batch.len(), Ordering::SeqCst) - batch.len();
        let is_awaited = left <= RESUME_FRAMES && self.is_waited_for.swap(false, Ordering::SeqCst);
        is_awaited || space == Space::Bytes(0)
    }
}

/// A sending thread, at the packet thread's end.
pub struct SendThread {
    batches: Sender<(Arc<SharedLine>, Batch)>,
    spare: Receiver<Batch>,
    /// Frames handed to it and not sent yet.
    backlog: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl SendThread {
    /// Starts thread number `n`.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(n: usize, news: Arc<OwnedFd>) -> Result<SendThread> {
        let (batches, work) = channel();
        let (give_back, spare) = sync_channel(SPARE_BATCHES);
        let backlog = Arc::new(AtomicUsize::new(0));
        let its_backlog = backlog.clone();
        let run = move || send_batches(&work, &give_back, &its_backlog, &news);
        let thread = std::thread::Builder::new().name(format!("send{n}")).spawn(run)?;
        Ok(SendThread { batches, spare, backlog, thread })
    }

    /// Frames handed to the thread and not sent yet.
    pub fn backlog(&self) -> usize {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Hands a batch over, and puts an empty one in its place.
    pub fn send(&mut self, line: &Arc<SharedLine>, batch: &mut Batch) {
        let frames = batch.len();
        line.handed.fetch_add(frames, Ordering::SeqCst);
        self.backlog.fetch_add(frames, Ordering::Relaxed);
        let empty = match self.spare.try_recv() {
            Ok(batch) => batch,
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Batch::default(),
        };
        // The thread ends with this end of the channel, not before.
        let _ = self.batches.send((line.clone(), std::mem::replace(batch, empty)));
    }

    /// Ends the thread when it has sent all.
    pub fn finish(self) {
        drop(self.batches);
        let _ = self.thread.join();
    }
}

fn send_batches(
    work: &Receiver<(Arc<SharedLine>, Batch)>,
    give_back: &SyncSender<Batch>,
    backlog: &AtomicUsize,
    news: &OwnedFd,
) {
    while let Ok((line, mut batch)) = work.recv() {
        let is_news = line.send_handed(&batch);
        backlog.fetch_sub(batch.len(), Ordering::Relaxed);
        if is_news {
            // It fails only when the counter is full, and then the packet thread has news to read.
            let _ = rustix::io::write(news, &1u64.to_ne_bytes());
        }
        batch.clear();
        let _ = give_back.try_send(batch);
    }
}
