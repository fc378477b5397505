// SPDX-License-Identifier: Apache-2.0
//! Sending whole packets, although the congestion window grows by bytes.
//!
//! quiche fills a congestion window to the last byte. With one acknowledgement per packet, as on a slow link, that
//! makes packets smaller and smaller: an acknowledgement frees a packet and a few bytes, those bytes become a small
//! packet, and so on. Ten CUBIC flows over 10 Mbit/s came down to 442 bytes per packet on average (measured). So a
//! sender that is limited by its window asks quiche for as many packets as fit whole, and the rest of the window waits
//! for the next acknowledgement: silly window avoidance on the sender's side (RFC 9293 3.8.6.2.1).
//!
//! Three things need care. quiche lets the window grow only while it has more data than fits, so it always gets a
//! little more; how much it holds is counted here, because quiche does not report it. Other frames, such as
//! acknowledgements, must not wait for ever: after an RTT without an acknowledgement quiche sends as it likes. And what
//! quiche would take is no measure of the window where the peer's flow control leaves less: data that waits in quiche
//! has used that up already, so the window's own room counts there.

use std::time::{Duration, Instant};

/// With room for this many packets a small one does not matter, and quiche sends as it likes.
const MANY: u64 = 64;
/// Packets handed over beyond what fits: more than the count can be wrong by between two corrections.
const AHEAD: i64 = 4;
/// Packets that quiche sends again at most when a probe timeout fires (RFC 9002 6.2.4).
const PROBES: u64 = 2;
/// The least time that frames may wait for the room of a whole packet (the usual `max_ack_delay`, RFC 9000 18.2).
const MIN_HOLD: Duration = Duration::from_millis(25);

/// quiche's counts of losses, cumulative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Stream (and handshake) bytes that were to be sent again.
    pub retx_bytes: u64,
    /// Packets declared lost and acknowledged after all.
    pub spurious: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
}

/// The count of bytes and the quota of packets of one connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WholePackets {
    payload: u64,
    carries: u64,
    /// Stream bytes handed over, or handed back by loss, less those sent: quiche's content, or a little less.
    held: i64,
    losses: Losses,
    window: Option<u64>,
    written: u64,
    let_go: bool,
    waiting_until: Option<Instant>,
}

impl WholePackets {
    /// For datagrams of `payload` bytes and destination connection IDs of `dcid` bytes; `losses` were of the handshake.
    pub fn new(payload: usize, dcid: usize, losses: Losses) -> Self {
        // RFC 9000 17.3.1: flags, connection ID, packet number of one byte. AEAD tag. 19.8: type, stream ID, offset of
        // four bytes, length. Where it is more, the count is below what quiche holds, which is the safe side.
        let overhead = 1 + dcid + 1 + 16 + 1 + 1 + 4 + 2;
        let carries = payload.saturating_sub(overhead) as u64;
        WholePackets { payload: payload as u64, carries, losses, ..WholePackets::default() }
    }

    /// Packets have this many bytes from now on: the path MTU was found, or has changed.
    pub fn resize(&mut self, payload: usize) {
        let overhead = self.payload - self.carries;
        self.payload = payload as u64;
        self.carries = self.payload.saturating_sub(overhead);
    }

    /// Reads quiche's counters: lost bytes are held again.
    pub fn lost(&mut self, losses: Losses) {
        let was = std::mem::replace(&mut self.losses, losses);
        self.held += (losses.retx_bytes - was.retx_bytes) as i64;
        // These bytes may not be sent again after all: the first copy arrived, or was only probed for. The count must
        // not be above what quiche holds, so all of them are subtracted.
        let doubtful = losses.spurious - was.spurious + PROBES * (losses.probe_timeouts - was.probe_timeouts);
        self.held -= (doubtful * self.carries) as i64;
    }

    /// Bytes to hand over now, `capacity` being the bytes that quiche would take: after an acknowledgement, its window.
    /// If the peer's flow control leaves less than that, `window_room` is what the window has room for.
    pub fn room(&mut self, capacity: usize, window_room: Option<usize>) -> usize {
        let room = window_room.map_or(capacity as u64 + self.written, |room| room as u64);
        let window = self.window.unwrap_or(0).max(room);
        self.window = Some(window);
        let packets = window / self.payload;
        if packets >= MANY {
            return capacity;
        }
        if packets == 0 {
            return 0;
        }
        let wanted = packets as i64 * self.carries as i64 + AHEAD * self.payload as i64 - self.held;
        capacity.min(wanted.max(0) as usize)
    }

    /// So many bytes were handed over.
    pub fn wrote(&mut self, bytes: u64) {
        self.held += bytes as i64;
        self.written += bytes;
    }

    /// Packets to ask quiche for in this iteration; `None`: as many as it has.
    pub fn quota(&self) -> Option<u64> {
        let packets = self.window? / self.payload;
        (packets < MANY && !self.let_go).then_some(packets)
    }

    /// quiche made a datagram of this length.
    pub fn sent(&mut self, bytes: usize) {
        self.held -= (bytes as u64).saturating_sub(self.payload - self.carries) as i64;
    }

