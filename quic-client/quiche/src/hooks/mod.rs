// SPDX-License-Identifier: Apache-2.0
//! The functions that the patches in quiche's source call, and functions that the core needs beyond quiche's public
//! interface. Rules for receive windows and a congestion window can take the place of quiche's; without them each
//! function behaves as quiche itself.
//!
//! A rule applies for the length of one call of [`send`] or [`retune`], a congestion window for the length of
//! [`with_congestion_window`]. Both are kept per thread, since quiche has no place for them in its connection.

#![deny(clippy::all, missing_docs, unused, unsafe_op_in_unsafe_fn)]

mod ecn;
mod memory;
mod path_mtu;
mod received;
mod recovery;
mod scone;
mod timestamps;

pub(crate) use ecn::*;
pub use ecn::{
    ecn_of_paths, ecn_state, ecn_totals, received_with, set_ecn, take_ecn_feedback, Codepoint, EcnFailure, EcnMode,
    EcnOfPath, EcnPackets, EcnReported, EcnSeen, EcnState, EcnTotals,
};
pub(crate) use memory::{alone, give_room_back};
pub use memory::{drop_unread, unacknowledged, unread, unread_frames_bytes, Unacknowledged, Unread};
pub(crate) use path_mtu::{acked_size, lost_size, may_probe_mtu, mtu_probe_path};
pub use path_mtu::{
    discover_mtu, mtu, mtu_bound, raise_mtu, refuse_size, restart_mtu_search, with_packet_sizes, PacketSizes,
    BASE_MTU_BYTES,
};
pub use received::ReceivedNumbers;
pub(crate) use recovery::*;
pub(crate) use scone::*;
pub use scone::{peer_receives_scone, receives_scone, set_scone};
pub(crate) use timestamps::*;
pub use timestamps::{gets_timestamps, set_timestamps, Timestamps};

use crate::cid::ConnectionIdentifiers;
use crate::path::{Path, PathMap};
use crate::recovery::RecoveryOps;
use crate::{Connection, Result, SendInfo};
use std::cell::Cell;
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// The licence of quiche, to be shown with programs that hold it.
pub const QUICHE_LICENCE: &str = include_str!(concat!(env!("OUT_DIR"), "/quiche/COPYING"));

/// Patch `qlog-schema`: names the events `weir:...` in a qlog file's list of schemas, as every namespace in use must be.
pub const QLOG_SCHEMA: &str = "urn:weir:qlog:events:weir#0.1";

/// Scope of a window: one stream, or the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A stream's, by its ID.
    Stream(u64),
    /// The connection's.
    Connection,
}

/// Input of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowUpdate {
    /// Scope of the window.
    pub scope: Scope,
    /// The time.
    pub now: Instant,
    /// Smoothed RTT of the active path.
    pub rtt: Duration,
    /// Time since the last update; `None` before the first.
    pub since_last: Option<Duration>,
    /// The window now.
    pub window_bytes: u64,
    /// Its upper bound; a rule's larger value is cut.
    pub max_window_bytes: u64,
    /// Bytes that the application has read.
    pub consumed_bytes: u64,
    /// Bytes up to the highest offset received (RFC 9000 4.1): the count of flow control.
    pub received_bytes: u64,
    /// The limit advertised to the peer (MAX_DATA or MAX_STREAM_DATA).
    pub max_data_bytes: u64,
}

/// A rule for receive windows, of the connection and of its streams.
///
/// The new limit is the read bytes plus the window, but never less than the limit advertised before: the peer may have
/// used that already. quiche asks again if the update found no room in a packet; `max_data_bytes` is then the same.
pub trait WindowRule {
    /// The window, in bytes, from now on. quiche is about to send an update: less than half of the window is available,
    /// or [`WindowRule::due`] wanted it.
    ///
    /// quiche may later repeat a limit at this window without asking, when an update was lost: the returned window may
    /// be used until another is.
    fn next(&mut self, update: &WindowUpdate) -> u64;

