// SPDX-License-Identifier: Apache-2.0
//! The clock of an event-loop iteration. One test in a process of its own, because it changes the time for all of it.

use std::time::{Duration, Instant, SystemTime};
use weir_io::clock::Clock;
use weir_io::wait::Waiter;

#[test]
fn time_stands_still_within_a_turn_and_only_there() {
    let before = Instant::now();
    let usual = Clock::PerCall.turn().unwrap();
    assert!(usual >= before);
    while Instant::now() == usual {}

    let turn = Clock::PerTurn.turn().unwrap();
    let wall = SystemTime::now();
    assert!(turn > usual);
    let mut waiter = Waiter::new().unwrap();
    let mut ready = Vec::new();
    waiter.wait(turn, Some(turn + Duration::from_millis(3)), &mut ready).unwrap();
    assert_eq!(Instant::now(), turn, "quiche and we see one time");
    assert!(SystemTime::now() >= wall + Duration::from_millis(3), "other clocks go on");

    let next = Clock::PerTurn.turn().unwrap();
    assert!(next >= turn + Duration::from_millis(3));
    assert_eq!(Instant::now(), next);
}
