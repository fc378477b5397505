// SPDX-License-Identifier: Apache-2.0
//! The programs of p4/ by the scripts in p4/tests, and pid_delay.p4 and edge.p4 by frames nobody would send.
use crate::common::tables::{DATA_COPIES, ENTRIES_DISPLACED, OTHER, UP, forward_names, name_frame};
use crate::common::{add, cells, counted, program, repository};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::path::PathBuf;
use weir_p4::stf::{Outcome, run};
use weir_p4::v1model::{Notes, Switch};

fn run_scripts(name: &str, folder: &str) {
    let program = program(name);
    let list = std::fs::read_dir(repository().join(folder)).expect("the scripts are there");
    let mut files: Vec<PathBuf> = list.map(|e| e.expect("a readable entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "stf"));
    assert!(!files.is_empty(), "no scripts");
    files.sort();
    for f in files {
        let script = std::fs::read_to_string(&f).expect("a script can be read");
        assert_eq!(run(program.clone(), &script), Outcome::Passed, "{name}, {}", f.display());
    }
}

#[test]
fn scripts() {
    run_scripts("pid_delay.p4", "p4/tests");
    run_scripts("pid_delay.p4", "p4/tests/flow_bands");
    run_scripts("pid_delay_l4s.p4", "p4/tests/l4s");
    run_scripts("pid_delay_scone.p4", "p4/tests/scone");
    run_scripts("icn.p4", "p4/tests/icn");
    run_scripts("icn.p4", "p4/tests/icn/alone");
}

#[test]
fn at_the_edge_names_and_ip_are_forwarded_as_in_their_own_programs() {
    run_scripts("edge.p4", "p4/tests/icn");
    run_scripts("edge.p4", "p4/tests");
    run_scripts("edge.p4", "p4/tests/flow_bands");
}

#[test]
fn without_coupling_the_program_with_two_bands_does_the_same() {
    run_scripts("pid_delay_l4s.p4", "p4/tests");
}

#[test]
fn without_advice_the_program_with_advice_does_the_same() {
    run_scripts("pid_delay_scone.p4", "p4/tests");
    run_scripts("pid_delay_scone.p4", "p4/tests/flow_bands");
}

#[test]
fn the_short_name_is_the_same_program() {
    assert_eq!(program("../pid_delay.p4").info, program("pid_delay.p4").info);
}

/// Every IPv4 and IPv6 packet has a route, every second frame of the rest a port; the AQM drops or marks one in two.
fn open_switch(name: &str) -> Switch {
    let mut switch = Switch::new(program(name), 3);
    add(&mut switch, "ipv4_lpm", 0, "set_next_hop", &[("next_hop", 1)]);
    add(&mut switch, "ipv6_lpm", 0, "set_next_hop", &[("next_hop", 2)]);
    add(&mut switch, "next_hop", 1, "forward", &[("port", 1), ("dst_mac", 2), ("src_mac", 3)]);
    let tagged = [("port", 2), ("dst_mac", 2), ("src_mac", 3), ("vid", 100)];
    add(&mut switch, "next_hop", 2, "forward_tagged", &tagged);
    add(&mut switch, "l2_forward", 0x0200_0000_0002, "to_port", &[("port", 3)]);
    let half = [("u_q32", 1 << 31), ("squared", 0), ("ecn_bound_q32", 1 << 32), ("digest_interval_us", 1000)];
    add(&mut switch, "aqm", 1, "fixed_probability", &half);
    add(&mut switch, "aqm", 2, "fixed_probability", &half);
    switch
}

/// Frames that get past the first checks, and then have bytes changed, or an end too early.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ethernet = prop_oneof![Just("020000000002"), Just("ffffffffffff"), Just("0200000000fe")];
    let tag = prop_oneof![Just(""), Just("81000064"), Just("8100a007")];
    let ip = prop_oneof![
        Just("0800 45000020000700004011 65c4 0a0000010a010101 00010002000c0000 77656972"),
        Just("0800 46010024000700000211 a1be 0a0000010a010101 94040000 00010002000c0000 77656972"),
        Just(
            "86dd 60012345000c1140 fd000000000000000000000000000001 fd000001000000000000000000000002 0001000200110000"
        ),
        Just(
            "86dd 6000000000083aff fe800000000000000000000000000001 fd000001000000000000000000000002 8700000000000000"
        ),
        Just("0806 0001080006040001 020000000001 0a000001 000000000000 0a000002"),
        Just("88b5 00112233"),
    ];
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (ethernet, tag, ip, changes, any::<prop::sample::Index>(), 0..4u8).prop_map(
        |(dst, tag, ip, changes, cut, whole)| {
            let text = format!("{dst}020000000001{tag}{ip}").replace(' ', "");
            let mut bytes: Vec<u8> = text
                .as_bytes()
                .chunks(2)
                .map(|c| u8::from_str_radix(&String::from_utf8_lossy(c), 16).expect("hex"))
                .collect();
            changes.iter().for_each(|(at, to)| bytes[at.index(text.len() / 2)] = *to);
            if whole == 0 {
                bytes.truncate(cut.index(text.len() / 2 + 1));
            }
            bytes
        },
    )
}

/// The sum over an IPv4 header is all ones if its checksum is right.
fn ipv4_sum(header: &[u8]) -> u32 {
    let words: u32 = header.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    (words & 0xffff) + (words >> 16)
}

#[test]
fn each_frame_is_forwarded_or_counted() {
    let mut switch = open_switch("pid_delay.p4");
    let counters = ["dropped", "aqm_drops", "forwarded"];
    let (mut forwarded, mut dropped) = (0, 0);
    let strategy = frame();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for k in 0..20_000u64 {
        let bytes = strategy.new_tree(&mut runner).expect("a frame").current();
        let before = counters.map(|c| counted(&switch, c));
        let mut notes = Notes::default();
        let sent = switch.process(&bytes, 0, 1_000_000 + 100 * k, &mut notes);
        assert!(notes.faults.is_empty(), "{bytes:02x?}: {:?}", notes.faults);
        let after = counters.map(|c| counted(&switch, c));
        assert_eq!(after.iter().sum::<u64>(), before.iter().sum::<u64>() + 1, "{bytes:02x?} is counted once");
        assert_eq!(after[2] - before[2], sent.len() as u64, "{bytes:02x?} is counted as forwarded if it was");
        forwarded += sent.len();
        dropped += 1 - sent.len();
        let Some(out) = sent.first() else { continue };
        let out = &out.packet[..];
        match sent[0].port {
            1 => {
                let at = if out[12..14] == [0x81, 0] { 18 } else { 14 };
                let len = usize::from(out[at] & 15) * 4;
                assert_eq!(ipv4_sum(&out[at..at + len]), 0xffff, "checksum of {out:02x?}");
                assert_eq!(out.len(), bytes.len());
                assert_eq!(out[at + 8] + 1, bytes[at + 8], "TTL of {out:02x?}");
            }
            2 => assert_eq!(out[12..14], [0x81, 0], "{out:02x?} is tagged"),
            3 => assert_eq!(out, bytes, "passed on as it came"),
            port => panic!("{out:02x?} left by port {port}"),
        }
    }
    assert!(forwarded > 2000 && dropped > 2000, "{forwarded} forwarded, {dropped} dropped: the frames try both");
}

/// Result of a frame at edge.p4: growth of each cell of `names`, and the law's drops.
struct Became {
    names: Vec<u64>,
    aqm_drops: u64,
    sent: u64,
}

/// Each segment that a packet of names is about is counted once, and each packet that comes of it leaves or is dropped by
/// the law.
fn check_name(bytes: &[u8], became: &Became) {
    let (n, out) = (&became.names, became.sent + became.aqm_drops);
    let judged: u64 = (0..n.len()).filter(|&i| i != DATA_COPIES && i != ENTRIES_DISPLACED).map(|i| n[i]).sum();
    let refused_whole = n[9] + n[10] + n[13] > 0;
    let holes = if refused_whole { 0 } else { u16::from_be_bytes([bytes[38], bytes[39]]).count_ones() };
    assert_eq!(judged, 1 + u64::from(holes), "{bytes:02x?}: {n:?}");
    if n[5] == 1 {
        assert!(out >= 1, "{bytes:02x?}: the Nack goes to who asked");
    } else {
        let made = n[0] + n[2] + n[DATA_COPIES] + n[6] + n[7] + n[8];
        assert_eq!(out, made, "{bytes:02x?}: {n:?}");
        assert_eq!(n[3] == 1, n[DATA_COPIES] > 0, "{bytes:02x?}: Data goes to who asked");
    }
}

#[test]
fn each_frame_is_forwarded_or_counted_where_names_are_too() {
    let mut switch = open_switch("edge.p4");
    forward_names(&mut switch, 100);
    let half = [("u_q32", 1 << 31), ("squared", 0), ("ecn_bound_q32", 1 << 32), ("digest_interval_us", 1000)];
    for port in [0, 9, u64::from(UP)] {
        add(&mut switch, "aqm", port, "fixed_probability", &half);
    }
    let name = proptest::collection::vec(any::<u8>(), 1..24).prop_map(|bytes| name_frame(&bytes));
    let strategy = (prop_oneof![1 => frame(), 4 => name], prop_oneof![Just(UP), Just(OTHER), 0..36u32], 0..20_000u64);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut now_us, mut most_copies, mut ip) = (1_000_000, 0, 0);
    for _ in 0..40_000 {
        let (bytes, port, wait_us) = strategy.new_tree(&mut runner).expect("a frame").current();
        now_us += wait_us;
        let counters = ["dropped", "aqm_drops", "forwarded"];
        let (before, names) = (counters.map(|c| counted(&switch, c)), cells(&switch, "names"));
        let mut notes = Notes::default();
        let sent = switch.process(&bytes, port, now_us, &mut notes).len() as u64;
        assert!(notes.faults.is_empty(), "{bytes:02x?}: {:?}", notes.faults);
        let after = counters.map(|c| counted(&switch, c));
        let grown: Vec<u64> = cells(&switch, "names").iter().zip(&names).map(|(now, then)| now - then).collect();
        let [dropped, aqm_drops, forwarded] = [0, 1, 2].map(|i| after[i] - before[i]);
        assert_eq!(forwarded, sent, "{bytes:02x?} is counted as forwarded if it was");
        if bytes.len() >= 14 && bytes[12..14] == [0x88, 0xb5] {
            assert_eq!(dropped, 0, "{bytes:02x?}");
            most_copies = most_copies.max(grown[DATA_COPIES]);
            check_name(&bytes, &Became { names: grown, aqm_drops, sent });
        } else {
            assert_eq!(dropped + aqm_drops + forwarded, 1, "{bytes:02x?} is counted once");
            assert_eq!(grown.iter().sum::<u64>(), 0, "{bytes:02x?} is no name");
            ip += 1;
        }
    }
    let names = cells(&switch, "names");
    assert!(names.iter().all(|&count| count >= 20), "the frames try all that becomes of names: {names:?}");
    assert!(most_copies > 8, "Data for more ports than one group has: {most_copies}");
    assert!(ip > 2000, "{ip} frames are no names");
}