    /// Whether an update is due although half of the window may be available; [`retune`] asks.
    fn due(&mut self, update: &WindowUpdate) -> bool {
        let _ = update;
        false
    }

    /// quiche keeps the connection's window at 1.5 times each stream's window: here it asks for that. The window is
    /// raised to the result; 0 for not at all.
    fn lower_bound(&mut self, window_bytes: u64, max_window_bytes: u64, wanted_bytes: u64) -> u64 {
        let _ = (window_bytes, max_window_bytes);
        wanted_bytes
    }
}

/// [`Connection::send`] with `rule` deciding about windows.
pub fn send(quic: &mut Connection, rule: &mut dyn WindowRule, out: &mut [u8]) -> Result<(usize, SendInfo)> {
    let received = quic.rx_data;
    with_rule(rule, Question::Window, received, || quic.send(out))
}

/// Asks `rule` about the connection's window and those of `streams` now, rather than when half of a window is used.
/// Updates that fall due by it leave with the next [`send`].
pub fn retune(quic: &mut Connection, rule: &mut dyn WindowRule, streams: impl IntoIterator<Item = u64>, now: Instant) {
    let Ok(path) = quic.paths.get_active() else { return };
    let rtt = path.recovery.rtt();
    let received = quic.rx_data;
    with_rule(rule, Question::Due, received, || {
        quic.flow_control.autotune_window(now, rtt);
        for id in streams {
            let Some(stream) = quic.streams.get_mut(id) else { continue };
            for_stream(id, stream.recv.max_off(), || stream.recv.autotune_window(now, rtt));
            if stream.recv.almost_full() {
                quic.streams.insert_almost_full(id);
            }
        }
    });
}

/// Whether this stream is open, as far as quiche keeps state for it.
pub fn is_open(quic: &Connection, stream: u64) -> bool {
    quic.streams.get(stream).is_some()
}

/// Bytes that flow control has counted as received, over all streams, and the limit advertised for them (MAX_DATA).
pub fn received_and_limit_bytes(quic: &Connection) -> (u64, u64) {
    (quic.rx_data, quic.max_rx_data())
}

/// Whether the handshake is confirmed (RFC 9001 4.1.2): before that a client must not migrate (RFC 9000 9).
pub fn is_confirmed(quic: &Connection) -> bool {
    quic.handshake_confirmed
}

/// When the challenge was sent that the last answer to one on this path belongs to (RFC 9000 8.2): of challenges sent
/// one after the other, the one that arrived. quiche forgets a challenge at a probe timeout; a later answer to it is
/// not seen here. `None`: no challenge was answered, or quiche does not know the path.
pub fn answered_challenge(quic: &Connection, local: SocketAddr, peer: SocketAddr) -> Option<Instant> {
    let path = quic.paths.path_id_from_addrs(&(local, peer))?;
    quic.paths.get(path).ok()?.answered_challenge
}

/// Packets that came in over a path and are no part of its validation (RFC 9000 8.2): acknowledgements, streams,
/// everything that the peer sends to the address where it believes us to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answers {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Answers {
    pub(crate) fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// The packets that came in over this path so far and are no part of its validation. quiche itself counts packets of
/// all kinds.
pub fn answers(quic: &Connection, local: SocketAddr, peer: SocketAddr) -> Answers {
    let path = quic.paths.path_id_from_addrs(&(local, peer)).and_then(|pid| quic.paths.get(pid).ok());
    path.map_or(Answers::default(), |p| p.answers)
}

