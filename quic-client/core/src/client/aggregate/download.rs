// SPDX-License-Identifier: Apache-2.0
//! [`Aggregate`]: the state that the connections of an aggregated download share, and their requests.

use super::answer::{Part, content_range};
use super::planner::{Claim, Planner};
use crate::client::body::Body;
use crate::client::bulk::{Bulk, Transfer};
use crate::client::exchange::{Answer, Exchange, Head, Task, Tasks, Verdict};
use crate::client::outcome::Outcome;
use crate::client::plan::Plan;
use crate::connection::{Conn, Payload};
use quiche::h3::{Header, NameValue};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// A body that also takes parts at offsets, in any order.
pub trait RangedBody: Body {
    /// Bytes from `offset` on.
    ///
    /// # Errors
    /// They can't be kept: the download ends with this outcome.
    fn put(&mut self, offset: u64, part: &[u8]) -> Result<(), Outcome>;
}

impl RangedBody for crate::client::body::Nowhere {
    fn put(&mut self, _: u64, _: &[u8]) -> Result<(), Outcome> {
        Ok(())
    }
}

/// The body, which several requests write to.
type SharedBody = Rc<RefCell<Box<dyn RangedBody>>>;

/// A request's access to the body.
struct BodyOf(SharedBody);

impl Body for BodyOf {
    fn head(&mut self, answer: &Answer<'_>) -> Result<(), Outcome> {
        self.0.borrow_mut().head(answer)
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        self.0.borrow_mut().take(part)
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        self.0.borrow_mut().restart()
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        self.0.borrow_mut().finish()
    }
}

/// Stage of the download.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The whole object is requested, or to be requested.
    First,
    /// Ranges of the same object as this answer's.
    Ranges(Part),
    /// An ordinary download on this connection.
    Plain(usize),
    /// It has ended.
    Over,
}

/// State of a connection.
#[derive(Debug, Clone, Default)]
struct LinkState {
    /// Its handshake is done.
    is_up: bool,
    /// It has requested the whole object.
    has_asked: bool,
    /// It takes no more requests.
    is_out: bool,
    /// Requests in sequence that failed.
    failures: u32,
    /// Packets received so far.
    packets: usize,
}

/// Failed requests in sequence after which a connection is not used any more.
const MOST_FAILURES: u32 = 3;

struct Shared {
    plan: Plan,
    head: Head,
    transfer: Transfer,
    body: SharedBody,
    /// An ordinary download is an error.
    must: bool,
    phase: Phase,
    planner: Planner,
    links: Vec<LinkState>,
    /// Time of the event-loop iteration.
    now: Instant,
    begun: Option<Instant>,
    first_link: Option<usize>,
    ended: Option<Instant>,
    outcome: Option<Outcome>,
    failure: Option<Outcome>,
    /// Connections that have to be served although nothing happened to them.
    wakes: Vec<usize>,
    /// Connections that may use all paths from now on.
    freed: Vec<usize>,
    plain_bytes: u64,
}

/// Result of an aggregated download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Several connections delivered ranges; false: an ordinary download.
    pub by_ranges: bool,
    /// Payload of the object that arrived.
    pub bytes: u64,
    /// Payload that arrived more than once.
    pub duplicate_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Payload by connection.
    pub by_link: Vec<u64>,
    /// When the first request was due.
    pub begun: Option<Instant>,
    /// The connection that was answered first.
    pub first_link: Option<usize>,
    /// When it ended.
    pub ended: Option<Instant>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// An aggregated download. Clones are the same download.
#[derive(Clone)]
pub struct Aggregate(Rc<RefCell<Shared>>);

