// SPDX-License-Identifier: Apache-2.0
#![no_main]
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use weir_p4::fuzz::Packets;

const SMALL: [&str; 3] = [
    include_str!("../../weir-p4/tests/stf/router.p4"),
    include_str!("../../weir-p4/tests/stf/copies.p4"),
    include_str!("../../weir-p4/tests/stf/language.p4"),
];
const PID_DELAY: &str = include_str!("../../../pid_delay.p4");

static PACKETS: LazyLock<Mutex<Packets>> = LazyLock::new(|| {
    let dirs: [PathBuf; 1] = [Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")];
    let programs = SMALL.iter().map(|text| (*text, &[][..])).chain([(PID_DELAY, &dirs[..])]);
    Mutex::new(Packets::new(programs))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| PACKETS.lock().expect("no run has panicked").feed(data));
