// SPDX-License-Identifier: Apache-2.0
//! Queue limits from the command line and from a file, which is read again when the operator asks.
use crate::handle::{Gone, Handle};
use crate::queues::{self, QueueSpec};
use std::io::Result;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use tracing::{error, info};

/// Queue limits: those of the command line, and a file of more that is read again on SIGHUP.
#[derive(Clone, Debug, Default)]
pub struct QueueConfig {
    /// Those that have queues: the interfaces' and the CPU port.
    pub ports: Vec<u32>,
    /// Queues of each port.
    pub priorities: usize,
    /// Those of the command line.
    pub specs: Vec<QueueSpec>,
    /// The file of more, if there is one.
    pub file: Option<PathBuf>,
}

impl QueueConfig {
    /// All limits, the file's as it is now.
    ///
    /// # Errors
    /// The file is not valid.
    pub fn read(&self) -> std::result::Result<Vec<QueueSpec>, String> {
        let mut specs = self.specs.clone();
        if let Some(path) = &self.file {
            specs.extend(queues::read_file(path, self.priorities)?);
        }
        queues::check(&specs, &self.ports)?;
        Ok(specs)
    }

    /// Starts a thread that reads the limits again on request, and has the packet thread set them; none is changed
    /// unless all can be. A file system that does not answer keeps only this thread waiting.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn reader(self, handle: Handle) -> Result<SyncSender<()>> {
        let (ask, asked) = sync_channel(1);
        let again = move || {
            while asked.recv().is_ok() {
                let ports = self.ports.clone();
                let set = self.read().map(|specs| {
                    handle.call_blocking(move |d| {
                        let now_ns = d.now_ns();
                        queues::apply(&specs, &ports, &mut d.traffic_manager, now_ns);
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
