// SPDX-License-Identifier: Apache-2.0
//! The first messages of a local program, up to its request. The first byte names the protocol.

use super::access::Access;
use super::destination::Destination;
use super::http::{self, Refusal};
use super::socks::{self, Command, SocksError};
use bytes::{Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time that a refused program has to read the answer.
const LINGER: Duration = Duration::from_secs(1);

/// Protocol of a local program, for the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// SOCKS5.
    Socks,
    /// HTTP/1.1.
    Http,
}

/// Request of a local program.
#[derive(Debug)]
pub enum Request {
    /// A tunnel of TCP, and bytes that came behind the request.
    Tunnel(Protocol, Destination, Bytes),
    /// A relay of UDP; datagrams come from this port, if it is named.
    Associate(Option<u16>),
}

/// Reasons why there is no request.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The program went away, or a message was too long.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A message of SOCKS that is wrong, and the answer.
    #[error("{0}")]
    Socks(SocksError),
    /// A request of HTTP that is refused.
    #[error("{}", .0.text)]
    Http(Refusal),
    /// The user or the password is wrong or missing.
    #[error("wrong user or password")]
    Denied,
}

/// A program's bytes, message by message.
struct Messages<'a> {
    stream: &'a mut TcpStream,
    buffer: BytesMut,
}

impl Messages<'_> {
    async fn more(&mut self, most: usize) -> io::Result<()> {
        let missing = most.saturating_sub(self.buffer.len());
        if missing == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        let read = (&mut *self.stream).take(missing as u64).read_buf(&mut self.buffer).await?;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// The next message of at most so many bytes.
    async fn next<T, E>(
        &mut self,
        most: usize,
        parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
        refuse: impl Fn(E) -> HandshakeError,
    ) -> Result<T, HandshakeError> {
        loop {
            if let Some((message, len)) = parse(&self.buffer).map_err(&refuse)? {
                let _ = self.buffer.split_to(len);
                return Ok(message);
            }
            self.more(most).await?;
        }
    }

    async fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }
}

/// Reads a program's request, and answers what comes before it. A refusal is answered, too.
///
/// # Errors
/// There is none.
pub async fn read(stream: &mut TcpStream, access: &Access) -> Result<Request, HandshakeError> {
    let mut messages = Messages { stream, buffer: BytesMut::with_capacity(1024) };
    messages.more(http::MOST_BYTES).await?;
    let result = match messages.buffer[0] {
        socks::VERSION => socks_request(&mut messages, access).await,
        socks::VERSION_4 => {
            messages.answer(&socks::REFUSAL_4).await?;
            Err(HandshakeError::Socks(SocksError::Version(socks::VERSION_4)))
        }
        _ => http_request(&mut messages, access).await,
    };
    if let Err(HandshakeError::Socks(_) | HandshakeError::Http(_) | HandshakeError::Denied) = &result {
        linger(stream).await;
    }
    result
}

/// Reads until the other end has closed: unread bytes would reset the connection, and the answer be lost.
pub async fn linger(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    let drain = async {
        let _ = stream.shutdown().await;
        // A program that goes on sending gets the reset.
        for _ in 0..64 {
            if !matches!(stream.read(&mut bytes).await, Ok(n) if n > 0) {
                return;
            }
        }
    };
    let _ = timeout(LINGER, drain).await;
}

async fn socks_request(messages: &mut Messages<'_>, access: &Access) -> Result<Request, HandshakeError> {
    let most = socks::MOST_BYTES;
    let wrong = HandshakeError::Socks;
    let offered = messages.next(most, |b| owned(socks::methods(b)), wrong).await?;
    let method = if access.needs_password() { socks::PASSWORD } else { socks::NO_AUTHENTICATION };
    if !offered.contains(&method) {
        messages.answer(&[socks::VERSION, socks::NO_METHOD]).await?;
        return Err(HandshakeError::Denied);
    }
    messages.answer(&[socks::VERSION, method]).await?;
    if access.needs_password() {
        let parse = |b: &[u8]| {
            let found = socks::credentials(b)?;
            Ok(found.map(|((user, password), len)| (access.allows(user, password), len)))
        };
        let allowed = messages.next(most, parse, wrong).await?;
        messages.answer(&[1, u8::from(!allowed)]).await?;
        if !allowed {
            return Err(HandshakeError::Denied);
        }
    }
    let parse = |b: &[u8]| socks::request(b).map(|found| found.map(|(command, to, len)| ((command, to), len)));
    let (command, destination) = match messages.next(most, parse, wrong).await {
        Err(HandshakeError::Socks(e)) => {
            messages.answer(&socks::answer(e.code(), &Destination::unspecified())).await?;
            return Err(HandshakeError::Socks(e));
        }
        other => other?,
    };
    Ok(match (command, destination) {
        (Command::Connect, Some(to)) => Request::Tunnel(Protocol::Socks, to, messages.buffer.split().freeze()),
        (_, to) => Request::Associate(to.map(|to| to.port)),
    })
}

fn owned(found: Result<Option<(&[u8], usize)>, SocksError>) -> Result<Option<(Vec<u8>, usize)>, SocksError> {
    found.map(|found| found.map(|(bytes, len)| (bytes.to_vec(), len)))
}

async fn http_request(messages: &mut Messages<'_>, access: &Access) -> Result<Request, HandshakeError> {
    let refused = match messages.next(http::MOST_BYTES, http::connect, HandshakeError::Http).await {
        Ok(connect) if access.allows_basic(connect.authorization.as_deref()) => {
            let rest = messages.buffer.split().freeze();
            return Ok(Request::Tunnel(Protocol::Http, connect.destination, rest));
        }
        Ok(_) => Refusal::new("407 Proxy Authentication Required", "expected a user and a password (Basic)"),
        Err(HandshakeError::Http(refusal)) => refusal,
        Err(e) => return Err(e),
    };
    messages.answer(&refused.to_bytes()).await?;
    Err(HandshakeError::Http(refused))
}
