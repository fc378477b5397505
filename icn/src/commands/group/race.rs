// SPDX-License-Identifier: Apache-2.0
//! Connections to several servers, or addresses of one, of which the first that answers goes on: at the start, where the first
//! address may not answer (RFC 8305); and when the host has moved, while the connection says from the new address that it is
//! there: other servers may be nearer now, or the only ones that can be reached.

use super::link::Link;
use crate::objects::object::lines::{Answer, LineError};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
use weir_io::fault::Fault;

/// One is begun so long after the other: the least that RFC 8305 5 recommends.
const NEXT_AFTER: Duration = Duration::from_millis(100);

/// A server, by its place among those that are known, and the connection to it.
struct Runner {
    at: usize,
    link: Link,
}

/// Connection that answered first.
pub struct Winner {
    /// The server's place among those that are known.
    pub at: usize,
    /// The connection.
    pub link: Link,
    /// Answers on it, each with its request.
    pub said: Vec<(u64, Result<Answer, LineError>)>,
}

/// The connections that are begun, and those that will be.
pub struct Race {
    waiting: VecDeque<usize>,
    next: Instant,
    running: Vec<Runner>,
}

impl Race {
    /// Of these servers, the first from this time on.
    pub fn new(servers: impl Iterator<Item = usize>, from: Instant) -> Race {
        Race { waiting: servers.collect(), next: from, running: Vec::new() }
    }

    /// The server at which one is to be begun now.
    pub fn due(&mut self, now: Instant) -> Option<usize> {
        if now < self.next {
            return None;
        }
        self.next = now + NEXT_AFTER;
        self.waiting.pop_front()
    }

    /// One was begun; its descriptor, for waiting.
    pub fn add(&mut self, at: usize, link: Link) -> RawFd {
        let fd = link.fd();
        self.running.push(Runner { at, link });
        fd
    }

    /// All that are begun.
    pub fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        self.running.iter_mut().map(|runner| &mut runner.link)
    }

    /// When it next has something to do although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let next = (!self.waiting.is_empty()).then_some(self.next);
        self.running.iter().filter_map(|runner| runner.link.deadline()).chain(next).min()
    }

    /// Takes in what arrived and sends what waits. The first that has an answer, or, where nothing was `asked`, the first that is
    /// up. One that refuses what is asked for is out.
    ///
    /// # Errors
    /// A socket fails.
    pub fn turn(&mut self, asked: bool, now: Instant) -> Result<Option<Winner>, Fault> {
        let mut i = 0;
        while let Some(Runner { link, .. }) = self.running.get_mut(i) {
            let mut said = Vec::new();
            link.turn(now, &mut |id, answer| said.push((id, answer)))?;
            let answers = said.iter().any(|(_, answer)| answer.as_ref().is_ok_and(|a| !matches!(a, Answer::Error(_))));
            if link.is_up() && (answers || !asked) {
                let Runner { at, link } = self.running.swap_remove(i);
                return Ok(Some(Winner { at, link, said }));
            }
            if said.is_empty() && !link.quic().is_closed() && !link.quic().is_draining() {
                i += 1;
            } else {
                self.running.remove(i);
            }
        }
        Ok(None)
    }

    /// The first that was begun and is not out: the connection that was is dead.
    pub fn first(self) -> Option<(usize, Link)> {
        self.running.into_iter().next().map(|runner| (runner.at, runner.link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_begun_after_the_other() {
        let now = Instant::now();
        let mut race = Race::new([2, 0].into_iter(), now);
        assert_eq!((race.deadline(), race.due(now), race.due(now)), (Some(now), Some(2), None));
        let then = now + NEXT_AFTER;
        assert_eq!((race.deadline(), race.due(then), race.deadline()), (Some(then), Some(0), None));
        assert!(race.due(then + NEXT_AFTER).is_none() && race.first().is_none());
    }
}
