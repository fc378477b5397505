// SPDX-License-Identifier: Apache-2.0
//! [`Bulk`]: a measured transfer: a download to a [`Body`], or an upload of zeros that the server counts.

use super::body::Body;
use super::exchange::{Answer, Exchange, Verdict};
use super::outcome::Outcome;
use super::redirect;
use crate::connection::{Payload, Zeros};
use crate::request::{Alpn, SERVER_NAME, promised_bytes};
use quiche::h3::NameValue;
use std::rc::Rc;

// An answer to an upload is one decimal number; more than this is not an answer.
const MAX_ANSWER_BYTES: usize = 64;

/// Kind of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The answer goes to a [`Body`]. GET, or another method.
    Download,
    /// POST with a body of this many zeros, which the server counts; `None`: until stopped.
    Upload(Option<u64>),
}

/// Transfer of a task.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Its kind.
    pub action: Action,
    /// `host:port`, for messages.
    pub authority: String,
    /// Path of the request.
    pub path: String,
    /// Body of a download's request.
    pub data: Option<Rc<[u8]>>,
    /// The request can be sent twice.
    pub repeats: bool,
    /// A redirect must keep the method: the request has a body, or does more than read.
    pub keeps_method: bool,
    /// The method is HEAD: the answer has no body.
    pub is_head: bool,
    /// Redirects within the origin that are followed.
    pub redirects: u32,
    /// Payload that a download may have at most.
    pub max_bytes: Option<u64>,
    /// Payload of a download that the path promises.
    pub bytes: Option<u64>,
}

/// The exchange of a transfer.
pub struct Bulk {
    transfer: Transfer,
    body: Box<dyn Body>,
    /// Zeros to be sent.
    zeros: Zeros,
    /// Redirects are followed.
    follows: bool,
    sent_bytes: u64,
    is_sent: bool,
    taken_bytes: u64,
    expected: Option<u64>,
    /// The server counts an upload's bytes in its answer: ours, or any over hq-interop, which has no status.
    counts: bool,
    answer: Vec<u8>,
}

impl Bulk {
    /// Of a transfer that begins. `body` takes its answer.
    pub fn new(transfer: Transfer, body: Box<dyn Body>) -> Bulk {
        let bytes = if let Action::Upload(bytes) = transfer.action { bytes } else { Some(0) };
        Bulk {
            body,
            zeros: Zeros { bytes, then_end: true },
            follows: transfer.redirects > 0 && transfer.action == Action::Download,
            sent_bytes: 0,
            is_sent: false,
            taken_bytes: 0,
            expected: transfer.bytes,
            counts: false,
            answer: Vec::new(),
            transfer,
        }
    }

    fn asked(&self) -> String {
        format!("{}{}", self.transfer.authority, self.transfer.path)
    }

    fn redirect(&mut self, answer: &Answer<'_>) -> Verdict {
        let ended = |why: String| Verdict::End(Outcome::NotServed(why));
        match redirect::target(&self.transfer.authority, &self.transfer.path, answer) {
            Ok(_) if self.transfer.redirects == 0 => ended(format!("{}: too many redirects", self.asked())),
            Ok(path) => {
                self.transfer.redirects -= 1;
                self.transfer.path.clone_from(&path);
                self.expected = promised_bytes(&path);
                Verdict::Redirect(path)
            }
            Err(why) => ended(format!("{}: status {}: {why}", self.asked(), answer.status)),
        }
    }
}

impl Payload for Bulk {
    fn part(&mut self) -> (&[u8], bool) {
        match &self.transfer.data {
            Some(data) => (data.get(self.sent_bytes as usize..).unwrap_or_default(), true),
            None => self.zeros.part(),
        }
    }

    fn sent(&mut self, bytes: usize, end: bool) {
        self.sent_bytes += bytes as u64;
        self.is_sent |= end;
        if self.transfer.data.is_none() {
            self.zeros.sent(bytes, end);
        }
    }
}

impl Exchange for Bulk {
    fn begun(&mut self, alpn: Alpn) {
        self.counts = alpn.is_plain();
        if self.transfer.action == Action::Download {
            self.sent_bytes = 0;
        }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Verdict {
        let status = answer.status;
        if self.follows && redirect::is_followed(status, self.transfer.keeps_method) {
            return self.redirect(answer);
        }
        // RFC 9110 15.3: all of them are successes.
        if !(200..300).contains(&status) {
            return Verdict::End(Outcome::NotServed(format!("{}: status {status}", self.asked())));
        }
        if status == 200 {
            self.counts = answer.headers.iter().any(|h| h.name() == b"server" && h.value() == SERVER_NAME);
        } else {
            // Not the resource of the path: nothing, a part, or another form of it.
            self.expected = None;
        }
        if self.transfer.action == Action::Download {
            if let Some(n) = answer.content_length.filter(|_| !self.transfer.is_head) {
                self.expected = Some(n);
                if let Some(max) = self.transfer.max_bytes.filter(|max| n > *max) {
                    let asked = self.asked();
                    let text = format!("{asked}: the answer has {n} bytes, more than the {max} that it may have");
                    return Verdict::End(Outcome::TooLarge(text));
                }
            }
            if let Err(outcome) = self.body.head(answer) {
                return Verdict::End(outcome);
            }
        }
        Verdict::Take
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        if self.transfer.action != Action::Download {
            let room = MAX_ANSWER_BYTES - self.answer.len();
            self.answer.extend_from_slice(&part[..part.len().min(room)]);
            return Ok(());
        }
        let bytes = self.taken_bytes + part.len() as u64;
        if let Some(max) = self.transfer.max_bytes.filter(|max| bytes > *max) {
            return Err(Outcome::TooLarge(format!("the answer has more than the {max} bytes that it may have")));
        }
        self.taken_bytes = bytes;
        self.body.take(part)
    }

    fn finish(&mut self) -> Outcome {
        if self.transfer.action == Action::Download {
            return match self.expected {
                Some(n) if n != self.taken_bytes => {
                    Outcome::Incomplete(format!("got {} of {n} bytes", self.taken_bytes))
                }
                _ => self.body.finish().err().unwrap_or(Outcome::Complete),
            };
        }
        if !self.counts {
            return Outcome::Complete;
        }
        let sent = self.sent_bytes;
        let counted = std::str::from_utf8(&self.answer).ok().and_then(|t| t.trim_end().parse::<u64>().ok());
        match counted {
            Some(n) if n == sent && self.is_sent => Outcome::Complete,
            Some(n) => Outcome::Incomplete(format!("sent {sent} bytes, the server counted {n}")),
            None => Outcome::Incomplete("the server's answer is not a byte count".to_owned()),
        }
    }

    fn can_restart(&self) -> bool {
        self.transfer.action == Action::Download && self.transfer.repeats
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        self.taken_bytes = 0;
        self.expected = if self.transfer.is_head { None } else { promised_bytes(&self.transfer.path) };
        self.body.restart()
    }
}
