// SPDX-License-Identifier: Apache-2.0
//! The packet thread: waits for frames, departures, jobs, signals and changes of links, and never spins.
//! The clock is read once a turn, not once a packet.
use crate::device::Device;
use crate::handle::{Gone, Handle, Jobs};
use crate::io::Ports;
use crate::queues::{self, QueueSpec};
use crate::{stats, sys};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use tracing::{error, info};

const NS_PER_S: u64 = 1_000_000_000;

/// What [`Loop::run`] waits on besides ports, which are numbered from 0.
const JOBS: u64 = 1 << 32;
const TIMER: u64 = JOBS + 1;
const LINKS: u64 = JOBS + 2;
const SIGNALS: u64 = JOBS + 3;

fn to_ns(t: Timespec) -> u64 {
    u64::try_from(t.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// Time since the switch started, and a timer on the same scale.
pub struct Clock {
    start_ns: u64,
    timer: OwnedFd,
    armed_ns: Option<u64>,
}

impl Clock {
    /// Starts now.
    ///
    /// # Errors
    /// When the kernel gives no timer.
    pub fn start() -> Result<Clock> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Clock { start_ns: to_ns(clock_gettime(ClockId::Monotonic)), timer, armed_ns: None })
    }

    pub fn now_ns(&self) -> u64 {
        to_ns(clock_gettime(ClockId::Monotonic)) - self.start_ns
    }

    /// What to add to [`Clock::now_ns`] for time since the epoch.
    pub fn epoch_ns(&self) -> u64 {
        to_ns(clock_gettime(ClockId::Realtime)).saturating_sub(self.now_ns())
    }

    /// Makes the timer readable at `at_ns`, or never. Setting it anew also clears that it has gone off.
    fn arm(&mut self, at_ns: Option<u64>, gone_off: bool) -> Result<()> {
        if at_ns == self.armed_ns && !gone_off {
            return Ok(());
        }
        self.armed_ns = at_ns;
        let at_ns = at_ns.map_or(0, |ns| ns + self.start_ns);
        let value = Timespec { tv_sec: (at_ns / NS_PER_S) as i64, tv_nsec: (at_ns % NS_PER_S) as i64 };
        let spec = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }
}

/// Queue limits: those of the command line, and a file of more that is read again on SIGHUP.
#[derive(Clone, Debug, Default)]
pub struct QueueConfig {
    /// Those that have queues: the interfaces' and the CPU port.
    pub ports: Vec<u32>,
    pub priorities: usize,
    pub specs: Vec<QueueSpec>,
    pub file: Option<PathBuf>,
}

impl QueueConfig {
    /// All limits, the file's as it is now.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(&self) -> std::result::Result<Vec<QueueSpec>, String> {
        let mut specs = self.specs.clone();
        if let Some(path) = &self.file {
            specs.extend(queues::read_file(path, self.priorities)?);
        }
        queues::check(&specs, &self.ports)?;
        Ok(specs)
    }

    /// Starts a thread that reads the limits again whenever it is asked, and has the packet thread set them; none is
    /// changed unless all can be. A file system that does not answer keeps only this thread waiting.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn reader(self, handle: Handle) -> Result<SyncSender<()>> {
        let (ask, asked) = sync_channel(1);
        let again = move || {
            while asked.recv().is_ok() {
                let set = self.read().map(|specs| {
                    handle.call_blocking(move |d| {
                        let now_ns = d.now_ns();
                        queues::apply(&specs, &mut d.tm, now_ns);
                    })
                });
                match set {
                    Ok(Ok(())) => info!("queue limits read again"),
                    Ok(Err(Gone)) => return,
                    Err(e) => error!("queue limits stay as they were: {e}"),
                }
            }
        };
        std::thread::Builder::new().name("queues".into()).spawn(again)?;
        Ok(ask)
    }
}

pub struct Loop<'a> {
    pub device: &'a mut Device,
    pub ports: &'a mut Ports,
    pub jobs: &'a Jobs,
    pub clock: &'a mut Clock,
    /// SIGINT and SIGTERM end the loop, SIGHUP reads the queue file, SIGUSR1 writes the statistics.
    pub signals: &'a OwnedFd,
    pub queues: &'a SyncSender<()>,
    pub stats: Option<&'a Path>,
}

impl Loop<'_> {
    /// Runs until a signal ends it.
    ///
    /// # Errors
    /// When the kernel refuses what the loop lives by.
    pub fn run(&mut self) -> Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let links = sys::link_changes()?;
        let wait_on = |fd: &OwnedFd, what: u64| epoll::add(&epoll, fd, EventData::new_u64(what), EventFlags::IN);
        epoll::add(&epoll, self.jobs.fd(), EventData::new_u64(JOBS), EventFlags::IN)?;
        wait_on(&self.clock.timer, TIMER)?;
        wait_on(&links, LINKS)?;
        wait_on(self.signals, SIGNALS)?;
        for at in 0..self.ports.len() {
            self.ports.fd(at).map(|fd| wait_on(fd, at as u64)).transpose()?;
        }
        // What changed between opening the ports and listening for changes.
        let mut recheck = true;
        let mut events = Vec::with_capacity(64);
        let mut next_ns = None;
        loop {
            // A device that wants to go on at once is asked again after a look at everything else.
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
            let mut gone_off = false;
            for event in events.drain(..) {
                let (what, flags) = (event.data.u64(), event.flags);
                match what {
                    JOBS => drop(self.jobs.run(self.device)),
                    TIMER => gone_off = true,
                    LINKS => {
                        sys::discard(&links);
                        recheck = true;
                    }
                    SIGNALS => {
                        if self.handle_signals() {
                            self.ports.flush();
                            return Ok(());
                        }
                    }
                    at => {
                        if flags.contains(EventFlags::ERR) {
                            self.ports.clear_error(at as usize);
                            recheck = true;
                        }
                        self.ports.receive(at as usize, self.device, now_ns);
                    }
                }
            }
            if std::mem::take(&mut recheck) {
                for at in self.ports.recheck(self.device, now_ns) {
                    // The old descriptor left the set when it was closed.
                    self.ports.fd(at).map(|fd| wait_on(fd, at as u64)).transpose()?;
                }
            }
            next_ns = self.device.poll(now_ns, &mut self.ports.senders);
            self.ports.flush();
            self.clock.arm(next_ns, gone_off)?;
        }
    }

    /// Does what signals ask for; true: to end.
    fn handle_signals(&mut self) -> bool {
        while let Some(signal) = sys::next_signal(self.signals) {
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
    /// Which file can't be written, and why.
    pub fn write_stats(&mut self) -> std::result::Result<(), String> {
        let Some(path) = self.stats else { return Ok(()) };
        stats::write(path, self.device, self.ports)
    }
}
