// SPDX-License-Identifier: Apache-2.0
//! Name resolution by the system's resolver, in a bounded number of threads: a slow name server holds up no packets.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use weir_io::wait::{Signals, Wakeup};

const THREADS: usize = 8;
/// Names that wait for a thread; further ones are refused.
const MOST_WAITING: usize = 256;
/// Addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Addresses of a name.
pub type Resolved = io::Result<Vec<IpAddr>>;

/// The threads.
pub struct Resolver {
    jobs: SyncSender<(u64, String)>,
    results: Receiver<(u64, Resolved)>,
    wakeup: Arc<Wakeup>,
}

impl Resolver {
    /// Starts the threads.
    ///
    /// # Errors
    /// They can't be started.
    pub fn start() -> io::Result<Resolver> {
        let (jobs, waiting) = sync_channel::<(u64, String)>(MOST_WAITING);
        let (done, results) = channel();
        let (waiting, wakeup) = (Arc::new(Mutex::new(waiting)), Arc::new(Wakeup::new()?));
        for _ in 0..THREADS {
            let (waiting, done, wakeup) = (Arc::clone(&waiting), done.clone(), Arc::clone(&wakeup));
            let run = move || work(&waiting, &done, &wakeup);
            std::thread::Builder::new().name("resolver".to_owned()).spawn(run)?;
        }
        Ok(Resolver { jobs, results, wakeup })
    }

    /// Resolves a name; the result comes under this number. False if too many names wait.
    pub fn resolve(&self, number: u64, name: &str) -> bool {
        self.jobs.try_send((number, name.to_owned())).is_ok()
    }

    /// Readable when there are results.
    pub fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Takes the next result.
    pub fn take(&self) -> Option<(u64, Resolved)> {
        self.results.try_recv().ok()
    }

    /// All results so far are about to be taken.
    pub fn clear(&self) {
        self.wakeup.clear();
    }
}

fn work(waiting: &Mutex<Receiver<(u64, String)>>, done: &Sender<(u64, Resolved)>, wakeup: &Wakeup) {
    // The event loop waits for signals.
    let _ = Signals::leave_to_others();
    loop {
        let job = match waiting.lock() {
            Ok(waiting) => waiting.recv(),
            Err(_) => return,
        };
        let Ok((number, name)) = job else { return };
        let found = (name.as_str(), 0).to_socket_addrs();
        let found = found.map(|found| found.map(|at| at.ip()).take(MOST_ADDRESSES).collect());
        if done.send((number, found)).is_err() {
            return;
        }
        wakeup.wake();
    }
}