/// Gives up a path whose address was removed: its connection ID is retired and, unlike with
/// [`Connection::retire_dcid`], not replaced; its entry is free for the next new path. Returns whether there was such a
/// path; the active path can't be given up.
pub fn give_up(quic: &mut Connection, local: SocketAddr, peer: SocketAddr) -> bool {
    let Some(path) = quic.paths.path_id_from_addrs(&(local, peer)).and_then(|pid| quic.paths.get_mut(pid).ok()) else {
        return false;
    };
    if path.active() {
        return false;
    }
    path.given_up = true;
    // An error means that the peer had it retired before us.
    path.active_dcid_seq.take().is_none_or(|seq| quic.ids.zero_length_dcid() || quic.ids.retire_dcid(seq).is_ok())
}

/// Whether a packet from `peer` arrives on a path that is known, or one that there is room for: quiche keeps as many as it
/// accepts connection IDs, and drops packets on further ones.
pub fn takes_path(quic: &Connection, local: SocketAddr, peer: SocketAddr) -> bool {
    quic.paths.path_id_from_addrs(&(local, peer)).is_some()
        || (quic.paths.len() as u64) < quic.local_transport_params.active_conn_id_limit
        || quic.paths.iter().any(|(_, p)| !p.active() && p.active_dcid_seq.is_none())
}

/// Gives up a path as [`give_up`] does, but for one that shares its connection ID with another. Returns whether its entry is
/// free now.
pub fn release_path(quic: &mut Connection, local: SocketAddr, peer: SocketAddr) -> bool {
    let Some(pid) = quic.paths.path_id_from_addrs(&(local, peer)) else { return false };
    let Some(path) = quic.paths.get_mut(pid).ok().filter(|p| !p.active()) else { return false };
    path.given_up = true;
    retire_given_up(path, pid, &mut quic.ids);
    path.active_dcid_seq.is_none()
}

/// Our connection IDs that paths use or can use: all active ones but those that the peer used last on paths that were
/// given up and has not retired yet.
pub fn live_scids(quic: &Connection) -> usize {
    let lost = quic.paths.iter().filter(|(_, p)| p.given_up && p.active_scid_seq.is_some()).count();
    quic.active_scids().saturating_sub(lost)
}

/// Runs `f`, in which the congestion window of every path is `bytes`, whatever the congestion control thinks; `None`
/// leaves it alone. The control's own state and its pacing go on as they would. To hold over a connection's life, all
/// calls of `recv`, `send` and `on_timeout` must be made inside.
pub fn with_congestion_window<T>(bytes: Option<usize>, f: impl FnOnce() -> T) -> T {
    let _restore = Restore { cell: &CONGESTION_WINDOW_BYTES, old: CONGESTION_WINDOW_BYTES.replace(bytes) };
    f()
}

/// Runs `f`, in which the caller gives packets their release times and not bbr2. Its pacer would else count each that left
/// before its own time as a debt, and hold back the first one that it is asked for again by the sum, which may be seconds.
pub fn paced_elsewhere<T>(elsewhere: bool, f: impl FnOnce() -> T) -> T {
    let _restore = Restore { cell: &PACED_ELSEWHERE, old: PACED_ELSEWHERE.replace(elsewhere) };
    f()
}

/// Patch `pacer-debt`.
pub(crate) fn is_paced_elsewhere() -> bool {
    PACED_ELSEWHERE.get()
}

/// Bytes acknowledged and bytes declared lost, over all paths.
pub fn acked_and_lost_bytes(quic: &Connection) -> (u64, u64) {
    (quic.acked_bytes, quic.lost_bytes)
}

/// State of the active path's congestion control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CongestionState {
    /// The active path, by a number that no other path of the connection has meanwhile.
    pub path: usize,
    /// The window, as applied.
    pub window_bytes: u64,
    /// Sent and neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// The same, on all other paths.
    pub elsewhere_in_flight_bytes: u64,
    /// The least round-trip time measured; `None` before the first.
    pub least_rtt: Option<Duration>,
    /// The rate at which packets leave, in bytes per second; `None` if the algorithm does not pace.
    pub pacing_rate_bytes_s: Option<u64>,
    /// Slow start, or BBR's startup, has ended once.
    pub startup_over: bool,
}

