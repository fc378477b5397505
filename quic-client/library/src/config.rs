// SPDX-License-Identifier: Apache-2.0
//! Configuration of a client: [`Builder`].

use crate::flow::{Context, Hooks, Settings, tls, watch_interfaces};
use crate::local_paths::RequestedPaths;
use crate::tickets::{MemoryTickets, TicketStore};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_core::choice::{ChoiceConfig, PathId, Strategy, StrategyKind, StrategyMaker};
use weir_core::congestion::pbq::{Policy, built_in};
use weir_core::congestion::{CongestionControl, ControlKind, Setup};
use weir_core::connection::EcnMode;
use weir_core::paths::{SPARE_CIDS, Standby};
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_core::request::Alpn;
use weir_core::scone::SconeUse;
use weir_core::transport::Transport;
use weir_core::window::{Budget, WindowKind};
use weir_io::address::ZonedIp;
use weir_io::fault::Fault;
use weir_io::interfaces::Monitor;
use weir_io::udp::{Offload, RecvBatch, SendBatch, SocketOptions};
use weir_io::wait::{Waiter, moment};

/// QUIC datagrams that wait in the transport, in each direction, at most.
const MOST_DATAGRAMS: usize = 64;

/// Observer of a client's events. It is called on the client's thread and must not block.
///
/// Any `FnMut(u64, Instant, &Event)` is one.
pub trait Observer: Send {
    /// An event of a connection, counted from 0.
    fn event(&mut self, connection: u64, at: Instant, event: &Event);
}

impl<F: FnMut(u64, Instant, &Event) + Send> Observer for F {
    fn event(&mut self, connection: u64, at: Instant, event: &Event) {
        self(connection, at, event);
    }
}

/// Configuration of a client, and of its thread.
#[derive(Clone)]
pub struct Config {
    pub(crate) paths: Vec<String>,
    pub(crate) transport: Transport,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) most_running: usize,
    pub(crate) most_waiting: usize,
    pub(crate) bind: Option<String>,
    pub(crate) connect_to: Option<String>,
    sockets: SocketOptions,
    ecn: EcnMode,
    window: WindowKind,
    memory_budget_bytes: u64,
    ca: Option<PathBuf>,
    insecure: bool,
    choice: ChoiceConfig,
    standby: Standby,
    seed: Option<u64>,
    observer: Option<Arc<Mutex<dyn Observer>>>,
    tickets: Option<Arc<Mutex<dyn TicketStore>>>,
}

/// Settings of a [`Client`](crate::Client). The defaults are those of `weir-client`.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    pub(crate) config: Config,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            config: Config {
                paths: Vec::new(),
                transport: Transport {
                    alpn: vec![Alpn::H3],
                    cc: ControlKind::default(),
                    hystart: true,
                    timestamps: true,
                    scone: SconeUse::default(),
                    max_payload_bytes: 1350,
                    initial_window_packets: 10,
                    stream_window_bytes: 1 << 20,
                    max_stream_window_bytes: 16 << 20,
                    conn_window_bytes: 1536 << 10,
                    max_conn_window_bytes: 24 << 20,
                    idle_timeout: Duration::from_secs(30),
                },
                read_timeout: Some(Duration::from_secs(300)),
                most_running: 100,
                most_waiting: 1000,
                bind: None,
                connect_to: None,
                sockets: SocketOptions { buffer_bytes: 4 << 20, offload: Offload::Auto, device: None },
                ecn: EcnMode::Classic,
                window: WindowKind::Double,
                memory_budget_bytes: 64 << 20,
                ca: None,
                insecure: false,
                choice: ChoiceConfig::default(),
                standby: Standby::Validated,
                seed: None,
                observer: None,
                tickets: None,
            },
        }
    }
}

