// SPDX-License-Identifier: Apache-2.0
//! Sending threads: each sends frames of some ports, which the packet thread hands over batch by batch. The lock of a line is
//! held for a batch, by whichever thread sends it, so that a port's frames stay in order.
use super::line::{Batch, Line, Space};
use std::collections::VecDeque;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Empty batches that are kept for their memory.
const SPARE_BATCHES: usize = 8;

/// [`Space::Unlimited`].
const UNLIMITED: usize = usize::MAX;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line that the packet thread and one sending thread use.
pub struct SharedLine {
    line: Mutex<Line>,
    /// Batches handed over. Locked after `line`, never before.
    queue: Mutex<VecDeque<Batch>>,
    /// Their frames, and those being sent.
    handed: AtomicUsize,
    /// [`Space`] as of the last change, in bytes.
    space: AtomicUsize,
}

impl SharedLine {
    pub fn new(line: Line) -> SharedLine {
        SharedLine {
            line: Mutex::new(line),
            queue: Mutex::default(),
            handed: AtomicUsize::new(0),
            space: AtomicUsize::new(UNLIMITED),
        }
    }

    /// The line itself.
    pub fn lock(&self) -> MutexGuard<'_, Line> {
        lock(&self.line)
    }

    /// Frames handed over and not sent yet.
    pub fn handed(&self) -> usize {
        self.handed.load(Ordering::Acquire)
    }

    /// Space as of the last change.
    pub fn space(&self) -> Space {
        match self.space.load(Ordering::Acquire) {
            UNLIMITED => Space::Unlimited,
            bytes => Space::Bytes(bytes),
        }
    }

    fn note(&self, space: Space) -> Space {
        let bytes = match space {
            Space::Unlimited => UNLIMITED,
            Space::Bytes(bytes) => bytes,
        };
        self.space.store(bytes, Ordering::Release);
        space
    }

    /// Sends the batch that was handed over first.
    fn send_first(&self, line: &mut Line) -> Option<(Batch, Space)> {
        let batch = lock(&self.queue).pop_front()?;
        let space = self.note(line.send(&batch));
        self.handed.fetch_sub(batch.len(), Ordering::AcqRel);
        Some((batch, space))
    }

    /// Sends frames behind those that were handed over, which this thread sends too unless the other one is at it.
    pub fn send(&self, batch: &Batch) -> Space {
        let mut line = self.lock();
        while self.send_first(&mut line).is_some() {}
        self.note(line.send(batch))
    }

    /// Sends the frames that wait, after the socket has become writable.
    pub fn writable(&self, now_ns: u64) -> Space {
        let mut line = self.lock();
        self.note(line.writable(now_ns))
    }
}

/// A sending thread, at the packet thread's end.
pub struct SendThread {
    /// A line for each batch in its queue.
    work: Sender<Arc<SharedLine>>,
    spare: Receiver<Batch>,
    /// Of `work`, not done yet.
    batches: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl SendThread {
    /// Starts thread number `n`; `news` is written when a socket takes no more.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(n: usize, news: Arc<OwnedFd>) -> Result<SendThread> {
        let (work, its_work) = channel();
        let (give_back, spare) = sync_channel(SPARE_BATCHES);
        let batches = Arc::new(AtomicUsize::new(0));
        let its_batches = batches.clone();
        let run = move || send_batches(&its_work, &give_back, &its_batches, &news);
        let thread = std::thread::Builder::new().name(format!("send{n}")).spawn(run)?;
        Ok(SendThread { work, spare, batches, thread })
    }

    /// Batches that the thread has before it.
    pub fn batches(&self) -> usize {
        self.batches.load(Ordering::Relaxed)
    }

    /// Hands a batch over, and puts an empty one in its place.
    pub fn send(&mut self, line: &Arc<SharedLine>, batch: &mut Batch) {
        line.handed.fetch_add(batch.len(), Ordering::AcqRel);
        self.batches.fetch_add(1, Ordering::Relaxed);
        let full = std::mem::replace(batch, self.spare.try_recv().unwrap_or_default());
        lock(&line.queue).push_back(full);
        // The thread ends with this end of the channel, not before.
        let _ = self.work.send(line.clone());
    }

    /// Ends the thread when it has sent all.
    pub fn finish(self) {
        drop(self.work);
        let _ = self.thread.join();
    }
}

fn send_batches(
    work: &Receiver<Arc<SharedLine>>,
    give_back: &SyncSender<Batch>,
    batches: &AtomicUsize,
    news: &OwnedFd,
) {
    while let Ok(line) = work.recv() {
        let sent = line.send_first(&mut line.lock());
        batches.fetch_sub(1, Ordering::Relaxed);
        // The packet thread may have sent it.
        let Some((mut batch, space)) = sent else { continue };
        if space == Space::Bytes(0) {
            // It fails only when the counter is full, and then the packet thread has news to read.
            let _ = rustix::io::write(news, &1u64.to_ne_bytes());
        }
        batch.clear();
        let _ = give_back.try_send(batch);
    }
}
