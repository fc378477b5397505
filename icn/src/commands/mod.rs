// SPDX-License-Identifier: Apache-2.0
//! The command line of `weir-icn`: one module a command.

mod cache;
mod client;
mod converter;
mod edge;
mod get;
pub(crate) mod group;
mod identity;
mod options;
mod publish;
mod server;

use clap::{CommandFactory, FromArgMatches, Parser};
use std::io::{self, Write};
use weir_io::fault::Fault;

/// Data by name, over links that forward by name instead of by address.
///
/// client and server carry the datagrams of unchanged QUIC programs: one stands beside the programs that open
/// connections, the other beside the one that waits for them. publish offers files or a live stream to any number of
/// receivers, get fetches them, cache keeps what passes near the receivers, and edge hands on manifests and keys there.
/// Packets by name need the right CAP_NET_RAW: run it as root, or give it the right once: sudo setcap cap_net_raw+ep
/// PATH_OF_WEIR_ICN.
///
/// Exit codes: 0 done, also after SIGINT, SIGTERM or SIGHUP; 2 usage; 8 interface, socket or file error. get has more.
#[derive(Debug, Parser)]
#[command(version, name = "weir-icn", arg_required_else_help = true)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Client(client::Options),
    Server(server::Options),
    Publish(publish::Options),
    Get(get::Options),
    Cache(cache::Options),
    Edge(edge::Options),
}

/// Runs the program; `version` is for `--version`. Gives its exit code.
///
/// # Errors
/// It ends early, with its exit code.
pub fn main(version: &'static str) -> Result<u8, Fault> {
    let given = Options::command().version(version).try_get_matches();
    let options = match given.and_then(|given| Options::from_arg_matches(&given)) {
        Ok(options) => options,
        Err(e) if e.use_stderr() => e.exit(),
        // --help, --version
        Err(e) => {
            e.print().and_then(|()| io::stdout().flush()).map_err(Fault::io("standard output"))?;
            return Ok(0);
        }
    };
    match options.command {
        Command::Client(options) => client::run(options),
        Command::Server(options) => server::run(options),
        Command::Publish(options) => publish::run(&options),
        Command::Get(options) => get::run(&options),
        Command::Cache(options) => cache::run(&options),
        Command::Edge(options) => edge::run(&options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }
}
