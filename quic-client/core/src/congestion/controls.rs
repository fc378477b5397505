// SPDX-License-Identifier: Apache-2.0
//! The table of congestion controls, and those of quiche itself.

use super::control::CongestionControl;
use quiche::CongestionControlAlgorithm as Algorithm;
use std::fmt;
use std::str::FromStr;

/// A congestion control by its name: one row of [`CONTROLS`].
#[derive(Clone, Copy)]
pub struct ControlKind {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line for `--help`.
    pub help: &'static str,
    /// quiche's algorithm below it.
    pub algorithm: Algorithm,
    /// Makes one for a connection.
    pub make: fn() -> Box<dyn CongestionControl>,
}

/// All congestion controls; the first is the default. quiche's own have its names.
pub const CONTROLS: &[ControlKind] = &[
    ControlKind { name: "cubic", help: "CUBIC (RFC 9438)", algorithm: Algorithm::CUBIC, make: || Box::new(QuicheOwn) },
    ControlKind {
        name: "reno",
        help: "NewReno (RFC 9002 7)",
        algorithm: Algorithm::Reno,
        make: || Box::new(QuicheOwn),
    },
    ControlKind {
        name: "bbr2_gcongestion",
        help: "BBRv2, the only one of these that paces",
        algorithm: Algorithm::Bbr2Gcongestion,
        make: || Box::new(QuicheOwn),
    },
];

/// Leaves window and pacing to quiche's algorithm.
#[derive(Debug, Clone, Copy)]
pub struct QuicheOwn;

impl CongestionControl for QuicheOwn {}

impl Default for ControlKind {
    fn default() -> Self {
        CONTROLS[0]
    }
}

impl PartialEq for ControlKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for ControlKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        CONTROLS.iter().find(|kind| kind.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = CONTROLS.iter().map(|kind| kind.name).collect();
            format!("'{name}' is not a congestion control: expected one of {}", names.join(", "))
        })
    }
}
