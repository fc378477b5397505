// SPDX-License-Identifier: Apache-2.0
//! Throughput advice of elements of the network, in SCONE packets (draft-ietf-scone-protocol-08): the packet, its rates,
//! and the advice in effect. Pure.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The signal that an endpoint sends: no advice.
pub const UNKNOWN: u8 = 127;
/// Advice applies for so long, and the lowest in that time counts ("Monitoring Period").
pub const PERIOD: Duration = Duration::from_secs(67);
/// Last bytes of a client's datagrams until it has heard the server ("Indicating Support on New Flows").
pub const INDICATION: [u8; 2] = [0xc8, 0x13];

// Either version without its most significant bit, which is the least significant bit of the signal.
const VERSION: [u8; 4] = [0x6f, 0x7d, 0xc0, 0xfd];
const STEPS_A_DECADE: f64 = 20.0;

/// Use of SCONE by an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SconeUse {
    /// None.
    #[default]
    Off,
    /// Packets are sent and received, and advice is reported.
    Report,
    /// A client also keeps its downloads to the advice, by flow control.
    Follow,
}

impl SconeUse {
    const NAMES: [(SconeUse, &'static str); 3] =
        [(SconeUse::Off, "off"), (SconeUse::Report, "report"), (SconeUse::Follow, "follow")];
}

impl fmt::Display for SconeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SconeUse::NAMES.iter().find(|(used, _)| used == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for SconeUse {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let found = SconeUse::NAMES.iter().find(|(_, name)| *name == s);
        found.map(|(used, _)| *used).ok_or_else(|| format!("'{s}': expected off, report or follow"))
    }
}

/// Rate of a signal (0 to 126), 100 kbit/s * 10^(signal / 20), rounded down. The factor is rounded first, to ten digits, as in the golden model.
pub fn rate_bit_s(signal: u8) -> u64 {
    let (decade, step) = (u32::from(signal / 20), f64::from(signal % 20));
    let mantissa = (10f64.powf(step / STEPS_A_DECADE) * 1e9).round() as u64;
    mantissa * 10u64.pow(decade) / 10_000
}

/// A SCONE packet at the start of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Its signal.
    pub signal: u8,
    /// Its length; another packet is behind it.
    pub len: usize,
}

/// Whether a datagram begins as a SCONE packet does, whole or not.
pub fn begins(datagram: &[u8]) -> bool {
    matches!(datagram, [first, a, b, c, d, ..] if first & 0x80 != 0 && [a & 0x7f, *b, *c, *d] == VERSION)
}

/// The SCONE packet at the start of a datagram; none if it is cut short or nothing is behind it.
pub fn read(datagram: &[u8]) -> Option<Packet> {
    if !begins(datagram) {
        return None;
    }
    let source_at = 6 + usize::from(*datagram.get(5)?);
    let len = source_at + 1 + usize::from(*datagram.get(source_at)?);
    let signal = (datagram[0] & 0x3f) << 1 | datagram[1] >> 7;
    (len < datagram.len()).then_some(Packet { signal, len })
}

/// Whether the packet behind a SCONE packet has the same connection IDs ("SCONE Packet"). A short header has no source
/// connection ID: the SCONE packet's should be empty, but picoquic puts the sender's there.
pub fn is_consistent(datagram: &[u8], packet: Packet) -> bool {
    let (scone, behind) = datagram.split_at(packet.len);
    let ids = &scone[5..];
    if behind[0] & 0x80 != 0 {
        return behind.get(5..5 + ids.len()).is_some_and(|other| other == ids);
    }
    // A short header has no length of its connection ID either.
    let length = usize::from(ids[0]);
    behind.get(1..1 + length).is_some_and(|other| *other == ids[1..1 + length])
}

/// Length of a SCONE packet before a packet with a short header and this connection ID.
pub fn len_before_short(dcid: &[u8]) -> usize {
    7 + dcid.len()
}

/// Writes it, without advice. `room` has that length.
pub fn write_before_short(room: &mut [u8], dcid: &[u8]) {
    let signal = UNKNOWN;
    room[0] = 0xc0 | signal >> 1;
    room[1..5].copy_from_slice(&VERSION);
    room[1] |= signal << 7;
    room[5] = dcid.len() as u8;
    room[6..6 + dcid.len()].copy_from_slice(dcid);
    room[6 + dcid.len()] = 0;
}

/// Advice received for one path: the lowest of the last [`PERIOD`] counts.
#[derive(Debug, Default)]
pub struct Advice {
    // Signals that may still become the lowest, rising from the first on; at most one of each value.
    lowest: VecDeque<(Instant, u8)>,
}

impl Advice {
    /// A signal came in. [`UNKNOWN`] is none.
    pub fn received(&mut self, signal: u8, now: Instant) {
        if signal >= UNKNOWN {
            return;
        }
        while self.lowest.back().is_some_and(|(_, last)| *last >= signal) {
            self.lowest.pop_back();
        }
        self.lowest.push_back((now, signal));
    }

