// SPDX-License-Identifier: Apache-2.0
//! The packet thread: waits for frames, departures, jobs, signals and changes of links, and never spins. The clock is
//! read once per iteration and after each job, not once a packet.
mod clock;
mod queue_reader;
mod share;

pub use clock::Clock;
pub use queue_reader::QueueConfig;

use crate::device::Device;
use crate::handle::Jobs;
use crate::ports::{Ports, WRITABLE};
use crate::{statistics, system};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::Timespec;
use share::JobTime;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use tracing::error;

/// Event sources of [`Loop::run`] besides ports, which are numbered from 0, and their sockets ([`WRITABLE`]).
const JOBS: u64 = 1 << 32;
const TIMER: u64 = JOBS + 1;
const LINKS: u64 = JOBS + 2;
const SIGNALS: u64 = JOBS + 3;
const SENT: u64 = JOBS + 4;

/// State of the packet thread.
pub struct Loop<'a> {
    /// The switch.
    pub device: &'a mut Device,
    /// Its interfaces.
    pub ports: &'a mut Ports,
    /// Work of other threads.
    pub jobs: &'a Jobs,
    /// The time, and the timer for departures.
    pub clock: &'a mut Clock,
    /// SIGINT and SIGTERM end the loop, SIGHUP reads the queue file, SIGUSR1 writes the statistics.
    pub signals: &'a OwnedFd,
    /// Asks for the queue file to be read again.
    pub queues: &'a SyncSender<()>,
    /// The file for statistics, if they are wanted.
    pub stats: Option<&'a Path>,
}

impl Loop<'_> {
    /// Runs until a signal ends it.
    ///
    /// # Errors
    /// When a system call of the loop fails.
    pub fn run(&mut self) -> Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let links = system::link_changes()?;
        let wait_on = |fd: &OwnedFd, what: u64| epoll::add(&epoll, fd, EventData::new_u64(what), EventFlags::IN);
        epoll::add(&epoll, self.jobs.fd(), EventData::new_u64(JOBS), EventFlags::IN)?;
        wait_on(&self.clock.timer, TIMER)?;
        wait_on(&links, LINKS)?;
        wait_on(self.signals, SIGNALS)?;
        wait_on(self.ports.senders.news(), SENT)?;
        for at in 0..self.ports.len() {
            self.ports.fd(at).map(|fd| wait_on(fd, at as u64)).transpose()?;
        }
        // Changes between opening the ports and listening for changes.
        let mut recheck = true;
        let mut events = Vec::with_capacity(64);
        let mut next_ns = None;
        let mut job_time = JobTime::default();
        loop {
            // A device that wants to go on at once is called again after a check of everything else.
            let at_once = next_ns.is_some_and(|at: u64| at <= self.device.now_ns()) || recheck;
            let timeout = at_once.then(Timespec::default);
            match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) => (),
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let now_ns = self.clock.now_ns();
            self.device.tick(now_ns);
            self.ports.set_time(now_ns);
            job_time.turn(now_ns);
            let (mut gone_off, mut jobs, mut frames) = (false, false, false);
            for event in events.drain(..) {
                let (what, flags) = (event.data.u64(), event.flags);
                match what {
                    JOBS => jobs = true,
                    TIMER => gone_off = true,
                    LINKS => {
                        system::discard(&links);
                        recheck = true;
                    }
                    SIGNALS => {
                        if self.handle_signals() {
                            self.ports.finish();
                            return Ok(());
                        }
                    }
                    SENT => self.ports.senders.heard(),
                    WRITABLE.. => {
                        let at = (what - WRITABLE) as usize;
                        if flags.contains(EventFlags::ERR) {
                            self.ports.senders.clear_error(at);
                        }
                        self.ports.senders.writable(at);
                    }
                    at => {
                        if flags.contains(EventFlags::ERR) {
                            self.ports.clear_error(at as usize);
                            recheck = true;
                        }
                        frames = true;
                        self.ports.receive(at as usize, self.device, now_ns);
                    }
                }
            }
            if jobs {
                self.run_jobs(&mut job_time, frames);
            }
            if std::mem::take(&mut recheck) {
                for at in self.ports.recheck(self.device, now_ns) {
                    // The old descriptor left the set when it was closed.
                    self.ports.fd(at).map(|fd| wait_on(fd, at as u64)).transpose()?;
                }
            }
            self.ports.senders.settle(self.device, &epoll)?;
            next_ns = self.device.poll(now_ns, &mut self.ports.senders);
            self.ports.flush();
            if self.ports.senders.settle(self.device, &epoll)? {
                next_ns = Some(now_ns);
            }
            self.clock.arm(next_ns, gone_off)?;
        }
    }

    /// Runs jobs for as long as they may take. Those that are left keep their descriptor readable.
    fn run_jobs(&mut self, time: &mut JobTime, frames_wait: bool) {
        if !frames_wait {
            time.no_frames();
        }
        let mut began_ns = self.clock.now_ns();
        while time.is_left() && self.jobs.run_one(self.device) {
            let now_ns = self.clock.now_ns();
            time.took(now_ns - began_ns);
            began_ns = now_ns;
        }
    }

    /// Handles signals; true: to end.
    fn handle_signals(&mut self) -> bool {
        while let Some(signal) = system::next_signal(self.signals) {
            match signal {
                // Asked already when it can't be asked once more.
                libc::SIGHUP => drop(self.queues.try_send(())),
                libc::SIGUSR1 => {
                    if let Err(e) = self.write_stats() {
                        error!("{e}");
                    }
                }
                _ => return true,
            }
        }
        false
    }

    /// Writes the statistics where they are wanted.
    ///
    /// # Errors
    /// The file that can't be written, and the reason.
    pub fn write_stats(&mut self) -> std::result::Result<(), String> {
        let Some(path) = self.stats else { return Ok(()) };
        statistics::write(path, self.device, self.ports)
    }
}
