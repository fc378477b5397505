// SPDX-License-Identifier: Apache-2.0
//! Requests of Thrift's clients.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, OnceLock};
use weir_switch::thrift::{Memorized, fuzz, memory_server};

const PROGRAM: &str = include_str!("../../weir-switch/tests/it/p4runtime/entities.p4");

static SERVER: OnceLock<Memorized> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let server = SERVER.get_or_init(|| {
        let program = weir_p4::compile("entities.p4", PROGRAM, &[]).expect("the program compiles");
        memory_server(Arc::new(program))
    });
    fuzz(server, data);
});
