// SPDX-License-Identifier: Apache-2.0
//! The gRPC server on a thread of its own.
use super::audit::Audit;
use super::proto::p4::v1::p4_runtime_server::P4RuntimeServer;
use super::service::Server;
use super::service::control::{Control, InitialPipeline};
use super::transport::accept::{AcceptBackoff, ConnectionLimit};
use super::transport::access::Access;
use super::transport::admission::Admission;
use super::transport::tls::Tls;
use super::transport::with_cause;
use crate::device::Event;
use crate::handle::Handle;
use crate::system::listener_at;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::server::TcpIncoming;
use tracing::{error, warn};

/// Connections at most; each of them has its own queue.
const MAX_CONNECTIONS: usize = 512;
const MAX_REQUESTS_PER_CONNECTION: u32 = 32;
/// A controller that is silent for as long as both together is closed.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lets an upload of megabytes flow without a round trip for each 64 kB.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Half of it is what h2 lets small messages that wait cost, counted at 256 bytes each, before it ends the connection: a
/// burst of 16,000 packets from a controller must not.
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// Increment of the server threads' nice value: of a core that they share with the packet thread they get 3 %
/// (sched(7): 1024 to 36), and all of it while no packet waits.
const NICER: i32 = 15;

/// Configuration of the server.
pub struct ServeConfig {
    /// Where it listens; port 0 is any free one.
    pub addr: SocketAddr,
    /// The id that requests must name.
    pub device_id: u64,
    /// Without it there is no packet I/O.
    pub cpu_port: Option<u32>,
    /// None: connections are not encrypted.
    pub tls: Option<Tls>,
    /// Memory limit of a program's registers, counters and meters in all.
    pub max_state_bytes: u64,
    /// Rights of clients, by their certificates; none: all who can connect may do all.
    pub access: Option<Access>,
}

/// A server that runs until this is dropped.
pub struct Running {
    /// Where it listens; the port is the real one when 0 was given.
    pub addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed where it happened.
            let _ = thread.join();
        }
    }
}

/// An address that is listened on; connections wait until [`Listening::serve`].
pub struct Listening {
    config: ServeConfig,
    builder: tonic::transport::Server,
    listener: std::net::TcpListener,
    addr: SocketAddr,
}

/// Takes the address, with the rights that it needs: to serve needs none.
///
/// # Errors
/// Names the missing resource: the address, the certificate.
pub fn listen(config: ServeConfig) -> Result<Listening, String> {
    let cannot = |e: &dyn std::fmt::Display| format!("P4Runtime server on {}: {e}", config.addr);
    let mut builder = tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_REQUESTS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if let Some(tls) = &config.tls {
        builder = builder.tls_config(tls.config()?).map_err(|e| cannot(&with_cause("TLS", &e)))?;
    }
    let listener = std::net::TcpListener::bind(config.addr).map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => {
            cannot(&format!("{}; end it, or choose another address by --grpc-server-addr", listener_at(config.addr)))
        }
        _ => cannot(&e),
    })?;
    listener.set_nonblocking(true).map_err(|e| cannot(&e))?;
    let addr = listener.local_addr().map_err(|e| cannot(&e))?;
    Ok(Listening { config, builder, listener, addr })
}

impl Listening {
    /// Starts the server; `audit` is where changes are reported.
    ///
    /// # Errors
    /// Names the missing resource: a thread, or the program's P4Info.
    pub fn serve(
        self,
        handle: Handle,
        events: mpsc::Receiver<Event>,
        initial: Option<InitialPipeline>,
        audit: Audit,
    ) -> Result<Running, String> {
        let identity = (self.config.device_id, self.config.cpu_port, self.config.max_state_bytes);
        let control = Control::new(identity, handle, initial, audit)
            .map_err(|e| format!("P4Runtime server on {}: {e}", self.addr))?;
        self.serve_state(&control, events)
    }

    /// As [`Listening::serve`], for state that another server serves too.
    ///
    /// # Errors
    /// Names the missing resource: a thread.
    pub fn serve_state(self, control: &Control, events: mpsc::Receiver<Event>) -> Result<Running, String> {
        let Listening { config, mut builder, listener, addr } = self;
        let cannot = |e: &dyn std::fmt::Display| format!("P4Runtime server on {addr}: {e}");
        let service = control.0.clone();
        let audit = control.audit_log();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| cannot(&e))?;
        let (stop, stopped) = oneshot::channel();
        let run = async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(l) => ConnectionLimit::new(
                    AcceptBackoff::new(TcpIncoming::from(l).with_nodelay(Some(true))),
                    MAX_CONNECTIONS,
                ),
                Err(e) => return error!("P4Runtime server on {addr}: {e}"),
            };
            let pump = tokio::spawn(service.clone().pump(events));
            let idle = tokio::spawn(service.clone().watch_idle());
            let server = Admission::new(&P4RuntimeServer::new(Server(service)), config.access, audit);
            // Streams stay open for as long as controllers like, so there is no waiting for them at the end.
            tokio::select! {
                end = builder.add_service(server).serve_with_incoming(listener) => {
                    if let Err(e) = end {
                        error!("P4Runtime server on {addr} has ended: {}", with_cause("", &e));
                    }
                }
                _ = stopped => {}
            }
            pump.abort();
            idle.abort();
        };
        let thread = std::thread::Builder::new()
            .name("p4runtime".into())
            .spawn(move || {
                // In Linux this is a thread's own; those that it starts inherit it.
                if let Err(e) = rustix::process::nice(NICER) {
                    warn!("P4Runtime server on {addr}: its thread stays as urgent as packets: {e}");
                }
                runtime.block_on(run);
                // A compilation that is still under way must not keep the switch from ending.
                runtime.shutdown_background();
            })
            .map_err(|e| cannot(&e))?;
        Ok(Running { addr, stop: Some(stop), thread: Some(thread) })
    }
}
