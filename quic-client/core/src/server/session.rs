// SPDX-License-Identifier: Apache-2.0
//! The server's side of one connection: any number of requests.

use crate::connection::{Conn, Zeros, write_payload};
use crate::request::{
    Alpn, HQ_NOT_FOUND, MAX_LINE_BYTES, Method, REJECTED, Request, RequestError, Resource, SERVER_NAME,
};
use crate::request::{parse_hq_line, parse_request};
use crate::server::bursts::Bursts;
use crate::server::receive_memory::cost_bytes;
use quiche::h3::NameValue;
use quiche::hooks;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

/// Length limit of the reason in an error answer.
const MOST_ANSWER_CHARS: usize = 500;

/// Addresses of a client that are remembered: more than it can have paths.
const MOST_ADDRESSES: usize = 64;

/// One connection of a server.
pub struct Session {
    /// Its transport.
    pub conn: Conn,
    /// Ordinal in this process.
    pub id: u64,
    /// Label given by the last request that named one.
    pub flow: Option<u64>,
    /// Payload: handed to the stack for downloads, taken in for uploads.
    pub bytes: u64,
    /// Payload taken in, also such as nobody asked for.
    pub read_bytes: u64,
    // Ordered, because the order of writing decides the order of packets.
    tasks: BTreeMap<u64, Work>,
    /// When an application has more to send.
    next_burst: Option<Instant>,
    /// Addresses, ours and the client's, that packets came over; the latest last.
    heard: Vec<(SocketAddr, SocketAddr)>,
    /// The stream of the next request.
    next_request: u64,
    /// Requests from this stream on are rejected: the server ends.
    last_request: Option<u64>,
    /// GOAWAY is still to be sent.
    owes_goaway: bool,
}

