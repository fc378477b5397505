// SPDX-License-Identifier: Apache-2.0
//! ECN (RFC 9000 13.4, RFC 9002 7.1): counts of received codepoints for ACK frames, marks on sent packets, validation of
//! each path, and the reaction to CE.
//!
//! Only 1-RTT packets that have a datagram of their own are marked, on the active path, once the handshake is complete:
//! on a path that drops ECT, a marked Initial packet would cost its sender's initial probe timeout, a second.

use crate::path::{Path, PathMap};
use crate::recovery::{RecoveryOps, Sent};
use crate::Connection;
use smallvec::SmallVec;
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Instant;

/// Marked packets of a path's test (RFC 9000 A.4).
const TEST_PACKETS: u64 = 10;
/// Marked packets that were lost, none having arrived, after which a path is taken to drop ECT.
const LOST_PACKETS: u64 = 4;

/// Patch `ecn-backoff`: factor of cubic's window at CE (RFC 8511 3.1).
pub(crate) const ECN_BETA_CUBIC: f64 = 0.85;
/// The same for reno.
pub(crate) const ECN_BETA_RENO: f64 = 0.8;

/// A codepoint of the ECN field (RFC 3168 5), with its value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Codepoint {
    /// No ECN.
    #[default]
    NotEct = 0,
    /// ECT(1), of L4S (RFC 9331).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion Experienced.
    Ce = 3,
}

impl Codepoint {
    /// The codepoint in a TOS or traffic class byte.
    pub fn of_tos(tos: u8) -> Codepoint {
        match tos & 3 {
            1 => Codepoint::Ect1,
            2 => Codepoint::Ect0,
            3 => Codepoint::Ce,
            _ => Codepoint::NotEct,
        }
    }

    #[cfg(feature = "qlog")]
    pub(crate) fn in_qlog(self) -> &'static str {
        match self {
            Codepoint::NotEct => "Not-ECT",
            Codepoint::Ect1 => "ECT(1)",
            Codepoint::Ect0 => "ECT(0)",
            Codepoint::Ce => "CE",
        }
    }
}

/// Use of ECN by a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// No packet is marked, and no count reported: quiche as it is.
    #[default]
    Off,
    /// ECT(0).
    Classic,
    /// ECT(1), for a congestion control that meets the requirements of L4S (RFC 9331 4).
    L4s,
}

impl EcnMode {
    fn codepoint(self) -> Codepoint {
        match self {
            EcnMode::Off => Codepoint::NotEct,
            EcnMode::Classic => Codepoint::Ect0,
            EcnMode::L4s => Codepoint::Ect1,
        }
    }
}

/// State of a path's validation (RFC 9000 A.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EcnState {
    /// Some packets are marked.
    #[default]
    Testing,
    /// The test's packets are sent; no packet is marked until one of them is acknowledged.
    Unknown,
    /// All packets are marked.
    Capable,
    /// No packet is marked.
    Failed,
}

impl EcnState {
    /// Its name in a qlog.
    pub fn name(self) -> &'static str {
        match self {
            EcnState::Testing => "testing",
            EcnState::Unknown => "unknown",
            EcnState::Capable => "capable",
            EcnState::Failed => "failed",
        }
    }
}

/// Reason of a failed validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EcnFailure {
    /// An acknowledgement of marked packets has no counts: the path or the peer does not support ECN.
    NoCounts,
    /// A count decreased.
    Decreased,
    /// More packets were counted than were sent, or with a codepoint that was not sent.
    Excess,
    /// Fewer packets were counted than acknowledged: the path clears the field.
    Missing,
    /// No marked packet arrived.
    AllLost,
    /// All packets of the test arrived with CE.
    AllMarked,
}

impl EcnFailure {
    /// Its identifier in reports.
    pub fn name(self) -> &'static str {
        match self {
            EcnFailure::NoCounts => "no-counts",
            EcnFailure::Decreased => "decreased",
            EcnFailure::Excess => "excess",
            EcnFailure::Missing => "missing",
            EcnFailure::AllLost => "all-lost",
            EcnFailure::AllMarked => "all-marked",
        }
    }
}

/// Packets by the codepoint they arrived with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnPackets {
    /// With ECT(0).
    pub ect0: u64,
    /// With ECT(1).
    pub ect1: u64,
    /// With CE.
    pub ce: u64,
}

