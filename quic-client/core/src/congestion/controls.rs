// SPDX-License-Identifier: Apache-2.0
//! The table of congestion controls, and those of quiche itself.

use super::control::{CongestionControl, Setup};
use super::pbq::{Pbq, Policy, Profile};
use super::prague::Prague;
use quiche::CongestionControlAlgorithm as Algorithm;
use std::fmt;
use std::str::FromStr;

/// A congestion control by its name: one row of [`CONTROLS`].
#[derive(Clone, Copy)]
pub struct ControlKind {
    /// Name on the command line.
    pub name: &'static str,
    /// Summary in one line for `--help`.
    pub help: &'static str,
    /// quiche's algorithm below it.
    pub algorithm: Algorithm,
    /// Makes one for a connection. Without a policy a control that learns leaves everything to the algorithm below.
    pub make: fn(&Setup, Option<Policy>) -> Box<dyn CongestionControl>,
    /// It learns: the profile of its weights files.
    pub profile: Option<Profile>,
    /// It meets the requirements of L4S (RFC 9331 4): its packets carry ECT(1) unless `--ecn` says otherwise.
    pub l4s: bool,
}

/// All congestion controls; the first is the default. quiche's own have its names.
pub const CONTROLS: &[ControlKind] = &[
    ControlKind::of_quiche(
        "cubic",
        "CUBIC (RFC 9438): fills queues, shares them fairly with TCP. Where nothing else is known",
        Algorithm::CUBIC,
    ),
    ControlKind::of_quiche("reno", "NewReno (RFC 9002 7): the textbook's, for comparison", Algorithm::Reno),
    ControlKind::of_quiche(
        "bbr2_gcongestion",
        "BBRv2: paces at the rate it measures. For paths that lose packets at random",
        Algorithm::Bbr2Gcongestion,
    ),
    ControlKind {
        name: "prague",
        help: "Prague: ECT(1) and a short queue where the bottleneck supports L4S (RFC 9331), CUBIC elsewhere",
        algorithm: Algorithm::CUBIC,
        make: |setup, _| Box::new(Prague::new(setup)),
        profile: None,
        l4s: true,
    },
    ControlKind::learned(
        Profile::Own,
        "A policy sets the window every 50 ms or round trip: a short queue alone, CUBIC's share beside flows that fill it",
    ),
    ControlKind::learned(Profile::Paper, "The same to the letter of Zhang et al., for comparison: no guard"),
];

/// Leaves window and pacing to quiche's algorithm.
#[derive(Debug, Clone, Copy)]
pub struct QuicheOwn;

impl CongestionControl for QuicheOwn {}

fn pbq(setup: &Setup, policy: Option<Policy>) -> Box<dyn CongestionControl> {
    match policy {
        Some(policy) => Box::new(Pbq::new(policy, setup)),
        None => Box::new(QuicheOwn),
    }
}

impl ControlKind {
    const fn of_quiche(name: &'static str, help: &'static str, algorithm: Algorithm) -> ControlKind {
        ControlKind { name, help, algorithm, make: |_, _| Box::new(QuicheOwn), profile: None, l4s: false }
    }

    const fn learned(profile: Profile, help: &'static str) -> ControlKind {
        let (name, algorithm) = (profile.name(), Algorithm::Bbr2Gcongestion);
        ControlKind { name, help, algorithm, make: pbq, profile: Some(profile), l4s: false }
    }
}

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