impl Builder {
    /// Adds a path: the name of an interface, a local address, or `auto` for all interfaces. Without any, the routing
    /// table chooses.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.config.paths.push(path.into());
        self
    }

    /// Strategy of path choice: a row of [`STRATEGIES`](weir_core::choice::STRATEGIES), or a [`StrategyKind`] of your own,
    /// which makes a [`Strategy`](weir_core::choice::Strategy).
    pub fn strategy(mut self, strategy: StrategyKind) -> Self {
        (self.config.choice.strategy, self.config.choice.maker) = (strategy, None);
        self
    }

    /// Strategy of path choice that a closure makes, once for each connection, on the client's thread.
    pub fn strategy_by(mut self, make: impl Fn(&ChoiceConfig) -> Box<dyn Strategy> + Send + Sync + 'static) -> Self {
        self.config.choice.maker = Some(StrategyMaker::new(make));
        self
    }

    /// All settings of path choice.
    pub fn choice(mut self, choice: ChoiceConfig) -> Self {
        self.config.choice = choice;
        self
    }

    /// When the paths that are not in use are validated.
    pub fn standby(mut self, standby: Standby) -> Self {
        self.config.standby = standby;
        self
    }

    /// Seed of the random choices; random without one.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// Congestion control of the requests: a row of [`CONTROLS`](weir_core::congestion::CONTROLS), or a [`ControlKind`] of
    /// your own, which makes a [`CongestionControl`].
    pub fn congestion(mut self, control: ControlKind) -> Self {
        self.config.transport.cc = control;
        self
    }

    /// Rule of the receive windows.
    pub fn window(mut self, window: WindowKind) -> Self {
        self.config.window = window;
        self
    }

    /// Receive windows of a stream, in bytes: at the start and at most.
    pub fn stream_window_bytes(mut self, start: u64, most: u64) -> Self {
        (self.config.transport.stream_window_bytes, self.config.transport.max_stream_window_bytes) = (start, most);
        self
    }

    /// Receive windows of a connection, in bytes: at the start and at most.
    pub fn connection_window_bytes(mut self, start: u64, most: u64) -> Self {
        (self.config.transport.conn_window_bytes, self.config.transport.max_conn_window_bytes) = (start, most);
        self
    }

    /// Sum of the receive windows that [`WindowKind::Weir`] may grant, over all connections, in bytes.
    pub fn memory_budget_bytes(mut self, bytes: u64) -> Self {
        self.config.memory_budget_bytes = bytes;
        self
    }

    /// Trusts the certificates in this PEM file instead of the system's.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.config.ca = Some(file.into());
        self
    }

    /// Accepts any certificate of the server. Anyone on the path can then read and change everything.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.config.insecure = insecure;
        self
    }

    /// Local address to send from, without paths. IPv6 of one link has its interface: `fe80::1%eth0`.
    pub fn bind(mut self, address: impl Into<String>) -> Self {
        self.config.bind = Some(address.into());
        self
    }

    /// Connects to this host, or `HOST:PORT`, instead of to the URL's. The certificate is checked for the URL's.
    pub fn connect_to(mut self, host: impl Into<String>) -> Self {
        self.config.connect_to = Some(host.into());
        self
    }

    /// Application protocols that are offered, in order of preference.
    pub fn alpn(mut self, alpn: Vec<Alpn>) -> Self {
        self.config.transport.alpn = alpn;
        self
    }

    /// Time without a packet after which a connection is given up.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.config.transport.idle_timeout = timeout;
        self
    }

    /// Time after which a request fails in which nothing of its bodies was sent or arrived; `None` for no limit. A
    /// program that does not read makes no progress either.
    pub fn read_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.config.read_timeout = timeout;
        self
    }

    /// Requests that are under way at once on a connection, and those that wait, at most.
    pub fn most_requests(mut self, running: usize, waiting: usize) -> Self {
        (self.config.most_running, self.config.most_waiting) = (running.max(1), waiting.max(1));
        self
    }

    /// ECN of the packets sent.
    pub fn ecn(mut self, ecn: EcnMode) -> Self {
        self.config.ecn = ecn;
        self
    }

    /// Transport options beyond those above.
    pub fn transport(mut self, change: impl FnOnce(&mut Transport)) -> Self {
        change(&mut self.config.transport);
        self
    }

    /// Socket options.
    pub fn sockets(mut self, change: impl FnOnce(&mut SocketOptions)) -> Self {
        change(&mut self.config.sockets);
        self
    }

    /// Observes the events of all connections.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.config.observer = Some(Arc::new(Mutex::new(observer)));
        self
    }

    /// Resumes sessions by tickets in this store: later connections to a server save the certificate, and a round trip for
    /// requests that are [early](crate::Request::early), also over another network. Early data needs one address of the
    /// server and one path: with others, attempts to connect compete.
    pub fn tickets(mut self, store: impl TicketStore + 'static) -> Self {
        self.config.tickets = Some(Arc::new(Mutex::new(store)));
        self
    }

    /// Resumes sessions by tickets in memory, or not.
    pub fn resumption(self, resumption: bool) -> Self {
        match resumption {
            true => self.tickets(MemoryTickets::default()),
            false => Builder { config: Config { tickets: None, ..self.config } },
        }
    }
}