    /// quiche made no packet although there was room: it holds no data.
    pub fn ran_dry(&mut self) {
        self.held = 0;
    }

    /// An iteration is over. `short`: the quota ran out, so frames may be waiting.
    pub fn end_turn(&mut self, short: bool, now: Instant, rtt: Duration) {
        self.window = None;
        self.written = 0;
        self.let_go = false;
        self.waiting_until = short.then(|| now + rtt.max(MIN_HOLD));
    }

    /// When the waiting ends.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting_until
    }

    /// In this iteration quiche sends as it likes: the waiting has ended, or its own timer requires a packet.
    pub fn let_go(&mut self) {
        self.let_go = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ledger() -> WholePackets {
        WholePackets::new(1350, 16, Losses { retx_bytes: 9999, ..Losses::default() })
    }

    #[test]
    fn what_fits_in_whole_and_some_ahead() {
        let mut w = ledger();
        assert_eq!(w.quota(), None);
        // Never more than quiche takes; here the window is the limit.
        assert_eq!(w.room(3 * 1350 + 700, None), 3 * 1350 + 700);
        w.wrote(3 * 1350 + 700);
        assert_eq!(w.quota(), Some(3));
        (0..3).for_each(|_| w.sent(1350));
        w.end_turn(true, Instant::now(), Duration::ZERO);
        // 826 bytes are held: ten packets, and four ahead, less those.
        assert_eq!(w.room(20_000, None), 20_000);
        w.end_turn(true, Instant::now(), Duration::ZERO);
        w.wrote(4 * 1350 - 826 - 10);
        w.end_turn(true, Instant::now(), Duration::ZERO);
        assert_eq!(w.room(20_000, None), 14 * 1308 + 10);
    }

    // 30,000 bytes wait in quiche and have used up the peer's limit but for 2616 bytes; the window has room for 15
    // packets.
    #[test]
    fn what_flow_control_leaves_is_not_the_windows_room() {
        let mut w = ledger();
        w.wrote(30_000);
        w.end_turn(false, Instant::now(), Duration::ZERO);
        assert_eq!(w.room(2616, Some(15 * 1350 + 9)), 0);
        assert_eq!(w.quota(), Some(15));
        // The limit is used up, and more of it in the same iteration makes no more room.
        assert_eq!((w.room(0, Some(15 * 1350 + 9)), w.quota()), (0, Some(15)));
    }

    #[test]
    fn doubtful_losses_are_taken_for_none() {
        let mut w = ledger();
        w.lost(Losses { retx_bytes: 9999 + 3 * 1308, spurious: 1, probe_timeouts: 1 });
        assert_eq!(w.held, 0);
        w.lost(Losses { retx_bytes: 9999 + 4 * 1308, spurious: 1, probe_timeouts: 1 });
        assert_eq!(w.held, 1308);
        w.ran_dry();
        assert_eq!(w.held, 0);
    }

    #[test]
    fn less_than_a_packet_waits_for_an_rtt_and_no_longer() {
        let mut w = ledger();
        let now = Instant::now();
        assert_eq!((w.room(1349, None), w.quota()), (0, Some(0)));
        w.end_turn(true, now, Duration::from_millis(40));
        assert_eq!(w.deadline(), Some(now + Duration::from_millis(40)));
        w.let_go();
        assert_eq!((w.room(1349, None), w.quota()), (0, None));
        w.end_turn(false, now, Duration::from_millis(40));
        assert_eq!(w.deadline(), None);
    }

    proptest! {
        // A quiche in miniature: a window in bytes, one acknowledgement per packet, growth by odd amounts, loss.
        #[test]
        fn packets_are_whole_and_little_is_held(
            steps in prop::collection::vec((1u64..400, prop::bool::weighted(0.05)), 50..400),
        ) {
            let mut w = ledger();
            let (mut cwnd, mut held, mut retx) = (13_500u64, 0u64, 0u64);
            let mut flight: std::collections::VecDeque<u64> = Default::default();
            let mut short = 0;
            let mut packets = 0;
            for (growth, lost) in steps {
                if let Some(p) = flight.pop_front() {
                    if lost {
                        held += p - 42;
                        retx += p - 42;
                    } else {
                        cwnd += growth;
                    }
                }
                w.lost(Losses { retx_bytes: 9999 + retx, ..Losses::default() });
                let available = cwnd - flight.iter().sum::<u64>();
                let n = w.room(available as usize, None) as u64;
                prop_assert!(n <= available);
                w.wrote(n);
                held += n;
                for _ in 0..w.quota().unwrap() {
                    let carried = held.min(1308);
                    prop_assert!(carried > 0, "always something to send while the window has room");
                    held -= carried;
                    w.sent(carried as usize + 42);
                    flight.push_back(carried + 42);
                    packets += 1;
                    short += u64::from(carried < 1308);
                }
                w.end_turn(true, Instant::now(), Duration::ZERO);
                prop_assert!(held > 0, "never short of data");
                prop_assert!(held <= AHEAD as u64 * 1350 + 20 * 1308 + retx, "held {held}");
                prop_assert!(flight.iter().sum::<u64>() <= cwnd);
            }
            prop_assert_eq!(short, 0, "of {} packets", packets);
        }
    }
}
