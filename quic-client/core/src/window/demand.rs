// SPDX-License-Identifier: Apache-2.0
//! Forecast of a sender's next round trip, from its arrivals.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

// From advertising a limit to receiving bytes beyond it takes at least this long, whatever the RTT, because reading and
// the turns of both programs take time.
const LEAST_LOOP: Duration = Duration::from_millis(2);
// Expected bytes of the next round trip, as a part of those of the last two. A steady sender sends half of that; an
// eighth more, for a rate that varies. One in slow start, of whose flight of F bytes j have come, has F + j bytes on
// their way or yet to send before it hears of a limit told now, while F/2 + j came in two round trips: a third more is
// right at the end of the flight, and enough before, a limit being told with some slack.
const STEADY_PART: f64 = 0.5 * 1.125;
const DOUBLING_PART: f64 = 4.0 / 3.0;
// A measured demand fades by half in this time, so that a short pause does not reduce the window and an end does.
const HALF_LIFE: Duration = Duration::from_secs(1);
const MAX_GAIN: f64 = 4.0;
// Samples are this part of a round trip apart.
const PARTS: u32 = 16;

/// Bytes received over time, of a stream or of a connection, and the demand estimated from them.
#[derive(Debug, Clone)]
pub struct Demand {
    // Time and bytes received by then; the first is at least two round trips old, as far as there is such a time.
    seen: VecDeque<(Instant, u64)>,
    // Growth by time: each is no less than any after it.
    growth: VecDeque<(Instant, f64)>,
    // Highest steady demand seen, fading.
    memory_bytes: f64,
    // Measured effect of the limit on the sender's rate, fading towards 1.
    gain: f64,
    faded: Instant,
    raised: Option<Raised>,
}

// The last time that the limit was raised.
#[derive(Debug, Clone, Copy)]
struct Raised {
    from: u64,
    at: Instant,
    first: bool,
    judged: bool,
}

impl Demand {
    /// Nothing is known yet but that this many bytes have been received.
    pub fn new(now: Instant, received_bytes: u64) -> Self {
        let seen = VecDeque::from([(now, received_bytes)]);
        Demand { seen, growth: VecDeque::new(), memory_bytes: 0.0, gain: 1.0, faded: now, raised: None }
    }

    /// Takes the number of bytes received by now. Returns how many more the sender will want to send before a limit
    /// advertised now can reach it, judged by the bytes of the last two round trips and their growth.
    pub fn observe(&mut self, now: Instant, received_bytes: u64, rtt: Duration) -> u64 {
        let rtt = rtt.max(LEAST_LOOP);
        let halves = now.saturating_duration_since(self.faded).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.faded = now;
        self.memory_bytes *= (-halves).exp2();
        self.gain = 1.0 + (self.gain - 1.0) * (-halves / 4.0).exp2();
        self.judge(now, received_bytes, rtt);
        self.keep(now, received_bytes, rtt);
        let one_ago = self.by(now.checked_sub(rtt));
        let two_ago = self.by(now.checked_sub(rtt * 2));
        let (last, before) = (received_bytes.saturating_sub(one_ago), one_ago.saturating_sub(two_ago));
        let growth = if before == 0 { 2.0 } else { (last as f64 / before as f64).clamp(1.0, 2.0) };
        let growth = self.most_growth(now, growth, rtt);
        let both = (last + before) as f64;
        // Growth is not remembered longer: it ends when the pipe is full.
        self.memory_bytes = self.memory_bytes.max(both * STEADY_PART);
        let expected = both * (STEADY_PART + (DOUBLING_PART - STEADY_PART) * (growth - 1.0));
        (self.memory_bytes.max(expected) * self.gain) as u64
    }

    // Within one flight of a sender in slow start, growth seems to vary between 1 and 2: a flight lasts half as long as
    // the one after it. So the most within the last round trip counts.
    fn most_growth(&mut self, now: Instant, growth: f64, rtt: Duration) -> f64 {
        while self.growth.back().is_some_and(|(_, g)| *g <= growth) {
            self.growth.pop_back();
        }
        self.growth.push_back((now, growth));
        while self.growth.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > rtt) {
            self.growth.pop_front();
        }
        self.growth.front().map_or(growth, |(_, g)| *g)
    }

    /// The factor by which the demand is taken for more than was measured, because the limit held the sender back; 1
    /// for not at all.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// The limit is being raised from this many bytes.
    pub fn raise(&mut self, now: Instant, from: u64) {
        let first = self.raised.is_none_or(|r| r.first && r.from == from);
        self.raised = Some(Raised { from, at: now, first, judged: false });
    }

    // All bytes of the old limit arrived before any that the new one allowed could arrive: the sender had to wait for
    // us. The first limit was not chosen by this rule, so it does not count.
    fn judge(&mut self, now: Instant, received_bytes: u64, rtt: Duration) {
        let Some(raised) = &mut self.raised else { return };
        if raised.judged || raised.first || received_bytes < raised.from {
            return;
        }
        raised.judged = true;
        if now.saturating_duration_since(raised.at) < rtt * 7 / 8 {
            self.gain = (self.gain * 2.0).min(MAX_GAIN);
        }
    }

    fn keep(&mut self, now: Instant, received_bytes: u64, rtt: Duration) {
        // Samples are exact, and not closer than this: the last one moves on until it is that far from the one before.
        let len = self.seen.len();
        let fixed = len < 2 || now.saturating_duration_since(self.seen[len - 2].0) >= rtt / PARTS;
        match self.seen.back_mut() {
            Some(last) if !fixed => *last = (now, received_bytes),
            _ => self.seen.push_back((now, received_bytes)),
        }
        while self.seen.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) > rtt * 2) {
            self.seen.pop_front();
        }
    }

    // Bytes received by `time`: on the line between the samples around it. A burst's first packet has its own sample.
    fn by(&self, time: Option<Instant>) -> u64 {
        let first = self.seen.front().map_or(0, |(_, bytes)| *bytes);
        let Some(time) = time else { return first };
        let next = self.seen.partition_point(|(at, _)| *at <= time);
        match (next.checked_sub(1).map(|n| self.seen[n]), self.seen.get(next)) {
            (Some((t0, b0)), Some((t1, b1))) => {
                let part = time.duration_since(t0).as_secs_f64() / t1.duration_since(t0).as_secs_f64();
                b0 + ((b1 - b0) as f64 * part) as u64
            }
            (Some((_, bytes)), None) => bytes,
            (None, _) => first,
        }
    }
}