impl Aggregate {
    /// A download of a plan, a GET without a body, over so many connections. `must`: an ordinary download is an error.
    pub fn new(plan: Plan, body: Box<dyn RangedBody>, links: usize, must: bool, now: Instant) -> Aggregate {
        Aggregate(Rc::new(RefCell::new(Shared {
            head: plan.head(),
            transfer: plan.transfer(),
            body: Rc::new(RefCell::new(body)),
            must,
            phase: Phase::First,
            planner: Planner::new(links, now),
            links: vec![LinkState::default(); links],
            now,
            begun: None,
            first_link: None,
            ended: None,
            outcome: None,
            failure: None,
            wakes: Vec::new(),
            freed: Vec::new(),
            plain_bytes: 0,
            plan,
        })))
    }

    /// The requests of a connection.
    pub fn tasks(&self, link: usize) -> LinkTasks {
        LinkTasks { download: self.clone(), link }
    }

    /// Connections that are to be served, since the last call.
    pub fn take_wakes(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.borrow_mut().wakes)
    }

    /// Connections that may use all paths from now on, since the last call: the one of an ordinary download, and the last
    /// one left.
    pub fn take_freed(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.borrow_mut().freed)
    }

    /// A connection has ended.
    pub fn left(&self, link: usize, outcome: &Outcome, now: Instant) {
        let mut shared = self.0.borrow_mut();
        shared.now = now;
        shared.leave(link, outcome);
    }

    /// Whether ranges of one object are or were requested.
    pub fn has_ranges(&self) -> bool {
        self.0.borrow().planner.requests() > 0
    }

    /// The result so far.
    pub fn summary(&self) -> Summary {
        let shared = self.0.borrow();
        let mut by_link: Vec<u64> = (0..shared.links.len()).map(|k| shared.planner.accepted_bytes(k)).collect();
        let by_ranges = shared.planner.requests() > 0;
        if let (false, Some(link)) = (by_ranges, shared.first_link) {
            by_link[link] = shared.plain_bytes;
        }
        Summary {
            by_ranges,
            bytes: by_link.iter().sum(),
            duplicate_bytes: shared.planner.duplicate_bytes(),
            requests: shared.planner.requests().max(u64::from(shared.begun.is_some())),
            by_link,
            begun: shared.begun,
            first_link: shared.first_link,
            ended: shared.ended,
            outcome: shared.outcome.clone().unwrap_or(Outcome::Interrupted),
        }
    }
}

impl Shared {
    fn wake_all(&mut self) {
        self.wakes = (0..self.links.len()).collect();
    }

