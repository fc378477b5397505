// SPDX-License-Identifier: Apache-2.0
//! What fuzzers call: the targets of p4/switch/fuzz, and a bounded run in the tests.
use crate::v1model::{Notes, Switch};
use std::path::PathBuf;
use std::sync::Arc;

/// Any bytes as a program: compiled or refused, and its P4Info written, without a panic.
pub fn front_end(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match crate::compile("fuzz.p4", &text, &[]) {
        Ok(program) => assert!(!program.info.text().is_empty()),
        Err(diags) => assert!(diags.has_errors(), "refused without an error"),
    }
}

/// Switches with programs that are compiled once, for packets of any bytes.
pub struct Packets {
    switches: Vec<Switch>,
    now_us: u64,
}

impl Packets {
    /// From the texts of programs and the folders of their included files.
    ///
    /// # Panics
    /// When a program does not compile.
    pub fn new<'a>(programs: impl IntoIterator<Item = (&'a str, &'a [PathBuf])>) -> Packets {
        let switch = |(text, dirs): (&str, &[PathBuf])| match crate::compile("fuzz.p4", text, dirs) {
            Ok(p) => Switch::new(Arc::new(p), 7),
            Err(d) => panic!("the program does not compile:\n{d}"),
        };
        Packets { switches: programs.into_iter().map(switch).collect(), now_us: 0 }
    }

    /// The first byte chooses the switch; then each packet is a byte for the port, one for half the length, one for
    /// the milliseconds since the last, and its bytes.
    pub fn feed(&mut self, data: &[u8]) {
        let Some((which, mut rest)) = data.split_first() else { return };
        let n = self.switches.len();
        let switch = &mut self.switches[*which as usize % n];
        while let [port, half, wait_ms, tail @ ..] = rest {
            let (packet, next) = tail.split_at((2 * *half as usize).min(tail.len()));
            self.now_us += 1000 * u64::from(*wait_ms);
            let mut notes = Notes::default();
            switch.process(packet, u32::from(*port), self.now_us, &mut notes);
            rest = next;
        }
    }
}