impl Config {
    /// Address to send from.
    pub(crate) fn bind(&self) -> Result<Option<ZonedIp>, Fault> {
        let read =
            |text: &String| text.parse().map_err(|e| Fault::new(weir_io::fault::USAGE, format!("bind {text}: {e}")));
        self.bind.as_ref().map(read).transpose()
    }

    /// Requested paths.
    pub(crate) fn requested(&self) -> Result<RequestedPaths, Fault> {
        RequestedPaths::parse(&self.paths, "path")
    }

    /// The driver's state, without connections.
    pub(crate) fn context(&self) -> Result<(Context, Option<Monitor>), Fault> {
        let requested = self.requested()?;
        let waiter = Waiter::new().map_err(Fault::io("epoll"))?;
        let (monitor, interfaces) = match requested.is_empty() {
            true => (None, Vec::new()),
            false => watch_interfaces(&waiter).map(|(monitor, list)| (Some(monitor), list))?,
        };
        let mut config = tls::config(self.ca.as_deref(), self.insecure, &self.transport, "")?;
        if requested.is_empty() {
            // More would be for paths. quiche also issues no more than it accepts.
            config.set_active_connection_id_limit(1 + SPARE_CIDS as u64);
        }
        if self.tickets.is_some() {
            config.enable_early_data();
        }
        config.enable_dgram(true, MOST_DATAGRAMS, MOST_DATAGRAMS);
        let (start, start_us) = moment();
        let context = Context {
            settings: Settings {
                transport: self.transport.clone(),
                sockets: self.sockets.clone(),
                ecn: self.ecn,
                window: self.window,
                insecure: self.insecure,
                bind: self.bind()?,
                requested,
                standby: self.standby,
                seed: self.seed.map_or_else(|| weir_io::random::bytes().map(u64::from_ne_bytes), Ok)?,
                prefix: "",
            },
            config,
            hooks: Box::new(LibraryHooks { config: self.clone() }),
            interfaces,
            budget: Budget::shared(self.memory_budget_bytes),
            waiter,
            recv: RecvBatch::new(self.sockets.offload),
            send: SendBatch::default(),
            scratch: vec![0; 1 << 16],
            timebase: Timebase::new(start, start_us),
            recv_buffer_bytes: None,
        };
        Ok((context, monitor))
    }
}

struct LibraryHooks {
    config: Config,
}

impl LibraryHooks {
    /// A resumed connection has no certificate: tickets under other rules must not count.
    fn ticket_key(&self, authority: &str) -> String {
        let Config { insecure, ca, .. } = &self.config;
        format!("{authority} insecure={insecure} ca={ca:?}")
    }
}

impl Hooks for LibraryHooks {
    fn congestion(&mut self, label: u64, _: bool) -> Box<dyn CongestionControl> {
        let Transport { cc, max_payload_bytes, initial_window_packets, .. } = &self.config.transport;
        let setup = Setup {
            connection: label,
            packet_bytes: *max_payload_bytes,
            initial_window_bytes: initial_window_packets * max_payload_bytes,
            explore_seed: None,
        };
        // Weights of this crate, which its tests read.
        let weights = cc.profile.and_then(|profile| built_in(profile).ok());
        (cc.make)(&setup, weights.map(|weights| Policy { weights: Rc::new(weights), agent: None }))
    }

    fn choice(&mut self, seed: u64, _: &[(PathId, String)]) -> Result<ChoiceConfig, Fault> {
        Ok(ChoiceConfig { seed, ..self.config.choice.clone() })
    }

    fn ticket(&mut self, authority: &str) -> Option<Vec<u8>> {
        let key = self.ticket_key(authority);
        self.config.tickets.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take(&key)
    }

    fn new_ticket(&mut self, authority: &str, ticket: &[u8]) {
        let key = self.ticket_key(authority);
        if let Some(store) = &self.config.tickets {
            store.lock().unwrap_or_else(PoisonError::into_inner).put(&key, ticket);
        }
    }

    fn observes(&self) -> bool {
        self.config.observer.is_some()
    }

    fn event(&mut self, label: u64, at: Instant, event: &Event) -> Result<(), Fault> {
        if let Some(observer) = &self.config.observer {
            observer.lock().unwrap_or_else(PoisonError::into_inner).event(label, at, event);
        }
        Ok(())
    }
}
