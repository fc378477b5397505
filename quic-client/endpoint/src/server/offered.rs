// SPDX-License-Identifier: Apache-2.0
//! Files and tunnels for the client of one connection.

use super::files::Root;
use super::relay::Relay;
use std::rc::Rc;
use std::time::Instant;
use weir_core::server::Head;
use weir_core::server::TunnelRequest;
use weir_core::server::admission::Source;
use weir_core::server::resources::{Answer, Resources, Tunnel};

/// The server's folder and relay, as far as it has them.
#[derive(Clone, Default)]
pub struct Offer {
    /// `--root`.
    pub root: Option<Rc<Root>>,
    /// `--relay`.
    pub relay: Option<Rc<Relay>>,
}

impl Offer {
    /// The same for one connection; `None`: there is nothing.
    pub fn to(&self, connection: u64, source: Source) -> Option<Box<dyn Resources>> {
        let Offer { root, relay } = self.clone();
        let any = root.is_some() || relay.is_some();
        any.then(|| Box::new(Offered { root, relay, connection, source }) as Box<dyn Resources>)
    }
}

struct Offered {
    root: Option<Rc<Root>>,
    relay: Option<Rc<Relay>>,
    connection: u64,
    source: Source,
}

impl Resources for Offered {
    fn file(&mut self, head: &Head<'_>) -> Option<Answer> {
        Some(self.root.as_ref()?.answer(head, self.source))
    }

    fn relays(&self) -> bool {
        self.relay.is_some()
    }

    fn tunnel(&mut self, _: u64, request: &TunnelRequest, now: Instant) -> Result<Box<dyn Tunnel>, Answer> {
        match &self.relay {
            Some(relay) => relay.tunnel(request, self.connection, self.source, now),
            None => Err(Answer::text(501, "tunnels are not offered")),
        }
    }
}
