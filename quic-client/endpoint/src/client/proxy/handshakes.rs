// SPDX-License-Identifier: Apache-2.0
//! [`Handshakes`]: local programs that have not asked for a tunnel yet. A flood of connections that say nothing ends the
//! oldest of them, so it keeps no other program out.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::task::AbortHandle;

/// Handshakes at once.
const MOST: usize = 128;

/// Handshakes under way, the oldest first.
#[derive(Debug, Default)]
pub struct Handshakes {
    tasks: RefCell<VecDeque<(u64, AbortHandle)>>,
    next: Cell<u64>,
}

/// Place of one handshake, until it is dropped.
#[derive(Debug)]
pub struct HandshakeSlot {
    all: Rc<Handshakes>,
    id: u64,
}

impl Handshakes {
    /// A place for a new one.
    pub fn slot(self: &Rc<Self>) -> HandshakeSlot {
        let id = self.next.replace(self.next.get() + 1);
        HandshakeSlot { all: Rc::clone(self), id }
    }

    /// Its task was started. The oldest one is ended if there are too many.
    pub fn begun(&self, id: u64, task: AbortHandle) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push_back((id, task));
        let oldest = if tasks.len() > MOST { tasks.pop_front() } else { None };
        drop(tasks);
        if let Some((_, task)) = oldest {
            task.abort();
        }
    }
}

impl HandshakeSlot {
    /// Number of the handshake.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.all.tasks.borrow_mut().retain(|(id, _)| *id != self.id);
    }
}
