// SPDX-License-Identifier: Apache-2.0
//! The server's side of one connection: any number of requests.

use crate::connection::{Conn, Payload, Zeros, write_payload};
use crate::request::{
    Alpn, HQ_NOT_FOUND, MAX_LINE_BYTES, Method, REJECTED, Request, RequestError, Resource, SERVER_NAME,
};
use crate::request::{parse_hq_line, parse_request};
use crate::server::bursts::Bursts;
use crate::server::file_request::{Selection, Validators};
use crate::server::head::Head;
use crate::server::receive_memory::cost_bytes;
use crate::server::resources::{Answer, AnswerBody, Content, Field, Resources};
use crate::server::tunnel_request::TunnelRequest;
use crate::server::tunnels::{TunnelCounts, Tunnels};
use quiche::hooks;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

/// Length limit of the reason in an error answer.
const MOST_ANSWER_CHARS: usize = 500;

/// RFC 9114 8.1: H3_INTERNAL_ERROR.
const INTERNAL_ERROR: u64 = 0x102;

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
    /// Files and tunnels.
    resources: Option<Box<dyn Resources>>,
    tunnels: Tunnels,
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
    /// A part of a file.
    Content(Content),
    /// The answer ends with its fields.
    Bodyless,
}

/// Result of writing.
enum Written {
    /// More is to be written.
    Part,
    All,
    /// The resource can't be read.
    Broken,
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
            resources: None,
            tunnels: Tunnels::default(),
        }
    }

    /// Offers files and tunnels. A tunnel without traffic is ended after `idle_limit`.
    pub fn offer(&mut self, resources: Box<dyn Resources>, idle_limit: Duration) {
        self.conn.takes_tunnels = resources.relays();
        self.tunnels.idle_limit = Some(idle_limit);
        self.resources = Some(resources);
    }

    /// Totals of the tunnels.
    pub fn tunnel_counts(&self) -> TunnelCounts {
        self.tunnels.counts
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
        let before = self.tunnels.counts;
        // Also without a tunnel: unread ones would take memory.
        if self.conn.takes_tunnels {
            self.tunnels.read_datagrams(&mut self.conn.quic, scratch, now);
        }
        let result = match self.conn.establish(now) {
            Ok(None) => Ok(()),
            Ok(Some(Alpn::H3)) => self.step_h3(now, scratch),
            Ok(Some(Alpn::Hq | Alpn::Perf)) => self.step_hq(now, scratch).map_err(Into::into),
            Err(e) => Err(e),
        };
        let after = self.tunnels.counts;
        self.bytes += after.to_client_bytes - before.to_client_bytes;
        self.read_bytes += after.to_target_bytes - before.to_target_bytes;
        // quiche has closed the connection for most errors; `close` then changes nothing.
        if let Err(e) = result {
            self.conn.close(INTERNAL_ERROR, &format!("request failed: {e}"));
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
        [self.conn.deadline(), self.next_burst, self.tunnels.deadline()].into_iter().flatten().min()
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
        self.tunnels.clear();
        hooks::drop_unread(&mut self.conn.quic);
    }

    /// Takes no more requests (GOAWAY, RFC 9114 5.2). Those under way go on.
    pub fn go_away(&mut self) {
        self.last_request.get_or_insert(self.next_request);
        self.owes_goaway = self.conn.h3.is_some();
    }

    /// Whether a transfer is going on.
    pub fn is_busy(&self) -> bool {
        !self.tasks.is_empty() || !self.tunnels.is_empty()
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
                Ok((id, Event::Headers { list, .. })) => self.h3_request(id, &list, now),
                Ok((id, Event::Data)) if self.tunnels.contains(id) => self.tunnels.readable(id),
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
                Ok((id, Event::Reset(_))) => {
                    self.tasks.remove(&id);
                    self.tunnels.reset(&mut self.conn.quic, id);
                }
                Ok(_) => {}
                Err(Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        if let Some(last) = self.last_request.filter(|_| self.owes_goaway) {
            // Blocked: the control stream is full.
            self.owes_goaway = h3.send_goaway(&mut self.conn.quic, last).is_err();
        }
        self.turn_tunnels(h3, now, scratch)?;
        let (conn, bytes) = (&mut self.conn, &mut self.bytes);
        let mut failed = None;
        self.tasks.retain(|&id, work| {
            let ends = matches!(work.task, Task::Bodyless);
            let written = write_head(h3, &mut conn.quic, id, &mut work.head, ends).and_then(|()| {
                let write = |quic: &mut quiche::Connection, part: &[u8], fin| h3.send_body(quic, id, part, fin);
                write_task(conn, id, &mut work.task, now, bytes, scratch, write)
            });
            match written {
                Ok(Written::Part) => true,
                Ok(Written::All) => false,
                Ok(Written::Broken) => {
                    let _ = conn.quic.stream_shutdown(id, quiche::Shutdown::Write, INTERNAL_ERROR);
                    false
                }
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

    fn turn_tunnels(
        &mut self,
        h3: &mut quiche::h3::Connection,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<(), quiche::h3::Error> {
        for (id, answer) in self.tunnels.turn(&mut self.conn, h3, now, scratch)? {
            self.answer(id, answer);
        }
        Ok(())
    }

    fn h3_request(&mut self, id: u64, fields: &[quiche::h3::Header], now: Instant) {
        self.next_request = self.next_request.max(id + 4);
        let head = Head { method: "", path: "", fields };
        // Trailers carry no method.
        let Some(method) = head.field(":method") else { return };
        if self.tasks.contains_key(&id) || self.tunnels.contains(id) {
            return;
        }
        let head = Head { method, path: head.field(":path").unwrap_or(""), fields };
        match &mut self.resources {
            Some(resources) if method == "CONNECT" && resources.relays() => {
                let begun = TunnelRequest::read(&head)
                    .map_err(|e| {
                        let status = Answer::text(e.status(), e.to_string());
                        status.with("proxy-status", "weir; error=http_request_error")
                    })
                    .and_then(|request| Ok((request.kind, resources.tunnel(id, &request, now)?)));
                match begun {
                    Ok((kind, tunnel)) => self.tunnels.insert(id, kind, tunnel, now),
                    Err(answer) => {
                        self.tunnels.counts.refused += 1;
                        self.answer(id, answer);
                    }
                }
            }
            resources => {
                let file = resources.as_mut().and_then(|resources| resources.file(&head));
                let answer = match file {
                    Some(answer) if answer.status < 400 => Err(answer),
                    file => {
                        self.built_in(&head).map_err(|answer| file.filter(|_| answer.status != 416).unwrap_or(answer))
                    }
                };
                match answer {
                    Ok(work) => drop(self.tasks.insert(id, work)),
                    Err(answer) => self.answer(id, answer),
                }
            }
        }
    }

    // The answer that the request grammar has.
    fn built_in(&mut self, head: &Head<'_>) -> Result<Work, Answer> {
        let Head { method, path, .. } = *head;
        let is_head = method == "HEAD";
        let Some(parsed) = Method::parse(if is_head { "GET" } else { method }) else {
            let text = format!("method '{method}' not served: expected GET, HEAD or POST");
            return Err(Answer::text(405, text).with("allow", "GET, HEAD, POST"));
        };
        let mut task = self.begin(parsed, path).map_err(|e| Answer::text(404, e.to_string()))?;
        let (mut status, mut fields) = (200, Vec::new());
        if let Task::Download(Some(bytes)) = &mut task {
            // Its bytes depend on nothing but their number.
            let etag = format!("\"zeros-{bytes}\"");
            fields = vec![("etag", etag.clone()), ("accept-ranges", "bytes".to_owned())];
            match (Validators { etag, modified: SystemTime::UNIX_EPOCH, bytes: *bytes }).select(head) {
                Selection::Part { first, last } => {
                    status = 206;
                    fields.push(("content-range", format!("bytes {first}-{last}/{bytes}")));
                    *bytes = last - first + 1;
                }
                Selection::Unsatisfiable => {
                    let answer = Answer::text(416, format!("no such bytes: there are {bytes}"));
                    return Err(answer.with("content-range", format!("bytes */{bytes}")));
                }
                Selection::Whole | Selection::NotModified | Selection::PreconditionFailed => {}
            }
            fields.push(("content-length", bytes.to_string()));
        }
        Ok(Work { head: Some(head_of(status, &fields)), task: if is_head { Task::Bodyless } else { task } })
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        let task = match answer.body {
            AnswerBody::Empty => Task::Bodyless,
            // It may be long, and wait until the client takes it.
            AnswerBody::Text(text) => {
                Task::Answer(text.chars().take(MOST_ANSWER_CHARS).collect::<String>().into_bytes())
            }
            AnswerBody::Content(content) => Task::Content(content),
        };
        self.tasks.insert(id, Work { head: Some(head_of(answer.status, &answer.fields)), task });
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
            let write = |quic: &mut quiche::Connection, part: &[u8], fin| quic.stream_send(id, part, fin);
            match write_task(conn, id, &mut work.task, now, bytes, scratch, write) {
                Ok(Written::Part) => true,
                Ok(Written::All) => false,
                Ok(Written::Broken) => {
                    let _ = conn.quic.stream_shutdown(id, quiche::Shutdown::Write, INTERNAL_ERROR);
                    false
                }
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
                    Some((method, path, body)) => self.begin_hq(method, &path).map(|task| (task, body)),
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

    fn begin_hq(&mut self, method: Method, path: &str) -> Result<Task, RequestError> {
        let head = Head { method: method.as_str(), path, fields: &[] };
        match self.resources.as_mut().and_then(|resources| resources.file(&head)) {
            Some(Answer { status: 200, body: AnswerBody::Content(content), .. }) => Ok(Task::Content(content)),
            _ => self.begin(method, path),
        }
    }

    fn hq_body(&mut self, id: u64, data: &[u8], fin: bool) {
        self.took_in(id, data.len());
        if fin {
            self.all_in(id);
        }
    }
}

fn head_of(status: u16, fields: &[Field]) -> Vec<quiche::h3::Header> {
    use quiche::h3::Header;
    let mut head = vec![Header::new(b":status", status.to_string().as_bytes()), Header::new(b"server", SERVER_NAME)];
    head.extend(fields.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())));
    head
}

// Writes a response's headers, once. `ends`: nothing follows them.
fn write_head(
    h3: &mut quiche::h3::Connection,
    quic: &mut quiche::Connection,
    id: u64,
    head: &mut Option<Vec<quiche::h3::Header>>,
    ends: bool,
) -> Result<(), quiche::h3::Error> {
    if let Some(headers) = head {
        h3.send_response(quic, id, headers, ends)?;
        *head = None;
    }
    Ok(())
}

// Writes as much of a task as fits, `write` being HTTP/3's or the plain stream's function.
fn write_task<E: From<quiche::Error>>(
    conn: &mut Conn,
    id: u64,
    task: &mut Task,
    now: Instant,
    bytes: &mut u64,
    scratch: &mut [u8],
    mut write: impl FnMut(&mut quiche::Connection, &[u8], bool) -> Result<usize, E>,
) -> Result<Written, E> {
    let all = |done| if done { Written::All } else { Written::Part };
    match task {
        Task::Line(_) | Task::Upload(_) => Ok(Written::Part),
        Task::Bodyless => Ok(Written::All),
        Task::Download(left) => {
            let (n, done) = write_payload(conn, id, &mut Zeros { bytes: *left, then_end: true }, write)?;
            *bytes += n;
            if let Some(left) = left {
                *left -= n;
            }
            Ok(all(done))
        }
        Task::Bursts(bursts) => {
            let mut due = Zeros { bytes: Some(bursts.due_bytes(now)), then_end: false };
            let (n, _) = write_payload(conn, id, &mut due, write)?;
            *bytes += n;
            bursts.sent(n);
            Ok(Written::Part)
        }
        Task::Answer(text) => {
            let n = write(&mut conn.quic, text, true)?;
            text.drain(..n);
            Ok(all(text.is_empty()))
        }
        Task::Content(content) => {
            // More would be read again in the next iteration.
            let room = conn.quic.stream_capacity(id)?.min(scratch.len());
            let mut part = ContentPart { content, scratch: &mut scratch[..room], read: 0..0, broken: false };
            let (n, done) = write_payload(conn, id, &mut part, write)?;
            *bytes += n;
            Ok(if part.broken { Written::Broken } else { all(done) })
        }
    }
}

/// Bytes of a resource on their way to a stream. Bytes that the stream does not take are read again later, so that a
/// waiting transfer holds no buffer.
struct ContentPart<'a> {
    content: &'a mut Content,
    scratch: &'a mut [u8],
    read: Range<usize>,
    /// The resource failed, or has fewer bytes than it had.
    broken: bool,
}

impl Payload for ContentPart<'_> {
    fn part(&mut self) -> (&[u8], bool) {
        let left = usize::try_from(self.content.bytes).unwrap_or(usize::MAX);
        if self.read.is_empty() && left > 0 && !self.scratch.is_empty() && !self.broken {
            let most = left.min(self.scratch.len());
            match self.content.source.read_at(self.content.offset, &mut self.scratch[..most]) {
                Ok(0) | Err(_) => self.broken = true,
                Ok(n) => self.read = 0..n,
            }
        }
        (&self.scratch[self.read.clone()], self.read.len() as u64 == self.content.bytes)
    }

    fn sent(&mut self, bytes: usize, _: bool) {
        self.read.start += bytes;
        self.content.offset += bytes as u64;
        self.content.bytes -= bytes as u64;
    }
}
