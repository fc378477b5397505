// SPDX-License-Identifier: Apache-2.0
//! Where a server of a group listens, and who it is.

use super::group::TicketSecret;
use super::options::complain;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_io::address::socket_address;
use weir_io::cert::{self, Choice, Identity};
use weir_io::fault::Fault;

/// Options of what subscribers connect to.
#[derive(Debug, Args)]
pub struct Serving {
    /// UDP address and port for subscribers (port 0: any free port)
    #[arg(long, default_value = "0.0.0.0:4434", value_parser = socket_address, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// PEM file with the certificate chain (together with --key)
    #[arg(long, requires = "key", value_name = "FILE", help_heading = "Identity")]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key
    #[arg(long, requires = "cert", value_name = "FILE", help_heading = "Identity")]
    pub key: Option<PathBuf>,
    /// Folder for what is made on first use: certificate and signing key [default: weir in XDG_STATE_HOME]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cert", "ephemeral"], help_heading = "Identity")]
    pub state_dir: Option<PathBuf>,
    /// File with what the keys of session tickets follow from, made on first use. A subscriber that comes to another server
    /// that has the same goes on at once, with what it asks for in its first packets (0-RTT) [default: made for this run]
    #[arg(long, value_name = "FILE", help_heading = "Identity")]
    pub ticket_keys: Option<PathBuf>,
    /// Make certificate and keys for this run only
    #[arg(long, conflicts_with = "cert", help_heading = "Identity")]
    pub ephemeral: bool,
    /// Host name or address to put into the certificate that is made; repeatable. localhost, 127.0.0.1, ::1 and the
    /// address of --listen are always in it
    #[arg(long, value_name = "HOST", help_heading = "Identity")]
    pub host: Vec<String>,
}

impl Serving {
    /// The certificate and its key. If it is one that was made, standard error says which file subscribers need.
    ///
    /// # Errors
    /// A file that can't be used, or no folder to keep it in.
    pub fn identity(&self) -> Result<Identity, Fault> {
        let listened = (!self.listen.ip().is_unspecified()).then(|| self.listen.ip().to_string());
        let choice = Choice {
            given: self.cert.clone().zip(self.key.clone()),
            ephemeral: self.ephemeral,
            state_dir: self.state_dir.clone(),
            names: listened.into_iter().chain(self.host.iter().cloned()).collect(),
        };
        let identity = cert::identity(&choice)?;
        let lacking = identity.lacks(&choice.names);
        if !lacking.is_empty() {
            let remedy = match &self.cert {
                Some(_) => "give the one that is",
                None => "give an empty folder with --state-dir, and a new one is made",
            };
            complain(&format!(
                "the certificate is not for {}: subscribers that connect to that will refuse it; {remedy}",
                lacking.join(" and ")
            ));
        }
        if let Some(ca) = cert::ca_file(&choice) {
            complain(&format!("subscribers need its certificate, with --ca: {}", ca.display()));
        }
        Ok(identity)
    }

    /// Secret from which the keys of session tickets follow.
    ///
    /// # Errors
    /// The file can't be used.
    pub fn tickets(&self) -> Result<TicketSecret, Fault> {
        self.ticket_keys.as_deref().map_or_else(TicketSecret::draw, TicketSecret::kept)
    }
}
