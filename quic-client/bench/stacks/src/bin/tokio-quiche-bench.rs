// SPDX-License-Identifier: Apache-2.0
//! A server and a client on tokio-quiche: `GET /bytes/N` over HTTP/3. One thread each, as weir-client and weir-server
//! have.

use bytes::Bytes;
use clap::{Args, Parser, Subcommand};
use futures::{SinkExt, StreamExt};
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio_quiche::http3::driver::{
    ClientH3Event, H3Event, InboundFrame, IncomingH3Headers, NewClientRequest, OutboundFrame, ServerH3Event,
};
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::connect_with_config;
use tokio_quiche::quiche::h3::{Header, NameValue};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::socket::Socket;
use tokio_quiche::{ClientH3Driver, ConnectionParams, ServerH3Controller, ServerH3Driver, listen};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(version, about = "Server and client on tokio-quiche, to measure beside")]
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
        #[command(flatten)]
        settings: Settings,
    },
    /// One download, without a check of the certificate
    Client {
        /// The server
        peer: SocketAddr,
        /// Size of the transfer
        #[arg(long)]
        bytes: u64,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Args, Clone, Copy)]
struct Settings {
    /// Largest payload of a datagram in bytes, windows of 16 and 24 MiB from the start, and GSO at the client; else
    /// tokio-quiche's defaults
    #[arg(long)]
    max_payload: Option<usize>,
    /// Allow clients to migrate, with this many connection IDs
    #[arg(long)]
    migration: Option<u64>,
}

impl Settings {
    fn quic(self) -> QuicSettings {
        let mut quic = QuicSettings::default();
        if let Some(max_payload) = self.max_payload {
            quic.max_send_udp_payload_size = max_payload;
            quic.max_recv_udp_payload_size = max_payload;
            quic.initial_max_data = 24 << 20;
            quic.initial_max_stream_data_bidi_local = 16 << 20;
            quic.initial_max_stream_data_bidi_remote = 16 << 20;
        }
        if let Some(connection_ids) = self.migration {
            quic.disable_active_migration = false;
            quic.active_connection_id_limit = connection_ids;
        }
        quic
    }
}

fn path_of(cert: &std::path::Path) -> Outcome<&str> {
    cert.to_str().ok_or_else(|| format!("{}: not UTF-8", cert.display()).into())
}

async fn serve(at: SocketAddr, cert: PathBuf, key: PathBuf, settings: Settings) -> Outcome {
    let socket = UdpSocket::bind(at).await?;
    let address = socket.local_addr()?;
    let tls = TlsCertificatePaths { cert: path_of(&cert)?, private_key: path_of(&key)?, kind: CertificateKind::X509 };
    let params = ConnectionParams::new_server(settings.quic(), tls, Hooks::default());
    let mut listeners = listen([socket], params, DefaultMetrics)?;
    println!("listening {address}");
    std::io::stdout().flush()?;
    while let Some(connection) = listeners[0].next().await {
        match connection {
            Ok(connection) => {
                let (driver, controller) = ServerH3Driver::new(Http3Settings::default());
                connection.start(driver);
                tokio::spawn(answers(controller));
            }
            Err(e) => eprintln!("tokio-quiche-bench server: {e}"),
        }
    }
    Ok(())
}

/// Answers all requests of a connection.
async fn answers(mut controller: ServerH3Controller) {
    while let Some(event) = controller.event_receiver_mut().recv().await {
        if let ServerH3Event::Headers { incoming_headers, .. } = event {
            // An error is the client's leaving in mid-transfer.
            tokio::spawn(async move { drop(answer(incoming_headers).await) });
        }
    }
}

async fn answer(request: IncomingH3Headers) -> Outcome {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let IncomingH3Headers { headers, mut send, .. } = request;
    let path = headers.iter().find(|header| header.name() == b":path").and_then(|h| str::from_utf8(h.value()).ok());
    let wanted = path.and_then(|path| path.strip_prefix("/bytes/")).and_then(|count| count.parse::<u64>().ok());
    let status: &[u8] = if wanted.is_some() { b"200" } else { b"404" };
    let mut left = wanted.unwrap_or(0);
    let headers = vec![Header::new(b":status", status), Header::new(b"content-length", left.to_string().as_bytes())];
    send.send(OutboundFrame::Headers(headers, None)).await?;
    while left > 0 {
        let part = left.min(ZEROS.len() as u64);
        send.send(OutboundFrame::Body(Bytes::from_static(&ZEROS[..part as usize]), false)).await?;
        left -= part;
    }
    Ok(send.send(OutboundFrame::Body(Bytes::new(), true)).await?)
}

async fn download(peer: SocketAddr, bytes: u64, settings: Settings) -> Outcome {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(peer).await?;
    let mut socket: Socket<Arc<UdpSocket>, Arc<UdpSocket>> = Socket::try_from(socket)?;
    if settings.max_payload.is_some() {
        socket.apply_max_capabilities();
    }
    let params = ConnectionParams::new_client(settings.quic(), None, Hooks::default());
    let (driver, mut controller) = ClientH3Driver::new(Http3Settings::default());
    let _connection = connect_with_config(socket, Some("localhost"), &params, driver).await?;
    let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")];
    let mut headers: Vec<_> = fields.iter().map(|(n, v)| Header::new(n.as_bytes(), v.as_bytes())).collect();
    headers.push(Header::new(b":path", format!("/bytes/{bytes}").as_bytes()));
    let request = NewClientRequest { request_id: 0, headers, body_writer: None };
    controller.request_sender().send(request).map_err(|_| "the connection ended before the request")?;
    let mut got = 0;
    while let Some(event) = controller.event_receiver_mut().recv().await {
        let ClientH3Event::Core(H3Event::IncomingHeaders(mut response)) = event else { continue };
        while let Some(frame) = response.recv.recv().await {
            let InboundFrame::Body(part, end) = frame else { continue };
            got += part.len() as u64;
            if end {
                break;
            }
        }
        break;
    }
    if got == bytes { Ok(()) } else { Err(format!("got {got} bytes of {bytes}").into()) }
}

fn main() -> Outcome {
    let words = Words::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match words.role {
            Role::Server { listen, cert, key, settings } => serve(listen, cert, key, settings).await,
            Role::Client { peer, bytes, settings } => download(peer, bytes, settings).await,
        }
    })
}