/// Change of the connection IDs that packets for this connection carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CidChange {
    /// From now on packets may carry this one too.
    Issued(quiche::ConnectionId<'static>),
    /// No packet will carry this one any more.
    Retired(quiche::ConnectionId<'static>),
}

/// A request being served.
struct Work {
    /// HTTP/3: the response's headers, until they fit: quiche writes them whole or not at all.
    head: Option<Vec<quiche::h3::Header>>,
    task: Task,
}

/// Room that a packet takes in a congestion window (RFC 9000 14).
const PACKET_BYTES: u64 = 1200;

enum Task {
    /// hq-interop: the request line is still arriving.
    Line(Vec<u8>),
    /// This much is left to be sent; `None`: without end.
    Download(Option<u64>),
    /// So much more now and then.
    Bursts(Bursts),
    /// This much arrived.
    Upload(u64),
    /// The last bytes of an answer, then the end of the stream.
    Answer(Vec<u8>),
}

impl Session {
    /// A session over a connection just accepted.
    pub fn new(conn: Conn, id: u64) -> Self {
        Session {
            conn,
            id,
            flow: None,
            bytes: 0,
            read_bytes: 0,
            tasks: BTreeMap::new(),
            next_burst: None,
            heard: Vec::new(),
            next_request: 0,
            last_request: None,
            owes_goaway: false,
        }
    }

    /// Takes in one datagram. Where a client comes from ever new addresses, behind a NAT that changes its port, the path that
    /// was silent for longest makes room for the new one.
    pub fn recv(&mut self, bytes: &mut [u8], tos: u8, info: quiche::RecvInfo) {
        let at = (info.to, info.from);
        if self.heard.last() != Some(&at) {
            let quic = &mut self.conn.quic;
            if !hooks::takes_path(quic, at.0, at.1) {
                let _ = self.heard.iter().find(|(local, peer)| hooks::release_path(quic, *local, *peer));
            }
            self.heard.retain(|known| *known != at);
            if self.heard.len() == MOST_ADDRESSES {
                self.heard.remove(0);
            }
            self.heard.push(at);
        }
        self.conn.recv(bytes, tos, info);
    }

    /// Handles all that is due after packets arrived or a timer fired. `scratch` is a buffer to read into.
    pub fn advance(&mut self, now: Instant, scratch: &mut [u8]) {
        if self.conn.quic.is_closed() || self.conn.quic.is_draining() {
            return;
        }
        let result = match self.conn.establish(now) {
            Ok(None) => Ok(()),
            Ok(Some(Alpn::H3)) => self.step_h3(now, scratch),
            Ok(Some(Alpn::Hq)) => self.step_hq(now, scratch).map_err(Into::into),
            Err(e) => Err(e),
        };
        // quiche has closed the connection for most errors; `close` then changes nothing.
        if let Err(e) = result {
            self.conn.close(0x102, &format!("request failed: {e}"));
        }
        // A client that acknowledges nothing costs no wake-ups either: packets from it bring the next check.
        let quic = &self.conn.quic;
        let window = quic.path_stats().find(|path| path.active).map_or(0, |path| path.cwnd as u64);
        let full = hooks::in_flight_bytes(quic) + PACKET_BYTES > window;
        let bursts = self.tasks.values_mut().filter(|_| !full).filter_map(|work| match &mut work.task {
            // Bytes that are due and could not be written wait for the client, and so do later ones.
            Task::Bursts(bursts) => (bursts.due_bytes(now) == 0).then(|| bursts.next(now)),
            _ => None,
        });
        self.next_burst = bursts.min();
    }

    /// Gives the client as many connection IDs as both sides allow, so that it can migrate, and new ones for those it
    /// retired. `make` makes one with its reset token; `changed` is given the IDs of packets for this connection.
    pub fn exchange_cids<E>(
        &mut self,
        mut make: impl FnMut() -> Result<(quiche::ConnectionId<'static>, u128), E>,
        mut changed: impl FnMut(CidChange),
    ) -> Result<(), E> {
        let quic = &mut self.conn.quic;
        // quiche itself validates the client's paths and follows the client. Its events about that are removed, or they
        // would pile up.
        while quic.path_event_next().is_some() {}
        while let Some(cid) = quic.retired_scid_next() {
            changed(CidChange::Retired(cid));
        }
        if !quic.is_established() || quic.is_draining() || quic.is_closed() {
            return Ok(());
        }
        for _ in 0..quic.scids_left() {
            let (cid, token) = make()?;
            // quiche has no reason to refuse it: the limits were checked just now, and our IDs are never empty.
            if quic.new_scid(&cid, token, false).is_err() {
                break;
            }
            changed(CidChange::Issued(cid));
        }
        Ok(())
    }

    /// When there is something to do even if nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        [self.conn.deadline(), self.next_burst].into_iter().flatten().min()
    }

    /// Memory of received data that is not read, or not read whole, in bytes.
    pub fn unread_memory_bytes(&self) -> u64 {
        let frames_bytes = self.conn.h3.as_ref().map_or(0, hooks::unread_frames_bytes);
        let lines =
            self.tasks.values().map(|work| if let Task::Line(line) = &work.task { line.len() as u64 } else { 0 });
        cost_bytes(hooks::unread(&self.conn.quic), frames_bytes + lines.sum::<u64>())
    }

    /// Closes the connection and drops unread data, and with it all requests.
    pub fn give_up(&mut self, code: u64, reason: &str) {
        self.conn.close(code, reason);
        self.conn.h3 = None;
        self.tasks.clear();
        hooks::drop_unread(&mut self.conn.quic);
    }

    /// Takes no more requests (GOAWAY, RFC 9114 5.2). Those under way go on.
    pub fn go_away(&mut self) {
        self.last_request.get_or_insert(self.next_request);
        self.owes_goaway = self.conn.h3.is_some();
    }

    /// Whether a transfer is going on.
    pub fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether a transfer that has an end is going on, or the client has not acknowledged all of it.
    pub fn has_to_finish(&self) -> bool {
        let ends = |task: &Task| !matches!(task, Task::Download(None) | Task::Bursts(_));
        self.conn.established.is_some()
            && (self.tasks.values().any(|work| ends(&work.task))
                || self.tasks.is_empty() && hooks::unacknowledged(&self.conn.quic).bytes > 0)
    }

    /// Whether the client may send a request: none is under way, and GOAWAY may not have reached it.
    pub fn may_be_asked(&self) -> bool {
        self.conn.h3.is_some() && self.tasks.is_empty()
    }

    fn begin(&mut self, method: Method, path: &str) -> Result<Task, RequestError> {
        let Request { resource, flow } = parse_request(method, path)?;
        self.flow = flow.or(self.flow);
        Ok(match resource {
            Resource::Bytes(n) => Task::Download(n),
            Resource::Bursts { bytes, every } => Task::Bursts(Bursts::new(bytes, every)),
            Resource::Upload => Task::Upload(0),
        })
    }

    fn step_h3(&mut self, now: Instant, scratch: &mut [u8]) -> Result<(), quiche::h3::Error> {
        let Some(mut h3) = self.conn.h3.take() else { return Ok(()) };
        let result = self.step_h3_with(&mut h3, now, scratch);
        self.conn.h3 = Some(h3);
        result
    }

    fn step_h3_with(
        &mut self,
        h3: &mut quiche::h3::Connection,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<(), quiche::h3::Error> {
        use quiche::h3::{Error, Event};
        loop {
            match h3.poll(&mut self.conn.quic) {
                Ok((id, Event::Headers { .. })) if self.last_request.is_some_and(|last| id >= last) => self.reject(id),
                Ok((id, Event::Headers { list, .. })) => self.h3_request(id, &list),
                Ok((id, Event::Data)) => loop {
                    match h3.recv_body(&mut self.conn.quic, id, scratch) {
                        Ok(n) => self.took_in(id, n),
                        Err(Error::Done) => break,
                        Err(e) => return Err(e),
                    }
                },
                Ok((id, Event::Finished)) => {
                    self.all_in(id);
                }
                Ok((id, Event::Reset(_))) => drop(self.tasks.remove(&id)),
                Ok(_) => {}
                Err(Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        if let Some(last) = self.last_request.filter(|_| self.owes_goaway) {
            // Blocked: the control stream is full.
            self.owes_goaway = h3.send_goaway(&mut self.conn.quic, last).is_err();
        }
        let (conn, bytes) = (&mut self.conn, &mut self.bytes);
        let mut failed = None;
        self.tasks.retain(|&id, work| {
            let written = write_head(h3, &mut conn.quic, id, &mut work.head).and_then(|()| {
                write_task(conn, id, &mut work.task, now, bytes, |quic, part, fin| h3.send_body(quic, id, part, fin))
            });
            match written {
                Ok(done) => !done,
                // Full for now: the peer's window, or that of congestion control.
                Err(Error::Done | Error::StreamBlocked) => true,
                Err(Error::TransportError(quiche::Error::StreamStopped(_))) => false,
                Err(e) => {
                    failed.get_or_insert(e);
                    false
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn reject(&mut self, id: u64) {
        let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Read, REJECTED);
        let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Write, REJECTED);
    }

    fn h3_request(&mut self, id: u64, list: &[quiche::h3::Header]) {
        use quiche::h3::Header;
        self.next_request = self.next_request.max(id + 4);
        let value = |name: &[u8]| {
            let header = list.iter().find(|h| h.name() == name)?;
            std::str::from_utf8(header.value()).ok()
        };
        // Trailers carry no method.
        let Some(method) = value(b":method") else { return };
        let path = value(b":path").unwrap_or("");
        let task = match Method::parse(method) {
            Some(method) => self.begin(method, path).map_err(|e| ("404", e.to_string())),
            None => Err(("405", format!("method '{method}' not served: expected GET or POST"))),
        };
        let (status, task, length) = match task {
            Ok(Task::Download(n)) => ("200", Task::Download(n), n),
            Ok(task) => ("200", task, None),
            // It may be long, and wait until the client takes it.
            Err((status, text)) => {
                (status, Task::Answer(text.chars().take(MOST_ANSWER_CHARS).collect::<String>().into_bytes()), None)
            }
        };
        let mut headers = vec![Header::new(b":status", status.as_bytes()), Header::new(b"server", SERVER_NAME)];
        if let Some(n) = length {
            headers.push(Header::new(b"content-length", n.to_string().as_bytes()));
        }
        self.tasks.insert(id, Work { head: Some(headers), task });
    }

    fn took_in(&mut self, id: u64, n: usize) {
        self.read_bytes += n as u64;
        if let Some(Work { task: Task::Upload(total), .. }) = self.tasks.get_mut(&id) {
            *total += n as u64;
            self.bytes += n as u64;
        }
    }

    /// The request is in whole: an upload gets its answer.
    fn all_in(&mut self, id: u64) {
        if let Some(Work { task, .. }) = self.tasks.get_mut(&id)
            && let Task::Upload(n) = task
        {
            *task = Task::Answer(format!("{n}\n").into_bytes());
        }
    }

    fn step_hq(&mut self, now: Instant, scratch: &mut [u8]) -> Result<(), quiche::Error> {
        use quiche::Error;
        while let Some(id) = self.conn.quic.stream_readable_next() {
            loop {
                match self.conn.quic.stream_recv(id, scratch) {
                    Ok((n, fin)) => self.hq_data(id, &scratch[..n], fin),
                    Err(Error::Done | Error::InvalidStreamState(_)) => break,
                    Err(Error::StreamReset(_)) => {
                        self.tasks.remove(&id);
                        break;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        let (conn, bytes) = (&mut self.conn, &mut self.bytes);
        let mut failed = None;
        self.tasks.retain(|&id, work| {
            match write_task(conn, id, &mut work.task, now, bytes, |quic, part, fin| quic.stream_send(id, part, fin)) {
                Ok(done) => !done,
                Err(Error::Done) => true,
                Err(Error::StreamStopped(_)) => false,
                Err(e) => {
                    failed.get_or_insert(e);
                    false
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn hq_data(&mut self, id: u64, data: &[u8], fin: bool) {
        let work = self.tasks.entry(id).or_insert_with(|| Work { head: None, task: Task::Line(Vec::new()) });
        match &mut work.task {
            Task::Line(_) if self.last_request.is_some() => {
                self.tasks.remove(&id);
                self.reject(id);
            }
            Task::Line(line) => {
                let before = line.len();
                line.extend_from_slice(&data[..data.len().min(MAX_LINE_BYTES - before)]);
                let parsed = match parse_hq_line(line) {
                    Ok(None) if fin => Err(RequestError::Line),
                    Ok(None) => return,
                    other => other,
                };
                let begun = parsed.and_then(|p| match p {
                    Some((method, path, body)) => self.begin(method, &path).map(|task| (task, body)),
                    None => Err(RequestError::Line),
                });
                match begun {
                    Ok((task, body)) => {
                        self.tasks.insert(id, Work { head: None, task });
                        // Bytes after the line in this piece are body.
                        let body = &data[(body - before).min(data.len())..];
                        self.hq_body(id, body, fin);
                    }
                    Err(_) => {
                        self.tasks.remove(&id);
                        let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Read, HQ_NOT_FOUND);
                        let _ = self.conn.quic.stream_shutdown(id, quiche::Shutdown::Write, HQ_NOT_FOUND);
                    }
                }
            }
            _ => self.hq_body(id, data, fin),
        }
    }

    fn hq_body(&mut self, id: u64, data: &[u8], fin: bool) {
        self.took_in(id, data.len());
        if fin {
            self.all_in(id);
        }
    }
}

// Writes a response's headers, once.
fn write_head(
    h3: &mut quiche::h3::Connection,
    quic: &mut quiche::Connection,
    id: u64,
    head: &mut Option<Vec<quiche::h3::Header>>,
) -> Result<(), quiche::h3::Error> {
    if let Some(headers) = head {
        h3.send_response(quic, id, headers, false)?;
        *head = None;
    }
    Ok(())
}

// Writes as much of a task as fits, `write` being HTTP/3's or the plain stream's function; true when all is written.
fn write_task<E: From<quiche::Error>>(
    conn: &mut Conn,
    id: u64,
    task: &mut Task,
    now: Instant,
    bytes: &mut u64,
    write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, E>,
) -> Result<bool, E> {
    match task {
        Task::Line(_) | Task::Upload(_) => Ok(false),
        Task::Download(left) => {
            let (n, done) = write_payload(conn, id, &mut Zeros { bytes: *left, then_end: true }, write)?;
            *bytes += n;
            if let Some(left) = left {
                *left -= n;
            }
            Ok(done)
        }
        Task::Bursts(bursts) => {
            let mut due = Zeros { bytes: Some(bursts.due_bytes(now)), then_end: false };
            let (n, _) = write_payload(conn, id, &mut due, write)?;
            *bytes += n;
            bursts.sent(n);
            Ok(false)
        }
        Task::Answer(text) => {
            let mut write = write;
            let n = write(&mut conn.quic, text, true)?;
            text.drain(..n);
            Ok(text.is_empty())
        }
    }
}
