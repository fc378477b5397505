// SPDX-License-Identifier: Apache-2.0
//! Sessions whose client has not answered yet: anyone can open them under any name.

use super::super::{Config, SESSIONS, SESSIONS_A_CLIENT, Server, UNPROVEN_SESSIONS};
use super::forged_opening;
use super::switch::{MS, Side::Client as C, Side::Server as S, name};
use super::world::{Event, GOOD, Out, World};
use crate::packet::{Header, Kind, MAX_PAYLOAD_BYTES};
use std::time::{Duration, Instant};

fn header(packet: &[u8]) -> Header {
    Header::read(packet).unwrap().0
}

/// Bytes of an Ethernet frame with this payload by name.
fn frame_bytes(payload: &[u8]) -> usize {
    60.max(14 + 32 + payload.len())
}

fn server() -> (Server, Out, Instant) {
    (Server::new(name("/weir/web"), Config::default()).unwrap(), Out::default(), Instant::now())
}

/// Segments that the server asks for until this time, if nothing comes.
fn asked_until(server: &mut Server, end: Instant, mut now: Instant) -> usize {
    let (mut out, mut segments) = (Out::default(), 0);
    loop {
        server.turn(now, &mut out);
        let headers = out.packets.drain(..).map(|packet| header(&packet));
        segments += headers.filter(|h| h.kind == Kind::Interest).map(|h| h.segments().count()).sum::<usize>();
        match server.deadline() {
            Some(at) if at <= end => now = at.max(now),
            _ => return segments,
        }
        server.timeout(now, &mut out);
    }
}

#[test]
fn a_name_that_has_not_answered_is_sent_three_times_what_came() {
    for datagram in [0, 1200] {
        let (mut server, mut out, mut now) = server();
        let (header, mut payload) = forged_opening(7, "/weir/hosts/victim");
        payload.resize(payload.len() + datagram, 9);
        let (mut came, mut asked) = (0, 0);
        for _ in 0..5 {
            server.packet(&header, &payload, now, &mut out);
            came += frame_bytes(&payload);
            let end = now + Duration::from_secs(10);
            asked += asked_until(&mut server, end, now);
            // A switch makes a frame of each segment.
            assert!(asked > 0 && 60 * asked <= 3 * came, "{asked} segments for {came} bytes");
            now = end;
        }
        assert!(60 * (asked + 1) > 3 * came || datagram > 0, "what came later counts: {asked} segments");
        asked_until(&mut server, now + Duration::from_secs(120), now);
        assert_eq!(server.sessions().count(), 0, "it ends");
    }
}

/// As many sessions as there are places, under few names that all lead to the one who opened them.
fn held_by_a_stranger(server: &mut Server, now: Instant) {
    let mut out = Out::default();
    for session in 1..=SESSIONS as u64 + 38 {
        let client = format!("/evil/c{}", session / 400);
        let (header, payload) = forged_opening(session, &client);
        server.packet(&header, &payload, now, &mut out);
        let asked = name(&format!("{client}/{session:016x}"));
        server.packet(&Header::data(&asked, 0, 0), b"\x40hello", now, &mut out);
        server.turn(now, &mut out);
        let answer = Header::data(&asked, 0, 0);
        server.packet(&answer, b"\x40hello", now, &mut out);
    }
    assert!(server.sessions().filter(|s| s.unproven_since().is_none()).count() >= SESSIONS - 1);
}

#[test]
fn who_holds_all_places_loses_them_to_another_prefix() {
    let mut world = World::new(Config::default(), GOOD, 4);
    held_by_a_stranger(&mut world.server, world.now);
    let flight = [world.send(MS, C, 1, 1200), world.send(100 * MS, S, 1, 1200), world.send(200 * MS, C, 1, 1200)];
    world.run(400 * MS);
    assert!(flight.iter().all(|id| world.given.contains_key(id)), "{:?}", world.counts(S));
    assert!(world.server.sessions().count() <= SESSIONS);
    // And keeps them while the stranger opens more.
    let (now, mut out) = (world.now, Out::default());
    for session in 5001..=8000 {
        let (header, payload) = forged_opening(session, &format!("/evil/c{session}"));
        world.server.packet(&header, &payload, now, &mut out);
    }
    let later = world.send(MS, S, 1, 1200);
    world.run(500 * MS);
    assert!(world.given.contains_key(&later) && world.counts(C).sessions_opened == 1);
}

