// SPDX-License-Identifier: Apache-2.0
//! Path choice of a whole session, in virtual time with real quiche at both ends: downloads that leave a path that is
//! clearly worse, and servers that answer elsewhere than they are asked.

use crate::world::{Link, MS, World};
use std::time::Duration;
use weir_core::client::Action;
use weir_core::report::events::Event;

fn link(delay_ms: u64, mbit_s: f64) -> Link {
    Link { delay_ms, mbit_s: Some(mbit_s) }
}

const SLOW: Link = Link { delay_ms: 10, mbit_s: Some(1.83) };
const FAST: Link = Link { delay_ms: 20, mbit_s: Some(25.0) };

#[test]
fn a_download_leaves_a_path_that_carries_little() {
    for links in [vec![SLOW, FAST], vec![SLOW, SLOW, link(12, 3.0), FAST]] {
        let best = links.len() - 1;
        let seen = World { links, bytes: 5_000_000, ..World::default() }.run();
        assert!(seen.share(best) > 0.7, "{} in {:?}: {:?}", seen.share(best), seen.took, seen.moves());
        // 21.9 s on the first path alone, 1.7 s on the best one.
        assert!(seen.took < Duration::from_secs(6), "{:?}: {:?}", seen.took, seen.moves());
    }
}

#[test]
fn so_does_an_upload() {
    for (links, size) in [(vec![SLOW, FAST], true), (vec![SLOW, link(12, 3.0), FAST], true), (vec![SLOW, FAST], false)]
    {
        // Without a size it goes on until the session is ended: it is taken to go on for as long as it has.
        let (best, bytes) = (links.len() - 1, size.then_some(5_000_000));
        let stop_at = (!size).then_some(Duration::from_secs(10));
        let seen = World { links, action: Action::Upload(bytes), stop_at, ..World::default() }.run();
        assert!(seen.share(best) > 0.7, "{} in {:?}: {:?}", seen.share(best), seen.took, seen.moves());
        assert!(!size || seen.took < Duration::from_secs(6), "{:?}: {:?}", seen.took, seen.moves());
    }
}

#[test]
fn an_upload_loses_little_where_paths_are_equal() {
    let action = Action::Upload(Some(10_000_000));
    let world = |n| World { links: vec![link(20, 10.0); n], action, ..World::default() };
    let (alone, four) = (world(1).run().took, world(4).run());
    assert!(four.took < alone.mul_f64(1.1), "{alone:?} alone, {:?} with four: {:?}", four.took, four.moves());
}

#[test]
fn so_do_downloads_beside_each_other() {
    let links = vec![SLOW, FAST];
    let seen = World { links, bytes: 1_000_000, tasks: 12, parallel: 4, ..World::default() }.run();
    assert!(seen.share(1) > 0.7, "{}: {:?}", seen.share(1), seen.moves());
}

#[test]
fn what_a_download_found_out_the_next_one_knows() {
    let links = vec![SLOW, FAST];
    let seen = World { links, bytes: 3_000_000, tasks: 6, ..World::default() }.run();
    let choices = seen.choices();
    assert!(choices[1..].iter().all(|(path, _)| *path == "wan1"), "{choices:?} {:?}", seen.moves());
}

#[test]
fn no_more_than_a_little_is_lost_where_paths_are_equal() {
    for (delay_ms, mbit_s, bytes) in [(10, 20.0, 5_000_000), (20, 10.0, 10_000_000), (5, 50.0, 2_000_000)] {
        let world = |n| World { links: vec![link(delay_ms, mbit_s); n], bytes, ..World::default() };
        let (alone, four) = (world(1).run().took, world(4).run());
        eprintln!("{delay_ms} ms, {mbit_s} Mbit/s: {alone:?} alone, {:?} with four: {:?}", four.took, four.moves());
        assert!(four.took < alone.mul_f64(1.1), "{alone:?} alone, {:?} with four: {:?}", four.took, four.moves());
    }
}