/// The state of the active path's congestion control; `None` without an active path.
pub fn congestion_state(quic: &Connection) -> Option<CongestionState> {
    let path = quic.paths.get_active_path_id().ok()?;
    let recovery = &quic.paths.get(path).ok()?.recovery;
    let elsewhere = quic.paths.iter().filter(|(id, _)| *id != path);
    Some(CongestionState {
        path,
        window_bytes: recovery.cwnd() as u64,
        in_flight_bytes: recovery.bytes_in_flight() as u64,
        elsewhere_in_flight_bytes: elsewhere.map(|(_, p)| p.recovery.bytes_in_flight() as u64).sum(),
        least_rtt: recovery.min_rtt(),
        pacing_rate_bytes_s: pacing_rate_of(recovery),
        startup_over: recovery.startup_exit().is_some(),
    })
}

/// Bytes in flight on the active path; 0 without one.
pub fn in_flight_bytes(quic: &Connection) -> u64 {
    quic.paths.get_active().map_or(0, |path| path.recovery.bytes_in_flight() as u64)
}

/// The room of the active path's congestion window, in bytes, where the peer's flow control leaves less than that for
/// more of this stream; `None` where the window is the limit, and for a stream that is not open. Without bound while
/// probes are to be sent (RFC 9002 6.2.4), as in quiche.
pub fn room_beyond_flow_control(quic: &Connection, stream: u64) -> Option<usize> {
    let window = quic.paths.get_active().ok()?.recovery.cwnd_available();
    let by_connection = quic.max_tx_data.saturating_sub(quic.tx_data);
    let by_stream = quic.streams.get(stream)?.send.cap().ok()? as u64;
    (by_connection.min(by_stream) < window as u64).then_some(window)
}

/// The round-trip time of the active path (RFC 9002 5.3). A sample on that path changes it, but for samples that are all
/// the same; one on another path does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveRtt {
    /// The path, as in [`CongestionState`].
    pub path: usize,
    /// Smoothed.
    pub smoothed: Duration,
    /// The variation of that.
    pub variation: Duration,
    /// The connection has no other path.
    pub only_path: bool,
}

/// The round-trip time of the active path; `None` without one.
pub fn active_rtt(quic: &Connection) -> Option<ActiveRtt> {
    let path = quic.paths.get_active_path_id().ok()?;
    let recovery = &quic.paths.get(path).ok()?.recovery;
    let only_path = quic.paths.iter().nth(1).is_none();
    Some(ActiveRtt { path, smoothed: recovery.rtt(), variation: recovery.rttvar(), only_path })
}

// quiche reports the rate to nobody. But the algorithm that paces is asked for it when a quantum is computed from it.
fn pacing_rate_of(recovery: &crate::recovery::Recovery) -> Option<u64> {
    let _restore = Restore { cell: &PACING_RATE, old: PACING_RATE.take() };
    recovery.send_quantum();
    PACING_RATE.get()
}

/// Patch `pacing-rate`.
pub(crate) fn pacing_rate(rate: crate::recovery::Bandwidth) -> crate::recovery::Bandwidth {
    PACING_RATE.set(Some(rate.to_bytes_per_second()));
    rate
}

/// A round-trip time, and its one-way times, where known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSample {
    /// From the packet's sending to the arrival of the acknowledgement (RFC 9002 5.1).
    pub rtt: Duration,
    /// Part of it until the peer sent the acknowledgement, in nanoseconds and by the difference of the two clocks too
    /// large or too small, which stays the same over a connection's life. `None` without a timestamp.
    pub there_ns: Option<i64>,
}

