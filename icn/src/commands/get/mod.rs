// SPDX-License-Identifier: Apache-2.0
//! `weir-icn get`.

mod event_loop;
mod known_publishers;
mod output;
mod report;

use super::options::name;
use crate::names::Name;
use crate::objects::object::manifest::from_hex;
use crate::objects::object::sign::PublicKey;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use weir_io::fault::Fault;

/// Fetches objects by name
///
///   weir-icn get /weir/files/a.mp4 --from 192.0.2.1:4434 --ca weir-server-ca.pem --interface eth1 --output a.mp4
///
/// It asks the publisher over QUIC for the object's signed manifest and its key, and then for its data by name on the
/// network of --interface, where others may have asked for the same: the network sends it once. Every part is checked
/// before it is written. When this host comes to have another address, or the publisher falls silent, it asks for
/// further keys from there, or at the next --from, and goes on meanwhile. Data are in OUTPUT.part until all are there;
/// it then becomes OUTPUT. Stopped or broken off, it goes on from there the next time, and checks again what it has.
///
/// The key that signs the manifest is accepted at first use and kept in --known-publishers, for the object's name and all
/// below, with --pin-folder for its folder. Another key is refused from then on. With --publisher that key alone counts.
///
/// Exit codes: 0 all objects are complete; 2 usage; 3 the publisher can't be reached; 4 TLS: its certificate is not
/// accepted; 5 no data came for --give-up-s; 6 an object is incomplete, or its manifest is not signed as it should be or
/// by another key than before; 7 there is no such object; 8 a file, a full disk or the interface; 130 interrupted.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Options {
    /// Names of the objects
    #[arg(required = true, value_parser = name, value_name = "NAME")]
    names: Vec<Name>,
    /// The publisher's UDP address and port; a host name may stand for the address. Repeatable: servers that hand out the
    /// same keys, the one to ask first before the others
    #[arg(long, required = true, value_name = "HOST:PORT")]
    from: Vec<String>,
    /// Interface for packets by name
    #[arg(long, value_name = "IF")]
    interface: String,
    /// File to write, or an existing folder for several; - for standard output, in order
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,
    /// PEM file with the certificates to trust, in place of the system's
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    ca: Option<PathBuf>,
    /// Accept any certificate: for tests
    #[arg(long, conflicts_with = "ca", help_heading = "Trust")]
    insecure: bool,
    /// Take only what this publisher signed, whatever --known-publishers has: the key that weir-icn publish prints
    #[arg(long, value_parser = public_key, value_name = "KEY", help_heading = "Trust")]
    publisher: Option<PublicKey>,
    /// File with the keys that were accepted at first use, a line each: NAME ed25519 KEY; none: keep none [default:
    /// weir/known_publishers in $XDG_STATE_HOME, or in ~/.local/state]
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    known_publishers: Option<PathBuf>,
    /// Keep a new key for the object's folder and all below, not for its name alone: other files of the folder must then be
    /// signed by it too
    #[arg(long, conflicts_with = "publisher", help_heading = "Trust")]
    pin_folder: bool,
    /// Take no manifest that was signed longer ago than this, in seconds (0: any age)
    #[arg(long, default_value_t = 86_400, value_name = "S", help_heading = "Trust")]
    max_age: u64,
    /// Begin anew: don't go on with OUTPUT.part
    #[arg(long)]
    restart: bool,
    /// Ask again for what was not answered after so many smoothed response times (1 to 100)
    #[arg(long, default_value_t = 8.0, value_parser = beta, value_name = "N", help_heading = "Asking again")]
    beta: f64,
    /// Count nothing as lost for a gap: by the timer alone
    #[arg(long, help_heading = "Asking again")]
    no_gaps: bool,
    /// Ask again for what was lost itself, though the publisher has repair symbols in its place (publish --repair)
    #[arg(long, help_heading = "Asking again")]
    no_repair: bool,
    /// End after so long without an answer to what is asked for, or without data (1 to 3600)
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600), value_name = "S",
          help_heading = "Asking again")]
    give_up_s: u64,
    /// Print the result as JSON, one object in one line (with --output - on standard error)
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// Write what happens to this file, one JSON object a line (- for standard output, unless --output is that)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    events: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short, help_heading = "Results")]
    quiet: bool,
}

fn public_key(text: &str) -> Result<PublicKey, String> {
    from_hex(text).ok_or_else(|| "expected 64 hexadecimal digits, as weir-icn publish prints them".to_owned())
}

fn beta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(beta) if (1.0..=100.0).contains(&beta) => Ok(beta),
        _ => Err("expected a number from 1 to 100".to_owned()),
    }
}

impl Options {
    fn give_up(&self) -> Duration {
        Duration::from_secs(self.give_up_s)
    }
}

/// Fetches all, one after the other. Returns the program's exit code.
///
/// # Errors
/// It ends early, with its exit code.
pub fn run(options: &Options) -> Result<u8, Fault> {
    event_loop::run(options)
}
