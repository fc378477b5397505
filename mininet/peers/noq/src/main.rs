// SPDX-License-Identifier: Apache-2.0
//! A server on noq for the lab: answers `GET /bytes/N`, `/bytes/unlimited` and `/bytes/N/every/MS` over hq-interop with a congestion
//! control of noq's, and leaves the same samples as `weir-server --stats`.

use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::crypto::rustls::QuicServerConfig;
use noq::{Connection, Endpoint, EndpointConfig, Incoming, PathId, RecvStream, SendStream, ServerConfig, TokioRuntime};
use noq::{TransportConfig, VarInt};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: noq-server --listen ADDRESS:PORT --max-payload BYTES [--cc cubic|bbr3|reno] [--stats FILE]
                  [--stats-every-ms N]";
/// RFC 9000 has no code for it; what the project's other servers say.
const NOT_FOUND: u32 = 0x404;
/// More than any link of the lab holds, so that the congestion window is what bounds a sender.
const SEND_WINDOW_BYTES: u64 = 64 << 20;
const LONGEST_REQUEST_BYTES: usize = 1 << 12;

struct Args {
    listen: SocketAddr,
    cc: String,
    max_payload: u16,
    stats: Option<PathBuf>,
    stats_every_ms: u64,
}

impl Args {
    fn parse() -> Outcome<Args> {
        let mut words = pico_args::Arguments::from_env();
        let args = Args {
            listen: words.value_from_str("--listen")?,
            cc: words.opt_value_from_str("--cc")?.unwrap_or_else(|| "cubic".to_owned()),
            max_payload: words.value_from_str("--max-payload")?,
            stats: words.opt_value_from_str("--stats")?,
            stats_every_ms: words.opt_value_from_str("--stats-every-ms")?.unwrap_or(100),
        };
        if let Some(word) = words.finish().first() {
            return Err(format!("{}: not known", word.display()).into());
        }
        if !(1200..=1472).contains(&args.max_payload) {
            return Err(format!("--max-payload {}: write 1200 to 1472", args.max_payload).into());
        }
        if args.stats_every_ms == 0 {
            return Err("--stats-every-ms 0: write 1 or more".into());
        }
        Ok(args)
    }

    fn congestion(&self) -> Outcome<Arc<dyn ControllerFactory + Send + Sync>> {
        Ok(match self.cc.as_str() {
            "bbr3" => Arc::new(Bbr3Config::default()),
            "cubic" => Arc::new(CubicConfig::default()),
            "reno" => Arc::new(NewRenoConfig::default()),
            other => return Err(format!("--cc {other}: write bbr3, cubic or reno").into()),
        })
    }
}

/// A connection, and what of it is in its samples.
struct Flow {
    connection: Connection,
    label: Option<u64>,
    bytes: Arc<AtomicU64>,
}

/// All connections by their ordinals, and the samples of them.
struct Flows {
    open: BTreeMap<u64, Flow>,
    next: u64,
    stats: File,
    began: Instant,
    began_us: u64,
}

impl Flows {
    fn t_us(&self) -> u64 {
        self.began_us + self.began.elapsed().as_micros() as u64
    }

    /// A line for each connection that a request has named.
    fn sample(&mut self) -> Outcome {
        let (t_us, mut lines) = (self.t_us(), String::new());
        for (conn, flow) in &self.open {
            let (Some(label), Some(path)) = (flow.label, flow.connection.path_stats(PathId::ZERO)) else {
                continue;
            };
            // Before the first acknowledgement the round trip is a guess, which readers know by the null.
            let measured = path.frame_rx.acks + path.frame_rx.path_acks > 0;
            let rtt_us = path.rtt.as_micros();
            let least = if measured { rtt_us.to_string() } else { "null".to_owned() };
            lines += &format!(
                "{{\"k\":\"flow\",\"t_us\":{t_us},\"side\":\"server\",\"flow\":{label},\"conn\":{conn},\"bytes\":{},\
                 \"rtt_us\":{rtt_us},\"min_rtt_us\":{least},\"cwnd_bytes\":{},\"lost\":{},\"sent\":{},\"recv\":{}}}\n",
                flow.bytes.load(Ordering::Relaxed),
                path.cwnd,
                path.lost_packets,
                path.sent_packets,
                path.udp_rx.datagrams,
            );
        }
        Ok(self.stats.write_all(lines.as_bytes())?)
    }

    /// The last line of a connection.
    fn end(&mut self, conn: u64, reason: &str) -> Outcome {
        let Some(Flow { label: Some(label), bytes, .. }) = self.open.remove(&conn) else { return Ok(()) };
        let (t_us, bytes) = (self.t_us(), bytes.load(Ordering::Relaxed));
        Ok(writeln!(
            self.stats,
            "{{\"k\":\"end\",\"t_us\":{t_us},\"side\":\"server\",\"flow\":{label},\"conn\":{conn},\"bytes\":{bytes},\
             \"reason\":\"{reason}\"}}"
        )?)
    }
}

