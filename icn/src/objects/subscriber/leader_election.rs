// SPDX-License-Identifier: Apache-2.0
//! Leader election among subscribers that hear each other's Interests: one asks for the segments that are new to all,
//! and the others hold theirs back for a bounded time. Each asks itself for those that it lost, whoever leads.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// A subscriber that was heard no longer ago than this may take the lead.
const NEAR: Duration = Duration::from_secs(1);

/// Whether another leads, and how long it is waited for.
#[derive(Debug)]
pub struct LeaderElection {
    random: fastrand::Rng,
    /// Another leads: nothing new is asked for here until then.
    until: Option<Instant>,
    heard: Option<Instant>,
    /// When one of two equals was chosen last.
    tied: Option<Instant>,
}

impl LeaderElection {
    /// Nobody was heard yet. `seed`: of the random numbers, another one at each subscriber.
    pub fn new(seed: u64) -> LeaderElection {
        LeaderElection { random: fastrand::Rng::with_seed(seed), until: None, heard: None, tied: None }
    }

    /// Until when new segments are not asked for here, since another asks for them.
    pub fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Another asked for what is new here, or for what was just asked for here. `lifetime`: how the lifetime of its
    /// Interest compares with that of one from here. The shorter one leads: it is answered sooner, and both can see it.
    /// One that follows waits one to two response times (`response`) for the next Interest, as long as it takes chance
    /// to part those who follow (SRM; Floyd et al., 1997).
    pub fn heard(&mut self, lifetime: Ordering, response: Duration, now: Instant) {
        self.heard = Some(now);
        let follows = self.waits_until(now).is_some()
            || match lifetime {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => self.lose_tie(response, now),
            };
        if follows {
            self.wait(1.0, response, now);
        }
    }

    /// Losses have closed the window here: another may hear better, if there is one.
    pub fn resign(&mut self, response: Duration, now: Instant) {
        let others = self.heard.is_some_and(|at| now.saturating_duration_since(at) < NEAR);
        if others && self.waits_until(now).is_none() {
            // Those who follow are sooner.
            self.wait(2.0, response, now);
        }
    }

    /// Between equals chance decides, once in a response time: several Interests of one are on their way.
    fn lose_tie(&mut self, response: Duration, now: Instant) -> bool {
        if self.tied.is_some_and(|at| now.saturating_duration_since(at) < response) {
            return false;
        }
        self.tied = Some(now);
        self.random.bool()
    }

    fn wait(&mut self, least: f64, response: Duration, now: Instant) {
        self.until = Some(now + response.mul_f64(least + self.random.f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: Duration = Duration::from_millis(40);

    #[test]
    fn the_one_who_is_answered_sooner_leads_and_the_other_waits_for_a_bounded_time() {
        let now = Instant::now();
        let (mut leads, mut follows) = (LeaderElection::new(1), LeaderElection::new(2));
        leads.heard(Ordering::Greater, RESPONSE, now);
        follows.heard(Ordering::Less, RESPONSE, now);
        assert_eq!(leads.waits_until(now), None);
        let until = follows.waits_until(now).unwrap();
        assert!(until >= now + RESPONSE && until < now + 2 * RESPONSE);
        // As long as it is heard it is waited for, whatever its lifetime is now; then no longer.
        let later = now + RESPONSE / 2;
        follows.heard(Ordering::Greater, RESPONSE, later);
        let until = follows.waits_until(later).unwrap();
        assert!(until >= later + RESPONSE && until < later + 2 * RESPONSE);
        assert_eq!(follows.waits_until(until), None);
    }

    #[test]
    fn of_equals_some_go_on_and_some_do_not() {
        let now = Instant::now();
        let follows = |seed| {
            let mut election = LeaderElection::new(seed);
            election.heard(Ordering::Equal, RESPONSE, now);
            // Interests on their way from the same one decide nothing more.
            let after_one = election.waits_until(now).is_some();
            election.heard(Ordering::Equal, RESPONSE, now + RESPONSE / 2);
            election.waits_until(now + RESPONSE / 2).is_some() == after_one && after_one
        };
        let count = (0..100).filter(|seed| follows(*seed)).count();
        assert!((20..80).contains(&count), "{count} of 100");
    }

    #[test]
    fn who_loses_much_gives_the_lead_up_if_there_is_another() {
        let now = Instant::now();
        let mut election = LeaderElection::new(1);
        election.resign(RESPONSE, now);
        assert_eq!(election.waits_until(now), None);
        election.heard(Ordering::Greater, RESPONSE, now);
        election.resign(RESPONSE, now + RESPONSE);
        let until = election.waits_until(now + RESPONSE).unwrap();
        assert!(until >= now + 3 * RESPONSE && until < now + 4 * RESPONSE);
        election.resign(RESPONSE, now + 2 * NEAR);
        assert_eq!(election.waits_until(now + 2 * NEAR), None);
    }
}
