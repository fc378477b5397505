// SPDX-License-Identifier: Apache-2.0
//! A server on quinn: `GET /bytes/N`, `/bytes/unlimited` and `/bytes/N/every/MS` over hq-interop, with any of quinn's
//! congestion controls. It can replace its connection IDs at a given pace, as servers behind load balancers do and as a
//! client with several paths must bear.

use clap::{Parser, ValueEnum};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig};
use quinn_proto::RandomConnectionIdGenerator;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::error::Error;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Length of its connection IDs, in bytes.
const CID_BYTES: usize = 8;
/// RFC 9000 has no code for it; what the tests' other servers say.
const NOT_FOUND: u32 = 0x404;

/// More than any link of the lab holds, so that the congestion window is what bounds a sender.
const SEND_WINDOW_BYTES: u64 = 64 << 20;
const LONGEST_REQUEST_BYTES: usize = 1 << 12;

#[derive(Clone, Copy, ValueEnum)]
enum Control {
    Bbr,
    Cubic,
    Newreno,
}

impl Control {
    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Control::Bbr => Arc::new(BbrConfig::default()),
            Control::Cubic => Arc::new(CubicConfig::default()),
            Control::Newreno => Arc::new(NewRenoConfig::default()),
        }
    }
}

#[derive(Parser)]
#[command(version, about = "GET /bytes/N over quinn and hq-interop")]
struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Certificate, PEM
    #[arg(long)]
    cert: PathBuf,
    /// Its key, PEM
    #[arg(long)]
    key: PathBuf,
    /// Replace all connection IDs after this many milliseconds
    #[arg(long)]
    cid_lifetime_ms: Option<u64>,
    /// Congestion control
    #[arg(long, default_value = "cubic")]
    cc: Control,
    /// UDP payload of all packets, each sent by itself; by default that of the path, in batches
    #[arg(long)]
    max_payload: Option<u16>,
}

impl Args {
    fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        transport.congestion_controller_factory(self.cc.factory()).send_window(SEND_WINDOW_BYTES);
        if let Some(bytes) = self.max_payload {
            transport.initial_mtu(bytes).mtu_discovery_config(None).enable_segmentation_offload(false);
        }
        transport
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

async fn answer(mut send: quinn::SendStream, mut recv: quinn::RecvStream) -> Outcome {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let line = String::from_utf8(recv.read_to_end(LONGEST_REQUEST_BYTES).await?)?;
    let Some((bytes, every)) = asked(&line) else {
        return Ok(send.reset(NOT_FOUND.into())?);
    };
    let mut due = Instant::now();
    loop {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(ZEROS.len() as u64);
            send.write_all(&ZEROS[..part as usize]).await?;
            left -= part;
        }
        let Some(every) = every else { return Ok(send.finish()?) };
        due += every;
        tokio::time::sleep_until(due).await;
    }
}

async fn serve(incoming: quinn::Incoming) -> Outcome {
    let connection = incoming.await?;
    // The client's leaving is how each connection ends.
    while let Ok((send, recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            if let Err(e) = answer(send, recv).await {
                eprintln!("quinn-rotating: {e}");
            }
        });
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let args = Args::parse();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = CertificateDer::pem_file_iter(&args.cert)?.collect::<Result<Vec<_>, _>>()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates, PrivateKeyDer::from_pem_file(&args.key)?)?;
    tls.alpn_protocols = vec![b"hq-interop".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(args.transport()));
    let mut ids = EndpointConfig::default();
    if let Some(lifetime) = args.cid_lifetime_ms.map(Duration::from_millis) {
        ids.cid_generator(move || {
            let mut generator = RandomConnectionIdGenerator::new(CID_BYTES);
            generator.set_lifetime(lifetime);
            Box::new(generator)
        });
    }
    let socket = UdpSocket::bind(args.listen)?;
    let endpoint = Endpoint::new(ids, Some(config), socket, Arc::new(TokioRuntime))?;
    println!("listening {}", endpoint.local_addr()?);
    std::io::stdout().flush()?;
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    loop {
        tokio::select! {
            Some(incoming) = endpoint.accept() => {
                tokio::spawn(async move {
                    if let Err(e) = serve(incoming).await {
                        eprintln!("quinn-rotating: {e}");
                    }
                });
            }
            _ = term.recv() => break,
        }
    }
    endpoint.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}