/// Runs `f`, and gives the last round-trip time that a connection measured in it, if any did.
pub fn with_rtt_sample<T>(f: impl FnOnce() -> T) -> (T, Option<RttSample>) {
    let _restore = Restore { cell: &RTT_SAMPLE, old: RTT_SAMPLE.take() };
    let (result, back_ns) = with_way_back(f);
    let sample = RTT_SAMPLE.get().map(|rtt| {
        let rtt_ns = i64::try_from(rtt.as_nanos()).ok();
        RttSample { rtt, there_ns: rtt_ns.zip(back_ns).and_then(|(rtt, back)| rtt.checked_sub(back)) }
    });
    (result, sample)
}

/// Patch `rtt-sample`.
pub(crate) fn rtt_sample(rtt: Duration) -> Duration {
    RTT_SAMPLE.set(Some(rtt));
    rtt
}

// Reason of a call of `autotune_window`.
#[derive(Clone, Copy)]
enum Question {
    Window,
    Due,
}

/// Runs `f`, in which packets left behind on a path stay lost, as in quiche without our patches: for tests with the
/// behaviour of other servers. All calls of a connection's `recv`, `send` and `on_timeout` must be made inside.
pub fn with_left_behind_lost<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Restore { cell: &LEFT_BEHIND_LOST, old: LEFT_BEHIND_LOST.replace(true) };
    f()
}

/// Patch `left-behind`: whether they apply.
pub(crate) fn finds_left_behind() -> bool {
    !LEFT_BEHIND_LOST.get()
}

#[derive(Clone, Copy)]
struct Active {
    rule: NonNull<dyn WindowRule>,
    question: Question,
    received_bytes: u64,
}

thread_local! {
    static ACTIVE: Cell<Option<Active>> = const { Cell::new(None) };
    static STREAM: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    static CONGESTION_WINDOW_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
    static RTT_SAMPLE: Cell<Option<Duration>> = const { Cell::new(None) };
    static PACED_ELSEWHERE: Cell<bool> = const { Cell::new(false) };
    static PACING_RATE: Cell<Option<u64>> = const { Cell::new(None) };
    static LEFT_BEHIND_LOST: Cell<bool> = const { Cell::new(false) };
}

// Restores the old value, also in a panic.
struct Restore<T: Copy + 'static> {
    cell: &'static std::thread::LocalKey<Cell<T>>,
    old: T,
}

impl<T: Copy + 'static> Drop for Restore<T> {
    fn drop(&mut self) {
        self.cell.set(self.old);
    }
}

fn with_rule<T>(rule: &mut dyn WindowRule, question: Question, received_bytes: u64, f: impl FnOnce() -> T) -> T {
    // SAFETY: only the lifetime is left out of the type. The pointer is used by `ask` alone, while it is in ACTIVE,
    // which is until `_restore` is dropped; `rule` is borrowed for longer.
    let rule = unsafe {
        std::mem::transmute::<NonNull<dyn WindowRule + '_>, NonNull<dyn WindowRule + 'static>>(NonNull::from(rule))
    };
    let _restore = Restore { cell: &ACTIVE, old: ACTIVE.replace(Some(Active { rule, question, received_bytes })) };
    f()
}

fn ask<T>(question: impl FnOnce(&mut dyn WindowRule, &Active) -> T) -> Option<T> {
    let mut active = ACTIVE.take()?;
    // While the rule runs it is not in ACTIVE.
    let _restore = Restore { cell: &ACTIVE, old: Some(active) };
    // SAFETY: alive, as `with_rule` says. The `&mut` it was made from is not used while `f` runs, and no other is made
    // from it here, ACTIVE being empty.
    let rule = unsafe { active.rule.as_mut() };
    Some(question(rule, &active))
}

/// Patch `window-rule`: records whose window `f` is about.
pub(crate) fn for_stream(id: u64, received_bytes: u64, f: impl FnOnce()) {
    let _restore = Restore { cell: &STREAM, old: STREAM.replace(Some((id, received_bytes))) };
    f();
}