    fn end(&mut self, outcome: Outcome) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.ended = Some(self.now);
        if outcome != Outcome::Complete {
            // A part of a file must not stay.
            *self.body.borrow_mut() = Box::new(crate::client::body::Nowhere);
        }
        self.outcome = Some(outcome);
        self.wake_all();
    }

    /// A connection is not used any more.
    fn leave(&mut self, link: usize, outcome: &Outcome) {
        if self.phase == Phase::Over || std::mem::replace(&mut self.links[link].is_out, true) {
            return;
        }
        self.planner.left(link);
        if outcome.exit_code() != 0 || self.failure.is_none() {
            self.failure.get_or_insert_with(|| outcome.clone());
        }
        let mut rest = self.links.iter().enumerate().filter(|(_, l)| !l.is_out).map(|(k, _)| k);
        match (rest.next(), rest.next()) {
            (None, _) => {
                let outcome = self.failure.take().filter(|o| *o != Outcome::Complete);
                self.end(outcome.unwrap_or_else(|| Outcome::Incomplete("no connection is left".to_owned())));
            }
            (Some(last), None) if !matches!(self.phase, Phase::Plain(_)) => self.freed.push(last),
            _ => {}
        }
        self.wake_all();
    }

    /// The answer to the request for the whole object.
    fn first_answer(&mut self, link: usize, bulk: &mut Bulk, answer: &Answer<'_>) -> (Verdict, Option<Claim>) {
        let name = format!("{}{}", self.transfer.authority, self.head.path);
        let end = |why: String| (Verdict::End(Outcome::Incomplete(format!("{name}: {why}"))), None);
        let is_empty = |h: &&Header| h.name() == b"content-range" && content_range(h.value()) == Some((None, 0));
        if answer.status == 416 && answer.headers.iter().any(|h| is_empty(&h)) {
            // RFC 9110 15.5.17: an object without bytes has no byte 0.
            self.first_link = Some(link);
            let outcome = self.body.borrow_mut().finish().err().unwrap_or(Outcome::Complete);
            self.end(outcome);
            return (Verdict::End(Outcome::Stopped), None);
        }
        if answer.status == 206 {
            let part = match Part::read(answer) {
                Ok(part) if part.range.start == 0 => part,
                Ok(part) => return end(format!("got bytes from {} on, expected from 0", part.range.start)),
                Err(why) => return end(why),
            };
            if let Some(max) = self.transfer.max_bytes.filter(|max| part.total > *max) {
                let text = format!("{name}: the answer has {} bytes, more than the {max} that it may have", part.total);
                return (Verdict::End(Outcome::TooLarge(text)), None);
            }
            if part.validator.is_some() {
                if let Err(outcome) = self.body.borrow_mut().head(answer) {
                    return (Verdict::End(outcome), None);
                }
                self.planner.begin(part.total);
                let claim = self.planner.adopt(link, part.range.clone(), self.now);
                self.first_link = Some(link);
                self.phase = Phase::Ranges(part);
                self.wake_all();
                return (Verdict::Take, Some(claim));
            }
            if part.range.end != part.total {
                return end("a part without a strong validator (ETag, Last-Modified)".to_owned());
            }
        }
        let verdict = bulk.answered(answer);
        match &verdict {
            Verdict::Redirect(path) => self.head.path.clone_from(path),
            Verdict::Take if self.must => {
                let why = "expected status 206 with a strong ETag or Last-Modified (--aggregate always)";
                let text = format!("{name}: the server serves no ranges (status {}): {why}", answer.status);
                return (Verdict::End(Outcome::NotServed(text)), None);
            }
            Verdict::Take => {
                self.first_link = Some(link);
                self.phase = Phase::Plain(link);
                self.freed.push(link);
                self.wake_all();
            }
            Verdict::End(_) => {}
        }
        (verdict, None)
    }

    /// The answer to the request for a range.
    fn range_answer(&mut self, link: usize, claim: &Claim, answer: &Answer<'_>) -> Verdict {
        let Phase::Ranges(first) = &self.phase else { return Verdict::End(Outcome::Stopped) };
        let why = match Part::read(answer) {
            _ if answer.status != 206 => Some(format!("status {}, expected 206", answer.status)),
            Err(why) => Some(why),
            Ok(part) if part.range.start != claim.range.start || part.range.end > claim.range.end => Some(format!(
                "got bytes {}-{}, expected {}-{}",
                part.range.start,
                part.range.end - 1,
                claim.range.start,
                claim.range.end - 1
            )),
            Ok(part) => part.difference(first).map(|what| format!("{what} differs between two answers")),
        };
        let Some(why) = why else { return Verdict::Take };
        let outcome = Outcome::Incomplete(format!("{}{}: a range: {why}", self.transfer.authority, self.head.path));
        // The first connection's answers have to agree; another's may be of a server that has another copy.
        if self.first_link == Some(link) && matches!(answer.status, 200 | 206 | 412) {
            let text = format!("{}: the object has changed", outcome.detail());
            self.end(Outcome::Incomplete(text));
        } else {
            self.leave(link, &outcome);
        }
        Verdict::End(outcome)
    }

    fn range_data(&mut self, link: usize, id: u64, part: &[u8]) -> Result<(), Outcome> {
        if self.phase == Phase::Over {
            return Ok(());
        }
        self.links[link].failures = 0;
        let (offset, new) = self.planner.received(link, id, part.len() as u64, self.now);
        for range in new {
            let at = |n: u64| (n - offset) as usize;
            let put = self.body.borrow_mut().put(range.start, &part[at(range.start)..at(range.end)]);
            if let Err(outcome) = put {
                self.end(outcome.clone());
                return Err(outcome);
            }
        }
        if self.planner.is_complete() {
            let outcome = self.body.borrow_mut().finish().err().unwrap_or(Outcome::Complete);
            self.end(outcome);
        }
        Ok(())
    }

    /// A request has ended.
    fn request_ended(&mut self, link: usize, claim: Option<&Claim>, outcome: &Outcome) {
        let failed = outcome.exit_code() != 0;
        match (&self.phase, claim) {
            (Phase::Plain(by), None) if *by == link => self.end(outcome.clone()),
            (Phase::First, None) if failed => match outcome {
                // Another connection would be answered alike.
                Outcome::NotServed(_) | Outcome::TooLarge(_) | Outcome::File(_) => self.end(outcome.clone()),
                _ => self.leave(link, outcome),
            },
            (_, Some(claim)) => {
                self.planner.ended(link, claim.id, self.now);
                if failed {
                    self.links[link].failures += 1;
                    self.failure = Some(outcome.clone());
                    if self.links[link].failures >= MOST_FAILURES {
                        self.leave(link, outcome);
                    }
                }
            }
            _ => {}
        }
    }

    /// When a connection may request the whole object: the first one that is up, and another one when that went silent.
    fn first_due(&self, link: usize, up: Instant) -> Option<Instant> {
        if self.links[link].has_asked {
            return None;
        }
        let asked = self.links.iter().enumerate().filter(|(_, l)| l.has_asked && !l.is_out);
        match asked.map(|(k, _)| self.planner.silent_at(k)).max() {
            None => Some(self.plan.start_at.unwrap_or(up)),
            silent => silent,
        }
    }

    fn range_head(&self, claim: &Claim, first: &Part) -> Head {
        let mut head = self.head.clone();
        let range = format!("bytes={}-{}", claim.range.start, claim.range.end - 1);
        head.headers.push(Header::new(b"range", range.as_bytes()));
        head.headers.push(Header::new(b"if-range", first.validator.as_deref().unwrap_or_default()));
        head.bytes = Some(claim.range.end - claim.range.start);
        head
    }
}

