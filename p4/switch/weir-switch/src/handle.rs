// SPDX-License-Identifier: Apache-2.0
//! Access of other threads to the [`Device`]: a job runs on the packet thread between two packets, so a change is
//! atomic with respect to packets and the packet path needs no lock.
use crate::device::Device;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};
use tokio::sync::oneshot;

/// Work of another thread for the packet thread.
pub type Job = Box<dyn FnOnce(&mut Device) + Send>;

/// The packet thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the switch has ended")
    }
}

impl std::error::Error for Gone {}

/// Sends jobs to the packet thread.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    wake: Arc<OwnedFd>,
}

/// The packet thread's end of it.
pub struct Jobs {
    jobs: mpsc::Receiver<Job>,
    wake: Arc<OwnedFd>,
}

/// A handle and the packet thread's end of it.
///
/// # Errors
/// When the kernel gives no eventfd.
pub fn channel() -> std::io::Result<(Handle, Jobs)> {
    // A semaphore: readable for as long as there are jobs, however few of them are run at a time.
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
    let wake = Arc::new(eventfd(0, flags)?);
    let (sender, receiver) = mpsc::channel();
    Ok((Handle { jobs: sender, wake: wake.clone() }, Jobs { jobs: receiver, wake }))
}

impl Handle {
    fn send<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Device) -> R + Send + 'static,
    ) -> Result<oneshot::Receiver<R>, Gone> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |device| {
            let result = f(device);
            // A caller that went away has no use for the result.
            let _ = reply.send(result);
        });
        self.jobs.send(job).map_err(|_| Gone)?;
        // It can't be refused: memory is full of jobs before the counter is.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        Ok(answer)
    }

    /// Runs `f` on the packet thread between two packets and gives back its result.
    pub async fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Device) -> R + Send + 'static) -> Result<R, Gone> {
        self.send(f)?.await.map_err(|_| Gone)
    }

    /// As [`Handle::call`], for threads without an async runtime.
    pub fn call_blocking<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Device) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        self.send(f)?.blocking_recv().map_err(|_| Gone)
    }
}

impl Jobs {
    /// Readable when there may be jobs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Runs the job that waits longest; false: none does.
    pub fn run_one(&self, device: &mut Device) -> bool {
        // A job is sent before it is counted, so there is one for each that is counted. EAGAIN is nobody having written.
        if rustix::io::read(&self.wake, &mut [0; 8]).is_err() {
            return false;
        }
        self.jobs.try_recv().map(|job| job(device)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_between_packets_and_answers() {
        let (handle, jobs) = channel().unwrap();
        let caller = std::thread::spawn(move || handle.call_blocking(|d| d.now_us()));
        let mut device = Device::new(Default::default());
        device.tick(7_000);
        while !jobs.run_one(&mut device) {
            let mut fds = [rustix::event::PollFd::new(&jobs.wake, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, None).unwrap();
        }
        assert_eq!(caller.join().unwrap(), Ok(7));
    }

    #[test]
    fn jobs_that_wait_keep_the_descriptor_readable() {
        let (handle, jobs) = channel().unwrap();
        let answers: Vec<_> = (0..3).map(|n| handle.send(move |_| n).unwrap()).collect();
        let mut device = Device::new(Default::default());
        let readable = || {
            let mut fds = [rustix::event::PollFd::new(&jobs.wake, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&rustix::time::Timespec::default())).unwrap() == 1
        };
        for (n, answer) in answers.into_iter().enumerate() {
            assert!(readable(), "before job {n}");
            assert!(jobs.run_one(&mut device));
            assert_eq!(answer.blocking_recv().unwrap(), n);
        }
        assert!(!readable());
        assert!(!jobs.run_one(&mut device));
    }

    #[test]
    fn a_call_to_a_switch_that_ended_says_so() {
        let (handle, jobs) = channel().unwrap();
        drop(jobs);
        assert_eq!(handle.call_blocking(|_| ()), Err(Gone));
    }
}