#[test]
fn openings_take_a_part_of_the_places_from_clients_that_answered() {
    let (mut server, mut out, now) = server();
    held_by_a_stranger(&mut server, now);
    for session in 5001..=8000 {
        let (header, payload) = forged_opening(session, &format!("/weir/hosts/none{session}"));
        server.packet(&header, &payload, now, &mut out);
    }
    let unproven = server.sessions().filter(|s| s.unproven_since().is_some()).count();
    assert_eq!((unproven, server.sessions().count()), (UNPROVEN_SESSIONS + 1, SESSIONS));
}

#[test]
fn an_idle_session_gives_way_where_all_places_are_taken() {
    let (mut server, mut out, now) = server();
    held_by_a_stranger(&mut server, now);
    let opens = |server: &mut Server, session, at| {
        let mut out = Out::default();
        let (header, payload) = forged_opening(session, "/evil/c9");
        server.packet(&header, &payload, at, &mut out);
        server.sessions().any(|s| s.id == session)
    };
    server.turn(now, &mut out);
    assert!(opens(&mut server, 9001, now + Duration::from_secs(6)));
    assert_eq!(server.sessions().count(), SESSIONS);
}

#[test]
fn openings_in_anothers_name_do_not_keep_it_out() {
    let mut world = World::new(Config::default(), GOOD, 4);
    let (now, mut out) = (world.now, Out::default());
    for session in 1..=2 * SESSIONS_A_CLIENT as u64 {
        let (header, payload) = forged_opening(session, "/weir/hosts/phone");
        world.server.packet(&header, &payload, now, &mut out);
    }
    let flight = [world.send(MS, C, 1, 1200), world.send(100 * MS, S, 1, 1200)];
    world.run(400 * MS);
    assert!(flight.iter().all(|id| world.given.contains_key(id)), "{:?}", world.counts(S));
}

/// A client that only listens shows that it is there too.
#[test]
fn a_client_answers_before_its_application_does() {
    let mut world = World::new(Config::default(), GOOD, 4);
    world.send(Duration::ZERO, C, 1, 1);
    world.run(30 * MS);
    assert!(world.server.sessions().all(|s| s.unproven_since().is_none()));
    assert_eq!((world.counts(C).bare_sent, world.counts(S).bare_sent), (1, 0));
    let large = world.send(MS, S, 1, 20 * MAX_PAYLOAD_BYTES);
    world.run(200 * MS);
    assert!(world.given.contains_key(&large));
}

/// One way is away for a while: the client's packets arrive, and nothing of the server does. They give it more to send.
#[test]
fn a_session_comes_up_over_a_link_that_loses_its_first_packets() {
    for (reliable, away_ms, bytes) in [(false, 500, 1200), (false, 5000, 60), (true, 5000, 1200), (false, 20_000, 1200)]
    {
        let mut world = World::new(Config { reliable, ..Config::default() }, GOOD, 4);
        world.lost_from_server = true;
        let away = Duration::from_millis(away_ms);
        for i in 0..away_ms / 500 {
            world.send(i as u32 * 500 * MS, C, 1, bytes);
        }
        world.run(away);
        world.lost_from_server = false;
        let later: Vec<_> = (0..20).map(|i| world.send(2500 * MS + i * 10 * MS, C, 1, bytes)).collect();
        let answers: Vec<_> = (0..20).map(|i| world.send(2500 * MS + i * 10 * MS, S, 1, 1200)).collect();
        world.run(away + Duration::from_secs(6));
        let came = |id: &&u64| !world.given.contains_key(id);
        assert_eq!(later.iter().filter(came).count(), 0, "{reliable} {away_ms} {:?}", world.counts(S));
        assert_eq!(answers.iter().filter(came).count(), 0, "{reliable} {away_ms} {:?}", world.counts(C));
        assert_eq!(world.counts(S).sessions_opened, 1);
    }
}

/// Data that answers nothing shows nothing.
#[test]
fn data_that_was_not_asked_for_proves_nothing() {
    let mut world = World::new(Config::default(), GOOD, 4);
    let (header, payload) = forged_opening(7, "/weir/hosts/phone");
    world.push(world.now, Event::AtHost(S, [&header.bytes(payload.len())[..], &payload].concat()));
    let asked = name("/weir/hosts/phone/0000000000000007");
    let data = Header::data(&asked, 3000, 0);
    world.push(world.now + MS, Event::AtHost(S, [&data.bytes(1)[..], b"x"].concat()));
    world.run(10 * MS);
    assert_eq!(world.server.sessions().filter(|s| s.unproven_since().is_some()).count(), 1);
}
