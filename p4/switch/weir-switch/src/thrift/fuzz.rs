// SPDX-License-Identifier: Apache-2.0
//! Requests without sockets, for fuzzers.
use super::connection::{Source, run};
use super::shared::{Shared, Switch};
use crate::device::Device;
use crate::handle::Jobs;
use crate::p4runtime::{Audit, Control, InitialPipeline};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use weir_p4::bytecode::program::Program;

/// A client whose requests are bytes in memory, and whose answers are kept.
struct Memory<'a> {
    requests: &'a [u8],
    answers: Vec<u8>,
}

impl Read for Memory<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.requests.read(out)
    }
}

impl Write for Memory<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answers.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Memory<'_> {
    fn wait(&mut self) -> io::Result<bool> {
        Ok(!self.requests.is_empty())
    }

    fn within(&mut self, _: Duration) {}
}

/// Runs a device's jobs until no handle is left.
fn run_jobs(device: &mut Device, jobs: &Jobs) {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(jobs.fd(), PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            return;
        }
        while jobs.run_one(device) {}
    }
}

/// A server for requests in memory; its device runs on a thread.
pub struct Memorized(Shared);

impl Memorized {
    #[cfg(test)]
    pub(super) fn control(self) -> Control {
        self.0.control
    }
}

/// A server of `program`, as [`fuzz`] wants it.
///
/// # Panics
/// The system gives no thread or eventfd.
pub fn server(program: Arc<Program>) -> Memorized {
    let (handle, jobs) = crate::handle::channel().expect("an eventfd");
    let mut device = Device::new(Default::default());
    let generation = device.set_pipeline(program.clone());
    std::thread::spawn(move || run_jobs(&mut device, &jobs));
    let initial = InitialPipeline { program, generation, device_config: Vec::new() };
    let limits = (1, None, crate::p4runtime::STATE_BYTES);
    let control = Control::new(limits, handle, Some(initial), Audit::none()).expect("a program that can be served");
    let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 9090));
    Memorized(Shared::new(control, Switch::default(), addr))
}

/// Body of the fuzz target `thrift`: `data` is what a client sends. Gives the answers.
pub fn fuzz(server: &Memorized, data: &[u8]) -> Vec<u8> {
    let mut client = Memory { requests: data, answers: Vec::new() };
    // Broken requests end the connection.
    let _ = run(&mut client, server.0.addr, &server.0, |_| {});
    client.answers
}
