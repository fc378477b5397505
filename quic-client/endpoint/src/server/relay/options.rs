// SPDX-License-Identifier: Apache-2.0
//! Options of the relay.

use super::policy::{Rule, rule};
use clap::Args;
use std::path::PathBuf;

/// Tunnels to other hosts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Relay")]
pub struct RelayOptions {
    /// Relay TCP and UDP to other hosts for clients with a token (MASQUE: CONNECT, and CONNECT-UDP of RFC 9298)
    #[arg(long, requires = "relay_token")]
    pub relay: bool,
    /// File with the tokens of clients, one a line, 16 characters at least; nobody else may read it. Clients send
    /// proxy-authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE", requires = "relay")]
    pub relay_token: Option<PathBuf>,
    /// Destination that clients may reach; repeatable. Without any, all public addresses. HOST is a name, whose addresses
    /// must be public; CIDR also opens private, loopback and this machine's addresses; public is all public addresses.
    /// Port 25 takes an entry with :25
    #[arg(long, value_name = "public|HOST|CIDR[:PORT]", requires = "relay", value_parser = rule)]
    pub relay_allow: Vec<Rule>,
    /// Limit on the number of tunnels
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    pub max_tunnels: u32,
    /// The same limit for one source: an IPv4 address, or the /64 prefix of an IPv6 address
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N")]
    pub max_tunnels_per_source: u32,
    /// End a tunnel after this time without traffic
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400), value_name = "S")]
    pub tunnel_idle_s: u32,
}
