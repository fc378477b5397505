// SPDX-License-Identifier: Apache-2.0
//! One application's datagrams, both ways.

use super::opening::OPENINGS;
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Config, Counts, Ecn, IDLE, Sink, lifetime_again};
use crate::names::Name;
use crate::packet::{HEADER_BYTES, Header, Kind, nack};
use std::time::{Duration, Instant};

/// When an Interest that opens a session is sent again for the first time; then twice as long each time. A round trip
/// is not known yet; too early costs a packet, too late a wait.
pub(super) const OPEN_AGAIN: Duration = Duration::from_millis(250);
const OPEN_AGAIN_MOST: Duration = Duration::from_secs(2);

/// For so long after the opening a Nack may be about an Interest that overtook it.
const FRESH: Duration = Duration::from_secs(1);

/// One Nack by which there is no such session may be forged, or of a host that it is none of the business of. Then all
/// is asked for again after this time, and so many such rounds without Data between them are believed.
const DOUBT_AGAIN: Duration = Duration::from_millis(300);
const DOUBTS: u32 = 5;

/// Until the other side has answered an Interest, it is sent at most this many times the bytes that came for the session (RFC 9000
/// 8.1 has it for addresses).
const UNPROVEN_FACTOR: u64 = 3;
/// An Ethernet frame has at least this size. An Interest counts as one frame for each segment, since switches make them so.
const LEAST_FRAME_BYTES: u64 = 60;
const ETHERNET_BYTES: u64 = 14;

/// An Interest that opens the session, and is not answered yet.
#[derive(Debug)]
struct Open {
    header: Header,
    payload: Vec<u8>,
    sent_at: Instant,
    wait: Duration,
    times: u32,
}

#[derive(Debug)]
pub(super) struct Session<A> {
    pub(super) id: u64,
    pub(super) application: A,
    /// Names that this side asks for, and answers.
    pub(super) ask_name: Name,
    pub(super) give_name: Name,
    reliable: bool,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    open: Option<Open>,
    /// Datagrams that came or left with Interests that open the session, a bit each.
    openings: u8,
    opened_at: Option<Instant>,
    /// Interests that were refused, because they overtook the opening, were asked for again.
    asked_anew: bool,
    /// Rounds in which the other side denied the session, and when to ask anew.
    doubts: u32,
    doubt_at: Option<Instant>,
    datagram_at: Instant,
    born: Instant,
    /// It opened the session.
    is_opener: bool,
    /// It opened the session, or the other side answered an Interest: anyone can open one under any name.
    proven: bool,
    /// Bytes that may be sent to the other side before it has answered.
    unproven_bytes: u64,
    /// The last Interest asked for nothing but what is too far ahead: the other side took forged Data for this side's.
    pub(super) asked_too_far: bool,
    /// Something happened since its last turn.
    pub(super) touched: bool,
    /// The deadline that the table knows of it.
    pub(super) deadline: Option<Instant>,
    /// Memory of its receiver as entered in the table, in bytes.
    pub(super) held_bytes: usize,
}

impl<A: Copy> Session<A> {
    pub(super) fn new(id: u64, application: A, names: [Name; 2], config: Config, now: Instant) -> Session<A> {
        let [ask_name, give_name] = names;
        Session {
            id,
            application,
            ask_name,
            give_name,
            reliable: config.reliable,
            sender: Sender::new(config.reliable),
            receiver: Receiver::new(config, now),
            open: None,
            openings: 0,
            opened_at: None,
            asked_anew: false,
            doubts: 0,
            doubt_at: None,
            datagram_at: now,
            born: now,
            is_opener: false,
            proven: false,
            unproven_bytes: 0,
            asked_too_far: false,
            touched: false,
            deadline: None,
            held_bytes: 0,
        }
    }

    /// Something happened to it: it is among those that ask at the end of the turn.
    pub(super) fn touch(&mut self, touched: &mut Vec<u64>) {
        if !std::mem::replace(&mut self.touched, true) {
            touched.push(self.id);
        }
    }

    /// Sends the Interest that opens the session, until it is answered. `ecn` is that of the datagram in the payload.
    pub(super) fn open(&mut self, name: &Name, payload: Vec<u8>, ecn: Ecn, now: Instant, sink: &mut impl Sink<A>) {
        // The low 32 bits of the session's number.
        let interest = Header::interest(name, self.id as u32, lifetime_again(OPEN_AGAIN));
        let header = Header { flags: ecn.bits(), ..interest };
        sink.packet(&header, &payload);
        (self.is_opener, self.proven) = (true, true);
        self.openings = 1;
        self.open = Some(Open { header, payload, sent_at: now, wait: OPEN_AGAIN, times: 1 });
    }

    /// The segment of one more Interest that opens the session, for a datagram that the other side can't have asked for yet.
    /// Such Interests are not repeated, so there are none in reliable mode.
    pub(super) fn open_more(&mut self) -> Option<u32> {
        let place = self.openings.trailing_ones();
        let more = self.is_opening() && !self.reliable && place < OPENINGS;
        more.then(|| {
            self.openings |= 1 << place;
            (self.id as u32).wrapping_add(place)
        })
    }

    /// A packet with this payload came for it.
    pub(super) fn received(&mut self, payload: &[u8]) {
        let frame_bytes = LEAST_FRAME_BYTES.max(ETHERNET_BYTES + (HEADER_BYTES + payload.len()) as u64);
        self.unproven_bytes = self.unproven_bytes.saturating_add(UNPROVEN_FACTOR * frame_bytes);
    }

    /// A datagram came with the Interest of this place among those that open the session. Whether it is the first time.
    pub(super) fn opened_with(&mut self, place: u32) -> bool {
        let first = self.openings & (1 << place) == 0;
        self.openings |= 1 << place;
        first
    }