/// The requests of one connection of an aggregated download.
pub struct LinkTasks {
    download: Aggregate,
    link: usize,
}

impl Tasks for LinkTasks {
    fn observe(&mut self, now: Instant, conn: &Conn) {
        let mut shared = self.download.0.borrow_mut();
        let shared = &mut *shared;
        shared.now = now;
        if conn.established.is_none() || shared.links[self.link].is_out {
            return;
        }
        let packets = conn.quic.stats().recv;
        let state = &mut shared.links[self.link];
        let heard = std::mem::replace(&mut state.packets, packets) != packets || !state.is_up;
        state.is_up = true;
        let rtt = conn.quic.path_stats().find(|path| path.active).map(|path| path.rtt);
        let arrived = heard.then(|| quiche::hooks::received_and_limit_bytes(&conn.quic).0);
        shared.planner.observe(self.link, rtt, arrived, now);
        if matches!(shared.phase, Phase::Ranges(_)) && shared.planner.check_stalls(now) {
            shared.wake_all();
        }
    }

    fn next_due(&mut self, up: Instant, _: usize) -> Option<Instant> {
        let shared = self.download.0.borrow();
        match shared.phase {
            _ if shared.links[self.link].is_out => None,
            Phase::First => shared.first_due(self.link, up),
            Phase::Ranges(_) if shared.planner.can_claim(self.link, shared.now) => Some(up),
            Phase::Ranges(_) => Some(shared.planner.retry_at(shared.now)),
            Phase::Plain(_) | Phase::Over => None,
        }
    }