impl EcnPackets {
    pub(crate) fn count(&mut self, codepoint: Codepoint) {
        match codepoint {
            Codepoint::NotEct => {}
            Codepoint::Ect1 => self.ect1 += 1,
            Codepoint::Ect0 => self.ect0 += 1,
            Codepoint::Ce => self.ce += 1,
        }
    }

    // Patch `ecn-counts`. ACK frames have counts once a packet arrived with a codepoint (RFC 9000 13.4.1).
    pub(crate) fn for_ack(&self, mode: EcnMode) -> Option<crate::frame::EcnCounts> {
        (mode != EcnMode::Off && *self != EcnPackets::default()).then_some(crate::frame::EcnCounts {
            ect0_count: self.ect0,
            ect1_count: self.ect1,
            ecn_ce_count: self.ce,
        })
    }

    fn of_ack(counts: &crate::frame::EcnCounts) -> EcnPackets {
        EcnPackets { ect0: counts.ect0_count, ect1: counts.ect1_count, ce: counts.ecn_ce_count }
    }
}

/// Counts that were reported before an acknowledgement, and what can be known about those that it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnReported {
    /// The counts.
    pub packets: EcnPackets,
    /// Marked packets sent so far, over all paths.
    pub sent: u64,
    /// Packets in the counts beyond those sent, which made a validation fail.
    pub excess: u64,
}

impl EcnReported {
    /// Validates the counts of an acknowledgement of `acked` more marked packets (RFC 9000 13.4.2.1), and gives the
    /// increase of the CE count.
    ///
    /// # Errors
    /// The reason of failure.
    pub fn validate(&self, mode: EcnMode, counts: Option<EcnPackets>, acked: u64) -> Result<u64, EcnFailure> {
        let Some(counts) = counts else {
            return if acked > 0 { Err(EcnFailure::NoCounts) } else { Ok(0) };
        };
        let EcnPackets { ect0, ect1, ce } = self.packets;
        let (Some(ect0), Some(ect1), Some(ce)) =
            (counts.ect0.checked_sub(ect0), counts.ect1.checked_sub(ect1), counts.ce.checked_sub(ce))
        else {
            return Err(EcnFailure::Decreased);
        };
        let (own, other, own_total) =
            if mode == EcnMode::L4s { (ect1, ect0, counts.ect1) } else { (ect0, ect1, counts.ect0) };
        let total = own_total.saturating_add(counts.ce).saturating_sub(self.excess);
        if other > 0 || total > self.sent {
            return Err(EcnFailure::Excess);
        }
        if own.saturating_add(ce) < acked {
            return Err(EcnFailure::Missing);
        }
        Ok(ce)
    }

    /// Accepts the counts, valid or not, as those that later ones are compared with.
    pub fn accept(&mut self, mode: EcnMode, counts: EcnPackets) {
        let own = if mode == EcnMode::L4s { counts.ect1 } else { counts.ect0 };
        self.excess = self.excess.max(own.saturating_add(counts.ce).saturating_sub(self.sent));
        self.packets = counts;
    }
}

/// Fate of a path's marked packets, in its recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnTally {
    acked: u64,
    acked_bytes: u64,
    lost: u64,
    newest_sent: Option<Instant>,
    // One was acknowledged since the test began.
    proven: bool,
}

impl EcnTally {
    // Patch `ecn-recovery`.
    pub(crate) fn on_acked(&mut self, ect: bool, bytes: usize, time_sent: Instant) {
        if ect {
            self.acked += 1;
            self.acked_bytes += bytes as u64;
            self.newest_sent = self.newest_sent.max(Some(time_sent));
            self.proven = true;
        }
    }

    // Patch `ecn-recovery`. Whether the loss is no sign of congestion: until a marked packet was acknowledged, the path
    // may drop all of them, at most `TEST_PACKETS`. They are sent again as after any loss.
    pub(crate) fn on_lost(&mut self, ect: bool) -> bool {
        self.lost += u64::from(ect);
        ect && !self.proven
    }
}

/// ECN on one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathEcn {
    state: EcnState,
    failure: Option<EcnFailure>,
    sent: u64,
    ce: u64,
    // Of the test: packets that could be marked, packets marked, packets arrived with CE, the tally at its start.
    eligible: u64,
    tested: u64,
    test_ce: u64,
    start: EcnTally,
    // The tally that was seen last.
    seen: EcnTally,
    pub(super) logged: Option<EcnState>,
}

