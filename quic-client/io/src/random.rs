// SPDX-License-Identifier: Apache-2.0
//! Random bytes that nobody can predict.

use crate::fault::Fault;

/// Random bytes.
///
/// # Errors
/// The system has none.
pub fn bytes<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    boring::rand::rand_bytes(&mut bytes).map_err(Fault::internal("no random numbers"))?;
    Ok(bytes)
}

/// A random share of a whole, from 0 to just below 1.
///
/// # Errors
/// The system has none.
pub fn share() -> Result<f64, Fault> {
    Ok(f64::from(u32::from_ne_bytes(bytes()?)) / 2f64.powi(32))
}
