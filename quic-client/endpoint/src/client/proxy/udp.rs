// SPDX-License-Identifier: Apache-2.0
//! UDP ASSOCIATE: datagrams of a local program, each destination's in a tunnel of its own (CONNECT-UDP, RFC 9298).

use super::destination::{Destination, Host};
use super::relay::{OpenError, answered};
use super::socks::{self, code};
use super::tunnel::Traffic;
use super::{Ended, Shared};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use weir_core::backoff::{Backoff, Schedule};

/// Destinations of one program at once; a further one takes the place of the one that was idle for longest.
const MOST_DESTINATIONS: usize = 64;
/// Pause after which a destination's tunnel ends. RFC 9298 6: at least two minutes.
const IDLE: Duration = Duration::from_secs(120);
/// Datagrams for the program that wait at most; others are dropped.
const MOST_WAITING: usize = 256;
/// Datagrams that wait for a tunnel at most.
const MOST_EARLY: usize = 16;
/// Largest datagram of a program, with its header.
const MOST_BYTES: usize = 1 << 16;
/// Waits before a tunnel is opened again: it was refused, its target answered by ICMP, or the relay was lost.
const WAITS: Schedule = Schedule { first: Duration::from_millis(250), cap: Duration::from_secs(5) };

/// Datagrams for the program, with their senders.
type ToProgram = mpsc::Sender<(Destination, Bytes)>;

/// A destination's tunnel.
struct Flow {
    to_relay: mpsc::Sender<Bytes>,
    task: AbortHandle,
    last: Instant,
    begun: Instant,
    backoff: Backoff,
    /// The tunnel has ended, and may be opened again then.
    again_at: Option<Instant>,
}

impl Flow {
    /// Opens a tunnel.
    fn new(shared: &Rc<Shared>, to: &Destination, to_program: &ToProgram, backoff: Backoff) -> Flow {
        let (to_relay, datagrams) = mpsc::channel(MOST_EARLY);
        let task = tokio::task::spawn_local(tunnel(Rc::clone(shared), to.clone(), datagrams, to_program.clone()));
        let now = Instant::now();
        Flow { to_relay, task: task.abort_handle(), last: now, begun: now, backoff, again_at: None }
    }

    /// Whether the tunnel has ended, and the wait after it.
    fn is_due_again(&mut self) -> bool {
        let now = Instant::now();
        let Flow { backoff, begun, .. } = self;
        let wait = || now + backoff.wait(begun.elapsed(), fastrand::f64());
        self.task.is_finished() && *self.again_at.get_or_insert_with(wait) <= now
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves a program that asked for a relay of UDP, until it closes its connection.
pub async fn serve(shared: &Rc<Shared>, stream: &mut TcpStream, port: Option<u16>) -> Ended {
    let traffic = Traffic::new();
    let outcome = relay(shared, stream, port, &traffic).await.unwrap_or("local-reset");
    let (up_bytes, down_bytes) = traffic.bytes();
    Ended { outcome, up_bytes, down_bytes }
}

async fn relay(
    shared: &Rc<Shared>,
    stream: &mut TcpStream,
    port: Option<u16>,
    traffic: &Traffic,
) -> io::Result<&'static str> {
    let client = stream.peer_addr()?.ip();
    let socket = UdpSocket::bind((stream.local_addr()?.ip(), 0)).await?;
    let bound = socket.local_addr()?;
    // A socket for both families has IPv4 addresses inside IPv6 ones, which a program of IPv4 can't use.
    let bound = Destination { host: Host::Address(bound.ip().to_canonical()), port: bound.port() };
    stream.write_all(&socks::answer(code::SUCCEEDED, &bound)).await?;

    // Only this program: its address is that of its connection, its port the first one that sends.
    let mut program: Option<SocketAddr> = port.map(|port| (client, port).into());
    let mut flows: BTreeMap<Destination, Flow> = BTreeMap::new();
    let (sender, mut from_relay) = mpsc::channel(MOST_WAITING);
    let mut bytes = vec![0; MOST_BYTES];
    let mut control = [0; 256];
    let mut tick = interval(IDLE / 8);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Bytes on the connection have no meaning.
            read = stream.read(&mut control) => if read? == 0 {
                return Ok("complete");
            },
            received = socket.recv_from(&mut bytes) => {
                // An error is that of an earlier datagram (ICMP).
                let Ok((len, from)) = received else { continue };
                let known = program.unwrap_or(from);
                if from != known || from.ip() != client {
                    continue;
                }
                let Some((to, payload)) = socks::datagram(&bytes[..len]) else { continue };
                program = Some(from);
                traffic.add_up(payload.len());
                pass(shared, &mut flows, to, payload, &sender);
            }
            Some((from, payload)) = from_relay.recv() => {
                let payload: Bytes = payload;
                if let Some(program) = program {
                    traffic.add_down(payload.len());
                    let _ = socket.send_to(&socks::datagram_from(&from, &payload), program).await;
                }
                if let Some(flow) = flows.get_mut(&from) {
                    flow.last = Instant::now();
                }
            }
            _ = tick.tick() => flows.retain(|_, flow| flow.last.elapsed() < IDLE),
            () = traffic.idle(shared.idle) => return Ok("idle"),
            () = shared.stopped() => return Ok("stopped"),
        }
    }
}

/// Passes a datagram to its destination's tunnel, which is opened for the first one.
fn pass(
    shared: &Rc<Shared>,
    flows: &mut BTreeMap<Destination, Flow>,
    to: Destination,
    payload: &[u8],
    to_program: &ToProgram,
) {
    if !flows.contains_key(&to) {
        if flows.len() >= MOST_DESTINATIONS
            && let Some(oldest) = flows.iter().min_by_key(|(_, flow)| flow.last).map(|(to, _)| to.clone())
        {
            flows.remove(&oldest);
        }
        let backoff = Backoff::new(WAITS);
        flows.insert(to.clone(), Flow::new(shared, &to, to_program, backoff));
    }
    if let Some(flow) = flows.get_mut(&to) {
        if flow.is_due_again() {
            *flow = Flow::new(shared, &to, to_program, flow.backoff.clone());
        }
        // Datagrams that come before that are dropped.
        flow.last = Instant::now();
        let mut whole = BytesMut::with_capacity(1 + payload.len());
        // Context 0: the payload of UDP (RFC 9298 5).
        whole.extend_from_slice(&[0]);
        whole.extend_from_slice(payload);
        let _ = flow.to_relay.try_send(whole.freeze());
    }
}

/// One destination's tunnel.
async fn tunnel(shared: Rc<Shared>, to: Destination, mut datagrams: mpsc::Receiver<Bytes>, to_program: ToProgram) {
    let opened = async {
        let (writer, pending) = shared.relay.open_udp(&to).await?;
        // A relay may drop datagrams that come before its socket is ready, so they wait for the answer.
        Ok::<_, OpenError>((writer, answered(pending).await?))
    };
    let (writer, response) = match opened.await {
        Ok(opened) => opened,
        Err(e) => return shared.failed(&e, &to),
    };
    let up = async {
        while let Some(payload) = datagrams.recv().await {
            writer.send_datagram(payload);
        }
    };
    let down = async {
        while let Ok(Some(payload)) = response.datagram().await {
            // Other contexts are extensions, which nobody asked for.
            if payload.first() == Some(&0) {
                let _ = to_program.try_send((to.clone(), payload.slice(1..)));
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