/// Patch `window-rule`: the window from now on, or `None` for quiche's own rule. Within [`retune`] the window stays as the rule
/// last gave it, and `due` is set if the rule wants an update.
#[expect(
    clippy::too_many_arguments,
    reason = "what a patch hands over are fields of quiche's, which has no struct of just these"
)]
pub(crate) fn next(
    now: Instant,
    rtt: Duration,
    last_update: Option<Instant>,
    window_bytes: u64,
    max_window_bytes: u64,
    consumed_bytes: u64,
    max_data_bytes: u64,
    due: &mut bool,
) -> Option<u64> {
    ask(|rule, active| {
        let (scope, received_bytes) = match STREAM.get() {
            Some((id, received_bytes)) => (Scope::Stream(id), received_bytes),
            None => (Scope::Connection, active.received_bytes),
        };
        let update = WindowUpdate {
            scope,
            now,
            rtt,
            since_last: last_update.map(|last| now.saturating_duration_since(last)),
            window_bytes,
            max_window_bytes,
            consumed_bytes,
            received_bytes,
            max_data_bytes,
        };
        match active.question {
            Question::Window => rule.next(&update),
            Question::Due => {
                *due = *due || rule.due(&update);
                window_bytes
            }
        }
    })
}

/// Patch `window-lower-bound`: lower bound of the connection's window.
pub(crate) fn lower_bound(window_bytes: u64, max_window_bytes: u64, wanted_bytes: u64) -> u64 {
    ask(|rule, _| rule.lower_bound(window_bytes, max_window_bytes, wanted_bytes)).unwrap_or(wanted_bytes)
}

/// Patch `window-limit`: a limit once advertised stays (RFC 9000 4.1).
pub(crate) fn limit(advertised_bytes: u64, wanted_bytes: u64) -> u64 {
    wanted_bytes.max(advertised_bytes)
}

/// Patch `congestion-window`.
pub(crate) fn congestion_window(own_bytes: usize) -> usize {
    CONGESTION_WINDOW_BYTES.get().unwrap_or(own_bytes)
}

/// Patch `challenge-window`: whether a path with this much room in its congestion window can carry a challenge, in a datagram
/// of the least size for that (RFC 9000 8.2.1). Otherwise quiche would take that path for the next packet, find no
/// room, and send nothing at all: a dead path with a full window would block the connection.
pub(crate) fn has_room(available_bytes: usize) -> bool {
    available_bytes >= crate::MIN_CLIENT_INITIAL_LEN
}

/// Patch `response-window`: room in the congestion window for a packet that is to carry the answer to a challenge (or a
/// challenge), or the close of the connection.
///
/// quiche takes the challenge from its queue, finds no room for the answer, and so loses it. A server that acknowledges
/// on the old path until the new one has answered (quic-go, aioquic) then never frees that room. A close would wait for
/// an acknowledgement, or for the probe timeout where the peer is gone. So one packet may pass the window, as a probe of
/// loss recovery may (RFC 9002 7).
pub(crate) fn room_to_tell(urgent: bool, available_bytes: usize) -> usize {
    if urgent {
        usize::MAX
    } else {
        available_bytes
    }
}

/// Patch `h3-empty-data`: whether there is nothing more to read for now, after `read_bytes` of a body. If none were read
/// and the frame is over, it was an empty one, and the next may be there.
pub(crate) fn nothing_left(read_bytes: usize, in_frame: bool) -> bool {
    read_bytes == 0 && in_frame
}

/// Patch `path-answers`: whether this frame is part of a path's validation. The packet may hold other frames: an
/// acknowledgement beside it does not show where the peer believes us to be.
pub(crate) fn validates(frame: &crate::frame::Frame) -> bool {
    matches!(frame, crate::frame::Frame::PathChallenge { .. } | crate::frame::Frame::PathResponse { .. })
}

