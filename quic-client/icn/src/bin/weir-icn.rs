// SPDX-License-Identifier: Apache-2.0
//! See `weir-icn --help`.
use std::process::ExitCode;

fn main() -> ExitCode {
    weir_io::fault::exit("weir-icn", weir_icn::commands::main())
}
