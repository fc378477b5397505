// SPDX-License-Identifier: Apache-2.0
//! The version of the programs of this package.

/// Version, with the commit of the sources where the build names it.
pub const VERSION: &str = match option_env!("WEIR_BUILD") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
