// SPDX-License-Identifier: Apache-2.0
//! Entry points of fuzzers: the targets of p4/switch/fuzz, and a bounded run in the tests.
use crate::p4info::Format;
use crate::v1model::{Notes, Switch};
use std::path::PathBuf;
use std::sync::Arc;

/// Any bytes as a program: compiled or refused, and its P4Info written, without a panic.
pub fn front_end(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match crate::compile("fuzz.p4", &text, &[]) {
        Ok(program) => [Format::Text, Format::Binary, Format::Json]
            .iter()
            .for_each(|format| assert!(program.info.file(*format).is_ok_and(|bytes| !bytes.is_empty()))),
        Err(diags) => assert!(diags.has_errors(), "refused without an error"),
    }
}

/// Any bytes as BMv2's JSON: loaded, its P4Info written and packets run, or refused, without a panic.
pub fn json(data: &[u8]) {
    let Ok(loaded) = crate::bmv2::load(&String::from_utf8_lossy(data)) else { return };
    assert!(loaded.program.info.file(Format::Text).is_ok_and(|bytes| !bytes.is_empty()));
    let mut switch = Switch::new(Arc::new(loaded.program), 7);
    for length in [0, 14, 60] {
        switch.process(&vec![0x45; length], 1, 1000, &mut Notes::default());
    }
}

/// A switch with a program and empty tables, from the program's text and the folders of its included files.
///
/// # Panics
/// When the program does not compile.
pub fn switch(text: &str, dirs: &[PathBuf]) -> Switch {
    match crate::compile("fuzz.p4", text, dirs) {
        Ok(p) => Switch::new(Arc::new(p), 7),
        Err(d) => panic!("the program does not compile:\n{d}"),
    }
}

/// Maps a fuzzer's bytes to a frame for the switch.
pub type Frame = fn(&[u8]) -> Vec<u8>;

/// The bytes as they are.
pub fn as_they_are(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

/// Switches with programs that are compiled once, for packets of any bytes.
pub struct Packets {
    switches: Vec<(Switch, Frame)>,
    now_us: u64,
}

impl Packets {
    /// Each switch with its maker of frames.
    pub fn new(switches: impl IntoIterator<Item = (Switch, Frame)>) -> Packets {
        Packets { switches: switches.into_iter().collect(), now_us: 0 }
    }

    /// One of the switches, after all that it was fed.
    pub fn switch(&self, which: usize) -> &Switch {
        &self.switches[which].0
    }

    /// The first byte chooses the switch; then each packet is a byte for the port, one for half the length, one for
    /// the milliseconds since the last, and the bytes that its frame is made of.
    pub fn feed(&mut self, data: &[u8]) {
        let Some((which, mut rest)) = data.split_first() else { return };
        let n = self.switches.len();
        let (switch, frame) = &mut self.switches[*which as usize % n];
        while let [port, half, wait_ms, tail @ ..] = rest {
            let (packet, next) = tail.split_at((2 * *half as usize).min(tail.len()));
            self.now_us += 1000 * u64::from(*wait_ms);
            let mut notes = Notes::default();
            switch.process(&frame(packet), u32::from(*port), self.now_us, &mut notes);
            rest = next;
        }
    }
}
