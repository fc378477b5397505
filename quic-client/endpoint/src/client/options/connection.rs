// SPDX-License-Identifier: Apache-2.0
//! Options of connections: their server, its certificate, and their receive windows.

use crate::shared::fault::{Fault, USAGE};
use clap::Args;
use std::path::PathBuf;
use url::Host;
use weir_core::request::size_of_at_least;
use weir_core::window::WindowKind;
use weir_core::window::budget::LEAST_BYTES;
use weir_io::address::ZonedIp;
use weir_quic::Builder;

/// Options of connections.
#[derive(Debug, Clone, Args)]
pub struct ConnectionOptions {
    /// Connect to this host instead of to the URL's: a name or an address, or HOST:PORT. Proxies of the environment
    /// (HTTPS_PROXY, ALL_PROXY) are ignored: they carry no UDP
    #[arg(long, value_name = "HOST", help_heading = "Connection")]
    pub connect: Option<String>,
    /// Server name for TLS, in place of the URL's host
    #[arg(long, value_parser = Host::parse, value_name = "NAME", help_heading = "Connection")]
    pub server_name: Option<Host<String>>,
    /// Local address to send from
    #[arg(long, value_name = "ADDR", conflicts_with = "paths", help_heading = "Connection")]
    pub bind: Option<ZonedIp>,
    /// Rule that sizes the receive windows: static, double (quiche's), fast (Lee & An) or weir (by measured demand).
    /// --max-stream-window and --max-conn-window are the upper bounds
    #[arg(long, default_value = "double", value_name = "RULE", help_heading = "Transport")]
    pub window: WindowKind,
    /// Sum of the receive windows that --window weir may grant, over all connections [default: 64MiB]
    #[arg(long, value_parser = budget_bytes, value_name = "BYTES", help_heading = "Transport")]
    pub memory_budget: Option<u64>,
    /// Accept any certificate of the server
    #[arg(long, conflicts_with = "ca", help_heading = "Connection")]
    pub insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub ca: Option<PathBuf>,
}

/// The default of `--memory-budget`.
const MEMORY_BUDGET_BYTES: u64 = 64 << 20;

fn budget_bytes(text: &str) -> Result<u64, String> {
    size_of_at_least(text, LEAST_BYTES).map_err(|e| format!("{e}; one connection needs that"))
}

impl ConnectionOptions {
    /// Refuses an option that has no effect.
    ///
    /// # Errors
    /// `--memory-budget` without `--window weir`.
    pub fn check(&self) -> Result<(), Fault> {
        if self.memory_budget.is_some() && self.window != WindowKind::Weir {
            let text = format!("--memory-budget is for --window weir: --window {} has no budget", self.window);
            return Err(Fault::new(USAGE, text));
        }
        Ok(())
    }

    /// Bytes that `--window weir` may promise over all connections.
    pub fn memory_budget_bytes(&self) -> u64 {
        self.memory_budget.unwrap_or(MEMORY_BUDGET_BYTES)
    }

    /// The library's settings, as these options say.
    pub fn apply(&self, builder: Builder) -> Builder {
        let mut builder =
            builder.insecure(self.insecure).window(self.window).memory_budget_bytes(self.memory_budget_bytes());
        if let Some(ca) = &self.ca {
            builder = builder.ca(ca);
        }
        if let Some(host) = &self.connect {
            builder = builder.connect_to(host);
        }
        if let Some(bind) = &self.bind {
            builder = builder.bind(bind.to_string());
        }
        builder
    }
}
