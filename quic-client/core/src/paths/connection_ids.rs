// SPDX-License-Identifier: Apache-2.0
//! Connection IDs: how many there are for the paths, and new ones for the server.

use super::Paths;
use crate::transport::CID_LIMIT;
use quiche::ConnectionId;

/// Connection IDs that the peer has beside those of the known paths: a server that finds us at another address, behind a
/// NAT that took another port, validates that with an unused one (RFC 9000 5.1.1 and 9.5).
pub const SPARE_CIDS: usize = 2;

/// Number of paths that the connection IDs allow. Each path needs one ID of the peer's and one of ours; one more on
/// each side allows a retired one to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidBudget {
    /// Paths that want to be used.
    pub wanted: u64,
    /// Number of our IDs that the peer accepts (its `active_connection_id_limit`).
    pub peer_limit: u64,
    /// Number of the peer's IDs that we accept.
    pub own_limit: u64,
    /// Number of IDs that the peer has issued and not retired.
    pub issued: u64,
    /// Paths that can be used; they are the first of them, in the order in which they were added.
    pub usable: u64,
    /// Whether the peer lets us migrate at all (`disable_active_migration`, RFC 9000 18.2).
    pub migration_allowed: bool,
}

impl Paths {
    /// The connection IDs there are for the paths there are.
    pub fn budget(&self, quic: &quiche::Connection) -> CidBudget {
        let params = quic.peer_transport_params();
        let peer_limit = params.map_or(2, |p| p.active_conn_id_limit);
        let migration_allowed = !params.is_some_and(|p| p.disable_active_migration);
        let wanted = self.entries.iter().filter(|e| !e.leaving).count() as u64;
        let known = self.entries.iter().filter(|e| e.cid.is_some()).count() as u64;
        let ours = self.entries.iter().filter(|e| !e.leaving && e.cid.is_some()).count() as u64;
        let spare = quic.available_dcids() as u64;
        let room = peer_limit.min(CID_LIMIT).saturating_sub(known);
        let usable = if migration_allowed { wanted.min(ours + spare.min(room)) } else { wanted.min(1) };
        CidBudget { wanted, peer_limit, own_limit: CID_LIMIT, issued: known + spare, usable, migration_allowed }
    }

    pub(super) fn hand_out_cids(
        &mut self,
        quic: &mut quiche::Connection,
        new_cid: &mut impl FnMut() -> (ConnectionId<'static>, u128),
    ) {
        issue_cids(quic, self.entries.len(), new_cid);
    }
}

/// Gives the peer connection IDs of ours for so many paths, and [`SPARE_CIDS`] more, as far as both sides' limits allow;
/// retired ones are replaced.
pub fn issue_cids(
    quic: &mut quiche::Connection,
    paths: usize,
    new_cid: &mut impl FnMut() -> (ConnectionId<'static>, u128),
) {
    if quic.source_id().is_empty() {
        return;
    }
    let wanted = paths + SPARE_CIDS;
    let missing = wanted.saturating_sub(quiche::hooks::live_scids(quic)).min(quic.scids_left());
    for _ in 0..missing {
        let (cid, token) = new_cid();
        // An error can only mean that the limit is reached after all.
        if quic.new_scid(&cid, token, false).is_err() {
            break;
        }
    }
}
