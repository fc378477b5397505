// SPDX-License-Identifier: Apache-2.0
//! See `weir-server --help`.
use std::process::ExitCode;

fn main() -> ExitCode {
    weir_endpoint::shared::fault::exit("weir-server", weir_endpoint::server::main())
}
