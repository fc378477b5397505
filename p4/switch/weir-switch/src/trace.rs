// SPDX-License-Identifier: Apache-2.0
//! The file of `--trace`. Its own thread writes it, so that a slow disk or reader holds up no packet; lines that wait
//! are bounded, and those that don't fit are counted in the file.
use crate::rotation::RotatingFile;
use std::io::{Result, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::Duration;
use tracing::error;
use weir_p4::exec::TRACE_VERSION;

/// Bytes of lines that wait to be written at most.
const WAITING_BYTES: usize = 16 << 20;

/// Bytes of one write, about.
const WRITE_BYTES: usize = 64 << 10;

/// Time for the lines that wait when the switch ends: a reader may have stopped reading.
const END_WAIT: Duration = Duration::from_secs(2);

/// Lines that wait, and those that were lost.
#[derive(Default)]
struct Shared {
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
}

/// The packet thread's end of a trace.
pub struct TraceSender {
    lines: mpsc::Sender<String>,
    shared: Arc<Shared>,
}

impl TraceSender {
    /// Hands over lines to be written.
    pub fn send(&self, lines: Vec<String>) {
        for line in lines {
            let before = self.shared.waiting_bytes.fetch_add(line.len(), Ordering::Relaxed);
            let bytes = line.len();
            if before + bytes > WAITING_BYTES || self.lines.send(line).is_err() {
                self.shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

enum Sink {
    Stdout,
    File(RotatingFile),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Sink::Stdout => std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
            Sink::File(file) => file.write(bytes),
        }
    }
}

/// The thread that writes a trace.
pub struct TraceWriter {
    ended: mpsc::Receiver<()>,
}

impl TraceWriter {
    /// Opens the file, or takes standard output for `-`. At most `most_bytes` are in the file and as many in FILE.1.
    ///
    /// # Errors
    /// The file can't be opened, or there is no thread.
    pub fn start(path: &Path, most_bytes: u64) -> std::result::Result<(TraceSender, TraceWriter), String> {
        let failed = |e: std::io::Error| format!("--trace {}: {}", path.display(), weir_p4::source::explain(path, &e));
        let sink = match path == Path::new("-") {
            true => Sink::Stdout,
            false => Sink::File(RotatingFile::open(path, most_bytes).map_err(failed)?),
        };
        let (sender, lines) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let mine = shared.clone();
        let work = move || {
            write(&lines, sink, &mine);
            drop(end);
        };
        Builder::new().name("trace".into()).spawn(work).map_err(failed)?;
        Ok((TraceSender { lines: sender, shared }, TraceWriter { ended }))
    }

    /// Waits for lines that were handed over, once the sender is dropped.
    pub fn finish(self) {
        // An error is the end of the thread: nothing is ever sent.
        if self.ended.recv_timeout(END_WAIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            error!("--trace: the last lines could not be written in {} s", END_WAIT.as_secs());
        }
    }
}

/// Writes lines until the sender is dropped.
fn write(lines: &mpsc::Receiver<String>, mut sink: Sink, shared: &Shared) {
    let mut failed = false;
    while let Ok(first) = lines.recv() {
        let (mut bytes, mut count) = (Vec::new(), 0);
        let lost = shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            bytes.extend_from_slice(format!("{{\"v\":{TRACE_VERSION},\"lines_lost\":{lost}}}\n").as_bytes());
        }
        let mut next = Some(first);
        while let Some(line) = next {
            shared.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            count += 1;
            next = if bytes.len() < WRITE_BYTES { lines.try_recv().ok() } else { None };
        }
        match sink.write(&bytes) {
            Ok(()) => failed = false,
            Err(e) => {
                shared.lost.fetch_add(lost + count, Ordering::Relaxed);
                if !failed {
                    error!("--trace: lines could not be written, and further ones are tried: {e}");
                }
                failed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_counted_in_the_file() {
        let (sender, lines) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let trace = TraceSender { lines: sender, shared: shared.clone() };
        let line = "x".repeat(WAITING_BYTES / 4);
        trace.send(vec![line; 7]);
        assert_eq!(shared.lost.load(Ordering::Relaxed), 3);
        let path = std::env::temp_dir().join(format!("weir-trace-{}", std::process::id()));
        let sink = Sink::File(RotatingFile::open(&path, 1 << 30).expect("a file can be made"));
        drop(trace);
        write(&lines, sink, &shared);
        let text = std::fs::read_to_string(&path).expect("the file is there");
        std::fs::remove_file(&path).expect("the file can be removed");
        assert!(text.starts_with("{\"v\":1,\"lines_lost\":3}\n"));
        assert_eq!((text.lines().count(), shared.waiting_bytes.load(Ordering::Relaxed)), (5, 0));
    }
}