    pub(super) fn is_opening(&self) -> bool {
        self.open.is_some()
    }

    /// The other side has the session.
    pub(super) fn opened(&mut self, now: Instant) {
        if let Some(open) = self.open.take() {
            if open.times == 1 {
                self.receiver.round_trip_was(now.saturating_duration_since(open.sent_at));
            }
            self.receiver.opened(now);
            self.opened_at = Some(now);
        }
    }

    pub(super) fn datagram(
        &mut self,
        bytes: &[u8],
        ecn: Ecn,
        now: Instant,
        counts: &mut Counts,
        sink: &mut impl Sink<A>,
    ) {
        self.datagram_at = now;
        let name = &self.give_name;
        self.sender.datagram(bytes, ecn, now, counts, &mut |segment, flags, payload| {
            sink.packet(&Header::data(name, segment as u32, flags), payload);
        });
    }

    /// A packet with one of the session's names. Whether the other side has no such session any more.
    pub(super) fn packet(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: Instant,
        counts: &mut Counts,
        sink: &mut impl Sink<A>,
    ) -> bool {
        let application = self.application;
        self.received(payload);
        match header.kind {
            Kind::Interest if header.name == self.give_name.hash() => {
                let name = &self.give_name;
                let mut send = |segment: u64, flags: u8, payload: &[u8]| {
                    sink.packet(&Header::data(name, segment as u32, flags), payload);
                };
                self.asked_too_far = self.sender.interest(header, now, counts, &mut send);
                if self.is_opener {
                    self.sender.answer_first(now, counts, &mut send);
                }
            }
            Kind::Data if header.name == self.ask_name.hash() => {
                (self.doubts, self.doubt_at) = (0, None);
                let new = self.receiver.data(header, payload, now, counts, &mut |bytes, ecn| {
                    sink.datagram(application, bytes, ecn);
                });
                self.proven |= new;
                if new && !header.has(crate::packet::flags::BARE) {
                    self.datagram_at = now;
                }
            }
            Kind::Nack if header.name == self.ask_name.hash() => {
                counts.nacks += 1;
                let fresh = self.opened_at.is_some_and(|at| now < at + FRESH);
                self.receiver.nack(header, now, counts, &mut |bytes, ecn| sink.datagram(application, bytes, ecn));
                let out_of_step = matches!(header.code, nack::NO_SUCH_NAME | nack::NO_SUCH_SEGMENT);
                if out_of_step && !self.is_opening() && !fresh && self.doubt_at.is_none() {
                    self.doubts += 1;
                    self.doubt_at = Some(now + DOUBT_AGAIN);
                    return self.doubts >= DOUBTS;
                }
                if fresh && !std::mem::replace(&mut self.asked_anew, true) {
                    self.receiver.opened(now);
                }
            }
            _ => counts.data_unasked += u64::from(header.kind == Kind::Data),
        }
        false
    }

    /// Holds less of datagrams that are not given yet.
    pub(super) fn make_room(&mut self, now: Instant, counts: &mut Counts, sink: &mut impl Sink<A>) {
        let application = self.application;
        self.receiver.make_room(now, counts, &mut |bytes, ecn| sink.datagram(application, bytes, ecn));
    }

    /// Asks for what is due.
    pub(super) fn ask(&mut self, now: Instant, counts: &mut Counts, sink: &mut impl Sink<A>) {
        let (name, proven) = (&self.ask_name, self.proven);
        let most = if proven { usize::MAX } else { (self.unproven_bytes / LEAST_FRAME_BYTES) as usize };
        let bytes_left = &mut self.unproven_bytes;
        self.receiver.ask(now, most, counts, &mut |segment, holes, lifetime| {
            if !proven {
                *bytes_left = bytes_left.saturating_sub(LEAST_FRAME_BYTES * u64::from(1 + holes.count_ones()));
            }
            sink.packet(&Header { holes, ..Header::interest(name, segment as u32, lifetime) }, &[]);
        });
    }

    pub(super) fn next_deadline(&self) -> Instant {
        let open = self.open.as_ref().map(|open| open.sent_at + open.wait);
        let halves = [self.sender.deadline(), self.receiver.deadline(), open, self.doubt_at];
        halves.into_iter().flatten().min().map_or(self.datagram_at + IDLE, |at| at.min(self.datagram_at + IDLE))
    }

    /// Since when no datagram came or left, where the other side has answered.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.proven.then_some(self.datagram_at)
    }

    /// Since when it waits for a first answer.
    pub(super) fn unproven_since(&self) -> Option<Instant> {
        (!self.proven).then_some(self.born)
    }

    /// Handles the timers. Whether the session has ended.
    pub(super) fn timeout(&mut self, now: Instant, counts: &mut Counts, sink: &mut impl Sink<A>) -> bool {
        if self.datagram_at + IDLE <= now {
            return true;
        }
        if self.doubt_at.take_if(|at| *at <= now).is_some() {
            self.receiver.opened(now);
        }
        self.sender.timeout(now, counts);
        let application = self.application;
        self.receiver.timeout(now, counts, &mut |bytes, ecn| sink.datagram(application, bytes, ecn));
        if let Some(open) = self.open.as_mut().filter(|open| open.sent_at + open.wait <= now) {
            open.header.lifetime = lifetime_again(now.saturating_duration_since(open.sent_at));
            open.wait = (2 * open.wait).min(OPEN_AGAIN_MOST);
            (open.sent_at, open.times) = (now, open.times + 1);
            sink.packet(&open.header, &open.payload);
        }
        false
    }
}
