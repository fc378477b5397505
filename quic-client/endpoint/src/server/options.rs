// SPDX-License-Identifier: Apache-2.0
//! The command line of `weir-server`.

use super::relay::RelayOptions;
use crate::shared::options::CommonOptions;
use clap::{Parser, ValueEnum};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use weir_core::server::admission::{Limits, RetryPolicy};
use weir_core::transport::CID_LIMIT;
use weir_io::address::socket_address;

/// Serves bulk transfers over QUIC, with HTTP/3 or hq-interop as the client chooses: GET /bytes/N (or /bytes/unlimited),
/// GET /bytes/N/every/MS (N bytes more each MS milliseconds, as a live stream has) and POST /upload. --root adds files,
/// --relay tunnels to other hosts.
///
/// Prints "listening ADDRESS:PORT" on standard output when it is ready. SIGINT and SIGTERM let transfers end for up to
/// --grace-s seconds, close all connections and end the program with exit code 0. Other exit codes: 2 usage; 8 file or socket error. If --stats or --qlog-dir can't be
/// written, the server goes on, and its exit code at the end is 8.
#[derive(Debug, Parser)]
#[command(version, name = "weir-server")]
pub struct Options {
    /// Address and port to listen on (port 0: any free port). One of a single link has its interface behind it:
    /// [fe80::1%eth0]:4433
    #[arg(long, default_value = "0.0.0.0:4433", value_parser = socket_address, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// PEM file with the certificate chain (together with --key)
    #[arg(long, requires = "key", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key
    #[arg(long, requires = "cert", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder for the certificate that is made on first use [default: weir in XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cert", "ephemeral"])]
    pub state_dir: Option<PathBuf>,
    /// Make a certificate for this run only, and don't write it to a file
    #[arg(long, conflicts_with = "cert")]
    pub ephemeral: bool,
    /// Host name or address to put into the certificate that is made; repeatable. localhost, 127.0.0.1, ::1 and the
    /// address of --listen are always in it
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Serve the files of this folder to GET and HEAD, with ranges and preconditions; index.html stands for its folder.
    /// Folders are not listed, names with a leading dot are not served (but /.well-known), nor are links that leave the
    /// folder. A file comes before /bytes and /upload of the same path
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Become this user, with no group but its own and no capability, once the certificate, the file of --stats and the
    /// port are open. Takes root. Files opened later belong to that user: those in the folders of --qlog-dir,
    /// --cc-trajectories and --cc-agent
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Limit on the connection IDs in use on each side of a connection (2 to 64): a client needs one for each path
    #[arg(long, default_value_t = CID_LIMIT, value_parser = clap::value_parser!(u64).range(2..=64), value_name = "N",
          help_heading = "Transport")]
    pub max_cids: u64,
    /// Forbid clients to migrate (disable_active_migration)
    #[arg(long, help_heading = "Transport")]
    pub forbid_migration: bool,
    /// When to validate a client's address before any state is kept for it (Retry, one more round trip). auto: under
    /// load, see --retry-above
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Limits")]
    pub retry: Retry,
    /// Load above which --retry auto sends Retry packets: handshakes from addresses that are not validated, either
    /// unfinished or begun within the last second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N",
          help_heading = "Limits")]
    pub retry_above: u32,
    /// Limit on the number of connections; further ones are refused (transport code 0x2)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000),
          value_name = "N", help_heading = "Limits")]
    pub max_connections: u32,
    /// The same limit for one source: an IPv4 address, or the /64 prefix of an IPv6 address
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000),
          value_name = "N", help_heading = "Limits")]
    pub max_connections_per_source: u32,
    /// Memory for data sent and not acknowledged yet, over all connections. One alone may hold half of it. Where it is
    /// short, connections that acknowledge nothing give way to others
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1_048_576),
          value_name = "MIB", help_heading = "Limits")]
    pub send_memory_mib: u32,
    /// Memory for received data that can't be read yet, over all connections: data behind a loss, and requests that
    /// have not come whole. A connection alone may hold all of it. Where it is short, connections that read nothing are
    /// closed
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_048_576),
          value_name = "MIB", help_heading = "Limits")]
    pub receive_memory_mib: u32,
    /// Time for which transfers under way may go on after SIGINT or SIGTERM, in seconds (0: none). No more requests are
    /// taken (GOAWAY). A second signal ends the server at once
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=86_400), value_name = "S",
          help_heading = "Limits")]
    pub grace_s: u32,
    /// Tunnels.
    #[command(flatten)]
    pub relay: RelayOptions,
    /// Options that the client has too.
    #[command(flatten)]
    pub common: CommonOptions,
}

/// When to send Retry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Retry {
    /// Under load.
    Auto,
    /// For each connection.
    Always,
    /// Not at all.
    Never,
}

impl Options {
    /// The folders in which files are made while the server runs, with the options that name them.
    pub fn folders_of_later_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let CommonOptions { qlog_dir, cc_trajectories, cc_agent, .. } = &self.common;
        [("--qlog-dir", qlog_dir), ("--cc-trajectories", cc_trajectories), ("--cc-agent", cc_agent)]
            .into_iter()
            .filter_map(|(option, folder)| Some((option, folder.as_deref()?)))
    }

    /// The limits on the state that strangers can make the server keep.
    pub fn limits(&self) -> Limits {
        Limits {
            retry: match self.retry {
                Retry::Auto => RetryPolicy::Auto,
                Retry::Always => RetryPolicy::Always,
                Retry::Never => RetryPolicy::Never,
            },
            retry_above: self.retry_above,
            connections: self.max_connections,
            connections_per_source: self.max_connections_per_source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }
}
