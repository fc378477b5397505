// SPDX-License-Identifier: Apache-2.0
//! See `weir-client --help`.
use std::process::ExitCode;

fn main() -> ExitCode {
    weir_endpoint::shared::fault::exit("weir-client", weir_endpoint::client::main())
}
