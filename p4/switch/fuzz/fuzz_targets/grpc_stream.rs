// SPDX-License-Identifier: Apache-2.0
#![no_main]
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use weir_p4::syntax::options::Macros;
use weir_switch::device::{Config, Device};

const PROGRAM: &str = include_str!("../../weir-switch/tests/it/p4runtime/entities.p4");

static DEVICE: LazyLock<Mutex<Device>> = LazyLock::new(|| {
    let files = BTreeMap::from([("main.p4".to_string(), PROGRAM.to_string())]);
    let program = weir_p4::compile_package("main.p4", &files, &Macros::default()).expect("the tests compile it");
    let mut device = Device::new(Config { cpu_port: Some(64), ..Config::default() });
    device.set_pipeline(Arc::new(program));
    Mutex::new(device)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_switch::p4runtime::fuzz_stream(&mut DEVICE.lock().expect("no run has panicked"), data);
});