#[test]
fn the_first_byte_is_asked_for_on_the_nearest_path() {
    let links = vec![link(40, 50.0), link(20, 50.0), link(5, 50.0), link(60, 50.0)];
    let seen = World { links, bytes: 1_000_000, ..World::default() }.run();
    assert_eq!(seen.choices()[0].0, "wan2", "{:?}", seen.choices());
    // Small downloads do not wait for that.
    let links = vec![link(40, 50.0), link(5, 50.0)];
    let seen = World { links, bytes: 5000, ..World::default() }.run();
    assert!(seen.took <= 180 * MS, "{:?}", seen.took);
}

#[test]
fn other_strategies_stay_as_they_are() {
    let seen = World { links: vec![SLOW, FAST], bytes: 2_000_000, strategy: "ops", ..World::default() }.run();
    assert!(seen.moves().is_empty() && seen.happened("switched").is_empty(), "{:?}", seen.events);
}

// quiche as it is: a packet that a move leaves in flight and that is lost there is never sent again.
#[test]
fn a_server_that_sends_nothing_again_is_no_reason_to_begin_anew() {
    let links = vec![link(10, 4.0), link(20, 25.0)];
    let seen = World { links, bytes: 5_000_000, resend: false, ..World::default() }.run();
    let again = seen.events.iter().filter(|e| matches!(e, Event::Retry { .. })).count();
    assert!(again <= 1, "{:?}", seen.moves());
}

fn staying(on: usize, tasks: u64) -> World {
    World {
        links: [10, 15, 30].map(|delay_ms| Link { delay_ms, mbit_s: None }).to_vec(),
        tasks,
        interval: 100 * MS,
        start_at: Some(1000 * MS),
        stays: Some((on, 500 * MS)),
        ..World::default()
    }
}

#[test]
fn a_server_that_stays_on_a_path_is_followed_and_stayed_with() {
    for (on, strategy) in [(0, "weir"), (1, "weir"), (2, "weir"), (2, "polling")] {
        let polls = strategy == "polling";
        let seen = World { strategy, ..staying(on, 80) }.run();
        let name = format!("wan{on}");
        // Living paths are not held for dead, whichever carries the answers.
        assert_eq!(seen.happened("lost"), [""; 0], "{:?}", seen.events);
        assert!(seen.share(on) > 0.95, "{}", seen.share(on));
        let (_, tally) = seen.paths.iter().find(|(path, _)| *path == name).unwrap();
        assert!(tally.done >= 75, "{} of 80 are credited to {name}", tally.done);
        let most = if polls { 10 } else { 6 };
        assert!(seen.happened("switched").len() <= most, "{:?}", seen.happened("switched"));
        if on > 0 {
            let followed = |e: &&Event| matches!(e, Event::Elsewhere { on, .. } if *on == name);
            assert!(seen.events.iter().any(|e| followed(&e)), "{:?}", seen.events);
            let held = seen.choices().iter().filter(|c| **c == (name.as_str(), "server-stays")).count();
            assert!(held > 60, "{:?}", seen.choices());
            assert!(seen.answered_elsewhere.1 && seen.answered_elsewhere.0 >= 3, "{:?}", seen.answered_elsewhere);
        } else {
            assert_eq!(seen.answered_elsewhere, (0, false), "{:?}", seen.events);
        }
    }
}

#[test]
fn so_is_one_that_stays_in_the_midst_of_a_download() {
    let links = vec![link(10, 20.0), link(15, 20.0)];
    let stays = Some((1, 800 * MS));
    let seen = World { links, bytes: 5_000_000, stays, strategy: "ops", ..World::default() }.run();
    assert_eq!(seen.happened("lost"), [""; 0], "{:?}", seen.events);
    assert!(seen.events.iter().any(|e| matches!(e, Event::Elsewhere { .. })), "{:?}", seen.events);
}
