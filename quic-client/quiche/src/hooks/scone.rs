// SPDX-License-Identifier: Apache-2.0
//! Negotiation of SCONE (draft-ietf-scone-protocol-08, "Negotiating SCONE"). The packets themselves are no matter of
//! quiche's: they are put before its datagrams, and taken off.

use crate::{Config, Connection, Error, Result};
use octets::Octets;

/// The transport parameter `scone_supported`.
pub(crate) const SCONE_PARAMETER: u64 = 0x219e;

/// Patch `scone`: the value of the parameter.
///
/// # Errors
/// It is not empty.
pub(crate) fn scone_supported(value: &Octets) -> Result<bool> {
    if value.cap() == 0 {
        Ok(true)
    } else {
        Err(Error::InvalidTransportParam)
    }
}

/// Sets whether connections with this configuration receive SCONE packets.
pub fn set_scone(config: &mut Config, receives: bool) {
    config.local_transport_params.scone = receives;
}

/// Whether this side of the connection receives SCONE packets.
pub fn receives_scone(quic: &Connection) -> bool {
    quic.local_transport_params.scone
}

/// Whether the peer receives SCONE packets; known once its transport parameters are.
pub fn peer_receives_scone(quic: &Connection) -> bool {
    quic.peer_transport_params.scone
}