/// Patch `cid-replaced`: the paths whose connection ID the peer has just retired (RFC 9000 5.1.2), with its number, the
/// active one first. A peer that replaces all its IDs (quinn, once their lifetime is over) sends one new one, and the
/// others when the old ones are given back. quiche hands it to the path of the oldest ID, has no active path if that is
/// another, and closes the connection with 0xa at the next packet. Paths that had no ID of their own and shared one
/// (`on_peer_migrated`) are among them; quiche left them with an ID that is gone.
pub(crate) fn without_id(paths: &PathMap, ids: &ConnectionIdentifiers) -> Vec<(u64, usize)> {
    let lost = |p: &Path| p.active_dcid_seq.filter(|seq| ids.get_dcid(*seq).is_err());
    let mut without: Vec<(bool, u64, usize)> =
        paths.iter().filter_map(|(pid, p)| Some((!p.active(), lost(p)?, pid))).collect();
    without.sort_unstable();
    without.into_iter().map(|(_, seq, pid)| (seq, pid)).collect()
}

/// Patch `cid-once`: one of our IDs that was in several lost packets is sent once, not once for each.
pub(crate) fn add_once(ids: &mut std::collections::VecDeque<u64>, id: u64) {
    if !ids.contains(&id) {
        ids.push_back(id);
    }
}

/// Patch `reset-token`: the stateless reset token that these last bytes of a datagram are, of connection IDs that paths
/// use (RFC 9000 10.3.1). quiche knows only the token of the handshake's ID, and accepts it even when that ID was
/// retired long ago: a server that replaces its IDs sends that token in answer to a packet that was under way on a
/// slower path.
pub(crate) fn reset_token(
    paths: &PathMap,
    ids: &ConnectionIdentifiers,
    first: Option<u128>,
    last: &[u8],
) -> Option<u128> {
    let in_use = paths.iter().filter_map(|(_, p)| p.active_dcid_seq).filter_map(|seq| match seq {
        0 => first,
        _ => ids.get_dcid(seq).ok()?.reset_token,
    });
    in_use.into_iter().find(|token| crate::crypto::verify_slices_are_equal(&token.to_be_bytes(), last).is_ok())
}

// Patch `path-abandoned`. quiche keeps each path that was left, and a connection ID for it, on either side; so after a few
// changes of address both sides' limits are used up. Here a path that was given up gets no new connection ID, so that
// quiche drops it when it needs the room. A client gives it up by `give_up`; a server learns of that from the
// connection ID being retired over which the client had reached it there, and retires in turn the one it reached the
// client by (RFC 9000 5.1.2: what is no longer used should be retired). If the client returns, it gets another one.

/// Patch `path-abandoned`: a path at its start.
pub(crate) const NOT_GIVEN_UP: bool = false;

/// Patch `path-abandoned`: whether a path is to get a connection ID of the peer's.
pub(crate) fn lacks_cid(path: &Path) -> bool {
    path.active_dcid_seq.is_none() && !path.given_up
}

/// Patch `path-abandoned`. A client's paths are its own to give up.
pub(crate) fn given_up_by_peer(path: &mut Path, is_server: bool) {
    path.given_up |= is_server;
}

/// Patch `path-abandoned` too: a path given up loses its connection ID as soon as it is not the active one. A server
/// may learn that its active path is given up from the packet that announces the next one.
pub(crate) fn retire_given_up(path: &mut Path, pid: usize, ids: &mut ConnectionIdentifiers) {
    if !path.given_up || path.active() {
        return;
    }
    let Some(seq) = path.active_dcid_seq.take() else { return };
    // While there was no other, two paths may have shared one.
    if ids.get_dcid(seq).is_ok_and(|cid| cid.path_id == Some(pid)) && ids.retire_dcid(seq).is_err() {
        path.active_dcid_seq = Some(seq);
    }
}

/// Patch `path-abandoned`: the client uses the path after all, with another connection ID.
pub(crate) fn taken_up(path: &mut Path) {
    path.given_up = false;
}

