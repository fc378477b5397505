// SPDX-License-Identifier: Apache-2.0
//! QVDP, unicast: datagrams of unchanged QUIC applications as named packets. No I/O: what arrived and the time come in
//! as arguments, what is to leave goes to a [`Sink`].
//!
//! [`Client`] and [`Server`] stand on both sides. A session has a half that receives, which keeps Interests outstanding
//! for what the other side has not sent yet, and a half that sends, which answers them.

mod client;
mod credit;
mod hole;
mod opening;
mod receiver;
mod refusals;
mod sender;
mod server;
mod session;
mod table;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use server::Server;

use crate::packet::{Header, flags, lifetime_of};
use serde::Serialize;
use std::time::Duration;

/// Beta where none is given.
pub const DEFAULT_BETA: f64 = 8.0;
/// Sessions of one converter at most.
pub const SESSIONS: usize = 1024;
/// A session ends after this time without a datagram.
pub const IDLE: Duration = Duration::from_secs(60);
/// Where all places are taken: beyond this many sessions whose client has not answered, the oldest of those gives way first.
const UNPROVEN_SESSIONS: usize = SESSIONS / 4;
/// Where all places are taken, a session without a datagram for this time gives way to one of a prefix with no more sessions.
const IDLE_UNDER_PRESSURE: Duration = Duration::from_secs(5);
/// Sessions of one client.
const SESSIONS_A_CLIENT: usize = SESSIONS / 2;
/// Limit of all sessions of a converter for datagrams that are not given yet, in bytes.
const HELD_BYTES: usize = 64 << 20;
/// The longest time after which an Interest is asked again: that at rest.
const LONGEST: Duration = Duration::from_secs(2);
/// Largest datagram: a UDP payload over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// Configuration of sessions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Ask for lost segments again, keep what was sent, and give datagrams to the application in order.
    pub reliable: bool,
    /// After how many response times an Interest is asked again.
    pub beta: f64,
    /// Take later segments as a sign of loss; else the timer alone.
    pub gaps: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { reliable: false, beta: DEFAULT_BETA, gaps: true }
    }
}

/// The ECN codepoint of a datagram, as far as names carry it: ECT(0) and ECT(1) are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not-ECT.
    #[default]
    Off,
    /// The transport takes marks.
    Ect,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// The bits of a packet's `flags` that carry it.
    fn bits(self) -> u8 {
        match self {
            Ecn::Off => 0,
            Ecn::Ect => flags::ECT,
            Ecn::Ce => flags::ECT | flags::CE,
        }
    }

    fn of(bits: u8) -> Ecn {
        let ect = bits & flags::ECT != 0 && bits & flags::DROP_IF_CE == 0;
        match (ect, bits & flags::CE != 0) {
            (true, true) => Ecn::Ce,
            (true, false) => Ecn::Ect,
            // A mark on what takes none means nothing.
            (false, _) => Ecn::Off,
        }
    }
}

/// Where a core's output goes. `A` says which application a datagram is for.
pub trait Sink<A> {
    /// A packet for the face.
    fn packet(&mut self, header: &Header, payload: &[u8]);

    /// A datagram for an application.
    fn datagram(&mut self, application: A, bytes: &[u8], ecn: Ecn);
}

/// Counters of a converter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Sessions made.
    pub sessions_opened: u64,
    /// Sessions refused, because there are too many.
    pub sessions_refused: u64,
    /// Sessions ended, because the system had no socket for them.
    pub sessions_failed: u64,
    /// Datagrams that came from applications.
    pub datagrams_taken: u64,
    /// Datagrams given to applications.
    pub datagrams_given: u64,
    /// Datagrams that had to wait for an Interest.
    pub datagrams_waited: u64,
    /// Datagrams dropped because no Interest came in time, or too many waited.
    pub datagrams_dropped: u64,
    /// Datagrams above what a UDP datagram can be, or in pieces of which some never came.
    pub datagrams_incomplete: u64,
    /// Number of times that a session held more of datagrams not given yet than any other, while all together held too
    /// much. Each time it dropped its oldest (reliable: gave up the segment that one waited for).
    pub reassembly_dropped: u64,
    /// Segments asked for the first time.
    pub segments_asked: u64,
    /// Segments asked for again because their lifetime had passed.
    pub segments_asked_again: u64,
    /// Segments counted as lost because later ones came.
    pub segments_lost: u64,
    /// Segments that were lost again and again: later ones wait no longer, or they are kept no longer (reliable).
    pub segments_given_up: u64,
    /// Datagrams that congestion took from applications: marked ones that take no marks, and lost segments beyond what is asked
    /// for again (reliable).
    pub congestion_losses: u64,
    /// Segments sent again from what was kept.
    pub segments_resent: u64,
    /// Answers without a datagram that were sent: the segment was passed over, or is kept no longer.
    pub bare_sent: u64,
    /// Data that was here already.
    pub duplicates: u64,
    /// Data so late that its segment is forgotten, or that nobody asked for.
    pub data_unasked: u64,
    /// Datagrams given with a mark of congestion.
    pub marks: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Nacks sent.
    pub nacks_sent: u64,
    /// Nacks not sent, because there were too many of late.
    pub nacks_withheld: u64,
    /// Interests for one of our sessions that asked too far ahead.
    pub interests_refused: u64,
}

/// The number whose low 32 bits are `wire`, nearest to `near`; none below 0.
fn expand(wire: u32, near: u64) -> Option<u64> {
    near.checked_add_signed(i64::from(wire.wrapping_sub(near as u32) as i32))
}

/// The field `lifetime` of an Interest that is asked again, this time after it was asked before. A switch forwards it only
/// if its lifetime has passed since then (icn.md, PIT), and on the way it may have caught up a little.
fn lifetime_again(since: Duration) -> u16 {
    lifetime_of(since * 7 / 8)
}
