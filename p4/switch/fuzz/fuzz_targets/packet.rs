// SPDX-License-Identifier: Apache-2.0
#![no_main]
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use weir_p4::fuzz::{Packets, Twins, as_they_are, program};

#[path = "../../weir-p4/tests/it/common/tables.rs"]
mod tables;

const SMALL: [&str; 3] = [
    include_str!("../../weir-p4/tests/stf/router.p4"),
    include_str!("../../weir-p4/tests/stf/copies.p4"),
    include_str!("../../weir-p4/tests/stf/language.p4"),
];
const PID_DELAY: &str = include_str!("../../../pid_delay.p4");
const EDGE: &str = include_str!("../../../programs/edge.p4");
/// Of one port: few, so that floods find its end.
const QUOTA: u64 = 100;

static PACKETS: LazyLock<Mutex<Packets>> = LazyLock::new(|| {
    let p4 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let small = SMALL.map(|text| (Twins::new(&program(text, &[]), |_| ()), as_they_are as _));
    let edge = Twins::new(&program(EDGE, &[p4.join("programs")]), |edge| tables::forward_names(edge, QUOTA));
    let pid_delay = (Twins::new(&program(PID_DELAY, &[p4]), |_| ()), as_they_are as _);
    Mutex::new(Packets::new(small.into_iter().chain([pid_delay, (edge, tables::name_frame as _)])))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| PACKETS.lock().expect("no run has panicked").feed(data));
