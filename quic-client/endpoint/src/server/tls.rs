// SPDX-License-Identifier: Apache-2.0
//! TLS of the server: its certificate and key.

use super::options::Options;
use crate::shared::fault::{Fault, IO, USAGE};
use boring::ssl::{SslContextBuilder, SslMethod};
use std::path::PathBuf;
use weir_core::request::Alpn;
use weir_io::cert::{self, Identity};

/// The certificate and key: given, made for this run, or made once and kept.
fn identity(options: &Options) -> Result<Identity, Fault> {
    let fault = |e: cert::CertError| Fault::new(IO, e.to_string());
    if let (Some(cert), Some(key)) = (&options.cert, &options.key) {
        return cert::load(cert, key).map_err(fault);
    }
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    if !options.listen.ip().is_unspecified() {
        names.push(options.listen.ip().to_string());
    }
    names.extend(options.name.iter().cloned());
    names.dedup();
    if options.ephemeral {
        return cert::make(&names).map_err(fault);
    }
    let dir = match &options.state_dir {
        Some(dir) => dir.clone(),
        None => {
            // XDG Base Directory Specification: relative values are to be ignored.
            let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
            absolute("XDG_STATE_HOME")
                .or_else(|| absolute("HOME").map(|h| h.join(".local/state")))
                .map(|d| d.join("weir"))
                .ok_or_else(|| {
                    let text = "no folder for the certificate: set HOME or XDG_STATE_HOME, or give --state-dir, \
                                --ephemeral, or --cert and --key";
                    Fault::new(USAGE, text)
                })?
        }
    };
    cert::load_or_make(&dir, &names).map_err(fault)
}

/// Makes quiche's configuration with the server's certificate.
///
/// # Errors
/// A certificate that can't be read, made or written.
pub fn config(options: &Options) -> Result<quiche::Config, Fault> {
    let identity = identity(options)?;
    let mut ctx = SslContextBuilder::new(SslMethod::tls()).map_err(Fault::internal("TLS library"))?;
    let mut chain = identity.chain.iter();
    if let Some(leaf) = chain.next() {
        ctx.set_certificate(leaf).map_err(Fault::internal("TLS library"))?;
    }
    for cert in chain {
        ctx.add_extra_chain_cert(cert.clone()).map_err(Fault::internal("TLS library"))?;
    }
    ctx.set_private_key(&identity.key).map_err(Fault::internal("TLS library"))?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx)
        .map_err(Fault::internal("QUIC library"))?;
    options.common.transport(vec![Alpn::H3, Alpn::Hq])?.apply(&mut config).map_err(Fault::internal("QUIC library"))?;
    config.set_active_connection_id_limit(options.max_cids);
    config.set_disable_active_migration(options.forbid_migration);
    Ok(config)
}
