// SPDX-License-Identifier: Apache-2.0
//! Random numbers that nobody can predict, for connections.

use super::fault::Fault;
use weir_core::transport::CID_BYTES;
use weir_io::random::bytes;
pub use weir_io::random::share;

/// A fresh connection ID.
///
/// # Errors
/// The system has none.
pub fn new_cid() -> Result<quiche::ConnectionId<'static>, Fault> {
    Ok(quiche::ConnectionId::from_vec(bytes::<CID_BYTES>()?.to_vec()))
}

/// A fresh stateless reset token (RFC 9000 10.3).
///
/// # Errors
/// The system has none.
pub fn new_reset_token() -> Result<u128, Fault> {
    Ok(u128::from_be_bytes(bytes()?))
}
