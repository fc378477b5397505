// SPDX-License-Identifier: Apache-2.0
//! A server of HTTP/3 on quiche that takes early data, extended CONNECT and datagrams, and echoes tunnels.

use boring::ssl::{SslContextBuilder, SslFiletype, SslMethod};
use quiche::h3::{Event, NameValue};
use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The server, which answers each request with 204 and echoes the data of a CONNECT; it ends when this is dropped.
pub struct H3Server {
    pub addr: SocketAddr,
    /// Requests that came in before the handshake was done.
    pub early: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Accepted {
    quic: quiche::Connection,
    h3: Option<quiche::h3::Connection>,
    /// Streams of tunnels.
    tunnels: BTreeSet<u64>,
    /// Echoes that were not sent yet.
    echoes: HashMap<u64, Vec<u8>>,
}

impl Accepted {
    fn act(&mut self, early: &AtomicUsize) {
        let Accepted { quic, h3, tunnels, echoes } = self;
        if h3.is_none() && (quic.is_established() || quic.is_in_early_data()) {
            let mut settings = quiche::h3::Config::new().unwrap();
            settings.enable_extended_connect(true);
            *h3 = quiche::h3::Connection::with_transport(quic, &settings).ok();
        }
        let Some(h3) = h3 else { return };
        let mut bytes = [0; 65536];
        while let Ok((stream, event)) = h3.poll(quic) {
            match event {
                Event::Headers { list, .. } => {
                    early.fetch_add(usize::from(quic.is_in_early_data()), Ordering::AcqRel);
                    let connects = list.iter().any(|h| h.name() == b":method" && h.value() == b"CONNECT");
                    let status: &[u8] = if connects { b"200" } else { b"204" };
                    let list = [quiche::h3::Header::new(b":status", status)];
                    h3.send_response(quic, stream, &list, !connects).unwrap();
                    if connects {
                        tunnels.insert(stream);
                    }
                }
                Event::Data => {
                    while let Ok(len) = h3.recv_body(quic, stream, &mut bytes) {
                        echoes.entry(stream).or_default().extend(&bytes[..len]);
                    }
                }
                Event::Finished if tunnels.remove(&stream) => {
                    // The server's half ends later.
                    echoes.entry(stream).or_default().extend(b" and goodbye");
                }
                _ => {}
            }
        }
        for (stream, echo) in echoes.iter_mut() {
            let ends = !tunnels.contains(stream);
            if let Ok(len) = h3.send_body(quic, *stream, echo, ends) {
                echo.drain(..len);
            }
        }
        echoes.retain(|_, echo| !echo.is_empty());
        while let Ok(len) = quic.dgram_recv(&mut bytes) {
            let _ = quic.dgram_send(&bytes[..len]);
        }
    }
}

impl H3Server {
    /// With the key and certificate of this file.
    pub fn start(pem: &Path) -> H3Server {
        let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
        tls.set_private_key_file(pem, SslFiletype::PEM).unwrap();
        tls.set_certificate_chain_file(pem).unwrap();
        let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).unwrap();
        config.set_application_protos(&[b"h3"]).unwrap();
        config.enable_early_data();
        config.enable_dgram(true, 100, 100);
        config.set_initial_max_data(1 << 20);
        config.set_initial_max_stream_data_bidi_remote(1 << 16);
        config.set_initial_max_stream_data_uni(1 << 16);
        config.set_initial_max_streams_bidi(10);
        config.set_initial_max_streams_uni(10);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let addr = socket.local_addr().unwrap();
        let (early, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stopped) = (Arc::clone(&early), Arc::clone(&stop));
        let thread = std::thread::spawn(move || serve(&socket, config, &counted, &stopped));
        H3Server { addr, early, stop, thread: Some(thread) }
    }
}

impl Drop for H3Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(socket: &UdpSocket, mut config: quiche::Config, early: &AtomicUsize, stop: &AtomicBool) {
    let addr = socket.local_addr().unwrap();
    let mut accepted: HashMap<SocketAddr, Accepted> = HashMap::new();
    let mut bytes = [0; 65536];
    let mut ids = 0u64;
    while !stop.load(Ordering::Acquire) {
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let conn = accepted.entry(from).or_insert_with(|| {
                ids += 1;
                let id = quiche::ConnectionId::from_vec([ids; 2].map(u64::to_be_bytes).concat());
                let quic = quiche::accept(&id, None, addr, from, &mut config).unwrap();
                Accepted { quic, h3: None, tunnels: BTreeSet::new(), echoes: HashMap::new() }
            });
            let _ = conn.quic.recv(&mut bytes[..len], quiche::RecvInfo { from, to: addr });
        }
        for conn in accepted.values_mut() {
            conn.quic.on_timeout();
            conn.act(early);
            while let Ok((len, info)) = conn.quic.send(&mut bytes) {
                socket.send_to(&bytes[..len], info.to).unwrap();
            }
        }
    }
}
