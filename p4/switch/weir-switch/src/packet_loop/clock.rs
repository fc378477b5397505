// SPDX-License-Identifier: Apache-2.0
//! Time since the switch started.
use crate::traffic_manager::NS_PER_S;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::io::Result;
use std::os::fd::OwnedFd;

fn to_ns(t: Timespec) -> u64 {
    u64::try_from(t.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// Time since the switch started, and a timer on the same scale.
pub struct Clock {
    start_ns: u64,
    /// Readable when the time of [`Clock::arm`] has come.
    pub timer: OwnedFd,
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

    /// Nanoseconds since the switch started.
    pub fn now_ns(&self) -> u64 {
        to_ns(clock_gettime(ClockId::Monotonic)) - self.start_ns
    }

    /// Offset from [`Clock::now_ns`] to time since the epoch.
    pub fn epoch_ns(&self) -> u64 {
        to_ns(clock_gettime(ClockId::Realtime)).saturating_sub(self.now_ns())
    }

    /// Makes the timer readable at `at_ns`, or never. Setting it anew also clears that it has gone off.
    pub fn arm(&mut self, at_ns: Option<u64>, gone_off: bool) -> Result<()> {
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