    fn take(&mut self) -> Option<Task> {
        let mut shared = self.download.0.borrow_mut();
        let shared = &mut *shared;
        let (head, claim, bulk) = match &shared.phase {
            Phase::First => {
                shared.links[self.link].has_asked = true;
                shared.begun.get_or_insert(shared.plan.start_at.unwrap_or(shared.now));
                let mut head = shared.head.clone();
                head.headers.push(Header::new(b"range", b"bytes=0-"));
                let body = BodyOf(Rc::clone(&shared.body));
                let transfer = Transfer { path: head.path.clone(), ..shared.transfer.clone() };
                (head, None, Some(Bulk::new(transfer, Box::new(body))))
            }
            Phase::Ranges(first) => {
                let first = first.clone();
                let claim = shared.planner.claim(self.link, shared.now)?;
                (shared.range_head(&claim, &first), Some(claim), None)
            }
            Phase::Plain(_) | Phase::Over => return None,
        };
        let exchange = RangeExchange { download: self.download.clone(), link: self.link, claim, bulk };
        Some(Task { head, exchange: Box::new(exchange) })
    }

    fn next_bytes(&self) -> Option<u64> {
        None
    }

    fn left(&self) -> Option<u64> {
        let shared = self.download.0.borrow();
        match shared.phase {
            Phase::Over => Some(0),
            Phase::Plain(link) if link != self.link => Some(0),
            _ if shared.links[self.link].is_out => Some(0),
            Phase::Plain(_) | Phase::First | Phase::Ranges(_) => None,
        }
    }

    fn left_at_once(&self) -> u64 {
        0
    }
}

/// One request of an aggregated download.
struct RangeExchange {
    download: Aggregate,
    link: usize,
    /// The bytes that it delivers; `None`: not known yet, or an ordinary download.
    claim: Option<Claim>,
    /// An ordinary download.
    bulk: Option<Bulk>,
}

impl RangeExchange {
    fn is_plain(&self) -> bool {
        self.download.0.borrow().phase == Phase::Plain(self.link)
    }
}

impl Payload for RangeExchange {
    fn part(&mut self) -> (&[u8], bool) {
        (&[], true)
    }

    fn sent(&mut self, _: usize, _: bool) {}
}

impl Exchange for RangeExchange {
    fn answered(&mut self, answer: &Answer<'_>) -> Verdict {
        let mut shared = self.download.0.borrow_mut();
        match (&self.claim, &mut self.bulk) {
            (Some(claim), _) => shared.range_answer(self.link, claim, answer),
            (None, Some(bulk)) if matches!(shared.phase, Phase::First) => {
                let (verdict, claim) = shared.first_answer(self.link, bulk, answer);
                self.claim = claim;
                verdict
            }
            // Sent again, after a move.
            (None, Some(bulk)) if shared.phase == Phase::Plain(self.link) => bulk.answered(answer),
            _ => Verdict::End(Outcome::Stopped),
        }
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        if let Some(claim) = &self.claim {
            return self.download.0.borrow_mut().range_data(self.link, claim.id, part);
        }
        self.download.0.borrow_mut().plain_bytes += part.len() as u64;
        self.bulk.as_mut().map_or(Ok(()), |bulk| bulk.take(part))
    }

    fn finish(&mut self) -> Outcome {
        match (&self.claim, &mut self.bulk) {
            (Some(claim), _) if self.download.0.borrow().planner.is_short(self.link, claim.id) => {
                Outcome::Incomplete("a range ended before its last byte".to_owned())
            }
            (None, Some(bulk)) => bulk.finish(),
            _ => Outcome::Complete,
        }
    }

    fn can_restart(&self) -> bool {
        self.is_plain() && self.bulk.as_ref().is_some_and(Exchange::can_restart)
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        self.download.0.borrow_mut().plain_bytes = 0;
        self.bulk.as_mut().map_or(Ok(()), Exchange::restart)
    }

    fn is_cancelled(&self) -> bool {
        let shared = self.download.0.borrow();
        match (&shared.phase, &self.claim) {
            (Phase::Over, _) => true,
            (_, Some(claim)) => shared.planner.is_over(self.link, claim.id),
            (Phase::Plain(link), None) => *link != self.link,
            (Phase::First, None) => false,
            (Phase::Ranges(_), None) => true,
        }
    }

    fn ended(&mut self, outcome: &Outcome) {
        self.download.0.borrow_mut().request_ended(self.link, self.claim.as_ref(), outcome);
    }
}
