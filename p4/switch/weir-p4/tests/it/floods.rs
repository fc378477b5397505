// SPDX-License-Identifier: Apache-2.0
//! Interests without end from some ports, while another port asks for existing data (docs/design/icn.md, "Quota"): how
//! many of the other's are answered. Virtual time; an Interest that is refused, or whose entry was removed when its
//! Data comes, is not asked again.
use crate::common::program;
use crate::common::tables::{DATA, ENTRIES_DISPLACED, INTEREST, NAMES, Name, UP, cells, forward_names};
use std::collections::VecDeque;
use weir_p4::v1model::{Notes, Switch};

const OTHER_PORT: u32 = 30;
const PORT_QUOTA: u64 = 2048;
const PIT_CELLS: usize = 16_384;
/// 400 of the other's Interests are out at a time, as many as 100 Mbit/s and 50 ms need.
const RTT_US: u64 = 400 * EVERY_US;
/// Beta (8) response times.
const LIFETIME: u16 = (8 * RTT_US / 256) as u16;
const ASKS: u32 = 4000;
/// 20 s in all: longer than two epochs of quotas.
const EVERY_US: u64 = 5000;
const FORWARDED: usize = 0;
const FULL: usize = 7;
const QUOTA: usize = 8;

struct Flood {
    ports: Vec<u32>,
    /// Each packet asks for so many segments.
    holes: u16,
    /// Packets for each Interest of the other.
    packets: u32,
    lifetime: u16,
}

struct Seen {
    answered: u32,
    /// The most cells of the table that were taken at any time.
    held_most: usize,
    names: Vec<u64>,
}

/// Cells that are taken; those of dead entries too, until another takes their place.
fn held(switch: &Switch) -> usize {
    let r = switch.program.registers.iter().position(|r| r.name.ends_with("pit_segment_ports")).expect("it is there");
    let asked = |i| switch.state.register_get(r, i).is_some_and(|v| v.low() & 0xffff_ffff != 0);
    (0..PIT_CELLS).filter(|&i| asked(i)).count()
}

/// Data that is asked for and due; returns its amount at the other port.
fn answer(switch: &mut Switch, due: &mut VecDeque<(u64, u32)>, now_us: u64, notes: &mut Notes) -> u32 {
    let mut answered = 0;
    while let Some(&(at_us, segment)) = due.front().filter(|(at_us, _)| *at_us <= now_us) {
        due.pop_front();
        let sent = switch.process(&Name::new(DATA, segment).frame(b"weir"), UP, at_us, notes);
        answered += u32::from(sent.iter().any(|s| s.port == OTHER_PORT));
    }
    answered
}

fn run(flood: &Flood) -> Seen {
    let mut switch = Switch::new(program("icn.p4"), 1);
    forward_names(&mut switch, PORT_QUOTA);
    let mut notes = Notes::default();
    let mut due: VecDeque<(u64, u32)> = VecDeque::new();
    let mut next_segment = vec![0; flood.ports.len()];
    let (mut answered, mut held_most, mut turn) = (0, 0, 0);
    for k in 0..ASKS {
        let mut now_us = 1_000_000 + EVERY_US * u64::from(k);
        answered += answer(&mut switch, &mut due, now_us, &mut notes);
        let asks = Name { lifetime: LIFETIME, ..Name::new(INTEREST, k) };
        let sent = switch.process(&asks.frame(&[]), OTHER_PORT, now_us, &mut notes);
        if sent.iter().any(|s| s.port == UP) {
            due.push_back((now_us + RTT_US, k));
        }
        for _ in 0..flood.packets {
            now_us += EVERY_US / u64::from(flood.packets + 1);
            let from = turn % flood.ports.len();
            turn += 1;
            let name = NAMES[1] + 1000 * u64::from(flood.ports[from]);
            let asks =
                Name { name, holes: flood.holes, lifetime: flood.lifetime, ..Name::new(INTEREST, next_segment[from]) };
            next_segment[from] += 1 + u32::from(flood.holes != 0) * 16;
            switch.process(&asks.frame(&[]), flood.ports[from], now_us, &mut notes);
        }
        if k % 250 == 0 {
            held_most = held_most.max(held(&switch));
        }
    }
    answered += answer(&mut switch, &mut due, u64::MAX, &mut notes);
    assert!(notes.faults.is_empty(), "{:?}", notes.faults);
    Seen { answered, held_most, names: cells(&switch, "names") }
}

fn keeps_its_goodput(flood: &Flood) -> Seen {
    let seen = run(flood);
    println!("{} of {ASKS} answered, {} entries, {:?}", seen.answered, seen.held_most, seen.names);
    assert!(seen.answered * 100 >= ASKS * 95, "{} of {ASKS} answered: {:?}", seen.answered, seen.names);
    // All that a port asked is forgotten once in 20 s, also entries that died long before.
    let (went_on, quotas) = (seen.names[FORWARDED] - u64::from(ASKS), PORT_QUOTA * flood.ports.len() as u64);
    assert!((quotas..=2 * quotas).contains(&went_on), "{went_on} of the flood went on");
    seen
}

/// Ports that ask for nothing that there is, and for nothing that needs an answer.
fn eight() -> Vec<u32> {
    (8..16).collect()
}

#[test]
#[ignore = "long tier"]
fn of_one_port_at_its_quota() {
    let flood = Flood { ports: vec![8], holes: 0, packets: 12, lifetime: 0xffff };
    let seen = keeps_its_goodput(&flood);
    assert!(seen.names[QUOTA] > 10_000, "it asked for more: {:?}", seen.names);
}

#[test]
#[ignore = "long tier"]
fn of_eight_ports_that_fill_the_table() {
    let seen = keeps_its_goodput(&Flood { ports: eight(), holes: 0, packets: 20, lifetime: 0xffff });
    // By chance some sets stay half empty.
    assert!(seen.held_most * 100 > PIT_CELLS * 80, "{} entries are not a full table", seen.held_most);
    assert!(seen.names[ENTRIES_DISPLACED] > 1000, "nothing gave way: {:?}", seen.names);
    assert!(seen.names[FULL] > 1000, "there was no room: {:?}", seen.names);
}

#[test]
#[ignore = "long tier"]
fn with_holes() {
    for ports in [vec![8], eight()] {
        let seen = keeps_its_goodput(&Flood { ports, holes: 0xffff, packets: 3, lifetime: 0xffff });
        assert!(seen.names[QUOTA] + seen.names[FULL] > 10_000, "{:?}", seen.names);
    }
}

/// Entries that die at once leave room, and stay in the count.
#[test]
#[ignore = "long tier"]
fn with_the_shortest_lifetime() {
    for ports in [vec![8], eight()] {
        keeps_its_goodput(&Flood { ports, holes: 0, packets: 20, lifetime: 1 });
    }
}
