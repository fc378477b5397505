// SPDX-License-Identifier: Apache-2.0
//! The command line of `weir-client proxy`.

use super::super::options::connection::ConnectionOptions;
use super::super::options::path_choice::PathChoiceOptions;
use super::access::Access;
use crate::shared::fault::{Fault, USAGE};
use crate::shared::options::{ClockReads, CommonOptions};
use clap::Parser;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_core::request::Alpn;
use weir_io::files::{READ_BY_OTHERS, expect_secret};
use weir_quic::{Builder, Client};

/// Local proxy: SOCKS5 (CONNECT, UDP ASSOCIATE) and HTTP CONNECT on one port. Each tunnel is a stream of one QUIC connection
/// to a relay (MASQUE: `weir-server --relay`), over the best of several networks; when a network fails, tunnels move to
/// another one. The relay resolves names.
///
/// Exit codes: 0 ended by SIGTERM; 130 by Ctrl-C; 2 usage; 3 no connection to the relay at the start; 4 TLS; 5 timeout; 8
/// file or socket error; 9 --path names something that can't be used.
#[derive(Debug, Parser)]
#[command(name = "weir-client proxy", bin_name = "weir-client proxy", after_help = EXAMPLES)]
// Programs that pause a download must not stop the others: weir-server's hundred tunnels fit into the connection's window.
#[command(mut_arg("max_stream_window", |arg| arg.default_value("2MiB")))]
#[command(mut_arg("conn_window", |arg| arg.default_value("256MiB")))]
#[command(mut_arg("max_conn_window", |arg| arg.default_value("256MiB")))]
#[command(mut_args(|arg| { let hide = WITHOUT_EFFECT.contains(&arg.get_id().as_str()); arg.hide(hide) }))]
pub struct ProxyOptions {
    /// Address and port for local programs. Off loopback, --auth is required
    #[arg(long, default_value = "127.0.0.1:1080", value_name = "ADDR:PORT", help_heading = "Proxy")]
    pub listen: SocketAddr,
    /// Relay: https://HOST[:PORT]
    #[arg(long, value_name = "URL", help_heading = "Proxy")]
    pub relay: String,
    /// Token for the relay, in the first line of this file, which nobody else may read (proxy-authorization: Bearer)
    #[arg(long, value_name = "FILE", help_heading = "Proxy")]
    pub token: Option<PathBuf>,
    /// Demand a user and a password of local programs, in the first line of this file, which nobody else may read:
    /// USER:PASSWORD
    #[arg(long, value_name = "FILE", help_heading = "Proxy")]
    pub auth: Option<PathBuf>,
    /// Tunnels at once, a relay of UDP being one; further ones are refused
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N",
          help_heading = "Proxy")]
    pub max_tunnels: u32,
    /// End a tunnel after this many seconds without a byte in either direction
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=86_400),
          value_name = "SECONDS", help_heading = "Proxy")]
    pub idle_tunnel_s: u32,
    /// Write the end of each tunnel, path choices and path events to this file, one JSON object a line (- for standard
    /// output)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub events: Option<PathBuf>,
    /// Name destinations in --events
    #[arg(long, requires = "events", help_heading = "Results")]
    pub verbose: bool,
    /// Options of connections.
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Options of path choice.
    #[command(flatten)]
    pub choice: PathChoiceOptions,
    /// Options that the server has too.
    #[command(flatten)]
    pub common: CommonOptions,
}

/// Options of transfers that are measured, which the proxy does not have.
const WITHOUT_EFFECT: [&str; 8] =
    ["cc_weights", "cc_explore", "cc_agent", "cc_trajectories", "stats", "stats_every_ms", "qlog_dir", "clock"];

/// Requests at once on the connection: tunnels, and each destination of a program's datagrams.
const MOST_REQUESTS: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  weir-client proxy --relay https://relay.example --token token --path wlan0 --path wwan0
      a proxy on 127.0.0.1:1080 over two networks
  curl -x socks5h://127.0.0.1:1080 https://example.org/
  curl -x http://127.0.0.1:1080 https://example.org/
      one download over SOCKS5, and one over HTTP CONNECT
  chromium --proxy-server=socks5://127.0.0.1:1080
      a browser";

/// Longest line of a secret, in bytes.
const MOST_SECRET_BYTES: u64 = 4096;