type Shared = Arc<Mutex<Flows>>;

fn locked(flows: &Shared) -> std::sync::MutexGuard<'_, Flows> {
    flows.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Parsed request.
struct Asked {
    bytes: u64,
    /// So many again and again, this far apart.
    every: Option<Duration>,
    label: Option<u64>,
}

fn asked(line: &str) -> Option<Asked> {
    let (count, query) =
        line.trim_end().strip_prefix("GET /bytes/").map(|rest| rest.split_once('?').unwrap_or((rest, "")))?;
    let label = query.strip_prefix("flow=").and_then(|label| label.parse().ok());
    let (count, every) = match count.split_once("/every/") {
        Some((count, ms)) => (count, Some(Duration::from_millis(ms.parse().ok().filter(|ms| *ms > 0)?))),
        None => (count, None),
    };
    let bytes = if count == "unlimited" { u64::MAX } else { count.parse().ok()? };
    Some(Asked { bytes, every, label })
}

async fn answer(mut send: SendStream, mut recv: RecvStream, conn: u64, flows: Shared) -> Outcome {
    static ZEROS: [u8; 1 << 14] = [0; 1 << 14];
    let line = String::from_utf8(recv.read_to_end(LONGEST_REQUEST_BYTES).await?)?;
    let Some(asked) = asked(&line) else {
        return Ok(send.reset(NOT_FOUND.into())?);
    };
    let bytes = {
        let mut flows = locked(&flows);
        let Some(flow) = flows.open.get_mut(&conn) else { return Ok(()) };
        flow.label = flow.label.or(asked.label);
        flow.bytes.clone()
    };
    let mut due = Instant::now();
    loop {
        let mut left = asked.bytes;
        while left > 0 {
            let part = left.min(ZEROS.len() as u64);
            send.write_all(&ZEROS[..part as usize]).await?;
            bytes.fetch_add(part, Ordering::Relaxed);
            left -= part;
        }
        let Some(every) = asked.every else { return Ok(send.finish()?) };
        due += every;
        tokio::time::sleep_until(due).await;
    }
}

async fn serve(incoming: Incoming, flows: Shared) -> Outcome {
    let connection = incoming.await?;
    let conn = {
        let mut flows = locked(&flows);
        let conn = flows.next;
        flows.next += 1;
        let flow = Flow { connection: connection.clone(), label: None, bytes: Arc::default() };
        flows.open.insert(conn, flow);
        conn
    };
    // The client's leaving is how each connection ends, also in the middle of an answer.
    while let Ok((send, recv)) = connection.accept_bi().await {
        let flows = flows.clone();
        tokio::spawn(async move {
            let _ = answer(send, recv, conn, flows).await;
        });
    }
    locked(&flows).end(conn, "closed by client")
}

fn endpoint(args: &Args) -> Outcome<Endpoint> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![b"hq-interop".to_vec()];
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(args.congestion()?)
        .initial_mtu(args.max_payload)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false) // queues see packets as a wire would
        .send_window(SEND_WINDOW_BYTES)
        .max_concurrent_bidi_streams(VarInt::from_u32(100));
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let socket = UdpSocket::bind(args.listen).map_err(|e| format!("--listen {}: {e}", args.listen))?;
    Ok(Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?)
}

/// `CLOCK_MONOTONIC`, in microseconds.
fn monotonic_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec for the call to fill in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

async fn run(args: Args) -> Outcome {
    let endpoint = endpoint(&args)?;
    let path = args.stats.unwrap_or_else(|| "/dev/null".into());
    let stats = File::create(&path).map_err(|e| format!("--stats {}: {e}", path.display()))?;
    let began = Instant::now();
    let flows = Flows { open: BTreeMap::new(), next: 0, stats, began, began_us: monotonic_us() };
    let flows: Shared = Arc::new(Mutex::new(flows));
    let every = Duration::from_millis(args.stats_every_ms);
    let mut ticks = tokio::time::interval_at(began + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut term = signal(SignalKind::terminate())?;
    println!("listening {}", endpoint.local_addr()?);
    std::io::stdout().flush()?;
    loop {
        tokio::select! {
            biased;
            _ = term.recv() => break,
            _ = ticks.tick() => locked(&flows).sample()?,
            Some(incoming) = endpoint.accept() => {
                let flows = flows.clone();
                tokio::spawn(async move {
                    if let Err(e) = serve(incoming, flows).await {
                        eprintln!("noq-server: {e}");
                    }
                });
            }
        }
    }
    let mut flows = locked(&flows);
    let open: Vec<u64> = flows.open.keys().copied().collect();
    open.into_iter().try_for_each(|conn| flows.end(conn, "closed by us"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let args = match Args::parse() {
        Ok(args) => args,
        Err(e) => {
            eprintln!("noq-server: {e}\n{USAGE}");
            return 2.into();
        }
    };
    match run(args).await {
        Ok(()) => 0.into(),
        Err(e) => {
            eprintln!("noq-server: {e}");
            1.into()
        }
    }
}
