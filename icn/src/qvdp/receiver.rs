// SPDX-License-Identifier: Apache-2.0
//! The half of a session that receives: keeps Interests outstanding, finds what is lost, puts datagrams together.

use super::credit::Credit;
use super::hole::Hole;
use super::{Config, Counts, Ecn, LONGEST, MAX_DATAGRAM_BYTES, expand, lifetime_again};
use crate::packet::{Header, MAX_PAYLOAD_BYTES, flags, grouped, lifetime_of, nack};
use crate::response::{FIRST_RESPONSE_TIME, ResponseTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Later segments that make one count as lost (RFC 9002 6.1.1).
const LOST_AFTER: u64 = 3;
/// Shortest time after which an Interest is asked again.
const SHORTEST: Duration = Duration::from_millis(20);
/// Segments behind the newest Data that are remembered, to distinguish late ones from duplicates.
const REMEMBERED: u64 = 256;
/// Segments from the oldest that is remembered to the newest that is asked for, at most.
const SPAN: u64 = 4096;
/// Losses that are taken for the link's own and not for congestion (reliable): this share of what arrives, ...
const REPAIRED_SHARE: f64 = 0.03;
/// ... and so many at once: one lost packet of Interests is 17 segments that the sender passes over.
const MOST_REPAIRS: f64 = 32.0;
/// Overhead of keeping a piece beside its content, in bytes.
const PIECE_BYTES: usize = 64;
/// Interests that are due within this part of their lifetime go with those that are due now.
const EARLY_SHARE: u32 = 8;

#[derive(Debug)]
enum Slot {
    /// Asked for, and not here.
    Asked { at: Instant, lifetime: Duration, times: u8 },
    /// Counted as lost, here or by the sender, which keeps it no longer; may still come.
    Lost,
    /// Here: a piece of a datagram, or waiting for earlier ones.
    Here(u8, Box<[u8]>),
    /// Passed over by the sender: nothing was in it.
    Bare,
    /// Given to the application, or of no use to it.
    Done,
}

#[derive(Debug)]
pub(super) struct Receiver {
    config: Config,
    credit: Credit,
    /// From asking to the Data, with the time that the Interest waited for a datagram: sets lifetimes.
    response: ResponseTime,
    /// The same where the Data did not wait for its datagram: the way there and back.
    round_trip: ResponseTime,
    quickest: Option<Duration>,
    /// The number of `slots[0]`.
    floor: u64,
    slots: VecDeque<Slot>,
    /// Size of the content in them, in bytes.
    slot_bytes: usize,
    /// Interests that count as outstanding.
    outstanding: u32,
    /// Asked for once, but beyond today's credit: not asked again.
    resting: BTreeSet<u64>,
    /// Behind the newest Data.
    newest: u64,
    /// Segments below were looked at for gaps, ...
    gaps_below: u64,
    /// ... and these are to be looked at again: they had been asked for again later than what was looked at them for.
    passed_by: Vec<u64>,
    holes: BTreeMap<u64, Hole>,
    /// Losses that may be asked for again before they count as congestion, which the application's own control has to see.
    repairs: f64,
    /// No slot's lifetime ends before.
    due_at: Option<Instant>,
    data_at: Option<Instant>,
    /// The beginning of a datagram, and the flags of its pieces (reliable).
    beginning: Vec<u8>,
    beginning_flags: u8,
    /// Interests are lost, because switches or the other side refused them: ask for all again.
    refused: bool,
}

/// Memory of this piece, in bytes.
fn cost(content: &[u8]) -> usize {
    content.len() + PIECE_BYTES
}

/// Where datagrams go.
pub(super) type Give<'a> = dyn FnMut(&[u8], Ecn) + 'a;
/// Where Interests go: first segment, holes, lifetime.
pub(super) type Ask<'a> = dyn FnMut(u64, u16, u16) + 'a;

impl Receiver {
    pub(super) fn new(config: Config, now: Instant) -> Receiver {
        Receiver {
            config,
            credit: Credit::new(now),
            response: ResponseTime::default(),
            round_trip: ResponseTime::default(),
            quickest: None,
            floor: 0,
            slots: VecDeque::new(),
            slot_bytes: 0,
            outstanding: 0,
            resting: BTreeSet::new(),
            newest: 0,
            gaps_below: 0,
            passed_by: Vec::new(),
            holes: BTreeMap::new(),
            repairs: MOST_REPAIRS,
            due_at: None,
            data_at: None,
            beginning: Vec::new(),
            beginning_flags: 0,
            refused: false,
        }
    }

    /// A time from asking to an answer that came at once.
    pub(super) fn round_trip_was(&mut self, time: Duration) {
        self.round_trip.sample(time);
    }

    /// The smoothed round trip; before one was measured, the quickest answer, which hardly waited for a datagram.
    fn round_trip(&self) -> Duration {
        let quickest = || self.quickest.unwrap_or(FIRST_RESPONSE_TIME);
        if self.round_trip.is_measured() { self.round_trip.smoothed() } else { quickest() }
    }

    fn next(&self) -> u64 {
        self.floor + self.slots.len() as u64
    }

    fn slot(&mut self, segment: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(segment.checked_sub(self.floor)?).ok()?)
    }

    /// Data of the other side. Whether it brought anything new.
    pub(super) fn data(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: Instant,
        counts: &mut Counts,
        give: &mut Give,
    ) -> bool {
        let segment = expand(header.segment, self.newest).filter(|segment| *segment >= self.floor);
        let Some((segment, slot)) = segment.and_then(|segment| Some((segment, self.slot(segment)?))) else {
            counts.data_unasked += 1;
            return false;
        };
        let asked_at = match *slot {
            Slot::Asked { at, times, .. } => {
                let took = now.saturating_duration_since(at);
                self.answered(segment, took, times, header, now);
                at
            }
            Slot::Lost => now,
            Slot::Here(..) | Slot::Bare | Slot::Done => {
                counts.duplicates += 1;
                return false;
            }
        };
        self.credit.data(header.has(flags::WAITED), self.round_trip(), now);
        self.data_at = Some(now);
        self.repairs = (self.repairs + REPAIRED_SHARE).min(MOST_REPAIRS);
        self.put(segment, header, payload, counts, give);
        if segment >= self.newest {
            self.newest = segment + 1;
            if self.config.gaps {
                self.find_gaps(segment, asked_at, now, counts);
            }
        }
        self.advance(now, counts, give);
        true
    }

    fn answered(&mut self, segment: u64, took: Duration, times: u8, header: &Header, now: Instant) {
        if !self.resting.remove(&segment) {
            self.outstanding -= 1;
        }
        if let Some(hole) = self.holes.remove(&segment) {
            if !hole.was_asked() {
                self.give_repair_back(header.has(flags::BARE));
            } else if let Some(response) = hole.response(now) {
                self.round_trip.sample(response);
            }
        } else if times == 1 {
            self.response.sample(took);
            self.quickest = Some(self.quickest.map_or(took, |quickest| quickest.min(took)));
            if header.has(flags::WAITED) {
                self.round_trip.sample(took);
            }
        }
    }

    /// A presumed loss was none. `bare`: one that only its Interest reports is counted where it is put away.
    fn give_repair_back(&mut self, bare: bool) {
        if !bare {
            self.repairs = (self.repairs + 1.0).min(MOST_REPAIRS);
        }
    }

    /// Finds the losses that Data of this segment shows among those before it.
    fn find_gaps(&mut self, segment: u64, asked_at: Instant, now: Instant, counts: &mut Counts) {
        let end = (segment + 1).saturating_sub(LOST_AFTER);
        let new = self.gaps_below.max(self.floor)..end;
        for lower in std::mem::take(&mut self.passed_by).into_iter().chain(new) {
            let Some(Slot::Asked { at, .. }) = self.slot(lower) else { continue };
            let again_at = Some(*at).filter(|at| *at > asked_at);
            let repair = self.config.reliable && self.repairs >= 1.0;
            if repair {
                // The sender has passed it: what it was asked for again is answered within a round trip, or lost too.
                self.repairs -= 1.0;
                self.outstanding += u32::from(self.resting.remove(&lower));
                self.holes.insert(lower, Hole::new(now, again_at, self.round_trip()));
            } else if again_at.is_some() {
                self.passed_by.push(lower);
                continue;
            } else {
                if let Some(slot) = self.slot(lower) {
                    *slot = Slot::Lost;
                }
                counts.congestion_losses += u64::from(self.config.reliable);
                self.outstanding -= u32::from(!self.resting.remove(&lower));
            }
            counts.segments_lost += 1;
        }
        self.gaps_below = self.gaps_below.max(end);
    }

    /// Puts what came into its slot, or gives it away at once.
    fn put(&mut self, segment: u64, header: &Header, payload: &[u8], counts: &mut Counts, give: &mut Give) {
        let whole = header.flags & (flags::MORE | flags::REST) == 0;
        let slot = if header.has(flags::BARE | flags::MORE) {
            counts.segments_given_up += u64::from(self.config.reliable);
            Slot::Lost
        } else if header.has(flags::BARE) {
            // Only the Interest had been lost.
            self.repairs = (self.repairs + 1.0).min(MOST_REPAIRS);
            Slot::Bare
        } else if whole && (!self.config.reliable || segment == self.floor) {
            self.give(payload, header.flags, counts, give);
            Slot::Done
        } else {
            self.slot_bytes += cost(payload);
            Slot::Here(header.flags, payload.into())
        };
        let piece = matches!(slot, Slot::Here(..) | Slot::Bare);
        if let Some(place) = self.slot(segment) {
            *place = slot;
        }
        if piece && !self.config.reliable {
            self.put_together(segment, counts, give);
        }
    }

    fn give(&mut self, bytes: &[u8], pieces: u8, counts: &mut Counts, give: &mut Give) {
        if pieces & flags::DROP_IF_CE != 0 && pieces & flags::CE != 0 {
            counts.congestion_losses += 1;
            return;
        }
        let ecn = Ecn::of(pieces);
        counts.datagrams_given += 1;
        counts.marks += u64::from(ecn == Ecn::Ce);
        give(bytes, ecn);
    }

    /// Gives the datagram that a segment is a piece of, if all its pieces are here (unreliable).
    fn put_together(&mut self, segment: u64, counts: &mut Counts, give: &mut Give) {
        // Pieces are full but for the last, and segments without content may lie between.
        const MOST_PIECES: usize = MAX_DATAGRAM_BYTES / MAX_PAYLOAD_BYTES + 64;
        let at = (segment - self.floor) as usize;
        let mut first = at;
        while !matches!(&self.slots[first], Slot::Here(piece, _) if piece & flags::REST == 0) {
            let goes_on = matches!(self.slots[first], Slot::Here(..) | Slot::Bare);
            if !goes_on || first == 0 || at - first > MOST_PIECES {
                return;
            }
            first -= 1;
        }
        let (mut bytes, mut pieces, mut end) = (Vec::new(), 0, first);
        loop {
            match self.slots.get(end) {
                Some(Slot::Bare) => {}
                Some(Slot::Here(piece, _)) if end > first && piece & flags::REST == 0 => return,
                Some(Slot::Here(piece, content)) => {
                    bytes.extend_from_slice(content);
                    // A mark on any piece is one on the datagram.
                    pieces |= piece & (flags::ECT | flags::CE | flags::DROP_IF_CE);
                    if piece & flags::MORE == 0 {
                        break;
                    }
                }
                _ => return,
            }
            end += 1;
            if end - first > MOST_PIECES {
                return;
            }
        }
        (first..=end).for_each(|at| self.empty(at));
        if bytes.len() <= MAX_DATAGRAM_BYTES {
            self.give(&bytes, pieces, counts, give);
        } else {
            counts.datagrams_incomplete += 1;
        }
    }

    /// The content of a slot is needed no longer.
    fn empty(&mut self, at: usize) {
        if let Slot::Here(_, content) = std::mem::replace(&mut self.slots[at], Slot::Done) {
            self.slot_bytes -= cost(&content);
        }
    }

    /// Nobody waits for the first segment any longer, which was asked for.
    fn give_up_first(&mut self, counts: &mut Counts) {
        self.holes.remove(&self.floor);
        counts.segments_given_up += 1;
        if !self.resting.remove(&self.floor) {
            self.outstanding -= 1;
        }
    }

    /// The first slot is done with; in reliable mode what is in it is next.
    fn pass_first(&mut self, counts: &mut Counts, give: &mut Give) {
        let Some(slot) = self.slots.pop_front() else { return };
        self.floor += 1;
        if let Slot::Here(_, content) = &slot {
            self.slot_bytes -= cost(content);
        }
        if self.config.reliable {
            self.give_next(slot, counts, give);
        }
    }

    /// Memory of datagrams that are not given yet, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.slot_bytes + self.beginning.len()
    }

    /// Frees memory, the oldest first. Unreliable: drops the oldest datagram of which not all pieces are here. Reliable: waits no
    /// longer for what is before the oldest that is here, so that this can be given.
    pub(super) fn make_room(&mut self, now: Instant, counts: &mut Counts, give: &mut Give) {
        counts.reassembly_dropped += 1;
        let held_bytes = self.held_bytes();
        if self.config.reliable {
            while self.held_bytes() >= held_bytes && !self.slots.is_empty() {
                if matches!(self.slots.front(), Some(Slot::Asked { .. })) {
                    self.give_up_first(counts);
                }
                self.pass_first(counts, give);
            }
            if self.held_bytes() >= held_bytes {
                self.beginning = Vec::new();
            }
            self.advance(now, counts, give);
            return;
        }
        let Some(first) = self.slots.iter().position(|slot| matches!(slot, Slot::Here(..))) else { return };
        self.empty(first);
        for at in first + 1..self.slots.len() {
            match &self.slots[at] {
                Slot::Here(piece, _) if piece & flags::REST != 0 => self.empty(at),
                Slot::Bare => {}
                _ => return,
            }
        }
    }

    /// Forgets what is done with; in reliable mode gives what is next.
    fn advance(&mut self, now: Instant, counts: &mut Counts, give: &mut Give) {
        while let Some(first) = self.slots.front() {
            let stuck = self.slots.len() as u64 >= SPAN;
            match first {
                Slot::Asked { .. } => {
                    let given_up = self.holes.get(&self.floor).is_some_and(|hole| hole.is_hopeless(now));
                    if !stuck && !given_up {
                        return;
                    }
                    self.give_up_first(counts);
                }
                _ if self.config.reliable => {}
                _ if !stuck && self.floor + REMEMBERED >= self.newest => return,
                Slot::Here(piece, _) => counts.datagrams_incomplete += u64::from(piece & flags::MORE == 0),
                _ => {}
            }
            self.pass_first(counts, give);
        }
    }

    /// The next segment in order (reliable).
    fn give_next(&mut self, slot: Slot, counts: &mut Counts, give: &mut Give) {
        match slot {
            Slot::Here(piece, content) => {
                let begun = !self.beginning.is_empty();
                let rest = piece & flags::REST != 0;
                if begun != rest || self.beginning.len() + content.len() > MAX_DATAGRAM_BYTES {
                    counts.datagrams_incomplete += 1;
                    self.beginning = Vec::new();
                    if rest {
                        return;
                    }
                }
                if piece & flags::MORE != 0 {
                    self.beginning_flags = piece | if rest { self.beginning_flags } else { 0 };
                    self.beginning.reserve_exact(content.len());
                    self.beginning.extend_from_slice(&content);
                } else if rest {
                    let mut whole = std::mem::take(&mut self.beginning);
                    whole.extend_from_slice(&content);
                    self.give(&whole, piece | self.beginning_flags, counts, give);
                } else {
                    self.give(&content, piece, counts, give);
                }
            }
            Slot::Bare => {}
            // Given away when it came, or given up.
            _ => {
                if !std::mem::take(&mut self.beginning).is_empty() {
                    counts.datagrams_incomplete += 1;
                }
            }
        }
    }

    /// One of our Interests was refused.
    pub(super) fn nack(&mut self, header: &Header, now: Instant, counts: &mut Counts, give: &mut Give) {
        match header.code {
            nack::QUOTA => self.credit.refused(self.round_trip(), now),
            nack::FULL => self.credit.crowded(),
            _ => {
                self.refused = true;
                return;
            }
        }
        let Some(segment) = expand(header.segment, self.newest).filter(|segment| *segment >= self.floor) else {
            return;
        };
        if let Some(hole) = self.holes.get_mut(&segment).filter(|hole| hole.was_asked()) {
            hole.refused(now);
        } else if header.code == nack::FULL {
            self.pass_over(segment, now, counts, give);
        }
    }

    /// An Interest that was asked once and refused by a switch never reached the sender, which uses later ones. The place where
    /// there was no room may stay taken, so asking again may fail for long, and others would wait for nothing (reliable).
    fn pass_over(&mut self, segment: u64, now: Instant, counts: &mut Counts, give: &mut Give) {
        let too_far = segment >= self.newest + SPAN / 2;
        let Some(slot) = self.slot(segment).filter(|slot| matches!(slot, Slot::Asked { times: 1, .. })) else { return };
        if too_far {
            // Nothing gets through. Numbers that the sender takes would run out.
            return;
        }
        *slot = Slot::Bare;
        let taken = self.holes.remove(&segment).is_some();
        self.give_repair_back(!taken);
        self.outstanding -= u32::from(!self.resting.remove(&segment));
        if !self.config.reliable {
            self.put_together(segment, counts, give);
        }
        self.advance(now, counts, give);
    }

    /// The way is open now: Interests that were refused before are asked for again at once.
    pub(super) fn opened(&mut self, now: Instant) {
        if std::mem::take(&mut self.refused) {
            for slot in &mut self.slots {
                if let Slot::Asked { lifetime, .. } = slot {
                    *lifetime = Duration::ZERO;
                }
            }
            self.due_at = Some(now);
        }
    }

    /// Asks for lost segments that are due, for what was answered by nothing, and for new segments up to the credit. `most` bounds
    /// the segments asked for before any Data came; what is due beyond it rests.
    pub(super) fn ask(&mut self, now: Instant, mut most: usize, counts: &mut Counts, ask: &mut Ask) {
        self.ask_for_holes(now, counts, ask);
        if self.due_at.is_some_and(|at| at <= now) {
            most -= self.ask_again(now, most, counts, ask);
        }
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let room = self.credit.size().saturating_sub(self.outstanding).min(most);
        if room == 0 {
            return;
        }
        let lifetime = self.lifetime();
        // A switch may still have what rests: it forwards an Interest only if its lifetime has passed.
        let (mut since, mut again) = (lifetime, Vec::new());
        while again.len() < room as usize {
            let Some(segment) = self.resting.pop_first() else { break };
            if let Some(Slot::Asked { at, lifetime: old, times }) = self.slot(segment) {
                since = since.min(now.saturating_duration_since(*at).max(SHORTEST));
                (*at, *old, *times) = (now, lifetime, times.saturating_add(1));
                again.push(segment);
                counts.segments_asked_again += 1;
            }
        }
        let room = room as usize - again.len();
        self.outstanding += again.len() as u32;
        grouped(again, |first, holes| ask(first, holes, lifetime_again(since)));
        let mut asked: Vec<u64> = Vec::new();
        while asked.len() < room && (self.slots.len() as u64) < SPAN {
            asked.push(self.next());
            self.slots.push_back(Slot::Asked { at: now, lifetime, times: 1 });
            counts.segments_asked += 1;
        }
        self.outstanding += asked.len() as u32;
        self.due(now + lifetime);
        grouped(asked, |first, holes| ask(first, holes, lifetime_of(lifetime)));
    }

    fn due(&mut self, at: Instant) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    fn lifetime(&self) -> Duration {
        self.response.ask_again_after(self.config.beta).clamp(SHORTEST, LONGEST)
    }

    fn ask_for_holes(&mut self, now: Instant, counts: &mut Counts, ask: &mut Ask) {
        let due: Vec<u64> = self.holes.iter().filter(|(_, hole)| hole.ask_at <= now).map(|(s, _)| *s).collect();
        if due.is_empty() {
            return;
        }
        let mut since = LONGEST;
        for segment in &due {
            if let Some(hole) = self.holes.get_mut(segment) {
                since = since.min(hole.asked(now));
            }
            if let Some(Slot::Asked { at, times, .. }) = self.slot(*segment) {
                (*at, *times) = (now, times.saturating_add(1));
                counts.segments_asked_again += 1;
            }
        }
        grouped(due, |first, holes| ask(first, holes, lifetime_again(since)));
    }

    /// Asks again for what was answered by nothing within its lifetime; what is beyond the credit or `most` rests. Gives the number
    /// of segments asked for.
    fn ask_again(&mut self, now: Instant, most: usize, counts: &mut Counts, ask: &mut Ask) -> usize {
        self.credit.age(now);
        let base = self.lifetime();
        let (mut due_at, mut asked) = (None::<Instant>, BTreeMap::<Duration, (Duration, Vec<u64>)>::new());
        let (mut kept, mut asked_count) = (0, 0);
        for (segment, slot) in (self.floor..).zip(&mut self.slots) {
            let Slot::Asked { at, lifetime, times } = slot else { continue };
            if self.holes.contains_key(&segment) {
                continue;
            }
            // A resting segment goes on in its turn: it may have been answered, and all others wait for what is sent
            // next.
            let rests = self.resting.contains(&segment);
            let end = *at + *lifetime;
            if !rests && end > now + *lifetime / EARLY_SHARE {
                due_at = Some(due_at.map_or(end, |due| due.min(end)));
                kept += 1;
                continue;
            }
            if kept >= self.credit.size() || asked_count >= most {
                self.outstanding -= u32::from(self.resting.insert(segment));
                continue;
            }
            self.outstanding += u32::from(self.resting.remove(&segment));
            kept += 1;
            asked_count += 1;
            // Nothing came since: the other side has nothing to send, or can't be reached.
            let quiet = self.data_at.is_none_or(|data_at| data_at < *at);
            // Longer, but not so much that it would be dead in the switches before it is asked again.
            let next = if quiet { (*lifetime * 5 / 4).clamp(base, LONGEST) } else { base };
            let since = now.saturating_duration_since(*at).max(SHORTEST);
            (*at, *lifetime, *times) = (now, next, times.saturating_add(1));
            due_at = Some(due_at.map_or(now + next, |due| due.min(now + next)));
            let group = asked.entry(next).or_insert((next, Vec::new()));
            group.0 = group.0.min(since);
            group.1.push(segment);
        }
        self.due_at = due_at;
        for (since, segments) in asked.into_values() {
            counts.segments_asked_again += segments.len() as u64;
            grouped(segments, |first, holes| ask(first, holes, lifetime_again(since)));
        }
        asked_count
    }

    /// When [`Receiver::timeout`] is next of use.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let holes = self.holes.values().map(|hole| hole.ask_at).min();
        self.due_at.into_iter().chain(holes).min()
    }

    /// Gives up lost segments that took too long. [`Receiver::ask`] is to be called after it.
    pub(super) fn timeout(&mut self, now: Instant, counts: &mut Counts, give: &mut Give) {
        self.advance(now, counts, give);
    }

    #[cfg(test)]
    pub(super) fn credit_size(&self) -> u32 {
        self.credit.size()
    }

    pub(super) fn check_budgets(&self) {
        let asked = self.slots.iter().filter(|slot| matches!(slot, Slot::Asked { .. })).count();
        assert_eq!(asked, self.outstanding as usize + self.resting.len());
        assert!(self.slots.len() as u64 <= SPAN + 1 && self.outstanding <= super::credit::MOST);
        assert!(self.beginning.len() <= MAX_DATAGRAM_BYTES);
        let here =
            self.slots.iter().filter_map(|slot| if let Slot::Here(_, content) = slot { Some(content) } else { None });
        assert_eq!(here.map(|content| cost(content)).sum::<usize>(), self.slot_bytes);
    }
}
