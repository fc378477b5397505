// SPDX-License-Identifier: Apache-2.0
//! The weights that are part of the programs (`core/weights/`).

use super::weights::{Profile, Weights, WeightsError};

/// The weights that a profile has without a file of the user's.
///
/// # Errors
/// The file that was compiled in does not fit.
pub fn built_in(profile: Profile) -> Result<Weights, WeightsError> {
    Weights::read(built_in_file(profile), profile)
}

/// The file that [`built_in`] reads.
pub fn built_in_file(profile: Profile) -> &'static [u8] {
    match profile {
        Profile::Own => include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/weights/pbq.weights")),
        Profile::Paper => include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/weights/pbq-paper.weights")),
    }
}
