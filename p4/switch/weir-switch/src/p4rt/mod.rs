// SPDX-License-Identifier: Apache-2.0
//! The P4Runtime 1.4 server. [`serve`] starts it on a thread of its own; it reaches the switch by [`Handle`] alone, so
//! that whatever controllers do, packets go on.
//!
//! Sections named in comments are those of the P4Runtime specification, version 1.4.
// controller_metadata, egress_port and role ids are deprecated, yet controllers send them.
#![allow(deprecated)]

mod accept;
mod admit;
mod answer;
mod bytes;
mod config;
mod digests;
mod fail;
mod keys;
mod p4info;
mod packets;
mod read;
mod roles;
mod service;
mod tls;
mod write;

/// Generated from the descriptors by build.rs.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
#[rustfmt::skip]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/p4runtime.rs"));
}

use crate::device::{Device, Event};
use crate::handle::Handle;
use config::Config;
use service::{Server, Service};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::server::TcpIncoming;
use tracing::error;
use weir_p4::bytecode::program::Program;

pub use tls::{Pem, Tls};

/// A panic while it was held has ended what was being done, not the server.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The version of the interface that is served.
pub const API_VERSION: &str = "1.4.0";

/// Connections at most; each of them has what may wait on it.
const MAX_CONNECTIONS: usize = 512;
const MAX_REQUESTS_PER_CONNECTION: u32 = 32;
/// A controller that is silent for as long as both together is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lets an upload of megabytes flow without a round trip for each 64 kB.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Half of it is what h2 lets small messages that wait cost, counted at 256 bytes each, before it ends the connection: a
/// burst of 16,000 packets from a controller must not.
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

#[derive(Clone, Debug)]
pub struct ServeConfig {
    pub addr: SocketAddr,
    pub device_id: u64,
    /// Without it there is no packet I/O.
    pub cpu_port: Option<u32>,
    pub tls: Option<Tls>,
    /// What registers, counters and meters of a program may take in all.
    pub max_state_bytes: u64,
}

/// What a program's arrays may take unless the operator says otherwise.
pub const STATE_BYTES: u64 = 256 << 20;

/// Sees whether the arrays of a program fit.
///
/// # Errors
/// How much they take, and which takes the most.
pub fn check_state(program: &Program, max_bytes: u64) -> Result<(), String> {
    const MIB: f64 = (1 << 20) as f64;
    let arrays = program.array_bytes();
    let total = arrays.iter().fold(0u64, |n, a| n.saturating_add(a.bytes));
    let Some(most) = arrays.iter().max_by_key(|a| a.bytes).filter(|_| total > max_bytes) else { return Ok(()) };
    Err(format!(
        "the program's registers, counters and meters take {:.1} MiB in all ({} {} alone {:.1}); the most is {:.1} MiB, \
         which --max-state-mib changes",
        total as f64 / MIB,
        most.kind,
        most.name,
        most.bytes as f64 / MIB,
        max_bytes as f64 / MIB
    ))
}

/// The program a switch was started with, for controllers to read.
pub struct InitialPipeline {
    pub program: Arc<Program>,
    /// As [`Device::set_pipeline`] gave it.
    pub generation: u64,
    /// The program's text.
    pub device_config: Vec<u8>,
}

/// A server that runs until this is dropped.
pub struct Running {
    /// Where it listens; the port is the real one when 0 was asked for.
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

/// Starts the server.
///
/// # Errors
/// Says what can't be had: the address, the certificate, a thread.
pub fn serve(
    config: ServeConfig,
    handle: Handle,
    events: mpsc::Receiver<Event>,
    initial: Option<InitialPipeline>,
) -> Result<Running, String> {
    let cannot = |e: &dyn std::fmt::Display| format!("P4Runtime server on {}: {e}", config.addr);
    let initial = match initial {
        Some(p) => {
            let c = Config::new(p.program, p.device_config.into()).map_err(|e| cannot(&e))?;
            Some((p.generation, c))
        }
        None => None,
    };
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
        std::io::ErrorKind::AddrInUse => cannot(&"the address is in use; choose another by --grpc-server-addr"),
        _ => cannot(&e),
    })?;
    listener.set_nonblocking(true).map_err(|e| cannot(&e))?;
    let addr = listener.local_addr().map_err(|e| cannot(&e))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| cannot(&e))?;
    let service = Arc::new(Service::new(&config, handle, initial));
    let (stop, stopped) = oneshot::channel();
    let run = async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(l) => {
                accept::Few::new(accept::Patient::new(TcpIncoming::from(l).with_nodelay(Some(true))), MAX_CONNECTIONS)
            }
            Err(e) => return error!("P4Runtime server on {addr}: {e}"),
        };
        let pump = tokio::spawn(service.clone().pump(events));
        let server = admit::Admission::new(&pb::p4::v1::p4_runtime_server::P4RuntimeServer::new(Server(service)));
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
    };
    let thread = std::thread::Builder::new()
        .name("p4runtime".into())
        .spawn(move || {
            runtime.block_on(run);
            // A compilation that is still under way must not keep the switch from ending.
            runtime.shutdown_background();
        })
        .map_err(|e| cannot(&e))?;
    Ok(Running { addr, stop: Some(stop), thread: Some(thread) })
}

/// A program's P4Info as the binary message that controllers read.
pub fn p4info_binary(info: &weir_p4::p4info::P4Info) -> Vec<u8> {
    prost::Message::encode_to_vec(&p4info::message(info))
}

/// tonic's errors say little themselves; the reason is in what caused them.
fn with_cause(what: &str, e: &dyn std::error::Error) -> String {
    let mut text = if what.is_empty() { e.to_string() } else { format!("{what}: {e}") };
    let mut cause = e.source();
    while let Some(c) = cause {
        text = format!("{text}: {c}");
        cause = c.source();
    }
    text
}

/// Body of the fuzz target `grpc_write`: `data` is taken for a message of a controller and applied to a device without
/// a server between. The first byte says which kind of message.
pub fn fuzz(device: &mut Device, data: &[u8]) {
    service::fuzz(device, data);
}
