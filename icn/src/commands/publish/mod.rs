// SPDX-License-Identifier: Apache-2.0
//! `weir-icn publish`.

mod directory;
mod event_loop;
mod hashing;
mod live;
mod members;

use super::identity::Serving;
use super::options::{LEAST_HISTORY_BYTES, LEAST_MEMORY_BYTES, name, size};
use crate::names::Name;
use crate::objects::object::sign::SigningKey;
use clap::{ArgGroup, Args};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_io::cert;
use weir_io::fault::{Fault, IO};
use weir_io::files;

/// Offers the files of a folder, or a live stream, under names: one packet for all who want it at once
///
///   weir-icn publish films --name /weir/files --interface eth1 --listen 192.0.2.1:4434
///
/// offers films/a.mp4 as /weir/files/a.mp4. Subscribers come over QUIC to --listen for an object's signed manifest and its
/// key, and then ask for the data by name on the network of --interface. Switches there need a route for --name to this
/// host. When a subscriber leaves, the others get a new key, and what is sent from then on it can't read.
///
/// With --live the content comes from standard input, at the speed at which it is to be watched:
///
///   camera | weir-icn publish --live --name /weir/radio --interface eth1 --listen 192.0.2.1:4434
///
/// The certificate is made on first use; standard error says which file subscribers need of it. Prints "listening ADDRESS:PORT" and "publisher KEY" when it is ready; the key is what --publisher of weir-icn get takes.
/// SIGINT and SIGTERM end it with exit code 0 and one line of JSON that says what it did. Exit codes: 2 usage; 8 a file, an
/// interface or an address can't be used.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("content").required(true).args(["directory", "live"])), verbatim_doc_comment)]
pub struct Options {
    /// Folder whose files are offered, with those in folders below it, but for those whose names begin with a dot or ~
    #[arg(value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Offer standard input as a live stream
    #[arg(long)]
    live: bool,
    /// Name of the folder, or of the live stream
    #[arg(long, value_parser = name, value_name = "NAME")]
    name: Name,
    /// Interface for packets by name
    #[arg(long, value_name = "IF")]
    interface: String,
    /// Say that every subscriber hears every packet of the interface's network (a bridge, a radio): then data that was
    /// just sent is not sent again for a second one who asks. Not for networks with switches that forward by name
    #[arg(long)]
    broadcast: bool,
    /// Offer repair symbols for files (RaptorQ): one of them mends a different loss at each subscriber, so fewer packets
    /// leave where many subscribers lose packets, each its own. Not worth it where caches near the subscribers have what
    /// was lost. Subscribers find it in the manifest
    #[arg(long, conflicts_with = "live")]
    repair: bool,
    /// Memory for segments that are kept sealed, 1MB at least (units: kB, MB)
    #[arg(long, default_value = "8MB", value_parser = |t: &str| size(t, LEAST_MEMORY_BYTES), value_name = "BYTES",
          help_heading = "Limits")]
    memory: u64,
    /// With --live: content that is kept for subscribers that are behind, 64kB at least (units: kB, MB)
    #[arg(long, default_value = "4MB", value_parser = |t: &str| size(t, LEAST_HISTORY_BYTES), value_name = "BYTES",
          help_heading = "Limits")]
    history: u64,
    /// PEM file with the Ed25519 key that signs manifests [default: made on first use, in the same folder as the
    /// certificate that is]
    #[arg(long, value_name = "FILE", help_heading = "Identity")]
    signing_key: Option<PathBuf>,
    #[command(flatten)]
    serving: Serving,
}

/// Runs it until a signal or the end of a live stream ends it.
///
/// # Errors
/// An option or file can't be used.
pub fn run(options: &Options) -> Result<u8, Fault> {
    event_loop::run(options)
}

impl Options {
    /// The key that signs manifests: given, made for this run, or made once and kept.
    fn signer(&self) -> Result<SigningKey, Fault> {
        let internal = "TLS library";
        if let Some(path) = &self.signing_key {
            files::expect_secret(path, files::WRITTEN_BY_OTHERS).map_err(Fault::io(path.display()))?;
            return read_key(path);
        }
        if self.serving.ephemeral {
            return SigningKey::generate().map_err(Fault::internal(internal));
        }
        let dir = self.serving.state_dir.clone().map_or_else(cert::state_dir, Ok)?;
        let path = dir.join("weir-icn-publisher.pem");
        if !path.exists() {
            fs::create_dir_all(&dir).map_err(Fault::io(dir.display()))?;
            files::expect_private_folder(&dir).map_err(Fault::io(dir.display()))?;
            let pem = SigningKey::generate().and_then(|k| k.to_pem()).map_err(Fault::internal(internal))?;
            let (mut file, part) = files::temporary_beside(&path, 0o600).map_err(Fault::io(path.display()))?;
            // A second publisher that starts now takes what the first one made.
            let kept = file.write_all(&pem).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&part, &path));
            let _ = fs::remove_file(&part);
            if let Err(e) = kept
                && !path.exists()
            {
                return Err(Fault::io(path.display())(e));
            }
        }
        files::expect_private_folder(&dir).map_err(Fault::io(dir.display()))?;
        files::expect_secret(&path, files::READ_BY_OTHERS).map_err(Fault::io(path.display()))?;
        read_key(&path)
    }
}

fn read_key(path: &Path) -> Result<SigningKey, Fault> {
    let pem = fs::read(path).map_err(Fault::io(path.display()))?;
    SigningKey::from_pem(&pem).ok_or_else(|| {
        let text = "expected an Ed25519 private key in PEM form, as `openssl genpkey -algorithm ed25519` makes it";
        Fault::new(IO, format!("{}: {text}", path.display()))
    })
}