/// The first line of a file with a secret, which nobody else may read.
fn secret(option: &str, path: &Path) -> Result<String, Fault> {
    use std::io::Read;
    let name = || format!("{option} {}", path.display());
    expect_secret(path, READ_BY_OTHERS).map_err(Fault::io(name()))?;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(Fault::io(name()))?;
    file.take(MOST_SECRET_BYTES + 1).read_to_string(&mut text).map_err(Fault::io(name()))?;
    let line = text.lines().next().unwrap_or_default().trim_end();
    if line.is_empty() || text.len() as u64 > MOST_SECRET_BYTES || !line.bytes().all(|b| b.is_ascii_graphic()) {
        let text = format!("{}: expected one line of printable ASCII, at most {MOST_SECRET_BYTES} bytes", name());
        return Err(Fault::new(USAGE, text));
    }
    Ok(line.to_owned())
}

impl ProxyOptions {
    /// Refuses options that have no effect, and an open proxy.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self) -> Result<(), Fault> {
        let common = &self.common;
        let given = [
            ("--cc-weights", common.cc_weights.is_some()),
            ("--cc-explore", common.cc_explore.is_some()),
            ("--cc-agent", common.cc_agent.is_some()),
            ("--cc-trajectories", common.cc_trajectories.is_some()),
            ("--stats", common.stats.is_some()),
            ("--qlog-dir", common.qlog_dir.is_some()),
            ("--clock", common.clock == ClockReads::Turn),
            ("--strategy oracle", self.choice.oracle_plan.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(Fault::new(USAGE, format!("{option} is for transfers: the proxy does not have it")));
        }
        if !self.listen.ip().is_loopback() && self.auth.is_none() {
            let text = format!("--listen {}: expected a loopback address, or --auth beside it", self.listen);
            return Err(Fault::new(USAGE, text));
        }
        self.connection.check()
    }

    /// The relay's token.
    ///
    /// # Errors
    /// The file can't be read, others may read it, or it has no token.
    pub fn token(&self) -> Result<Option<String>, Fault> {
        self.token.as_deref().map(|path| secret("--token", path)).transpose()
    }

    /// Users of the proxy.
    ///
    /// # Errors
    /// The file can't be read, others may read it, or it has no user and password.
    pub fn access(&self) -> Result<Access, Fault> {
        let Some(path) = &self.auth else { return Ok(Access::Open) };
        let text = secret("--auth", path)?;
        Access::of(&text).ok_or_else(|| {
            let text = format!("--auth {}: expected USER:PASSWORD, each of 1 to 255 bytes", path.display());
            Fault::new(USAGE, text)
        })
    }

    /// Pause that ends a tunnel.
    pub fn idle_tunnel(&self) -> Duration {
        Duration::from_secs(self.idle_tunnel_s.into())
    }

    /// The library's settings.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn builder(&self) -> Result<Builder, Fault> {
        let transport = self.common.transport(vec![Alpn::H3])?;
        let plan = self.choice.plan()?;
        let sockets = self.common.sockets();
        let mut builder = Client::builder()
            .transport(|all| *all = transport)
            .sockets(|all| *all = sockets)
            .ecn(self.common.ecn())
            .choice(plan.config(0, &[])?)
            .standby(plan.standby)
            // Tunnels have limits of their own.
            .read_timeout(None)
            .most_requests(MOST_REQUESTS, MOST_REQUESTS)
            .resumption(true);
        builder = self.choice.paths.iter().fold(builder, |builder, path| builder.path(path));
        if let Some(seed) = self.choice.seed {
            builder = builder.seed(seed);
        }
        Ok(self.connection.apply(builder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn options(words: &[&str]) -> ProxyOptions {
        let all = ["weir-client proxy", "--relay", "https://r"].iter().chain(words);
        ProxyOptions::try_parse_from(all).unwrap()
    }

    #[test]
    fn the_command_line_is_sound() {
        ProxyOptions::command().debug_assert();
        let help = ProxyOptions::command().render_long_help().to_string();
        assert!(help.contains("curl -x socks5h://") && !help.contains("--qlog-dir"), "{help}");
        assert!(options(&[]).check().is_ok());
        assert!(options(&[]).builder().is_ok());
    }

    #[test]
    fn an_open_proxy_and_options_without_effect_are_refused() {
        let e = options(&["--listen", "0.0.0.0:1080"]).check().unwrap_err();
        assert!(e.code == USAGE && e.text.contains("--auth"), "{e}");
        assert!(options(&["--listen", "0.0.0.0:1080", "--auth", "x"]).check().is_ok());
        let e = options(&["--qlog-dir", "x"]).check().unwrap_err();
        assert!(e.code == USAGE && e.text.contains("--qlog-dir"), "{e}");
    }
}