impl PathEcn {
    fn fail(&mut self, why: EcnFailure) -> bool {
        let fails = self.state != EcnState::Failed;
        if fails {
            (self.state, self.failure) = (EcnState::Failed, Some(why));
        }
        fails
    }

    fn is_tested(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::Unknown)
    }

    // Whether the test has just failed by losses.
    fn see_losses(&mut self, tally: &EcnTally) -> bool {
        let lost = tally.lost - self.start.lost;
        self.is_tested() && !tally.proven && lost >= LOST_PACKETS && self.fail(EcnFailure::AllLost)
    }

    // So many packets of the test arrived with CE: all of those acknowledged, for L4S no failure, since a full L4S
    // queue marks all. Gives whether the CE marks are a sign of congestion.
    fn see_marks(&mut self, mode: EcnMode, tally: &EcnTally, ce: u64) -> Result<bool, EcnFailure> {
        self.ce += ce;
        if !self.is_tested() {
            return Ok(self.state == EcnState::Capable);
        }
        self.test_ce += ce;
        let acked = tally.acked - self.start.acked;
        if mode == EcnMode::L4s || self.test_ce < acked {
            self.state = EcnState::Capable;
            return Ok(true);
        }
        let resolved = acked + (tally.lost - self.start.lost);
        if resolved >= TEST_PACKETS {
            Err(EcnFailure::AllMarked)
        } else {
            Ok(false)
        }
    }

    // Validation begins again, as the connection moves to the path.
    fn restart(&mut self, tally: &mut EcnTally) {
        if self.state == EcnState::Failed {
            return;
        }
        tally.proven = false;
        self.state = EcnState::Testing;
        (self.eligible, self.tested, self.test_ce, self.start) = (0, 0, 0, *tally);
    }

    // Every second packet of a test is marked, the first one not: where ECT is dropped, the others reveal the loss.
    fn tests(&mut self) -> bool {
        self.eligible += 1;
        let marked = self.eligible.is_multiple_of(2);
        self.tested += u64::from(marked);
        if self.tested >= TEST_PACKETS {
            self.state = EcnState::Unknown;
        }
        marked
    }
}

/// Acknowledged marked packets of the active path, since [`take_ecn_feedback`] was called last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnSeen {
    /// Packets sent with ECT and acknowledged.
    pub acked_packets: u64,
    /// Their bytes, without those of packets that only acknowledge.
    pub acked_bytes: u64,
    /// Packets that arrived with CE.
    pub ce_packets: u64,
    /// When the newest was sent.
    pub newest_sent: Option<Instant>,
}

/// ECN of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEcn {
    pub(crate) mode: EcnMode,
    pub(crate) incoming: Codepoint,
    pub(crate) outgoing: Codepoint,
    // The next packet is the first of its datagram.
    pub(crate) first: bool,
    reported: EcnReported,
    largest_acked: Option<u64>,
    seen: EcnSeen,
    seen_state: Option<EcnState>,
    total: EcnTotals,
}

/// Packets that were sent with ECT, on all paths that the connection had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnTotals {
    /// Sent.
    pub sent: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Reported by the peer to have arrived with CE.
    pub ce: u64,
    /// Failed validations.
    pub failures: u64,
}

impl ConnectionEcn {
    // Patch `ecn-marks`: the codepoint in packet events, of connections that use ECN.
    #[cfg(feature = "qlog")]
    pub(crate) fn logged(&self, codepoint: Codepoint) -> Option<Codepoint> {
        (self.mode != EcnMode::Off).then_some(codepoint)
    }
}

/// Sets the use of ECN, before the connection sends anything.
pub fn set_ecn(quic: &mut Connection, mode: EcnMode) {
    quic.ecn.mode = mode;
}

/// The codepoint that the next datagram given to [`Connection::recv`] arrived with.
pub fn received_with(quic: &mut Connection, codepoint: Codepoint) {
    quic.ecn.incoming = codepoint;
}

/// A path's ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnOfPath {
    /// Its local address.
    pub local: SocketAddr,
    /// Its remote address.
    pub peer: SocketAddr,
    /// State of validation.
    pub state: EcnState,
    /// Why it failed.
    pub failure: Option<EcnFailure>,
    /// Marked packets sent.
    pub sent: u64,
    /// Marked packets acknowledged.
    pub acked: u64,
    /// Marked packets lost.
    pub lost: u64,
    /// Packets that the peer reported to have arrived with CE.
    pub ce: u64,
}

