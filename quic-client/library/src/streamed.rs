// SPDX-License-Identifier: Apache-2.0
//! [`Streamed`]: the exchange of a request whose bodies are in a [`Pipe`], and [`Queue`], the requests of a connection.

use crate::connection_state::{ConnectionState, Order};
use crate::error::Error;
use crate::pipe::{Pipe, State};
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use quiche::h3::{Header, NameValue};
use std::sync::Arc;
use std::time::Instant;
use weir_core::client::{Answer, Exchange, Outcome, Task, Tasks, Verdict, redirect};
use weir_core::connection::Payload;
use weir_core::request::Alpn;

/// The exchange of a request whose bodies are in a pipe.
pub struct Streamed {
    pipe: Arc<Pipe>,
    /// The part that is being sent.
    part: Bytes,
    authority: String,
    path: String,
    redirects: u32,
    /// A request without a body that can be sent again.
    repeats: bool,
    /// A redirect must keep the method: the request has a body, or does more than read.
    keeps_method: bool,
    /// HEAD: the answer has no content.
    is_head: bool,
    /// Announced length of the answer.
    expected: Option<u64>,
    taken: u64,
    /// hq-interop: there is no header section.
    is_bare: bool,
}

fn fields(list: &[Header]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(list.len());
    for header in list.iter().filter(|h| !h.name().starts_with(b":")) {
        let name = HeaderName::from_bytes(header.name()).ok()?;
        map.append(name, HeaderValue::from_bytes(header.value()).ok()?);
    }
    Some(map)
}

impl Streamed {
    fn new(order: &Order, authority: &str) -> Streamed {
        Streamed {
            pipe: Arc::clone(&order.pipe),
            part: Bytes::new(),
            authority: authority.to_owned(),
            path: order.head.path.clone(),
            redirects: order.redirects,
            repeats: order.head.is_idempotent() && !order.head.has_body,
            keeps_method: order.head.has_body || !order.head.is_safe(),
            is_head: order.head.method == "HEAD",
            expected: None,
            taken: 0,
            is_bare: false,
        }
    }

    fn head_of_bare(&mut self, state: &mut State) {
        if self.is_bare && !state.is_answered {
            state.is_answered = true;
            state.head = Some((StatusCode::OK, HeaderMap::new()));
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        // The driver was lost: a part of it that the program chose has panicked.
        if self.pipe.peek(|state| state.end.is_none()) {
            self.pipe.driver(|state| state.end = Some(Err(Error::lost())));
        }
    }
}

impl Payload for Streamed {
    fn part(&mut self) -> (&[u8], bool) {
        let part = &mut self.part;
        let end = self.pipe.peek(|state| {
            while part.is_empty()
                && let Some(next) = state.pop_up()
            {
                *part = next;
            }
            state.is_dry = part.is_empty();
            state.up_end && state.up.is_empty()
        });
        (&self.part, end)
    }

    fn sent(&mut self, bytes: usize, _: bool) {
        self.part.advance(bytes);
        if self.part.is_empty() {
            // A writer may go on.
            self.pipe.driver(|_| ());
        }
    }
}

impl Exchange for Streamed {
    fn begun(&mut self, alpn: Alpn) {
        self.is_bare = alpn.is_plain();
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Verdict {
        if self.redirects > 0 && redirect::is_followed(answer.status, self.keeps_method) && self.repeats {
            return match redirect::target(&self.authority, &self.path, answer) {
                Ok(path) => {
                    self.redirects -= 1;
                    self.path.clone_from(&path);
                    Verdict::Redirect(path)
                }
                Err(why) => {
                    let status = answer.status;
                    Verdict::End(Outcome::NotServed(format!("{}{}: status {status}: {why}", self.authority, self.path)))
                }
            };
        }
        let malformed = || Verdict::End(Outcome::Incomplete("malformed answer: its header fields".to_owned()));
        let (Ok(status), Some(map)) = (StatusCode::from_u16(answer.status), fields(answer.headers)) else {
            return malformed();
        };
        // RFC 9110 6.4.1: these have no content, whatever their length says.
        let is_empty = self.is_head || matches!(answer.status, 204 | 304);
        self.expected = answer.content_length.filter(|_| !is_empty);
        self.pipe.driver(|state| {
            state.is_answered = true;
            state.head = Some((status, map));
        });
        Verdict::Take
    }

    fn room(&mut self) -> usize {
        self.pipe.peek(|state| {
            let room = state.room();
            state.is_starved = room == 0;
            room
        })
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        self.taken += part.len() as u64;
        let pipe = Arc::clone(&self.pipe);
        pipe.driver(|state| {
            self.head_of_bare(state);
            state.push_down(part);
        });
        Ok(())
    }

    fn trailers(&mut self, list: &[Header]) {
        self.pipe.driver(|state| state.trailers = fields(list));
    }

    fn finish(&mut self) -> Outcome {
        if let Some(n) = self.expected.filter(|n| *n != self.taken) {
            return Outcome::Incomplete(format!("got {} of {n} bytes", self.taken));
        }
        let pipe = Arc::clone(&self.pipe);
        pipe.driver(|state| {
            self.head_of_bare(state);
            state.is_finished = true;
        });
        Outcome::Complete
    }

    fn can_restart(&self) -> bool {
        // An answer that the program has can't be taken back.
        self.repeats && self.pipe.peek(|state| !state.is_answered)
    }

    fn refused(&mut self) {
        self.pipe.driver(|state| state.up_refused = true);
    }

    fn is_cancelled(&self) -> bool {
        self.pipe.peek(|state| state.is_cancelled)
    }

    fn ended(&mut self, outcome: &Outcome) {
        let end = if *outcome == Outcome::Complete { Ok(()) } else { Err(Error::of(outcome)) };
        self.pipe.driver(|state| state.end = Some(end));
    }

    fn datagram(&mut self, payload: &[u8]) {
        self.pipe.driver(|state| state.push_datagram(payload));
    }

    fn next_datagram(&mut self) -> Option<Vec<u8>> {
        self.pipe.peek(|state| state.pop_datagram().map(|payload| payload.to_vec()))
    }
}

/// The requests of a connection that the program has made and that were not sent.
pub struct Queue {
    /// The connection's state, which has them.
    pub connection: Arc<ConnectionState>,
    /// Requests under way at once, at most.
    pub most_running: usize,
}

impl Tasks for Queue {
    fn next_due(&mut self, up: Instant, running: usize) -> Option<Instant> {
        self.connection.peek(|order| order.map(|_| up)).filter(|_| running < self.most_running)
    }

    fn take(&mut self) -> Option<Task> {
        let order = self.connection.pop()?;
        let exchange = Streamed::new(&order, self.connection.authority());
        Some(Task { head: order.head, exchange: Box::new(exchange) })
    }

    fn next_bytes(&self) -> Option<u64> {
        self.connection.peek(|order| order.and_then(|order| order.head.bytes))
    }

    fn is_next_early(&self) -> bool {
        self.connection.peek(|order| order.is_some_and(|order| order.head.is_early))
    }

    fn left(&self) -> Option<u64> {
        None
    }

    fn left_at_once(&self) -> u64 {
        0
    }
}
