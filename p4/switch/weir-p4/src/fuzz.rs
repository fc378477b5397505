// SPDX-License-Identifier: Apache-2.0
//! Entry points of fuzzers: the targets of p4/switch/fuzz, and a bounded run in the tests.
use crate::bytecode::program::Program;
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
    let mut twins = Twins::new(&Arc::new(loaded.program), |_| ());
    for length in [0, 14, 60] {
        twins.process(&vec![0x45; length], 1, 1000);
    }
}

/// A program from its text and the folders of its included files.
///
/// # Panics
/// When the program does not compile.
pub fn program(text: &str, dirs: &[PathBuf]) -> Arc<Program> {
    match crate::compile("fuzz.p4", text, dirs) {
        Ok(p) => Arc::new(p),
        Err(d) => panic!("the program does not compile:\n{d}"),
    }
}

/// A program in two switches, by the interpreter and as native code.
pub struct Twins {
    interpreted: Switch,
    native: Switch,
}

impl Twins {
    /// `fill` makes the tables' entries.
    pub fn new(program: &Arc<Program>, fill: impl Fn(&mut Switch)) -> Twins {
        let mut twins =
            Twins { interpreted: Switch::new(program.clone(), 7), native: Switch::compiled(program.clone(), 7) };
        [&mut twins.interpreted, &mut twins.native].into_iter().for_each(fill);
        twins
    }

    /// Runs a packet through both.
    ///
    /// # Panics
    /// They do not send the same, report the same, or take as many steps.
    pub fn process(&mut self, frame: &[u8], port: u32, now_us: u64) {
        let [interpreted, native] = [&mut self.interpreted, &mut self.native].map(|s| {
            let mut notes = Notes::default();
            let sent = s.process(frame, port, now_us, &mut notes);
            (sent, notes, s.spent())
        });
        assert_eq!(interpreted.0, native.0, "packets sent by the interpreter, and by native code");
        assert_eq!(format!("{:?}", interpreted.1), format!("{:?}", native.1), "notes, likewise");
        assert_eq!(interpreted.2, native.2, "steps, likewise");
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
    switches: Vec<(Twins, Frame)>,
    now_us: u64,
}

impl Packets {
    /// Each pair of switches with its maker of frames.
    pub fn new(switches: impl IntoIterator<Item = (Twins, Frame)>) -> Packets {
        Packets { switches: switches.into_iter().collect(), now_us: 0 }
    }

    /// One of the switches with native code, after all that it was fed.
    pub fn switch(&self, which: usize) -> &Switch {
        &self.switches[which].0.native
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
            switch.process(&frame(packet), u32::from(*port), self.now_us);
            rest = next;
        }
    }
}