/// ECN of all paths that the connection has.
pub fn ecn_of_paths(quic: &Connection) -> Vec<EcnOfPath> {
    let of = |path: &Path| {
        let PathEcn { state, failure, sent, ce, seen: EcnTally { acked, lost, .. }, .. } = path.ecn;
        EcnOfPath { local: path.local_addr(), peer: path.peer_addr(), state, failure, sent, acked, lost, ce }
    };
    quic.paths.iter().map(|(_, path)| of(path)).collect()
}

/// Use of ECN, and counts over all paths.
pub fn ecn_totals(quic: &Connection) -> (EcnMode, EcnTotals) {
    (quic.ecn.mode, EcnTotals { sent: quic.ecn.reported.sent, ..quic.ecn.total })
}

/// State of the active path's validation; `None` without ECN.
pub fn ecn_state(quic: &Connection) -> Option<EcnState> {
    let path = quic.paths.get_active().ok().filter(|_| quic.ecn.mode != EcnMode::Off)?;
    Some(path.ecn.state)
}

/// State of the active path, and its feedback since the last call; `None` if there is nothing new.
pub fn take_ecn_feedback(quic: &mut Connection) -> Option<(EcnState, EcnSeen)> {
    let state = ecn_state(quic)?;
    let seen = std::mem::take(&mut quic.ecn.seen);
    let changed = quic.ecn.seen_state.replace(state) != Some(state);
    (changed || seen != EcnSeen::default()).then_some((state, seen))
}

/// Patch `ecn-marks`: whether a packet is marked, and with it its datagram.
pub(crate) fn mark(ecn: &mut ConnectionEcn, path: &mut Path, may: bool, eliciting: bool) -> bool {
    ecn.outgoing = Codepoint::NotEct;
    if ecn.mode == EcnMode::Off || !may || !std::mem::take(&mut ecn.first) || !path.active() {
        return false;
    }
    let tally = *path.recovery.ecn_tally();
    ecn.total.failures += u64::from(path.ecn.see_losses(&tally));
    let marked = match path.ecn.state {
        EcnState::Capable => true,
        // Neither a packet that is not acknowledged by itself, nor a probe: a lost one would cost the next timeout.
        EcnState::Testing => {
            let probes = path.recovery.loss_probes(crate::packet::Epoch::Application) > 0;
            eliciting && !probes && path.ecn.tests()
        }
        EcnState::Unknown | EcnState::Failed => false,
    };
    if marked {
        ecn.outgoing = ecn.mode.codepoint();
        ecn.reported.sent += 1;
        path.ecn.sent += 1;
    }
    marked
}

/// Patch `ecn-validation`: an acknowledgement of packets up to `largest` was processed.
pub(crate) fn on_ack(
    ecn: &mut ConnectionEcn,
    paths: &mut PathMap,
    is_application: bool,
    largest: Option<u64>,
    counts: Option<&crate::frame::EcnCounts>,
    now: Instant,
) {
    if ecn.mode == EcnMode::Off {
        return;
    }
    let counts = counts.map(EcnPackets::of_ack);
    if !is_application {
        // No packet of this space is ever marked.
        if counts.is_some_and(|counts| counts != EcnPackets::default()) {
            fail(ecn, paths, EcnFailure::Excess, |_| true);
        }
        return;
    }
    let active = paths.get_active_path_id().ok();
    let mut news: SmallVec<[(usize, u64); 4]> = SmallVec::new();
    for (pid, path) in paths.iter_mut() {
        let tally = *path.recovery.ecn_tally();
        let before = std::mem::replace(&mut path.ecn.seen, tally);
        ecn.total.failures += u64::from(path.ecn.see_losses(&tally));
        let acked = tally.acked - before.acked;
        ecn.total.acked += acked;
        if acked > 0 && path.ecn.state != EcnState::Failed {
            news.push((pid, acked));
            if active == Some(pid) {
                ecn.seen.acked_packets += acked;
                ecn.seen.acked_bytes += tally.acked_bytes - before.acked_bytes;
                ecn.seen.newest_sent = tally.newest_sent;
            }
        }
    }
    // RFC 9000 13.4.2.1: one that does not increase the largest number may have been overtaken.
    if largest <= ecn.largest_acked {
        return;
    }
    ecn.largest_acked = largest;
    let mut ce = match ecn.reported.validate(ecn.mode, counts, news.iter().map(|(_, acked)| acked).sum()) {
        Ok(ce) => ce,
        Err(why) => {
            if let Some(counts) = counts {
                ecn.reported.accept(ecn.mode, counts);
            }
            // Of several paths those under test are the likelier cause.
            let tested = |pid: usize| paths.get(pid).is_ok_and(|path| path.ecn.is_tested());
            if news.iter().any(|(pid, _)| tested(*pid)) {
                news.retain(|(pid, _)| tested(*pid));
            }
            fail(ecn, paths, why, |pid| news.is_empty() || news.iter().any(|(of, _)| *of == pid));
            return;
        }
    };
    if let Some(counts) = counts {
        ecn.reported.accept(ecn.mode, counts);
    }
    // Where packets of several paths are acknowledged together, the active one comes first.
    news.sort_by_key(|(pid, _)| active != Some(*pid));
    for (pid, acked) in news {
        let Ok(path) = paths.get_mut(pid) else { continue };
        let marks = ce.min(acked);
        ce -= marks;
        ecn.total.ce += marks;
        let tally = *path.recovery.ecn_tally();
        match path.ecn.see_marks(ecn.mode, &tally, marks) {
            Ok(true) if marks > 0 => {
                path.recovery.on_ce(marks, tally.newest_sent.unwrap_or(now), now);
                if active == Some(pid) {
                    ecn.seen.ce_packets += marks;
                }
            }
            Ok(_) => {}
            Err(why) => ecn.total.failures += u64::from(path.ecn.fail(why)),
        }
    }
}

