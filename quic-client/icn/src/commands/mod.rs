// SPDX-License-Identifier: Apache-2.0
//! The command line of `weir-icn`: one module a command.

mod client;
mod converter;
mod server;

use clap::Parser;
use weir_io::fault::Fault;

/// Data by name, over links that forward by name instead of by address.
///
/// client and server carry the datagrams of unchanged QUIC programs: one stands beside the programs that open
/// connections, the other beside the one that waits for them. Packets by name need the right CAP_NET_RAW: run it as
/// root, or give it the right once: sudo setcap cap_net_raw+ep PATH_OF_WEIR_ICN.
///
/// Exit codes: 0 done, also after SIGINT, SIGTERM or SIGHUP; 2 usage; 8 interface, socket or file error.
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
}

/// Runs the program: gives its exit code.
///
/// # Errors
/// What ends it early, with its exit code.
pub fn main() -> Result<u8, Fault> {
    match Options::parse().command {
        Command::Client(options) => client::run(options),
        Command::Server(options) => server::run(options),
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
