// SPDX-License-Identifier: Apache-2.0
//! Congestion control: how much a connection may have in flight, and how fast it sends.
//!
//! - `control`: [`CongestionControl`], the trait, and its events;
//! - `controls`: [`CONTROLS`], the table of names, and quiche's own controls;
//! - [`pbq`]: a control that learns;
//! - [`prague`]: a control for L4S;
//! - `cubic`: window growth of RFC 9438, for the controls that need it;
//! - `driver`: [`Driver`], which puts a control to work on a connection.

mod control;
mod controls;
mod cubic;
mod driver;
pub mod pbq;
pub mod prague;

pub use control::{
    Acked, Agent, By, CongestionControl, Decision, EcnFeedback, EcnState, Interval, Lost, RttSamples, Seen, Sent,
    Setup, WayThere,
};
pub use controls::{CONTROLS, ControlKind, QuicheOwn};
pub use driver::Driver;
