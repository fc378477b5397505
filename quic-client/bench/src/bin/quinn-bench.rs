// SPDX-License-Identifier: Apache-2.0
//! A bulk transfer over quinn, both ends: the client asks for N bytes by eight bytes of its own on a stream, or as
//! HTTP/0.9 has it, and the server answers with N zeros. One thread each, as weir-client and weir-server have.

use clap::{Args, Parser, Subcommand};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime};
use quinn::{TransportConfig, VarInt};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(version, about = "Bulk transfer over quinn, to measure beside")]
struct Words {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Serves until it is ended; prints "listening ADDRESS:PORT" when ready
    Server {
        /// Where to listen
        #[arg(long, default_value = "127.0.0.1:4433")]
        listen: SocketAddr,
        #[command(flatten)]
        settings: Settings,
    },
    /// One download; or, with --idle, connections that carry nothing until standard input ends
    Client {
        /// The server
        peer: SocketAddr,
        /// Size of the transfer
        #[arg(long, default_value_t = 0)]
        bytes: u64,
        /// Ask as HTTP/0.9 over QUIC does, ALPN hq-interop, for /bytes/N: of weir-server
        #[arg(long)]
        hq: bool,
        /// Open this many connections, print "up" and hold them
        #[arg(long, default_value_t = 0)]
        idle: u32,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Args, Clone, Copy)]
struct Settings {
    /// Payload of a datagram, windows and cipher as weir-client has them, instead of quinn's own
    #[arg(long)]
    equal: bool,
    /// Payload of a datagram in bytes, without MTU discovery, and windows as with --equal
    #[arg(long, value_name = "BYTES", conflicts_with = "equal")]
    max_payload: Option<u16>,
}

impl Settings {
    /// Fixed payload of datagrams.
    fn payload(self) -> Option<u16> {
        self.max_payload.or(self.equal.then_some(1350))
    }

    fn endpoint(self) -> Outcome<EndpointConfig> {
        let mut config = EndpointConfig::default();
        if let Some(payload) = self.max_payload {
            config.max_udp_payload_size(payload)?;
        }
        Ok(config)
    }

    fn transport(self) -> Outcome<Arc<TransportConfig>> {
        let mut t = TransportConfig::default();
        t.max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(3600))?));
        if let Some(payload) = self.payload() {
            t.initial_mtu(payload).mtu_discovery_config(None);
            t.stream_receive_window(VarInt::from_u32(16 << 20)).receive_window(VarInt::from_u32(24 << 20));
            t.send_window(24 << 20);
        }
        Ok(Arc::new(t))
    }

    fn crypto(self) -> Arc<CryptoProvider> {
        let mut provider = ring::default_provider();
        if self.equal {
            provider.cipher_suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
        }
        Arc::new(provider)
    }
}

const ALPN: &[u8] = b"bench";
const HQ: &[u8] = b"hq-interop";
const LONGEST_REQUEST_BYTES: usize = 1 << 12;

/// Trusts any server: the one measured makes its certificate anew at each start.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

async fn serve(listen: SocketAddr, settings: Settings) -> Outcome {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(settings.crypto())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.into()], key.into())?;
    tls.alpn_protocols = vec![ALPN.to_vec(), HQ.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(settings.transport()?);
    let socket = UdpSocket::bind(listen)?;
    let endpoint = Endpoint::new(settings.endpoint()?, Some(config), socket, Arc::new(TokioRuntime))?;
    println!("listening {}", endpoint.local_addr()?);
    std::io::stdout().flush()?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(e) = answer(incoming).await {
                eprintln!("quinn-bench server: {e}");
            }
        });
    }
    Ok(())
}

/// Bytes that a request of either protocol asks for.
fn wanted(request: &[u8]) -> Option<u64> {
    if let Ok(count) = request.try_into() {
        return Some(u64::from_le_bytes(count));
    }
    str::from_utf8(request).ok()?.trim_end().strip_prefix("GET /bytes/")?.parse().ok()
}

async fn answer(incoming: quinn::Incoming) -> Outcome {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let connection = incoming.await?;
    // The client's leaving is how each connection ends.
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let request = recv.read_to_end(LONGEST_REQUEST_BYTES).await?;
        let mut left = wanted(&request).ok_or("a request that is neither")?;
        while left > 0 {
            let part = left.min(ZEROS.len() as u64);
            send.write_all(&ZEROS[..part as usize]).await?;
            left -= part;
        }
        send.finish()?;
    }
    Ok(())
}

async fn connect(peer: SocketAddr, settings: Settings, alpn: &[u8]) -> Outcome<impl AsyncFn() -> Outcome<Connection>> {
    let crypto = settings.crypto();
    let mut tls = rustls::ClientConfig::builder_with_provider(crypto.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(crypto)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(settings.transport()?);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut endpoint = Endpoint::new(settings.endpoint()?, None, socket, Arc::new(TokioRuntime))?;
    endpoint.set_default_client_config(config);
    Ok(async move || Ok(endpoint.connect(peer, "localhost")?.await?))
}

async fn download(peer: SocketAddr, bytes: u64, hq: bool, settings: Settings) -> Outcome {
    let (alpn, request) = match hq {
        true => (HQ, format!("GET /bytes/{bytes}\r\n").into_bytes()),
        false => (ALPN, bytes.to_le_bytes().to_vec()),
    };
    let connection = connect(peer, settings, alpn).await?().await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&request).await?;
    send.finish()?;
    let mut buffer = vec![0; 1 << 16];
    let mut got = 0;
    while let Some(n) = recv.read(&mut buffer).await? {
        got += n as u64;
    }
    connection.close(0u32.into(), b"");
    if got == bytes { Ok(()) } else { Err(format!("got {got} bytes of {bytes}").into()) }
}

async fn hold(peer: SocketAddr, count: u32, settings: Settings) -> Outcome {
    let connect = connect(peer, settings, ALPN).await?;
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(connect().await?);
    }
    println!("up");
    std::io::stdout().flush()?;
    let end = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    end.await??;
    Ok(())
}

fn main() -> Outcome {
    let words = Words::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match words.role {
            Role::Server { listen, settings } => serve(listen, settings).await,
            Role::Client { peer, idle, settings, .. } if idle > 0 => hold(peer, idle, settings).await,
            Role::Client { peer, bytes, hq, settings, .. } => download(peer, bytes, hq, settings).await,
        }
    })
}
