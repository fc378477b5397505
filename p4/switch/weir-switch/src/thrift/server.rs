// SPDX-License-Identifier: Apache-2.0
//! The listener, and a thread for each connection.
use super::connection::{Timed, run};
use super::shared::{Shared, Switch};
use crate::p4runtime::Control;
use crate::system::listener_at;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, warn};

/// Connections at once.
const MAX_CONNECTIONS: usize = 64;
/// Wait after an error of the listener, such as no free file descriptor.
const BACKOFF: Duration = Duration::from_millis(100);
/// As the threads of P4Runtime.
const NICER: i32 = 15;

/// Serves connections.
struct Server {
    shared: Shared,
    connections: Mutex<Connections>,
}

/// Open connections by number.
#[derive(Default)]
struct Connections {
    open: BTreeMap<u64, Connection>,
    next: u64,
}

struct Connection {
    stream: TcpStream,
    /// Since when it waits for a request.
    idle: Option<Instant>,
}

impl Connections {
    /// Adds a connection; the longest idle one is closed when there are too many. `None`: there is no idle one.
    fn add(&mut self, stream: TcpStream) -> Option<u64> {
        if self.open.len() >= MAX_CONNECTIONS {
            let idle = self.open.iter().filter_map(|(n, c)| Some((c.idle?, *n))).min();
            let closed = self.open.remove(&idle?.1)?;
            // It may have ended by itself.
            let _ = closed.stream.shutdown(Shutdown::Both);
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number, Connection { stream, idle: None });
        Some(number)
    }
}

impl Server {
    fn connections(&self) -> std::sync::MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let Some(number) = self.connections().add(stream.try_clone()?) else { return Ok(()) };
        let server = self.clone();
        let serve = move || {
            let idle = |waits: bool| {
                if let Some(c) = server.connections().open.get_mut(&number) {
                    c.idle = waits.then(Instant::now);
                }
            };
            // Ends of clients and time-outs are no faults of the switch.
            if let Err(e) = run(&mut Timed::new(stream), from, &server.shared, idle) {
                tracing::debug!("Thrift: {from}: {e}");
            }
            server.connections().open.remove(&number);
        };
        let started = std::thread::Builder::new().name("thrift-client".into()).spawn(serve);
        if started.is_err() {
            self.connections().open.remove(&number);
        }
        started.map(drop)
    }
}

/// An address that is listened on; connections wait until [`Listening::serve`].
pub struct Listening {
    listener: TcpListener,
    addr: SocketAddr,
}

/// Takes a port of 127.0.0.1; 0 is any free one.
///
/// # Errors
/// The port can't be had.
pub fn listen(port: u16) -> Result<Listening, String> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cannot = |e: io::Error| match e.kind() {
        io::ErrorKind::AddrInUse => {
            let who = listener_at(addr);
            format!("Thrift server on {addr}: {who}; end it, or choose another port by --thrift-port")
        }
        _ => format!("Thrift server on {addr}: {e}"),
    };
    let listener = TcpListener::bind(addr).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let addr = listener.local_addr().map_err(cannot)?;
    Ok(Listening { listener, addr })
}

/// A server that runs until this is dropped.
pub struct Running {
    /// Where it listens.
    pub addr: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It fails only when the counter of the eventfd is full, after 2^64 - 2 of them.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed where it happened.
            let _ = thread.join();
        }
    }
}

impl Listening {
    /// Starts the server.
    ///
    /// # Errors
    /// Names the missing resource.
    pub fn serve(self, control: Control, switch: Switch) -> Result<Running, String> {
        let Listening { listener, addr } = self;
        let cannot = |e: io::Error| format!("Thrift server on {addr}: {e}");
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| cannot(e.into()))?);
        let stopped = stop.clone();
        let server = Arc::new(Server { shared: Shared::new(control, switch, addr), connections: Mutex::default() });
        let serve = move || {
            // In Linux this is a thread's own; those that it starts inherit it.
            if let Err(e) = rustix::process::nice(NICER) {
                warn!("Thrift server on {addr}: its threads stay as urgent as packets: {e}");
            }
            accept(&listener, &stopped, &server);
            for connection in server.connections().open.values() {
                // It may have ended by itself.
                let _ = connection.stream.shutdown(Shutdown::Both);
            }
        };
        let thread = std::thread::Builder::new().name("thrift".into()).spawn(serve).map_err(cannot)?;
        Ok(Running { addr, stop, thread: Some(thread) })
    }
}

/// Accepts connections until `stop` is readable.
fn accept(listener: &TcpListener, stop: &OwnedFd, server: &Arc<Server>) {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return error!("Thrift server on {} has ended: {e}", server.shared.addr),
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        let result = match listener.accept() {
            Ok((stream, from)) => server.accept(stream, from),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = result {
            warn!("Thrift server on {}: a connection was not accepted: {e}", server.shared.addr);
            std::thread::sleep(BACKOFF);
        }
    }
}
