// SPDX-License-Identifier: Apache-2.0
//! A tunnel of TCP: bytes of a local program's connection and of a stream to the relay, each way at the pace of its reader.

use super::handshake::{Protocol, linger};
use super::http::{ESTABLISHED, Refusal};
use super::relay::OpenError;
use super::socks::{self, code};
use super::{Ended, Shared, destination::Destination};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};
use weir_quic::tokio::{BodyWriter, Response};

/// Time after which a program that reads nothing ends its tunnel: its unread data takes a part of the connection's receive
/// window, which all tunnels share.
const STALL: Duration = Duration::from_secs(600);
/// Bytes that are read from a program at once.
const PART_BYTES: usize = 64 << 10;

/// Bytes of a tunnel so far, and when the last ones passed.
pub struct Traffic {
    up: Cell<u64>,
    down: Cell<u64>,
    last: Cell<Instant>,
}

impl Traffic {
    /// None so far.
    pub fn new() -> Traffic {
        Traffic { up: Cell::new(0), down: Cell::new(0), last: Cell::new(Instant::now()) }
    }

    /// Bytes for the relay.
    pub fn add_up(&self, bytes: usize) {
        self.up.set(self.up.get() + bytes as u64);
        self.last.set(Instant::now());
    }

    /// Bytes for the program.
    pub fn add_down(&self, bytes: usize) {
        self.down.set(self.down.get() + bytes as u64);
        self.last.set(Instant::now());
    }

    /// Bytes for the relay, and for the program.
    pub fn bytes(&self) -> (u64, u64) {
        (self.up.get(), self.down.get())
    }

    /// Waits until none passed for so long.
    pub async fn idle(&self, limit: Duration) {
        loop {
            match limit.checked_sub(self.last.get().elapsed()) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }
}

/// Reasons why a tunnel ended early.
#[derive(Debug)]
enum Broken {
    /// The program's connection failed.
    Local,
    /// The relay's stream or connection failed.
    Relay,
    /// The program reads nothing.
    Stalled,
}

impl Broken {
    fn name(&self) -> &'static str {
        match self {
            Broken::Local => "local-reset",
            Broken::Relay => "relay-reset",
            Broken::Stalled => "stalled",
        }
    }
}

/// Serves a program that asked for a tunnel.
pub async fn serve(
    shared: &Shared,
    stream: &mut TcpStream,
    protocol: Protocol,
    to: &Destination,
    first: Bytes,
) -> Ended {
    let opened = tokio::select! {
        opened = shared.relay.open_tcp(to) => opened,
        // A program that has closed its connection needs no tunnel.
        () = gone(stream, first.is_empty()) => return Ended::early("abandoned"),
        () = shared.stopped() => return Ended::early("stopped"),
    };
    let (writer, response) = match opened {
        Ok(opened) => opened,
        Err(e) => {
            shared.failed(&e, to);
            refuse(stream, protocol, &e).await;
            return Ended::early("refused");
        }
    };
    let answer = match protocol {
        Protocol::Socks => socks::answer(code::SUCCEEDED, &Destination::unspecified()),
        Protocol::Http => ESTABLISHED.to_vec(),
    };
    let traffic = Traffic::new();
    let outcome = match stream.write_all(&answer).await {
        Ok(()) => copy(shared, stream, writer, response, first, &traffic).await,
        Err(_) => "local-reset",
    };
    if outcome != "complete" {
        // The program must not take this for the end of its data.
        let _ = stream.set_zero_linger();
    }
    let (up_bytes, down_bytes) = traffic.bytes();
    Ended { outcome, up_bytes, down_bytes }
}

/// Answers that there is no tunnel.
pub async fn refuse(stream: &mut TcpStream, protocol: Protocol, e: &OpenError) {
    let answer = match protocol {
        Protocol::Socks => socks::answer(e.socks, &Destination::unspecified()),
        Protocol::Http => Refusal::new(e.status, e.text.clone()).to_bytes(),
    };
    if stream.write_all(&answer).await.is_ok() {
        linger(stream).await;
    }
}

/// Waits until the program has closed its connection. A program that sends before the tunnel is open stays unread.
async fn gone(stream: &TcpStream, silent: bool) {
    let mut byte = [0];
    loop {
        match stream.peek(&mut byte).await {
            Ok(0) if silent => return,
            Err(_) => return,
            Ok(_) => std::future::pending().await,
        }
    }
}

async fn copy(
    shared: &Shared,
    stream: &mut TcpStream,
    writer: BodyWriter,
    response: Response,
    first: Bytes,
    traffic: &Traffic,
) -> &'static str {
    let (reader, sink) = stream.split();
    let both = async { tokio::try_join!(up(reader, writer, first, traffic), down(sink, response, traffic)) };
    tokio::select! {
        ended = both => match ended {
            Ok(_) => "complete",
            Err(broken) => broken.name(),
        },
        () = traffic.idle(shared.idle) => "idle",
        () = shared.stopped() => "stopped",
    }
}

/// The program's bytes, to the relay.
async fn up(mut reader: ReadHalf<'_>, writer: BodyWriter, first: Bytes, traffic: &Traffic) -> Result<(), Broken> {
    let mut part = first;
    let mut buffer = BytesMut::new();
    loop {
        if !part.is_empty() {
            traffic.add_up(part.len());
            if !writer.send(part).await.map_err(|_| Broken::Relay)? {
                // The destination reads no more, and may still send.
                break;
            }
        }
        buffer.reserve(PART_BYTES);
        if reader.read_buf(&mut buffer).await.map_err(|_| Broken::Local)? == 0 {
            break;
        }
        part = buffer.split().freeze();
    }
    writer.finish();
    Ok(())
}

/// The relay's bytes, to the program.
async fn down(mut sink: WriteHalf<'_>, mut response: Response, traffic: &Traffic) -> Result<(), Broken> {
    while let Some(mut part) = response.chunk().await.map_err(|_| Broken::Relay)? {
        while !part.is_empty() {
            let written = timeout(STALL, sink.write_buf(&mut part)).await.map_err(|_| Broken::Stalled)?;
            let written = written.map_err(|_| Broken::Local)?;
            traffic.add_down(written);
        }
    }
    // An error means that the program has closed its connection.
    let _ = sink.shutdown().await;
    Ok(())
}