fn fail(ecn: &mut ConnectionEcn, paths: &mut PathMap, why: EcnFailure, of: impl Fn(usize) -> bool) {
    for (_, path) in paths.iter_mut().filter(|(pid, _)| of(*pid)) {
        ecn.total.failures += u64::from(path.ecn.fail(why));
    }
}

/// Patch `ecn-validation`: the connection moves to this path, which is validated anew.
pub(crate) fn restart_ecn(path: &mut Path) {
    let mut tally = *path.recovery.ecn_tally();
    path.ecn.restart(&mut tally);
    *path.recovery.ecn_tally() = tally;
}

/// Patch `ecn-reaction`: a packet for quiche's functions on congestion events, of which reno and cubic read the time.
pub(crate) fn sent_at(time_sent: Instant) -> Sent {
    Sent {
        pkt_num: 0,
        frames: SmallVec::new(),
        time_sent,
        time_acked: None,
        time_lost: None,
        size: 0,
        ack_eliciting: true,
        in_flight: true,
        delivered: 0,
        delivered_time: time_sent,
        first_sent_time: time_sent,
        is_app_limited: false,
        tx_in_flight: 0,
        lost: 0,
        has_data: true,
        is_pmtud_probe: false,
        ect: true,
    }
}

thread_local! {
    static CE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Patch `ecn-reaction`: bytes that arrived with CE, for [`ce_bytes`].
pub(crate) fn give_ce_bytes(bytes: usize) {
    CE_BYTES.set(bytes);
}

/// Patch `ecn-reaction`: bytes that BBR's model counts as lost, though they arrived.
pub(crate) fn ce_bytes() -> usize {
    CE_BYTES.take()
}

/// Logs the state of a path's validation, if it has changed.
#[cfg(feature = "qlog")]
pub(super) fn log_ecn_state(log: &mut qlog::streamer::QlogStreamer, path: &mut Path, now: Instant) {
    use qlog::events::{quic::EcnStateUpdated, EventImportance, JsonEvent};
    fn of(state: EcnState) -> qlog::events::quic::EcnState {
        match state {
            EcnState::Testing => qlog::events::quic::EcnState::Testing,
            EcnState::Unknown => qlog::events::quic::EcnState::Unknown,
            EcnState::Capable => qlog::events::quic::EcnState::Capable,
            EcnState::Failed => qlog::events::quic::EcnState::Failed,
        }
    }
    let state = path.ecn.state;
    let old = path.ecn.logged.replace(state);
    if old != Some(state) {
        // As one of the least detailed: at the level of the packets it would be left out.
        let data = serde_json::to_value(EcnStateUpdated { old: old.map(of), new: of(state) }).unwrap_or_default();
        let name = "quic:ecn_state_updated".to_owned();
        let record = JsonEvent { time: 0.0, importance: EventImportance::Core, name, data };
        log.add_event_with_instant(record, now).ok();
    }
}
