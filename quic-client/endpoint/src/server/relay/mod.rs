// SPDX-License-Identifier: Apache-2.0
//! `--relay`: tunnels to other hosts (MASQUE). [`policy`] decides on destinations, [`tokens`] on clients, [`resolver`]
//! turns names into addresses, [`target`] is a tunnel's connection, and [`sockets`] wakes it.

mod options;
mod policy;
mod resolver;
mod sockets;
mod target;
mod tokens;

use super::quota::Quota;
use crate::shared::fault::Fault;
pub use options::RelayOptions;
use policy::Policy;
use resolver::Resolver;
use sockets::Sockets;
use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use target::{Target, refused};
pub use tokens::Tokens;
use url::Host;
use weir_core::server::TunnelRequest;
use weir_core::server::admission::Source;
use weir_core::server::resources::{Answer, Tunnel};

/// The machine's addresses are read again after this time.
const OWN_ADDRESSES_LAST: Duration = Duration::from_secs(1);

/// The machine's addresses, and when they were read.
type OwnAddresses = Option<(Instant, Rc<[IpAddr]>)>;

/// The relay.
pub struct Relay {
    policy: Policy,
    tokens: Tokens,
    resolver: Resolver,
    sockets: Sockets,
    quota: Quota,
    own: RefCell<OwnAddresses>,
}

impl Relay {
    /// For clients with one of these tokens, with the destinations and limits of the command line.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(tokens: Tokens, options: &RelayOptions) -> Result<Relay, Fault> {
        let resolver = Resolver::start().map_err(Fault::io("--relay: threads"))?;
        let sockets = Sockets::new(&resolver).map_err(Fault::io("--relay: epoll"))?;
        let policy = Policy::new(options.relay_allow.clone());
        let quota = Quota::new(options.max_tunnels, options.max_tunnels_per_source);
        Ok(Relay { policy, tokens, resolver, sockets, quota, own: RefCell::default() })
    }

    /// Readable when [`Relay::poll`] has something to do.
    pub fn fd(&self) -> RawFd {
        self.sockets.fd()
    }

    /// Notes what happened to tunnels; `wake` is given the ordinals of their connections.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn poll(&self, wake: impl FnMut(u64)) -> io::Result<()> {
        self.sockets.poll(&self.resolver, wake)
    }

    /// Begins a tunnel for a client of a connection.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub fn tunnel(
        self: &Rc<Self>,
        request: &TunnelRequest,
        connection: u64,
        source: Source,
        now: Instant,
    ) -> Result<Box<dyn Tunnel>, Answer> {
        if !self.tokens.accept(request.authorization.as_deref()) {
            let answer =
                refused(407, "http_request_denied", "proxy-authorization: expected Bearer and a token of this relay");
            return Err(answer.with("proxy-authenticate", "Bearer"));
        }
        if !self.policy.may_resolve(&request.host, request.port) {
            return Err(refused(403, "http_request_denied", "the target is not among those allowed"));
        }
        let busy = |text| refused(503, "connection_limit_reached", text).with("retry-after", "1");
        let slot = self.quota.take(source).ok_or_else(|| busy("too many tunnels"))?;
        let link = self.sockets.link(connection);
        let begun = match &request.host {
            Host::Domain(name) => self.resolver.resolve(link.number, name),
            Host::Ipv4(ip) => link.resolved.replace(Some(Ok(vec![(*ip).into()]))).is_none(),
            Host::Ipv6(ip) => link.resolved.replace(Some(Ok(vec![(*ip).into()]))).is_none(),
        };
        let to = (request.host.clone(), request.port);
        let target = Target::new(Rc::clone(self), link, request.kind, to, slot, now);
        if begun { Ok(Box::new(target)) } else { Err(busy("too many names to resolve")) }
    }

    /// The machine's addresses. Without them no destination can be judged.
    fn own_addresses(&self, now: Instant) -> io::Result<Rc<[IpAddr]>> {
        let mut own = self.own.borrow_mut();
        match &*own {
            Some((at, addresses)) if now.saturating_duration_since(*at) < OWN_ADDRESSES_LAST => {
                Ok(Rc::clone(addresses))
            }
            _ => {
                let addresses: Rc<[IpAddr]> = own_addresses()?.into();
                *own = Some((now, Rc::clone(&addresses)));
                Ok(addresses)
            }
        }
    }
}

fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let all = nix::ifaddrs::getifaddrs()?;
    let ip = |address: nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    Ok(all.filter_map(|interface| ip(interface.address?)).collect())
}