/// Patch `coalesced`: fate of a packet for which there are no keys (any more). The rest of its datagram must be
/// read (RFC 9000 12.2). quiche drops it: a client that has not heard that the handshake is confirmed then sends its 1-RTT
/// packets behind Handshake packets for nothing. (A 1-RTT packet is the last one, and may be a stateless reset.)
pub(crate) fn passed_over(e: crate::Error, ty: crate::packet::Type, bytes: usize) -> Result<usize> {
    if e == crate::Error::Done && ty != crate::packet::Type::Short {
        Ok(bytes)
    } else {
        Err(e)
    }
}

// Patch `failed-path`. quiche does not make a path active whose validation was given up, not even when the peer has
// moved there, which shows that it carries packets. Then there is no active path, and the connection is closed with
// 0xa. A server gives up at the first loss if too few bytes came over the path to allow a second challenge.
// A client's connection must not be closed by a lost challenge, so a client drops every challenge that is open on the
// path it moves to. There may be some even if the path is validated: of a validation that was under way, or challenges
// that were repeated before the first one was answered. quiche counts them as lost at the next timeout, asks again, and
// after three timeouts closes the connection. The caller has to watch whether the path works.
macro_rules! failed_path {
    ($path:expr, $is_server:expr) => {
        if $path.validation_failed() || !$is_server {
            $path.in_flight_challenges.clear();
            $path.challenge_requested = false;
            $path.probing_lost = 0;
            $path.failure_notified = false;
            if !$path.validated() {
                $path.state = PathState::Unknown;
            }
        }
    };
}

pub(crate) use failed_path;

/// Patch `qlog-ssthresh`: before the first reduction quiche has the largest number there is, which is no threshold.
#[cfg(feature = "qlog")]
pub(crate) fn known_ssthresh(bytes: usize) -> Option<u64> {
    (bytes != usize::MAX).then_some(bytes as u64)
}

/// Patch `qlog-tuple`: logs a packet with the path it took, `tuple` in qlog's words; before
/// the first one on a path also what addresses that is.
#[cfg(feature = "qlog")]
pub(crate) fn log_packet(
    log: &mut qlog::streamer::QlogStreamer,
    event: qlog::events::EventData,
    now: Instant,
    path: &mut Path,
    ecn: Option<Codepoint>,
) {
    use qlog::events::{quic::TupleAssigned, EventImportance, ExData, JsonEvent, TupleEndpointInfo};
    let (local, peer) = (path.local_addr(), path.peer_addr());
    let id = format!("{local}-{peer}");
    // quiche does not report what fails while logging either.
    if !std::mem::replace(&mut path.in_qlog, true) {
        let end = |at: SocketAddr| {
            let of = |wanted: bool| wanted.then(|| (at.ip().to_string(), at.port())).unzip();
            let ((ip_v4, port_v4), (ip_v6, port_v6)) = (of(at.is_ipv4()), of(at.is_ipv6()));
            Some(TupleEndpointInfo { ip_v4, port_v4, ip_v6, port_v6, connection_ids: None })
        };
        let assigned = TupleAssigned { tuple_id: id.clone(), tuple_remote: end(peer), tuple_local: end(local) };
        // As one of the least detailed: at the level of the packets it would be left out.
        let record = JsonEvent {
            time: 0.0,
            importance: EventImportance::Core,
            name: "quic:tuple_assigned".to_owned(),
            data: serde_json::to_value(assigned).unwrap_or_default(),
        };
        log.add_event_with_instant(record, now).ok();
    }
    if let Some(codepoint) = ecn {
        log_ecn_state(log, path, now);
        let extra = ExData::from([("tuple".to_owned(), id.into()), ("ecn".to_owned(), codepoint.in_qlog().into())]);
        log.add_event_data_ex_with_instant(event, extra, now).ok();
        return;
    }
    let extra = ExData::from([("tuple".to_owned(), id.into())]);
    log.add_event_data_ex_with_instant(event, extra, now).ok();
}
