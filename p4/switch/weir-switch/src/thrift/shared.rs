// SPDX-License-Identifier: Apache-2.0
//! State shared by all connections.
use super::output::Budget;
use crate::p4runtime::Control;
use std::net::SocketAddr;
use std::sync::Mutex;

/// Facts that clients ask for.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    /// Port and interface.
    pub ports: Vec<(u32, String)>,
}

/// State shared by all connections.
pub struct Shared {
    pub control: Control,
    pub switch: Switch,
    /// Where the server listens.
    pub addr: SocketAddr,
    pub budget: Budget,
    /// Held while a program is received and compiled.
    pub programs: Mutex<()>,
    /// Held while a long text is made, so that one is in memory.
    pub texts: Mutex<()>,
}

impl Shared {
    pub fn new(control: Control, switch: Switch, addr: SocketAddr) -> Shared {
        Shared { control, switch, addr, budget: Budget::default(), programs: Mutex::new(()), texts: Mutex::new(()) }
    }
}
