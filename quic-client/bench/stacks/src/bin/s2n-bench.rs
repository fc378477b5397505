// SPDX-License-Identifier: Apache-2.0
//! A server and a client on s2n-quic: `GET /bytes/N`, `/bytes/unlimited` and `/bytes/N/every/MS` over HTTP/0.9 (ALPN
//! hq-interop). One thread each, as weir-client and weir-server have.

use bytes::Bytes;
use clap::{Args, Parser, Subcommand, ValueEnum};
use s2n_quic::client::Connect;
use s2n_quic::provider::{congestion_controller, io, limits, tls};
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(version, about = "Server and client on s2n-quic, to measure beside")]
struct Words {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Serves until it is ended; prints "listening ADDRESS:PORT" when ready
    Server {
        /// Address and port to listen on
        #[arg(long, default_value = "127.0.0.1:4433")]
        listen: SocketAddr,
        /// Certificate chain, PEM
        #[arg(long)]
        cert: PathBuf,
        /// Key of the certificate, PEM
        #[arg(long)]
        key: PathBuf,
        /// Congestion control
        #[arg(long, default_value = "cubic")]
        cc: Control,
        #[command(flatten)]
        settings: Settings,
    },
    /// One download
    Client {
        /// The server
        peer: SocketAddr,
        /// Certificate authority of the server, PEM
        #[arg(long)]
        ca: PathBuf,
        /// Size of the transfer
        #[arg(long)]
        bytes: u64,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Args, Clone, Copy)]
struct Settings {
    /// Largest packet, in bytes with IP and UDP headers, and windows of 16 and 24 MiB; else s2n-quic's defaults
    #[arg(long)]
    max_mtu: Option<u16>,
    /// Send each packet by itself, as a lab with queues needs
    #[arg(long)]
    no_gso: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Control {
    Bbr,
    Cubic,
}

const ALPN: &str = "hq-interop";
const PART_BYTES: usize = 1 << 16;
const LONGEST_REQUEST_BYTES: usize = 1 << 12;
const NOT_FOUND: u32 = 0x404;

impl Settings {
    fn io(self, local: SocketAddr) -> Outcome<io::Default> {
        let mut io = io::Default::builder().with_receive_address(local)?;
        if let Some(max_mtu) = self.max_mtu {
            io = io.with_max_mtu(max_mtu)?.with_initial_mtu(max_mtu)?;
        }
        if self.no_gso {
            io = io.with_gso_disabled()?;
        }
        Ok(io.build()?)
    }

    fn limits(self) -> Outcome<limits::Limits> {
        let limits = limits::Limits::new().with_max_idle_timeout(Duration::from_secs(3600))?;
        Ok(match self.max_mtu {
            Some(_) => limits
                .with_data_window(24 << 20)?
                .with_bidirectional_local_data_window(16 << 20)?
                .with_bidirectional_remote_data_window(16 << 20)?,
            None => limits,
        })
    }
}

async fn serve(listen: SocketAddr, cert: PathBuf, key: PathBuf, cc: Control, settings: Settings) -> Outcome {
    let tls = tls::default::Server::builder()
        .with_application_protocols([ALPN])?
        .with_certificate(cert.as_path(), key.as_path())?
        .build()?;
    let server = Server::builder().with_tls(tls)?.with_io(settings.io(listen)?)?.with_limits(settings.limits()?)?;
    let mut server = match cc {
        Control::Bbr => server.with_congestion_controller(congestion_controller::Bbr::default())?.start()?,
        Control::Cubic => server.with_congestion_controller(congestion_controller::Cubic::default())?.start()?,
    };
    println!("listening {}", server.local_addr()?);
    std::io::stdout().flush()?;
    while let Some(connection) = server.accept().await {
        tokio::spawn(answers(connection));
    }
    Ok(())
}

/// Answers all requests of a connection. The client's leaving is how each connection ends.
async fn answers(mut connection: Connection) {
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        tokio::spawn(async move {
            if let Err(e) = answer(stream).await {
                eprintln!("s2n-bench server: {e}");
            }
        });
    }
}

async fn answer(mut stream: BidirectionalStream) -> Outcome {
    static ZEROS: [u8; PART_BYTES] = [0; PART_BYTES];
    let mut request = Vec::new();
    while let Some(part) = stream.receive().await? {
        request.extend_from_slice(&part);
        if request.len() > LONGEST_REQUEST_BYTES {
            return Ok(stream.reset(NOT_FOUND.into())?);
        }
    }
    let Some((bytes, every)) = std::str::from_utf8(&request).ok().and_then(asked) else {
        return Ok(stream.reset(NOT_FOUND.into())?);
    };
    let mut due = Instant::now();
    loop {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(ZEROS.len() as u64);
            stream.send(Bytes::from_static(&ZEROS[..part as usize])).await?;
            left -= part;
        }
        let Some(every) = every else { return Ok(stream.finish()?) };
        due += every;
        tokio::time::sleep_until(due).await;
    }
}

/// Size of a download, and the time after which it comes again.
fn asked(line: &str) -> Option<(u64, Option<Duration>)> {
    let path = line.trim_end().strip_prefix("GET /bytes/")?.split('?').next()?;
    let (count, every) = match path.split_once("/every/") {
        Some((count, ms)) => (count, Some(Duration::from_millis(ms.parse().ok().filter(|ms| *ms > 0)?))),
        None => (path, None),
    };
    Some((if count == "unlimited" { u64::MAX } else { count.parse().ok()? }, every))
}

async fn download(peer: SocketAddr, ca: PathBuf, bytes: u64, settings: Settings) -> Outcome {
    let tls =
        tls::default::Client::builder().with_application_protocols([ALPN])?.with_certificate(ca.as_path())?.build()?;
    let client = Client::builder()
        .with_tls(tls)?
        .with_io(settings.io((Ipv4Addr::UNSPECIFIED, 0).into())?)?
        .with_limits(settings.limits()?)?
        .start()?;
    let mut connection = client.connect(Connect::new(peer).with_server_name("localhost")).await?;
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(Bytes::from(format!("GET /bytes/{bytes}\r\n"))).await?;
    stream.finish()?;
    let mut got = 0;
    while let Some(part) = stream.receive().await? {
        got += part.len() as u64;
    }
    connection.close(0u32.into());
    if got == bytes { Ok(()) } else { Err(format!("got {got} bytes of {bytes}").into()) }
}

fn main() -> Outcome {
    let words = Words::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match words.role {
            Role::Server { listen, cert, key, cc, settings } => serve(listen, cert, key, cc, settings).await,
            Role::Client { peer, ca, bytes, settings } => download(peer, ca, bytes, settings).await,
        }
    })
}
