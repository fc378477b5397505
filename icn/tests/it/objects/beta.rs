// SPDX-License-Identifier: Apache-2.0
//! Purpose of beta: answers that take several times as long as usual, though nothing is lost. Huang et al., Fig. 3.

use super::world::{Member, Setup, World, bytes};
use std::time::Duration;
use weir_icn::objects::subscriber::Outcome;

const FILE_BYTES: usize = 16_000_000;
const SEGMENTS: f64 = FILE_BYTES as f64 / 1440.0;

/// Retransmissions of two receivers with the timer alone, in percent of the file, and their time in seconds. A link of
/// 20 Mbit/s and 10 ms each way stands still for `stall` at 1 s, and again each 5 s.
fn with_timer_alone(beta: f64, stall: Duration, loss: f64) -> (f64, f64) {
    let content = bytes(FILE_BYTES, 1);
    let stalls = (!stall.is_zero()).then_some((Duration::from_secs(1), stall, Duration::from_secs(5)));
    let setup = Setup { beta, gaps: false, stalls, ..Setup::default() };
    let mut world = World::file(&content, setup, vec![Member { loss, ..Member::default() }; 2]);
    world.run(Duration::from_secs(300));
    let again = world.subscribers.iter().map(|s| s.fetch.as_ref().unwrap().counts.asked_again).sum::<u64>();
    assert!(world.outcomes().iter().all(|o| *o == Some(Outcome::Complete)), "{:#?}", world.counts());
    (again as f64 * 50.0 / SEGMENTS, world.times().into_iter().fold(0.0, f64::max))
}

#[test]
fn where_answers_stand_still_a_larger_beta_asks_for_a_quarter_or_less_again() {
    let stall = Duration::from_millis(250);
    for loss in [0.0, 0.001] {
        let found = [2.0, 4.0, 6.0, 8.0, 12.0, 20.0].map(|beta| (beta, with_timer_alone(beta, stall, loss)));
        for (beta, (percent, seconds)) in found {
            println!("loss {loss}, beta {beta}: asked again {percent:.2} %, {seconds:.2} s");
        }
        let at = |beta: f64| found.iter().find(|(b, _)| *b == beta).unwrap().1.0;
        // Lost segments are asked for again in any case.
        assert!(at(20.0) - 100.0 * loss < 0.25 * (at(4.0) - 100.0 * loss), "{found:?}");
    }
}

#[test]
fn where_answers_take_no_more_than_twice_their_time_beta_changes_nothing() {
    for loss in [0.0, 0.01] {
        for beta in [2.0, 4.0, 20.0] {
            let (percent, seconds) = with_timer_alone(beta, Duration::ZERO, loss);
            println!("loss {loss}, beta {beta}: asked again {percent:.2} %, {seconds:.2} s");
            // The lost ones and no more; of 11,111 segments, twice.
            assert!((percent - 100.0 * loss).abs() < 0.3, "loss {loss}, beta {beta}: {percent} %");
        }
    }
}
