// SPDX-License-Identifier: Apache-2.0
//! A server on quinn that replaces its connection IDs at a given pace: `GET /bytes/N` over hq-interop. As servers
//! behind load balancers do, and as a client with several paths must bear.

use clap::Parser;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use quinn_proto::RandomConnectionIdGenerator;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::error::Error;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Length of its connection IDs, in bytes.
const CID_BYTES: usize = 8;
/// RFC 9000 has no code for it; what the tests' other servers say.
const NOT_FOUND: u32 = 0x404;

#[derive(Parser)]
#[command(version, about = "GET /bytes/N over quinn and hq-interop, with connection IDs that are replaced")]
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
    cid_lifetime_ms: u64,
}

async fn answer(mut send: quinn::SendStream, mut recv: quinn::RecvStream) -> Outcome {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let line = String::from_utf8(recv.read_to_end(1 << 12).await?)?;
    let path = line.trim_end().strip_prefix("GET /bytes/").and_then(|n| n.split('?').next());
    let Some(mut left) = path.and_then(|n| n.parse::<u64>().ok()) else {
        return Ok(send.reset(NOT_FOUND.into())?);
    };
    while left > 0 {
        let part = left.min(ZEROS.len() as u64);
        send.write_all(&ZEROS[..part as usize]).await?;
        left -= part;
    }
    Ok(send.finish()?)
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
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let lifetime = Duration::from_millis(args.cid_lifetime_ms);
    let mut ids = EndpointConfig::default();
    ids.cid_generator(move || {
        let mut generator = RandomConnectionIdGenerator::new(CID_BYTES);
        generator.set_lifetime(lifetime);
        Box::new(generator)
    });
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
