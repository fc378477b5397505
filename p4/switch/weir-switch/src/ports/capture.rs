// SPDX-License-Identifier: Apache-2.0
//! Capture files (pcap with nanoseconds), one an interface and direction, named as simple_switch names them.
use crate::files;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;
use tracing::error;

/// Nanosecond pcap, version 2.4, Ethernet, in the machine's byte order.
const MAGIC: u32 = 0xa1b2_3c4d;
const SNAP_BYTES: u32 = 65_535;
const ETHERNET: u32 = 1;

pub struct Pcap {
    file: BufWriter<File>,
}

impl Pcap {
    pub fn create(path: &Path) -> Result<Pcap> {
        let mut file = BufWriter::new(files::create(path)?);
        file.write_all(&MAGIC.to_ne_bytes())?;
        file.write_all(&2u16.to_ne_bytes())?;
        file.write_all(&4u16.to_ne_bytes())?;
        for word in [0, 0, SNAP_BYTES, ETHERNET] {
            file.write_all(&word.to_ne_bytes())?;
        }
        file.flush()?;
        Ok(Pcap { file })
    }

    /// Adds a frame seen `at_ns` after the epoch.
    pub fn write(&mut self, frame: &[u8], at_ns: u64) -> Result<()> {
        let kept = frame.len().min(SNAP_BYTES as usize);
        let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        for word in [seconds as u32, ns as u32, kept as u32, frame.len() as u32] {
            self.file.write_all(&word.to_ne_bytes())?;
        }
        self.file.write_all(&frame[..kept])
    }

    /// So that one can look at the file while the switch runs.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

/// Captures a frame, if its port is captured; the capture ends where the file cannot be written.
pub fn capture_frame(capture: &mut Option<Pcap>, name: &str, bytes: &[u8], at_ns: u64) {
    if let Some(Err(e)) = capture.as_mut().map(|c| c.write(bytes, at_ns)) {
        *capture = None;
        error!("capture of {name} ends here: {e}");
    }
}
