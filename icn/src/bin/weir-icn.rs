// SPDX-License-Identifier: Apache-2.0
//! See `weir-icn --help`.
use std::process::ExitCode;

/// Version, with the commit of the sources where the build names it.
const VERSION: &str = match option_env!("WEIR_BUILD") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    weir_io::fault::exit("weir-icn", weir_icn::commands::main(VERSION))
}
