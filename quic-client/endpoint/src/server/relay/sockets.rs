// SPDX-License-Identifier: Apache-2.0
//! Readiness of the tunnels' sockets: an epoll set of their own inside the server's, with edges, so that a socket costs
//! no system call unless something happened to it.

use super::resolver::{Resolved, Resolver};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Timespec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// Number of the resolver in the set.
const RESOLVER: u64 = 0;
const EVENTS: usize = 128;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// State of one tunnel's socket, as the kernel reported it.
#[derive(Debug)]
pub struct Link {
    /// Its number.
    pub number: u64,
    /// Ordinal of the connection that it belongs to.
    pub connection: u64,
    /// It may have something to read: so until a read finds nothing.
    pub readable: Cell<bool>,
    /// It may take something, likewise.
    pub writable: Cell<bool>,
    /// The addresses of its name, once they are known.
    pub resolved: RefCell<Option<Resolved>>,
}

/// All of them.
pub struct Sockets {
    epoll: OwnedFd,
    links: RefCell<HashMap<u64, Rc<Link>>>,
    last_number: Cell<u64>,
}

impl Sockets {
    /// With this resolver's results among the events.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(resolver: &Resolver) -> io::Result<Sockets> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, resolver.wakeup(), EventData::new_u64(RESOLVER), EventFlags::IN)?;
        Ok(Sockets { epoll, links: RefCell::default(), last_number: Cell::new(RESOLVER) })
    }

    /// Readable when [`Sockets::poll`] has something to do.
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// The state of a new tunnel of this connection.
    pub fn link(&self, connection: u64) -> Rc<Link> {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        let flags = || Cell::new(false);
        let link = Link { number, connection, readable: flags(), writable: flags(), resolved: RefCell::default() };
        let link = Rc::new(link);
        self.links.borrow_mut().insert(number, Rc::clone(&link));
        link
    }

    /// Watches a socket of this tunnel; closing it ends that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn watch(&self, link: &Link, socket: &impl AsFd) -> io::Result<()> {
        let edges = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(link.number), edges)?)
    }

    /// The tunnel has ended.
    pub fn forget(&self, link: &Link) {
        self.links.borrow_mut().remove(&link.number);
    }

    /// Notes what happened; `wake` is given the connections that it concerns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn poll(&self, resolver: &Resolver, mut wake: impl FnMut(u64)) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&NOW))?;
        let links = self.links.borrow();
        for event in events {
            let (number, flags) = (event.data.u64(), event.flags);
            if number == RESOLVER {
                resolver.clear();
                while let Some((number, resolved)) = resolver.take() {
                    let Some(link) = links.get(&number) else { continue };
                    link.resolved.replace(Some(resolved));
                    wake(link.connection);
                }
            } else if let Some(link) = links.get(&number) {
                let ended = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                link.readable.set(link.readable.get() || ended || flags.intersects(EventFlags::IN | EventFlags::RDHUP));
                link.writable.set(link.writable.get() || ended || flags.contains(EventFlags::OUT));
                wake(link.connection);
            }
        }
        Ok(())
    }
}
