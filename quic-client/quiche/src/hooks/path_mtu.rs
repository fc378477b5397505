// SPDX-License-Identifier: Apache-2.0
//! Path MTU discovery (RFC 8899) where quiche has none: paths after the first, sizes that the kernel refuses, another
//! search; and the sizes of packets that were acknowledged or lost, from which a caller detects black holes (RFC 8899 4.3).
//! All sizes are UDP payloads in bytes.

use crate::path::Path;
use crate::pmtud::{Pmtud, MAX_PROBES_DEFAULT};
use crate::recovery::RecoveryOps;
use crate::Connection;
use std::cell::Cell;
use std::net::SocketAddr;

/// The size that every path must carry (RFC 9000 14), at which a search begins.
pub const BASE_MTU_BYTES: usize = crate::MIN_CLIENT_INITIAL_LEN;

/// Sizes of packets with frames that elicit acknowledgements; 0 for none. PMTU probes count where they are acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketSizes {
    /// The largest packet acknowledged.
    pub acked: usize,
    /// The largest packet declared lost.
    pub lost: usize,
}

thread_local! {
    static SIZES: Cell<PacketSizes> = const { Cell::new(PacketSizes { acked: 0, lost: 0 }) };
}

/// Runs `f`, and gives the sizes of the packets that a connection found acknowledged or lost in it.
pub fn with_packet_sizes<T>(f: impl FnOnce() -> T) -> (T, PacketSizes) {
    SIZES.set(PacketSizes::default());
    let result = f();
    (result, SIZES.get())
}

/// Patch `packet-sizes`.
pub(crate) fn acked_size(bytes: usize) {
    let sizes = SIZES.get();
    SIZES.set(PacketSizes { acked: sizes.acked.max(bytes), ..sizes });
}

/// Patch `packet-sizes`.
pub(crate) fn lost_size(bytes: usize) {
    let sizes = SIZES.get();
    SIZES.set(PacketSizes { lost: sizes.lost.max(bytes), ..sizes });
}

/// Patch `mtu-handshake`: whether datagrams may be larger than [`BASE_MTU_BYTES`]. quiche coalesces up to the size of the
/// next probe as soon as the handshake is complete, so that the client's Finished is lost with it.
pub(crate) fn may_probe_mtu(confirmed: bool, completed: bool) -> bool {
    confirmed && completed
}

/// Patch `mtu-probe-path`: the path that a packet is for, if a PMTU probe may be in it. quiche sends the active path's
/// probe on whichever path the packet is for, and takes the result for that path's.
pub(crate) fn mtu_probe_path(path: &mut Path) -> Option<&mut Path> {
    (path.active() && path.validated()).then_some(path)
}

fn search_on(path: &mut Path, search: Pmtud) {
    path.recovery.pmtud_update_max_datagram_size(search.get_current_mtu());
    path.pmtud = Some(search);
}

fn search(most_bytes: usize) -> Pmtud {
    Pmtud::new(most_bytes.max(BASE_MTU_BYTES), MAX_PROBES_DEFAULT)
}

fn fail(search: &mut Pmtud, bytes: usize) {
    for _ in 0..MAX_PROBES_DEFAULT {
        search.failed_probe(bytes);
    }
}

/// The upper bound of the search on a connection that has sent nothing yet; `None` if it discovers no path MTU.
pub fn mtu_bound(quic: &Connection) -> Option<usize> {
    let path = quic.paths.get_active().ok()?;
    path.pmtud.as_ref().map(|_| path.recovery.max_datagram_size())
}

/// The size of packets on the active path now.
pub fn mtu(quic: &Connection) -> usize {
    quic.paths.get_active().map_or(BASE_MTU_BYTES, |path| {
        path.pmtud.as_ref().map_or(path.recovery.max_datagram_size(), Pmtud::get_current_mtu)
    })
}

/// Begins a search up to `most_bytes` on each path that has none: quiche gives one to a connection's first path only.
pub fn discover_mtu(quic: &mut Connection, most_bytes: usize) {
    for (_, path) in quic.paths.iter_mut() {
        if path.pmtud.is_none() {
            search_on(path, search(most_bytes));
        }
    }
}

/// The active path goes back to [`BASE_MTU_BYTES`] and is searched anew.
pub fn restart_mtu_search(quic: &mut Connection, most_bytes: usize) {
    if let Ok(path) = quic.paths.get_active_mut() {
        search_on(path, search(most_bytes));
    }
}

/// The kernel refused a datagram of this size on a path (EMSGSIZE). A probe has failed; a packet of the size in use takes
/// the path back to [`BASE_MTU_BYTES`], and larger sizes than this one are not tried.
pub fn refuse_size(quic: &mut Connection, local: SocketAddr, peer: SocketAddr, bytes: usize, most_bytes: usize) {
    let path = quic.paths.path_id_from_addrs(&(local, peer)).and_then(|pid| quic.paths.get_mut(pid).ok());
    let Some(path) = path.filter(|_| bytes > BASE_MTU_BYTES) else { return };
    match &mut path.pmtud {
        Some(known) if known.get_current_mtu() < bytes => fail(known, bytes),
        Some(_) => {
            let mut anew = search(most_bytes);
            fail(&mut anew, bytes);
            search_on(path, anew);
        }
        None => {}
    }
}

/// The active path is searched again above the size in use, if that is below `most_bytes` and the last search is over
/// (RFC 8899 5.1.1, PMTU_RAISE_TIMER).
pub fn raise_mtu(quic: &mut Connection, most_bytes: usize) {
    let Ok(path) = quic.paths.get_active_mut() else { return };
    let Some(known) = path.pmtud.as_ref().and_then(Pmtud::get_pmtu).filter(|known| *known < most_bytes) else { return };
    let mut anew = search(most_bytes);
    fail(&mut anew, most_bytes + 1);
    anew.successful_probe(known);
    search_on(path, anew);
}