    /// The advice in effect.
    pub fn current(&mut self, now: Instant) -> Option<u8> {
        while self.lowest.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= PERIOD) {
            self.lowest.pop_front();
        }
        self.lowest.front().map(|(_, signal)| *signal)
    }

    /// The path is another one: its advice is not known.
    pub fn forget(&mut self) {
        self.lowest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn vectors_of_the_golden_model() {
        let text = include_str!("../../../tests/vectors/scone/advice.jsonl");
        let mut seen = (0, 0);
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let number = |key: &str| line[key].as_u64().expect("a number");
            match line["op"].as_str() {
                Some("rate") => {
                    assert_eq!(rate_bit_s(number("in_signal") as u8), number("rate_bit_s"));
                    seen.0 += 1;
                }
                Some("packet") => {
                    let hex = line["in_payload"].as_str().expect("hexadecimal digits");
                    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
                    let payload: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
                    let found = read(&payload);
                    assert_eq!(found.map_or(0, |p| p.len as u64), number("bytes"), "{line}");
                    assert_eq!(found.map(|p| u64::from(p.signal)), line["signal"].as_u64());
                    seen.1 += 1;
                }
                _ => {}
            }
        }
        assert!(seen.0 == 127 && seen.1 > 20, "{seen:?}");
    }

    #[test]
    fn what_is_written_is_read() {
        for dcid in [&[][..], &[7; 8], &[9; 20]] {
            let len = len_before_short(dcid);
            let mut datagram = vec![0; len];
            write_before_short(&mut datagram, dcid);
            assert_eq!(read(&datagram), None, "nothing is behind it");
            datagram.push(0x40);
            datagram.extend_from_slice(dcid);
            let packet = read(&datagram).expect("whole");
            assert_eq!(packet, Packet { signal: UNKNOWN, len });
            assert!(is_consistent(&datagram, packet));
            if let Some(byte) = datagram.get_mut(len + 1) {
                *byte ^= 1;
                assert!(!is_consistent(&datagram, packet));
            }
        }
    }

    #[test]
    fn the_source_counts_before_a_long_header_alone() {
        let head = [0xff, 0xef, 0x7d, 0xc0, 0xfd, 2, 7, 8, 1, 9];
        let consistent = |behind: &[u8]| {
            let datagram = [&head[..], behind].concat();
            is_consistent(&datagram, read(&datagram).expect("whole"))
        };
        assert!(consistent(&[0x40, 7, 8, 0]));
        assert!(!consistent(&[0x40, 7, 9, 0]));
        assert!(consistent(&[0xc0, 0, 0, 0, 1, 2, 7, 8, 1, 9]));
        assert!(!consistent(&[0xc0, 0, 0, 0, 1, 2, 7, 8, 0]));
        assert!(!consistent(&[0xc0, 0, 0, 0, 1, 2, 7, 8, 1, 6]));
    }

    #[test]
    fn the_lowest_of_a_period_counts_and_expires() {
        let (mut advice, start) = (Advice::default(), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        assert_eq!(advice.current(start), None);
        advice.received(UNKNOWN, start);
        assert_eq!(advice.current(start), None);
        advice.received(40, at(0));
        advice.received(38, at(1));
        advice.received(60, at(20));
        assert_eq!(advice.current(at(67)), Some(38));
        assert_eq!(advice.current(at(68)), Some(60));
        assert_eq!(advice.current(at(87)), None);
        advice.received(5, at(90));
        advice.forget();
        assert_eq!(advice.current(at(90)), None);
    }

    proptest! {
        #[test]
        fn any_datagram(datagram in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(packet) = read(&datagram) {
                prop_assert!(packet.len < datagram.len());
                is_consistent(&datagram, packet);
            }
        }

        #[test]
        fn any_datagram_that_begins_so(
            first in 0x80u8..,
            high in any::<bool>(),
            rest in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut datagram = vec![first, 0x6f | u8::from(high) << 7, 0x7d, 0xc0, 0xfd];
            datagram.extend_from_slice(&rest);
            prop_assert!(begins(&datagram));
            if let Some(packet) = read(&datagram) {
                prop_assert!(packet.len < datagram.len() && packet.signal <= UNKNOWN);
                is_consistent(&datagram, packet);
            }
        }

        #[test]
        fn advice_keeps_little(signals in proptest::collection::vec((any::<u8>(), 0u64..5000), 0..1000)) {
            let (mut advice, mut now) = (Advice::default(), Instant::now());
            for (signal, ms) in signals {
                now += Duration::from_millis(ms);
                advice.received(signal, now);
                prop_assert!(advice.lowest.len() <= usize::from(UNKNOWN));
            }
        }
    }
}
